"""Why a client of kafka-python could not connect: the reason that it only logs."""

from __future__ import annotations

import logging

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaTimeoutError

from seckill.cli.context import explain
from seckill.config.kafka_bootstrap import LOGGER, bootstrap_failure, watch_bootstrap
from seckill.config.kafka_clients import client_options
from seckill.stack.child_processes import free_port


def test_a_client_that_cannot_connect_leaves_the_reason_for_the_error_line() -> None:
    with pytest.raises(KafkaTimeoutError) as fault:
        KafkaAdminClient(**client_options(f"127.0.0.1:{free_port()}", {}), bootstrap_timeout_ms=300)
    assert "REFUSED" in bootstrap_failure()
    error = explain(fault.value)
    assert error is not None and bootstrap_failure() in str(error)
    watch_bootstrap()
    assert bootstrap_failure() == "", "the reason belongs to the client that was opened last"


def test_the_first_reasons_stay_and_are_named_once() -> None:
    """The last attempt is interrupted when the time is over, so its reason would hide the real one."""
    watch_bootstrap()
    for reason in (
        "wrong password",
        "wrong password",
        "disconnected",
        "timed out after 286 ms",
        "timed out after 3 ms",
    ):
        logging.getLogger(LOGGER).warning("failed: %s", ConnectionError(reason))
    assert bootstrap_failure() == "wrong password; disconnected; timed out after 286 ms"
