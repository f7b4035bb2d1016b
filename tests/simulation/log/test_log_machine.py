"""A log under arbitrary use and arbitrary crashes, against the plain list of what was appended.

The promise: a killed process loses no appended batch; a power loss loses nothing below what `sync` returned; after
either the log opens with a gap-free prefix, or says that it is corrupt where unsynced bytes were lost.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mqcore.disk.memory import Crashed, MemoryDisk
from mqcore.log.errors import CorruptLog
from mqcore.log.topic_config import LogConfig
from mqcore.wire.batches import read_header
from tests.unit.mqcore.log.helpers import LastSequences, append, batch, open_log, stored

CONFIG = LogConfig(
    segment_bytes=1500, index_interval_bytes=100, retention_ms=-1, file_delete_delay_ms=10, segment_ms=10**9
)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.batches: list[bytes] = []  # the truth, from the log start on
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.durable = 0
        self.recovery_point = 0
        self.sequence: dict[int, int] = {}
        self.now_ms = 1000
        self.config = CONFIG

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.disk = MemoryDisk(Random(seed))
        self.observer = LastSequences()
        self.log = open_log(self.disk, self.config, observer=self.observer)

    # --- operations --------------------------------------------------------------------------------------------------

    @rule(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=4), producer=st.integers(0, 2))
    def append(self, sizes: list[int], producer: int) -> None:
        data = self._batch(sizes, producer)
        self.batches.append(append(self.log, data, epoch=self.epoch, now_ms=self.now_ms))
        self.end = self.log.end_offset

    def _batch(self, sizes: list[int], producer: int) -> bytearray:
        sequence = self.sequence.get(producer, 0)
        self.sequence[producer] = sequence + len(sizes)
        return batch([bytes(size) for size in sizes], producer=producer, sequence=sequence, timestamp=self.now_ms)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1
        self.log.epochs.begin(self.epoch, self.log.end_offset)

    @rule()
    def sync(self) -> None:
        self.durable = self.log.sync()
        assert self.durable == self.end
        assert not self.log.needs_sync()

    @rule()
    def store_recovery_point(self) -> None:
        self.recovery_point = self.log.flushed_offset

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        target = self.start + int((self.end - self.start) * share)
        self.recovery_point = min(self.recovery_point, target)
        self.log.truncate_to(target)
        self._drop_batches_from(target)

    def _drop_batches_from(self, target: int) -> None:
        while self.batches and read_header(self.batches[-1]).next_offset > target:
            self.end = read_header(self.batches.pop()).base_offset
        self.start = min(self.start, self.end)  # a partly deleted batch is cut completely
        self.durable = min(self.durable, self.end)
        self.recovery_point = min(self.recovery_point, self.end)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self._advance(self.start + int((self.end - self.start) * share))
        self.log.advance_start(self.start)

    def _advance(self, start: int) -> None:
        self.start = start
        while self.batches and read_header(self.batches[0]).next_offset <= start:
            self.batches.pop(0)

    @rule(keep=st.integers(0, 4000), passed=st.integers(0, 20))
    def apply_retention(self, keep: int, passed: int) -> None:
        self.now_ms += passed
        self.log.reconfigure(replace(CONFIG, retention_bytes=keep))
        self.log.apply_retention(self.now_ms, limit=self.end)
        self.log.reconfigure(CONFIG)
        self._advance(max(self.start, self.log.start_offset))

    # --- stops and crashes -------------------------------------------------------------------------------------------

    @rule()
    def stop_cleanly(self) -> None:
        self.log.close()
        self.durable = self.recovery_point = self.end
        self._open(clean=True)
        assert self.log.recovery.replayed_batches == 0

    @rule()
    def kill(self) -> None:
        self.disk.crash("kill")
        self._open(clean=False)
        assert self.log.end_offset == self.end

    @rule()
    def lose_power(self) -> None:
        self.disk.crash("power")
        self._open_after_power_loss()

    def _open(self, *, clean: bool) -> None:
        self.observer = LastSequences()
        self.log = open_log(
            self.disk,
            self.config,
            clean=clean,
            recovery_point=self.recovery_point,
            observer=self.observer,
            start_offset=self.start,
            now_ms=self.now_ms,
        )

    def _open_after_power_loss(self) -> None:
        try:
            self._open(clean=False)
        except CorruptLog:
            assert self.durable < self.end, "everything was durable, and yet the log calls itself corrupt"
            self.__init__()  # type: ignore[misc]
            self.begin(1)
            return
        assert self.log.end_offset >= self.durable
        self._accept_what_survived()

    def _accept_what_survived(self) -> None:
        """Check that a prefix survived, and make it the new truth."""
        start = self.start
        self._drop_batches_from(self.log.end_offset)
        if self.end < start:  # deleted beyond what survived: the log continues where the deletion ended
            self.end = start
        assert self.log.end_offset == self.end
        self._advance(max(start, self.log.start_offset))
        self.epoch = max(self.epoch, self.log.epochs.last_epoch)
        self.sequence = {producer: last[1] + 1 for producer, last in self.observer.last.items()}

    @rule(
        what=st.sampled_from(["append", "roll", "sync", "truncate", "expire", "close"]),
        nth=st.integers(1, 14),
        when=st.sampled_from(["before", "during", "after"]),
        kind=st.sampled_from(["kill", "power"]),
    )
    def crash_during(self, what: str, nth: int, when: str, kind: str) -> None:
        before, durable = self.end, self.durable
        in_flight: bytes | None = None
        target = (self.start + self.end) // 2
        self.disk.crash_at(nth, when)  # type: ignore[arg-type]
        try:
            if what == "append":
                data = self._batch([50, 250], 0)
                in_flight = data  # type: ignore[assignment]
                append(self.log, data, epoch=self.epoch, now_ms=self.now_ms)
            elif what == "roll":
                self.log.roll(self.now_ms)
            elif what == "sync":
                self.log.sync()
            elif what == "truncate":
                self.recovery_point = min(self.recovery_point, target)
                self.log.truncate_to(target)
            elif what == "expire":
                self.log.reconfigure(replace(CONFIG, retention_bytes=0))
                self.log.apply_retention(self.now_ms, limit=self.end)
            else:
                self.log.close()
        except Crashed:
            pass
        self.disk.crash(kind)  # type: ignore[arg-type]
        try:
            self._open(clean=False)
        except CorruptLog:
            assert kind == "power" and durable < before
            self.__init__()  # type: ignore[misc]
            self.begin(1)
            return
        if what == "truncate":
            durable = min(durable, self._boundary(target))
        least = durable if kind == "power" else self._boundary(target) if what == "truncate" else before
        assert self.log.end_offset >= least
        if in_flight is not None and self.log.end_offset > before:
            assert self.log.end_offset == read_header(in_flight).next_offset
            self.batches.append(bytes(in_flight))
            self.end = self.log.end_offset
        self.durable = min(self.durable, self.log.end_offset)
        self._accept_what_survived()

    def _boundary(self, target: int) -> int:
        """The end of a log cut at `target`, which splits no batch."""
        for data in self.batches:
            header = read_header(data)
            if header.base_offset <= target < header.next_offset:
                return header.base_offset
        return target

    # --- checks ------------------------------------------------------------------------------------------------------

    @invariant()
    @precondition(lambda self: hasattr(self, "log"))
    def contains_what_was_appended(self) -> None:
        assert self.log.start_offset == self.start
        assert self.log.end_offset == self.end
        assert stored(self.log) == self.batches

    @invariant()
    @precondition(lambda self: hasattr(self, "log"))
    def knows_its_producers_and_epochs(self) -> None:
        wanted: dict[int, tuple[int, int]] = {}
        for data in self.batches:
            header = read_header(data)
            wanted[header.producer_id] = (header.last_offset, header.base_sequence + header.last_offset_delta)
        assert wanted.items() <= self.observer.last.items()
        for data in self.batches:
            header = read_header(data)
            if header.base_offset >= self.start:
                assert self.log.epochs.epoch_at(header.base_offset) == header.leader_epoch

    def teardown(self) -> None:
        assert self.log.segments.size_bytes == sum(segment.size for segment in self.log.segments.items)


LogMachine.TestCase.settings = settings(
    max_examples=200, stateful_step_count=30, deadline=None, report_multiple_bugs=False
)
TestLogMachine = LogMachine.TestCase
