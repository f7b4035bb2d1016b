"""Shell: `python -m seckill.lab.labs.child MODULE ROLE FOLDER`: one variant of a lab, or a worker that it starts.

A variant (`broken`, `fixed`) prints what it does and leaves its observation in the folder. A worker has any other role;
the variant kills, freezes and restarts it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from seckill.lab.labs.lab import Observation, Variant

OBSERVATION = "observation.json"


class Step:
    """What a variant works with."""

    def __init__(self, module: str, folder: Path) -> None:
        self.module = module
        self.folder = folder

    def tell(self, text: str) -> None:
        print(text, flush=True)

    @property
    def bootstrap_servers(self) -> str:
        return os.environ["KAFKA_BOOTSTRAP_SERVERS"]

    def start_worker(self, role: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "seckill.lab.labs.child", self.module, role, str(self.folder)]
        with (self.folder / "workers.log").open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | dict(environment or {})
            )

    @contextmanager
    def worker(self, role: str, environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
        """A worker that is killed at the end of the block, if it has not ended before."""
        process = self.start_worker(role, environment)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def main(words: list[str]) -> int:
    module, role, folder = words[0], words[1], Path(words[2])
    import django

    from seckill.monitoring import logs

    logs.configure()
    django.setup()
    steps: Any = import_module(f"seckill.lab.labs.steps.{module}")
    step = Step(module, folder)
    if role not in set(Variant):
        steps.work(step, role)
        return 0
    observation: Observation = steps.run(step, Variant(role))
    (folder / OBSERVATION).write_text(json.dumps(observation.as_json()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
