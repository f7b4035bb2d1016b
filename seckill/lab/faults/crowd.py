"""Shell: the crowd that buys while things break: `loadtest.rush` as a child process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from seckill.lab.faults.case import CrowdPlan
from seckill.lab.lab_stack import ExperimentFailed
from seckill.stack.stack_process import clean_environment

FINISH_SECONDS_MAX = 300.0


class CrowdProcess:
    def __init__(self, url: str, sale: int, plan: CrowdPlan, log: Path) -> None:
        self.log = log
        command = [
            sys.executable, "-m", "loadtest.rush", "--url", url, "--sale", str(sale), "--buyers", str(plan.buyers),
            "--over", str(plan.over_s), "--log", str(log), *plan.options,
        ]  # fmt: skip
        self._output = log.with_suffix(".out")
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=clean_environment(),
                start_new_session=True,
            )  # fmt: skip

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds_max: float = FINISH_SECONDS_MAX) -> None:
        """Wait until the crowd has finished. A crowd that failed has left no evidence, so that raises."""
        if self._process.wait(seconds_max):
            raise ExperimentFailed(f"the crowd failed: {self._output.read_text()[-1000:]}")

    def kill(self) -> None:
        if self.is_running:
            self._process.kill()
            self._process.wait()
