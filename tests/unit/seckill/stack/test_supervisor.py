"""The supervisor with real, tiny processes: the order in which it stops them, and what it notices about them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seckill.stack import services as table
from seckill.stack.child_processes import wait_until
from seckill.stack.control import StackFault
from seckill.stack.health_checks import ready_file
from seckill.stack.process_instance import Instance
from seckill.stack.process_log import is_frozen
from seckill.stack.services import Layout, Service
from seckill.stack.supervisor import Supervisor

# It reports that it is ready. On SIGTERM it waits for the file `release`, then records its end.
PROGRAM = """
import os, pathlib, signal, time
name, folder = os.environ["SECKILL_STACK_NAME"], pathlib.Path(os.environ["SUPERVISOR_TEST_FOLDER"])

def stop(*_):
    (folder / f"{name}.asked").touch()
    while not (folder / "release").exists():
        time.sleep(0.01)
    with (folder / "ended").open("a") as file:
        file.write(name + "\\n")
    raise SystemExit(0)

signal.signal(signal.SIGTERM, stop)
pathlib.Path(os.environ["SECKILL_READY_FILE"]).touch()
while True:
    time.sleep(1)
"""


def tiny(name: str, *, is_server: bool = False, is_called: bool = False) -> Service:
    return Service(
        name, lambda layout, number: ([sys.executable, "-c", PROGRAM], {}), ready_file, is_server=is_server,
        is_called=is_called,
    )  # fmt: skip


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """A server, a service that others call, and two services that only call; each is one real process."""
    rows = [tiny("server", is_server=True), tiny("called", is_called=True), tiny("one"), tiny("other")]
    monkeypatch.setattr("seckill.stack.supervisor.services", lambda layout: rows)
    monkeypatch.setenv("SUPERVISOR_TEST_FOLDER", str(tmp_path))
    (tmp_path / "run").mkdir()
    (tmp_path / "logs").mkdir()
    supervisor = Supervisor(Layout(tmp_path), {}, lambda text: None)
    for instance in supervisor.instances:
        instance.spawn()
    for instance in supervisor.instances:
        wait_until(instance.is_healthy, instance.name)
    yield supervisor
    for instance in supervisor.instances:
        instance.kill()
        instance.reap()


def ended(folder: Path) -> list[str]:
    path = folder / "ended"
    return path.read_text().split() if path.exists() else []


def test_services_that_only_call_others_are_all_asked_to_stop_before_any_of_them_has_ended(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """Both wait for a file that appears after both were asked, so asking them one by one would never end."""
    import threading

    stopping = threading.Thread(target=supervisor.stop)
    stopping.start()
    for name in ("one", "other"):
        wait_until((tmp_path / f"{name}.asked").exists, f"{name} to be asked")
    assert not (tmp_path / "called.asked").exists() and not (tmp_path / "server.asked").exists()
    (tmp_path / "release").touch()
    stopping.join(30)
    assert not stopping.is_alive()
    assert set(ended(tmp_path)[:2]) == {"one", "other"}


def test_a_service_that_others_call_is_asked_to_stop_when_all_its_callers_have_ended(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    (tmp_path / "release").touch()
    supervisor.stop()
    assert ended(tmp_path)[2:] == ["called", "server"]


def test_the_real_table_stops_the_sandbox_and_the_servers_alone_and_everything_else_together(tmp_path: Path) -> None:
    rows = table.services(Layout(tmp_path))
    assert [row.name for row in rows if row.stops_alone] == ["postgres", "redis", "mqcore", "sandbox"]
    assert all(row.stops_alone for row in rows[:4]), "they start first, so they stop last"


# ── what it notices ──────────────────────────────────────────────────────────────────────────────


def observed(folder: Path) -> list[tuple[str, object]]:
    path = folder / "evidence" / "observed.jsonl"
    lines = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return [(line["what"], line.get("code")) for line in lines]


@pytest.fixture
def instance(supervisor: Supervisor) -> Instance:
    return supervisor.instances[-1]


def process(instance: Instance) -> subprocess.Popen[bytes]:
    assert instance.process is not None
    return instance.process


def test_a_process_that_is_killed_by_hand_is_recorded_with_its_signal_and_restarted(
    supervisor: Supervisor, instance: Instance, tmp_path: Path
) -> None:
    supervisor.check(instance)
    assert observed(tmp_path) == []
    first = process(instance)
    first.kill()
    first.wait()
    supervisor.check(instance)
    assert observed(tmp_path) == [("died", -signal.SIGKILL)]
    supervisor.check(instance)
    assert not instance.is_running, "the restart has to wait"
    instance.restart_at = 0.0
    supervisor.check(instance)
    assert instance.is_running and process(instance).pid != first.pid


def test_a_process_that_is_frozen_is_recorded_once_and_again_when_it_resumes(
    supervisor: Supervisor, instance: Instance, tmp_path: Path
) -> None:
    pid = process(instance).pid
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    assert is_frozen(pid)
    supervisor.check(instance)
    supervisor.check(instance)
    os.kill(pid, signal.SIGCONT)
    os.waitid(os.P_PID, pid, os.WCONTINUED | os.WNOWAIT)
    supervisor.check(instance)
    assert observed(tmp_path) == [("frozen", None), ("thawed", None)]


def test_a_stop_by_command_is_recorded_and_the_end_of_the_stack_is_not(
    supervisor: Supervisor, instance: Instance, tmp_path: Path
) -> None:
    (tmp_path / "release").touch()
    supervisor.execute({"command": "stop", "name": instance.name})
    assert observed(tmp_path) == [("stopped", None)]
    supervisor.check(instance)
    assert not instance.is_running, "a process that was stopped by command stays down"
    supervisor.stop()
    assert observed(tmp_path) == [("stopped", None)]


def test_an_unknown_command_or_process_is_refused_with_what_there_is(supervisor: Supervisor) -> None:
    with pytest.raises(StackFault, match="unknown command 'dance'"):
        supervisor.execute({"command": "dance"})
    with pytest.raises(StackFault, match="no process named nowhere; it has server, called, one, other"):
        supervisor.execute({"command": "stop", "name": "nowhere"})
