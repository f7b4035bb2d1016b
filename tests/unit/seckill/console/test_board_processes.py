"""The tiles of the board: the stack's processes, and each Redis that the stack does not run."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings

from seckill.console.board import board_json
from seckill.console.monitor import BoardMonitor, SourceReading

OWN = [{"name": "redis", "state": "up", "restarts": 0}, {"name": "orders.1", "state": "died", "restarts": 2}]


def tiles(rows: list[dict[str, Any]] | None, faults: dict[str, str] | None) -> dict[str, tuple[bool, bool]]:
    """Of each tile by its name: whether it is up, and whether it is outside of the stack."""
    now = time.monotonic()
    monitor = BoardMonitor(stack=SourceReading(rows, now), redis=SourceReading(faults, now), runs_threads=False)
    found = board_json(monitor, 0)["processes"]
    return {each["name"]: (each["is_up"], each["is_outside"]) for each in found or ()}


def test_a_shared_redis_of_the_stack_has_one_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, stack_folder="/var/stack"))
    assert tiles(OWN, {"redis": ""}) == {"redis": (True, False), "orders.1": (False, False)}


def test_separate_servers_have_a_tile_for_each_use_and_show_which_one_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = {"redis.admission+gate": "", "redis.celery": "ConnectionError: refused"}
    outside = {"redis.admission+gate": (True, True), "redis.celery": (False, True)}
    assert tiles(None, faults) == outside, "a console without a stack shows them, too"
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, stack_folder="/var/stack"))
    assert tiles(OWN[1:], faults) == {"orders.1": (False, False)} | outside


def test_containers_are_shown_with_the_state_that_the_report_service_hears_and_cannot_be_stopped_here() -> None:
    rows = [
        {"name": name, "state": state, "restarts": 0}
        for name, state in {
            "shop-notify-sms-1": "no answer", "my-shop-orders-2": "up", "shop-orders-sweep-1": "up", "mqcore": "up",
        }.items()
    ]  # fmt: skip
    assert tiles(rows, {"redis": ""}) == {
        "shop-notify-sms-1": (False, True), "my-shop-orders-2": (True, True), "shop-orders-sweep-1": (True, True),
        "mqcore": (True, True), "redis": (True, True),
    }  # fmt: skip
    monitor = BoardMonitor(stack=SourceReading(rows, time.monotonic()), runs_threads=False)
    services = [each["service"] for each in board_json(monitor, 0)["processes"]]
    assert services == ["notify.sms", "orders", "shop-orders-sweep-1", "mqcore"], "counted at their stages"


def test_no_tile_is_shown_before_the_processes_of_the_stack_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, stack_folder="/var/stack"))
    assert tiles(None, {"redis": ""}) == {}
