"""Alerts and panels without Prometheus: each uses metrics and labels that a scraped process publishes.

A misspelt metric makes an alert that never fires or a panel that is always empty, without an error. Whether Prometheus
can evaluate the expressions is checked in tests/journeys/test_compose.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client import Histogram as PrometheusHistogram

from gateway import metrics as of_gateway
from mqcore import cluster_gauges, gauges
from mqcore.metrics import Family, Histogram, Metrics
from seckill.messaging.service_registry import METRICS, load_object
from seckill.monitoring.metrics import ComputedMetric
from seckill.report.live.residuals import Residual, as_metrics
from tests.architecture.compose_file import SERVICES

DEPLOY = Path(__file__).parents[2] / "deploy"
ASKED = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
OF_PROMETHEUS = {"up": set[str](), "ALERTS": {"alertname", "alertstate", "severity"}}
OF_HAPROXY = {
    "haproxy_frontend_http_requests_total": {"proxy"},
    "haproxy_frontend_http_responses_total": {"proxy", "code"},
}
"""The metrics of HAProxy that we use. The journey checks that they have values."""

SELECTOR = re.compile(r"\b((?:seckill|mqcore|haproxy)_\w+|up|ALERTS)\b(?:\{([^}]*)\})?")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
TOLD = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")

Shown = dict[str, set[str]]
"""Labels of each metric."""


def hosts(job: dict[str, Any]) -> list[str]:
    """The services that a job scrapes."""
    return [target.partition(":")[0] for group in job.get("static_configs", ()) for target in group["targets"]] or [
        str(name) for group in job["dns_sd_configs"] for name in group["names"]
    ]


def shown_by(service: str) -> Shown:
    """The metrics that a container publishes, judged by its command."""
    command = [str(word) for word in SERVICES[service].get("command", ())]
    if service == "front":
        return OF_HAPROXY
    if service == "gateway":
        return _labels_of(of_gateway.REGISTRY)
    if service.startswith("mqcore"):
        metrics = Metrics()
        nothing = cast(Any, None)  # these are computed on request
        gauges.declare_gauges(metrics, nothing, nothing, nothing, nothing)
        cluster_gauges.declare_cluster_gauges(metrics, nothing, nothing, nothing, nothing, nothing)
        return _labels(metrics._families)
    if "--metrics-port" not in command:
        return {}
    if "report" in command:
        page = as_metrics([Residual("I1", "units", 1)])
        return {name: set(MATCHER.findall(labels or "")) for name, labels in SELECTOR.findall(page)}
    return _labels_of(load_object(METRICS[command[command.index("sweep") + 1]]))


def _labels_of(registry: CollectorRegistry) -> Shown:
    """Without collecting samples, because those come from tables."""
    found: Shown = {}
    for collector in registry._collector_to_names:
        if isinstance(collector, ComputedMetric):
            found[collector.name] = set(collector.labels)
            continue
        assert isinstance(collector, Counter | Gauge | PrometheusHistogram)
        name, labels = collector._name, set(collector._labelnames)
        match collector:
            case Counter():
                found[f"{name}_total"] = labels
            case Gauge():
                found[name] = labels
            case _:
                found |= {f"{name}_count": labels, f"{name}_sum": labels, f"{name}_bucket": {*labels, "le"}}
    return found


def _labels(families: list[Family]) -> Shown:
    found: Shown = {}
    for family in families:
        if isinstance(family, Histogram):
            found |= {family.name + end: set(family.labels) for end in ("_count", "_sum")}
            found[family.name + "_bucket"] = {*family.labels, "le"}
        else:
            found[family.name] = set(family.labels)
    return found


def everything() -> Shown:
    """All published metrics; Prometheus adds the labels `job` and `instance`."""
    found = dict(OF_PROMETHEUS)
    for job in ASKED:
        for host in hosts(job):
            found |= shown_by(host)
    return {name: {*labels, "job", "instance"} for name, labels in found.items()}


def complaints(expression: str, *texts: str) -> Iterator[str]:
    """Why an expression or the labels in `texts` are wrong."""
    shown = everything()
    selectors = SELECTOR.findall(GROUPED.sub("", expression))
    if not selectors:
        yield f"no metric in: {expression}"
    for name, matchers in selectors:
        if name not in shown:
            yield f"no service publishes {name}"
            continue
        yield from (f"{name} has no {label}" for label in MATCHER.findall(matchers) if label not in shown[name])
    had = set.union(*(shown.get(name, set()) for name, _ in selectors)) if selectors else set()
    grouped = [label.strip() for labels in GROUPED.findall(expression) for label in labels.split(",")]
    yield from (f"no metric in it has {label}" for label in grouped if label not in had)
    kept = set(grouped) if grouped else had
    yield from (f"{label} is used but missing" for text in texts for label in TOLD.findall(text) if label not in kept)


def alarms() -> list[dict[str, Any]]:
    groups = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return list(json.loads((DEPLOY / "grafana/dashboards/sale.json").read_text())["panels"])


def test_prometheus_scrapes_existing_services_that_publish_metrics() -> None:
    scraped = [host for job in ASKED for host in hosts(job)]
    assert len(set(scraped)) == len(scraped) and set(scraped) <= set(SERVICES)
    assert [each for each in scraped if not shown_by(each)] == []


def test_prometheus_scrapes_every_broker_under_a_job_of_its_kind() -> None:
    """A broker that does not run has no address, so the profile that it belongs to decides whether it is a target."""
    brokers = {name for name, service in SERVICES.items() if "mqcore" in map(str, service.get("command", ()))}
    scraped = {host: job["job_name"] for job in ASKED for host in hosts(job)}
    assert brokers == {"mqcore", "mqcore-1", "mqcore-2", "mqcore-3"} <= set(scraped)
    assert {scraped[name] for name in brokers - {"mqcore"}} == {"mqcore-cluster"}


@pytest.mark.parametrize("alarm", alarms(), ids=lambda alarm: str(alarm["alert"]))
def test_every_alert_uses_published_metrics_and_says_what_to_do(alarm: dict[str, Any]) -> None:
    assert set(alarm["annotations"]) == {"summary", "look"} and alarm["labels"]["severity"] in ("page", "warning")
    assert list(complaints(alarm["expr"], alarm["annotations"]["summary"])) == []
    said = re.match(r"docker compose (?:logs|exec|run --rm|ps) ?([\w-]*)", alarm["annotations"]["look"])
    assert said is not None and said[1] in {"", *SERVICES}


def test_the_most_important_alerts_exist() -> None:
    assert {"Lag", "BooksBroken", "ServerErrors", "DeadLetters", "Down"} <= {alarm["alert"] for alarm in alarms()}


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_every_panel_uses_published_metrics(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        assert list(complaints(target["expr"], target["legendFormat"])) == []


def test_no_two_panels_share_an_id_or_a_position() -> None:
    assert len({panel["id"] for panel in panels()}) == len(panels())
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels())
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken) and max(x for x, _ in taken) < 24


@pytest.mark.parametrize(
    ("expression", "text", "complaint"),
    [
        ("seckill_orders_late > 0", "", "no service publishes seckill_orders_late"),
        ("mqcore_group_lags", "", "no service publishes mqcore_group_lags"),
        ("rate(seckill_purchase_seconds[1m])", "", "no service publishes seckill_purchase_seconds"),
        ('seckill_orders{status="PAID"}', "", "seckill_orders has no status"),
        ("sum by (partition) (mqcore_group_lag)", "", "no metric in it has partition"),
        ("sum by (group) (mqcore_group_lag)", "{{ $labels.topic }} is late", "topic is used but missing"),
        ("seckill_deliveries", "{{shop}}", "shop is used but missing"),
        ("vector(1)", "", "no metric in"),
    ],
)
def test_a_metric_that_no_service_publishes_is_noticed(expression: str, text: str, complaint: str) -> None:
    assert any(complaint in each for each in complaints(expression, text))


def test_a_process_publishes_metrics_only_when_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = {**SERVICES["orders-sweep"], "command": ["python", "-m", "seckill.cli", "sweep", "orders"]}
    monkeypatch.setitem(SERVICES, "orders-sweep", quiet)
    assert any("no service publishes seckill_orders" in each for each in complaints("seckill_orders"))
