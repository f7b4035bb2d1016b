"""How the sandbox misbehaves, as `/control` sets it: with payments, and with responses."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loadtest.sandbox.http_server import ConnectionCut, SandboxResponse

MODES = ("at_once", "late", "in_spite", "twice", "out_of_order", "silent", "never")
"""What happens to a payment: captured at once; captured after `delay_s`; captured then even if it was voided; two
callbacks; a callback at a random time within `delay_s`, so that others overtake it; captured without a callback; never
captured."""
RESPONSE_MODES = ("ok", "fail", "slow", "cut", "cut_before")
"""What happens to a request: processed; refused with 500; processed `delay_s` later; processed, but the connection is
cut before the response; cut before it is processed."""
SECONDS_MAX = 3600.0


class BadControl(ValueError):
    """A request to `/control` is invalid; the text says why."""


class PaymentBehaviour(NamedTuple):
    mode: str = "at_once"
    delay_s: float = 0.0

    @property
    def capture_after_s(self) -> float | None:
        """None means never."""
        return {"never": None, "late": self.delay_s, "in_spite": self.delay_s}.get(self.mode, 0.0)

    @property
    def capturable_states(self) -> tuple[str, ...]:
        """The states in which it may be captured."""
        return ("open", "voided") if self.mode == "in_spite" else ("open",)

    @property
    def callbacks(self) -> int:
        return {"twice": 2, "silent": 0}.get(self.mode, 1)


@dataclass(slots=True)
class ResponseBehaviour:
    """Applies to the next `times` requests whose path contains `only`; None means until it is changed."""

    mode: str = "ok"
    delay_s: float = 0.0
    times: int | None = None
    only: str = ""


@dataclass(slots=True)
class Behaviour:
    payments: PaymentBehaviour = field(default_factory=PaymentBehaviour)
    by_name: dict[str, PaymentBehaviour] = field(default_factory=dict)  # by payment or order
    responses: ResponseBehaviour = field(default_factory=ResponseBehaviour)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def control(self, body: Mapping[str, Any]) -> None:
        """Change the behaviour: `mode` for payments (of one `payment` or `order` if given), `answers` for requests."""
        delay_s = _number(body, "delay_s", 0.0)
        if "answers" in body:
            times = body.get("times")
            if times is not None and (type(times) is not int or times < 1):
                raise BadControl(f"times must be an integer above 0, got {times!r}")
            mode = _one_of(body, "answers", RESPONSE_MODES)
            self.responses = ResponseBehaviour(mode, delay_s, times, str(body.get("only", "")))
            return
        behaviour = PaymentBehaviour(_one_of(body, "mode", MODES), delay_s)
        name = body.get("payment") or body.get("order")
        if name is None:
            self.payments = behaviour
        else:
            self.by_name[str(name)] = behaviour

    @property
    def may_capture_voided(self) -> bool:
        return any("voided" in each.capturable_states for each in (self.payments, *self.by_name.values()))

    def for_payment(self, payment: str, order: str) -> PaymentBehaviour:
        return self.by_name.get(payment) or self.by_name.get(order) or self.payments

    @contextmanager
    def apply(self, path: str) -> Iterator[SandboxResponse | None]:
        """Surrounds the handling of a request. It yields a response to send instead, or None; it may raise
        `ConnectionCut`."""
        behaviour = self._next_behaviour(path)
        if behaviour.mode == "slow":
            time.sleep(behaviour.delay_s)
        if behaviour.mode == "cut_before":
            raise ConnectionCut
        yield (500, {"error": "this failure was requested by /control"}) if behaviour.mode == "fail" else None
        if behaviour.mode == "cut":
            raise ConnectionCut

    def _next_behaviour(self, path: str) -> ResponseBehaviour:
        with self._lock:
            behaviour = self.responses
            if behaviour.only not in path:
                return ResponseBehaviour()
            if behaviour.times is not None:
                behaviour.times -= 1
                if behaviour.times <= 0:
                    self.responses = ResponseBehaviour()
            return ResponseBehaviour(behaviour.mode, behaviour.delay_s)


def _one_of(body: Mapping[str, Any], name: str, known: tuple[str, ...]) -> str:
    if body.get(name) not in known:
        raise BadControl(f"{name} must be one of {', '.join(known)}, got {body.get(name)!r}")
    return str(body[name])


def _number(body: Mapping[str, Any], name: str, default: float) -> float:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= SECONDS_MAX:
        raise BadControl(f"{name} must be 0 to {SECONDS_MAX:g} seconds, got {value!r}")
    return float(value)
