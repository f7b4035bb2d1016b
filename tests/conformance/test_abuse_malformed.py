"""Malformed requests of every kind close their connection and harm no other."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from mqcore.apis.table import TABLE
from mqcore.wire.messages import encode_request
from seckill.stack.broker_process import BrokerProcess
from seckill.stack.child_processes import free_port
from tests.conformance.abusive_clients import (
    MIB,
    TIMES,
    ClientSockets,
    WellBehavedClient,
    assert_healthy,
    counted,
    open_files,
    resident,
    wait_until,
)
from tests.conformance.raw import (
    CREATE_TOPICS,
    FETCH,
    JOIN_GROUP,
    OFFSET_COMMIT,
    PRODUCE,
    batched,
    fetch_request,
    framed,
    produce_request,
)

FRAMES = 50_000 * TIMES

pytestmark = [pytest.mark.timeout(120 + 60 * TIMES), pytest.mark.usefixtures("many_files")]


def corpus() -> list[bytes]:
    """Valid frames of every request in every version, and some with more content."""
    frames = []
    for key, entry in TABLE.items():
        for version in range(entry.api.first_version, entry.api.last_version + 1):
            with contextlib.suppress(ValueError):
                frames.append(framed(key, version, 1, encode_request(key, version, {})))
    for version in range(3, 10):
        frames.append(framed(PRODUCE, version, 1, produce_request("fuzz", batched(b"a", b"b", producer=3))))
    for version in range(4, 13):
        frames.append(framed(FETCH, version, 1, fetch_request("fuzz", max_wait_ms=10)))
    wanted = {"name": "fuzz", "num_partitions": 1, "replication_factor": 1, "configs": []}
    frames += [framed(CREATE_TOPICS, version, 1, {"topics": [wanted], "timeout_ms": 10}) for version in range(2, 8)]
    member = {"group_id": "fuzz", "member_id": "", "protocol_type": "consumer", "session_timeout_ms": 6000}
    protocols = [{"name": "range", "metadata": b"\x00\x01"}]
    frames += [framed(JOIN_GROUP, version, 1, {**member, "protocols": protocols}) for version in range(4)]
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x"}
    commit = {"group_id": "fuzz", "topics": [{"name": "fuzz", "partitions": [part]}]}
    frames += [framed(OFFSET_COMMIT, version, 1, commit) for version in range(5, 9)]
    return frames


def mutated(frames: list[bytes], chance: random.Random) -> bytes:
    """A frame with a few mutations. Its length is usually right, because a wrong one hides all other mutations."""
    frame = bytearray(chance.choice(frames))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        kind = chance.randrange(8)
        at = chance.randrange(4, len(frame))
        if kind <= 2:
            frame[at] ^= 1 << chance.randrange(8)
        elif kind == 3:
            frame[at] = chance.choice((0x00, 0x01, 0x7F, 0x80, 0xFF))
        elif kind == 4:
            frame[at : at + 4] = struct.pack(">i", chance.choice((-1, -2, 0, 2**31 - 1, -(2**31), 1 << 20)))
        elif kind == 5 and len(frame) > 20:
            del frame[at:]
            frame += bytes(max(0, 12 - len(frame)))
        elif kind == 6:
            frame[at:at] = frame[at : at + chance.randrange(1, 40)]
        else:
            struct.pack_into(">hh", frame, 4, chance.choice(list(TABLE)), chance.randrange(-1, 20))
    if chance.random() < 0.98:
        struct.pack_into(">i", frame, 0, len(frame) - 4)
    return bytes(frame)


def _pieces(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Sometimes in several pieces, as a network may split it."""
    if chance.random() < 0.9:
        yield data
        return
    position = 0
    while position < len(data):
        size = chance.randrange(1, 30)
        yield data[position : position + size]
        position += size


def test_malformed_requests_of_every_kind_affect_no_other_client(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(10**6)))
    print(f"SEED={seed} FRAMES={FRAMES}")
    chance, frames = random.Random(seed), corpus()
    metrics = free_port()
    broker = new_broker(metrics_listener=f"127.0.0.1:{metrics}").start()
    with WellBehavedClient(broker, topic):
        for frame in frames:  # warm up: the readers of all versions are compiled once
            with ClientSockets(broker, 1) as sockets:
                sockets.all_send(frame)
        time.sleep(0.5)
        files, before, connections, began = open_files(broker), resident(broker), 0, time.monotonic()
        served = refused = 0
        while served + refused < FRAMES:  # frames after a malformed one are never read, so they do not count
            assert not broker.has_crashed(), broker.log[-3000:]
            for _ in range(500):
                with socket.socket() as one, contextlib.suppress(OSError):
                    one.connect(("127.0.0.1", broker.port))
                    for piece in _pieces(
                        b"".join(mutated(frames, chance) for _ in range(chance.randrange(1, 6))), chance
                    ):
                        one.sendall(piece)
                    if chance.random() < 0.5:
                        one.shutdown(socket.SHUT_WR)
                        one.settimeout(0.05)
                        one.recv(1 << 16)
            connections += 500
            served = counted(metrics, "mqcore_requests_total")
            refused = counted(metrics, "mqcore_bad_requests_total")
        grown = (resident(broker) - before) / MIB
        seconds = time.monotonic() - began
        print(
            f"{connections} connections in {seconds:.0f} s: {served} served, {refused} refused, {grown:.1f} MiB grown"
        )
        assert min(served, refused) > FRAMES // 10
        assert grown < 96
        made = len(list(broker.data.iterdir()))
        wait_until(lambda: open_files(broker) <= files + 4 * made, "sockets stay open")
    assert_healthy(broker)
    assert len(broker.log) < MIB * TIMES, "clients can fill the disk through the log"
    assert broker.stop() == 0
    broker.start()
    assert_healthy(broker)
