"""How the outside world misbehaves, as it is told over `/control`: payments that go astray, answers that do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loadtest.sandbox.serving import Answer, Cut

MODES = ("at_once", "late", "in_spite", "twice", "out_of_order", "silent", "never")
"""What becomes of a payment: paid at once; after `delay_s`; after it even if it was voided meanwhile; told of twice;
told of at some time within `delay_s`, so that others overtake it; paid and never told of; never paid."""
ANSWERS = ("ok", "fail", "slow", "cut", "cut_before")
"""What becomes of a request: done; refused with 500; done `delay_s` later; done, and the connection cut before the
answer; cut before anything is done."""
LONGEST_S = 3600.0


class BadControl(ValueError):
    """What was said to `/control` makes no sense."""


class Paying(NamedTuple):
    mode: str = "at_once"
    delay_s: float = 0.0

    @property
    def after_s(self) -> float | None:
        """None: never."""
        return {"never": None, "late": self.delay_s, "in_spite": self.delay_s}.get(self.mode, 0.0)

    @property
    def before(self) -> tuple[str, ...]:
        """The states it may be paid from."""
        return ("open", "voided") if self.mode == "in_spite" else ("open",)

    @property
    def tellings(self) -> int:
        return {"twice": 2, "silent": 0}.get(self.mode, 1)


@dataclass(slots=True)
class Answering:
    """`times` requests from now on whose path has `only` in it; None: until told otherwise."""

    mode: str = "ok"
    delay_s: float = 0.0
    times: int | None = None
    only: str = ""


@dataclass(slots=True)
class Behaviour:
    paying: Paying = field(default_factory=Paying)
    of: dict[str, Paying] = field(default_factory=dict)  # by payment or order
    answering: Answering = field(default_factory=Answering)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def control(self, body: Mapping[str, Any]) -> None:
        """`mode` (and perhaps `payment` or `order`): of payments. `answers`: of requests."""
        delay_s = _number(body, "delay_s", 0.0)
        if "answers" in body:
            times = body.get("times")
            if times is not None and (type(times) is not int or times < 1):
                raise BadControl("times is a whole number above 0")
            mode = _one_of(body, "answers", ANSWERS)
            self.answering = Answering(mode, delay_s, times, str(body.get("only", "")))
            return
        paying = Paying(_one_of(body, "mode", MODES), delay_s)
        name = body.get("payment") or body.get("order")
        if name is None:
            self.paying = paying
        else:
            self.of[str(name)] = paying

    @property
    def may_pay_voided(self) -> bool:
        return any("voided" in paying.before for paying in (self.paying, *self.of.values()))

    def paying_of(self, payment: str, order: str) -> Paying:
        return self.of.get(payment) or self.of.get(order) or self.paying

    @contextmanager
    def around(self, path: str) -> Iterator[Answer | None]:
        """What happens to one request: an answer that is given in place of the real one, or nothing, or `Cut`."""
        how = self._take(path)
        if how.mode == "slow":
            time.sleep(how.delay_s)
        if how.mode == "cut_before":
            raise Cut
        yield (500, {"error": "told to fail"}) if how.mode == "fail" else None
        if how.mode == "cut":
            raise Cut

    def _take(self, path: str) -> Answering:
        with self._lock:
            how = self.answering
            if how.only not in path:
                return Answering()
            if how.times is not None:
                how.times -= 1
                if how.times <= 0:
                    self.answering = Answering()
            return Answering(how.mode, how.delay_s)


def _one_of(body: Mapping[str, Any], name: str, known: tuple[str, ...]) -> str:
    if body.get(name) not in known:
        raise BadControl(f"{name} is one of {', '.join(known)}")
    return str(body[name])


def _number(body: Mapping[str, Any], name: str, otherwise: float) -> float:
    value = body.get(name, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_S:
        raise BadControl(f"{name} is a number of seconds up to {LONGEST_S:g}")
    return float(value)
