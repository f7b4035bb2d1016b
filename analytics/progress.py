"""Shell: show the progress of Spark on the terminal: a bar for a replay, a line per batch for a stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from analytics.jobs.live import BatchProgress

if TYPE_CHECKING:
    from pyspark import SparkContext

POLL_SECONDS = 0.3


class ProgressBar:
    """Finished tasks out of those known so far; Spark plans later stages as it goes."""

    def __init__(self, console: Console, progress: Progress, text: str) -> None:
        self._console, self._progress = console, progress
        self._task = progress.add_task(text, total=None)
        self._ended = threading.Event()
        self._watching: threading.Thread | None = None
        if not console.is_terminal:
            self.describe(text)

    def describe(self, text: str) -> None:
        self._progress.update(self._task, description=text)
        if not self._console.is_terminal:
            self._console.print(text, highlight=False, markup=False)

    def watch(self, context: SparkContext) -> None:
        if self._console.is_terminal:
            self._watching = threading.Thread(target=self._poll, args=(context.statusTracker(),), daemon=True)
            self._watching.start()

    def end(self) -> None:
        self._ended.set()
        if self._watching is not None:
            self._watching.join(5)

    def _poll(self, tracker: Any) -> None:
        stages: dict[int, tuple[int, int]] = {}
        while not self._ended.wait(POLL_SECONDS):
            try:
                active = {number: tracker.getStageInfo(number) for number in tracker.getActiveStageIds()}
            except Exception:  # the session has ended, and so has the work
                return
            for number in set(stages) - set(active):
                stages[number] = (stages[number][1], stages[number][1])
            stages |= {number: (info.numCompletedTasks, info.numTasks) for number, info in active.items() if info}
            done, known = (sum(column) for column in zip(*stages.values(), strict=True)) if stages else (0, 0)
            self._progress.update(self._task, completed=done, total=known or None)


@contextmanager
def progress_bar(console: Console, text: str) -> Iterator[ProgressBar]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = ProgressBar(console, progress, text)
        try:
            yield bar
        finally:
            bar.end()


class BatchLines:
    """Prints one line per batch, and knows the totals at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._records = 0
        self._behind: int | None = None

    @contextmanager
    def starting(self) -> Iterator[None]:
        with progress_bar(self._console, "starting Spark"):
            yield

    def print_line(self, news: BatchProgress | str) -> None:
        if isinstance(news, str):
            self._console.print(news, style="yellow", highlight=False, markup=False)
            return
        self._records += news.records
        self._behind = news.behind
        rate = news.records / max(news.took_ms, 1) * 1000
        text = f"batch {news.batch}: {news.records:,} records in {news.took_ms / 1000:.1f} s"
        text += f" ({rate:,.0f}/s)" + ("" if news.behind is None else f", {news.behind:,} behind")
        self._console.print(f"{time.strftime('%H:%M:%S')}  {text}", highlight=False, markup=False)

    def summary(self) -> str:
        if not self._records:
            return "no batch was counted"
        behind = "" if self._behind is None else f", {self._behind:,} behind"
        return f"counted {self._records:,} records{behind}; `seckill stats report` shows them"
