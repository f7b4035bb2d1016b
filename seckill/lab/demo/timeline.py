"""Shell: the events of a demo, each of which happens once: kill, recovery, sold out, end of the crowd, settled."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from seckill.lab.demo.progress import Sample
from seckill.lab.lab_stack import ExperimentFailed, LabStack

SETTLE_SECONDS_MAX = 180.0
UNSAFE_SETTLE_SECONDS_MAX = 5.0
"""Without safeguards the sale may never settle."""
KILL, KILL_RELAY, KILL_BROKER = "kill-inventory", "kill-relay-before-delete", "kill-broker"
RELAY = "relay.inventory"


class Inventory:
    """The service that the demo kills: inventory itself, or the handler without safeguards that replaces it."""

    def __init__(self, stack: LabStack, unsafe: bool) -> None:
        self._stack, self.is_unsafe = stack, unsafe
        self._unsafe_handler: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.is_unsafe:
            self._unsafe_handler = self._stack.spawn(
                "unsafe", "loadtest.designs.unsafe",
                environment=self._stack.addresses() | self._stack.login("inventory"),
            )  # fmt: skip

    def kill(self) -> int:
        """kill -9; returns the number of processes. The supervisor restarts inventory; we restart the other handler."""
        if self._unsafe_handler is None:
            return self._stack.kill_service("inventory")
        self._unsafe_handler.kill()
        self._unsafe_handler.wait()
        self.start()
        return 1

    def check(self) -> None:
        if self._unsafe_handler is not None and self._unsafe_handler.poll() is not None:
            raise ExperimentFailed(f"the unsafe handler has crashed:\n{self._stack.log_text('unsafe')[-2000:]}")


class Timeline:
    """Call `is_over` with each new sample. `kill_after` is a number of accepted requests."""

    def __init__(
        self, stack: LabStack, inventory: Inventory, crowd: subprocess.Popen[bytes], announce: Callable[[str], None],
        *, kill_after: int, payment_ttl_s: int, crowd_seconds_max: float,
    ) -> None:  # fmt: skip
        self._stack, self._inventory, self._crowd, self._announce = stack, inventory, crowd, announce
        self._has_killed_broker = not stack.can_kill_broker  # an only one would be gone for seconds
        self._kill_after, self._payment_ttl_s = kill_after, payment_ttl_s
        self._settle_seconds_max = UNSAFE_SETTLE_SECONDS_MAX if inventory.is_unsafe else SETTLE_SECONDS_MAX
        self._give_up_at_s = crowd_seconds_max + SETTLE_SECONDS_MAX
        self._at_kill: Sample | None = None
        self._after_kill: Sample | None = None
        self._at_crowd_end: Sample | None = None
        self._has_recovered = self._is_sold_out = self._has_relay_died = False

    def is_over(self, now: Sample) -> bool:
        self._inventory.check()
        if self._at_kill is None and now.accepted >= self._kill_after and now.decided:
            self._kill(now)
        if not self._has_killed_broker and now.accepted >= 2 * self._kill_after:
            self._kill_broker(now)
        if now.decided and not self._has_relay_died and self._stack.restarts(RELAY):
            self._has_relay_died = True
            self._stack.evidence_folder.note_instant(KILL_RELAY, "killed at its fault point")
            self._announce("   the relay died between publishing and deleting, so it publishes some events again")
        if self._at_kill is not None and not self._has_recovered:
            self._check_recovery(self._at_kill, now)
        if not self._is_sold_out and now.available <= 0:
            self._is_sold_out = True
            self._announce(f"   all units are reserved or sold, {now.at_s:.1f} s after the crowd started")
        if self._at_crowd_end is None and self._crowd.poll() is not None:
            self._end_crowd(now)
        if self._at_crowd_end is None:
            if now.at_s > self._give_up_at_s:
                raise ExperimentFailed("the crowd did not finish in time")
            return False
        has_settled = not (now.reserved or now.deliveries_due)
        return has_settled or now.at_s > self._at_crowd_end.at_s + self._settle_seconds_max

    def _kill(self, now: Sample) -> None:
        began_ms = time.time_ns() // 1_000_000
        killed = self._inventory.kill()
        self._stack.evidence_folder.note_fault(KILL, began_ms, processes=killed, in_flight=now.backlog)
        self._at_kill = now
        self._announce(
            f"[bold]3[/]  [red]kill -9[/] of inventory ({killed} processes), {now.backlog:,} requests in flight"
        )

    def _kill_broker(self, now: Sample) -> None:
        self._has_killed_broker = True
        began_ms = time.time_ns() // 1_000_000
        name, partitions = self._stack.kill_leading_broker()
        self._stack.evidence_folder.note_fault(KILL_BROKER, began_ms, process=name, led=partitions)
        self._announce(
            f"   [red]kill -9[/] of {name}, which leads {partitions} partitions of purchase requests,"
            f" {now.backlog:,} requests in flight"
        )

    def _check_recovery(self, at_kill: Sample, now: Sample) -> None:
        """The first sample after the kill may still count what was committed before it, so compare later ones to it."""
        if self._after_kill is None:
            self._after_kill = now
        elif now.decided > self._after_kill.decided:
            self._has_recovered = True
            self._announce(f"   inventory was restarted and decides again, {now.at_s - at_kill.at_s:.1f} s later")

    def _end_crowd(self, now: Sample) -> None:
        if self._crowd.returncode:
            raise ExperimentFailed(f"the crowd failed:\n{self._stack.log_text('crowd')[-2000:]}")
        if self._at_kill is None:
            raise ExperimentFailed("the sale was over before the kill; use more buyers (--buyers)")
        if not self._has_killed_broker:
            raise ExperimentFailed("the sale was over before a broker was killed; use more buyers (--buyers)")
        self._at_crowd_end = now
        self._announce(
            f"   the crowd has finished; unpaid orders expire within {self._payment_ttl_s} s,"
            f" {now.deliveries_due:,} messages are due"
        )
