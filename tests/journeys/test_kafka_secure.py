"""A sale on Apache Kafka as people run it: three nodes, TLS with host names verified, passwords, and rights for each
service. `make night` breaks such a cluster while it sells."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from loadtest.kafka_cluster import ApacheKafkaCluster
from seckill.config.kafka_clients import client_options
from seckill.config.kafka_properties import read_kafka_config
from tests.conformance.peer import IS_KAFKA
from tests.journeys.stack import Stack
from tests.journeys.test_report import judged, log_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.needs("java", "mvn"),
    pytest.mark.skipif(IS_KAFKA, reason="the whole test run already uses Kafka"),
]

UNITS, BUYERS = 5, 20
FINE = ("PASS", "NOT RUN")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafkaCluster]:
    folder = tmp_path_factory.mktemp("secure-kafka")
    cluster = ApacheKafkaCluster(folder, {"auto.create.topics.enable": "false"}, secure=True)
    try:
        yield cluster.start()
    finally:
        cluster.kill()  # stopped one by one, the last node would wait for the others


def login(cluster: ApacheKafkaCluster, principal: str | None, file: str = "client.properties") -> dict[str, str]:
    return read_kafka_config(cluster.folder / file).variables_of(principal)


def open_admin(cluster: ApacheKafkaCluster, variables: dict[str, str], address: str | None = None) -> KafkaAdminClient:
    options = client_options(address or cluster.address, variables)
    return KafkaAdminClient(**options, request_timeout_ms=5000, bootstrap_timeout_ms=8000)


@pytest.mark.parametrize("file", ["client.properties", "plain.properties"])
def test_an_operator_logs_in_with_either_mechanism_over_a_verified_connection(
    cluster: ApacheKafkaCluster, file: str
) -> None:
    admin = open_admin(cluster, login(cluster, None, file))
    assert len(admin.describe_cluster()["brokers"]) == 3
    admin.close()


def test_a_wrong_password_a_foreign_authority_and_a_foreign_host_name_are_refused(
    cluster: ApacheKafkaCluster,
) -> None:
    good = login(cluster, None)
    by_number = cluster.address.replace("localhost", "127.0.0.1")  # the certificate is valid for `localhost` only
    for variables, address in (
        (good | {"SECKILL_KAFKA_SASL_PASSWORD": "wrong"}, cluster.address),
        ({name: value for name, value in good.items() if not name.endswith("CAFILE")}, cluster.address),
        (good, by_number),
    ):
        with pytest.raises(KafkaError):
            open_admin(cluster, variables, address)
    unchecked = good | {"SECKILL_KAFKA_SSL_CHECK_HOSTNAME": "false"}
    open_admin(cluster, unchecked, by_number).close()


def test_a_sale_with_one_principal_for_each_service_sells_out_and_the_books_balance(
    cluster: ApacheKafkaCluster, tmp_path: Path
) -> None:
    config = str(cluster.folder / "client.properties")
    stack = Stack(tmp_path / "stack", "--kafka", cluster.address, "--kafka-config", config)
    stack.start()
    try:
        assert "topic setting" not in stack.output_text, "a topic that the sale makes itself must fit"
        sale = stack.create_sale(UNITS)
        words = ["--url", stack.gateway, "--sale", str(sale), "--buyers", str(BUYERS), "--over", "4", "--pay", "1"]
        command = [sys.executable, "-m", "loadtest.rush", *words, "--cancel", "0", "--log", str(log_of(stack))]
        subprocess.run(command, check=True, capture_output=True, timeout=200)
        assert "inventory" in stack.run_command("lag")
        assert "every topic that exists fits" in stack.run_command("kafka", "check")
        code, said = judged(stack)
        failed = [(each["name"], each["reasons"]) for each in said["invariants"] if each["verdict"] not in FINE]
        assert (code, failed) == (0, [])
    finally:
        assert stack.stop() == 0
    _assert_least_rights(cluster)


def _assert_least_rights(cluster: ApacheKafkaCluster) -> None:
    """Inventory, which has just worked, may neither write another service's topic nor delete anything."""
    variables = login(cluster, "inventory")
    producer = KafkaProducer(**client_options(cluster.address, variables), max_block_ms=8000)
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send("order.events", b"forged").get(10)
    producer.close()
    admin = open_admin(cluster, variables)
    with pytest.raises(KafkaError):
        admin.delete_records({TopicPartition("inventory.decisions", 0): 1})
    admin.close()
