"""A poll reports what the client raises about logs and brokers, so that the consumer does not end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaConnectionError, KafkaError, OffsetOutOfRangeError, UnknownBrokerIdError

from seckill.messaging import kafka_client
from seckill.messaging.kafka_client import PolledRecords, poll_records

PLACE = TopicPartition("orders", 0)


class FakeConsumer:
    """Each poll raises or returns the next item."""

    def __init__(self, *outcomes: Any) -> None:
        self._outcomes = iter(outcomes)
        self.updates = 0
        self._fetcher = SimpleNamespace(_next_partition_records=None)
        self._cluster = SimpleNamespace(request_update=self._request_update)

    def subscription(self) -> set[str]:
        return set()

    def _request_update(self) -> None:
        self.updates += 1

    def poll(self, timeout_ms: float, max_records: int) -> Any:
        outcome = next(self._outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr("seckill.messaging.kafka_client.time.sleep", taken.append)
    return taken


def poll(consumer: FakeConsumer) -> PolledRecords:
    return poll_records(cast(KafkaConsumer, consumer), 500, 10)


@pytest.mark.parametrize("fault", [UnknownBrokerIdError(2), KafkaConnectionError("111 ECONNREFUSED")])
def test_a_broker_that_is_gone_costs_one_poll_and_a_short_pause(fault: KafkaError, pauses: list[float]) -> None:
    consumer = FakeConsumer(fault, {PLACE: ["record"]})
    assert poll(consumer) == PolledRecords({})
    assert (consumer.updates, pauses) == (1, [kafka_client.RETRY_SECONDS])
    assert poll(consumer).records == {PLACE: ["record"]}
    assert len(pauses) == 1


def test_a_log_that_lacks_the_next_offset_is_reported(pauses: list[float]) -> None:
    assert poll(FakeConsumer(OffsetOutOfRangeError({PLACE: 7}))) == PolledRecords({}, frozenset({PLACE}))
    assert pauses == []


def test_any_other_error_still_ends_the_consumer(pauses: list[float]) -> None:
    with pytest.raises(KafkaError):
        poll(FakeConsumer(KafkaError("not authorized")))
