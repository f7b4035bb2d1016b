"""Brokers for client libraries: one that all tests share, and others that a test may stop and kill."""

from __future__ import annotations

import itertools
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seckill.stack.broker_process import BrokerProcess
from tests.broker_factory import factory
from tests.conformance.line import Line
from tests.conformance.peer import make_broker
from tests.conformance.raw import Wire

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker that all tests share; each test uses its own topics and groups."""
    with make_broker(tmp_path_factory.mktemp("broker")) as shared:
        yield shared
        assert not shared.has_crashed(), shared.log[-4000:]


@pytest.fixture
def new_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Makes brokers that are not started yet, and that the test may stop and kill."""
    with factory(make_broker, tmp_path, end=BrokerProcess.stop) as new:
        yield new


@pytest.fixture
def unique() -> str:
    """A name that no other test uses, with characters that Kafka allows."""
    return f"t{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(unique: str) -> str:
    return f"topic-{unique}"


@pytest.fixture
def group(unique: str) -> str:
    return f"group-{unique}"


@pytest.fixture
def line(broker: BrokerProcess) -> Iterator[Line]:
    """A connection to the shared broker, encoded by kio."""
    with Line(broker.port) as opened:
        yield opened


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[Wire]:
    """A connection to the shared broker, encoded by our own codecs."""
    with Wire(broker.port) as opened:
        yield opened


@pytest.fixture(scope="module")
def many_files() -> None:
    """Lets the test process open as many files as the system allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
