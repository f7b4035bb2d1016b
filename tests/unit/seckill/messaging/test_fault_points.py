"""Fault points: a name and what is left of it after the first life; each kind ends a real process as it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seckill.streams.faults import left_after

ROOT = Path(__file__).parents[4]
AT_POINT = "from seckill.streams import faults; faults.point('here'); faults.point('here'); print('past')"


def process(fault: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SECKILL_")} | {
        "SECKILL_FAULT": fault,
        "DJANGO_SETTINGS_MODULE": "seckill.settings",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.Popen([sys.executable, "-c", AT_POINT], stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize(("fault", "code"), [("here", -signal.SIGKILL), ("here:once", -signal.SIGKILL), ("there", 0)])
def test_a_point_that_is_on_kills_the_process(fault: str, code: int) -> None:
    with process(fault) as at_point:
        assert at_point.wait(60) == code


def test_a_point_that_freezes_stops_the_process_once_until_it_is_woken() -> None:
    with process("here:freeze") as at_point:
        _, status = os.waitpid(at_point.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        at_point.send_signal(signal.SIGCONT)
        assert at_point.wait(60) == 0
        assert at_point.stdout is not None
        assert at_point.stdout.read() == "past\n"


def test_what_is_for_one_life_is_left_out_of_the_next() -> None:
    assert left_after(0, "a:once,b, c:freeze") == "a:once,b, c:freeze"
    assert left_after(1, "a:once,b, c:freeze") == "b"


def test_what_is_for_the_second_life_waits_for_it_and_is_gone_after_it() -> None:
    assert left_after(1, "a:once,b:second") == "b:once"
    assert left_after(2, "a:once,b:second") == left_after(9, "a:once,b:second") == ""
