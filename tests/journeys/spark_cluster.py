"""A standalone Spark cluster of a master and workers on this machine, with the programs that come with PySpark."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

from seckill.stack.child_processes import free_port, process_family
from tests.journeys.statistics_world import QUICK_JAVA

START_SECONDS_MAX = 60.0


class SparkCluster:
    def __init__(self, address: str, workers: list[subprocess.Popen[bytes]], folder: Path) -> None:
        self.address = address
        self._workers = workers
        self._folder = folder

    def executors(self, worker: int) -> list[int]:
        """The executors that a worker has started: its child processes."""
        return process_family(self._workers[worker].pid)[1:]

    def freeze_executors(self, worker: int) -> None:
        for pid in self.executors(worker):
            os.kill(pid, signal.SIGSTOP)

    def kill_worker(self, worker: int) -> None:
        """kill -9 of a worker and its executors, as if its machine were gone."""
        for pid in process_family(self._workers[worker].pid):
            os.kill(pid, signal.SIGKILL)
        self._workers[worker].wait(30)

    def worked(self) -> set[int]:
        """The workers, from 0 on, that have run an executor."""
        return {number for number in range(len(self._workers)) if list(self._work(number).glob("app-*/*"))}

    def _work(self, number: int) -> Path:
        return self._folder / f"work-{number}"


@contextmanager
def spark_cluster(folder: Path, workers: int, cores: int = 1, memory: str = "700m") -> Iterator[SparkCluster]:
    """The cluster runs during the block."""
    import pyspark

    launcher = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    port, web = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    environment = os.environ | QUICK_JAVA | {"SPARK_DAEMON_MEMORY": "256m"}

    with ExitStack() as running:

        def start(name: str, role: str, *words: str) -> subprocess.Popen[bytes]:
            log = running.enter_context((folder / f"{name}.log").open("wb"))
            command = [launcher, f"org.apache.spark.deploy.{role}", *words]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            running.callback(process.wait, 30)
            running.callback(process.terminate)
            return process

        start("master", "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web))
        started = [
            start(f"worker-{number}", "worker.Worker", address, "--host", "127.0.0.1", "--webui-port", str(free_port()),
                  "--cores", str(cores), "--memory", memory, "--work-dir", str(folder / f"work-{number}"))
            for number in range(workers)
        ]  # fmt: skip
        deadline = time.monotonic() + START_SECONDS_MAX
        while f'"aliveworkers" : {workers}' not in _read(f"http://127.0.0.1:{web}/json/"):
            assert time.monotonic() < deadline, (folder / "master.log").read_text()
            time.sleep(0.2)
        yield SparkCluster(address, started, folder)


def _read(url: str) -> str:
    try:
        with urlopen(url, timeout=5) as answer:
            return str(answer.read(), "utf-8")
    except OSError:
        return ""
