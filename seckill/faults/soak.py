"""Shell: `seckill faults soak`: sale after sale, processes killed at random, one frozen each minute; then the report.

It ends well if the report says PASS and nothing grows (seckill/faults/growth.py).
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import psycopg
from redis.exceptions import RedisError

from seckill.consistency.verdicts import Judged
from seckill.faults import growth, progress
from seckill.faults.case import Rush
from seckill.faults.crowd import Crowd
from seckill.faults.running import reported
from seckill.faults.world import WITNESSES, Stuck, World
from seckill.stack.control import StackFault
from seckill.stack.process import bare

NAME = "soak"
RUSH = Rush(units=60, buyers=400, over_s=15, words=("--pay", "0.7"))
KILL_EVERY_S = 15.0
FREEZE_EVERY_S, FROZEN_S = 60.0, 20.0
SAMPLE_EVERY_S = 10.0
LOOK_S = 0.25
AWAY = (StackFault, Stuck, psycopg.Error, RedisError, OSError)
"""What a question to a stack may end with while parts of it are dead."""

_DECIDED = "SELECT COALESCE(sum(next_offset), 0)::bigint FROM streams_offset WHERE consumer_group = 'inventory'"
"""Positions in the topics: they go on where decided rows have been removed."""

_TABLES = """
SELECT relname, pg_total_relation_size(relid)::bigint
FROM pg_stat_user_tables WHERE NOT starts_with(relname, 'analytics')
"""

Tell = Callable[[str], None]


class Soak:
    def __init__(self, folder: Path, first_port: int, seed: int, tell: Tell) -> None:
        self._tell, self._chance = tell, random.Random(seed)
        self.folder = folder.absolute()
        self.world = World(self.folder / "stack", first_port, seed, say=tell)
        self.samples: list[growth.Sample] = []
        self.sales = 0
        self.killed: Counter[str] = Counter()
        self.frozen: Counter[str] = Counter()
        self._asleep: tuple[str, int, float, int] | None = None  # name, process group, until when, since when (wall)

    def run(self, minutes: float) -> list[Judged]:
        """What the report says in the end."""
        self.world.start()
        self.world.declare(NAME)
        began_ms = time.time_ns() // 1_000_000
        self._break_until(time.monotonic() + 60 * minutes)
        self.world.note_fault(NAME, began_ms, time.time_ns() // 1_000_000, killed=self.killed.total())
        self._tell("the last crowd has gone home; waiting until every process is up and all is worked off")
        progress.await_recovery(self.world)
        progress.await_rest(self.world)
        _, judged = reported(self.world, self.folder, NAME, self._tell)
        return judged

    def end(self) -> None:
        if self.world.crowd is not None:
            self.world.crowd.end()
        self.world.stop()

    # ── while it lasts ───────────────────────────────────────────────────────────────────────────

    def _break_until(self, end: float) -> None:
        began = time.monotonic()
        kill_at, freeze_at, sample_at = began + KILL_EVERY_S, began + FREEZE_EVERY_S / 2, began
        while time.monotonic() < end:
            time.sleep(LOOK_S)
            now = time.monotonic()
            self._keep_a_crowd()
            if now >= kill_at:
                self._kill()
                kill_at += KILL_EVERY_S
            if now >= freeze_at:
                self._freeze(now)
                freeze_at += FREEZE_EVERY_S
            if self._asleep is not None and now >= self._asleep[2]:
                self._thaw()
            if now >= sample_at:
                self._sample(now - began)
                sample_at += SAMPLE_EVERY_S
        if self._asleep is not None:
            self._thaw()
        if self.world.crowd is not None:
            self.world.crowd.leave()

    def _keep_a_crowd(self) -> None:
        """As soon as one crowd has gone home, its sale is closed and the next one begins."""
        world = self.world
        if world.crowd is not None:
            if world.crowd.is_there:
                return
            world.crowd.leave()
            world.crowd = None
            self._tell(f"sale {world.sale}: the crowd has gone home; {self.killed.total()} killed so far")
        try:
            if self.sales:
                world.manage("sale", "close", str(world.sale))
            world.sale = world.create_sale(RUSH.units)
        except AWAY:
            return  # Postgres or Redis is away: at the next look
        self.sales += 1
        world.crowd = Crowd(world.gateway, world.sale, RUSH, world.evidence / f"{NAME}-{self.sales}.jsonl", bare())

    def _victims(self) -> dict[str, int]:
        """Who runs and is no witness, with its process group; a frozen one is left alone."""
        asleep = self._asleep[0] if self._asleep else ""
        rows = self.world.rows()
        return {
            name: int(row["pid"]) for name, row in sorted(rows.items())
            if row["pid"] and name != asleep and not name.startswith(WITNESSES)
        }  # fmt: skip

    def _kill(self) -> None:
        name = self._chance.choice(list(self._victims()))
        self.world.word("kill", name=name)
        self.world.note(NAME, f"kill {name}")
        self.killed[name.rstrip(".0123456789")] += 1

    def _freeze(self, now: float) -> None:
        """As a host that hangs: its processes hold what they hold, and say nothing."""
        victims = self._victims()
        name = self._chance.choice(list(victims))
        os.killpg(victims[name], signal.SIGSTOP)
        self._asleep = name, victims[name], now + FROZEN_S, time.time_ns() // 1_000_000
        self.frozen[name.rstrip(".0123456789")] += 1

    def _thaw(self) -> None:
        assert self._asleep is not None
        name, group, _, since_ms = self._asleep
        try:
            os.killpg(group, signal.SIGCONT)
        except ProcessLookupError:
            pass  # the supervisor has replaced it
        self.world.note_fault(NAME, since_ms, time.time_ns() // 1_000_000, what=f"freeze {name}")
        self._asleep = None

    # ── how much it takes ────────────────────────────────────────────────────────────────────────

    def _sample(self, at_s: float) -> None:
        """Nothing while what is asked is away."""
        try:
            groups = {name: int(row["pid"]) for name, row in self.world.rows().items() if row["pid"]}
            tables = dict(self.world.query(_TABLES))
            [[purchases]] = self.world.query(_DECIDED)
            with self.world.redis() as client:
                redis = int(client.info("memory")["used_memory"])
        except AWAY:
            return
        topics = growth.folder_bytes(self.world.folder / "mqcore")
        sample = growth.Sample(at_s, purchases, growth.processes(groups), tables, redis, topics)
        self.samples.append(sample)
        with (self.folder / f"{NAME}.jsonl").open("a") as kept:
            kept.write(json.dumps(asdict(sample)) + "\n")
