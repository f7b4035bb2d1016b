"""Shell: a process that starts while the broker is unavailable waits for it, and logs that once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from kafka.errors import KafkaConfigurationError, KafkaError

log = logging.getLogger(__name__)

BROKER_WAIT_SECONDS_MAX = 300.0
RETRY_SECONDS = 1.0

Result = TypeVar("Result")


def wait_for_broker(connect: Callable[[], Result], stopping: threading.Event) -> Result | None:
    """The result of `connect`, which is retried while the broker is unavailable; None if the process must stop.

    Raises the latest `KafkaError` after `BROKER_WAIT_SECONDS_MAX`, so a wrong address does not stay unnoticed.
    """
    deadline = time.monotonic() + BROKER_WAIT_SECONDS_MAX
    has_logged = False
    while not stopping.is_set():
        try:
            return connect()
        except KafkaConfigurationError:
            raise  # waiting changes nothing
        except KafkaError as fault:
            if time.monotonic() >= deadline:
                raise
            if not has_logged:
                log.warning("waiting for the broker", extra={"reason": str(fault)})
                has_logged = True
            stopping.wait(RETRY_SECONDS)
    return None
