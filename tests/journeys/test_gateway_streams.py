"""Streams of outcomes in a running stack: every step arrives once, also after a reconnect or an outage of Redis."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.journeys.gateway_cast import gateway_stack
from tests.journeys.stack import Buyer, Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STREAM_SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with gateway_stack(tmp_path_factory.mktemp("streams")) as (stack, _):
        yield stack


class EventSource:
    """A client of server-sent events, like a browser's."""

    def __init__(self, url: str, last: str = "") -> None:
        request = urllib.request.Request(url, headers={"Last-Event-ID": last} if last else {})
        self._response = urllib.request.urlopen(request, timeout=STREAM_SECONDS_MAX)
        self.status = self._response.status
        self.last = last

    def until(self, state: str) -> list[str]:
        """The states that arrive, up to this one."""
        states: list[str] = []
        while state not in states:
            line = self._response.readline().decode()
            assert line, f"the stream has ended after {states}"
            if line.startswith("id: "):
                self.last = line[4:].strip()
            if line.startswith("data: "):
                states.append(json.loads(line[6:])["state"])
        return states

    def read_to_end(self) -> bytes:
        content: bytes = self._response.read()
        return content


def address_of(stack: Stack, accepted: dict[str, Any]) -> str:
    return f"http://127.0.0.1:{stack.ports['gateway']}{accepted['events_url']}"


def test_a_stream_sends_each_step_and_resumes_where_it_was_cut(stack: Stack) -> None:
    sale = stack.create_sale(5)
    buyer = Buyer(stack, "listener")
    stack.run_command("stop", "inventory")
    accepted = buyer.buy(sale)[1]
    source = EventSource(address_of(stack, accepted))
    assert source.until("QUEUED")
    stack.run_command("start", "inventory")
    assert source.until("AWAITING_PAYMENT")[-1] == "AWAITING_PAYMENT"
    again = EventSource(address_of(stack, accepted), source.last)
    outcome = buyer.wait_for(accepted["request_id"], "AWAITING_PAYMENT")
    assert buyer.act(outcome["order_id"], "pay")[0] == 202
    assert again.until("PAID") == ["PAID"], "states that the client has seen are not sent again"
    assert source.until("PAID") == ["PAID"]


def test_a_stream_ends_with_the_final_outcome_and_answers_204_to_a_client_that_reconnects(stack: Stack) -> None:
    sale = stack.create_sale(1)
    Buyer(stack, "winner").buy(sale)
    loser = Buyer(stack, "loser")
    accepted = loser.buy(sale)[1]
    source = EventSource(address_of(stack, accepted))
    assert source.until("SOLD_OUT")
    assert b"data" not in source.read_to_end()
    assert EventSource(address_of(stack, accepted), source.last).status == 204


def test_a_stream_needs_the_signed_position_or_its_owners_token(stack: Stack) -> None:
    sale = stack.create_sale(5)
    owner, stranger = Buyer(stack, "hearer"), Buyer(stack, "eavesdropper")
    accepted = owner.buy(sale)[1]
    owner.wait_for(accepted["request_id"], "AWAITING_PAYMENT")
    bare = address_of(stack, accepted).partition("?")[0]
    for headers, status in (
        ({}, 401),
        ({"Authorization": f"Bearer {stranger.token}"}, 404),
        ({"Authorization": f"Bearer {owner.token}"}, 200),
    ):
        try:
            got = urllib.request.urlopen(urllib.request.Request(bare, headers=headers), timeout=15).status
        except urllib.error.HTTPError as error:
            got = error.code
            assert json.load(error)["status"] == status
        assert got == status


def test_a_stream_outlives_a_redis_that_is_killed(stack: Stack) -> None:
    sale = stack.create_sale(5)
    buyer = Buyer(stack, "patient")
    accepted = buyer.buy(sale)[1]
    source = EventSource(address_of(stack, accepted))
    source.until("AWAITING_PAYMENT")
    stack.run_command("kill", "redis")
    stack.wait_until(lambda: buyer.poll(accepted["request_id"]).get("state") == "AWAITING_PAYMENT", "an answer")
    order = buyer.poll(accepted["request_id"])["order_id"]
    stack.wait_until(lambda: buyer.act(order, "pay")[0] in (202, 409), "the payment to begin")
    assert source.until("PAID")[-1] == "PAID"
