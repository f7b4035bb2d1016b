"""Codec: turns measurements into ratios, a verdict for each row, and a table. Pure arithmetic.

A ratio compares two brokers within one repetition, under the same conditions. A row shows the median of its ratios,
with the lowest and the highest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from loadtest.benchmarks.broker.rows import LESS, Figure

OURS, KAFKA, REDIS = "mqcore", "Kafka", "Redis Streams"
MACHINE = "the machine"  # in place of a broker, in the rows with the machine's limits
NEARLY_ALL = 0.85  # share of a core, or of all cores, that counts as the limit
CLIENT_LIMITED_GOAL = 0.95


@dataclass(slots=True)
class Measured:
    """The values of one figure for each broker, one per repetition; and how busy broker and client were."""

    figure: Figure
    values: dict[str, list[float]] = field(default_factory=dict)
    broker_cores: dict[str, list[float]] = field(default_factory=dict)
    client_cores: dict[str, list[float]] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    cores: int = 2

    def add(self, peer: str, value: float, broker: float = 0.0, client: float = 0.0, rejected: int = 0) -> None:
        self.values.setdefault(peer, []).append(value)
        self.broker_cores.setdefault(peer, []).append(broker)
        self.client_cores.setdefault(peer, []).append(client)
        self.rejected[peer] = self.rejected.get(peer, 0) + rejected

    def middle(self, peer: str) -> float | None:
        values = self.values.get(peer)
        return median(values) if values else None

    def ratios(self, peer: str) -> list[float]:
        """Our value divided by the other broker's, per repetition."""
        pairs = zip(self.values.get(OURS, ()), self.values.get(peer, ()), strict=False)
        return [ours / theirs for ours, theirs in pairs if theirs]

    def limited_by(self) -> str:
        """What limited our value: the process or machine that was fully busy."""
        if not any(self.client_cores.get(OURS, ())):
            return ""
        broker, client = median(self.broker_cores[OURS]), median(self.client_cores[OURS])
        if broker >= NEARLY_ALL:
            return "broker"
        if client >= NEARLY_ALL:
            return "client"
        return "machine" if broker + client >= NEARLY_ALL * self.cores else ""

    @property
    def goal(self) -> float | None:
        goal = self.figure.goal
        if goal == 1.0 and self.limited_by() == "client":
            return CLIENT_LIMITED_GOAL
        return goal

    def reached(self) -> bool | None:
        """None without a goal or without Kafka."""
        ratios = self.ratios(KAFKA)
        if self.goal is None or not ratios:
            return None
        return median(ratios) <= self.goal if self.figure.better == LESS else median(ratios) >= self.goal

    def as_json(self) -> dict[str, Any]:
        facts: dict[str, Any] = {**asdict(self.figure), "goal": self.goal, "limited_by": self.limited_by()}
        for name in ("values", "broker_cores", "client_cores"):
            facts[name] = {peer: [round(v, 4) for v in values] for peer, values in getattr(self, name).items()}
        facts["rejected"] = self.rejected
        for peer in (KAFKA, REDIS):
            if ratios := self.ratios(peer):
                facts[f"ratio_to_{peer.split()[0].lower()}"] = {
                    "median": round(median(ratios), 3),
                    "lowest": round(min(ratios), 3),
                    "highest": round(max(ratios), 3),
                }
        facts["reached"] = self.reached()
        return facts


def number(value: float | None) -> str:
    """Three significant digits."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio_text(ratios: Sequence[float]) -> str:
    if not ratios:
        return "–"
    if len(ratios) == 1:
        return number(ratios[0])
    return f"{number(median(ratios))} ({number(min(ratios))}–{number(max(ratios))})"


def verdict(measured: Measured) -> str:
    if measured.goal is None:
        return ""
    sign = "≤" if measured.figure.better == LESS else "≥"
    reached = measured.reached()
    mark = "" if reached is None else " ✓" if reached else " ✗"
    return f"{sign} {measured.goal:g}{mark}"


HEADS = ("row", "unit", OURS, KAFKA, REDIS, "mqcore : Kafka", "goal", "mqcore : Redis", "limited by")


def cells(measured: Measured) -> tuple[str, ...]:
    return (
        measured.figure.title + (" (less is better)" if measured.figure.better == LESS else ""),
        measured.figure.unit,
        number(measured.middle(OURS)),
        number(measured.middle(KAFKA)),
        number(measured.middle(REDIS)),
        ratio_text(measured.ratios(KAFKA)),
        verdict(measured),
        ratio_text(measured.ratios(REDIS)),
        measured.limited_by(),
    )


def markdown(rows: Sequence[Measured], about: Mapping[str, str], notes: Sequence[str]) -> str:
    lines = [
        "# mqcore compared with other brokers",
        "",
        "Written by `python -m loadtest.benchmarks.broker`; run it again to compare.",
        "",
    ]
    lines += [f"* {name}: {value}" for name, value in about.items()]
    lines += [f"* {note}" for note in notes]
    lines += ["", "| " + " | ".join(HEADS) + " |", "|---|---" + "|--:" * 4 + "|---|--:|---|"]
    lines += ["| " + " | ".join(cells(measured)) + " |" for measured in rows]
    return "\n".join(lines) + "\n"
