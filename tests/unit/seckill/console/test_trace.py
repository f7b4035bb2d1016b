"""The trace page in Chinese: every sentence of a timeline is translated, and only ids, names and codes stay."""

from __future__ import annotations

import re
from uuid import UUID

import pytest
from django.utils import translation

from seckill.console.trace import translate_step
from seckill.report import timeline
from seckill.report.timeline import Sentence, TimelineStep

REQUEST, ORDER = UUID(int=1), UUID(int=2)
STEPS = (
    timeline.request_admitted(1, REQUEST, "BOB", 2, "P1", 7),
    timeline.request_decided(2, "RESERVED", REQUEST, 3, "decision"),
    timeline.request_dead_lettered(3, "ORDERS", "OPEN", "UNKNOWN"),
    timeline.ledger_entry_posted(4, 3, "RESERVE", 1, "AVAILABLE", "RESERVED"),
    timeline.order_placed(5, ORDER, REQUEST, 2, 25800),
    timeline.order_changed(6, "", "PENDING"),
    timeline.order_changed(7, "PENDING", "PAID"),
    timeline.payment_opened(8, ORDER, 25800),
    timeline.payment_captured(9, 25800, False),
    timeline.payment_captured(10, 25800, True),
    timeline.payment_refunded(11, 25800),
    timeline.message_delivered(12, "SMS", "PAID", 1),
    timeline.message_delivered(13, "SMS", "PAID", 2),
    timeline.outcome_shown(14, "PAID", False),
    timeline.outcome_shown(15, "CANCELLED", True),
)
ENGLISH = re.compile("[a-z]+")
"""All facts above are numbers or capital letters."""


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.what)
def test_a_step_is_shown_in_chinese(step: TimelineStep) -> None:
    with translation.override("zh-hans"):
        shown = translate_step(step)
    assert not ENGLISH.findall(f"{shown.where} {shown.what}")
    assert re.findall("[0-9A-Z]+", shown.what), "it still names its facts"


def test_without_a_translation_a_step_stays_english() -> None:
    """The control: a sentence that the catalogue does not contain."""
    step = TimelineStep(1, timeline.Stage.SHOWN, "moon", Sentence("seen by {user}", user="BOB"))
    with translation.override("zh-hans"):
        assert translate_step(step) == step


def test_the_report_shows_the_same_step_in_english() -> None:
    with translation.override("en"):
        shown = [translate_step(step) for step in STEPS]
    assert [step.what for step in shown] == [step.what for step in STEPS]
    assert STEPS[3].what == "version 3: RESERVE 1 unit from AVAILABLE to RESERVED"
    assert STEPS[12].what == "SMS delivered after 2 attempts: PAID"
