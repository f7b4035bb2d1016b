"""Fault points stop real processes, and each kind applies only to the lives that it names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seckill.messaging.fault_points import remaining_faults

ROOT = Path(__file__).parents[4]
AT_POINT = "from seckill.messaging.fault_points import trigger; trigger('here'); trigger('here'); print('past')"


def process(fault: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SECKILL_")} | {
        "SECKILL_FAULT": fault,
        "DJANGO_SETTINGS_MODULE": "seckill.config.settings",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.Popen([sys.executable, "-c", AT_POINT], stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize(("fault", "code"), [("here", -signal.SIGKILL), ("here:once", -signal.SIGKILL), ("there", 0)])
def test_an_enabled_point_kills_the_process(fault: str, code: int) -> None:
    with process(fault) as at_point:
        assert at_point.wait(60) == code


def test_a_freeze_point_stops_the_process_once_until_sigcont() -> None:
    with process("here:freeze") as at_point:
        _, status = os.waitpid(at_point.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        at_point.send_signal(signal.SIGCONT)
        assert at_point.wait(60) == 0
        assert at_point.stdout is not None
        assert at_point.stdout.read() == "past\n"


def test_once_and_freeze_points_are_removed_for_the_next_life() -> None:
    assert remaining_faults(0, "a:once,b, c:freeze") == "a:once,b, c:freeze"
    assert remaining_faults(1, "a:once,b, c:freeze") == "b"


def test_a_second_life_point_applies_to_the_second_life_only() -> None:
    assert remaining_faults(1, "a:once,b:second") == "b:once"
    assert remaining_faults(2, "a:once,b:second") == remaining_faults(9, "a:once,b:second") == ""
