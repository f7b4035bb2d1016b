"""The end of a stack: those who call others end together, and nobody ends before those who call him."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from seckill.stack.instances import Instance
from seckill.stack.observing import is_frozen
from seckill.stack.services import Layout, Service
from seckill.stack.supervisor import Supervisor


@dataclass
class Process:
    """Instead of an Instance: it writes down what is done to it."""

    service: Service
    said: list[str]
    process: object = ""

    @property
    def name(self) -> str:
        return self.service.name

    def signal(self) -> None:
        self.said.append(f"ask {self.name}")

    def reap(self) -> bool:
        self.said.append(f"wait for {self.name}")
        return True


@pytest.fixture
def said(tmp_path: Path) -> list[str]:
    supervisor = Supervisor(Layout(tmp_path), {}, lambda text: None)
    told: list[str] = []
    supervisor.instances = [Process(each.service, told) for each in supervisor.instances]  # type: ignore[misc]
    supervisor.stop()
    return told


def test_all_who_only_call_others_are_asked_before_one_is_waited_for(said: list[str]) -> None:
    first_wait = next(at for at, text in enumerate(said) if text.startswith("wait"))
    asked = {text.removeprefix("ask ") for text in said[:first_wait]}
    assert asked >= {"gateway", "live", "celery", "inventory", "orders", "relay.inventory", "notify.sweep"}
    assert not asked & {"sandbox", "mqcore", "redis", "postgres"}


def test_who_is_called_is_asked_when_all_his_callers_are_gone(said: list[str]) -> None:
    assert said[-8:] == [
        f"{word} {name}" for name in ("sandbox", "mqcore", "redis", "postgres") for word in ("ask", "wait for")
    ]


# ── what it notices ──────────────────────────────────────────────────────────────────────────────


class Watched:
    """A supervisor with one process, which does nothing; and what was noted of it."""

    def __init__(self, folder: Path) -> None:
        self.supervisor = Supervisor(Layout(folder), {}, lambda text: None)
        self.instance: Instance = self.supervisor.instances[0]
        self.supervisor.instances = [self.instance]
        self.process = self.instance.process = subprocess.Popen(["sleep", "1000"])
        self.instance.state = "up"
        self._path = folder / "evidence" / "observed.jsonl"

    def look(self) -> None:
        self.supervisor._look_after(self.instance)

    def noted(self) -> list[tuple[str, object]]:
        lines = map(json.loads, self._path.read_text().splitlines()) if self._path.exists() else ()
        return [(line["what"], line.get("code")) for line in lines]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(tmp_path)
    yield watched
    watched.process.kill()
    watched.process.wait()


def test_a_process_that_is_killed_by_hand_is_noted_with_its_signal(watched: Watched) -> None:
    watched.look()
    assert watched.noted() == []
    watched.process.kill()
    watched.process.wait()
    watched.look()
    assert watched.noted() == [("died", -signal.SIGKILL)]


def test_a_process_that_is_frozen_is_noted_once_and_again_when_it_goes_on(watched: Watched) -> None:
    pid = watched.process.pid
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    assert is_frozen(pid)
    watched.look()
    watched.look()
    os.kill(pid, signal.SIGCONT)
    os.waitid(os.P_PID, pid, os.WCONTINUED | os.WNOWAIT)
    watched.look()
    assert watched.noted() == [("frozen", None), ("thawed", None)]


def test_a_stop_by_word_is_noted_and_the_end_of_the_stack_is_not(watched: Watched) -> None:
    watched.supervisor.obey({"word": "stop", "name": watched.instance.name})
    assert watched.noted() == [("stopped", None)]
    watched.supervisor.stop()
    assert watched.noted() == [("stopped", None)]
