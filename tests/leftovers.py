"""Sockets that kafka-python leaves open must not fail an unrelated test.

kafka-python forgets the socket of a refused connection, and its log record keeps the socket alive until the test is
over. So ResourceWarnings are ignored in the tests that stop brokers, and nowhere else.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Generator

import pytest

WHERE = ("tests/concurrency/", "tests/conformance/")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # the marker must exist before pytest reads it
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Collect the sockets right after the test; during the test, the marker ignores the warnings."""
    if not item.nodeid.startswith(WHERE):
        return (yield)
    item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
    done = yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    return done
