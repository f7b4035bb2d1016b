"""Asks the group APIs as the server does: bytes in, bytes out, in any version, over a coordinator in memory."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, cast
from uuid import UUID

from mqcore.apis.call import LATER, Response
from mqcore.apis.services import Services
from mqcore.controller.image import PartitionImage, TopicImage
from mqcore.groups.records import OFFSETS_TOPIC
from mqcore.groups.rules import GroupRules
from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.wire.errors import ErrorCode
from mqcore.wire.messages import decode_request, decode_response, encode_request, encode_response
from tests.unit.mqcore.groups.cast import AT_ONCE
from tests.unit.mqcore.groups.office import PARTITIONS, Office

ORDERS, PAYMENTS = UUID(int=1), UUID(int=2)
ENDPOINTS = {(1, "INSIDE"): ("broker", 9092), (1, "OUTSIDE"): ("localhost", 19092)}


class DeskCall:
    """One request under way. `response` is what went back, decoded from its bytes."""

    def __init__(self, desk: Desk, key: int, version: int) -> None:
        self.version = version
        self.client_id = "client"
        self.client_host = "10.0.0.1"
        self.listener = desk.listener
        self.services = cast(Services, desk)
        self._key = key
        self.responses: list[Any] = []

    def answer(self, response: Response) -> None:
        self.responses.append(
            decode_response(self._key, self.version, encode_response(self._key, self.version, response))
        )

    @property
    def response(self) -> Any:
        assert len(self.responses) == 1, f"answered {len(self.responses)} times"
        return self.responses[0]


class Desk:
    """Has of `Services` what the group APIs use."""

    def __init__(self, rules: GroupRules = AT_ONCE) -> None:
        self.office = Office(rules)
        self.groups = self.office.coordinator
        self.listener = "INSIDE"
        topics = [topic("orders", ORDERS, 3), topic("payments", PAYMENTS, 1)]
        self.image = SimpleNamespace(
            topics={topic.name: topic for topic in topics}, topics_by_id={topic.id: topic for topic in topics}
        )
        self.offsets_topic_error = ErrorCode.NONE

    def ensure_offsets_topic(self, then: Callable[[ErrorCode], None]) -> None:
        if self.offsets_topic_error is ErrorCode.NONE:
            self.image.topics[OFFSETS_TOPIC] = topic(OFFSETS_TOPIC, UUID(int=7), PARTITIONS)
        then(self.offsets_topic_error)

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        return ENDPOINTS.get((broker_id, listener))

    def send(self, module: ModuleType, version: int, **fields: Any) -> DeskCall:
        key = module.API.key
        assert module.API.first_version <= version <= module.API.last_version
        call = DeskCall(self, key, version)
        response = module.handle(decode_request(key, version, encode_request(key, version, fields)), call)
        if response is not LATER:
            call.answer(response)
        return call

    def ask(self, module: ModuleType, version: int, **fields: Any) -> Any:
        return self.send(module, version, **fields).response


def topic(name: str, topic_id: UUID, partitions: int) -> TopicImage:
    me = (BrokerId(1),)
    images = tuple(PartitionImage(index, me, me, BrokerId(1), LeaderEpoch(0), 0) for index in range(partitions))
    return TopicImage(name, topic_id, images, {})


def versions_of(module: ModuleType) -> range:
    return range(module.API.first_version, module.API.last_version + 1)
