"""One trace covers a purchase: an event continues the trace of its cause, with a span of its own."""

from __future__ import annotations

from uuid import UUID

import pytest

from seckill.monitoring import traces

REQUEST = UUID("11111111-1111-8111-8111-111111111111")
DECISION = UUID("22222222-2222-4222-8222-222222222222")
CAME_WITH = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def test_an_event_caused_by_a_message_continues_its_trace() -> None:
    with traces.entered([(REQUEST, CAME_WITH)]):
        assert traces.child(DECISION, REQUEST) == "00-0af7651916cd43dd8448eb211c80319c-2222222222224222-00"


def test_a_message_without_a_trace_starts_one_named_after_it() -> None:
    with traces.entered([(REQUEST, None)]):
        assert traces.child(DECISION, REQUEST) == f"00-{REQUEST.hex}-2222222222224222-01"


@pytest.mark.parametrize("damaged", ["", "x", CAME_WITH[:-1], "00-" + "0" * 32 + "-b7ad6b7169203331-01", "ff" * 40])
def test_a_malformed_traceparent_is_ignored(damaged: str) -> None:
    with traces.entered([(REQUEST, damaged)]):
        assert traces.child(DECISION, REQUEST).split("-")[1] == REQUEST.hex


def test_outside_a_batch_the_cause_or_the_event_starts_the_trace() -> None:
    assert traces.child(DECISION, None) == traces.root(DECISION)
    assert traces.child(DECISION, REQUEST) == traces.root(REQUEST)
    with traces.entered([(REQUEST, CAME_WITH)]):
        pass
    assert traces.child(DECISION, REQUEST) == traces.root(REQUEST)
