"""Shell: reads measured figures from docs/generated: the costs of this package, and other benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from loadtest.capacity.costs import Actions, BadCosts, Costs, Run, from_json
from loadtest.capacity.simulation import Speeds
from seckill.messaging.topics import PURCHASE_REQUESTS

GENERATED = Path(__file__).parents[2] / "docs" / "generated"
COSTS, DECISIONS = GENERATED / "capacity.json", GENERATED / "decisions.json"
SMALL, LARGE = "backlog of 1,000", "backlog of 100,000"
GRANTS, RELAY = "everybody gets a unit", "outbox to topic, rows"
OURS = "ours"


def read_costs(path: Path = COSTS) -> Costs:
    """Raises `BadCosts`."""
    try:
        return from_json(_load(path))
    except BadCosts as bad:
        raise BadCosts(f"{path}: {bad}; `python -m loadtest.capacity --measure` writes it") from bad


def read_checked(path: Path = COSTS) -> list[Run]:
    """The rushes that predictions are compared with; none before `--check`."""
    return [Run(**{**run, "actions": Actions(**run["actions"])}) for run in _load(path).get("checked", [])]


def read_speeds(costs: Costs, path: Path = DECISIONS) -> Speeds:
    """What each stage of a purchase takes. The cost of a visit belongs to the gateway, because every buyer needs one.

    Inventory's time for a batch and for a request follow from two backlogs: twelve small batches, and full ones.
    """
    try:
        seconds = {row["name"]: _seconds_each(row) for row in _load(path)["results"] if _is_ours(row)}
        decide_s = seconds[LARGE]
        batch_s = max(0.0, 1_000 * (seconds[SMALL] - decide_s) / PURCHASE_REQUESTS.partitions)
        grant_s, publish_s = seconds[GRANTS], seconds[RELAY]
    except (KeyError, TypeError, ZeroDivisionError) as fault:
        raise BadCosts(f"{path} lacks {fault}; `python -m loadtest.benchmarks.decisions` writes it") from fault
    return Speeds(
        accept_s=(costs.cpu_us("visit", "gateway") + costs.cpu_us("request", "gateway")) / 1e6,
        batch_s=batch_s,
        decide_s=decide_s,
        grant_s=grant_s,
        publish_s=publish_s,
        outcome_s=1 / costs.records_per_s["gateway.outcomes"],
    )


def _is_ours(row: Mapping[str, Any]) -> bool:
    return row["flush_us"] == 0 and str(row["who"]).startswith(OURS)


def _seconds_each(row: Mapping[str, Any]) -> float:
    return float(median(sample["seconds"] / sample["count"] for sample in row["samples"]))


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise BadCosts(f"cannot be read: {fault}") from fault
