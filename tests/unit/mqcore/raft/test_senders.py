"""Requests of the quorum on their way to another voter, and what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from mqcore.identity import BrokerId
from mqcore.links.outcome import LinkFault
from mqcore.raft import codec
from mqcore.raft.messages import FetchResponse, Request, Response, VoteResponse
from mqcore.raft.senders import Senders
from mqcore.wire.errors import ErrorCode
from mqcore.wire.messages import decode_request, encode_response
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.links.test_link import OtherBroker
from tests.unit.mqcore.raft.fake_log import RULES, TWO, fetch_request, vote_request

NODE = BrokerId(2)
CLIENT_ID = b"quorum-1"


class Sending:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.other = OtherBroker()
        addresses = {BrokerId(1): ("one", 9193), NODE: ("two", 9194)}
        self.senders = Senders(self.clock, self.other, addresses, 1, "cluster", RULES)  # type: ignore[arg-type]
        self.outcomes: list[Response | LinkFault] = []

    async def send(self, request: Request) -> Any:
        """The message that arrives."""
        self.senders.send(NODE, request, self.outcomes.append)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.clock.advance(0)
        if not self.other.accepts:
            return None
        key, version, _, rest = self.other.requests()[-1]
        return decode_request(key, version, rest[2 + len(CLIENT_ID) + 1 :])

    def answer(self, api: codec.Api, message: codec.Message) -> None:
        self.other.respond(len(self.other.requests()), b"\0" + encode_response(*api, message))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_request_arrives_with_the_cluster_id_and_its_response_comes_back() -> None:
    async def story() -> None:
        sending = Sending()
        request = vote_request(voter=TWO)
        message = await sending.send(request)
        assert message.cluster_id == "cluster" and codec.decode_vote(message) == request
        granted = VoteResponse(ErrorCode.NONE, request.epoch, None, granted=True)
        sending.answer(codec.VOTE, codec.encode_response(codec.VOTE, granted))
        assert sending.outcomes == [granted]

    run(story())


def test_a_fetch_says_how_long_it_may_wait() -> None:
    async def story() -> None:
        sending = Sending()
        request = fetch_request()
        message = await sending.send(request)
        assert codec.decode_fetch(message) == request and message.max_wait_ms == RULES.fetch_wait_ms
        records = FetchResponse(ErrorCode.NONE, request.epoch, TWO.id, 5, records=b"records")
        sending.answer(codec.FETCH, codec.encode_response(codec.FETCH, records))
        assert sending.outcomes == [records]

    run(story())


@pytest.mark.parametrize(
    ("request_", "timeout_ms"),
    [(fetch_request(), RULES.fetch_timeout_ms), (vote_request(voter=TWO), RULES.election_timeout_ms)],
)
def test_a_request_without_a_response_fails_when_it_is_of_no_use_any_more(request_: Request, timeout_ms: int) -> None:
    async def story() -> None:
        sending = Sending()
        await sending.send(request_)
        sending.clock.advance(timeout_ms - 1)
        assert not sending.outcomes
        sending.clock.advance(2)
        assert isinstance(sending.outcomes[0], LinkFault)

    run(story())


def test_a_response_that_refuses_the_request_as_a_whole_is_a_fault() -> None:
    async def story() -> None:
        sending = Sending()
        await sending.send(vote_request(voter=TWO))
        sending.answer(codec.VOTE, {"error_code": ErrorCode.INCONSISTENT_CLUSTER_ID})
        (outcome,) = sending.outcomes
        assert isinstance(outcome, LinkFault) and "INCONSISTENT_CLUSTER_ID" in outcome.reason

    run(story())


def test_a_voter_that_cannot_be_reached_is_logged_once_and_again_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        caplog.set_level("INFO")
        sending = Sending()
        sending.other.accepts = False
        for _ in range(3):
            await sending.send(vote_request(voter=TWO))
            sending.clock.advance(2_000)
        sending.other.accepts = True
        await sending.send(vote_request(voter=TWO))
        response = VoteResponse(ErrorCode.NONE, vote_request().epoch, None)
        key, version, correlation_id, _ = sending.other.requests()[-1]
        body = encode_response(key, version, codec.encode_response((key, version), response))
        sending.other.respond(correlation_id, b"\0" + body)
        assert [record.message for record in caplog.records] == ["voter not reached", "voter reached again"]

    run(story())


def test_closing_fails_what_is_open() -> None:
    async def story() -> None:
        sending = Sending()
        await sending.send(vote_request(voter=TWO))
        sending.senders.close()
        sending.clock.advance(1)
        assert isinstance(sending.outcomes[0], LinkFault)

    run(story())
