"""`seckill up` as a user sees it: a taken port, a second start in the same folder, a crash, commands, the stop."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kafka import KafkaProducer

from tests.conformance.peer import IS_KAFKA
from tests.journeys.stack import Stack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(IS_KAFKA, reason="it is about our own processes, which include the broker"),
]

# This leaves the servers, the sandbox and one relay; test_purchase.py runs everything.
LEFT_OUT = (
    "relay.orders", "inventory", "inventory.settlement", "inventory.sweep", "orders", "orders.sweep",
    "gateway.outcomes", "notify.sms", "notify.email", "notify.push", "celery", "notify.sweep", "gateway", "reports",
)  # fmt: skip
SMALL = [part for name in LEFT_OUT for part in ("--scale", f"{name}=0")]
STARTED = ["postgres", "redis", "mqcore", "sandbox", "relay.inventory"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("stack"), *SMALL)
    stack.start()
    yield stack
    assert stack.stop() == 0


def row(stack: Stack, name: str) -> dict[str, Any]:
    rows = json.loads(stack.run_command("status", "--json"))["instances"]
    return next(row for row in rows if row["name"] == name)


def is_up_again(stack: Stack, name: str, pid: int) -> bool:
    now = row(stack, name)
    return now["state"] == "up" and now["pid"] not in (None, pid)


# ── a running stack ──────────────────────────────────────────────────────────────────────────────


def test_a_killed_process_is_restarted(stack: Stack) -> None:
    for name in ("relay.inventory", "sandbox", "mqcore", "redis", "postgres"):
        pid = row(stack, name)["pid"]
        os.kill(pid, signal.SIGKILL)
        stack.wait_until(lambda name=name, pid=pid: is_up_again(stack, name, pid), f"{name} to be back")  # type: ignore[misc]
    stack.wait_until(lambda: row(stack, "relay.inventory")["state"] == "up", "the relay to have survived that")


def test_commands_stop_start_kill_and_scale_processes(stack: Stack) -> None:
    stack.run_command("stop", "relay.inventory")
    assert row(stack, "relay.inventory")["state"] == "down"
    stack.run_command("start", "relay.inventory")
    stack.wait_until(lambda: row(stack, "relay.inventory")["state"] == "up", "the relay")
    pid = row(stack, "relay.inventory")["pid"]
    stack.run_command("kill", "relay.inventory")
    stack.wait_until(lambda: is_up_again(stack, "relay.inventory", pid), "the relay again")
    stack.run_command("scale", "notify.sms", "1")
    stack.wait_until(lambda: row(stack, "notify.sms.1")["state"] == "up", "a consumer")
    stack.run_command("scale", "notify.sms", "0")
    assert "notify.sms.1" not in stack.run_command("status", "--json")


@pytest.mark.parametrize("words", [("stop", "nobody"), ("scale", "postgres", "2"), ("scale", "nobody", "1")])
def test_an_invalid_command_is_refused_and_changes_nothing(stack: Stack, words: tuple[str, ...]) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        stack.run_command(*words)
    assert row(stack, "postgres")["state"] == "up"


def test_a_second_stack_in_the_same_folder_is_refused_and_the_first_keeps_running(stack: Stack) -> None:
    again = stack.run_to_end()
    assert again.returncode == 1
    assert "is running in" in again.stderr
    assert row(stack, "postgres")["state"] == "up"


def test_commands_find_the_stack_by_its_folder(stack: Stack) -> None:
    assert stack.run_command("letters", "list").strip() == "no dead letters"
    lag = json.loads(stack.run_command("lag", "--json"))
    assert isinstance(lag["groups"], list)


def test_an_unreadable_record_becomes_a_dead_letter_that_an_operator_can_discard(stack: Stack) -> None:
    stack.run_command("scale", "notify.sms", "1")
    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{stack.ports['broker']}", acks="all")
    producer.send("order.events", key=b"buyer", value=b"\xff no message of ours").get(10)
    producer.close()
    stack.wait_until(lambda: listed(stack), "the dead letter")
    [letter] = listed(stack)
    assert (letter["group"], letter["state"]) == ("notify.sms", "open")
    assert "not an envelope" in letter["reason"]
    assert "no message of ours" in stack.run_command("letters", "show", str(letter["id"]))
    assert "would be discarded" in stack.run_command("letters", "discard", str(letter["id"]))
    assert len(listed(stack)) == 1, "the command does nothing without --yes"
    stack.run_command("letters", "discard", str(letter["id"]), "--yes", "--because", "noise")
    assert listed(stack) == []
    [[state, note]] = stack.query("SELECT state, note FROM streams_dead_letter")
    assert (state, note) == ("discarded", "noise")
    stack.run_command("scale", "notify.sms", "0")


def listed(stack: Stack) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(stack.run_command("letters", "list", "--json"))
    return rows


# ── the start ────────────────────────────────────────────────────────────────────────────────────


def test_a_taken_port_is_reported_with_the_option_that_changes_it(tmp_path: Path) -> None:
    stack = Stack(tmp_path, *SMALL)
    with socket.create_server(("127.0.0.1", stack.ports["redis"])):
        refused = stack.run_to_end()
    assert refused.returncode == 1
    assert f"port {stack.ports['redis']} (redis) is taken" in refused.stderr
    assert "--port redis=" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--port", "rediz=1"], "--port knows postgres, redis, broker"),
        (["--port", "redis=many"], "must be NAME=NUMBER"),
        (["--port", "sinks=70000"], "sinks=70000: a port is a number from 1 to 65535"),
        (["--port", "sinks=0"], "sinks=0: a port is a number from 1 to 65535"),
        (["--scale", "nobody=1"], "unknown services: nobody"),
        (["--scale", "inventory=99"], "inventory can run 0 to 12 times"),
    ],
)
def test_an_invalid_start_says_why(tmp_path: Path, words: list[str], told: str) -> None:
    refused = Stack(tmp_path, *words).run_to_end()
    assert refused.returncode != 0
    assert told in refused.stderr
    assert "Traceback" not in refused.stderr


def test_processes_left_by_a_killed_stack_are_stopped_by_the_next_which_keeps_the_data(tmp_path: Path) -> None:
    first = Stack(tmp_path / "stack", *SMALL)
    first.start()
    with psycopg.connect(first.database, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (n int)")
    first.kill()
    second = Stack(tmp_path / "stack", *SMALL, ports=first.ports)
    second.start()
    assert "was left over by a stack" in second.output_text
    assert second.query("SELECT count(*) FROM kept") == [(0,)]
    assert second.stop() == 0


# ── the end ──────────────────────────────────────────────────────────────────────────────────────


def stops_in_order(stack: Stack) -> None:
    assert stack.stop() == 0
    stopped = re.findall(r"^(\S+) is down$", stack.output_text, flags=re.MULTILINE)
    assert stopped == list(reversed(STARTED))
    for port in stack.ports.values():
        socket.create_server(("127.0.0.1", port)).close()


def test_the_stack_starts_from_another_folder_and_stops_in_reverse_order(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    stack = Stack(tmp_path / "stack", *SMALL, cwd=tmp_path / "elsewhere")
    stack.start()
    assert re.findall(r"^(\S+) is up$", stack.output_text, flags=re.MULTILINE) == STARTED
    stops_in_order(stack)


def test_a_user_other_than_root_can_run_a_stack(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the other tests here already run as an ordinary user")
    become_another_user = ["unshare", "-U", "--map-user=1000", "--map-group=1000"]
    if shutil.which("unshare") is None or subprocess.run([*become_another_user, "true"], check=False).returncode:
        pytest.skip("needs user namespaces to become another user")
    stack = Stack(tmp_path / "stack", *SMALL, prefix=become_another_user)
    stack.start()
    stops_in_order(stack)
