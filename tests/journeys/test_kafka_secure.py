"""A sale on Apache Kafka as people run it: three nodes, TLS with host names verified, passwords, rights for each
service, and sessions that end every two seconds. `make night` breaks such a cluster while it sells."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from gateway.batch_producer import BatchProducer
from loadtest.kafka_cluster import ApacheKafkaCluster
from seckill.config.kafka_bootstrap import bootstrap_failure
from seckill.config.kafka_clients import client_options
from seckill.config.kafka_properties import read_kafka_config
from seckill.messaging import log_bounds
from seckill.messaging.record_position import RecordPosition
from seckill.stack.broker_network import EVERYTHING
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
SETTINGS = {
    "auto.create.topics.enable": "false",
    "listener.name.sasl_ssl.scram-sha-512.connections.max.reauth.ms": "2000",
}
PATIENCE_S = 60.0
UNVERIFIED = "CERTIFICATE_VERIFY_FAILED"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafkaCluster]:
    folder = tmp_path_factory.mktemp("secure-kafka")
    cluster = ApacheKafkaCluster(folder, SETTINGS, secure=True, has_network=True)
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
    for variables, address, reason in (
        (good | {"SECKILL_KAFKA_SASL_PASSWORD": "wrong"}, cluster.address, "SaslAuthenticationFailedError"),
        ({name: value for name, value in good.items() if not name.endswith("CAFILE")}, cluster.address, UNVERIFIED),
        (good, by_number, "IP address mismatch"),
    ):
        with pytest.raises(KafkaError):
            open_admin(cluster, variables, address)
        assert reason in bootstrap_failure()
    unchecked = good | {"SECKILL_KAFKA_SSL_CHECK_HOSTNAME": "false"}
    open_admin(cluster, unchecked, by_number).close()


@pytest.fixture
def topic(cluster: ApacheKafkaCluster) -> str:
    """A new topic of the administrator."""
    admin = open_admin(cluster, login(cluster, None, "admin.properties"))
    name = f"test.{time.time_ns()}"
    admin.create_topics([NewTopic(name, 1, 3)])
    admin.close()
    return name


def test_the_network_between_the_nodes_can_be_cut_although_they_speak_tls(
    cluster: ApacheKafkaCluster, topic: str
) -> None:
    options = client_options(cluster.address, login(cluster, None, "admin.properties"))
    producer = KafkaProducer(**options, acks="all", delivery_timeout_ms=3000, request_timeout_ms=2000, linger_ms=0)
    producer.send(topic, b"before").get(PATIENCE_S)
    held = cluster.network.count_held()
    with cluster.network.cut(EVERYTHING), pytest.raises(KafkaError):
        producer.send(topic, b"meanwhile").get(PATIENCE_S)
    assert cluster.network.count_held() > held
    producer.close()


def test_sessions_that_end_cost_the_gateway_no_record(
    cluster: ApacheKafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """aiokafka does not log in again (KIP-368), so the broker closes the connection at the next request. It has not
    looked at that request, so sending it again repeats nothing."""
    variables = login(cluster, None, "admin.properties")

    async def send_until_two_sessions_have_ended() -> list[Any]:
        producer = BatchProducer(client_options(cluster.address, variables), [topic])
        await producer.connect()
        running = asyncio.create_task(producer.run())
        settled: list[asyncio.Future[Any]] = []
        async with asyncio.timeout(PATIENCE_S):
            while sum("request to the broker failed" in each.message for each in caplog.records) < 2:
                future = asyncio.get_running_loop().create_future()
                settled.append(future)
                record = producer.send(topic, key=b"ann", value=b"%d" % len(settled), headers=[], partition=0)
                record.add_both(future.set_result)
                await asyncio.sleep(0.02)
            outcomes = await asyncio.gather(*settled)
        running.cancel()
        await producer.close(0)
        return outcomes

    outcomes = asyncio.run(send_until_two_sessions_have_ended())
    assert outcomes == [RecordPosition(topic, 0, offset) for offset in range(len(outcomes))]
    admin = open_admin(cluster, variables)
    [end] = log_bounds.end_offsets(admin, [TopicPartition(topic, 0)]).values()
    admin.close()
    assert end == len(outcomes), "the log has each record once"


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
        statuses = {json.loads(line).get("status") for line in log_of(stack).read_text().splitlines()}
        assert 202 in statuses and not statuses & {0, 500, 503}, "buyers noticed that sessions end"
        assert "inventory" in stack.run_command("lag")
        assert "every topic that exists fits, and no right is missing" in stack.run_command(
            "kafka", "check", "--kafka-config", config
        )
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
