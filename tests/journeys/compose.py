"""A compose project for a journey: docker-compose.yml under its own name, on free ports, removed afterwards.

It builds images and takes minutes, so it runs only on request: `TEST_COMPOSE=1 pytest tests/journeys/test_compose*.py`.
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
from random import randrange
from typing import Any

import pytest

from seckill.stack.child_processes import free_ports

ROOT = Path(__file__).parents[2]
START_SECONDS_MAX = 600
"""On a busy machine with two cores, thirty containers take minutes to import their packages."""
PORTS = ("FRONT_PORT", "LOCUST_PORT", "BROKER_PORT", "GRAFANA_PORT")


def _missing() -> str:
    if not os.environ.get("TEST_COMPOSE"):
        return "takes minutes: set TEST_COMPOSE=1 (and have docker compose)"
    try:
        asked = subprocess.run(["docker", "compose", "ls"], capture_output=True, text=True, timeout=30)
    except OSError as error:
        return f"no docker: {error}"
    return "" if asked.returncode == 0 else f"docker compose does not answer: {asked.stderr.strip()}"


class Project:
    """A compose project with its own name, on free ports."""

    def __init__(self, name: str, *profiles: str, **variables: str) -> None:
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self._words = ["docker", "compose", "-p", name, *(f"--profile={profile}" for profile in profiles)]
        net = f"10.{randrange(100, 250)}.{randrange(250)}"  # avoid the network of a project that is already running
        self._environment = (
            {"IMAGE_NAME": "seckill-test"}  # the images of a user's own checkout stay as they are
            | os.environ
            | {"INSIDE_NET": net}
            | variables
            | {key: str(port) for key, port in self.ports.items()}
        )

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

    def up(self, *words: str) -> float:
        """Start all containers; the seconds until all are healthy."""
        began = time.monotonic()
        limit = ("--wait", "--wait-timeout", str(START_SECONDS_MAX))
        self.say("up", "-d", *limit, *words, timeout=START_SECONDS_MAX + 60)
        return time.monotonic() - began

    def rush(self, *words: str) -> None:
        """Run a crowd until every buyer has an outcome."""
        crowd = self.run("run", "--rm", "-T", "crowd", "--sale", "1", *words, timeout=180)
        assert crowd.returncode == 0, crowd.stderr[-3000:]

    def judged(self, *words: str) -> dict[str, str]:
        """The verdict of each invariant and of the whole report."""
        report = self.run("run", "--rm", "-T", "report", "--json", "-", *words, timeout=360)
        assert report.stdout, report.stderr[-3000:]
        said = json.loads(report.stdout)
        for each in said["invariants"]:
            if each["verdict"] not in ("PASS", "NOT RUN"):  # so a failing test says why
                print(f"\n{each}"[:2000])
        return {each["name"]: each["verdict"] for each in said["invariants"]} | {"all": said["verdict"]}

    def containers(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.say("ps", "-a", "--format", "json").splitlines()]

    def get(self, path: str, port: str = "FRONT_PORT") -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[port]}{path}", timeout=60) as answer:
            content: bytes = answer.read()
        return content

    def prometheus(self, path: str) -> Any:
        """Prometheus publishes no port, so the request runs inside its container."""
        return json.loads(self.say("exec", "-T", "prometheus", "wget", "-qO-", f"http://127.0.0.1:9090/api/v1/{path}"))

    def results(self, expression: str) -> list[str]:
        """The current values of an expression."""
        found = self.prometheus(f"query?{urllib.parse.urlencode({'query': expression})}")
        return [each["value"][1] for each in found["data"]["result"]]

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
        project.run("down", "-v", "--remove-orphans", "--timeout", "20", timeout=300)
