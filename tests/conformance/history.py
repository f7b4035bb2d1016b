"""The judge of the kill test and of chaos: can one correct log explain what producers were told and consumers saw?

The anomalies are those of Jepsen's Kafka workload that are possible without transactions, and the order in real time
that Redpanda's chaos tests check. docs/simulations.md has the table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal, NamedTuple


class Sent(NamedTuple):
    """A record as its producer identifies it: the `number`-th of that producer in that partition."""

    producer: str
    partition: int
    number: int


class Place(NamedTuple):
    partition: int
    offset: int


class Span(NamedTuple):
    """When a record was given to its producer, and when it was acknowledged, by one clock."""

    began: float
    acked: float


class Commit(NamedTuple):
    """What the only committer of a group did, in its order. `begun` may have been carried out, `confirmed` was;
    `found` is what it was told when it asked. Without a commit that is −1."""

    kind: Literal["begun", "confirmed", "found"]
    partition: int
    offset: int


@dataclass
class History:
    """What the clients observed. Records in `acked` must exist, and those in `refused` must not. Those in `unknown`
    failed otherwise or were never answered; they may exist."""

    acked: dict[Sent, Place] = field(default_factory=dict)
    unknown: set[Sent] = field(default_factory=set)
    refused: set[Sent] = field(default_factory=set)
    spans: Mapping[Sent, Span] = field(default_factory=dict)
    log: Mapping[Place, Sent] = field(default_factory=dict)  # read from the start after the last fault
    seen: dict[str, list[tuple[Place, Sent]]] = field(default_factory=dict)  # by consumer, in the order of delivery
    commits: dict[str, list[Commit]] = field(default_factory=dict)  # by group


def anomalies(history: History) -> dict[str, list[str]]:
    """Everything that no correct log can explain, by kind; empty if there is nothing."""
    present = set(history.log.values())
    sent_by_anyone = history.acked.keys() | history.unknown | history.refused
    told = _told(history)
    found = {
        "lost": [f"{sent}, acknowledged at {place}" for sent, place in history.acked.items() if sent not in present],
        "vanished": [
            f"{who} saw {sent} at {at}"
            for who, at, sent in told
            if who and at not in history.log and sent not in present
        ],
        "moved": [
            f"{at}: {who or 'acknowledged'} {sent}, in the log {history.log.get(at)}"
            for who, at, sent in told
            if history.log.get(at) != sent and (at in history.log or sent in present)
        ],
        "duplicated": _duplicated(history.log),
        "reordered": _reordered(history.log),
        "missing offsets": _holes(history.log),
        "never sent": [f"{sent}" for sent in sorted(present - sent_by_anyone)],
        "refused but stored": [f"{sent}" for sent in sorted(present & history.refused)],
        "older than an earlier acknowledgement": _out_of_time(history),
        "skipped or went back": [
            f"{name}: {line}" for name, seen in history.seen.items() for line in _jumps([place for place, _ in seen])
        ],
        "committed offset went back": [
            f"{group}: {line}" for group, commits in history.commits.items() for line in _stale(commits)
        ],
    }
    return {kind: lines for kind, lines in found.items() if lines}


def _told(history: History) -> list[tuple[str, Place, Sent]]:
    """Which record a consumer saw where, or, without a name, which was acknowledged where."""
    told = [("", place, sent) for sent, place in history.acked.items()]
    return told + [(name, place, sent) for name, seen in history.seen.items() for place, sent in seen]


def _duplicated(log: Mapping[Place, Sent]) -> list[str]:
    places = defaultdict(list)
    for place, sent in log.items():
        places[sent].append(place)
    return [f"{sent} at {where}" for sent, where in places.items() if len(where) > 1]


def _reordered(log: Mapping[Place, Sent]) -> list[str]:
    last: dict[tuple[str, int], int] = {}
    lines = []
    for place, sent in sorted(log.items()):
        source = (sent.producer, place.partition)
        if sent.number < last.get(source, -1):
            lines.append(f"{sent} at {place} comes after number {last[source]}")
        last[source] = max(sent.number, last.get(source, -1))
    return lines


def _holes(log: Mapping[Place, Sent]) -> list[str]:
    """Only markers of transactions and compaction leave holes, and the tests have neither."""
    lines = []
    expected: dict[int, int] = defaultdict(int)
    for partition, offset in sorted(log):
        if offset != expected[partition]:
            lines.append(f"partition {partition}: {offset} follows {expected[partition] - 1}")
        expected[partition] = offset + 1
    return lines


def _out_of_time(history: History) -> list[str]:
    """A record must be stored behind everything that was acknowledged before it was sent."""
    moments = []  # at the same time, a record is sent before another one is acknowledged
    for sent, span in history.spans.items():
        if (place := history.acked.get(sent)) is not None:
            moments += [(span.began, 0, place, sent), (span.acked, 1, place, sent)]
    highest: dict[int, int] = defaultdict(lambda: -1)
    behind: dict[Sent, int] = {}
    lines = []
    for _, is_acked, place, sent in sorted(moments, key=itemgetter(0, 1)):
        if not is_acked:
            behind[sent] = highest[place.partition]
            continue
        if place.offset <= behind[sent]:
            lines.append(f"{sent} at {place}, although {behind[sent]} had been acknowledged before it was sent")
        highest[place.partition] = max(highest[place.partition], place.offset)
    return lines


def _jumps(places: Sequence[Place]) -> Iterable[str]:
    """A consumer outside a group must see every offset once and in order, because without transactions none is
    missing."""
    expected: dict[int, int] = {}
    for partition, offset in places:
        if offset != expected.get(partition, 0):
            yield f"partition {partition}: {offset} where {expected.get(partition, 0)} was next"
        expected[partition] = offset + 1


def _stale(commits: Sequence[Commit]) -> Iterable[str]:
    """What is found is at least what was confirmed or found before, and at most what was ever committed."""
    least: dict[int, int] = defaultdict(lambda: -1)
    most: dict[int, int] = defaultdict(lambda: -1)
    for kind, partition, offset in commits:
        if kind == "begun":
            most[partition] = max(most[partition], offset)
            continue
        if kind == "found" and not least[partition] <= offset <= most[partition]:
            yield f"partition {partition}: {offset}, expected {least[partition]} to {most[partition]}"
        least[partition] = max(least[partition], offset)
