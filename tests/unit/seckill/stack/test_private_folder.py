"""A socket whose path would be too long moves to a folder that only this user can enter."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from seckill.stack.private_folder import private_folder
from seckill.stack.services import Layout

LONG = "x" * 120


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / f"seckill-{os.getuid()}"


def test_a_long_path_moves_the_socket_to_a_private_folder(runtime: Path, tmp_path: Path) -> None:
    assert Layout(tmp_path).socket.parent == tmp_path / "run"
    socket = Layout(tmp_path / LONG).socket
    assert socket.parent == runtime and socket == Layout(tmp_path / LONG).socket
    assert stat.S_IMODE(runtime.stat().st_mode) == 0o700


def test_a_folder_that_others_can_enter_is_refused(runtime: Path) -> None:
    private_folder()
    runtime.chmod(0o755)
    with pytest.raises(PermissionError, match="only you can enter"):
        private_folder()


def test_a_link_or_a_file_in_its_place_is_refused(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    runtime.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError):
        private_folder()
    runtime.unlink()
    runtime.touch(mode=0o600)
    with pytest.raises(PermissionError):
        private_folder()
