"""The texts of messages to buyers, in the language of the shop."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from notifications.message_texts import TEXTS, message_text
from orders.events import OrderChanged, OrderEvent

CHANGED = OrderChanged(OrderEvent.PAID, UUID(int=0xABC << 100), UUID(int=2), "bob", 1, "phone", 1, 100, 1, 2)


def test_a_message_is_english_by_default_and_names_its_order() -> None:
    assert message_text(CHANGED) == "Your order 0000abc0 is paid. Thank you."


@pytest.mark.parametrize("event", TEXTS)
def test_every_message_exists_in_chinese(event: OrderEvent, settings: Any) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, message_language="zh-hans")
    text = message_text(CHANGED._replace(event=event))
    assert text is not None and str(CHANGED.order_id)[:8] in text
    assert re.findall("[A-Za-z]{2,}", text.replace(str(CHANGED.order_id)[:8], "")) == []


def test_texts_of_two_events_differ_in_chinese(settings: Any) -> None:
    """The report finds a message with the text of another event by this (I30)."""
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, message_language="zh-hans")
    assert len({message_text(CHANGED._replace(event=event)) for event in TEXTS}) == len(TEXTS)


def test_an_event_without_a_message_has_no_text() -> None:
    assert message_text(CHANGED._replace(event=OrderEvent.NOT_PLACED)) is None
