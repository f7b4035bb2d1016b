"""Signed texts: tickets, positions and tokens verify only for the purpose and user they were signed for."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from gateway import signed_positions, tickets
from gateway.signed_positions import SignedPosition
from seckill.messaging.record_position import RecordPosition
from seckill.web import tokens

REQUEST = UUID("01234567-89ab-8def-8123-456789abcdef")
SIGNED = SignedPosition("ann", RecordPosition("purchase.requests", 3, 1234), 99)


def test_a_ticket_is_valid_for_its_user_and_sale() -> None:
    text, ticket = tickets.issue_ticket("ann", 7, now_ms=1_000)
    assert tickets.verify_ticket(text, "ann", 7) == ticket
    assert ticket.expires_at_ms == 1_000 + tickets.LIFE_MS


def test_a_ticket_is_invalid_for_another_user_or_sale() -> None:
    text, _ = tickets.issue_ticket("ann", 7, now_ms=1_000)
    assert tickets.verify_ticket(text, "bob", 7) is None
    assert tickets.verify_ticket(text, "ann", 8) is None


def test_a_user_name_that_looks_like_a_ticket_is_not_taken_for_one() -> None:
    text, _ = tickets.issue_ticket("7.99999.x.ann", 1, now_ms=1_000)
    assert tickets.verify_ticket(text, "ann", 7) is None
    assert tickets.verify_ticket(text, "7.99999.x.ann", 1) is not None


def test_a_token_is_not_accepted_as_a_ticket_nor_a_ticket_as_a_token() -> None:
    assert tickets.verify_ticket(tokens.issue_token("ann"), "ann", 7) is None
    assert tokens.verify_token(tickets.issue_ticket("ann", 7, 1_000)[0]) is None


@given(st.text(max_size=300))
def test_an_invented_text_verifies_as_nothing(text: str) -> None:
    assert tokens.verify_token(text) is None
    assert tickets.verify_ticket(text, "ann", 7) is None
    assert signed_positions.verify_position(REQUEST, text) is None


@given(st.integers(0), st.sampled_from("0123456789abcdef.A_-"))
def test_a_changed_signed_position_does_not_verify(where: int, letter: str) -> None:
    text = signed_positions.sign_position(REQUEST, SIGNED)
    at = where % len(text)
    touched = text[:at] + letter + text[at + 1 :]
    assert signed_positions.verify_position(REQUEST, touched) == (SIGNED if touched == text else None)


def test_a_signed_position_verifies_for_its_own_request_only() -> None:
    text = signed_positions.sign_position(REQUEST, SIGNED)
    assert signed_positions.verify_position(REQUEST, text) == SIGNED
    assert signed_positions.verify_position(uuid4(), text) is None


def test_a_token_expires() -> None:
    assert tokens.verify_token(tokens.issue_token("ann")) == "ann"
    assert tokens.verify_token(tokens.issue_token("ann", now_s=0)) is None


def test_a_signed_text_has_exactly_one_valid_spelling() -> None:
    """The last letter of base64 has unused bits, and Python's decoder skips unknown letters."""
    text = tokens.sign_text("place", "anna")
    assert text.startswith("YW5uYQ.")
    assert tokens.verify_text("place", text) == "anna"
    for spelling in ("YW5uYR.", "YW5u*YQ.", " YW5uYQ.", "YW5uYQ=."):
        assert tokens.verify_text("place", text.replace("YW5uYQ.", spelling)) is None


def test_a_text_signed_with_a_former_key_verifies_while_the_key_is_listed_as_fallback(settings: Any) -> None:
    token = tokens.issue_token("ann")
    former, settings.SECRET_KEY = settings.SECRET_KEY, "a new key of at least thirty-two bytes"
    assert tokens.verify_token(token) is None, "the control: without the fallback the token is void"
    settings.SECRET_KEY_FALLBACKS = [former]
    assert tokens.verify_token(token) == "ann"
    settings.SECRET_KEY_FALLBACKS = []
    assert tokens.verify_token(tokens.issue_token("ann")) == "ann", "new texts are signed with the new key"
