"""The stage for strangers: one broker for all journeys that leave it as they found it, others on request."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seckill.stack.broker import BrokerProcess
from tests.conformance.peer import make_broker

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker that all journeys share; each uses topics and groups of its own."""
    with make_broker(tmp_path_factory.mktemp("broker")) as shared:
        yield shared
        assert not shared.ended_by_itself(), shared.log[-4000:]


@pytest.fixture
def new_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Makes brokers, not yet started, that a test may stop and kill."""
    made: list[BrokerProcess] = []

    def make(**settings: str) -> BrokerProcess:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        made.append(make_broker(tmp_path / f"broker-{len(made)}", named))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def unique() -> str:
    """A name no other test uses; Kafka's own characters only."""
    return f"t{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(unique: str) -> str:
    return f"topic-{unique}"


@pytest.fixture
def group(unique: str) -> str:
    return f"group-{unique}"
