"""What brokers and the controller send each other: every command and answer survives its message."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.controller import broker_messages as messages
from mqcore.controller.cluster_commands import (
    AlteredPartition,
    AlteredPartitions,
    AlterPartition,
    Heartbeat,
    HeartbeatAnswer,
    IsrProposal,
    RegisterBroker,
    Registered,
)
from mqcore.controller.facts import Endpoint, SecurityProtocol
from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.frames import BadFrame
from mqcore.wire.messages import decode_request, decode_response, encode_request, encode_response

small = st.integers(0, 9)
text = st.text(st.characters(codec="utf-8"), max_size=5)
refusals = st.sampled_from([Refusal(ErrorCode.NOT_CONTROLLER), Refusal(ErrorCode.STALE_BROKER_EPOCH)])
endpoints = st.builds(Endpoint, text, text, small, st.sampled_from(SecurityProtocol))
registrations = st.builds(
    RegisterBroker, small, st.uuids(), st.lists(endpoints, max_size=2).map(tuple), st.none() | text,
    st.lists(st.uuids(), max_size=2).map(tuple), st.just(False),
)  # fmt: skip
heartbeats = st.builds(Heartbeat, small, small, small, st.booleans(), st.booleans())
heartbeat_answers = st.builds(HeartbeatAnswer, st.booleans(), st.booleans(), st.booleans())
proposals = st.builds(
    IsrProposal, st.sampled_from([UUID(int=1), UUID(int=2)]), small, small, small,
    st.lists(st.tuples(small, small), max_size=3).map(tuple),
)  # fmt: skip
alterations = st.builds(AlterPartition, small, small, st.lists(proposals, max_size=5).map(tuple), st.integers(-1, 9))
altered = st.builds(AlteredPartition, small, small, st.lists(small, max_size=3).map(tuple), small)


def through(message: tuple[int, int], request: Any) -> Any:
    return decode_request(*message, encode_request(*message, request))


def back(message: tuple[int, int], response: Any) -> Any:
    return decode_response(*message, encode_response(*message, response))


@given(registrations)
def test_a_registration_arrives_as_it_was_sent(command: RegisterBroker) -> None:
    request = through(messages.BROKER_REGISTRATION, messages.encode_registration(command, "cluster", 5))
    assert messages.decode_registration(request) == command
    assert (request.cluster_id, request.previous_broker_epoch) == ("cluster", 5)


@given(heartbeats)
def test_a_heartbeat_arrives_as_it_was_sent(command: Heartbeat) -> None:
    request = through(messages.BROKER_HEARTBEAT, messages.encode_heartbeat(command))
    assert messages.decode_heartbeat(request) == command


@given(st.builds(Registered, small) | refusals, heartbeat_answers | refusals)
def test_the_answers_to_both_arrive_as_they_were_given(
    registered: Registered | Refusal, heard: HeartbeatAnswer | Refusal
) -> None:
    response = back(messages.BROKER_REGISTRATION, messages.encode_registered(registered))
    assert messages.decode_registered(response) == registered
    response = back(messages.BROKER_HEARTBEAT, messages.encode_heartbeat_answer(heard))
    assert messages.decode_heartbeat_answer(response) == heard


@given(alterations, st.data())
def test_proposals_and_their_outcomes_arrive_in_the_same_order(command: AlterPartition, data: st.DataObject) -> None:
    request = through(messages.ALTER_PARTITION, messages.encode_alter_partition(command))
    arrived = messages.decode_alter_partition(request)
    assert arrived == command
    count = len(command.proposals)
    outcomes = data.draw(st.lists(altered | refusals, min_size=count, max_size=count))
    answer = data.draw(st.just(AlteredPartitions(tuple(outcomes))) | refusals)
    response = back(messages.ALTER_PARTITION, messages.encode_altered(arrived, answer))
    assert messages.decode_altered(response) == answer


def test_an_error_that_this_broker_does_not_know_is_still_a_refusal() -> None:
    response = back(messages.BROKER_HEARTBEAT, {"error_code": 999})
    assert messages.decode_heartbeat_answer(response) == Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)


def test_an_unknown_security_protocol_is_a_malformed_registration() -> None:
    listener = {"name": "X", "host": "h", "port": 1, "security_protocol": 77}
    request = through(messages.BROKER_REGISTRATION, {"listeners": [listener]})
    with pytest.raises(BadFrame):
        messages.decode_registration(request)


def test_without_the_tag_a_proposal_is_for_whichever_controller_is_active() -> None:
    """Kafka's brokers do not send the tag."""
    command = AlterPartition(BrokerId(1), 2, (IsrProposal(UUID(int=1), 0, LeaderEpoch(0), 0, ()),), 7)
    message = {**messages.encode_alter_partition(command)}
    del message["controller_epoch"]
    arrived = messages.decode_alter_partition(through(messages.ALTER_PARTITION, message))
    assert arrived == command._replace(controller_epoch=-1)
