"""Shell: runs the variants of labs, each in a process of its own, and writes the picture."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from seckill.lab.labs.child import OBSERVATION
from seckill.lab.labs.lab import Lab, Observation, Variant, is_expected
from seckill.lab.labs.picture import to_svg
from seckill.lab.labs.servers import LabServers
from seckill.stack.child_processes import end_process, process_family, tail

VARIANT_SECONDS_MAX = 150.0
STOP_SECONDS_MAX = 30.0


class LabFailed(Exception):
    """The lab could not run to its end; this says nothing about the code that it examines."""


@dataclass(frozen=True, slots=True)
class LabResult:
    lab: Lab
    observations: Mapping[Variant, Observation]
    picture: Path

    @property
    def is_as_expected(self) -> bool:
        return all(is_expected(variant, each.damage) for variant, each in self.observations.items())


class LabRunner:
    """A context manager that keeps servers running from one lab to the next."""

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self._folder = folder
        self._tell = tell
        self._servers: dict[tuple[str, ...], LabServers] = {}
        self._open = ExitStack()

    def __enter__(self) -> LabRunner:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def run(self, lab: Lab, variants: Sequence[Variant], picture: Path) -> LabResult:
        servers = self._servers_for(lab)
        servers.start(lab.servers)
        observations = {}
        for variant in variants:
            self._tell(f"{variant}: {lab.what_runs(variant)}")
            observations[variant] = self._run_variant(lab, variant, servers.fresh_environment())
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_text(to_svg(lab, observations), encoding="utf-8")
        return LabResult(lab, observations, picture)

    def _servers_for(self, lab: Lab) -> LabServers:
        found = self._servers.get(lab.postgres_options)
        if found is None:
            folder = self._folder / f"servers-{len(self._servers) + 1}"
            found = self._open.enter_context(LabServers(folder, lab.postgres_options, self._tell))
            self._servers[lab.postgres_options] = found
        return found

    def _run_variant(self, lab: Lab, variant: Variant, environment: Mapping[str, str]) -> Observation:
        folder = self._folder / lab.stem / variant
        folder.mkdir(parents=True)
        log = folder / "variant.log"
        command = [sys.executable, "-m", "seckill.lab.labs.child", lab.module, variant, str(folder)]
        with log.open("ab") as errors:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=dict(environment),
                start_new_session=True,
            )  # fmt: skip
        limit = threading.Timer(VARIANT_SECONDS_MAX, _kill_family, [child.pid])
        limit.daemon = True
        limit.start()
        began = time.monotonic()
        try:
            assert child.stdout is not None
            for line in child.stdout:
                self._tell(f"  {line.decode(errors='replace').rstrip()}")
            child.wait()
        finally:
            limit.cancel()
            _end_family(child)
        if time.monotonic() - began > VARIANT_SECONDS_MAX:
            raise LabFailed(f"lab {lab.number}, {variant}: not ready after {VARIANT_SECONDS_MAX:.0f} s; {tail(log)}")
        path = folder / OBSERVATION
        if child.returncode or not path.exists():
            raise LabFailed(f"lab {lab.number}, {variant}: exit code {child.returncode}; {tail(log)}")
        return Observation.from_json(json.loads(path.read_text(encoding="utf-8")))


def _end_family(child: subprocess.Popen[bytes]) -> None:
    """Let the variant stop what it has started; then nothing of it may remain, frozen processes included."""
    family = process_family(child.pid)
    end_process(child, signal.SIGINT, STOP_SECONDS_MAX)
    if child.stdout is not None:
        child.stdout.close()
    for pid in family[1:]:
        _kill(pid)


def _kill_family(pid: int) -> None:
    for each in reversed(process_family(pid)):
        _kill(each)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended
