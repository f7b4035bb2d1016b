"""docker compose, really: up, a rush with a container killed and the broker paused, the books, a graceful end.

It builds images and takes some minutes, so it is asked for: `TEST_COMPOSE=1 pytest tests/journeys/test_compose.py`.
What can be said of the file without Docker is in tests/architecture/test_compose.py, and runs always.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer

from tests.journeys.stack import free_ports

ROOT = Path(__file__).parents[2]
PORTS = ("FRONT_PORT", "LOCUST_PORT", "BROKER_PORT", "GRAFANA_PORT")
PAUSE_S = 4
GENTLE = {0, 130, 143}
"""Exit codes of a process that ended when it was asked to."""


def _missing() -> str:
    if not os.environ.get("TEST_COMPOSE"):
        return "takes minutes: set TEST_COMPOSE=1 (and have docker compose)"
    try:
        asked = subprocess.run(["docker", "compose", "ls"], capture_output=True, text=True, timeout=30)
    except OSError as error:
        return f"no docker: {error}"
    return "" if asked.returncode == 0 else f"docker compose does not answer: {asked.stderr.strip()}"


pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


class Project:
    """A compose project of its own, on free ports."""

    def __init__(self, name: str, profile: str) -> None:
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self._words = ["docker", "compose", "-p", name, "--profile", profile]
        self._environment = os.environ | {key: str(port) for key, port in self.ports.items()}

    def say(self, *words: str, timeout: float = 120) -> str:
        done = self.run(*words, timeout=timeout)
        assert done.returncode == 0, f"docker compose {' '.join(words)}: {done.stderr[-3000:]}"
        return done.stdout

    def run(self, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        command = [*self._words, *words]
        return subprocess.run(command, cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=timeout)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*self._words, *words], cwd=ROOT, env=self._environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
            text=True,
        )  # fmt: skip

    def up(self) -> float:
        """Seconds until all are healthy."""
        began = time.monotonic()
        self.say("up", "-d", "--wait", "--wait-timeout", "180", timeout=240)
        return time.monotonic() - began

    def containers(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.say("ps", "-a", "--format", "json").splitlines()]

    def get(self, path: str, port: str = "FRONT_PORT") -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[port]}{path}", timeout=10) as answer:
            content: bytes = answer.read()
        return content

    def prometheus(self, path: str) -> Any:
        """It has no port outside: asked from within."""
        return json.loads(self.say("exec", "-T", "prometheus", "wget", "-qO-", f"http://127.0.0.1:9090/api/v1/{path}"))

    def wait_until(self, holds: Callable[[], object], what: str, patience_s: float = 60) -> None:
        deadline = time.monotonic() + patience_s
        while not holds():
            assert time.monotonic() < deadline, f"not within {patience_s:.0f} s: {what}"
            time.sleep(0.5)


@contextmanager
def living(project: Project) -> Iterator[Project]:
    if missing := _missing():
        pytest.skip(missing)
    try:
        project.say("build", timeout=900)
        print(f"healthy after {project.up():.0f} s", file=sys.stderr)
        yield project
    finally:
        project.run("down", "-v", "--remove-orphans", "--timeout", "20")


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    with living(Project("seckill-test", "observe")) as made:
        yield made


def test_one_address_leads_everywhere_and_none_of_the_inner_ones_outside(project: Project) -> None:
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


def test_a_kafka_client_on_this_machine_connects(project: Project) -> None:
    consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{project.ports['BROKER_PORT']}")
    try:
        assert "purchase.requests" in consumer.topics()
        assert consumer.beginning_offsets([]) == {}
        assert len(consumer.partitions_for_topic("purchase.requests")) == 12
    finally:
        consumer.close()


def test_the_books_balance_after_a_rush_with_a_container_killed_and_the_broker_paused(project: Project) -> None:
    words = ("seckill", "manage", "sale", "create", "--name", "Small", "--sku", "phone", "--units", "60")
    sale = str(json.loads(project.say("exec", "-T", "gateway", *words))["sale"])

    def free() -> int:
        return int(json.loads(project.get(f"/api/v1/sales/{sale}"))["available"])

    crowd = project.begin("run", "--rm", "-T", "crowd", "--sale", sale, "--buyers", "500", "--over", "15")
    project.wait_until(lambda: free() < 60, "the first units to be taken")
    project.say("kill", "inventory")
    project.say("up", "-d", "--no-recreate", "inventory")
    project.say("pause", "mqcore")
    time.sleep(PAUSE_S)  # what is paused does nothing by itself: this is the fault, not a wait for something
    project.say("unpause", "mqcore")
    said, errors = crowd.communicate(timeout=180)
    assert crowd.returncode == 0, errors
    assert "500 buyers" in said
    report = project.run("run", "--rm", "-T", "report", timeout=360)
    assert report.returncode == 0, report.stdout[-6000:] + report.stderr[-2000:]


def test_prometheus_hears_of_everybody_and_an_alarm_sounds(project: Project) -> None:
    def away() -> set[str]:
        found = project.prometheus("targets?state=active")["data"]["activeTargets"]
        return {each["labels"]["job"] for each in found if each["health"] != "up"}

    def firing() -> set[str]:
        return {
            each["labels"]["alertname"] for each in project.prometheus("alerts")["data"]["alerts"]
            if each["state"] == "firing"
        }  # fmt: skip

    project.wait_until(lambda: not away(), "all targets up")
    assert "Down" not in firing()
    project.say("stop", "orders-sweep")
    project.wait_until(lambda: "Down" in firing(), "the alarm of a process that is away", 90)
    project.say("start", "orders-sweep")
    project.wait_until(lambda: "Down" not in firing(), "the alarm to end", 90)


def test_all_end_when_they_are_asked_to(project: Project) -> None:
    project.say("stop", timeout=180)
    ended = {container["Service"]: container["ExitCode"] for container in project.containers()}
    assert {name: code for name, code in ended.items() if code not in GENTLE} == {}
    project.up()
    assert json.loads(project.get("/api/v1/sales"))["sales"], "what was there is there again"
