"""Shell: listen for signs of life, probe the servers, and write down silences.

Silences wait in memory while Postgres is away, because Postgres itself may be what fell silent.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from seckill.console.models import Silence
from seckill.console.reports import queue
from seckill.console.watch.probes import FAULTS, Probe
from seckill.console.watch.sign_log import SERVER, SILENT_MS_MIN, End, Kind, SignLog, SilentTime
from seckill.monitoring.signs_of_life import DATAGRAM_BYTES_MAX, INTERVAL_SECONDS
from seckill.report.disturbances import WATCHER

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
SILENCES_MAX = 1000
"""That many of the newest are kept, in memory and in the table."""
NAMES_MAX = 1000
CONTAINER_ID = re.compile("[0-9a-f]{12}")


class Watcher:
    """`listener` is the socket for datagrams; None if no process sends any."""

    def __init__(self, probes: Sequence[Probe], listener: socket.socket | None) -> None:
        self._clock_offset_ms = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000
        self._lock = threading.Lock()
        self._log = SignLog(self._now_ms())
        self._unwritten: dict[tuple[str, int], SilentTime] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._stopping = threading.Event()
        self._has_begun = False
        threading.Thread(target=self._tick, name="watch", daemon=True).start()
        for probe in probes:
            threading.Thread(target=self._probe, args=(probe,), name=f"probe {probe.name}", daemon=True).start()
        if listener is not None:
            threading.Thread(target=self._listen, args=(listener,), name="signs of life", daemon=True).start()

    def stop(self) -> None:
        """Safe in a signal handler."""
        self._stopping.set()

    def run_once(self) -> bool:
        """Called once a second. Raises Django's `DatabaseError` while Postgres is away; nothing is lost by that."""
        if not self._has_begun:
            self._note_unwatched(queue.unwatched_since())
            self._has_begun = True
        with self._lock:
            states = self._log.states()
        queue.sign(states)
        self._write()
        return False

    def _tick(self) -> None:
        """On a thread of its own, because Postgres may keep `run_once` waiting."""
        while not self._stopping.wait(TICK_SECONDS):
            with self._lock:
                self._keep(self._log.tick(self._now_ms()))

    # ── what is heard ────────────────────────────────────────────────────────────────────────────

    def _probe(self, probe: Probe) -> None:
        while not self._stopping.wait(INTERVAL_SECONDS):
            try:
                probe.ask()
            except FAULTS:
                continue
            with self._lock:
                self._keep(self._log.sign(probe.name, SERVER, self._now_ms()))

    def _listen(self, listener: socket.socket) -> None:
        while not self._stopping.is_set():
            content, (address, *_) = listener.recvfrom(DATAGRAM_BYTES_MAX)
            try:
                sign = json.loads(content)
                host, life, is_goodbye = str(sign["host"])[:100], str(sign["life"]), bool(sign["goodbye"])
            except (ValueError, KeyError, TypeError):
                log.warning("not a sign of life", extra={"address": address})
                continue
            name = self._name_of(host, address)
            with self._lock:
                heard = self._log.goodbye if is_goodbye else self._log.sign
                self._keep(heard(name, life, self._now_ms()))

    def _name_of(self, host: str, address: str) -> str:
        """A container's host name is its id; Docker's name server knows the name that users know."""
        if (host, address) not in self._names:
            name = host
            if CONTAINER_ID.fullmatch(host):
                try:
                    name = socket.gethostbyaddr(address)[0].partition(".")[0]
                except OSError:
                    pass  # the id is a name, too
            if len(self._names) >= NAMES_MAX:
                self._names.clear()
            self._names[host, address] = name
        return self._names[host, address]

    # ── what is written ──────────────────────────────────────────────────────────────────────────

    def _keep(self, changed: Sequence[SilentTime]) -> None:
        for silent in changed:
            self._unwritten[silent.name, silent.began_at_ms] = silent
        while len(self._unwritten) > SILENCES_MAX:
            del self._unwritten[next(iter(self._unwritten))]

    def _note_unwatched(self, since: datetime | None) -> None:
        if since is None:
            return
        began_ms = int(since.astimezone(UTC).timestamp() * 1000) - self._clock_offset_ms
        if self._now_ms() - began_ms >= SILENT_MS_MIN:
            with self._lock:
                self._keep([SilentTime(WATCHER, Kind.UNWATCHED, began_ms, self._now_ms(), End.RESTARTED)])

    def _write(self) -> None:
        with self._lock:
            changed = list(self._unwritten.items())
        for key, silent in changed:
            ended_ms = None if silent.ended_at_ms is None else silent.ended_at_ms + self._clock_offset_ms
            Silence.objects.update_or_create(
                name=silent.name, began_at_ms=silent.began_at_ms + self._clock_offset_ms,
                defaults={"kind": silent.kind, "ended_at_ms": ended_ms, "ended_by": silent.ended_by or ""},
            )  # fmt: skip
            log.info("silence", extra={"watched": silent.name, "kind": silent.kind, "ended_by": silent.ended_by})
            with self._lock:
                if self._unwritten.get(key) is silent:
                    del self._unwritten[key]
        if changed:
            newest = Silence.objects.order_by("-id").values_list("id", flat=True)[:SILENCES_MAX]
            Silence.objects.exclude(id__in=list(newest)).delete()

    def _now_ms(self) -> int:
        """Monotonic: it goes on while this process is frozen, and setting the system clock does not change it."""
        return time.monotonic_ns() // 1_000_000
