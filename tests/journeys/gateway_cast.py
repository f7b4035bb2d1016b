"""What the journeys of the gateway share: a small stack with a second Redis for the gate, and what they do with it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seckill.stack.child_processes import free_port
from seckill.stack.server_set import running_redis
from tests.journeys.stack import Buyer, Stack

LEFT_OUT = ("notify.sms", "notify.email", "notify.push", "celery", "notify.sweep", "reports")
SCALE = [*(f"{name}=0" for name in LEFT_OUT), "inventory=1", "orders=1"]
DEADLINE_S = 100


@contextmanager
def gateway_stack(folder: Path) -> Iterator[tuple[Stack, str]]:
    """A running stack, and the URL of the Redis that only the gate uses."""
    (folder / "gate").mkdir()
    port = free_port()
    gate_redis = f"redis://127.0.0.1:{port}/0"
    with running_redis(folder / "gate", port):
        stack = Stack(
            folder / "stack", *(part for scale in SCALE for part in ("--scale", scale)),
            SECKILL_PURCHASE_DEADLINE_S=str(DEADLINE_S), SECKILL_EXPECTED_PACE="1", SECKILL_GATE_REDIS_URL=gate_redis,
        )  # fmt: skip
        stack.start()
        yield stack, gate_redis
        assert stack.stop() == 0


@contextmanager
def frozen(stack: Stack, name: str) -> Iterator[None]:
    """SIGSTOP: the process keeps its connections and answers nothing."""
    pid = stack.pid_of(name)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def units(stack: Stack, sale: int) -> tuple[int, int, int]:
    """Available, reserved and sold."""
    [row] = stack.query("SELECT available, reserved, sold FROM inventory_stock WHERE sale_id = %s", sale)
    return row[0], row[1], row[2]


def buy_and_pay(stack: Stack, buyer: Buyer, sale: int) -> dict[str, Any]:
    accepted = buyer.buy(sale)[1]
    outcome = buyer.wait_for(accepted["request_id"], "AWAITING_PAYMENT")
    assert buyer.act(outcome["order_id"], "pay")[0] == 202
    buyer.wait_for(accepted["request_id"], "PAID")
    return accepted
