"""Only mqcore/host.py reads clocks, sets timers, opens sockets, starts threads and makes random ids.

Everything else in mqcore gets them as arguments, so a simulation can replace them for a whole broker.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MODULES = frozenset(
    {"_thread", "multiprocessing", "random", "sched", "secrets", "selectors", "socket", "ssl", "time", "uvloop"}
)
NAMES = frozenset(
    {f"asyncio.{name}" for name in ("sleep", "timeout", "timeout_at", "wait", "wait_for")}
    | {f"asyncio.{name}" for name in ("get_event_loop", "get_running_loop", "new_event_loop", "run", "Runner")}
    | {f"asyncio.{name}" for name in ("open_connection", "start_server", "start_unix_server", "to_thread")}
    | {f"concurrent.futures.{name}" for name in ("ProcessPoolExecutor", "ThreadPoolExecutor")}
    | {f"datetime.{kind}.{name}" for kind in ("date", "datetime") for name in ("now", "today", "utcnow")}
    | {f"os.{name}" for name in ("getrandom", "times", "urandom")}
    | {f"threading.{name}" for name in ("Thread", "Timer")}
    | {f"uuid.uuid{version}" for version in range(1, 9)}
)

ALLOWED = {
    "mqcore/__main__.py": {
        "asyncio.get_running_loop",
        "asyncio.wait",
        "uvloop",
    },  # starts the loop that a real world runs on
    "mqcore/cli/client.py": {"socket"},  # the commands beside a broker are not simulated
    "mqcore/cli/topics.py": {"time"},
    "mqcore/cli/cluster.py": {
        *(f"asyncio.{name}" for name in ("get_running_loop", "open_connection", "run", "sleep", "wait_for"))
    },
    "mqcore/disk/memory.py": {"random"},  # a simulated disk, which takes its seed as an argument
    "mqcore/disk/platter.py": {"random"},
    "mqcore/disk/posix.py": {"threading.Thread"},  # the real disk of the real world
}


def world_uses(source: str) -> set[str]:
    """What the source uses of the world outside the broker, by its full name."""
    tree = ast.parse(source)
    full_names = dict(_imported(tree))
    used = set(full_names.values()) | {
        name for node in ast.walk(tree) if (name := _full_name(node, full_names)) is not None
    }
    return {module for name in used if (module := name.split(".")[0]) in MODULES} | (used & NAMES)


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(name in this module, full name) of each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (first, first)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _full_name(node: ast.AST, full_names: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return full_names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _full_name(node.value, full_names)
        return None if owner is None else f"{owner}.{node.attr}"
    return None


def modules() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "mqcore").rglob("*.py"))


@pytest.mark.parametrize("path", [path for path in modules() if path != "mqcore/host.py"])
def test_a_module_gets_clock_sockets_threads_and_chance_from_its_host(path: str) -> None:
    assert world_uses((ROOT / path).read_text()) == ALLOWED.get(path, set())


def test_the_host_is_found_to_use_all_of_them() -> None:
    expected = {"time", "socket", "asyncio.sleep", "concurrent.futures.ThreadPoolExecutor", "uuid.uuid4"}
    assert expected <= world_uses((ROOT / "mqcore/host.py").read_text())


def test_every_exception_is_for_a_module_that_exists() -> None:
    assert ALLOWED.keys() <= set(modules())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import time", {"time"}),
        ("def f():\n    from time import monotonic", {"time"}),
        ("import asyncio\nasyncio.get_running_loop().call_later(1, print)", {"asyncio.get_running_loop"}),
        ("import asyncio as aio\nawait aio.sleep(1)", {"asyncio.sleep"}),
        ("from asyncio import timeout as limit", {"asyncio.timeout"}),
        ("from asyncio import Task, Event", set()),
        ("import asyncio\nasyncio.create_task(run())", set()),
        ("from socket import socket", {"socket"}),
        ("import threading\nthreading.Thread()", {"threading.Thread"}),
        ("from threading import Lock", set()),
        ("from concurrent.futures import Executor, Future", set()),
        ("from concurrent.futures import ThreadPoolExecutor", {"concurrent.futures.ThreadPoolExecutor"}),
        (
            "import concurrent.futures\nconcurrent.futures.ThreadPoolExecutor()",
            {"concurrent.futures.ThreadPoolExecutor"},
        ),
        ("from uuid import UUID", set()),
        ("from uuid import UUID, uuid4", {"uuid.uuid4"}),
        ("import uuid\nuuid.uuid4()", {"uuid.uuid4"}),
        ("import random", {"random"}),
        ("import secrets", {"secrets"}),
        ("import os\nos.urandom(8)", {"os.urandom"}),
        ("from datetime import datetime\ndatetime.now()", {"datetime.datetime.now"}),
        ("clock.call_later(1, print); clock.seconds(); loop.time", set()),
    ],
)
def test_the_rule_finds_what_it_forbids_and_only_that(source: str, expected: set[str]) -> None:
    assert world_uses(source) == expected
