"""What strangers leave behind goes where nobody is blamed.

kafka-python forgets the socket of a connection that is being refused, and what it logs of that holds the socket until a
test is over with all it has told. So it is forgiven where brokers die, and nowhere else.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Generator

import pytest

WHERE = ("tests/concurrency/", "tests/conformance/")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # the mark has to be there before pytest looks for it
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """After a test's last word; while it runs, its own filter forgives."""
    if not item.nodeid.startswith(WHERE):
        return (yield)
    item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
    done = yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    return done
