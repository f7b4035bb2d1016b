"""What consumers and followers get from a broker that leads or follows a partition with three replicas."""

from __future__ import annotations

from typing import Any

from mqcore.apis import fetch
from mqcore.apis.call import LATER
from mqcore.config import BrokerConfig
from mqcore.controller.facts import BrokerRegistered
from mqcore.identity import BrokerId, Offset
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.unit.mqcore.apis.memory_broker import IDS, ORDERS
from tests.unit.mqcore.apis.replicated_broker import EPOCH, Replicated, errors
from tests.unit.mqcore.partitions.helpers import NOW_MS, batch
from tests.unit.mqcore.partitions.replicas import ONE, THREE, TWO

# ── consumers and followers ──────────────────────────────────────────────────────────────────────────────


def test_a_consumer_reads_from_a_follower_up_to_its_high_watermark() -> None:
    broker = Replicated()
    broker.follow()
    assert broker.consume(0, version=11).records and broker.consume(2).error_code == 0
    assert broker.consume(0, version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.partition.high_watermark = Offset(0)
    assert broker.consume(2).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert broker.consume(3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def with_racks() -> Replicated:
    broker = Replicated(replica_selector_class="RackAwareReplicaSelector")
    image = broker.services.image
    for number, rack in ((1, "a"), (2, "b"), (3, "b")):
        image.apply(BrokerRegistered(BrokerId(number), broker.services.directory_id, 5, (), rack, fenced=False))
    broker.lead(ONE, TWO)
    broker.copied(TWO)
    broker.copied(THREE)
    return broker


def test_a_consumer_is_sent_to_an_in_sync_replica_in_its_rack() -> None:
    broker = with_racks()
    found = broker.consume(0, rack="b")
    assert (found.preferred_read_replica, found.records) == (2, b"")
    for rack in ("a", "c", ""):
        found = broker.consume(0, rack=rack)
        assert found.preferred_read_replica == -1 and found.records


def test_without_a_selector_every_consumer_reads_from_the_leader() -> None:
    broker = with_racks()
    broker.services.config = BrokerConfig(node_id=1)
    assert broker.consume(0, rack="b").preferred_read_replica == -1


def follower_request(offset: int, max_wait_ms: int = 0, broker: int = 2) -> FetchRequest:
    wanted = FetchPartition(0, EPOCH, offset, 3 if offset else -1, 0, 1 << 20)
    topics = [FetchTopic(None, IDS[ORDERS], [wanted])]
    return FetchRequest(max_wait_ms, 1, 1 << 20, 0, 0, 0, topics, replica_id=broker, replica_epoch=12)


def test_a_follower_reads_to_the_end_of_the_log() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    broker.harnesses[ORDERS].append(batch(b"c", timestamp=NOW_MS))
    call = broker.call(17)
    assert fetch.handle(follower_request(2), call) is LATER
    (found,) = call.answers[0].topics[0][2]
    assert found.records.length and found.high_watermark == 2


def test_a_waiting_follower_is_answered_after_an_append_and_forgotten_when_it_disconnects() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO, THREE)
    calls = [broker.call(17), broker.call(17)]
    for call, follower in zip(calls, (TWO, THREE), strict=True):
        fetch.handle(follower_request(2, max_wait_ms=500, broker=follower), call)
    calls[1].disconnect()
    broker.harnesses[ORDERS].append()
    broker.clock.advance(0)
    assert len(calls[0].answers) == 1 and calls[1].answers == []
    assert len(broker.partition.append_watchers) == 0


def test_a_waiting_follower_is_answered_with_an_error_when_the_term_ends() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    call = broker.call(17)
    fetch.handle(follower_request(2, max_wait_ms=500), call)
    broker.follow()
    broker.clock.advance(0)
    assert errors(call.answers[0].topics) == ["NOT_LEADER_OR_FOLLOWER"]


def test_on_a_listener_for_clients_no_client_may_pass_for_a_follower() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    call = broker.call(17)
    call.listener = "CLIENTS"
    answer: Any = fetch.handle(follower_request(2), call)
    assert errors(answer[1]) == ["NOT_LEADER_OR_FOLLOWER"]
    assert broker.partition.high_watermark == 2


def test_a_fetch_of_a_broker_without_a_replica_moves_nothing() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    broker.harnesses[ORDERS].append()
    call = broker.call(17)
    fetch.handle(follower_request(3, broker=9), call)
    assert errors(call.answers[0].topics) == ["UNKNOWN_LEADER_EPOCH"]
    assert broker.partition.high_watermark == 2


def test_a_waiting_follower_is_answered_when_this_broker_begins_to_lead_another_partition() -> None:
    """Its next request can then name that partition, too."""
    broker = Replicated()
    broker.lead(ONE, TWO, THREE)
    fetches = broker.services.replica_fetches
    assert fetches is not None
    log, answers = broker.partition.log, list[object]()
    want = FetchPartition(0, EPOCH, log.end_offset, log.epochs.last_epoch, 0, 1 << 20)
    topics = [FetchTopic(None, IDS[ORDERS], [want])]
    fetches.serve(FetchRequest(500, 1, 1 << 20, 0, 0, 0, topics, replica_id=TWO, replica_epoch=12), answers.append)
    broker.clock.advance(50)
    assert answers == []
    fetches.begin_to_lead()
    broker.clock.advance(10)
    assert len(answers) == 1
    broker.clock.advance(1000)
    assert len(answers) == 1
