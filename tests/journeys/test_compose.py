"""docker compose with Docker: start, a rush with a killed container and a paused broker, the report, a graceful stop.

It runs only on request: `TEST_COMPOSE=1 pytest tests/journeys/test_compose.py` (tests/journeys/compose.py). Checks
that need no Docker are in tests/architecture/test_compose.py and always run.
"""

from __future__ import annotations

import json
import time
import urllib.error
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer

from tests.journeys.compose import ROOT, Project, living

PAUSE_S = 4
GENTLE = {0, 130, 143}
"""Exit codes of a process that stopped when asked."""
EMPTY_IN_PEACE = {
    "seckill_residual != 0",
    'seckill_deliveries{state="due"}',
    "seckill_deliveries_late_seconds",
    "max by (broker) (mqcore_replica_lag_records)",
}
"""Panels that are empty when all is well, or without the profile `cluster`."""


pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    with living(Project("seckill-test", "observe")) as made:
        yield made


def test_the_front_reaches_every_page_and_inner_services_are_not_published(project: Project) -> None:
    start = project.get("/start").decode()
    assert 'href="/api/docs"' in start and f":{project.ports['LOCUST_PORT']}" in start
    assert json.loads(project.get("/api/v1/sales"))["sales"]
    assert b"Locust" in project.get("/", "LOCUST_PORT")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        project.get("/metrics")
    published = {
        each["PublishedPort"]: each["URL"]
        for container in project.containers()
        for each in container["Publishers"] or ()
        if each["PublishedPort"]
    }
    assert set(published) == set(project.ports.values())
    assert set(published.values()) == {"127.0.0.1"}


def test_the_console_knows_every_container_by_its_signs_of_life(project: Project) -> None:
    command = "from seckill.console.processes import read_processes; import json; print(json.dumps(read_processes()))"

    def states() -> dict[str, str]:
        words = ("seckill", "manage", "shell", "--no-imports", "--command", command)
        rows = json.loads(project.say("exec", "-T", "gateway", *words)) or ()
        return {row["name"]: row["state"] for row in rows}

    expected = {"mqcore", "postgres", "redis", "front", "seckill-test-inventory-2", "seckill-test-gateway-1"}
    project.wait_until(lambda: expected <= states().keys(), "the first signs of all of them")
    assert set(states().values()) == {"up"}


def test_a_kafka_client_on_this_machine_connects(project: Project) -> None:
    consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{project.ports['BROKER_PORT']}")
    try:
        assert "purchase.requests" in consumer.topics()
        assert consumer.beginning_offsets([]) == {}
        assert len(consumer.partitions_for_topic("purchase.requests")) == 12
    finally:
        consumer.close()


def test_the_books_balance_after_a_rush_with_a_container_killed_and_the_broker_paused(project: Project) -> None:
    words = ("seckill", "sale", "create", "--name", "Small", "--sku", "phone", "--units", "60")
    sale = str(json.loads(project.say("exec", "-T", "gateway", *words))["sale"])

    def free() -> int:
        return int(json.loads(project.get(f"/api/v1/sales/{sale}"))["available"])

    crowd = project.begin("run", "--rm", "-T", "crowd", "--sale", sale, "--buyers", "500", "--over", "15")
    project.wait_until(lambda: free() < 60, "the first units to be taken")
    project.say("kill", "inventory")
    project.say("up", "-d", "--no-recreate", "inventory")
    project.say("pause", "mqcore")
    time.sleep(PAUSE_S)  # the pause itself is the fault; this does not wait for anything
    project.say("unpause", "mqcore")
    said, errors = crowd.communicate(timeout=180)
    assert crowd.returncode == 0, errors
    assert "500 buyers" in said
    report = project.run("run", "--rm", "-T", "report", timeout=360)
    assert report.returncode == 0, report.stdout[-6000:] + report.stderr[-2000:]
    assert "reports/report.html" in report.stdout.splitlines()[-1]
    page = (ROOT / "reports" / "report.html").read_text()
    observed = {each["process"] for each in json.loads((ROOT / "reports" / "report.json").read_text())["observed"]}
    assert {"mqcore", "seckill-test-inventory-1", "seckill-test-inventory-2"} <= observed, "killed and paused by hand"
    assert "postgres" not in observed and "seckill-test-orders-1" not in observed, "left alone"
    assert all(name in page for name in observed)


def test_the_report_service_makes_the_report_that_an_operator_orders(project: Project) -> None:
    order = "from seckill.console.reports import queue; print(queue.request_report('olga'))"
    project.say("exec", "-T", "gateway", "seckill", "manage", "shell", "--no-imports", "--command", order)

    def states() -> str:
        query = "SELECT string_agg(state || verdict, ',') FROM console_report"
        return project.say("exec", "-T", "postgres", "psql", "-U", "seckill", "-d", "seckill", "-tAc", query).strip()

    project.wait_until(lambda: states() == "donePASS", "the report", 120)


def asked(project: Project) -> dict[str, list[str]]:
    """The health of Prometheus's targets by job: `up` or something else."""
    found: dict[str, list[str]] = {}
    for each in project.prometheus("targets?state=active")["data"]["activeTargets"]:
        found.setdefault(each["labels"]["job"], []).append(each["health"])
    return found


def test_every_grafana_panel_shows_data_after_a_rush(project: Project) -> None:
    dashboard = json.loads((ROOT / "deploy/grafana/dashboards/sale.json").read_text())
    expressions = {target["expr"] for panel in dashboard["panels"] for target in panel["targets"]}
    assert expressions > EMPTY_IN_PEACE

    def silent() -> set[str]:
        return {each for each in expressions - EMPTY_IN_PEACE if not project.results(each)}

    project.wait_until(lambda: not silent(), "data in every panel", 90)
    shown = json.loads(project.get("/api/dashboards/uid/sale", "GRAFANA_PORT"))["dashboard"]
    assert shown["title"] == dashboard["title"] and len(shown["panels"]) == len(dashboard["panels"])


def test_prometheus_scrapes_each_of_several_gateways(project: Project) -> None:
    project.say("up", "-d", "--no-recreate", "--scale", "gateway=2", "gateway")
    project.wait_until(lambda: asked(project)["gateway"] == ["up", "up"], "Prometheus to find both")
    assert project.results('count(count by (instance) (seckill_purchases_waiting{job="gateway"}))') == ["2"]
    project.say("up", "-d", "--no-recreate", "--scale", "gateway=1", "gateway")
    project.wait_until(lambda: asked(project)["gateway"] == ["up"], "Prometheus to forget the other")


def test_prometheus_scrapes_every_service_and_an_alert_fires(project: Project) -> None:
    def away() -> set[str]:
        return {job for job, healths in asked(project).items() if set(healths) != {"up"}}

    def firing() -> set[str]:
        return {
            each["labels"]["alertname"] for each in project.prometheus("alerts")["data"]["alerts"]
            if each["state"] == "firing"
        }  # fmt: skip

    project.wait_until(lambda: not away(), "all targets up")
    assert "Down" not in firing()
    project.say("stop", "orders-sweep")
    project.wait_until(lambda: "Down" in firing(), "the alert for the missing process", 90)
    project.say("start", "orders-sweep")
    project.wait_until(lambda: "Down" not in firing(), "the alarm to end", 90)


def test_all_containers_stop_in_time_when_asked(project: Project) -> None:
    project.say("stop", timeout=180)
    ended = {container["Service"]: container["ExitCode"] for container in project.containers()}
    assert {name: code for name, code in ended.items() if code not in GENTLE} == {}
    project.up()
    assert json.loads(project.get("/api/v1/sales"))["sales"], "the data is still there after a restart"
