"""Shell: the gateway in a process whose clock is FAULT_CLOCK_AHEAD_S seconds ahead."""

from __future__ import annotations

import os
import time

_ahead_s = int(os.environ["FAULT_CLOCK_AHEAD_S"])
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + _ahead_s
time.time_ns = lambda: _time_ns() + _ahead_s * 1_000_000_000

from gateway.app import application  # noqa: E402  # after the change, in case a module does `from time import time`

__all__ = ["application"]
