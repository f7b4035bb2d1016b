"""The import contracts of pyproject.toml can fail: each is shown a tree with one import too many.

`make check` runs the contracts over the real tree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
NAMES = {contract["name"] for contract in SETTINGS["contracts"]}

BROKER, SALE = "The broker: imports run downhill", "The sale: imports run downhill"
SERVER = "Inside mqcore.server: imports run downhill"
RAFT = "Inside mqcore.raft: imports run downhill"
HALVES = "The broker and the sale import nothing of each other"
NOT_OF_BROKER = "Services, crowd and statistics import nothing of the broker"
NOT_OF_SERVICES = "The broker imports nothing of services, crowd and statistics"
NO_CLIENT = "The broker imports no Kafka client"
EVENTS = "A service imports nothing of another service but its events"
REPORT = "The report imports no service"

TYPES_ONLY = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "
BREACHES = [  # the module that gets one line more, the line, the contract that must break
    ("mqcore/log/__init__.py", "import mqcore.apis", BROKER),
    ("mqcore/wire/__init__.py", "import mqcore.disk", BROKER),
    ("mqcore/raft/__init__.py", "import mqcore.coordination", BROKER),
    ("mqcore/groups/__init__.py", "import mqcore.controller", BROKER),
    ("mqcore/partitions/__init__.py", "import mqcore.replication", BROKER),
    ("mqcore/broker.py", "import mqcore.cli", BROKER),
    ("mqcore/newcomer.py", '"""A module without a place."""', BROKER),
    ("mqcore/server/call.py", f"{TYPES_ONLY}import mqcore.server.connection", SERVER),
    ("mqcore/raft/leading.py", "import mqcore.raft.electing", RAFT),
    ("mqcore/raft/driver.py", "import mqcore.raft.quorum", RAFT),
    ("mqcore/host.py", "import seckill", HALVES),
    ("seckill/monitoring/logs.py", "import mqcore.logs", HALVES),
    ("inventory/handlers.py", "import mqcore.identity", NOT_OF_BROKER),
    ("loadtest/buyers.py", "import mqcore.identity", NOT_OF_BROKER),
    ("mqcore/host.py", "import orders.events", NOT_OF_SERVICES),
    ("mqcore/apis/__init__.py", "import kafka.protocol", NO_CLIENT),
    ("orders/placement.py", "import inventory.models", EVENTS),
    ("gateway/views.py", "from orders import lifecycle", EVENTS),
    (
        "notifications/handlers.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import orders.models",
        EVENTS,
    ),
    ("seckill/report/evidence.py", "import inventory.events", REPORT),
    ("seckill/report/evidence.py", "import loadtest.client_log", REPORT),
    ("seckill/report/evidence.py", "import seckill.console", SALE),
    ("seckill/messaging/relay.py", "import orders.events", SALE),
    ("seckill/config/settings.py", "import seckill.web.tokens", SALE),
    ("seckill/stack/up.py", "import loadtest.rush", SALE),
    ("loadtest/buyers.py", "import seckill.lab", SALE),
    ("seckill/lab/__init__.py", "import loadtest.designs", SALE),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "pyproject.toml", target)
    for package in SETTINGS["root_packages"]:
        shutil.copytree(
            ROOT / package, target / package, ignore=shutil.ignore_patterns("__pycache__", "static", "locale")
        )
    return target


def broken_contracts(tree: Path) -> set[str]:
    result = subprocess.run(
        [Path(sys.executable).parent / "lint-imports"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    return {name for name in NAMES for line in result.stdout.splitlines() if line.startswith(f"{name} BROKEN")}


def test_every_contract_has_a_breach() -> None:
    assert {contract for _, _, contract in BREACHES} == NAMES


def test_the_tree_as_it_is_breaks_no_contract(tree: Path) -> None:
    assert broken_contracts(tree) == set()


@pytest.mark.parametrize(("module", "extra", "contract"), BREACHES)
def test_one_import_too_many_breaks_its_contract(tree: Path, module: str, extra: str, contract: str) -> None:
    path = tree / module
    before = path.read_text() if path.exists() else None
    try:
        path.write_text(f"{before or ''}\n{extra}\n")
        assert contract in broken_contracts(tree)
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_text(before)


def test_types_count_too() -> None:
    """An import under TYPE_CHECKING is a dependency like any other."""
    assert not SETTINGS.get("exclude_type_checking_imports", False)
