"""The same group requests to our broker and to Apache Kafka must get the same answers, field by field.

A scenario sends raw requests of chosen versions, so it also sends what no client would. Ids that a broker invents are
replaced by numbers; addresses, throttling and the wording of messages may differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mqcore.wire.errors import ErrorCode
from seckill.stack.broker_process import BrokerProcess
from tests.conformance.callbacks import LIBRARIES, STORIES
from tests.conformance.group_conversation import CREATE_TOPICS, FIND, HEARTBEAT, METADATA, Conversation
from tests.conformance.group_scenarios import (
    a_group_whose_last_offset_is_deleted,
    a_group_without_members,
    a_session_ends,
    commits_in_and_after_a_rebalance,
    dynamic_members,
    empty_names,
    groups_that_are_not_there,
    old_clients_and_other_kinds,
    static_members,
    topics_by_id,
)
from tests.conformance.peer import ApacheKafka
from tests.conformance.static_member_scenarios import (
    static_members_that_restart_in_a_rebalance,
    static_members_that_restart_while_completing,
    static_members_that_restart_while_stable,
    static_members_that_restart_with_other_topics,
)

pytestmark = pytest.mark.needs("java", "mvn")

Scenario = Callable[[Conversation], None]

SCENARIOS: list[Scenario] = [
    groups_that_are_not_there,
    a_group_without_members,
    dynamic_members,
    static_members,
    a_group_whose_last_offset_is_deleted,
    static_members_that_restart_while_stable,
    static_members_that_restart_with_other_topics,
    static_members_that_restart_in_a_rebalance,
    static_members_that_restart_while_completing,
    commits_in_and_after_a_rebalance,
    empty_names,
    old_clients_and_other_kinds,
    a_session_ends,
    topics_by_id,
]


def ready(broker: BrokerProcess) -> int:
    """Two topics, and a coordinator that knows its groups."""
    talk = Conversation(broker.port)
    names = ("orders", "payments")
    topics = [{"name": name, "num_partitions": 3, "replication_factor": 1} for name in names]
    talk.quietly(CREATE_TOPICS, 2, topics=topics, timeout_ms=10_000)
    deadline = time.monotonic() + 60
    while True:
        found = talk.quietly(FIND, 4, coordinator_keys=["ready"]).coordinators[0].error_code
        beat = talk.quietly(HEARTBEAT, 4, group_id="ready", generation_id=1, member_id="m").error_code
        known = talk.quietly(METADATA, 4, topics=[{"name": name} for name in names]).topics
        errors = [part.error_code for topic in known for part in topic.partitions]
        if found == 0 and beat == ErrorCode.UNKNOWN_MEMBER_ID and errors == [0] * 6:
            talk.close()
            return broker.port
        assert time.monotonic() < deadline, (found, beat, errors)
        time.sleep(0.2)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1500"}
    folder = tmp_path_factory.mktemp("like-kafka")
    with BrokerProcess(folder / "ours", settings) as ours, ApacheKafka(folder / "kafka", settings) as kafka:
        yield ready(ours), ready(kafka)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_groups_answer_like_kafka(scenario: Scenario, ports: tuple[int, int]) -> None:
    transcripts = []
    for port in ports:
        talk = Conversation(port)
        scenario(talk)
        talk.close()
        transcripts.append(talk.transcript)
    ours, kafka = transcripts
    assert ours
    for mine, theirs in zip(ours, kafka, strict=True):
        assert mine == theirs


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_consumers_see_the_same_rebalance_callbacks_as_with_kafka(
    story: Callable[[str, int], list[Any]], ports: tuple[int, int]
) -> None:
    with ThreadPoolExecutor(len(LIBRARIES) * len(ports)) as threads:
        told = {library: [threads.submit(story, library, port) for port in ports] for library in LIBRARIES}
    for library, (ours, kafka) in told.items():
        assert ours.result() == kafka.result(), library
