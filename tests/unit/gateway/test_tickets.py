"""Tickets and places: what we have signed we recognise, for whom and for what we signed it, and nothing else."""

from __future__ import annotations

from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from gateway import places, tickets
from gateway.places import Place, Standing
from seckill import tokens

REQUEST = UUID("01234567-89ab-8def-8123-456789abcdef")
STANDING = Standing("ann", Place("purchase.requests", 3, 1234), 99)


def test_a_ticket_is_read_by_whom_and_for_what_it_was_given() -> None:
    text, ticket = tickets.issue("ann", 7, now_ms=1_000)
    assert tickets.read(text, "ann", 7) == ticket
    assert ticket.expires_at_ms == 1_000 + tickets.LIFE_MS


def test_a_shared_ticket_and_one_of_another_sale_are_worth_nothing() -> None:
    text, _ = tickets.issue("ann", 7, now_ms=1_000)
    assert tickets.read(text, "bob", 7) is None
    assert tickets.read(text, "ann", 8) is None


def test_a_user_whose_name_looks_like_a_ticket_gains_nothing() -> None:
    text, _ = tickets.issue("7.99999.x.ann", 1, now_ms=1_000)
    assert tickets.read(text, "ann", 7) is None
    assert tickets.read(text, "7.99999.x.ann", 1) is not None


def test_a_token_is_no_ticket_and_a_ticket_no_token() -> None:
    assert tickets.read(tokens.issue("ann"), "ann", 7) is None
    assert tokens.read(tickets.issue("ann", 7, 1_000)[0]) is None


@given(st.text(max_size=300))
def test_what_strangers_make_up_opens_nothing(text: str) -> None:
    assert tokens.read(text) is None
    assert tickets.read(text, "ann", 7) is None
    assert places.opened(REQUEST, text) is None


@given(st.integers(0), st.sampled_from("0123456789abcdef.A_-"))
def test_a_place_that_somebody_has_touched_opens_nothing(where: int, letter: str) -> None:
    text = places.sealed(REQUEST, STANDING)
    at = where % len(text)
    touched = text[:at] + letter + text[at + 1 :]
    assert places.opened(REQUEST, touched) == (STANDING if touched == text else None)


def test_a_place_says_who_stands_where_and_is_of_one_request() -> None:
    text = places.sealed(REQUEST, STANDING)
    assert places.opened(REQUEST, text) == STANDING
    assert places.opened(uuid4(), text) is None


def test_a_token_ends_with_its_day() -> None:
    assert tokens.read(tokens.issue("ann")) == "ann"
    assert tokens.read(tokens.issue("ann", now_s=0)) is None


def test_a_seal_has_one_spelling() -> None:
    """The last letter of base64 has bits to spare, and Python's decoder leaves out letters it does not know."""
    text = tokens.sealed("place", "anna")
    assert text.startswith("YW5uYQ.")
    assert tokens.opened("place", text) == "anna"
    for spelling in ("YW5uYR.", "YW5u*YQ.", " YW5uYQ.", "YW5uYQ=."):
        assert tokens.opened("place", text.replace("YW5uYQ.", spelling)) is None
