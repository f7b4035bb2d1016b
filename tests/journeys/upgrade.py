"""A stack of an earlier commit, and the steps that replace its processes by those of this commit, one by one.

The old stack runs from `git archive` of that commit, in the present Python environment. Its supervisor keeps Postgres
and Redis; each other process is stopped there and started again by this commit's table of services, in the same folder
and on the same ports.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from seckill.stack.child_processes import free_ports, wait_until
from seckill.stack.process_instance import Instance
from seckill.stack.services import ROOT, Layout, Ports, services
from seckill.stack.stack_process import StackProcess, clean_environment, run_module

START_SECONDS_MAX = 90.0
RUSH_SECONDS_MAX = 240.0
BUYERS_OF_A_RUSH, SECONDS_OF_A_RUSH = 60, 4


def missing_history(commit: str) -> str:
    """Why this commit cannot be taken from the repository; empty if it can."""
    try:
        asked = subprocess.run(
            ["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True, text=True, timeout=30
        )
    except OSError as fault:
        return f"no git: {fault}"
    reason = asked.stderr.strip() or "no such commit"
    return "" if asked.returncode == 0 else f"the history here does not reach back to {commit} ({reason})"


def check_out(commit: str, folder: Path) -> None:
    """The files of this commit, without touching the repository."""
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True, timeout=60).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


class OldStack(StackProcess):
    """`seckill up` of the old code. It knew nothing of several brokers, and had one process more, with a port."""

    def __init__(self, code: Path, folder: Path, ports: dict[str, int], **settings: str) -> None:
        super().__init__(folder, Ports(**ports), settings, cwd=code)
        self._code = code
        self._ports = {name: port for name, port in ports.items() if name != "controller"} | {"live": free_ports(1)[0]}
        self.started_with |= {"PYTHONPATH": str(code)}

    def command(self) -> list[str]:
        ports = [part for name, port in self._ports.items() for part in ("--port", f"{name}={port}")]
        return [sys.executable, "-m", "seckill.cli", "up", "--data", str(self.folder), *ports, "--empty"]

    def create_sale(self, units: int, **options: object) -> int:
        words = ["sale", "create", "--name", "Gong", "--sku", "phone", "--units", str(units)]
        return int(json.loads(self.operate(*words))["sale"])

    def operate(self, *words: str) -> str:
        """A command of the old code: it reads what the old stack has written about itself."""
        done = subprocess.run(
            [sys.executable, "-m", "seckill.cli", "--data", str(self.folder), *words],
            check=True, capture_output=True, text=True, cwd=self._code, env=self.started_with, timeout=60,
        )  # fmt: skip
        return done.stdout


class Upgrade:
    """Replaces the processes of an old stack, one by one."""

    def __init__(self, old: OldStack, **settings: str) -> None:
        self.old, self.layout, self._settings = old, old.layout, settings
        self.rows = {service.name: service for service in services(self.layout)}
        self._started: list[Instance] = []

    def migrate(self) -> None:
        """This commit's tables and topics, while the old processes run; then its commands find the servers."""
        addresses = self.layout.addresses()
        run_module(addresses, "django", "migrate", "--verbosity", "0")
        run_module(addresses, "seckill.cli", "topics")
        (self.layout.run / "environment.json").write_text(json.dumps(addresses | self._settings))

    def replace(self, name: str) -> None:
        """All processes of a service, one after the other, so that both versions run side by side for a while."""
        service = self.rows[name]
        for number in range(1, service.count + 1):
            instance = Instance(service, number, self.layout, variables=dict(self._settings))
            self.old.send("stop", name=instance.name)
            self._start(instance)

    def add_gateway(self, port: int) -> str:
        """Another gateway of this commit, beside the old one; its address."""
        layout = Layout(self.layout.folder, replace(self.layout.ports, gateway=port))
        row = next(each for each in services(layout) if each.name == "gateway")
        self._start(Instance(replace(row, name="gateway.second"), 1, layout, variables=dict(self._settings)))
        return f"http://127.0.0.1:{port}"

    def _start(self, instance: Instance) -> None:
        instance.spawn()
        self._started.append(instance)

        def give_up_reason() -> str | None:
            return None if instance.is_running else f"it ended; see {instance.log.read_text()[-2000:]}"

        wait_until(instance.is_healthy, instance.name, START_SECONDS_MAX, give_up_reason=give_up_reason)

    def replaced(self) -> set[str]:
        return {each.service.name for each in self._started if each.is_running}

    def stop(self) -> None:
        """Signal all that only call others, wait for them, then stop those that they call."""
        callers = [each for each in self._started if not each.service.stops_alone]
        for instance in callers:
            instance.signal()
        for instance in callers:
            instance.reap()
        for instance in reversed([each for each in self._started if each.service.stops_alone]):
            instance.signal()
            instance.reap()
        self._started.clear()


class Crowd:
    """Rush after rush on one address until it is told to end; each has a log of its own for the report."""

    def __init__(self, stack: StackProcess, sale: int, url: str, name: str) -> None:
        self._folder, self._words, self._name = stack.evidence, ["--url", url, "--sale", str(sale)], name
        self._ends = threading.Event()
        self._fault = ""
        self._thread = threading.Thread(target=self._run, name=f"crowd {name}")
        self.rushes = 0

    def _run(self) -> None:
        size = ["--buyers", str(BUYERS_OF_A_RUSH), "--over", str(SECONDS_OF_A_RUSH)]
        while not self._ends.is_set() and not self._fault:
            name = f"{self._name}{self.rushes}"
            words = [*self._words, *size, "--prefix", f"{name}-", "--log", str(self._folder / f"{name}.jsonl")]
            command = [sys.executable, "-m", "loadtest.rush", *words]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, env=clean_environment(), timeout=RUSH_SECONDS_MAX
                )
            except subprocess.TimeoutExpired as fault:
                self._fault = str(fault)
                return
            self._fault = "" if done.returncode == 0 else done.stderr[-2000:]
            self.rushes += 1

    def __enter__(self) -> Crowd:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._ends.set()
        self._thread.join(RUSH_SECONDS_MAX)

    def check(self) -> None:
        assert not self._fault, self._fault

    def answers(self) -> Counter[tuple[int, str]]:
        """How often each pair of status and problem was received."""
        found: Counter[tuple[int, str]] = Counter()
        for log in self._folder.glob(f"{self._name}*.jsonl"):
            for line in map(json.loads, log.read_text().splitlines()):
                if "status" in line:
                    found[line["status"], line.get("problem", "")] += 1
        return found


@contextmanager
def old_stack(commit: str, folder: Path, **settings: str) -> Iterator[OldStack]:
    check_out(commit, folder / "old")
    names = list(Ports().all())
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    stack = OldStack(folder / "old", folder / "stack", ports, **settings)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
