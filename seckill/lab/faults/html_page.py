"""Shell: the results of a run as one HTML page: the faults, how hard they hit, and what the report said."""

from __future__ import annotations

import time
from collections.abc import Sequence

from seckill.lab.faults.results import CaseResult
from seckill.report.html.rendering import render_template


def render_faults(rows: Sequence[CaseResult], seed: int, scale: float) -> str:
    run = [row for row in rows if row.verdict != "NOT RUN"]
    behaved = sum(row.behaved for row in run)
    return render_template(
        "seckill.lab.faults",
        "faults.html",
        rows=rows,
        run=len(run),
        behaved=behaved,
        has_failed=behaved < len(run),
        not_run=len(rows) - len(run),
        taken_at_ms=time.time_ns() // 1_000_000,
        seed=seed,
        scale=f"{scale:g}",
    )
