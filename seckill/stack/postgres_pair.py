"""Shell: a Postgres primary with a standby in synchronous replication, for the fault cases and the tests.

The standby is a `pg_basebackup` of the primary that streams its log. A COMMIT returns when the standby has it on disk,
so what was acknowledged survives the loss of the primary. The rule against two primaries is the order of a failover:
first the old one is killed, then the standby is promoted, and the old one comes back only as a standby.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import psycopg

from seckill.stack import health_checks, servers
from seckill.stack.child_processes import free_port_run, process_family, running, wait_until
from seckill.stack.server_set import postgres_url

REPLICATION_ROLE, STANDBY = "replicator", "standby"
FAILOVER_SECONDS_MAX = 60.0


class PostgresPair:
    """A context manager: inside the block two servers run, with an empty database `seckill`.

    `primary` and `standby` are indices of the two servers; a promotion swaps them. `options` are further arguments of
    `postgres`.
    """

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self._folders = [folder / "postgres.1", folder / "postgres.2"]
        first = free_port_run(2)
        self.ports = [first, first + 1]
        self.primary, self.standby = 0, 1
        self._options = options
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._open = ExitStack()

    @property
    def settings(self) -> dict[str, str]:
        """Both hosts, in a fixed order: the client looks for the one that accepts writes."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        url = f"postgresql://{servers.ROLE}@{hosts}/seckill?target_session_attrs=read-write"
        return {"SECKILL_DATABASE_URL": url}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _start(self) -> None:
        folder = self._folders[self.primary]
        folder.parent.mkdir(parents=True, exist_ok=True)
        servers.init_postgres(folder)
        _allow_replication(folder)
        self.start(self.primary)
        self._create_standby()
        with (folder / "postgresql.conf").open("a") as settings:
            settings.write(f"\nsynchronous_standby_names = '{STANDBY}'\n")
        self._processes[self.primary].send_signal(signal.SIGHUP)
        with psycopg.connect(postgres_url(self.ports[self.primary], "postgres"), autocommit=True) as connection:
            wait_until(
                lambda: connection.execute("SHOW synchronous_standby_names").fetchone() == (STANDBY,),
                "synchronous replication to begin",
            )
            connection.execute("CREATE DATABASE seckill")

    # ── a failover, step by step ─────────────────────────────────────────────────────────────────

    def fail_over(self) -> None:
        self.kill(self.primary)
        self.promote_standby()

    def kill(self, server: int) -> None:
        """kill -9 of the server and all its sessions, as a lost machine would end them."""
        process = self._processes[server]
        for pid in process_family(process.pid):  # each session is a process group of its own
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def promote_standby(self, *, while_primary_runs: bool = False) -> None:
        """`while_primary_runs`: the operator's mistake that leads to two primaries."""
        is_dead = self._processes[self.primary].poll() is not None
        assert is_dead or while_primary_runs, "the primary still runs: kill it first"
        folder = self._folders[self.standby]
        prefix, popen_options = servers.owner_of(folder)
        seconds = str(int(FAILOVER_SECONDS_MAX))
        command = [*prefix, str(servers.postgres_binaries() / "pg_ctl"), "promote", "-D", str(folder), "-t", seconds]
        subprocess.run(command, check=True, capture_output=True, **popen_options)
        self.primary, self.standby = self.standby, self.primary

    def bring_back_as_standby(self) -> None:
        """Start the former primary again, from a copy of the present one: what it alone had is gone."""
        self._create_standby()

    def accepts_writes(self, server: int) -> bool:
        with psycopg.connect(postgres_url(self.ports[server], "seckill"), connect_timeout=5) as connection:
            return connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)

    # ── the servers ──────────────────────────────────────────────────────────────────────────────

    def _create_standby(self) -> None:
        source, folder = self._folders[self.primary], self._folders[self.standby]
        shutil.rmtree(folder, ignore_errors=True)
        name = (source / ".runs-as").read_text()
        servers.make_empty(folder, name)
        prefix, popen_options = servers.owner_of(source)
        address = f"host=127.0.0.1 port={self.ports[self.primary]} user={REPLICATION_ROLE} application_name={STANDBY}"
        command = [
            *prefix, str(servers.postgres_binaries() / "pg_basebackup"), "-d", address, "-D", str(folder),
            "--write-recovery-conf", "--wal-method", "stream", "--checkpoint", "fast", "--no-sync",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, **popen_options)
        if done.returncode:
            raise servers.NoServer(f"pg_basebackup failed: {done.stderr.strip()}")
        self.start(self.standby)

    def start(self, server: int) -> None:
        command, popen_options = servers.postgres_command(self._folders[server], self.ports[server])
        process = self._open.enter_context(
            running(
                f"Postgres {server + 1}", [*command, *self._options],
                self._folders[server].with_suffix(f".{server + 1}.log"),
                health_checks.postgres(postgres_url(self.ports[server], "postgres")),
                stop_signal=signal.SIGINT, start_new_session=True, **popen_options,
            )
        )  # fmt: skip
        self._processes[server] = process


def _allow_replication(folder: Path) -> None:
    prefix, popen_options = servers.owner_of(folder)
    command = [*prefix, str(servers.postgres_binaries() / "postgres"), "--single", "-D", str(folder), "postgres"]
    statement = f"CREATE ROLE {REPLICATION_ROLE} LOGIN REPLICATION\n"
    done = subprocess.run(command, input=statement, capture_output=True, text=True, **popen_options)
    if done.returncode or "ERROR" in done.stderr:
        raise servers.NoServer(f"creating the role {REPLICATION_ROLE} failed: {done.stderr.strip()}")
    with (folder / "pg_hba.conf").open("a") as rules:
        rules.write(f"host replication {REPLICATION_ROLE} 127.0.0.1/32 trust\n")
