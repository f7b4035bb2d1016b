"""Shell: the statistics of a demo: counted by Spark when the sale is over, where this machine has what Spark needs."""

from __future__ import annotations

import os
import signal
import subprocess
from html import escape
from pathlib import Path

from analytics import jars
from analytics.faults import StatsFault
from analytics.session import has_java
from seckill.demo.stage import DemoFault, Stage

FETCH_S = 120.0
FRAME = "width:100%;height:90vh;border:1px solid #8884"


def missing(stage: Stage) -> str | None:
    """Why there can be none; None if they can be. What can be fetched is fetched, once."""
    if not has_java():
        return "there is no Java (Debian: apt-get install default-jre-headless)"
    try:
        jars.present()
    except StatsFault:
        return _fetch(stage)
    return None


def _fetch(stage: Stage) -> str | None:
    fetching = stage.spawn("fetch", "seckill.cli", "stats", "fetch")
    try:
        code = fetching.wait(FETCH_S)
    except subprocess.TimeoutExpired:
        os.killpg(fetching.pid, signal.SIGKILL)  # it and its Java
        return f"Spark's connector to Kafka did not come within {FETCH_S:.0f} s (`seckill stats fetch`)"
    return None if code == 0 else "Spark's connector to Kafka could not be fetched (`seckill stats fetch` says why)"


def count(stage: Stage) -> Path | None:
    """The page of what Spark has counted; None, and the report will say that it knows nothing, if Spark has failed."""
    page = stage.folder / "statistics.html"
    try:
        stage.run("seckill.cli", "stats", "replay", "--data", str(stage.folder))
        stage.run("seckill.cli", "stats", "report", "--data", str(stage.folder), "--html", str(page))
    except DemoFault:
        return None
    return page


def embed(page: Path, statistics: Path) -> None:
    """One file shows both: the statistics become a part of the report's page."""
    frame = f'<iframe title="statistics" style="{FRAME}" srcdoc="{escape(statistics.read_text(encoding="utf-8"))}">'
    section = f"<h2>What Spark has counted</h2>{frame}</iframe></body>"
    whole = page.read_text(encoding="utf-8")
    before, _, after = whole.rpartition("</body>")
    page.write_text(f"{before}{section}{after}", encoding="utf-8")
