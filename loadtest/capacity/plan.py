"""Machine: from a wish to the number of everything, and to the part that limits the sale.

A part that is one of its kind has a limit; its share of that limit says how close the wish comes. The part with the
greatest share is the wall. The number of inventory's consumers comes from the simulation: the fewest with which the
wait is short enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from loadtest.capacity.costs import CPU, Costs
from loadtest.capacity.simulation import BATCH_RECORDS_MAX, Processes, Rush, Speeds, Waits, simulate
from seckill.messaging.partitioners import SLOTS
from seckill.messaging.topics import PARTITIONS

BUSY_SHARE_MAX = 0.7
"""Of a process's core, so that a peak within the second finds room."""
BUYERS_MAX = 100_000_000
OVER_SECONDS_MAX = 600.0
POLL_S, POLL_SECONDS_MAX = 0.5, 5.0
"""As gateway/accepted_response.py asks clients to poll: after a third of the expected wait."""
MESSAGES_WITHIN_S = 300.0
PAYMENTS_WITHIN_S = 900.0
REPLICAS = 3
POSTGRES_CORES, POSTGRES_WAL_BYTES_S = 32, 500e6
"""A large database server. Both are assumptions, not measurements."""
POSTGRES_CONNECTIONS = 200
GATEWAY_POOL = 16
"""Connections of a gateway in docker-compose.yml."""

NEXT_DESIGN = {
    "Redis": "First an instance each for admission, gate and Celery (three variables). Then split the buyers of a sale"
    " over several instances for admission, each with its own limits for addresses.",
    "brokers": "Apache Kafka: its brokers use all cores of a machine, and there may be more than three.",
    "relay": "Give each relay a share of the outbox, by the hash of the key, instead of one relay for each writer.",
    "stock row": "Split an article over several stock rows, each with its share of the units, and a rule for the last"
    " units of each. “Sold out” is then spread over rows, and arrival no longer decides alone.",
    "Postgres": "Shard the sales: each sale, or each group of articles, with a database of its own.",
    "partitions": "Shard the sale; a topic has at most as many partitions as there are slots.",
}


@dataclass(frozen=True, slots=True)
class Wish:
    buyers: int
    over_s: float
    units: int
    wait_p99_s: float
    brokers: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.buyers <= BUYERS_MAX:
            raise ValueError(f"--buyers must be 1 to {BUYERS_MAX:,}, got {self.buyers:,}")
        if not 0 < self.over_s <= OVER_SECONDS_MAX:
            raise ValueError(f"--over must be above 0 and at most {OVER_SECONDS_MAX:.0f} seconds, got {self.over_s:g}")
        if not 0 < self.wait_p99_s <= 3600:
            raise ValueError(f"--wait-p99 must be above 0 and at most 3600 seconds, got {self.wait_p99_s:g}")
        if self.units < 0:
            raise ValueError(f"--units must not be negative, got {self.units}")
        if self.brokers is not None and self.brokers < 1:
            raise ValueError(f"--brokers must be at least 1, got {self.brokers}")


@dataclass(frozen=True, slots=True)
class Part:
    """`count` processes or servers, and what they are needed for. `share` of the limit of a part that cannot be
    multiplied; above 1 the wish cannot be met."""

    name: str
    count: int
    need: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    wish: Wish
    parts: tuple[Part, ...]
    processes: Processes
    waits: Waits
    memory_gb: float

    @property
    def wall(self) -> Part:
        return max((part for part in self.parts if part.share is not None), key=lambda part: part.share or 0.0)

    @property
    def is_met(self) -> bool:
        return (self.wall.share or 0.0) <= 1 and self.waits.p99_s <= self.wish.wait_p99_s


def polls_per_buyer(wait_s: float) -> int:
    """How often a client that obeys X-Poll-After-Ms polls during this wait, and once for the outcome."""
    polls, left_s = 1, wait_s
    while left_s > POLL_S:
        left_s -= min(max(POLL_S, left_s / 3), POLL_SECONDS_MAX)
        polls += 1
    return polls


def make_plan(wish: Wish, costs: Costs, speeds: Speeds) -> Plan:
    rush, window_s = Rush(wish.buyers, wish.over_s, min(wish.units, wish.buyers)), wish.over_s + wish.wait_p99_s
    arriving, decided = wish.buyers / wish.over_s, wish.buyers / window_s
    outcomes = _processes(decided * speeds.outcome_s)
    orders = _processes(decided / costs.records_per_s["orders"])
    accepting = Processes(_processes(speeds.accept_s * arriving), PARTITIONS, 1, outcomes)
    processes, waits = _fewest_consumers(rush, wish.wait_p99_s, accepting, speeds)
    polls = polls_per_buyer(waits.p99_s)
    gateways = _processes(speeds.accept_s * arriving + polls * costs.of("poll", f"{CPU}gateway") * decided)
    most = max(processes.inventory, outcomes, orders)
    processes = replace(processes, gateways=gateways, partitions=min(SLOTS, max(PARTITIONS, most)))
    celery = _processes(rush.units * costs.of("unit", f"{CPU}celery") / MESSAGES_WITHIN_S)
    brokers, broker_cores = _brokers(wish, costs, arriving, decided)
    services = {
        "gateway": gateways, "inventory": processes.inventory, "orders": orders, "gateway.outcomes": outcomes,
        "celery": celery,
    }  # fmt: skip
    connections = gateways * GATEWAY_POOL + processes.inventory + orders + outcomes + celery * GATEWAY_POOL + 10
    redis_ops = arriving * costs.of("request", "redis.commands") + decided * polls * costs.of("poll", "redis.commands")
    redis_cores = arriving * costs.of("request", f"{CPU}redis") + decided * polls * costs.of("poll", f"{CPU}redis")
    postgres_cores = decided * costs.of("request", f"{CPU}postgres")
    postgres_cores += rush.units / MESSAGES_WITHIN_S * costs.of("unit", f"{CPU}postgres")  # mostly for messages
    wal = decided * costs.of("request", "postgres.wal_bytes")
    wal += rush.units / window_s * costs.of("unit", "postgres.wal_bytes")
    commits = decided / BATCH_RECORDS_MAX * 2 + max(waits.batches / max(waits.ended_s, 1e-9), 1.0) * 3
    payments = rush.units * costs.of("payment", f"{CPU}gateway") / PAYMENTS_WITHIN_S
    broker_bytes = wish.buyers * costs.of("request", "broker.bytes")
    redis_bytes = wish.buyers * costs.of("request", "redis.bytes")
    parts = (
        Part("gateways", gateways,
             f"{arriving:,.0f} buyers/s arrive, each polls {polls} times; payments later need {payments:.1f} cores"),
        Part("Redis", 1,
             f"{redis_ops:,.0f} commands/s, {redis_cores:.2f} cores, {redis_bytes / 1e9:.1f} GB",
             redis_cores / BUSY_SHARE_MAX),
        Part("brokers", brokers,
             f"{arriving:,.0f} requests/s, {broker_cores:.1f} cores, {broker_bytes / 1e9:.1f} GB of log for each copy"
             f"{'' if brokers <= REPLICAS else '; more than three are Apache Kafka, which uses several cores each'}",
             broker_cores / BUSY_SHARE_MAX / brokers if wish.brokers and brokers <= REPLICAS else None),
        Part("partitions", processes.partitions, f"at least one for each of {most} consumers", most / SLOTS),
        Part("inventory", processes.inventory, f"{decided:,.0f} decisions/s within {window_s:g} s"),
        Part("stock row", 1, f"{rush.units:,} units, one batch at a time: {rush.units * speeds.grant_s:.1f} s",
             rush.units * speeds.grant_s / window_s),
        Part("relay", 1, f"{decided:,.0f} rows/s; one publishes {1 / speeds.publish_s:,.0f}",
             decided * speeds.publish_s),
        Part("gateway.outcomes", outcomes, f"{decided:,.0f} outcomes/s"),
        Part("orders", orders, f"{decided:,.0f} decisions/s read, {rush.units:,} orders"),
        Part("celery", celery, f"{3 * rush.units:,} messages within {MESSAGES_WITHIN_S:.0f} s"),
        Part("Postgres", 1,
             f"{commits:,.0f} commits/s, {postgres_cores:.1f} cores, {wal / 1e6:.0f} MB/s of WAL, {connections}"
             f" connections{_pooler(connections)}",
             max(postgres_cores / POSTGRES_CORES, wal / POSTGRES_WAL_BYTES_S)),
    )  # fmt: skip
    memory = sum(count * costs.memory_mb.get(name, 0.0) for name, count in services.items()) / 1e3 + redis_bytes / 1e9
    return Plan(wish, parts, processes, waits, memory)


def _processes(cores: float) -> int:
    """How many processes do so much work, each with a core of its own."""
    return max(1, ceil(cores / BUSY_SHARE_MAX))


def _fewest_consumers(rush: Rush, wait_s: float, processes: Processes, speeds: Speeds) -> tuple[Processes, Waits]:
    """With the shortest wait that more consumers can still give, if that is longer than the wish."""

    def with_consumers(count: int) -> tuple[Processes, Waits]:
        chosen = replace(processes, inventory=count, partitions=min(SLOTS, max(PARTITIONS, count)))
        return chosen, simulate(rush, chosen, speeds)

    rate = max(rush.buyers / (rush.over_s + wait_s), 1.0)
    enough = min(SLOTS, max(1, ceil(2 * rate * (speeds.decide_s + speeds.batch_s / BATCH_RECORDS_MAX)) + 1))
    low, high = 1, enough
    goal = max(wait_s, 1.02 * with_consumers(enough)[1].p99_s)
    while low < high:
        middle = (low + high) // 2
        if with_consumers(middle)[1].p99_s <= goal:
            high = middle
        else:
            low = middle + 1
    return with_consumers(low)


def _brokers(wish: Wish, costs: Costs, arriving: float, decided: float) -> tuple[int, float]:
    """Brokers and the cores that all need together. A process of mqcore has one core; a third copy of each record is
    counted like the first, which is more than a follower costs."""
    each = costs.of("request", f"{CPU}mqcore")
    copies = 1 if wish.brokers in (1, 2) else REPLICAS
    cores = each * (arriving + decided) / 2 * copies
    return wish.brokers or max(REPLICAS, _processes(cores)), cores


def _pooler(connections: int) -> str:
    return f" (more than {POSTGRES_CONNECTIONS}: a pooler for sessions)" if connections > POSTGRES_CONNECTIONS else ""
