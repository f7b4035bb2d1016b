"""Every request that can be decoded is answered, whatever its values, so no client can make a handler raise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqcore.apis.table import TABLE
from mqcore.controller.image_rules import check_image
from tests.unit.mqcore.apis.running_broker import RunningBroker
from tests.unit.mqcore.apis.test_every_version import ADMIN
from tests.unit.mqcore.wire.message_values import mappings

KNOWN = ["orders", "stock", "bad name", "__consumer_offsets", "__cluster_metadata", "1", "", "retention.ms",
         "cleanup.policy", "log.retention.ms", "num.partitions", "compact"]  # fmt: skip
VERSIONS = [
    (key, version) for key in ADMIN for version in range(TABLE[key].api.first_version, TABLE[key].api.last_version + 1)
]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """One broker for all examples, so each runs on the state that the earlier ones left."""
    with RunningBroker(tmp_path_factory.mktemp("crowded")) as broker:
        broker.create_topic("orders", 2)
        yield broker


def with_known_names(value: Any, draw: st.DrawFn) -> Any:
    """Random values rarely mean anything, so some strings become known names and numbers become small."""
    match value:
        case dict():
            return {key: with_known_names(inner, draw) for key, inner in value.items()}
        case list():
            return [with_known_names(inner, draw) for inner in value]
        case str():
            return draw(st.sampled_from([value, *KNOWN]))
        case bool():
            return value
        case int():
            return draw(st.sampled_from([value, -1, 0, 1, 2, 3, 4]))
        case _:
            return value


@st.composite
def requests(draw: st.DrawFn) -> tuple[int, int, dict[str, Any]]:
    key, version = draw(st.sampled_from(VERSIONS))
    return key, version, with_known_names(draw(mappings(key, "Request", version)), draw)


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(asked=requests())
def test_any_valid_request_is_answered(crowded: RunningBroker, asked: tuple[int, int, dict[str, Any]]) -> None:
    key, version, request = asked
    crowded.request(key, version, **request)
    check_image(crowded.broker.observer.image)
