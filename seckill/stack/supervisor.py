"""Shell: the supervisor: processes in the order of their services, restarted when they die, stopped in reverse.

A process that was stopped by a word stays down until `start`; one that died or was killed comes back by itself.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from seckill.stack import control, instances, passwords, ready, servers, setup
from seckill.stack.control import StackFault
from seckill.stack.instances import Instance
from seckill.stack.observing import Observations, is_frozen
from seckill.stack.services import Layout, Service, services

START_S = 60.0
TURN_S = 0.2


class Supervisor:
    def __init__(self, layout: Layout, scale: dict[str, int], tell: Callable[[str], None]) -> None:
        self.layout = layout
        self.instances: list[Instance] = []
        self._services = services(layout)
        self._tell = tell
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._is_ours = False
        self._observed = Observations(layout.folder / "evidence" / "observed.jsonl")
        self._frozen: set[str] = set()
        unknown = set(scale) - {service.name for service in self._services}
        if unknown:
            known = ", ".join(service.name for service in self._services)
            raise StackFault(f"unknown services: {', '.join(sorted(unknown))}; known are {known}")
        for service in self._services:
            count = scale.get(service.name, service.count)
            if not 0 <= count <= service.most:
                raise StackFault(f"{service.name} can run 0 to {service.most} times, not {count}")
            self.instances += [Instance(service, number, layout) for number in range(1, count + 1)]

    # ── start and stop ───────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Everything up and healthy, in order, or `StackFault`."""
        layout = self.layout
        for folder in (layout.run, layout.folder / "logs"):
            folder.mkdir(parents=True, exist_ok=True)
        control.listen(layout, self.obey)
        self._is_ours = True
        for name in instances.end_leftovers(layout.run):
            self._tell(f"{name} was left over by a stack that did not end well, and is ended")
        for mark in layout.run.glob("*.ready"):
            mark.unlink()
        self._check_ports()
        written = layout.run / "environment.json"  # it holds passwords
        written.touch(mode=0o600)
        written.chmod(0o600)
        written.write_text(json.dumps(layout.addresses(), indent=2))
        if any(service.name == "postgres" for service in self._services):
            servers.init_postgres(layout.folder / "postgres", passwords.password(layout.folder, "postgres"))
        for service in self._services:
            if service.is_server:
                self._bring_up([service])
        setup.prepare(layout, self._tell)
        self._bring_up([service for service in self._services if not service.is_server])

    def _bring_up(self, rows: Sequence[Service]) -> None:
        """Spawn all of them, then wait for each."""
        mine = [instance for instance in self.instances if instance.service in rows]
        for instance in mine:
            instance.spawn()
        for instance in mine:
            self._await(instance)

    def _await(self, instance: Instance) -> None:
        deadline = time.monotonic() + START_S
        while not instance.is_healthy():
            if instance.process is not None and not instance.is_running:
                raise StackFault(f"{instance.name} ended with {instance.process.returncode}; see {instance.log}")
            if time.monotonic() > deadline:
                raise StackFault(f"{instance.name} is not ready: {instance.missing}; see {instance.log}")
            if self._stopping.wait(TURN_S / 4):
                raise StackFault("stopped while starting")
        self._tell(f"{instance.name} is up")

    def _check_ports(self) -> None:
        used: dict[int, str] = {}
        for name, port in self.layout.own_ports().items():
            if port in used:
                raise StackFault(f"port {port} is wanted by {used[port]} and {name}; choose with --port {name}=…")
            used[port] = name
            why = ready.free(port)
            if why is not None:
                raise StackFault(f"port {port} ({name}) is taken ({why}); choose another with --port {name}=…")

    def stop(self) -> None:
        """In reverse order: those who call others at the same time, then one by one those whom they call."""
        self._stopping.set()
        with self._lock:
            for _, several in groupby(reversed(self._services), lambda row: row.ends_alone and row.name):
                services = list(several)
                mine = [each for service in services for each in self.instances if each.service == service]
                for instance in mine:
                    instance.signal()
                for instance in mine:
                    if instance.process is not None:
                        self._tell(f"{instance.name} {'is down' if instance.reap() else 'did not stop and was killed'}")
        if self._is_ours:
            self.layout.socket.unlink(missing_ok=True)

    # ── watching ─────────────────────────────────────────────────────────────────────────────────

    def watch(self, each_turn: Callable[[], None]) -> None:
        """Until `request_stop`: restart what died, mark what became healthy."""
        while not self._stopping.wait(TURN_S):
            with self._lock:
                for instance in self.instances:
                    self._look_after(instance)
            each_turn()

    def request_stop(self) -> None:
        self._stopping.set()

    def _look_after(self, instance: Instance) -> None:
        now = time.monotonic()
        if instance.is_running:
            if instance.state == "starting" and instance.is_healthy():
                self._observed.note("up", instance.name)
                self._tell(f"{instance.name} is up again")
            self._notice_freeze(instance)
        elif instance.state in ("starting", "up") and instance.process is not None:
            instance.has_died(now)
            self._frozen.discard(instance.name)
            self._observed.note("died", instance.name, code=instance.process.returncode)
            self._tell(f"{instance.name} ended with {instance.process.returncode}; see {instance.log}")
        elif instance.state == "died" and instance.wanted and now >= instance.again_at:
            instance.spawn()

    def _notice_freeze(self, instance: Instance) -> None:
        """Stopped by a signal it holds all it has, and does nothing: nobody else would tell."""
        assert instance.process is not None
        is_now = is_frozen(instance.process.pid)
        if is_now != (instance.name in self._frozen):
            self._observed.note("frozen" if is_now else "thawed", instance.name)
            (self._frozen.add if is_now else self._frozen.discard)(instance.name)

    # ── words ────────────────────────────────────────────────────────────────────────────────────

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["word"] == "status":  # without the lock: it must answer while a start or stop takes its time
            return {"instances": [instance.row() for instance in list(self.instances)]}
        if order["word"] == "down":
            self._stopping.set()
            return {"done": "stopping"}
        with self._lock:
            if self._stopping.is_set():
                raise StackFault("the stack is stopping")
            match order["word"]:
                case "scale":
                    return {"done": f"{order['service']}: {self._scale(order['service'], int(order['count']))}"}
                case "stop" | "kill" | "start" as word:
                    named = self._named(order["name"])
                    if word == "start":
                        self._give(named, dict(order.get("with", {})))
                    for instance in named:
                        self._tell(f"{instance.name}: {word}")
                    {"stop": self._stop_all, "kill": self._kill_all, "start": self._start_all}[word](named)
                    return {"done": [instance.name for instance in named]}
                case word:
                    raise StackFault(f"unknown word {word}")

    def _named(self, name: str) -> list[Instance]:
        found = [instance for instance in self.instances if name in (instance.name, instance.service.name)]
        if not found:
            known = ", ".join(instance.name for instance in self.instances)
            raise StackFault(f"{name} is not of this stack: {known}")
        return found

    def _stop_all(self, named: Sequence[Instance]) -> None:
        """They come to their ends at the same time."""
        for instance in named:
            if instance.is_running:
                self._observed.note("stopped", instance.name)
            instance.wanted = False
            instance.signal()
        for instance in named:
            instance.reap()

    def _kill_all(self, named: Sequence[Instance]) -> None:
        for instance in named:
            instance.kill()

    def _give(self, named: Sequence[Instance], more: dict[str, str]) -> None:
        """Variables of their own, kept over restarts until they are started by a word again."""
        for instance in named:
            if instance.is_running and more:
                raise StackFault(f"{instance.name} runs: stop it first, its variables are given at a start")
            if not instance.is_running and more != instance.more:
                instance.more, instance.lives = more, 0

    def _start_all(self, named: Sequence[Instance]) -> None:
        for instance in named:
            instance.wanted = True
            if not instance.is_running:
                instance.spawn()

    def _scale(self, name: str, count: int) -> int:
        service = next((row for row in self._services if row.name == name), None)
        if service is None or not 0 <= count <= service.most:
            raise StackFault(f"{name} cannot run {count} times")
        mine = [instance for instance in self.instances if instance.service == service]
        self._stop_all(mine[count:])
        for instance in mine[count:]:
            self.instances.remove(instance)
        for number in range(len(mine) + 1, count + 1):
            instance = Instance(service, number, self.layout)
            self.instances.append(instance)
            instance.spawn()
        return count
