"""A start that cannot succeed ends with one line that names the cause."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from seckill.stack.broker_process import BrokerProcess
from seckill.stack.child_processes import free_port
from tests.conformance.committed_offsets import MQCORE
from tests.conformance.raw import (
    METADATA,
    Wire,
)

LOG_LINE = re.compile(r"\d{4}-\d\d-\d\dT\S+ (INFO|ERROR) ")


def failed_start(*arguments: str | Path) -> str:
    """The one line that a failed start prints."""
    ended = subprocess.run([*MQCORE, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if not LOG_LINE.match(line)]
    assert len(lines) == 1 and lines[0].startswith("mqcore: "), ended.stderr
    return lines[0]


def test_a_second_process_on_the_same_folder_is_refused_and_the_first_continues(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = new_broker().start()
    says = failed_start("--data", broker.data, "--listen", f"127.0.0.1:{free_port()}")
    assert "in use" in says and str(broker.pid) in says
    with Wire(broker.port) as wire:
        wire.create(topic)
        assert wire.produce(topic).error_code == 0


def test_the_error_names_a_port_in_use(broker: BrokerProcess, tmp_path: Path) -> None:
    says = failed_start("--data", tmp_path / "data", "--listen", broker.address)
    assert broker.address in says and "in use" in says


def test_the_error_names_a_metrics_port_in_use(broker: BrokerProcess, tmp_path: Path) -> None:
    listen = ("--listen", f"127.0.0.1:{free_port()}")
    says = failed_start("--data", tmp_path / "data", *listen, "--set", f"metrics.listener={broker.address}")
    assert broker.address in says


def test_the_error_names_an_address_of_another_machine(tmp_path: Path) -> None:
    assert "192.0.2.1:9092" in failed_start("--data", tmp_path / "data", "--listen", "192.0.2.1:9092")
    assert "no.such.host.invalid" in failed_start("--data", tmp_path / "d2", "--listen", "no.such.host.invalid:9092")


def test_the_error_names_an_unusable_data_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        assert str(folder) in failed_start("--data", folder, "--listen", f"127.0.0.1:{free_port()}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_the_error_names_a_read_only_data_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    assert str(tmp_path / "data") in failed_start("--data", tmp_path / "data", "--listen", f"127.0.0.1:{free_port()}")


def test_a_folder_of_another_node_is_refused(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker().start()
    broker.stop()
    says = failed_start("--data", broker.data, "--listen", broker.address, "--set", "node.id=7")
    assert "belongs to node" in says and "node.id is 7" in says


def test_a_corrupt_metadata_log_prevents_the_start(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    broker = new_broker().start()
    with Wire(broker.port) as wire:
        for number in range(5):
            wire.create(f"{topic}-{number}")
    broker.kill()
    (log,) = (broker.data / "__cluster_metadata-0").glob("*.log")
    content = bytearray(log.read_bytes())
    content[100] ^= 0xFF
    log.write_bytes(content)
    says = failed_start("--data", broker.data, "--listen", broker.address, "--log-level", "error").lower()
    assert "metadata log" in says and "corrupt" in says


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "no.such.thing=1"], "no.such.thing"),
        (["--set", "num.partitions=none"], "num.partitions"),
        (["--listen", "nowhere"], "listeners"),
        (["--config", "no-such-file.toml"], "no-such-file.toml"),
    ],
)
def test_the_error_names_a_wrong_setting(arguments: list[str], says: str, tmp_path: Path) -> None:
    assert says in failed_start("--data", tmp_path / "data", *arguments)
    assert not (tmp_path / "data").exists()  # nothing was created


def test_the_error_names_a_mistake_in_the_configuration_file(tmp_path: Path, topic: str) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('[num]\npartitions = 3\n[lgo]\ndirs = "x"\n')
    assert "lgo.dirs" in failed_start("--config", file)
    file.write_text("[num]\npartitions = 3\n")

    class Configured(BrokerProcess):
        def command(self) -> list[str]:
            return [*super().command(), "--config", str(file)]

    with Configured(tmp_path / "broker") as broker, Wire(broker.port) as wire:
        assert len(wire.ask(METADATA, 1, {"topics": [{"name": topic}]}).topics[0].partitions) == 3


@pytest.mark.parametrize("command", [[], ["serve"], ["dump"], ["doctor"]])
def test_every_command_has_help(command: list[str]) -> None:
    shown = subprocess.run([*MQCORE, *command, "--help"], capture_output=True, text=True, timeout=30, check=True).stdout
    assert shown.startswith("usage: mqcore") and len(shown.splitlines()) > 5
