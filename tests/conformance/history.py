"""The judge of the kill test: can one correct log explain what producers were told and what consumers saw?

The anomalies are those of Jepsen's Kafka workload that are possible without transactions: lost, duplicated, moved
(inconsistent offsets) and reordered records, and consumers that skip records or go back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Sent(NamedTuple):
    """A record as its producer identifies it: the `number`-th of that producer in that partition."""

    producer: str
    partition: int
    number: int


class Place(NamedTuple):
    partition: int
    offset: int


@dataclass
class History:
    """What the clients observed. Records in `acked` must exist; those that failed or were never answered may exist."""

    acked: dict[Sent, Place] = field(default_factory=dict)
    unknown: set[Sent] = field(default_factory=set)
    log: Mapping[Place, Sent] = field(default_factory=dict)  # read from the start after the last kill
    seen: dict[str, list[tuple[Place, Sent]]] = field(default_factory=dict)  # by consumer, in the order of delivery


def anomalies(history: History) -> dict[str, list[str]]:
    """Everything that no correct log can explain, by kind; empty if there is nothing."""
    sent_by_anyone = history.acked.keys() | history.unknown
    found = {
        "lost": _lost(history),
        "moved": _moved(history),
        "duplicated": _duplicated(history.log),
        "reordered": _reordered(history.log),
        "never sent": [f"{sent}" for sent in sorted(set(history.log.values()) - sent_by_anyone)],
        "skipped or went back": [
            f"{name}: {line}" for name, seen in history.seen.items() for line in _jumps([place for place, _ in seen])
        ],
    }
    return {kind: lines for kind, lines in found.items() if lines}


def _lost(history: History) -> list[str]:
    present = set(history.log.values())
    return [f"{sent}, acknowledged at {place}" for sent, place in history.acked.items() if sent not in present]


def _moved(history: History) -> list[str]:
    """An offset that an acknowledgement or a consumer and the final log assign to different records."""
    told = [("acknowledged", place, sent) for sent, place in history.acked.items()]
    told += [(name, place, sent) for name, seen in history.seen.items() for place, sent in seen]
    return [
        f"{place}: {who} {sent}, in the log {history.log[place]}"
        for who, place, sent in told
        if place in history.log and history.log[place] != sent
    ]


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


def _jumps(places: Sequence[Place]) -> Iterable[str]:
    """A consumer outside a group must see every offset once and in order, because without transactions none is
    missing."""
    expected: dict[int, int] = {}
    for partition, offset in places:
        if offset != expected.get(partition, 0):
            yield f"partition {partition}: {offset} where {expected.get(partition, 0)} was next"
        expected[partition] = offset + 1
