"""Shell: one case at work: its stack, its crowd, its scripted buyers, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from seckill.lab.faults.case import Case, CrowdPlan
from seckill.lab.faults.crowd import CrowdProcess
from seckill.lab.faults.fault_stack import FaultStack
from seckill.lab.faults.scripted_buyers import BackgroundBuyers, Buyer, BuyerLog

ENDLESS_UNITS = 100_000
"""More units than all buyers can take."""


@dataclass(slots=True)
class FaultRun:
    """What the steps of a case work with. `sale` is the crowd's; `side_sale` never sells out."""

    stack: FaultStack
    case: Case
    plan: CrowdPlan
    sale: int
    side_sale: int
    crowd: CrowdProcess
    seed: int = 1
    scale: float = 1.0
    announce: Callable[[str], None] = lambda text: None
    findings: dict[str, int | str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def scaled(self, count: float) -> int:
        """This many in a run at full scale, fewer in a smaller one."""
        return max(1, round(count * self.scale))

    # ── buyers ───────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def buyer_log(self, name: str, sale: int | None = None) -> Iterator[BuyerLog]:
        """A log for scripted buyers in a sale, the crowd's if none is given."""
        log = BuyerLog(self.stack.evidence / f"{name}.scripted.jsonl", sale or self.sale)
        try:
            yield log
        finally:
            log.close()

    def buyer(self, name: str, log: BuyerLog, address: str = "") -> Buyer:
        return Buyer(self.stack.gateway, name, log, address=address)

    @contextmanager
    def background_buyers(self, name: str) -> Iterator[None]:
        """Keep buyers coming to the side sale for as long as the block takes."""
        with self.buyer_log(name, self.side_sale) as log:
            buyers = BackgroundBuyers(self.stack.gateway, log, name)
            try:
                yield
            finally:
                buyers.stop()

    # ── findings ─────────────────────────────────────────────────────────────────────────────────

    def prove(self, what: str, count: int) -> None:
        """A number that shows that the fault happened; if it is 0, the case has failed."""
        self.findings[what] = int(count)
        if count <= 0:
            self.missing.append(what)

    def record(self, what: str, value: int | str) -> None:
        """A number worth knowing that proves nothing."""
        self.findings[what] = value
