"""The Postgres that `seckill up` starts: which roles can connect, and which system user runs it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from seckill.stack import health_checks, passwords, servers
from seckill.stack.child_processes import free_port, running

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


@contextmanager
def postgres(folder: Path, password: str | None) -> Iterator[str]:
    """A server in this folder until the end of the block; its address without a login."""
    port = free_port()
    servers.init_postgres(folder, password)
    command, how = servers.postgres_command(folder, port)
    login = "seckill" if password is None else f"seckill:{password}"
    address = f"127.0.0.1:{port}/postgres"
    check = health_checks.postgres(f"postgresql://{login}@{address}")
    with running("Postgres", command, folder.parent / "log", check, **how):
        yield address


def refusal(url: str) -> str:
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect(url, connect_timeout=5)
    return str(refused.value)


def test_only_the_application_role_can_connect_and_it_is_not_a_superuser(tmp_path: Path) -> None:
    password = passwords.server_password(tmp_path, "postgres")
    with postgres(tmp_path / "postgres", password) as address:
        assert "password" in refusal(f"postgresql://seckill@{address}")
        assert "password" in refusal(f"postgresql://seckill:{password}x@{address}")
        assert "pg_hba" in refusal(f"postgresql://postgres:{password}@{address}")
        connection = psycopg.connect(f"postgresql://seckill:{password}@{address}")
        with connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("COPY (SELECT 1) TO PROGRAM 'true'")


def test_a_password_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    first = passwords.server_password(tmp_path / "new", "postgres")
    assert len(first) >= 32 and passwords.server_password(tmp_path / "new", "postgres") == first
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()] == [0o600]


@as_root
@pytest.mark.parametrize("way", ["a mapped user", "nobody with access"])
def test_postgres_runs_below_a_folder_of_roots_only(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if way not in servers._ways_to_run():
        pytest.skip(f"this machine cannot run a process as {way}")
    monkeypatch.setattr(servers, "_ways_to_run", lambda: iter([way]))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with postgres(closed / "postgres", None) as address, psycopg.connect(f"postgresql://seckill@{address}") as found:
        assert found.execute("SELECT 1").fetchone() == (1,)


@as_root
def test_if_one_way_to_start_postgres_fails_the_next_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the last way this folder is unreachable, and the error lists the failure of each way."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(servers, "_ways_to_run", lambda: iter(["nobody"]))
    with pytest.raises(servers.NoServer, match="as nobody: .*Permission denied"):
        servers.init_postgres(closed / "postgres")


def test_a_data_folder_of_an_older_version_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / ".made").touch()
    with pytest.raises(servers.NoServer, match="made by an older version"):
        servers.init_postgres(tmp_path)
    assert (tmp_path / ".made").exists()


def test_an_incomplete_data_folder_is_created_again(tmp_path: Path) -> None:
    folder = tmp_path / "postgres"
    folder.mkdir()
    (folder / "PG_VERSION").write_text("half")
    servers.init_postgres(folder)
    assert (folder / ".made").exists()
    shutil.rmtree(folder)
