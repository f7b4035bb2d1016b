"""Shell: `mqcore cluster` runs three brokers on this machine, each in a process of its own, to try and to study.

A broker that dies stays dead, so that its loss can be studied; the others go on.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from mqcore.data_folder import FILE, ForeignFolder, read_identity
from mqcore.disk.posix import PosixDisk
from mqcore.formatting import format_folder
from mqcore.host import SystemChance, SystemNetwork
from mqcore.identity import kafka_uuid

START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 30.0
POLL_SECONDS: Final = 0.05
LINE_BYTES_MAX: Final = 1 << 20


class Node(NamedTuple):
    number: int
    folder: Path
    host: str
    port: int
    controller_port: int

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def controller_address(self) -> str:
        return self._replace(port=self.controller_port).address


class CannotRun(Exception):
    """The cluster cannot be started; the text says why."""


def plan(data: Path, brokers: int, host: str, port: int, controller_port: int) -> list[Node]:
    """Node 1 gets the first ports, and the others those that follow."""
    return [
        Node(number, data / str(number), host, port + number - 1, controller_port + number - 1)
        for number in range(1, brokers + 1)
    ]


def settings(nodes: Sequence[Node], node: Node) -> dict[str, str]:
    """What a node is started with. `--set` of the command line overrides it."""
    own = {"node.id": str(node.number), "log.dirs": str(node.folder)}
    if len(nodes) == 1:
        return own | {"listeners": f"PLAINTEXT://{node.address}"}
    return own | {
        "listeners": f"PLAINTEXT://{node.address},CONTROLLER://{node.controller_address}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{each.number}@{each.controller_address}" for each in nodes),
        "default.replication.factor": str(len(nodes)),
        "min.insync.replicas": "2",
        "controlled.shutdown.timeout.ms": "3000",  # the last broker to stop finds no controller to hand over to
    }


def run(nodes: Sequence[Node], overrides: Sequence[str], log_level: str, out: TextIO | None = None) -> int:
    out = out or sys.stdout
    try:
        check_ports(nodes)
        format_folders(nodes)
    except (CannotRun, ForeignFolder, OSError) as error:
        print(f"mqcore cluster: {error}", file=sys.stderr)
        return 1
    return asyncio.run(Cluster(nodes, overrides, log_level, out).run())


def check_ports(nodes: Sequence[Node]) -> None:
    for node in nodes:
        for port in (node.port, node.controller_port)[: len(nodes)]:
            try:
                SystemNetwork().bind(node.host, port).close()
            except (OSError, OverflowError) as error:
                reason = error.strerror if isinstance(error, OSError) else "a port must be at most 65535"
                raise CannotRun(
                    f"broker {node.number} cannot listen on {node.host}:{port}: {reason};"
                    " choose other ports with --listen and --controller-port"
                ) from error


def format_folders(nodes: Sequence[Node]) -> None:
    """Give each new folder its identity. The founder of a new cluster is node 1; a folder that is missing in a cluster
    that exists becomes an observer of its quorum, until the operator adopts it."""
    known = [read_identity(PosixDisk(str(node.folder))) for node in nodes if (node.folder / FILE).exists()]
    clusters = {identity.cluster_id for identity in known}
    if len(clusters) > 1:
        raise CannotRun(f"the folders in {nodes[0].folder.parent} belong to different clusters: {sorted(clusters)}")
    chance = SystemChance()
    cluster_id = clusters.pop() if clusters else kafka_uuid(chance.new_uuid())
    for node in nodes:
        if not (node.folder / FILE).exists():
            node.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_founder = not known and node is nodes[0]
            format_folder(PosixDisk(str(node.folder)), cluster_id, node.number, chance.new_uuid(), is_founder)


class Cluster:
    def __init__(self, nodes: Sequence[Node], overrides: Sequence[str], log_level: str, out: TextIO) -> None:
        self._nodes = nodes
        self._overrides = overrides
        self._log_level = log_level
        self._out = out
        self._running: dict[int, Process] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False
        self._has_failed = False
        self._changed = asyncio.Event()
        """Set when a process ends, or the cluster should stop."""

    async def run(self) -> int:
        """Until a signal comes, or no process is left. 0 if every broker that was running has stopped cleanly."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop_soon)
        for node in self._nodes:
            await self._start(node)
        if await self._all_accept():
            self._say(f"ready: bootstrap.servers={','.join(node.address for node in self._nodes)}")
            while self._running and not self._is_stopping:
                self._changed.clear()
                await self._changed.wait()
            self._has_failed = self._has_failed or not self._is_stopping
        elif not self._is_stopping:
            self._has_failed = True
        await self._stop()
        return int(self._has_failed)

    def _stop_soon(self) -> None:
        self._is_stopping = True
        self._changed.set()

    async def _start(self, node: Node) -> None:
        pairs = [f"{name}={value}" for name, value in settings(self._nodes, node).items()]
        arguments = [f"--set={pair}" for pair in (*pairs, *self._overrides)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mqcore", "serve", f"--log-level={self._log_level}", *arguments),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            limit=LINE_BYTES_MAX,
            start_new_session=True,  # a Ctrl-C of the terminal reaches only this process, which stops them in order
        )
        self._running[node.number] = process
        self._tasks.append(asyncio.create_task(self._watch(node.number, process)))

    async def _watch(self, number: int, process: Process) -> None:
        """Pass on what the broker prints, and report its end."""
        assert process.stdout is not None
        while line := await _read_line(process.stdout):
            self._say(f"{number} | {line.decode(errors='replace').rstrip()}")
        code = await process.wait()
        del self._running[number]
        if not self._is_stopping:
            self._say(f"broker {number} ended with {code}; it is not started again")
        elif code:
            self._has_failed = True
            self._say(f"broker {number} did not stop cleanly: it ended with {code}")
        self._changed.set()

    async def _all_accept(self) -> bool:
        """Wait until all brokers accept clients. False if one ends first, or the cluster should stop."""
        for _ in self._polls():
            if self._is_stopping or len(self._running) < len(self._nodes):
                return False
            if all([await _accepts(node) for node in self._nodes]):
                return True
            await asyncio.sleep(POLL_SECONDS)
        self._say(f"the brokers did not accept clients within {START_SECONDS_MAX:g} s")
        return False

    def _polls(self) -> Iterator[int]:
        return iter(range(int(START_SECONDS_MAX / POLL_SECONDS)))

    async def _stop(self) -> None:
        """One after the other, so that each can hand over what it leads to those that still run."""
        self._is_stopping = True
        for number, process in sorted(self._running.items()):
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS_MAX)
            except TimeoutError:
                self._say(f"broker {number} did not stop within {STOP_SECONDS_MAX:g} s and is killed")
                process.kill()
        await asyncio.gather(*self._tasks)

    def _say(self, line: str) -> None:
        print(line, file=self._out, flush=True)


async def _read_line(output: asyncio.StreamReader) -> bytes:
    try:
        return await output.readline()
    except ValueError:
        return b"(a line that is too long)"


async def _accepts(node: Node) -> bool:
    try:
        _, writer = await asyncio.open_connection(node.host, node.port)
    except OSError:
        return False
    writer.close()
    return True
