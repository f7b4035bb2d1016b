"""How commands find their Kafka cluster, and what `seckill kafka` prints for its administrators."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from seckill.cli import report
from seckill.cli.__main__ import main
from seckill.cli.context import use_stack_addresses
from seckill.cli.kafka_options import use_cluster
from seckill.config.environment import read
from seckill.config.kafka_clients import client_options
from seckill.messaging.topics import TOPICS

PASSWORD = "SECKILL_KAFKA_SASL_PASSWORD"
FILE = """
bootstrap.servers=a:1
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.username=operator
sasl.password=one
service.analytics.sasl.username=spark
"""


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    """Forget afterwards what a command has put into the environment."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_a_command_uses_the_login_that_the_stack_has_written_down_unless_it_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "environment.json").write_text(json.dumps({PASSWORD: "of the stack"}))
    os.environ[f"{PASSWORD}_FILE"] = "/run/secrets/kafka"
    use_stack_addresses(tmp_path)
    assert PASSWORD not in os.environ, "both would stop the command"
    del os.environ[f"{PASSWORD}_FILE"]
    use_stack_addresses(tmp_path)
    assert os.environ[PASSWORD] == "of the stack"


def test_the_report_logs_in_as_the_stack_has_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    login = {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SASL_MECHANISM": "PLAIN", "SASL_USERNAME": "ann"}
    written = {f"SECKILL_KAFKA_{name}": value for name, value in login.items()} | {PASSWORD: "x"}
    (tmp_path / "run").mkdir()
    addresses = {"KAFKA_BOOTSTRAP_SERVERS": "k:9093"}
    (tmp_path / "run" / "environment.json").write_text(json.dumps(written | addresses))
    monkeypatch.setattr(report, "data_folder", lambda: tmp_path)
    found = client_options(report._addresses().kafka)
    assert found["bootstrap_servers"] == "k:9093"
    assert found["sasl_plain_username"] == "ann"


def test_statistics_read_another_cluster_as_their_own_principal(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(FILE)
    use_cluster(None, path, "analytics")
    found = read(os.environ)
    assert (found.kafka_bootstrap_servers, found.kafka_sasl_username) == ("a:1", "spark")
    use_cluster("b:2", None, "analytics")
    assert read(os.environ).kafka_bootstrap_servers == "b:2"


def test_the_rights_are_printed_as_commands_with_the_administrators_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--bootstrap-server", "k:9093", "--principal", "gateway=shop", "--data", str(tmp_path)]
    assert main(["kafka", "acls", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("kafka-acls --bootstrap-server k:9093 ") for line in lines)
    assert any("User:shop" in line for line in lines) and not any("User:gateway" in line for line in lines)
    assert main(["kafka", "acls", "--principal", "shop=x", "--data", str(tmp_path)]) == 2
    assert "NAME one of gateway, inventory, orders," in capsys.readouterr().err


def test_the_topics_are_printed_as_commands_with_every_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kafka", "topics", "--bootstrap-server", "k:9093", "--data", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * len(TOPICS)
    [requests] = [line for line in lines if "--topic purchase.requests " in line]
    for words in ("--partitions 12", "--replication-factor 3", "min.insync.replicas=2", "LogAppendTime"):
        assert words in requests
