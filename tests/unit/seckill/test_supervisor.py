"""The end of a stack: those who call others end together, and nobody ends before those who call him."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

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
