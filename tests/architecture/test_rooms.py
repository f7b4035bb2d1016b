"""The import contracts of pyproject.toml can fail: each is shown a tree that breaks it.

`make check` runs the contracts over the real tree; here they run over a tree with one import too many.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def copy_of_the_tree(target: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", target)
    for package in ("mqcore", "seckill", "analytics", "loadtest"):
        shutil.copytree(ROOT / package, target / package, ignore=shutil.ignore_patterns("__pycache__"))
    return target


@pytest.mark.parametrize(
    ("module", "extra", "contract"),
    [
        ("mqcore/log/__init__.py", "import mqcore.apis", "The rooms of mqcore"),
        ("mqcore/wire/__init__.py", "import mqcore.disk", "The rooms of mqcore"),
        ("mqcore/groups/__init__.py", "import mqcore.controller", "The rooms of mqcore"),
        ("mqcore/newcomer.py", '"""A module without a room."""', "The rooms of mqcore"),
        ("mqcore/clock.py", "import seckill", "The broker knows nothing"),
        ("mqcore/apis/__init__.py", "import kafka.protocol", "The broker imports no"),
    ],
)
def test_an_uphill_import_breaks_its_contract(tmp_path: Path, module: str, extra: str, contract: str) -> None:
    tree = copy_of_the_tree(tmp_path)
    with (tree / module).open("a") as file:
        file.write(f"\n{extra}\n")
    result = lint(tree)
    broken = [line for line in result.stdout.splitlines() if line.rstrip().endswith("BROKEN")]
    assert result.returncode != 0
    assert any(contract in line for line in broken), result.stdout
