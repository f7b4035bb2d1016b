"""Shell: the supervisor starts the services in order, restarts processes that die, and stops all in reverse order.

A process that an operator stopped stays down until `start`. A process that crashed or was killed is started again.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from itertools import groupby

from seckill.stack import control, health_checks, mqcore_brokers, passwords, process_instance, servers, setup
from seckill.stack.child_processes import WaitTimeout, wait_until
from seckill.stack.control import CommandRefused, StackFault
from seckill.stack.process_instance import Instance
from seckill.stack.process_log import Observations, is_frozen
from seckill.stack.services import Layout, Service, services
from seckill.stack.setup import FirstRun

START_SECONDS_MAX = 60.0
TICK_S = 0.2


class Supervisor:
    start_seconds_max = START_SECONDS_MAX

    def __init__(
        self, layout: Layout, scale: dict[str, int], announce: Callable[[str], None], *, empty: bool = False,
        rows: Sequence[Service] | None = None,
    ) -> None:  # fmt: skip
        """`rows` are the services; if they are not given, those of a whole stack."""
        self.layout = layout
        self.instances: list[Instance] = []
        self.first_run = FirstRun()
        self._services = services(layout) if rows is None else list(rows)
        self._announce = announce
        self._empty = empty
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._owns_folder = False
        self._observed = Observations(layout.folder / "evidence" / "observed.jsonl")
        self._frozen: set[str] = set()
        unknown = set(scale) - {service.name for service in self._services}
        if unknown:
            known = ", ".join(service.name for service in self._services)
            raise StackFault(f"unknown services: {', '.join(sorted(unknown))}; known are {known}")
        for service in self._services:
            count = scale.get(service.name, service.count)
            if not 0 <= count <= service.count_max:
                raise StackFault(f"{service.name} can run 0 to {service.count_max} times, not {count}")
            self.instances += [Instance(service, number, layout) for number in range(1, count + 1)]

    # ── start and stop ───────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Start everything in order and wait until it is healthy, or raise `StackFault`."""
        layout = self.layout
        self._claim_folder()
        self._check_ports()
        addresses = layout.run / "environment.json"
        addresses.touch(mode=0o600)  # the file has passwords in it
        addresses.chmod(0o600)
        addresses.write_text(json.dumps(layout.addresses(), indent=2))
        if any(service.name == "postgres" for service in self._services):
            servers.init_postgres(layout.folder / "postgres", passwords.server_password(layout.folder, "postgres"))
        if any(service.name == "mqcore" for service in self._services):
            mqcore_brokers.format_folders(layout.folder / "mqcore", layout.brokers)
        for service in self._services:
            if service.is_server:
                self._bring_up([service])
        self.first_run = setup.prepare(layout, self._announce, empty=self._empty)
        self._bring_up([service for service in self._services if not service.is_server])

    def _claim_folder(self) -> None:
        layout = self.layout
        for folder in (layout.run, layout.folder / "logs"):
            folder.mkdir(parents=True, exist_ok=True)
        control.serve_commands(layout, self.execute)
        self._owns_folder = True
        for name in process_instance.end_leftovers(layout.run):
            self._announce(f"{name} was left over by a stack that was killed; it has been stopped")
        for ready_file in layout.run.glob("*.ready"):
            ready_file.unlink()

    def _bring_up(self, chosen: Sequence[Service]) -> None:
        """Start all processes of these services at once, then wait for each."""
        instances = [instance for instance in self.instances if instance.service in chosen]
        for instance in instances:
            instance.spawn()
        for instance in instances:
            self._wait_for(instance)

    def _wait_for(self, instance: Instance) -> None:
        def give_up_reason() -> str | None:
            if instance.process is not None and not instance.is_running:
                return f"{instance.name} ended with {instance.process.returncode}"
            return "the stack was told to stop" if self._stopping.is_set() else None

        try:
            wait_until(
                instance.is_healthy,
                instance.name,
                self.start_seconds_max,
                poll_s=TICK_S / 4,
                give_up_reason=give_up_reason,
            )
        except WaitTimeout as fault:
            missing = f" ({instance.missing})" if instance.missing else ""
            raise StackFault(f"{fault}{missing}; see {instance.log}") from fault
        self._announce(f"{instance.name} is up")

    def _check_ports(self) -> None:
        names_by_port: dict[int, str] = {}
        for name, port in self.layout.own_ports().items():
            if port in names_by_port:
                raise StackFault(
                    f"port {port} is assigned to both {names_by_port[port]} and {name}; choose with --port {name}=…"
                )
            names_by_port[port] = name
            conflict = health_checks.port_conflict(port)
            if conflict is not None:
                raise StackFault(f"port {port} ({name}) is taken ({conflict}); choose another with --port {name}=…")

    def stop(self) -> None:
        """Stop in reverse order: all processes that only call others at the same time, then those that they call, one
        by one."""
        self._stopping.set()
        with self._lock:
            for _, group in groupby(reversed(self._services), lambda service: service.stops_alone and service.name):
                together = list(group)
                instances = [each for service in together for each in self.instances if each.service == service]
                for instance in instances:
                    instance.signal()
                for instance in instances:
                    if instance.process is not None:
                        ended = "is down" if instance.reap() else "did not stop and was killed"
                        self._announce(f"{instance.name} {ended}")
        if self._owns_folder:
            self.layout.socket.unlink(missing_ok=True)

    # ── supervision ──────────────────────────────────────────────────────────────────────────────

    def watch(self, on_tick: Callable[[], None]) -> None:
        """Until `request_stop`: restart processes that died and notice processes that became healthy."""
        while not self._stopping.wait(TICK_S):
            with self._lock:
                for instance in self.instances:
                    self.check(instance)
            on_tick()

    def request_stop(self) -> None:
        self._stopping.set()

    def check(self, instance: Instance) -> None:
        """Compare one process with its last known state, record what changed, and restart it if it is due."""
        now = time.monotonic()
        if instance.is_running:
            if instance.state == "starting" and instance.is_healthy():
                self._observed.note("up", instance.name)
                self._announce(f"{instance.name} is up again")
            self._check_frozen(instance)
        elif instance.state in ("starting", "up") and instance.process is not None:
            instance.record_death(now)
            self._frozen.discard(instance.name)
            self._observed.note("died", instance.name, code=instance.process.returncode)
            self._announce(f"{instance.name} ended with {instance.process.returncode}; see {instance.log}")
        elif instance.state == "died" and instance.wanted and now >= instance.restart_at:
            instance.spawn()

    def _check_frozen(self, instance: Instance) -> None:
        """Record SIGSTOP: a stopped process keeps its connections and locks, so no health check reports it."""
        assert instance.process is not None
        frozen = is_frozen(instance.process.pid)
        if frozen != (instance.name in self._frozen):
            self._observed.note("frozen" if frozen else "thawed", instance.name)
            (self._frozen.add if frozen else self._frozen.discard)(instance.name)

    # ── commands ─────────────────────────────────────────────────────────────────────────────────

    def execute(self, command: control.Command) -> control.Reply:
        if command["command"] == "status":  # without the lock, which a start or a stop holds for a long time
            return {"instances": [instance.status() for instance in list(self.instances)]}
        if command["command"] == "down":
            self._stopping.set()
            return {"done": "stopping"}
        with self._lock:
            if self._stopping.is_set():
                raise CommandRefused("the stack is stopping")
            match command["command"]:
                case "scale":
                    return {"done": f"{command['service']}: {self._scale(command['service'], int(command['count']))}"}
                case "stop" | "kill" | "start" as verb:
                    instances = self._find(command["name"])
                    if verb == "start":
                        self._set_variables(instances, dict(command.get("with", {})))
                    for instance in instances:
                        self._announce(f"{instance.name}: {verb}")
                    {"stop": self._stop_all, "kill": self._kill_all, "start": self._start_all}[verb](instances)
                    return {"done": [instance.name for instance in instances]}
                case unknown:
                    known = "status, down, scale, stop, kill, start"
                    raise CommandRefused("unknown command {command!r}; known are {known}", command=unknown, known=known)

    def _find(self, name: str) -> list[Instance]:
        """Processes by their own name or by the name of their service."""
        found = [instance for instance in self.instances if name in (instance.name, instance.service.name)]
        if not found:
            known = ", ".join(instance.name for instance in self.instances)
            raise CommandRefused("this stack has no process named {name}; it has {known}", name=name, known=known)
        return found

    def _stop_all(self, instances: Sequence[Instance]) -> None:
        """Signal all of them before waiting for the first, so that they stop in parallel."""
        for instance in instances:
            if instance.is_running:
                self._observed.note("stopped", instance.name)
            instance.wanted = False
            instance.signal()
        for instance in instances:
            instance.reap()

    def _kill_all(self, instances: Sequence[Instance]) -> None:
        for instance in instances:
            instance.kill()

    def _set_variables(self, instances: Sequence[Instance], variables: dict[str, str]) -> None:
        """Environment variables for these processes only. Restarts keep them; the next `start` replaces them."""
        for instance in instances:
            if instance.is_running and variables:
                raise StackFault(f"{instance.name} is running; stop it first, because variables are set at a start")
            if not instance.is_running and variables != instance.variables:
                instance.variables, instance.starts = variables, 0

    def _start_all(self, instances: Sequence[Instance]) -> None:
        for instance in instances:
            instance.wanted = True
            if not instance.is_running:
                instance.spawn()

    def _scale(self, name: str, count: int) -> int:
        service = next((service for service in self._services if service.name == name), None)
        if service is None or not 0 <= count <= service.count_max:
            raise CommandRefused("{name} cannot run {count} times", name=name, count=count)
        instances = [instance for instance in self.instances if instance.service == service]
        self._stop_all(instances[count:])
        for instance in instances[count:]:
            self.instances.remove(instance)
        for number in range(len(instances) + 1, count + 1):
            instance = Instance(service, number, self.layout)
            self.instances.append(instance)
            instance.spawn()
        return count
