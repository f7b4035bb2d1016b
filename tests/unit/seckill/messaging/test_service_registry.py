"""Every name in the registry leads to code, and handlers have the optional methods that their topics need."""

from __future__ import annotations

import pytest

from seckill.messaging.records import HandlesDeadLetters, HandlesDiscards, PrioritizesTopic, TakesLargeBatches
from seckill.messaging.service_registry import GROUPS, METRICS, RELAYS, SWEEPS, create_handler, load_object
from seckill.messaging.topics import PURCHASE_DIVERTED, TOPICS


@pytest.mark.parametrize("group", GROUPS)
def test_a_handler_reads_under_its_groups_name_and_its_topics_list_it_as_a_reader(group: str) -> None:
    handler = create_handler(group)
    assert handler.group == group
    assert all(group in topic.readers for topic in handler.topics)


def test_inventory_reads_diverted_requests_first_and_handles_dead_letters() -> None:
    handler = create_handler("inventory")
    assert isinstance(handler, PrioritizesTopic) and handler.priority_topic is PURCHASE_DIVERTED
    for optional in (TakesLargeBatches, HandlesDeadLetters, HandlesDiscards):
        assert isinstance(handler, optional), optional.__name__


def test_a_handler_without_a_priority_has_none() -> None:
    """The control: the check above can fail."""
    assert not isinstance(create_handler("gateway.outcomes"), PrioritizesTopic)


def test_sweeps_and_metrics_exist_for_each_service() -> None:
    assert set(SWEEPS) == set(METRICS) == {"inventory", "orders", "notifications"}
    for path in (*SWEEPS.values(), *METRICS.values()):
        assert load_object(path)


def test_every_writer_of_a_topic_but_the_gateway_has_exactly_one_relay() -> None:
    """The gateway writes to its topics itself."""
    published = [writer for writers in RELAYS.values() for writer in writers]
    assert sorted(published) == sorted({topic.writer for topic in TOPICS.values()} - {"gateway"} | {"letters"})
