"""Shell: all sources, in an order that lets them be compared: wait for calm, cut, snapshot, look whether it was calm.

If the topics end after the snapshot where they ended before it, nothing is unpublished and every group has read to the
end, then everything that was said is in both; else the evidence says what is under way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from kafka import TopicPartition
from kafka.errors import KafkaError
from redis.exceptions import RedisError

from seckill.consistency.evidence import Evidence
from seckill.consistency.manifest import Manifest
from seckill.consistency.rows import GroupOffset, Source
from seckill.consistency.sources import database, files, gate, statistics, topics
from seckill.consistency.sources.records import NotRead, Reading
from seckill.topics import TOPICS

SPARK = "analytics"
AWAY_S = 15.0
"""Broker or database have not answered for so long: they are away, and nothing is waited for."""


@dataclass(frozen=True, slots=True)
class Addresses:
    kafka: str
    database: str
    gate: str
    sandbox: Path  # folder of the outside world's logs


def collect(where: Addresses, manifest: Manifest, patience_s: float, tell: Callable[[str], None]) -> Evidence:
    tell("waiting until everything has been worked off")
    _await_calm(where, patience_s)
    faults: dict[str, list[str]] = {letter: [] for letter in "CKRLOPNGSF"}
    counts: dict[str, dict[str, int]] = {letter: {} for letter in faults}
    fields: dict[str, Any] = {}
    ends: dict[TopicPartition, int] = {}
    try:
        ends = topics.cut(where.kafka)
    except KafkaError as fault:
        faults["K"].append(f"no broker: {fault}")
    reading = Reading(where.kafka, ends) if ends else None
    try:
        return _collect(where, manifest, ends, reading, tell, fields, counts, faults)
    finally:
        if reading is not None:
            reading.give_up()


def _collect(
    where: Addresses,
    manifest: Manifest,
    ends: dict[TopicPartition, int],
    reading: Reading | None,
    tell: Callable[[str], None],
    fields: dict[str, Any],
    counts: dict[str, dict[str, int]],
    faults: dict[str, list[str]],
) -> Evidence:
    """The crowd before the tables: what was seen is true by the time they are read."""
    tell("reading what the crowd was told, and the topics")
    _read_crowd(manifest, fields, counts, faults)
    tell("reading Postgres and Redis, and the topics")
    taken_at_ms = time.time_ns() // 1_000_000
    try:
        snapshot = database.read(where.database)
        taken_at_ms = snapshot.taken_at_ms
        fields |= snapshot.fields
        faults["O"] += snapshot.faults
        for letter, read in snapshot.counts.items():
            counts[letter] |= read
    except psycopg.Error as fault:
        for letter in "LOPN":
            faults[letter].append(f"no database: {str(fault).splitlines()[0]}")
    try:
        fields["gates"] = gate.read(where.gate, fields.get("stocks", []))
        retired = sum(stock.gate_retired for stock in fields.get("stocks", []))
        counts["R"]["gates"] = retired + sum(each.free is not None for each in fields["gates"])
    except RedisError as fault:
        faults["R"].append(f"no Redis: {fault}")
    tell("reading the topics")
    _read_topics(where, reading, fields, counts, faults)
    _read_files(where, manifest, fields, counts, faults)
    _read_statistics(where, fields, counts, faults)
    sources = {letter: Source(letter, counts[letter], tuple(faults[letter])) for letter in faults}
    return Evidence(
        sources=sources,
        taken_at_ms=taken_at_ms,
        off=manifest.off,
        faults_planned=manifest.faults,
        runs=manifest.runs,
        under_way=tuple(_under_way(where, ends, fields)),
        **fields,
    )


def _read_topics(
    where: Addresses,
    reading: Reading | None,
    fields: dict[str, Any],
    counts: dict[str, dict[str, int]],
    faults: dict[str, list[str]],
) -> None:
    if reading is None:
        faults["K"].append("no topics were found")
        faults["G"].append("no topics were found")
        return
    try:
        read = reading.result()
        fields |= {name: getattr(read, name) for name in FROM_TOPICS}
        counts["K"] |= {name: len(getattr(read, name)) for name in FROM_TOPICS if name != "logs"}
        faults["K"] += read.faults
        fields["committed"] = topics.committed(where.kafka, groups())
        counts["G"]["committed"] = len(fields["committed"])
    except (KafkaError, NotRead) as fault:
        faults["K"].append(f"not read: {fault}")
        faults["G"].append(f"not read: {fault}")


FROM_TOPICS = ("logs", "requested", "decisions_said", "orders_said", "unreadable")


def _read_crowd(
    manifest: Manifest, fields: dict[str, Any], counts: dict[str, dict[str, int]], faults: dict[str, list[str]]
) -> None:
    if not manifest.is_there:
        faults["C"].append(f"no {manifest.folder.name}/manifest.json: nothing is declared")
    crowd = files.crowd([manifest.folder / name for name in manifest.logs])
    fields |= {
        "attempts": crowd.attempts,
        "sights": crowd.sights,
        "called": crowd.called,
        "crowd_sales": frozenset(crowd.sales),
    }
    counts["C"] = {"attempts": len(crowd.attempts), "sights": crowd.looks, "called": len(crowd.called)}
    faults["C"] += crowd.faults


def _read_statistics(
    where: Addresses, fields: dict[str, Any], counts: dict[str, dict[str, int]], faults: dict[str, list[str]]
) -> None:
    try:
        fields |= statistics.read(where.database)._asdict()
        counts["S"] = {name: len(fields[name]) for name in ("counted", "counted_to")}
        if not fields["counted_to"]:
            faults["S"].append("there are no statistics: `seckill stats replay` makes some")
    except psycopg.Error as fault:
        faults["S"].append(f"no statistics: {str(fault).splitlines()[0]}")


def _read_files(
    where: Addresses,
    manifest: Manifest,
    fields: dict[str, Any],
    counts: dict[str, dict[str, int]],
    faults: dict[str, list[str]],
) -> None:
    fields["provider"], wrong = files.provider(where.sandbox / "provider.jsonl")
    faults["P"] += wrong
    counts["P"]["provider"] = len(fields["provider"])
    fields["sink"], wrong = files.sink(where.sandbox / "sinks.jsonl")
    faults["N"] += wrong
    counts["N"]["sink"] = len(fields["sink"])
    fields["observed"], wrong = files.observed(manifest.folder / "observed.jsonl")
    faults["F"] += wrong
    counts["F"]["observed"] = len(fields["observed"])
    if manifest.faults:
        fields["injected"], wrong = files.injected(manifest.folder / "faults.jsonl")
        faults["F"] += wrong
        counts["F"]["injected"] = len(fields["injected"])


# ── calm ─────────────────────────────────────────────────────────────────────────────────────────


def groups() -> list[str]:
    return sorted({reader for topic in TOPICS.values() for reader in topic.readers if reader != SPARK})


def _await_calm(where: Addresses, patience_s: float) -> None:
    """Twice calm in a row, half a second apart; or time is over, and the evidence will say so. Who does not answer may
    be coming back, or be slow: a crowd has just been here."""
    heard = time.monotonic()
    give_up = heard + patience_s
    calm = 0
    while calm < 2 and time.monotonic() < min(give_up, heard + AWAY_S):
        try:
            offsets, unpublished = database.offsets(where.database)
            busy = unpublished + database.unsettled(where.database) + len(_behind(topics.cut(where.kafka), offsets))
            heard = time.monotonic()
        except (psycopg.Error, KafkaError):
            busy = 1
        calm = 0 if busy else calm + 1
        time.sleep(0.5)


def _under_way(where: Addresses, ends: dict[TopicPartition, int], fields: dict[str, Any]) -> list[str]:
    if "offsets" not in fields or not ends:
        return ["nobody can say how far it is: database or broker cannot be read"]
    reasons = [f"{count} events of {writer} are not published" for writer, count in sorted(fields["outbox"].items())]
    reasons += _behind(ends, fields["offsets"])
    try:
        grown = sum(topics.cut(where.kafka).values()) - sum(ends.values())
    except KafkaError as fault:
        return [*reasons, f"the broker is gone: {fault}"]
    if grown:
        reasons.append(f"the topics have grown by {grown} records meanwhile")
    return reasons


def _behind(ends: dict[TopicPartition, int], offsets: list[GroupOffset]) -> list[str]:
    """Groups that have not read to the end of what they read."""
    reached = {(row.group, row.topic, row.partition): row.next_offset for row in offsets}
    lag: dict[str, int] = {}
    for partition, end in ends.items():
        for group in TOPICS[partition.topic].readers:
            if group != SPARK:
                behind = end - reached.get((group, partition.topic, partition.partition), 0)
                lag[group] = lag.get(group, 0) + max(0, behind)
    return [f"{group} is {count} records behind" for group, count in sorted(lag.items()) if count]
