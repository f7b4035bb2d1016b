"""The supervisor: processes in the order of their services, restarted when they die, stopped in reverse.

Words for a running stack (stop, start, kill, scale, status) come in by a Unix socket in the stack's folder: one JSON
object a line, one answer a line. A process that was stopped or killed by a word stays down until `start`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seckill.stack import ready, servers, setup
from seckill.stack.services import Layout, Service, services
from seckill.streams.ready import READY_FILE

PATIENCE_S = 60.0
RESTART_S = 1.0
TURN_S = 0.2


class StackFault(Exception):
    """The stack cannot start; the text says what happened and what to do."""


@dataclass(slots=True)
class Instance:
    service: Service
    number: int
    process: subprocess.Popen[bytes] | None = None
    wanted: bool = True
    restarts: int = -1
    died_at: float = 0.0
    state: str = "waiting"
    missing: str = ""
    log: Path = field(default_factory=Path)

    @property
    def name(self) -> str:
        return self.service.name if self.service.most == 1 else f"{self.service.name}.{self.number}"


class Supervisor:
    def __init__(self, layout: Layout, scale: dict[str, int], tell: Callable[[str], None]) -> None:
        self.layout = layout
        self.instances: list[Instance] = []
        self._tell = tell
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        for service in services(layout):
            count = scale.pop(service.name, service.count)
            if not 0 <= count <= service.most:
                raise StackFault(f"{service.name} can run 0 to {service.most} times, not {count}")
            self.instances += [self._instance(service, number) for number in range(1, count + 1)]
        if scale:
            raise StackFault(f"unknown services: {', '.join(scale)}")

    def _instance(self, service: Service, number: int) -> Instance:
        instance = Instance(service, number)
        instance.log = self.layout.folder / "logs" / f"{instance.name}.log"
        return instance

    # ── start and stop ───────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Everything up and healthy, in order, or `StackFault`."""
        layout = self.layout
        for folder in (layout.run, layout.folder / "logs"):
            folder.mkdir(parents=True, exist_ok=True)
        self._claim()
        self._check_ports()
        servers.init_postgres(layout.folder / "postgres")
        rows = services(layout)
        ours = next(at for at, service in enumerate(rows) if not service.is_server)
        for service in rows[:ours]:
            self._bring_up([service])
        setup.prepare(layout, self._tell)
        self._bring_up(rows[ours:])

    def _bring_up(self, rows: Sequence[Service]) -> None:
        """Spawn all of them, then wait for each."""
        names = {service.name for service in rows}
        mine = [instance for instance in self.instances if instance.service.name in names]
        for instance in mine:
            self._spawn(instance)
        for instance in mine:
            self._await(instance)

    def _claim(self) -> None:
        path = self.layout.run / "stack.sock"
        if path.exists():
            try:
                ask(self.layout, {"word": "status"})
            except OSError:
                path.unlink()
            else:
                raise StackFault(f"a stack is running in {self.layout.folder} already; `seckill down` stops it")
        for leftover in self.layout.run.glob("*.ready"):
            leftover.unlink()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(8)
        threading.Thread(target=self._listen, args=(listener,), daemon=True).start()

    def _check_ports(self) -> None:
        for name, port in self.layout.ports.all().items():
            if name == "broker" and self.layout.bootstrap_servers:
                continue
            if ready.port(port)() is None:
                raise StackFault(f"port {port} ({name}) is taken; choose another with --port {name}=…")

    def _spawn(self, instance: Instance) -> None:
        command, how = instance.service.command(self.layout, instance.number)
        mark = self.layout.run / f"{instance.name}.ready"
        mark.unlink(missing_ok=True)
        environment = self.layout.environment() | {READY_FILE: str(mark), "SECKILL_STACK_NAME": instance.name}
        with open(instance.log, "ab") as output:
            instance.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
                start_new_session=True, **how,
            )  # fmt: skip
        instance.restarts += 1
        instance.state = "starting"

    def _await(self, instance: Instance) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self._healthy(instance):
            process = instance.process
            if process is not None and process.poll() is not None:
                raise StackFault(f"{instance.name} ended with {process.returncode}; see {instance.log}")
            if time.monotonic() > deadline:
                raise StackFault(f"{instance.name} is not ready: {instance.missing}; see {instance.log}")
            if self._stopping.wait(TURN_S / 4):
                raise StackFault("stopped while starting")
        self._tell(f"{instance.name} is up")

    def _healthy(self, instance: Instance) -> bool:
        instance.missing = instance.service.check(self.layout, instance.name)() or ""
        if not instance.missing:
            instance.state = "up"
        return not instance.missing

    def stop(self) -> None:
        """In reverse order: whoever produces first, the servers last."""
        self._stopping.set()
        for service in reversed(services(self.layout)):
            mine = [instance for instance in self.instances if instance.service.name == service.name]
            for instance in mine:
                self._signal(instance)
            for instance in mine:
                self._reap(instance)
        (self.layout.run / "stack.sock").unlink(missing_ok=True)

    def _signal(self, instance: Instance) -> None:
        if instance.process is not None and instance.process.poll() is None:
            instance.process.send_signal(getattr(signal, instance.service.stop_signal))

    def _reap(self, instance: Instance) -> None:
        if instance.process is None:
            return
        try:
            instance.process.wait(instance.service.stop_s)
        except subprocess.TimeoutExpired:
            self._tell(f"{instance.name} does not stop and is killed")
            instance.process.kill()
            instance.process.wait()
        instance.state = "down"

    # ── watching ─────────────────────────────────────────────────────────────────────────────────

    def watch(self, each_turn: Callable[[], None]) -> None:
        """Until `request_stop`: restart what died, mark what became healthy."""
        while not self._stopping.wait(TURN_S):
            with self._lock:
                for instance in list(self.instances):
                    self._look_after(instance)
            each_turn()

    def request_stop(self) -> None:
        self._stopping.set()

    def _look_after(self, instance: Instance) -> None:
        process = instance.process
        if process is None or process.poll() is None:
            if process is not None and instance.state == "starting":
                self._healthy(instance)
            return
        if instance.state not in ("died", "down", "killed"):
            instance.state, instance.died_at = "died", time.monotonic()
            self._tell(f"{instance.name} ended with {process.returncode}")
        if instance.wanted and instance.state == "died" and time.monotonic() - instance.died_at > RESTART_S:
            self._spawn(instance)

    # ── words ────────────────────────────────────────────────────────────────────────────────────

    def _listen(self, listener: socket.socket) -> None:
        while True:
            caller, _ = listener.accept()
            with caller, caller.makefile("rw") as lines:
                try:
                    answer = self.obey(json.loads(lines.readline()))
                except (ValueError, KeyError, StackFault) as error:
                    answer = {"error": str(error)}
                lines.write(json.dumps(answer) + "\n")

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            match order["word"]:
                case "status":
                    return {"instances": [self._row(instance) for instance in self.instances]}
                case "down":
                    self._stopping.set()
                    return {"done": "stopping"}
                case "scale":
                    return {"done": self._scale(order["service"], int(order["count"]))}
                case "stop" | "kill" | "start" as word:
                    named = self._named(order["name"])
                    for instance in named:
                        getattr(self, f"_{word}_one")(instance)
                    return {"done": [instance.name for instance in named]}
                case word:
                    raise StackFault(f"unknown word {word}")

    def _named(self, name: str) -> list[Instance]:
        found = [instance for instance in self.instances if name in (instance.name, instance.service.name)]
        if not found:
            known = ", ".join(instance.name for instance in self.instances)
            raise StackFault(f"{name} is not of this stack: {known}")
        return found

    def _stop_one(self, instance: Instance) -> None:
        instance.wanted = False
        self._signal(instance)
        self._reap(instance)

    def _kill_one(self, instance: Instance) -> None:
        """The hard way; it comes back by itself, as a crashed process should."""
        if instance.process is not None and instance.process.poll() is None:
            os.killpg(instance.process.pid, signal.SIGKILL)

    def _start_one(self, instance: Instance) -> None:
        instance.wanted = True
        if instance.process is None or instance.process.poll() is not None:
            self._spawn(instance)

    def _scale(self, name: str, count: int) -> int:
        mine = [instance for instance in self.instances if instance.service.name == name]
        service = next((row for row in services(self.layout) if row.name == name), None)
        if service is None or not 0 <= count <= service.most:
            raise StackFault(f"{name} cannot run {count} times")
        for instance in mine[count:]:
            self._stop_one(instance)
            self.instances.remove(instance)
        for number in range(len(mine) + 1, count + 1):
            instance = self._instance(service, number)
            self.instances.append(instance)
            self._spawn(instance)
        return count

    def _row(self, instance: Instance) -> dict[str, Any]:
        running = instance.process is not None and instance.process.poll() is None
        return {
            "name": instance.name,
            "state": instance.state,
            "missing": instance.missing,
            "pid": instance.process.pid if instance.process is not None and running else None,
            "restarts": max(0, instance.restarts),
            "log": str(instance.log),
        }


def ask(layout: Layout, order: dict[str, Any]) -> dict[str, Any]:
    """One word to a running stack; `OSError` if there is none."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(60)
        caller.connect(str(layout.run / "stack.sock"))
        with caller.makefile("rw") as lines:
            lines.write(json.dumps(order) + "\n")
            lines.flush()
            answer: dict[str, Any] = json.loads(lines.readline())
            return answer
