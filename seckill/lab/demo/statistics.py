"""Shell: the statistics of a demo, computed by Spark after the sale if this machine has what Spark needs."""

from __future__ import annotations

import os
import signal
import subprocess
from html import escape
from pathlib import Path

from analytics import spark_jars
from analytics.faults import StatsFault
from analytics.session import has_java
from seckill.lab.lab_stack import ExperimentFailed, LabStack

FETCH_SECONDS_MAX = 120.0
FRAME_STYLE = "width:100%;height:90vh;border:1px solid #8884"


def why_unavailable(stack: LabStack) -> str | None:
    """Why Spark cannot run here, or None if it can. Downloads Spark's connector the first time."""
    if not has_java():
        return "Java is not installed (Debian: apt-get install default-jre-headless)"
    try:
        spark_jars.checked_jars()
    except StatsFault:
        return _fetch_connector(stack)
    return None


def _fetch_connector(stack: LabStack) -> str | None:
    download = stack.spawn("fetch", "seckill.cli", "stats", "fetch")
    try:
        code = download.wait(FETCH_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(download.pid, signal.SIGKILL)  # the command and its Java
        return f"Spark's connector to Kafka did not arrive within {FETCH_SECONDS_MAX:.0f} s (`seckill stats fetch`)"
    return None if code == 0 else "Spark's connector to Kafka could not be fetched (`seckill stats fetch` says why)"


def compute(stack: LabStack) -> Path | None:
    """A page with the statistics; None if Spark failed, and the report then says that it lacks them."""
    page = stack.folder / "statistics.html"
    try:
        stack.run("seckill.cli", "stats", "replay", "--data", str(stack.folder))
        stack.run("seckill.cli", "stats", "report", "--data", str(stack.folder), "--html", str(page))
    except ExperimentFailed:
        return None
    return page


def embed(page: Path, statistics: Path) -> None:
    """Put the statistics into the report's page, so that one file shows both."""
    document = escape(statistics.read_text(encoding="utf-8"))
    frame = f'<iframe title="statistics" style="{FRAME_STYLE}" srcdoc="{document}"></iframe>'
    before, _, after = page.read_text(encoding="utf-8").rpartition("</body>")
    page.write_text(f"{before}<h2>Statistics by Spark</h2>{frame}</body>{after}", encoding="utf-8")
