"""Fetch: sessions are declined, and full requests are answered with or without one."""

from __future__ import annotations

from typing import Any

import pytest

from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.running_broker import RunningBroker

FETCH = 1


def fetch(broker: RunningBroker, **fields: Any) -> Any:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "orders", "partitions": [wanted]}]
    limits = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20}
    return broker.request(FETCH, 11, topics=topics, **limits, **fields)


@pytest.mark.parametrize("session", [(0, -1), (0, 0), (-1, -1), (17, 0), (17, -1)])
def test_a_full_fetch_needs_no_session(broker: RunningBroker, session: tuple[int, int]) -> None:
    broker.create_topic("orders")
    session_id, epoch = session
    answer = fetch(broker, session_id=session_id, session_epoch=epoch)
    assert (answer.error_code, answer.session_id) == (ErrorCode.NONE, 0)
    ((partition,),) = (topic.partitions for topic in answer.responses)
    assert (partition.error_code, partition.high_watermark) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("session_id", [0, 17])
def test_a_fetch_that_continues_a_session_is_refused(broker: RunningBroker, session_id: int) -> None:
    broker.create_topic("orders")
    answer = fetch(broker, session_id=session_id, session_epoch=1)
    assert (answer.error_code, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
