"""The stack of a fault run: its ports, and which processes a case freezes. Nothing is started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seckill.lab.faults.fault_stack import FaultStack
from seckill.lab.kafka_brokers import KafkaNetwork
from seckill.lab.kafka_target import KafkaTarget
from seckill.stack.broker_network import PORTS_COUNT, BrokerNetwork
from seckill.stack.mqcore_brokers import NETWORK_VARIABLE
from seckill.stack.process_log import is_frozen

FIRST_PORT = 26_000
NAMES = ("mqcore.1", "mqcore.2", "mqcore.3", "redis")


@pytest.mark.parametrize("brokers", [1, 3])
def test_no_two_servers_of_a_stack_share_a_port(brokers: int, tmp_path: Path) -> None:
    stack = FaultStack(tmp_path, FIRST_PORT, brokers=brokers)
    ports = [*stack.layout.own_ports().values(), stack.second_port]
    if brokers > 1:
        first = int(stack.started_with[NETWORK_VARIABLE])
        ports += range(first, first + PORTS_COUNT)
    assert len(ports) == len(set(ports))
    assert min(ports) >= FIRST_PORT
    assert stack.command()[-3:-1] == ["--brokers", str(brokers)]


def test_only_several_brokers_have_a_network_between_them(tmp_path: Path) -> None:
    alone, three = (FaultStack(tmp_path, FIRST_PORT, brokers=brokers) for brokers in (1, 3))
    assert NETWORK_VARIABLE not in alone.started_with
    assert int(three.started_with[NETWORK_VARIABLE]) >= FIRST_PORT
    assert isinstance(three.network, BrokerNetwork)


def test_the_network_of_a_kafka_cluster_belongs_to_the_program_that_runs_the_nodes(tmp_path: Path) -> None:
    kafka = KafkaTarget("a:1,b:2,c:3", nodes=tmp_path)
    assert isinstance(FaultStack(tmp_path / "stack", FIRST_PORT, kafka=kafka).network, KafkaNetwork)


class Sleepers(FaultStack):
    """Three brokers and Redis; each is a process that sleeps."""

    def __init__(self, folder: Path, pids: dict[str, int]) -> None:
        super().__init__(folder, FIRST_PORT, brokers=3)
        self._pids = pids

    def processes(self) -> dict[str, dict[str, object]]:
        return {name: {"pid": pid} for name, pid in self._pids.items()}


@pytest.fixture
def pids() -> Iterator[dict[str, int]]:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    started = [subprocess.Popen(command, start_new_session=True) for _ in NAMES]
    yield {name: each.pid for name, each in zip(NAMES, started, strict=True)}
    for each in started:
        each.kill()
        each.wait()


@pytest.mark.parametrize(
    ("name", "frozen"),
    [("mqcore.2", {"mqcore.2"}), ("mqcore", {"mqcore.1", "mqcore.2", "mqcore.3"}), ("redis", {"redis"})],
)
def test_a_process_is_frozen_by_its_name_and_a_service_with_all_its_processes(
    name: str, frozen: set[str], pids: dict[str, int], tmp_path: Path
) -> None:
    stack = Sleepers(tmp_path, pids)
    with stack.frozen(name):
        for each in frozen:
            os.waitid(os.P_PID, pids[each], os.WSTOPPED | os.WNOWAIT)
        assert {each for each in NAMES if is_frozen(pids[each])} == frozen
    for each in frozen:
        os.waitid(os.P_PID, pids[each], os.WCONTINUED | os.WNOWAIT)
    assert not any(is_frozen(pid) for pid in pids.values())


def test_the_only_broker_is_the_leading_one_and_need_not_be_asked(tmp_path: Path) -> None:
    assert FaultStack(tmp_path, FIRST_PORT).leading_broker == "mqcore"
