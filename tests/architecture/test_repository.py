"""The repository stands on its own: no address of a registry, no folder of somebody's machine, no dead link."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
# Written in pieces, so that the test does not find this file.
MACHINE_FOLDERS = re.compile(
    "|".join(("/ro" + "ot/", "/wo" + "rk/", "/ho" + "me/[a-z]", "/tmp/la" + "b", "/opt/whe" + "els"))
)


def tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=30)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def test_no_file_contains_a_path_of_one_machine() -> None:
    for path in tracked():
        found = MACHINE_FOLDERS.search(path.read_text(errors="replace"))
        if found is not None:
            pytest.fail(f"{path.relative_to(ROOT)}: {found.group()}")


def test_the_lock_pins_everything_with_hashes_and_without_an_index() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert "://" not in text
    assert "index" not in text
    pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert pins
    for pin in pins:
        assert "==" in pin and pin.endswith("\\"), pin
    assert text.count("--hash=sha256:") >= len(pins)


def test_every_declared_dependency_is_in_the_lock() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [name for group in project["optional-dependencies"].values() for name in group]
    lock = (ROOT / "requirements.lock").read_text()
    for requirement in wanted:
        name = re.split(r"[=<>!~ \[;]", requirement)[0]
        assert re.search(rf"^{re.escape(name)}==", lock, re.MULTILINE), f"{name} is not locked: make lock"


def test_commit_hooks_run_programs_of_the_environment_and_download_nothing() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (\S+)", text) == ["local"]
    programs = re.findall(r"entry: \.venv/bin/(\S+)", text)
    assert len(programs) == text.count("entry:") > 0
    static = (ROOT / "Makefile").read_text().partition("\nstatic:")[2].partition("\n\n")[0]
    assert set(programs) == set(re.findall(r"\$\(BIN\)/(\S+)", static)), "the same as `make static` runs"
    for program in programs:
        assert (Path(sys.executable).parent / program).exists()


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name
)
def test_links_between_documents_resolve(path: Path) -> None:
    for target in LINK.findall(path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.relative_to(ROOT)} → {target}"
