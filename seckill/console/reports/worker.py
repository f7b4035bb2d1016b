"""Shell: make one report after the other, each in a process of its own with limits on its time and memory.

The worker reads none of the evidence itself, so a report that is too large ends alone and is shown as failed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from seckill.console.models import Report
from seckill.console.reports import queue

PATIENCE_S = 20
REPORT_SECONDS_MAX = 900.0
REPORT_BYTES_MAX = 512 << 20
"""Of memory. A report needs about 150 MB and 4 kB for each request; the container's limit is above this one."""
PAGE_BYTES_MAX = 8 << 20
CHECK_SECONDS = 0.5
LEASE_EVERY_SECONDS = 5.0


class ReportFailed(Exception):
    """The report was not made; the text says why."""


class ReportWorker:
    """`data` is the folder with the logs of crowd, provider and sinks."""

    def __init__(
        self, data: Path, *, bytes_max: int = REPORT_BYTES_MAX, seconds_max: float = REPORT_SECONDS_MAX
    ) -> None:
        self._data = data
        self._bytes_max, self._seconds_max = bytes_max, seconds_max
        self._is_stopping = False

    def stop(self) -> None:
        """End a report under way. Safe in a signal handler."""
        self._is_stopping = True

    def run_once(self) -> bool:
        """Make the queued report, if there is one. Returns False, because at most one is queued."""
        report = queue.claim_report()
        if report is None:
            return False
        try:
            with tempfile.TemporaryDirectory(prefix="report-") as folder:
                verdict, counts, html = self._make(report, Path(folder))
        except ReportFailed as fault:
            queue.fail_report(report, str(fault))
        else:
            queue.finish_report(report, verdict, counts, html)
        return False

    def _make(self, report: Report, folder: Path) -> tuple[str, dict[str, int], str]:
        """Verdict, invariants by verdict, and page. Raises `ReportFailed`."""
        result, page, output = folder / "report.json", folder / "report.html", folder / "output"
        with output.open("wb") as file:
            process = subprocess.Popen(
                self.command(result, page), stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
        try:
            self._await_end(report, process)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return _read_result(process.returncode, result, page, output)

    def command(self, result: Path, page: Path) -> list[str]:
        return [
            sys.executable, "-m", "seckill.cli", "--data", str(self._data), "report", "--patience", str(PATIENCE_S),
            "--json", str(result), "--html", str(page), "--no-code-links",
        ]  # fmt: skip

    def _await_end(self, report: Report, process: subprocess.Popen[bytes]) -> None:
        began = leased = time.monotonic()
        while True:
            try:
                process.wait(CHECK_SECONDS)
                return
            except subprocess.TimeoutExpired:
                pass
            now = time.monotonic()
            if self._is_stopping:
                raise ReportFailed("the report service was stopped")
            if now - began > self._seconds_max:
                raise ReportFailed(f"it was not finished after {self._seconds_max:.0f} s")
            if (used := resident_bytes(process.pid)) > self._bytes_max:
                raise ReportFailed(f"it needed {used >> 20} MB of memory; {self._bytes_max >> 20} MB are allowed")
            if now - leased >= LEASE_EVERY_SECONDS:
                leased = now
                if not queue.extend_lease(report):
                    raise ReportFailed("its lease was over before it was finished")


def _read_result(code: int, result: Path, page: Path, output: Path) -> tuple[str, dict[str, int], str]:
    if code < 0:
        raise ReportFailed(f"its process was killed by signal {-code}, perhaps because memory ran out")
    try:
        found = json.loads(result.read_text())
        verdicts = [each["verdict"] for each in found["invariants"]]
        html = page.read_text(encoding="utf-8")
    except (OSError, ValueError, KeyError) as fault:
        said = output.read_text(errors="replace").strip()
        raise ReportFailed(said or f"it ended with exit code {code}") from fault
    if len(html) > PAGE_BYTES_MAX:
        raise ReportFailed(f"its page has {len(html) >> 20} MB; {PAGE_BYTES_MAX >> 20} MB are allowed")
    return found["verdict"], {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}, html


def resident_bytes(pid: int) -> int:
    """The memory of a process; 0 if it has ended, or on a system without /proc."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
