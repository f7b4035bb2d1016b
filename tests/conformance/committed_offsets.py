"""Commit and read offsets, and read a whole topic, over a raw connection."""

from __future__ import annotations

import sys
import time

from mqcore.wire.batches import read_headers
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import read_records
from tests.conformance.raw import (
    OFFSET_COMMIT,
    OFFSET_FETCH,
    Wire,
)

MQCORE = (sys.executable, "-m", "mqcore")


def name(code: int) -> str:
    return ErrorCode(code).name


def commit(wire: Wire, group: str, topic: str, offset: int) -> str:
    part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    request = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [part]}],
    }
    return name(wire.ask(OFFSET_COMMIT, 7, request).topics[0].partitions[0].error_code)


def committed(wire: Wire, group: str, topic: str) -> int:
    asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    give_up = time.monotonic() + 20
    while True:
        answer = wire.ask(OFFSET_FETCH, 5, asked)
        if name(answer.error_code) not in ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"):
            return int(answer.topics[0].partitions[0].committed_offset)
        assert time.monotonic() < give_up
        time.sleep(0.02)


def read_all(wire: Wire, topic: str) -> list[tuple[int, bytes]]:
    """(offset, value) of everything in partition 0."""
    found: list[tuple[int, bytes]] = []
    offset = 0
    while records := wire.fetch(topic, offset).records:
        for position, header in read_headers(records):
            for record in read_records(records[position : position + header.size], header):
                found.append((record.offset, record.value or b""))
            offset = header.next_offset
    return found
