"""Shell: Redis servers that fail over, for the fault cases and the tests: a cluster, and a master with Sentinels.

Replication is asynchronous in both: what the master had acknowledged and not yet sent is lost with it.
"""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError

from seckill.stack import health_checks, servers
from seckill.stack.child_processes import free_port_run, running, wait_until

MASTERS = 3
SLOTS = 16_384
NODE_TIMEOUT_MS = 2_000
"""After this silence the other servers of a cluster, or the Sentinels, count a master as failed. Ten to fifteen seconds
are usual in production; the fault cases do not want to wait that long."""
SENTINELS, MASTER_NAME = 3, "sale"


class _Servers:
    """Redis processes by number, each on a port of its own. A context manager."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        first = free_port_run(count)
        self.ports = list(range(first, first + count))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _start(self) -> None:
        raise NotImplementedError

    def _run(self, number: int, *options: str) -> None:
        port = self.ports[number]
        command = [*servers.redis_command(self.folder / f"redis.{port}", port), *options]
        check = health_checks.redis(f"redis://127.0.0.1:{port}")
        log = self.folder / f"redis.{port}.log"
        self._processes[number] = self._open.enter_context(running(f"Redis {port}", command, log, check))

    def kill(self, number: int) -> None:
        self._processes[number].kill()
        self._processes[number].wait()

    def client(self, number: int) -> Redis:
        client: Redis = Redis(port=self.ports[number], socket_timeout=5, decode_responses=True)
        return client

    def _is_replica_in_sync(self, number: int) -> bool:
        found: dict[str, Any] = self.client(number).info("replication")
        return bool(found["role"] == "slave" and found["master_link_status"] == "up")


class RedisCluster(_Servers):
    """Three masters, each with one replica."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 2 * MASTERS)
        self._first_bus_port = free_port_run(2 * MASTERS)

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in self.ports)

    @property
    def settings(self) -> dict[str, str]:
        return {"SECKILL_ADMISSION_REDIS_URL": self.url, "SECKILL_GATE_REDIS_URL": self.url}

    def _start(self) -> None:
        for number in range(2 * MASTERS):
            self._start_server(number)
        masters = [self.client(number) for number in range(MASTERS)]
        for number, master in enumerate(masters):
            first, end = SLOTS * number // MASTERS, SLOTS * (number + 1) // MASTERS
            master.execute_command("CLUSTER ADDSLOTSRANGE", first, end - 1)
            master.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        for number in range(1, 2 * MASTERS):
            masters[0].execute_command("CLUSTER MEET", "127.0.0.1", self.ports[number], self._first_bus_port + number)
        everyone = range(2 * MASTERS)
        wait_until(lambda: all(self._knows(number, 2 * MASTERS) for number in everyone), "the servers to meet")
        for number, master in enumerate(masters):
            replica = self.client(MASTERS + number)
            replica.execute_command("CLUSTER REPLICATE", master.execute_command("CLUSTER MYID"))
        wait_until(lambda: all(map(self._is_replica_in_sync, range(MASTERS, 2 * MASTERS))), "the replicas")
        wait_until(lambda: all(map(self._has_replicas, everyone)), "all servers to know the replicas")

    def _start_server(self, number: int) -> None:
        self._run(
            number, "--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS),
            "--cluster-port", str(self._first_bus_port + number), "--cluster-config-file", "nodes.conf",
        )  # fmt: skip

    def master_of(self, key: str) -> int:
        """The server that has this key, according to the first one that answers and sees a whole cluster."""
        slot = key_slot(key.encode())
        for number in range(2 * MASTERS):
            try:
                if self._processes[number].poll() is None and self._is_whole(number):
                    for first, last, owner, *_ in self.client(number).execute_command("CLUSTER SLOTS"):
                        if first <= slot <= last:
                            return self.ports.index(int(owner[1]))
            except RedisError:
                continue
        raise LookupError(f"no server owns slot {slot}")

    def fail_over(self, key: str) -> int:
        """Kill the master that has this key with -9, and wait until its replica is promoted. Returns the killed one."""
        killed = self.master_of(key)
        self.kill(killed)

        def is_promoted() -> bool:
            try:
                return self.master_of(key) != killed
            except LookupError:
                return False

        wait_until(is_promoted, "the replica to be promoted")
        return killed

    def bring_back(self, number: int) -> None:
        """Start a killed server again: it becomes a replica of the one that was promoted."""
        self._start_server(number)
        wait_until(lambda: self._is_replica_in_sync(number), "the killed server to follow the new master")

    def _knows(self, number: int, count: int) -> bool:
        return len(self.client(number).execute_command("CLUSTER NODES")) == count

    def _has_replicas(self, number: int) -> bool:
        slots = self.client(number).execute_command("CLUSTER SLOTS")
        return self._is_whole(number) and len(slots) == MASTERS and all(len(each) == 4 for each in slots)

    def _is_whole(self, number: int) -> bool:
        return bool(self.client(number).execute_command("CLUSTER INFO")["cluster_state"] == "ok")


class RedisSentinels(_Servers):
    """A master, a replica, and three Sentinels that agree on a failure by majority."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 2 + SENTINELS)

    def url(self, database: int) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports[2:])
        return f"redis+sentinel://{hosts}/{database}?master_name={MASTER_NAME}"

    @property
    def settings(self) -> dict[str, str]:
        return {
            "SECKILL_ADMISSION_REDIS_URL": self.url(0),
            "SECKILL_GATE_REDIS_URL": self.url(0),
            "SECKILL_CELERY_REDIS_URL": self.url(1),
        }

    def _start(self) -> None:
        self._run(0)
        self._run(1, "--replicaof", f"127.0.0.1 {self.ports[0]}")
        wait_until(lambda: self._is_replica_in_sync(1), "the replica")
        for number in range(2, 2 + SENTINELS):
            self._start_sentinel(number)
        wait_until(lambda: all(map(self._knows_the_others, range(2, 2 + SENTINELS))), "the Sentinels to meet")

    def _start_sentinel(self, number: int) -> None:
        port = self.ports[number]
        folder = self.folder / f"sentinel.{port}"
        folder.mkdir()
        settings = folder / "sentinel.conf"
        settings.write_text(
            f"bind 127.0.0.1\nport {port}\ndir {folder}\n"
            f"sentinel monitor {MASTER_NAME} 127.0.0.1 {self.ports[0]} {SENTINELS // 2 + 1}\n"
            f"sentinel down-after-milliseconds {MASTER_NAME} {NODE_TIMEOUT_MS}\n"
            f"sentinel failover-timeout {MASTER_NAME} 10000\n"
        )
        check = health_checks.redis(f"redis://127.0.0.1:{port}")
        command = [servers.redis_binary(), str(settings), "--sentinel"]
        log = self.folder / f"sentinel.{port}.log"
        self._processes[number] = self._open.enter_context(running(f"Sentinel {port}", command, log, check))

    def _knows_the_others(self, number: int) -> bool:
        known: Any = self.client(number).sentinel_master(MASTER_NAME)
        return int(known["num-other-sentinels"]) == SENTINELS - 1 and int(known["num-slaves"]) == 1

    def master(self) -> int:
        """According to the last Sentinel, because a test may kill the first one."""
        address: Any = self.client(1 + SENTINELS).sentinel_get_master_addr_by_name(MASTER_NAME)
        return self.ports.index(int(address[1]))

    def fail_over(self) -> int:
        """Kill the master with -9, and wait until the Sentinels have promoted the replica. Returns the killed one."""
        killed = self.master()
        self.kill(killed)
        wait_until(lambda: self.master() != killed, "the Sentinels to promote the replica")
        wait_until(lambda: self.client(1 - killed).info("replication")["role"] == "master", "the new master")
        return killed

    def bring_back(self, number: int) -> None:
        """Start the killed server again: the Sentinels make it a replica."""
        self._run(number)
        wait_until(lambda: self._is_replica_in_sync(number), "the killed server to follow the new master")
