"""Shell: the broker's metrics, in Prometheus' text format.

A hot path looks up its cell once (`counter.cell("Produce")`) and adds to its value. That needs neither another look-up
nor a lock, because everything runs on one event loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

LATENCY_BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

Sample = tuple[tuple[str, ...], float]


class Cell:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0


class HistogramCell:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Family:
    """All cells of one metric, by their label values."""

    def __init__(self, name: str, meaning: str, kind: str, labels: tuple[str, ...]) -> None:
        self.name, self.meaning, self.kind, self.labels = name, meaning, kind, labels
        self._cells: dict[tuple[str, ...], Cell] = {}

    def cell(self, *values: str) -> Cell:
        assert len(values) == len(self.labels), f"{self.name} has labels {self.labels}"
        return self._cells.setdefault(values, Cell())

    def lines(self) -> Iterator[str]:
        for values, cell in self._cells.items():
            yield f"{self.name}{_labels(self.labels, values)} {_number(cell.value)}"


class Histogram(Family):
    def __init__(self, name: str, meaning: str, labels: tuple[str, ...], bounds: tuple[float, ...]) -> None:
        super().__init__(name, meaning, "histogram", labels)
        self._bounds = bounds
        self._histograms: dict[tuple[str, ...], HistogramCell] = {}

    def histogram(self, *values: str) -> HistogramCell:
        return self._histograms.get(values) or self._histograms.setdefault(values, HistogramCell(self._bounds))

    def lines(self) -> Iterator[str]:
        for values, cell in self._histograms.items():
            running = 0
            for bound, count in zip((*self._bounds, float("inf")), cell.counts, strict=True):
                running += count
                edge = "+Inf" if bound == float("inf") else f"{bound:g}"
                yield f"{self.name}_bucket{_labels((*self.labels, 'le'), (*values, edge))} {running}"
            yield f"{self.name}_sum{_labels(self.labels, values)} {_number(cell.total)}"
            yield f"{self.name}_count{_labels(self.labels, values)} {running}"


class ComputedFamily(Family):
    """A metric whose values are computed when the page is requested."""

    def __init__(
        self, name: str, meaning: str, kind: str, labels: tuple[str, ...], compute: Callable[[], Iterable[Sample]]
    ) -> None:
        super().__init__(name, meaning, kind, labels)
        self._compute = compute

    def lines(self) -> Iterator[str]:
        for values, value in self._compute():
            yield f"{self.name}{_labels(self.labels, values)} {_number(value)}"


class Metrics:
    """The metrics of the broker; `add_computed` adds further ones."""

    def __init__(self) -> None:
        self._families: list[Family] = []
        self.requests = self._counter("mqcore_requests_total", "answered requests", ("api",))
        self.bad_requests = self._counter("mqcore_bad_requests_total", "closed connections, by reason", ("reason",))
        self.request_seconds = Histogram(
            "mqcore_request_seconds",
            "time from the complete request to the response, including waits",
            ("api",),
            LATENCY_BOUNDS_S,
        )
        self._families.append(self.request_seconds)
        self.bytes_in = self._counter("mqcore_received_bytes_total", "bytes received from clients", ())
        self.bytes_out = self._counter("mqcore_sent_bytes_total", "bytes sent to clients", ())
        self.refused = self._counter("mqcore_refusals_total", "rejected produce requests, by error", ("error",))
        self.syncs = self._counter("mqcore_log_syncs_total", "syncs of logs to stable storage", ())
        self.connections = self._counter("mqcore_connections", "open connections", (), kind="gauge")

    def _counter(self, name: str, meaning: str, labels: tuple[str, ...], kind: str = "counter") -> Family:
        family = Family(name, meaning, kind, labels)
        self._families.append(family)
        return family

    def add_computed(
        self,
        name: str,
        meaning: str,
        labels: tuple[str, ...],
        compute: Callable[[], Iterable[Sample]],
        kind: str = "gauge",
    ) -> None:
        """Add a metric that is computed when the page is requested."""
        self._families.append(ComputedFamily(name, meaning, kind, labels, compute))

    def page(self) -> str:
        lines: list[str] = []
        for family in self._families:
            lines += [f"# HELP {family.name} {family.meaning}", f"# TYPE {family.name} {family.kind}"]
            lines += family.lines()
        return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """All digits of a large counter, because `g` would round it to six."""
    return repr(int(value)) if value == int(value) else repr(value)


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not names:
        return ""
    quoted = (value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for value in values)
    return "{" + ",".join(f'{name}="{value}"' for name, value in zip(names, quoted, strict=True)) + "}"
