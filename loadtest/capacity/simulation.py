"""Machine: a rush in simulated time, with one event for each batch instead of one for each buyer.

    arrivals → gateways → partitions → inventory's consumers ⇄ stock row → relay → consumers of outcomes

So ten million buyers take seconds. A buyer waits from the arrival at the shop until the outcome is visible. Arrivals
are even, and spread evenly over the partitions, as users are. The same seed gives the same history.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

BATCH_RECORDS_MAX = 1000
"""Of inventory (inventory/handlers.py); the consumers of outcomes take 500."""
OUTCOME_RECORDS_MAX = 500
COMMIT_SPREAD = 0.5
"""The fixed part of a batch takes between 1 - this and 1 + this of its mean time."""
SAMPLES = 4
"""Points of each batch at which the wait is taken."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """Seconds of one process, or of the part that all share."""

    accept_s: float  # a gateway, for one buyer
    batch_s: float  # a consumer, for a batch of any size: round trips and the commit
    decide_s: float  # inventory, for one request
    grant_s: float  # the stock row, for one unit; one batch at a time
    publish_s: float  # the relay, for one row; one relay at a time
    outcome_s: float  # a consumer of outcomes, for one record


@dataclass(frozen=True, slots=True)
class Rush:
    buyers: int
    over_s: float
    units: int

    def __post_init__(self) -> None:
        if self.buyers < 1 or self.over_s <= 0 or self.units < 0:
            raise ValueError(f"a rush needs buyers, time and units, got {self}")


@dataclass(frozen=True, slots=True)
class Processes:
    gateways: int
    partitions: int
    inventory: int
    outcomes: int
    relays: int = 1
    stock_rows: int = 1

    def __post_init__(self) -> None:
        if min(self.gateways, self.partitions, self.inventory, self.outcomes, self.relays, self.stock_rows) < 1:
            raise ValueError(f"every part needs at least one process, got {self}")


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds. `batches` of inventory; `ended_s` after the first arrival the last outcome is visible."""

    p50_s: float
    p99_s: float
    max_s: float
    ended_s: float
    batches: int
    granted: int


class _Batch(NamedTuple):
    """Requests of one partition that move on together. Its first and last buyer arrived at these times."""

    at_s: float
    partition: int
    requests: int
    first_s: float
    last_s: float


def simulate(rush: Rush, processes: Processes, speeds: Speeds, seed: int = 1) -> Waits:
    decided, granted = _decide(rush, processes, speeds, random.Random(seed))
    batches = len(decided)
    published = _publish(decided, processes.relays, speeds.publish_s)
    waits: list[tuple[float, float]] = []
    ended_s = 0.0
    for visible in _show(published, processes.outcomes, speeds):
        ended_s = max(ended_s, visible.at_s)
        for sample in range(SAMPLES):
            arrived = visible.first_s + (visible.last_s - visible.first_s) * (sample + 0.5) / SAMPLES
            waits.append((visible.at_s - arrived, visible.requests / SAMPLES))
    waits.sort()
    return Waits(_quantile(waits, 0.5), _quantile(waits, 0.99), waits[-1][0], ended_s, batches, granted)


def _decide(rush: Rush, processes: Processes, speeds: Speeds, chance: random.Random) -> tuple[list[_Batch], int]:
    """The batches in the order of their commits, and the granted units."""
    partitions = min(processes.partitions, rush.buyers)
    accepted_s = max(rush.over_s / rush.buyers, speeds.accept_s / processes.gateways)  # between two buyers
    arrived_s = rush.over_s / rush.buyers
    total = [rush.buyers // partitions + (number < rush.buyers % partitions) for number in range(partitions)]
    taken = [0] * partitions
    consumers = min(processes.inventory, partitions)
    own = [list(range(number, partitions, consumers)) for number in range(consumers)]
    turn = [0] * consumers
    row_free_s = [0.0] * processes.stock_rows
    left = rush.units
    granted = 0
    decided: list[_Batch] = []
    events = [(0.0, consumer) for consumer in range(consumers)]

    def arrives(partition: int, number: int) -> int:
        """Which buyer of all is number `number` of a partition."""
        return number * partitions + partition + 1

    def available(partition: int, now_s: float) -> int:
        passed = int(now_s / accepted_s + 1e-9)
        return min(total[partition], (passed - partition - 1) // partitions + 1 if passed > partition else 0)

    while events:
        now_s, consumer = heapq.heappop(events)
        mine, count = own[consumer], 0
        for step in range(len(mine)):
            partition = mine[(turn[consumer] + step) % len(mine)]
            count = min(BATCH_RECORDS_MAX, available(partition, now_s) - taken[partition])
            if count > 0:
                turn[consumer] = (turn[consumer] + step + 1) % len(mine)
                break
        if count <= 0:
            waiting = [arrives(each, taken[each]) for each in mine if taken[each] < total[each]]
            if waiting:
                heapq.heappush(events, (max(now_s, min(waiting) * accepted_s) + 1e-9, consumer))
            continue
        spread = 1 + COMMIT_SPREAD * (2 * chance.random() - 1)
        done_s = now_s + speeds.batch_s * spread + count * speeds.decide_s
        if left:
            units = min(count, left)
            row = min(range(len(row_free_s)), key=row_free_s.__getitem__)
            done_s = max(done_s, row_free_s[row]) + units * speeds.grant_s
            row_free_s[row] = done_s
            left, granted = left - units, granted + units
        first = arrives(partition, taken[partition])
        last = arrives(partition, taken[partition] + count - 1)
        taken[partition] += count
        decided.append(_Batch(done_s, partition, count, first * arrived_s, last * arrived_s))
        heapq.heappush(events, (done_s, consumer))
    return sorted(decided), granted


def _publish(decided: Sequence[_Batch], relays: int, publish_s: float) -> list[_Batch]:
    """Each relay publishes its partitions' rows in the order of the commits."""
    free_s = [0.0] * relays
    published = []
    for batch in decided:
        relay = batch.partition % relays
        free_s[relay] = max(batch.at_s, free_s[relay]) + batch.requests * publish_s
        published.append(batch._replace(at_s=free_s[relay]))
    return published


def _show(published: Sequence[_Batch], consumers: int, speeds: Speeds) -> Iterable[_Batch]:
    """A consumer takes what has come since its last batch, one transaction for each partition."""
    queues: list[list[_Batch]] = [[] for _ in range(consumers)]
    for batch in sorted(published):
        queues[batch.partition % consumers].append(batch)
    for queue in queues:
        now_s, at = 0.0, 0
        while at < len(queue):
            now_s = max(now_s, queue[at].at_s)
            end, records = at, 0
            while end < len(queue) and queue[end].at_s <= now_s and (records < OUTCOME_RECORDS_MAX or end == at):
                records += queue[end].requests
                end += 1
            transactions = max(len({batch.partition for batch in queue[at:end]}), -(-records // OUTCOME_RECORDS_MAX))
            now_s += transactions * speeds.batch_s + records * speeds.outcome_s
            for batch in queue[at:end]:
                yield batch._replace(at_s=now_s)
            at = end


def _quantile(waits: Sequence[tuple[float, float]], share: float) -> float:
    """`waits` are sorted, each with its weight."""
    wanted = share * sum(weight for _, weight in waits)
    for wait, weight in waits:
        wanted -= weight
        if wanted <= 0:
            return wait
    return waits[-1][0]
