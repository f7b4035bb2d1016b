"""A follower copies from a running broker: its real server, real links, real files."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from mqcore.broker import Broker
from mqcore.config import parse_config
from mqcore.controller.commands import CreateTopics, NewTopic
from mqcore.disk.memory import MemoryDisk
from mqcore.host import SystemClock, SystemNetwork, SystemThreads, real_world
from mqcore.identity import LeaderEpoch, Offset, TopicPartition
from mqcore.metrics import Cell
from mqcore.partitions.flusher import Flusher
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import Term
from mqcore.partitions.waiting_requests import COMMITTED, CommitOutcome
from mqcore.replication.fetch_loop import FetchLoops, FetchRules, links_to_leaders
from mqcore.replication.serving import ReplicaFetches
from mqcore.wire.batches import read_headers
from mqcore.wire.records import Record
from tests.unit.mqcore.partitions.replicas import ONE, THREE, TWO

DEADLINE_S = 20
TERM = Term(ONE, LeaderEpoch(9), 1, (ONE, TWO, THREE), frozenset((ONE, TWO)), 2)


async def led_partition(broker: Broker) -> Partition:
    """`orders` with one partition, which the broker leads in a term with followers."""
    created: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    broker.controller.submit(CreateTopics((NewTopic("orders", broker.services.chance.new_uuid()),)), created.set_result)
    await created
    partition = broker.partitions.get("orders", 0)
    assert partition is not None
    partition.lead(TERM, Membership(ONE, 11), broker.services.clock.now().monotonic_ms)
    return partition


def fill(partition: Partition, batches: int) -> Offset:
    """The end of the log."""
    for number in range(batches):
        partition.append_records([Record(0, 1_700_000_000_000, b"k", b"%d" % number * 100)] * 10)
    return partition.log_end_offset


async def copy(data: Path, batches: int, rules: FetchRules) -> None:
    config = parse_config("", [f"log.dirs={data}", "listeners=PLAINTEXT://127.0.0.1:0", "node.id=1"])
    broker = Broker(config, real_world(str(data)))
    await broker.start()
    services = broker.services
    services.replica_fetches = ReplicaFetches(broker.partitions, services.clock, "PLAINTEXT", config.fetch_max_bytes)
    leader = await led_partition(broker)
    (endpoint,) = services.image.brokers[ONE].endpoints

    clock = SystemClock(asyncio.get_running_loop())
    flusher = Flusher(lambda fault: None, Cell(), clock, SystemThreads())
    hosted = HostedPartitions(MemoryDisk(), clock, flusher, is_clean=False)
    follower = hosted.open(TopicPartition("orders", 0), leader.topic_id, {"segment.bytes": "20000"})
    assert follower is not None
    addresses = {ONE: (endpoint.host, endpoint.port)}
    loops = FetchLoops(links_to_leaders(TWO, clock, SystemNetwork(), addresses.get), clock, rules)
    fill(leader, batches)  # before the follower begins
    follower.follow(TERM, Membership(TWO, 12))
    loops.follow(follower)

    committed: asyncio.Future[CommitOutcome] = asyncio.get_running_loop().create_future()
    leader.when_committed(fill(leader, batches), committed.set_result)
    assert await asyncio.wait_for(committed, DEADLINE_S) == COMMITTED
    assert follower.log_end_offset == leader.log_end_offset == 20 * batches
    assert contents(follower) == contents(leader)

    loops.close()
    await broker.stop()
    flusher.close()


def contents(partition: Partition) -> bytes:
    position, data = 0, b""
    log = partition.log
    while position < log.end_offset:
        found = log.read(position, 1 << 20, limit=log.end_offset)
        assert found is not None
        data += found.read()
        position = max(header.next_offset for _, header in read_headers(data))
    return data


def test_a_follower_copies_every_batch_byte_for_byte(tmp_path: Path) -> None:
    asyncio.run(copy(tmp_path / "data", 50, FetchRules()))


def test_answers_that_hold_only_a_few_batches_continue_where_the_last_one_ended(tmp_path: Path) -> None:
    rules = replace(FetchRules(), partition_bytes_max=5000, response_bytes_max=8000)
    asyncio.run(copy(tmp_path / "data", 50, rules))
