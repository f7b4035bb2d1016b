"""The handlers of the group APIs over a coordinator in memory. Requests and responses are encoded and decoded."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any
from uuid import UUID

from mqcore.apis.call import LATER, Response
from mqcore.apis.services import Services
from mqcore.controller.facts import BrokerRegistered, Endpoint
from mqcore.controller.image import ClusterImage
from mqcore.groups.rules import GroupRules
from mqcore.identity import BrokerId
from mqcore.wire.errors import ErrorCode
from mqcore.wire.messages import decode_request, decode_response, encode_request, encode_response
from tests.unit.mqcore.apis.memory_broker import add_topic
from tests.unit.mqcore.fake_call import FakeCall
from tests.unit.mqcore.fake_services import services_with
from tests.unit.mqcore.groups.coordinator_driver import PARTITIONS, CoordinatorDriver
from tests.unit.mqcore.groups.group_driver import AT_ONCE

ORDERS, PAYMENTS = UUID(int=1), UUID(int=2)
BROKER = BrokerId(1)
ENDPOINTS = (Endpoint("INSIDE", "broker", 9092), Endpoint("OUTSIDE", "localhost", 19092))


class GroupCall(FakeCall):
    """`response` is the decoded answer."""

    client_id = "client"

    def __init__(self, services: Services, key: int, version: int, listener: str) -> None:
        super().__init__(services, version, listener)
        self._key = key

    def answer(self, response: Response) -> None:
        encoded = encode_response(self._key, self.version, response)
        super().answer(decode_response(self._key, self.version, encoded))

    @property
    def response(self) -> Any:
        (response,) = self.answers
        return response


class ImageObserver:
    """The part of `MetadataObserver` that holds the image."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image


class GroupBroker:
    def __init__(self, rules: GroupRules = AT_ONCE) -> None:
        self.driver = CoordinatorDriver(rules)
        self.groups = self.driver.coordinator
        self.listener = "INSIDE"
        self.image = ClusterImage()
        self.image.apply(BrokerRegistered(BROKER, UUID(int=5), 1, ENDPOINTS, None))
        add_topic(self.image, "orders", ORDERS, 3, BROKER)
        add_topic(self.image, "payments", PAYMENTS, 1, BROKER)
        self.offsets_topic_error = ErrorCode.NONE
        self.services = services_with(
            clock=self.driver.clock,
            groups=self.groups,
            observer=ImageObserver(self.image),
            internal_topics=self,
        )

    def ensure(self, name: str, on_result: Callable[[ErrorCode], None]) -> None:
        """Implements `InternalTopics.ensure`."""
        if self.offsets_topic_error is ErrorCode.NONE:
            add_topic(self.image, name, UUID(int=7), PARTITIONS, BROKER)
        on_result(self.offsets_topic_error)

    def send(self, module: ModuleType, version: int, **fields: Any) -> GroupCall:
        key = module.API.key
        assert module.API.first_version <= version <= module.API.last_version
        call = GroupCall(self.services, key, version, self.listener)
        response = module.handle(decode_request(key, version, encode_request(key, version, fields)), call)
        if response is not LATER:
            call.answer(response)
        return call

    def request(self, module: ModuleType, version: int, **fields: Any) -> Any:
        return self.send(module, version, **fields).response


def versions_of(module: ModuleType) -> range:
    return range(module.API.first_version, module.API.last_version + 1)
