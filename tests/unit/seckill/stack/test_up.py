"""`seckill up` stops what it has started, however it ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seckill.stack import up
from seckill.stack.control import StackFault


class FailingSupervisor:
    stopped = 0
    fault: Exception

    def __init__(self, *arguments: Any, **more: Any) -> None:
        pass

    def start(self) -> None:
        raise self.fault

    def stop(self) -> None:
        type(self).stopped += 1


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FailingSupervisor]]:
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    handlers = [signal.getsignal(number) for number in signals]
    monkeypatch.setattr(up, "Supervisor", FailingSupervisor)
    monkeypatch.setattr("os.umask", lambda mask: 0)
    monkeypatch.setattr(FailingSupervisor, "stopped", 0)
    yield FailingSupervisor
    for number, handler in zip(signals, handlers, strict=True):
        signal.signal(number, handler)


def test_a_fault_of_the_start_is_one_line_and_stops_the_servers(
    tmp_path: Path, supervisor: type[FailingSupervisor], capsys: pytest.CaptureFixture[str]
) -> None:
    supervisor.fault = StackFault("no room")
    assert up.up(tmp_path, {}, {}, None) == 1
    assert capsys.readouterr().err == "seckill: no room\n"
    assert supervisor.stopped == 1


def test_a_bug_stops_the_servers_too(tmp_path: Path, supervisor: type[FailingSupervisor]) -> None:
    supervisor.fault = RuntimeError("a bug")
    with pytest.raises(RuntimeError):
        up.up(tmp_path, {}, {}, None)
    assert supervisor.stopped == 1
