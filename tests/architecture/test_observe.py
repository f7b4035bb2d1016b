"""Alarms and pictures without Prometheus: each is of metrics, and of labels, that a process shows whom it really asks.

A name that nobody shows gives an alarm that never sounds and a picture that is always empty, and neither complains.
What Prometheus makes of the expressions is in tests/journeys/test_compose.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from gateway import metrics as of_gateway
from mqcore import gauges
from mqcore.metrics import Family, Histogram, Metrics
from seckill.consistency.live.residuals import Residual, as_metrics
from seckill.processes import METRICS
from seckill.reaching import named
from tests.architecture.test_compose import SERVICES

DEPLOY = Path(__file__).parents[2] / "deploy"
ASKED = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
OF_PROMETHEUS = {"up": set[str](), "ALERTS": {"alertname", "alertstate", "severity"}}
OF_HAPROXY = {
    "haproxy_frontend_http_requests_total": {"proxy"},
    "haproxy_frontend_http_responses_total": {"proxy", "code"},
}
"""Its own names: those that we use. The journey sees that there are numbers behind them."""

SELECTOR = re.compile(r"\b((?:seckill|mqcore|haproxy)_\w+|up|ALERTS)\b(?:\{([^}]*)\})?")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
TOLD = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")

Shown = dict[str, set[str]]
"""Labels of each metric."""


def host(job: dict[str, Any]) -> str:
    """The one service that a job asks."""
    [found] = [target.partition(":")[0] for group in job.get("static_configs", ()) for target in group["targets"]] or [
        name for group in job["dns_sd_configs"] for name in group["names"]
    ]
    return str(found)


def shown_by(service: str) -> Shown:
    """What a container shows, by what it is told to run."""
    command = [str(word) for word in SERVICES[service].get("command", ())]
    if service == "front":
        return OF_HAPROXY
    if service == "gateway":
        return _labels(of_gateway.FAMILIES)
    if service == "mqcore":
        metrics = Metrics()
        gauges.declare(metrics, cast(Any, None), cast(Any, None), cast(Any, None))  # they are read when they are asked
        return _labels(metrics._families)
    if "--metrics-port" not in command:
        return {}
    if "report" in command:
        page = as_metrics([Residual("I1", "units", 1)])
        return {name: set(MATCHER.findall(labels or "")) for name, labels in SELECTOR.findall(page)}
    return _labels(named(METRICS[command[command.index("sweep") + 1]]))


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
    """By all whom Prometheus asks; it adds who it was."""
    found = dict(OF_PROMETHEUS)
    for job in ASKED:
        found |= shown_by(host(job))
    return {name: {*labels, "job", "instance"} for name, labels in found.items()}


def complaints(expression: str, *texts: str) -> Iterator[str]:
    """`texts` speak of labels of what comes out."""
    shown = everything()
    selectors = SELECTOR.findall(GROUPED.sub("", expression))
    if not selectors:
        yield f"of nothing: {expression}"
    for name, matchers in selectors:
        if name not in shown:
            yield f"nobody shows {name}"
            continue
        yield from (f"{name} has no {label}" for label in MATCHER.findall(matchers) if label not in shown[name])
    had = set.union(*(shown.get(name, set()) for name, _ in selectors)) if selectors else set()
    grouped = [label.strip() for labels in GROUPED.findall(expression) for label in labels.split(",")]
    yield from (f"nothing in it has {label}" for label in grouped if label not in had)
    kept = set(grouped) if grouped else had
    yield from (f"{label} is told and not there" for text in texts for label in TOLD.findall(text) if label not in kept)


def alarms() -> list[dict[str, Any]]:
    groups = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return list(json.loads((DEPLOY / "grafana/dashboards/sale.json").read_text())["panels"])


def test_prometheus_asks_services_that_are_there_and_show_something() -> None:
    hosts = [host(job) for job in ASKED]
    assert len(set(hosts)) == len(hosts) and set(hosts) <= set(SERVICES)
    assert [each for each in hosts if not shown_by(each)] == []


@pytest.mark.parametrize("alarm", alarms(), ids=lambda alarm: str(alarm["alert"]))
def test_an_alarm_is_of_metrics_that_somebody_shows_and_says_what_to_do(alarm: dict[str, Any]) -> None:
    assert set(alarm["annotations"]) == {"summary", "look"} and alarm["labels"]["severity"] in ("page", "warning")
    assert list(complaints(alarm["expr"], alarm["annotations"]["summary"])) == []
    said = re.match(r"docker compose (?:logs|exec|run --rm|ps) ?([\w-]*)", alarm["annotations"]["look"])
    assert said is not None and said[1] in {"", *SERVICES}


def test_the_alarms_that_matter_most_are_there() -> None:
    assert {"Lag", "BooksBroken", "ServerErrors", "DeadLetters", "Down"} <= {alarm["alert"] for alarm in alarms()}


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_a_picture_is_of_metrics_that_somebody_shows(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        assert list(complaints(target["expr"], target["legendFormat"])) == []


def test_no_two_pictures_share_an_id_or_a_place() -> None:
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
        ("seckill_orders_late > 0", "", "nobody shows seckill_orders_late"),
        ("mqcore_group_lags", "", "nobody shows mqcore_group_lags"),
        ("rate(seckill_purchase_seconds[1m])", "", "nobody shows seckill_purchase_seconds"),
        ('seckill_orders{status="PAID"}', "", "seckill_orders has no status"),
        ("sum by (partition) (mqcore_group_lag)", "", "nothing in it has partition"),
        ("sum by (group) (mqcore_group_lag)", "{{ $labels.topic }} is late", "topic is told and not there"),
        ("seckill_deliveries", "{{shop}}", "shop is told and not there"),
        ("vector(1)", "", "of nothing"),
    ],
)
def test_what_nobody_shows_is_noticed(expression: str, text: str, complaint: str) -> None:
    assert any(complaint in each for each in complaints(expression, text))


def test_a_process_that_is_not_told_to_show_its_metrics_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = {**SERVICES["orders-sweep"], "command": ["python", "-m", "seckill.cli", "sweep", "orders"]}
    monkeypatch.setitem(SERVICES, "orders-sweep", quiet)
    assert any("nobody shows seckill_orders" in each for each in complaints("seckill_orders"))
