"""The cluster of Apache Kafka that people can try the sale on: its files and settings. No node is started."""

from __future__ import annotations

import json
import socket
import ssl
from pathlib import Path

import pytest

from loadtest import kafka_cluster
from loadtest.kafka_cluster import ApacheKafkaCluster, ApacheKafkaNode, KafkaSupervisor, first_port, main
from loadtest.kafka_security import OPERATIONS, KafkaSecurity
from seckill.config.kafka_properties import SERVICES, read_kafka_config
from seckill.lab.kafka_brokers import KafkaNetwork
from seckill.lab.kafka_target import KafkaTarget
from seckill.messaging.kafka_acls import access_table
from seckill.stack.broker_network import from_broker
from seckill.stack.child_processes import wait_until
from seckill.stack.control import StackFault

FIRST = 20_500
USER, PASSWORD = "SECKILL_KAFKA_SASL_USERNAME", "SECKILL_KAFKA_SASL_PASSWORD"


@pytest.fixture
def security(tmp_path: Path) -> KafkaSecurity:
    return KafkaSecurity(tmp_path / "security")


def test_clients_verify_the_nodes_and_only_under_the_name_localhost(security: KafkaSecurity) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(security.folder / "node.pem")  # the key and the chain, as Kafka reads them
    shake_hands(server, security.tls(), "localhost")
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        shake_hands(server, security.tls(), "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed|self signed|unable to get local issuer"):
        shake_hands(server, ssl.create_default_context(), "localhost")


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """A handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass


def test_secrets_are_made_once_and_are_readable_by_this_user_only(security: KafkaSecurity) -> None:
    assert KafkaSecurity(security.folder).passwords == security.passwords
    assert len(set(security.passwords.values())) == len(security.passwords)
    for name in ("node.pem", "users.json"):
        assert (security.folder / name).stat().st_mode & 0o077 == 0


def test_the_client_file_has_a_login_for_each_service_that_the_nodes_know(
    security: KafkaSecurity, tmp_path: Path
) -> None:
    security.write_client_files(tmp_path, "localhost:1,localhost:2")
    config = read_kafka_config(tmp_path / "client.properties")
    assert config.bootstrap_servers == "localhost:1,localhost:2"
    for principal in (*SERVICES, None):
        found = config.variables_of(principal)
        assert found[USER] == (principal or "operator")
        assert found[PASSWORD] == security.passwords[found[USER]]
    assert read_kafka_config(tmp_path / "admin.properties").variables[USER] == "admin"
    assert read_kafka_config(tmp_path / "plain.properties").variables["SECKILL_KAFKA_SASL_MECHANISM"] == "PLAIN"
    assert (tmp_path / "client.properties").stat().st_mode & 0o077 == 0


def test_every_operation_of_the_table_can_be_granted() -> None:
    assert {operation for row in access_table() for operation in row.operations} <= OPERATIONS.keys()


def test_a_secure_cluster_has_no_listener_in_plain_text_and_three_replicas(tmp_path: Path) -> None:
    cluster = ApacheKafkaCluster(tmp_path, first_port=FIRST, secure=True)
    assert cluster.address == f"localhost:{FIRST},localhost:{FIRST + 1},localhost:{FIRST + 2}"
    for node in cluster.nodes.values():
        assert "PLAINTEXT" not in json.dumps(node.settings)
        assert "127.0.0.1" not in node.settings["controller.quorum.voters"]
        assert node.settings["super.users"] == "User:admin;User:broker"
        assert (node.settings["default.replication.factor"], node.settings["min.insync.replicas"]) == ("3", "2")


def test_a_cluster_in_plain_text_is_as_before(tmp_path: Path) -> None:
    cluster = ApacheKafkaCluster(tmp_path, first_port=FIRST)
    assert cluster.nodes[2].settings["listeners"].startswith(f"PLAINTEXT://127.0.0.1:{FIRST + 1},")
    assert not (tmp_path / "security").exists()


def test_the_folder_remembers_its_ports(tmp_path: Path) -> None:
    assert first_port(tmp_path, FIRST) == first_port(tmp_path, None) == FIRST
    with pytest.raises(StackFault, match=f"has its ports from {FIRST} on"):
        first_port(tmp_path, FIRST + 6)


def test_an_existing_cluster_does_not_become_secure_afterwards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "1" / "data").mkdir(parents=True)
    assert main(["--data", str(tmp_path), "--secure"]) == 2
    assert "has a cluster without --secure; choose another --data" in capsys.readouterr().err


def test_a_cluster_of_an_older_version_without_a_relay_is_not_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "1" / "data").mkdir(parents=True)
    assert main(["--data", str(tmp_path)]) == 2
    assert "without a relay, of an older version; choose another --data" in capsys.readouterr().err


def test_nodes_verify_one_another_by_the_names_that_lead_to_the_relay(tmp_path: Path) -> None:
    cluster = ApacheKafkaCluster(tmp_path, first_port=FIRST, secure=True, has_network=True)
    assert cluster.security is not None
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cluster.security.folder / "node.pem")
    for node in cluster.nodes.values():
        assert isinstance(node, ApacheKafkaNode)
        assert "PLAINTEXT" not in json.dumps(node.settings)
        assert f"-Djdk.net.hosts.file={node.folder / 'hosts'}" in node.command()
        for voter in node.settings["controller.quorum.voters"].split(","):
            name = voter.partition("@")[2].partition(":")[0]
            assert f" {name}" in node.hosts
            shake_hands(server, cluster.security.tls(), name)


def test_commands_of_a_fault_case_reach_the_relay_between_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ApacheKafkaCluster(tmp_path, has_network=True)
    supervisor = KafkaSupervisor(cluster)
    monkeypatch.setattr(KafkaTarget, "send", lambda _, command: supervisor.execute(command))
    network = KafkaNetwork(KafkaTarget(cluster.address, nodes=tmp_path))
    with cluster.network:
        port = cluster.network.ports.relayed_listener(2)
        with network.cut(from_broker(1)), socket.create_connection(("127.0.1.1", port)):
            wait_until(lambda: network.count_held() == 1, "the relay to hold the connection of node 1", 10.0)
        relay = cluster.network._process
        assert relay is not None
        relay.kill()
        relay.wait()
        with pytest.raises(StackFault, match="the relay between the brokers has ended"):
            network.count_held()


def test_the_help_shows_how_to_use_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert "seckill up --kafka-config var/kafka/client.properties" in text
    assert kafka_cluster.__doc__ and "--secure" in text
