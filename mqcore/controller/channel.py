"""Shell: this broker's way to the active controller: here, or on another node.

A command is sent once. Its caller decides whether to send it again, because only the caller knows what a lost answer
means. Commands of clients and of the operator come here only on the active node; from elsewhere their requests are
forwarded as they are (`forwarder.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mqcore.controller.cluster_commands import AlteredPartitions, AlterPartition, Heartbeat, RegisterBroker
from mqcore.controller.commands import (
    ControllerAnswer,
    ControllerCommand,
    CreateTopics,
    ReserveProducerIds,
)
from mqcore.controller.image import ClusterImage
from mqcore.controller.queue import CommandTarget
from mqcore.coordination.journal import JournalFault, NotController
from mqcore.coordination.runner import OnAnswer
from mqcore.links.outcome import LinkFault
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.frames import BadFrame

if TYPE_CHECKING:
    from mqcore.controller.forwarder import Forwarder
    from mqcore.controller.remote import Purpose, RemoteController

MEMBERSHIP_MS_MAX: Final = 1_500
"""Shorter than a session, so a broker whose connection hangs tries another one in time."""
REQUEST_MS_MAX: Final = 3_000


class OtherNodes(NamedTuple):
    """How the controllers on other nodes are reached. A cluster of one has none."""

    remote: RemoteController
    forwarder: Forwarder
    cluster_id: str


class _Message(NamedTuple):
    purpose: Purpose
    api: tuple[int, int]
    body: Mapping[str, Any]
    timeout_ms: int
    decode: Callable[[Any], ControllerAnswer]


class ControllerChannel:
    def __init__(self, here: CommandTarget, image: ClusterImage, others: OtherNodes | None = None) -> None:
        self._here = here
        self._image = image
        self._others = others

    @property
    def is_active(self) -> bool:
        """Whether the active controller is on this node."""
        return self._here.is_active

    def submit(self, command: ControllerCommand, on_answer: OnAnswer[ControllerAnswer]) -> None:
        """`on_answer` is called exactly once, now or later; with a `JournalFault` if no controller has answered."""
        if self._others is None or self._here.is_active:
            self._here.submit(command, on_answer)
        elif isinstance(command, CreateTopics):
            self._forward(command, on_answer, self._others.forwarder)
        else:
            self._send(command, on_answer, self._others)

    def _send(self, command: ControllerCommand, on_answer: OnAnswer[ControllerAnswer], others: OtherNodes) -> None:
        from mqcore.wire.messages import encode_request

        message = self._message(command, others.cluster_id)
        if message is None:
            on_answer(NotController("this node is not the active controller"))
            return
        body = encode_request(*message.api, message.body)
        answered = partial(_answered, message, on_answer)
        others.remote.send(message.purpose, message.api, body, message.timeout_ms, answered)

    def _message(self, command: ControllerCommand, cluster_id: str) -> _Message | None:
        """The message of a command that brokers send; None for the others."""
        from mqcore.controller import broker_messages as wire
        from mqcore.controller.remote import Purpose

        match command:
            case RegisterBroker():
                body = wire.encode_registration(command, cluster_id)
                decode: Callable[[Any], ControllerAnswer] = wire.decode_registered
                return _Message(Purpose.MEMBERSHIP, wire.BROKER_REGISTRATION, body, MEMBERSHIP_MS_MAX, decode)
            case Heartbeat():
                body, decode = wire.encode_heartbeat(command), wire.decode_heartbeat_answer
                return _Message(Purpose.MEMBERSHIP, wire.BROKER_HEARTBEAT, body, MEMBERSHIP_MS_MAX, decode)
            case AlterPartition():
                body, decode = wire.encode_alter_partition(command), partial(_decode_altered, command)
                return _Message(Purpose.IN_SYNC_REPLICAS, wire.ALTER_PARTITION, body, REQUEST_MS_MAX, decode)
            case ReserveProducerIds(broker):
                registered = self._image.brokers.get(broker)
                epoch = -1 if registered is None else registered.broker_epoch
                body, decode = wire.encode_reservation(broker, epoch), wire.decode_reserved
                return _Message(Purpose.FORWARDING, wire.ALLOCATE_PRODUCER_IDS, body, REQUEST_MS_MAX, decode)
            case _:
                return None

    def _forward(self, command: CreateTopics, on_answer: OnAnswer[ControllerAnswer], forwarder: Forwarder) -> None:
        """Topics that this broker creates, its internal ones included."""
        from mqcore.controller import topic_messages
        from mqcore.controller.forwarder import Sender

        def forwarded(response: bytes | None) -> None:
            if response is None:
                self._here.submit(command, on_answer)
                return
            try:
                answer = topic_messages.decode_created(response, command)
            except BadFrame as bad:
                on_answer(NotController(f"the controller's answer cannot be read: {bad}"))
                return
            on_answer(answer)

        forwarder.forward(topic_messages.encode_create(command), Sender(None, ""), forwarded)


def _decode_altered(command: AlterPartition, response: Any) -> ControllerAnswer:
    from mqcore.controller.broker_messages import decode_altered

    answer = decode_altered(response)
    if isinstance(answer, AlteredPartitions) and len(answer.outcomes) != len(command.proposals):
        raise BadFrame(f"{len(answer.outcomes)} outcomes for {len(command.proposals)} proposals")
    return answer


def _answered(message: _Message, on_answer: OnAnswer[ControllerAnswer], response: memoryview | LinkFault) -> None:
    on_answer(_answer_of(message, response))


def _answer_of(message: _Message, response: memoryview | LinkFault) -> ControllerAnswer | JournalFault:
    from mqcore.wire.messages import decode_response

    if isinstance(response, LinkFault):
        return NotController(response.reason)
    try:
        answer = message.decode(decode_response(*message.api, response))
    except BadFrame as bad:
        return NotController(f"the controller's answer cannot be read: {bad}")
    if isinstance(answer, Refusal) and answer.error is ErrorCode.NOT_CONTROLLER:
        return NotController("the other node is not the active controller")
    return answer
