"""Shell: who buys while things break: a crowd in a process of its own, and single buyers who act by the script.

Both write down what they were told, in the crowd's own log format: without it the report could not know them.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from loadtest.buyers import PURCHASE_PICKS, fingerprint
from loadtest.ledger import ClientLog, declare, now_ms
from seckill.faults.case import Rush

ANSWER_S = 15.0
PATIENCE_S = 60.0
LEAVE_S = 300.0
STRAGGLE_S = 0.5
AGAIN = frozenset({0, 403, 429, 502, 503})
Item = TypeVar("Item")


class Crowd:
    """`loadtest.rush`, running."""

    def __init__(self, url: str, sale: int, rush: Rush, log: Path, environment: dict[str, str]) -> None:
        self.log = log
        command = [
            sys.executable, "-m", "loadtest.rush", "--url", url, "--sale", str(sale), "--buyers", str(rush.buyers),
            "--over", str(rush.over_s), "--log", str(log), *rush.words,
        ]  # fmt: skip
        self._output = log.with_suffix(".out")
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
                start_new_session=True,
            )  # fmt: skip

    @property
    def is_there(self) -> bool:
        return self._process.poll() is None

    def leave(self, patience_s: float = LEAVE_S) -> None:
        """Wait until all have gone home. `RuntimeError` if the crowd itself has failed: then there is no evidence."""
        if self._process.wait(patience_s):
            raise RuntimeError(f"the crowd failed: {self._output.read_text()[-1000:]}")

    def end(self) -> None:
        if self.is_there:
            self._process.kill()
            self._process.wait()


class Told(NamedTuple):
    """`status` 0: no answer came."""

    status: int
    body: dict[str, Any]

    @property
    def request(self) -> str:
        return str(self.body.get("request_id", ""))


class Book:
    """The log of those who act by the script; it may be written by many threads."""

    def __init__(self, path: Path, sale: int) -> None:
        self.sale = sale
        declare(path, sale, 0)
        self._log = ClientLog(path, sale=sale)
        self._lock = threading.Lock()

    def write(self, what: str, began_ms: int, **fields: Any) -> None:
        with self._lock:
            self._log.write(what, began_ms, took_ms=now_ms() - began_ms, **fields)

    def close(self) -> None:
        self._log.close()


class Buyer:
    """One buyer at one gateway, or at another one with `via`."""

    def __init__(
        self, url: str, name: str, sale: int, book: Book, address: str = "", patience_s: float = PATIENCE_S
    ) -> None:
        """`KeyError` if he is not let in."""
        self.name, self.sale = name, sale
        self._url, self._book = url, book
        self._tickets: dict[str, str] = {}  # by key: each serves one request
        self._headers = {"X-Forwarded-For": address or _own_address(name)}
        told = _until(
            lambda: call(url, "POST", "/sessions", {"user": name}, self._headers),
            lambda told: told.status == 201,
            patience_s,
        )
        self._headers["Authorization"] = f"Bearer {told.body['token']}"

    def ask(self, key: str = "first", quantity: int = 1, via: str | None = None, ticket: str = "") -> Told:
        """One attempt to buy, as it was answered; with his own ticket, or with one that somebody has given him."""
        sent = self._tickets[key] = ticket or self._tickets.get(key) or self.fetch_ticket()
        began = now_ms()
        told = call(
            via or self._url, "POST", f"/sales/{self.sale}/purchases", {"quantity": quantity},
            {**self._headers, "Idempotency-Key": key, "Purchase-Ticket": sent},
        )  # fmt: skip
        if told.status == 403:
            del self._tickets[key]  # too early, or its time was over
        known = {name: told.body[name] for name in PURCHASE_PICKS if name in told.body}
        self._book.write(
            "purchase", began, user=self.name, key=key, sale=self.sale, quantity=quantity, status=told.status,
            address=self._headers["X-Forwarded-For"], ticket=fingerprint(sent), **known, **_why(told),
        )  # fmt: skip
        return told

    def fetch_ticket(self) -> str:
        began = now_ms()
        told = call(self._url, "POST", f"/sales/{self.sale}/ticket", {}, self._headers)
        ticket = str(told.body.get("ticket", ""))
        given = {"ticket": fingerprint(ticket), "expires_at_ms": told.body["expires_at_ms"]} if ticket else {}
        self._book.write("ticket", began, user=self.name, sale=self.sale, status=told.status, **given, **_why(told))
        return ticket

    def buy(self, key: str = "first", quantity: int = 1, via: str | None = None) -> Told:
        """Again until it is accepted or refused for good."""
        return _until(lambda: self.ask(key, quantity, via), lambda told: told.status not in AGAIN)

    def insist(self) -> Told:
        """Again whatever he is told, until he is accepted or patience is over."""
        return _until(self.ask, lambda told: told.status == 202)

    def look(self, request: str) -> dict[str, Any]:
        began = now_ms()
        told = call(self._url, "GET", f"/purchases/{request}", None, self._headers)
        seen = {name: told.body[name] for name in ("state", "order_id", "may_buy_again") if name in told.body}
        self._book.write("poll", began, user=self.name, request_id=request, status=told.status, **seen)
        return told.body if told.status == 200 else {}

    def wait_for(self, request: str, *states: str) -> dict[str, Any]:
        return _until(lambda: self.look(request), lambda seen: seen.get("state") in states)

    def act(self, order: str, verb: str) -> Told:
        began = now_ms()
        told = call(self._url, "POST", f"/orders/{order}/{verb}", {}, self._headers)
        self._book.write(verb, began, user=self.name, order_id=order, status=told.status, **_why(told))
        return told


class Stragglers:
    """They keep coming, one after the other, for as long as something is being broken; nobody waits for an answer."""

    def __init__(self, url: str, sale: int, book: Book, name: str) -> None:
        self._url, self._sale, self._book, self._name = url, sale, book, name
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(2 * ANSWER_S + PATIENCE_S)

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(STRAGGLE_S):
            number += 1
            try:
                Buyer(self._url, f"{self._name}-{number}", self._sale, self._book, patience_s=1.0).ask()
            except KeyError:
                continue  # nobody lets him in just now


def _why(told: Told) -> dict[str, str]:
    """The kind of a refusal, as the crowd's log has it."""
    return {"problem": str(told.body["type"])} if told.body.get("type") else {}


def call(url: str, method: str, path: str, body: object, headers: dict[str, str]) -> Told:
    """One request to the API."""
    request = urllib.request.Request(
        f"{url}/api/v1{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **headers},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            return Told(answer.status, json.load(answer))
    except urllib.error.HTTPError as error:
        return Told(error.code, _problem(error.read()))
    except (OSError, ValueError) as fault:
        return Told(0, {"type": f"{type(fault).__name__}: {fault}"})


def _problem(content: bytes) -> dict[str, Any]:
    try:
        said = json.loads(content or b"{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _until(act: Callable[[], Item], suffices: Callable[[Item], object], patience_s: float = PATIENCE_S) -> Item:
    """Until it suffices or patience is over: then what came last."""
    give_up = time.monotonic() + patience_s
    while True:
        got = act()
        if suffices(got) or time.monotonic() > give_up:
            return got
        time.sleep(0.3)


def at_once(acts: Sequence[Callable[[], Item]]) -> list[Item]:
    """All of them at the same instant, as nearly as threads can."""
    ready = threading.Barrier(len(acts))

    def one(act: Callable[[], Item]) -> Item:
        ready.wait(30)
        return act()

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(one, acts))


def _own_address(name: str) -> str:
    """Each buyer comes from elsewhere: what one address may hold is not what most cases are about."""
    low, middle, high = hashlib.sha256(name.encode()).digest()[:3]
    return f"10.{high}.{middle}.{low}"
