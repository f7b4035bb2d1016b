"""A broker that has one of three replicas of a partition, as its leader or as a follower."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mqcore.apis import delete_records, fetch, list_offsets
from mqcore.apis.call import LATER
from mqcore.config import BrokerConfig
from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset
from mqcore.partitions.partition import Partition
from mqcore.partitions.reads import ReplicaFetch
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import Term
from mqcore.replication.serving import ReplicaFetches
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import FetchedPartition
from mqcore.wire.requests.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from mqcore.wire.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.unit.mqcore.apis.memory_broker import ORDERS, MemoryBroker, fetch_request
from tests.unit.mqcore.partitions.helpers import batch
from tests.unit.mqcore.partitions.replicas import ONE, THREE, TWO

EPOCH = LeaderEpoch(9)
LATEST, EARLIEST = -1, -2


class Replicated(MemoryBroker):
    """Broker 1 has a replica of `orders` with two records."""

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.services.config = BrokerConfig(node_id=1, **config)
        self.services.replica_fetches = ReplicaFetches(self.partitions, self.clock, "PLAINTEXT", 1 << 20)  # type: ignore[arg-type]
        self.services.durability = SimpleNamespace(write_checkpoints=lambda: None)  # type: ignore[assignment]
        self.harnesses[ORDERS].append(batch(b"a", b"b"))
        self.partition_epoch = 0

    @property
    def partition(self) -> Partition:
        return self.harnesses[ORDERS].partition

    def term(self, leader: BrokerId, isr: tuple[BrokerId, ...], min_isr: int) -> Term:
        self.partition_epoch += 1
        return Term(leader, EPOCH, self.partition_epoch, (ONE, TWO, THREE), frozenset(isr), min_isr)

    def lead(self, *isr: BrokerId, min_isr: int = 2) -> None:
        now = self.clock.now().monotonic_ms
        self.partition.lead(self.term(ONE, isr, min_isr), Membership(ONE, 11), now)

    def follow(self) -> None:
        self.partition.follow(self.term(TWO, (ONE, TWO), 2), Membership(ONE, 11))

    def copied(self, by: BrokerId, end: int | None = None, log_start: int = 0) -> None:
        """A follower has fetched up to `end`."""
        log = self.partition.log
        offset = log.end_offset if end is None else end
        last_epoch = log.epochs.epoch_at(offset - 1)
        fetched = ReplicaFetch(by, 12, EPOCH, Offset(offset), last_epoch, Offset(log_start))
        assert self.partition.fetched(fetched, Millis(self.clock.monotonic_ms)) is None

    def offset(self, timestamp: int, version: int = 11) -> Any:
        wanted = ListOffsetsPartition(timestamp=timestamp)
        request = ListOffsetsRequest(isolation_level=0, topics=[ListOffsetsTopic(name=ORDERS, partitions=[wanted])])
        answer: Any = list_offsets.handle(request, self.call(version))
        (found,) = answer["topics"][0]["partitions"]
        return ErrorCode(found["error_code"]).name if found.get("error_code") else found["offset"]

    def delete(self, offset: int) -> Any:
        wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
        topics = [DeleteRecordsTopic(name=ORDERS, partitions=[wanted])]
        call = self.call(2)
        answer: Any = delete_records.handle(DeleteRecordsRequest(topics=topics, timeout_ms=1000), call)
        return call if answer is LATER else deleted(answer)

    def consume(self, offset: int = 0, *, version: int = 12, rack: str = "") -> FetchedPartition:
        request = fetch_request((ORDERS, offset), max_wait_ms=0)._replace(rack_id=rack)
        answer: Any = fetch.handle(request, self.call(version))
        found: FetchedPartition = answer[1][0][2][0]
        return found


def deleted(answer: Any) -> tuple[int, str]:
    (found,) = answer["topics"][0]["partitions"]
    return found["low_watermark"], ErrorCode(found["error_code"]).name


def errors(answer: Any) -> list[str]:
    return [ErrorCode(found.error_code).name for _, _, partitions in answer for found in partitions]
