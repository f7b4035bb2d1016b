"""An experiment on a Kafka cluster: which cluster, whose login, and what is deleted there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from kafka import TopicPartition

import seckill.lab.faults.cases  # noqa: F401  # fills the table
from seckill.cli.__main__ import main
from seckill.lab import kafka_target
from seckill.lab.faults.case import CASES
from seckill.lab.faults.results import blank_result
from seckill.lab.kafka_brokers import KafkaBrokers
from seckill.lab.kafka_target import KafkaTarget, choose_kafka
from seckill.messaging.topics import TOPICS
from seckill.stack.control import StackFault
from seckill.stack.services import Layout

LOGIN = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username={user}\nsasl.password=x\n"
USER = "SECKILL_KAFKA_SASL_USERNAME"
ADDRESS = "a:1,b:2,c:3"


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    """Forget afterwards how this process has logged in."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """What `python -m loadtest.kafka_cluster` leaves for clients."""
    (tmp_path / "client.properties").write_text(f"bootstrap.servers={ADDRESS}\n" + LOGIN.format(user="operator"))
    (tmp_path / "admin.properties").write_text(LOGIN.format(user="admin"))
    return tmp_path


def test_the_folder_of_the_nodes_says_where_the_cluster_is_and_how_to_log_in(
    nodes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(USER, "from the shell")
    found = choose_kafka(None, None, nodes, may_delete=False)
    assert found is not None
    assert (found.address, found.config_file) == (ADDRESS, nodes / "client.properties")
    assert found.config.variables_of("orders")[USER] == "operator"
    found.log_in()
    assert os.environ[USER] == "admin"


def test_without_options_the_experiment_uses_mqcore_and_no_login_of_the_shell() -> None:
    assert choose_kafka(None, None, None, may_delete=False) is None


class FakeAdmin:
    """A cluster with these topics; `ends` are the log ends of their partitions."""

    topics: ClassVar[list[str]] = []
    ends: ClassVar[dict[str, int]] = {}

    def __init__(self, **options: object) -> None:
        pass

    def describe_topics(self, wanted: list[str]) -> list[dict[str, Any]]:
        partition = {"partition_index": 0, "leader_id": 1, "error_code": 0}
        return [
            {"name": name, "error_code": 0 if name in self.topics else 3, "partitions": [partition]} for name in wanted
        ]

    def list_partition_offsets(self, wanted: dict[TopicPartition, object], timeout_ms: int) -> dict[Any, Any]:
        return {each: type("At", (), {"offset": self.ends.get(each.topic, 0)}) for each in wanted}

    def delete_topics(self, names: list[str]) -> None:
        for name in names:
            self.topics.remove(name)

    def close(self) -> None:
        pass


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> type[FakeAdmin]:
    monkeypatch.setattr(kafka_target, "KafkaAdminClient", FakeAdmin)
    monkeypatch.setattr(FakeAdmin, "topics", [*TOPICS, "somebody.elses"])
    monkeypatch.setattr(FakeAdmin, "ends", {})
    return FakeAdmin


def test_records_of_a_real_sale_are_deleted_only_if_that_is_asked_for(admin: type[FakeAdmin]) -> None:
    admin.ends["order.events"] = 5
    with pytest.raises(StackFault, match="have records of another sale.*--recreate-topics"):
        KafkaTarget(ADDRESS).empty_topics()
    assert len(admin.topics) == len(TOPICS) + 1
    KafkaTarget(ADDRESS, may_delete=True).empty_topics()
    assert admin.topics == ["somebody.elses"]


def test_empty_topics_that_somebody_made_beforehand_stay(admin: type[FakeAdmin]) -> None:
    KafkaTarget(ADDRESS).empty_topics()
    assert set(TOPICS) < set(admin.topics)


def test_a_cluster_that_was_started_for_experiments_is_emptied_each_time(admin: type[FakeAdmin], nodes: Path) -> None:
    admin.ends["order.events"] = 5
    KafkaTarget(ADDRESS, nodes=nodes).empty_topics()
    assert admin.topics == ["somebody.elses"]


def test_the_nodes_have_the_names_and_addresses_of_their_numbers(nodes: Path) -> None:
    found = KafkaBrokers(Layout(nodes / "stack"), KafkaTarget(ADDRESS, nodes=nodes))
    assert list(found.numbers) == [1, 2, 3]
    assert (found.process(2), found.address(2), found.service) == ("kafka.2", "b:2", "kafka")
    assert found.folder(2) == nodes / "2" / "data"


# ── the fault cases ──────────────────────────────────────────────────────────────────────────────


def why_not(case: str, brokers: int, kafka: KafkaTarget | None) -> str:
    row = blank_result(CASES[case], brokers, kafka)
    assert (row.verdict == "NOT RUN") is bool(row.why)
    return row.why


def test_a_case_that_stops_brokers_needs_their_processes(nodes: Path) -> None:
    far, near = KafkaTarget(ADDRESS), KafkaTarget(ADDRESS, nodes=nodes)
    for name in ("broker-down", "leader-killed", "breaker-probe", "minority-cut-off"):
        assert "not within reach (--kafka-nodes)" in why_not(name, 1, far)
        assert why_not(name, 3, near) == ""
    assert why_not("double-click", 1, far) == why_not("commit-lost", 1, far) == ""


def test_a_case_that_only_mqcore_can_run_says_why(nodes: Path) -> None:
    near = KafkaTarget(ADDRESS, nodes=nodes)
    for name in ("power-lost", "partition-offline", "broker-wiped"):
        assert why_not(name, 3, near).startswith("not on Apache Kafka: ")
        assert why_not(name, 3, None) == ""


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--recreate-topics"], "--kafka HOST:PORT is missing"),
        (["--kafka", "k:1", "--brokers", "3"], "with --kafka there are none"),
        (["--kafka-config", "nowhere.properties"], "nowhere.properties cannot be read"),
    ],
)
def test_options_that_do_not_fit_together_are_refused_before_anything_starts(
    words: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["demo", "--quick"], ["faults", "run", "41"]):
        assert main([*command, *words, "--data", str(tmp_path / "data")]) == 2
        assert line in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
