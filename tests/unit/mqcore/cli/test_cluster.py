"""`mqcore cluster`: real processes on one machine, started together, reported when they die, stopped in order."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from mqcore import formatting
from mqcore.cli import cluster, quorum, topics
from mqcore.cli.client import Client, ClientError
from mqcore.cli.cluster import CannotRun, Cluster, Node
from mqcore.config import parse_config
from mqcore.data_folder import FILE, read_identity
from mqcore.disk.port import Disk
from mqcore.disk.posix import PosixDisk
from mqcore.topic_defaults import check_default

HOST = "127.0.0.1"


def free_ports(count: int) -> int:
    """The first of some neighbouring ports that are free now."""
    for first in range(21_000, 31_000, count):
        taken = [socket.socket() for _ in range(count)]
        try:
            for port, each in enumerate(taken, first):
                each.bind((HOST, port))
            return first
        except OSError:
            continue
        finally:
            for each in taken:
                each.close()
    raise AssertionError("no free ports")


def nodes_in(data: Path, brokers: int) -> list[Node]:
    first = free_ports(2 * brokers)
    return cluster.plan(data, brokers, HOST, first, first + brokers)


class Terminal(io.StringIO):
    """Calls `on_ready` when the brokers accept clients."""

    on_ready: Callable[[], None] | None = None

    def write(self, text: str) -> int:
        if text.startswith("ready") and self.on_ready is not None:
            self.on_ready()
        return super().write(text)

    def position(self, text: str) -> int:
        assert text in self.getvalue(), self.getvalue()
        return self.getvalue().index(text)


def run(nodes: list[Node], on_ready: Callable[[Cluster], None]) -> tuple[int, Terminal]:
    cluster.format_folders(nodes)
    terminal = Terminal()
    running = Cluster(nodes, [], "info", terminal)
    terminal.on_ready = lambda: on_ready(running)
    return asyncio.run(running.run()), terminal


def test_three_brokers_are_started_and_stopped_one_after_the_other(tmp_path: Path) -> None:
    nodes = nodes_in(tmp_path, 3)
    code, terminal = run(nodes, lambda running: running._stop_soon())
    assert code == 0, terminal.getvalue()
    addresses = ",".join(f"{HOST}:{node.port}" for node in nodes)
    terminal.position(f"ready: bootstrap.servers={addresses}\n")
    stopped = [terminal.position(f"{node.number} | {line}") for node in nodes for line in _stops(terminal, node)]
    assert stopped == sorted(stopped) and len(stopped) == 3


def _stops(terminal: Terminal, node: Node) -> list[str]:
    lines = [line for line in terminal.getvalue().splitlines() if line.startswith(f"{node.number} | ")]
    return [line.removeprefix(f"{node.number} | ") for line in lines if "broker stopped" in line]


def test_a_broker_that_dies_is_reported_and_stays_dead(tmp_path: Path) -> None:
    code, terminal = run(nodes_in(tmp_path, 1), lambda running: os.kill(running._running[1].pid, signal.SIGKILL))
    assert code == 1, "no broker is left"
    assert terminal.position("ready") < terminal.position("broker 1 ended with -9; it is not started again")


def test_the_commands_of_the_operator_describe_a_running_broker(tmp_path: Path) -> None:
    nodes = nodes_in(tmp_path, 1)
    shown, asked = io.StringIO(), []

    def ask(running: Cluster) -> None:
        asked.append(asyncio.get_running_loop().run_in_executor(None, describe))
        asked[0].add_done_callback(lambda _: running._stop_soon())

    def describe() -> None:
        address = nodes[0].address
        with Client.to(address) as client:
            client.request(3, 12, topics=[{"name": "orders"}], allow_auto_topic_creation=True)
        assert topics.show(address, watch=False, out=shown) == quorum.describe(address, out=shown) == 0
        with pytest.raises(ClientError, match="node 7 is not an observer"):
            quorum.adopt(address, 7)

    code, _ = run(nodes, ask)
    asked[0].result()
    assert code == 0
    lines = [line.split() for line in shown.getvalue().splitlines()]
    assert lines[1] == ["orders-0", "1", "0", "1", "1:", "0,", "0,", "0", "B"]
    assert lines[2][:2] == ["leader", "1,"] and lines[4][:2] == ["1", "leader"]


def test_a_port_that_is_taken_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        command = [sys.executable, "-m", "mqcore", "cluster", f"--data={tmp_path}", f"--listen={HOST}:{port}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert f"broker 1 cannot listen on {HOST}:{port}: Address already in use" in line and "--listen" in line
    assert list(tmp_path.iterdir()) == [], "nothing is written"


@pytest.mark.parametrize("command", [["topics"], ["quorum", "describe"], ["quorum", "adopt", "--node-id", "1"]])
def test_a_broker_that_cannot_be_reached_is_one_clear_line(command: list[str]) -> None:
    address = f"{HOST}:{free_ports(1)}"
    command = [sys.executable, "-m", "mqcore", *command, "--bootstrap-server", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"mqcore: {address} cannot be reached: Connection refused\n"


def test_a_closed_pipe_ends_a_command_without_a_message(tmp_path: Path) -> None:
    def ask(running: Cluster) -> None:
        asked.append(asyncio.get_running_loop().run_in_executor(None, pipe))
        asked[0].add_done_callback(lambda _: running._stop_soon())

    def pipe() -> bytes:
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "mqcore", "topics", "--bootstrap-server", nodes[0].address]
        with os.fdopen(writer, "wb") as closed:
            return subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, timeout=60).stderr

    asked: list[asyncio.Future[bytes]] = []
    nodes = nodes_in(tmp_path, 1)
    run(nodes, ask)
    assert asked[0].result() == b""


def test_the_settings_of_each_broker_are_valid_and_name_the_same_controllers(tmp_path: Path) -> None:
    nodes = cluster.plan(tmp_path, 3, "::1", 9092, 9192)
    configs = []
    for node in nodes:
        pairs = [f"{name}={value}" for name, value in cluster.settings(nodes, node).items()]
        configs.append(parse_config("", pairs, check_default))
    assert [config.node_id for config in configs] == [1, 2, 3]
    assert configs[0].voters() == configs[2].voters() and len(configs[0].voters()) == 3
    assert {config.offsets_topic_replicas for config in configs} == {3}
    assert {config.topic_defaults["min.insync.replicas"] for config in configs} == {"2"}


def test_one_broker_needs_no_listener_for_controllers(tmp_path: Path) -> None:
    (node,) = nodes = cluster.plan(tmp_path, 1, HOST, 9092, 9192)
    assert cluster.settings(nodes, node).keys() == {"node.id", "log.dirs", "listeners"}


def test_one_node_founds_a_new_cluster_and_a_lost_folder_founds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = cluster.plan(tmp_path, 3, HOST, 9092, 9192)
    founders: list[int] = []

    def format_folder(disk: Disk, cluster_id: str, node_id: int, directory_id: UUID, founder: bool) -> None:
        founders.extend([node_id] if founder else [])
        formatting.format_folder(disk, cluster_id, node_id, directory_id, founder)

    monkeypatch.setattr(cluster, "format_folder", format_folder)

    def identities() -> list[tuple[str, int]]:
        return [read_identity(PosixDisk(str(node.folder)))[:2] for node in nodes]

    cluster.format_folders(nodes)
    before = identities()
    assert founders == [1] and [number for _, number in before] == [1, 2, 3]
    (nodes[0].folder / FILE).unlink()
    cluster.format_folders(nodes)
    assert founders == [1] and identities() == before


def test_folders_of_different_clusters_are_refused(tmp_path: Path) -> None:
    nodes = cluster.plan(tmp_path, 3, HOST, 9092, 9192)
    cluster.format_folders(nodes[:1])
    cluster.format_folders(nodes[1:])
    with pytest.raises(CannotRun, match="different clusters"):
        cluster.format_folders(nodes)


def test_a_line_that_is_too_long_does_not_stop_those_behind_it() -> None:
    async def lines() -> list[bytes]:
        output = asyncio.StreamReader(limit=16)
        output.feed_data(b"x" * 40 + b"\nshort\n")
        output.feed_eof()
        return [await cluster._read_line(output) for _ in range(3)]

    assert asyncio.run(lines()) == [b"(a line that is too long)", b"short\n", b""]
