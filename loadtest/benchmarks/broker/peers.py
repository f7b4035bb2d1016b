"""Shell: the brokers to compare, each as a child process on a free port.

All run with their defaults, except for the data folder and a short delay before deleted topics leave the disk. Kafka
gets the JVM options of its own start script. Redis appends every command to its file before it answers (appendfsync
no), like Kafka and mqcore: acknowledged data survives a crash of the process, but not a power failure.
"""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path

from loadtest.kafka_jars import KAFKA_VERSION, classpath
from seckill.stack.child_processes import free_port

START_LIMIT_S = 60.0
STOP_LIMIT_S = 30.0

KAFKA_JVM = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip

_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_METADATA = struct.pack(">ihhihi", 14, 3, 1, 2, -1, 0)  # no topics


class PeerFault(Exception):
    """A broker is not installed, or did not start or stop; the text says what to do."""


class Peer(ABC):
    """One broker."""

    name: str
    version: str
    speaks_kafka = True
    code: Path | None = None  # where Python looks for its modules first

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @abstractmethod
    def command(self) -> list[str]: ...

    def prepare(self) -> None:  # noqa: B027 — most need nothing
        """Preparation before the first start, whose time does not count."""

    @abstractmethod
    def answers(self) -> bool: ...

    def start(self) -> float:
        """Start it; the seconds until it has answered the first client."""
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            self.prepare()
        with (self.folder / "log").open("ab") as log:
            began = time.perf_counter()
            self._process = subprocess.Popen(
                self.command(), cwd=self.code, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        while not self.answers():
            if self._process.poll() is not None or time.perf_counter() - began > START_LIMIT_S:
                self.stop()
                raise PeerFault(f"{self.name} did not start; the end of its log:\n{self._log()[-2000:]}")
            time.sleep(0.005)
        return time.perf_counter() - began

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def fresh(self, folder: Path) -> Peer:
        """Another broker of the same kind without data."""
        return type(self)(folder)

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def _exchange(self, *requests: bytes) -> bool:
        """Whether each request gets a complete response."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                for request in requests:
                    connection.sendall(request)
                    head = connection.recv(4, socket.MSG_WAITALL)
                    (size,) = struct.unpack(">i", head)
                    if len(connection.recv(size, socket.MSG_WAITALL)) != size:
                        return False
            return True
        except (OSError, struct.error):
            return False


class Mqcore(Peer):
    name = "mqcore"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.version = "this commit"

    def command(self) -> list[str]:
        return [
            sys.executable, "-m", "mqcore", "serve", "--listen", self.address, "--data", str(self.folder / "data"),
            "--set", "log.retention.check.interval.ms=2000",
        ]  # fmt: skip

    def answers(self) -> bool:
        return self._exchange(_API_VERSIONS, _METADATA)


class ApacheKafka(Peer):
    name = "Kafka"
    version = KAFKA_VERSION

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        if shutil.which("java") is None:
            raise PeerFault("Java is not installed (Debian: apt-get install openjdk-17-jre-headless)")
        try:
            self._classpath = classpath()
        except (FileNotFoundError, RuntimeError, subprocess.SubprocessError) as fault:
            raise PeerFault(str(fault)) from fault
        self._controller_port = free_port()

    def command(self) -> list[str]:
        return ["java", *KAFKA_JVM, "-cp", self._classpath, "kafka.Kafka", str(self.folder / "server.properties")]

    def prepare(self) -> None:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "log.segment.delete.delay.ms": "1000",
        }
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        tool = ["java", "-Xmx256m", "-cp", self._classpath, "kafka.tools.StorageTool"]
        identity = subprocess.run([*tool, "random-uuid"], check=True, capture_output=True, text=True, timeout=60)
        formatted = [*tool, "format", "-t", identity.stdout.split()[-1], "-c", str(properties)]
        subprocess.run(formatted, check=True, capture_output=True, timeout=60)

    def answers(self) -> bool:
        return self._exchange(_API_VERSIONS, _METADATA)


class RedisStreams(Peer):
    name = "Redis Streams"
    speaks_kafka = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = shutil.which("redis-server") or shutil.which("valkey-server") or ""
        if not self._server:
            raise PeerFault("redis-server is not installed (Debian: apt-get install redis-server)")
        output = subprocess.run([self._server, "--version"], capture_output=True, text=True, timeout=10).stdout
        self.version = next((word[2:] for word in output.split() if word.startswith("v=")), "?")

    def command(self) -> list[str]:
        return [
            self._server, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", "",
            "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0",
        ]  # fmt: skip

    def answers(self) -> bool:
        try:
            return self.ask("PING").startswith(b"+PONG")
        except OSError:
            return False

    def ask(self, *words: str) -> bytes:
        """The reply to one short command."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(
                b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words)
            )
            return connection.recv(4096)
