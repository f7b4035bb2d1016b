"""Spans: nothing without an endpoint; with one, names, links and sampling, and no harm from a dead collector."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from seckill.monitoring import span_export, spans, traces
from tests.otlp import OtlpReceiver, Span, receiving

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOT_SAMPLED = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    before = dict(os.environ)
    yield
    spans.stop()
    for name in os.environ.keys() - before.keys():
        del os.environ[name]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpReceiver]:
    with receiving() as running:
        monkeypatch.setenv(ENDPOINT, running.address)
        yield running


def exported(receiver: OtlpReceiver) -> list[Span]:
    spans.stop()
    return receiver.spans()


def record(traceparent: str | None, offset: int = 7) -> SimpleNamespace:
    headers = [("other", b"x")] if traceparent is None else [(traces.HEADER, traceparent.encode())]
    return SimpleNamespace(headers=headers, offset=offset)


def id_of(traceparent: str) -> tuple[str, str]:
    return traceparent[3:35], traceparent[36:52]


@pytest.mark.parametrize(
    ("variables", "is_wanted"),
    [
        ({}, False),
        ({ENDPOINT: ""}, False),
        ({"OTEL_TRACES_SAMPLER": "always_on"}, False),
        ({ENDPOINT: "http://here"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://here"}, True),
        ({ENDPOINT: "http://here", "OTEL_SDK_DISABLED": "True"}, False),
        ({ENDPOINT: "http://here", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({ENDPOINT: "http://here", "OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
def test_spans_are_exported_only_if_an_endpoint_is_set(variables: dict[str, str], is_wanted: bool) -> None:
    assert spans.is_wanted(variables) is is_wanted


def test_without_an_endpoint_no_process_imports_the_exporter_or_starts_its_thread() -> None:
    """All that a gateway, a consumer, a relay and a Celery worker import, and then what a start does. redis-py imports
    OpenTelemetry's metrics by itself wherever they are installed."""
    program = """
import sys, threading, django
django.setup()
import gateway.traced, seckill.celery, seckill.messaging.consume_loop, seckill.messaging.relay, seckill.cli.services
import inventory.handlers, orders.handlers, notifications.handlers, gateway.handlers, notifications.tasks
from seckill.monitoring import spans
assert not spans.start("gateway")
with spans.processing("inventory", "purchase.requests", 0, []) as span:
    assert not span.headers
exporter = ("opentelemetry.exporter", "opentelemetry.sdk.trace", "google.protobuf", "seckill.monitoring.span_export")
print([name for name in sys.modules if name.startswith(exporter)], threading.active_count())
"""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "seckill.config.settings"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] 1"


def test_an_event_without_export_carries_the_same_context_as_before() -> None:
    event, cause = uuid4(), uuid4()
    with traces.entered([(cause, SAMPLED)]):
        assert spans.create_event("order.events", event, cause) == traces.child(event, cause)


def test_a_batch_begins_a_trace_and_links_to_its_sampled_records(receiver: OtlpReceiver) -> None:
    assert spans.start("orders")
    with spans.processing("orders", "inventory.decisions", 3, [record(SAMPLED), record(NOT_SAMPLED), record(None)]):
        pass
    [batch] = exported(receiver)
    assert (batch.name, batch.kind, batch.service, batch.parent) == (
        "process inventory.decisions", "CONSUMER", "orders", None,
    )  # fmt: skip
    assert batch.links == [id_of(SAMPLED)]
    assert batch.attributes == {
        "messaging.system": "kafka",
        "messaging.destination.name": "inventory.decisions",
        "messaging.destination.partition.id": "3",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "orders",
        "messaging.batch.message_count": 3,
        "messaging.kafka.offset": 7,
    }


def test_a_batch_without_a_sampled_record_exports_nothing(receiver: OtlpReceiver) -> None:
    spans.start("orders")
    with spans.processing("orders", "inventory.decisions", 3, [record(NOT_SAMPLED), record(None), record("x")]):
        pass
    spans.record_sent([("order.events", json.dumps({traces.HEADER: NOT_SAMPLED}))], 1)
    with spans.processing_task("notify.sms", "1", NOT_SAMPLED):
        pass
    assert exported(receiver) == []


def test_a_batch_is_sampled_like_its_records_whatever_the_sampler_says(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    spans.start("orders")
    with spans.processing("orders", "inventory.decisions", 0, [record(SAMPLED)]):
        pass
    with spans.serving("GET", "/api/v1/sales", "http", None) as span:
        assert not traces.is_sampled(span.headers[traces.HEADER])
    assert [each.name for each in exported(receiver)] == ["process inventory.decisions"]


def test_an_event_continues_its_cause_and_links_to_its_batch(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed: list[Callable[[], None]] = []
    monkeypatch.setattr(transaction, "on_commit", lambda end, robust: committed.append(end))
    spans.start("orders")
    cause, event, rolled_back = uuid4(), uuid4(), uuid4()
    with (
        spans.processing("orders", "inventory.decisions", 0, [record(SAMPLED)]) as batch,
        traces.entered([(cause, SAMPLED)]),
    ):
        carried = spans.create_event("order.events", event, cause)
        spans.create_event("order.events", rolled_back, cause)
    committed[0]()
    [created] = [each for each in exported(receiver) if each.kind == "PRODUCER"]
    assert (created.name, created.parent) == ("create order.events", id_of(SAMPLED))
    assert created.id == id_of(carried)
    assert created.links == [id_of(batch.headers[traces.HEADER])]
    assert created.attributes["messaging.message.id"] == str(event)


def test_the_event_of_an_unsampled_cause_is_not_exported_and_says_so(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "on_commit", lambda end, robust: end())
    spans.start("orders")
    cause = uuid4()
    with traces.entered([(cause, NOT_SAMPLED)]):
        carried = spans.create_event("order.events", uuid4(), cause)
    assert carried.split("-")[1] == NOT_SAMPLED.split("-")[1] and not traces.is_sampled(carried)
    assert exported(receiver) == []


def test_an_event_whose_cause_came_without_a_span_begins_a_trace(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "on_commit", lambda end, robust: end())
    spans.start("orders")
    cause = UUID(int=1 << 100 | 1)
    with traces.entered([(cause, None)]):
        spans.create_event("order.events", uuid4(), cause)
    [created] = exported(receiver)
    assert created.parent is None


def test_a_call_carries_its_own_span_and_shows_no_password(receiver: OtlpReceiver) -> None:
    spans.start("celery")
    with (
        spans.processing_task("notify.sms", "1", SAMPLED),
        spans.calling("POST", "http://a:b@sink:81/sms?key=c") as call,
    ):
        call.record_status(503)
    task, sent = sorted(exported(receiver), key=lambda span: span.began_ns)
    assert task.parent == id_of(SAMPLED) and sent.parent == task.id
    assert id_of(call.headers[traces.HEADER]) == sent.id
    assert sent.is_failed and sent.attributes == {
        "http.request.method": "POST",
        "server.address": "sink",
        "server.port": 81,
        "url.full": "http://sink:81/sms",
        "http.response.status_code": 503,
    }


def test_a_call_outside_any_span_has_none(receiver: OtlpReceiver) -> None:
    spans.start("orders.sweep")
    with spans.calling("GET", "http://provider/movements") as call:
        assert not call.headers
    assert exported(receiver) == []


def test_a_failure_is_named_by_its_type_only(receiver: OtlpReceiver) -> None:
    spans.start("orders")
    with pytest.raises(KeyError), spans.processing("orders", "t", 0, [record(SAMPLED)]):
        raise KeyError("anna")
    [failed] = exported(receiver)
    assert failed.is_failed and failed.attributes["error.type"] == "KeyError"
    assert "anna" not in repr(failed)


def test_the_users_variables_win(receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "my-sale")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=abc")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "")  # as a compose file passes an unset variable
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "")
    spans.start("gateway")
    with spans.serving("GET", "/", "http", None):
        pass
    [served] = exported(receiver)
    assert served.service == "my-sale"
    assert receiver.headers[0]["x-api-key"] == "abc"


@pytest.mark.parametrize(
    ("variable", "value"), [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_BSP_MAX_QUEUE_SIZE", "-1")]
)
def test_a_bad_setting_is_logged_and_stops_nothing(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:1")
    monkeypatch.setenv(variable, value)
    assert not spans.start("gateway")
    [line] = caplog.records
    assert line.message == "no spans are exported"


def test_an_unreachable_collector_costs_one_log_line_and_a_bounded_queue(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:1")
    for name, value in (("MAX_QUEUE_SIZE", "8"), ("MAX_EXPORT_BATCH_SIZE", "4"), ("SCHEDULE_DELAY", "10")):
        monkeypatch.setenv(f"OTEL_BSP_{name}", value)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.05")
    monkeypatch.setattr(span_export, "STOP_SECONDS_MAX", 0.5)
    spans.start("gateway")
    with caplog.at_level(logging.DEBUG):
        for _ in range(100):
            with spans.serving("GET", "/", "http", None):
                pass
        spans.stop()
    assert [each.message for each in caplog.records if each.levelno > logging.INFO] == [
        "the collector does not accept spans"
    ]


def test_a_process_stops_although_the_collector_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pytest timeout would end this test if `stop` waited for the answer."""
    monkeypatch.setattr(span_export, "STOP_SECONDS_MAX", 0.1)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")
    with receiving() as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.address)
        monkeypatch.setattr(BaseHTTPRequestHandler, "parse_request", lambda _: receiver.stopped.wait() and False)
        spans.start("gateway")
        with spans.serving("GET", "/", "http", None):
            pass
        spans.stop()
        receiver.stopped.set()
    assert receiver.spans() == []
