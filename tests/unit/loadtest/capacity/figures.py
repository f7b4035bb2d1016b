"""Costs and speeds with round numbers, for tests that calculate by hand."""

from __future__ import annotations

from loadtest.capacity.costs import ACTIONS, Actions, Costs, Run
from loadtest.capacity.simulation import Speeds

SPEEDS = Speeds(accept_s=0.001, batch_s=0.004, decide_s=40e-6, grant_s=40e-6, publish_s=25e-6, outcome_s=100e-6)
PER_REQUEST = {
    "cpu.gateway": 200e-6,
    "cpu.redis": 10e-6,
    "cpu.inventory": 100e-6,
    "cpu.mqcore": 100e-6,
    "cpu.postgres": 250e-6,
    "cpu.load": 20e-6,
    "redis.commands": 2.0,
    "redis.bytes": 1_000.0,
    "broker.bytes": 900.0,
    "postgres.wal_bytes": 2_000.0,
    "postgres.commits": 0.5,
}
PER_ACTION = {
    "request": PER_REQUEST,
    "poll": {"cpu.gateway": 100e-6, "cpu.redis": 1e-6, "redis.commands": 1.0},
    "unit": {"cpu.celery": 6e-3, "cpu.postgres": 4e-3, "postgres.wal_bytes": 8_000.0},
    "visit": {"cpu.gateway": 800e-6, "cpu.load": 500e-6},
    "payment": {"cpu.gateway": 2e-3, "cpu.postgres": 5e-3, "cpu.celery": 10e-3},
}
IDLE = {"cpu.inventory": 0.02, "cpu.postgres": 0.01, "redis.commands": 30.0}
COSTS = Costs(
    {"hardware": "two cores"}, 2, 0.9, 0.5, IDLE, PER_ACTION, {"gateway": 150.0, "inventory": 110.0},
    {"gateway.outcomes": 10_000.0, "orders": 8_000.0},
)  # fmt: skip


def run_of(name: str, actions: Actions, seconds: float = 10.0, over_s: float = 2.0) -> Run:
    """A run that used exactly what these costs say."""
    return Run(name, actions, over_s, seconds - 1, seconds, COSTS.predict(actions, seconds))


COUNTS = {
    "request": Actions(request=8_000),
    "poll": Actions(request=8_000, poll=4_000),
    "unit": Actions(request=2_000, unit=500),
    "visit": Actions(request=300, poll=600, unit=1, visit=300),
    "payment": Actions(request=300, poll=900, unit=300, visit=300, payment=300),
}
RUNS = [run_of(name, COUNTS[name]) for name in ACTIONS]
