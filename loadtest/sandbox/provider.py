"""A payment provider that can misbehave (loadtest/sandbox/behaviour.py) and sends signed callbacks over HTTP.

POST /payments {id, order_id, amount, callback_url}   → {state, reference}      GET /payments/ID
POST /payments/ID/void   POST /payments/ID/refund {key}
GET /movements?after=N&limit=M                        → {movements, last}: its log, line by line
POST /control {mode, delay_s, payment|order}          the behaviour of new payments, or of one
POST /control {answers, delay_s, times, only}         the behaviour of requests
"""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

from loadtest.sandbox.behaviour import BadControl, Behaviour
from loadtest.sandbox.http_server import EvidenceLog, SandboxResponse, open_storage

TICK_S = 0.05
RETRY_S = 1.0
CALLBACK_ATTEMPTS_MAX = 30
MOVEMENTS_MAX = 1000
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")

_TABLES = """
CREATE TABLE IF NOT EXISTS payment (id TEXT PRIMARY KEY, order_id TEXT, amount INTEGER, state TEXT, reference TEXT,
                                    callback_url TEXT, pay_at REAL, times INTEGER);
CREATE TABLE IF NOT EXISTS movement (number INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT, payment TEXT, order_id TEXT,
                                     amount INTEGER);
CREATE TABLE IF NOT EXISTS callback (id TEXT PRIMARY KEY, payment TEXT, kind TEXT, due REAL, tries INTEGER, url TEXT);
"""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """A redirect would carry the signature to another host, so it counts as an error instead."""


_without_redirects = urllib.request.build_opener(_NoRedirects)


class Provider:
    """It sends signed callbacks only to known hosts, because a signed callback can be turned into money."""

    def __init__(self, folder: Path, secret: str, callback_hosts: Collection[str] = ()) -> None:
        self._secret = secret
        self._callback_hosts = {*LOOPBACK_HOSTS, *callback_hosts}
        self._log = EvidenceLog(folder / "provider.jsonl")
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self.behaviour = Behaviour()
        self._db = open_storage(folder / "provider.sqlite")
        self._db.executescript(_TABLES)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=5)
        self.close()

    def close(self) -> None:
        self._db.close()
        self._log.close()

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def handle(self, method: str, path: str, body: dict[str, Any], headers: Mapping[str, str]) -> SandboxResponse:
        if (method, path) == ("POST", "/control"):
            return self._control(body)
        with self.behaviour.apply(path) as instead:
            if instead is not None:
                return instead
            with self._lock:
                return self._route(method, urlsplit(path).path.strip("/").split("/"), path, body)

    def _route(self, method: str, parts: list[str], path: str, body: dict[str, Any]) -> SandboxResponse:
        match (method, parts):
            case ("POST", ["payments"]):
                return self._open_payment(body)
            case ("GET", ["payments", payment]):
                return self._payment_response(payment)
            case ("POST", ["payments", payment, "void"]):
                self._move(payment, "open", "voided")
                return self._payment_response(payment)
            case ("POST", ["payments", payment, "refund"]):
                if self._move(payment, "captured", "refunded"):
                    self._schedule_callback(payment, "refunded", 0.0)
                return self._payment_response(payment)
            case ("GET", ["movements"]):
                return self._movements(parse_qs(urlsplit(path).query))
        return 404, {"error": "unknown address"}

    def _open_payment(self, body: dict[str, Any]) -> SandboxResponse:
        try:
            payment, order, amount = str(UUID(body["id"])), str(body["order_id"]), int(body["amount"])
            url = str(body["callback_url"])
        except (KeyError, TypeError, ValueError, AttributeError):
            return 400, {"error": "required: id (a UUID), order_id, amount and callback_url"}
        if not self._may_call(url):
            return 400, {"error": f"callback_url must be http(s) on one of {', '.join(sorted(self._callback_hosts))}"}
        behaviour = self.behaviour.for_payment(payment, order)
        capture_at = None if behaviour.capture_after_s is None else time.time() + behaviour.capture_after_s
        inserted = self._db.execute(
            "INSERT OR IGNORE INTO payment VALUES (?, ?, ?, 'open', ?, ?, ?, ?)",
            (payment, order, amount, f"ref-{uuid4().hex[:12]}", url, capture_at, behaviour.callbacks),
        )
        if inserted.rowcount:
            self._record("opened", payment)
        return self._payment_response(payment)

    def _may_call(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.hostname in self._callback_hosts

    def _payment_response(self, payment: str) -> SandboxResponse:
        row = self._db.execute("SELECT state, reference FROM payment WHERE id = ?", (payment,)).fetchone()
        return (404, {"error": "unknown payment"}) if row is None else (200, {"state": row[0], "reference": row[1]})

    def _movements(self, query: dict[str, list[str]]) -> SandboxResponse:
        try:
            after, limit = (int(query.get(name, [default])[0]) for name, default in (("after", "0"), ("limit", "100")))
        except ValueError:
            return 400, {"error": "after and limit must be integers"}
        rows = self._db.execute(
            "SELECT number, what, payment, order_id, amount FROM movement WHERE number > ? ORDER BY number LIMIT ?",
            (after, max(1, min(limit, MOVEMENTS_MAX))),
        )
        names = ("number", "what", "payment", "order", "amount")
        lines = [dict(zip(names, row, strict=True)) for row in rows]
        last = self._db.execute("SELECT coalesce(max(number), 0) FROM movement").fetchone()[0]
        return 200, {"movements": lines, "last": last}

    def _control(self, body: dict[str, Any]) -> SandboxResponse:
        try:
            self.behaviour.control(body)
        except BadControl as bad:
            return 400, {"error": str(bad)}
        self._log.write("control", said=body)
        return 200, {}

    # ── captures and callbacks ───────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while not self._stopping.wait(TICK_S):
            with self._lock:
                self._capture_due()
                due = self._db.execute(
                    "SELECT id, payment, kind, tries, url FROM callback WHERE due <= ? LIMIT 200", (time.time(),)
                ).fetchall()
            for callback, payment, kind, tries, url in due:
                self._deliver(callback, payment, kind, tries, url)

    def _capture_due(self) -> None:
        states = ("open", "voided" if self.behaviour.may_capture_voided else "open")
        rows = self._db.execute(
            "SELECT id, order_id, times, state FROM payment WHERE state IN (?, ?) AND pay_at <= ?",
            (*states, time.time()),
        ).fetchall()
        for payment, order, times, state in rows:
            behaviour = self.behaviour.for_payment(payment, order)
            if state in behaviour.capturable_states and self._move(payment, state, "captured"):
                delay_s = random.uniform(0, behaviour.delay_s) if behaviour.mode == "out_of_order" else 0.0
                for number in range(times):
                    self._schedule_callback(payment, "captured", delay_s + 0.2 * number, again=number > 0)

    def _move(self, payment: str, before: str, after: str) -> bool:
        changed = self._db.execute(
            "UPDATE payment SET state = ? WHERE id = ? AND state = ?", (after, payment, before)
        ).rowcount
        if changed:
            self._record(after, payment)
        return bool(changed)

    def _record(self, what: str, payment: str) -> None:
        order, amount = self._db.execute("SELECT order_id, amount FROM payment WHERE id = ?", (payment,)).fetchone()
        self._db.execute(
            "INSERT INTO movement (what, payment, order_id, amount) VALUES (?, ?, ?, ?)", (what, payment, order, amount)
        )
        self._log.write(what, payment=payment, order=order, amount=amount)

    def _schedule_callback(self, payment: str, kind: str, delay_s: float, *, again: bool = False) -> None:
        url = self._db.execute("SELECT callback_url FROM payment WHERE id = ?", (payment,)).fetchone()[0]
        name = f"cb-{payment}-{kind}{'-again' if again else ''}"
        row = (name, payment, kind, time.time() + delay_s, 0, url)
        self._db.execute("INSERT OR IGNORE INTO callback VALUES (?, ?, ?, ?, ?, ?)", row)

    def _deliver(self, callback: str, payment: str, kind: str, tries: int, url: str) -> None:
        body = json.dumps({"id": callback.removesuffix("-again"), "payment": payment, "kind": kind}).encode()
        at_s = int(time.time())
        digest = hmac.new(self._secret.encode(), f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
        request = urllib.request.Request(
            url,
            data=body,
            headers={"Content-Type": "application/json", "X-Provider-Signature": f"t={at_s},v1={digest}"},
        )
        try:
            with _without_redirects.open(request, timeout=5):
                is_delivered = True
        except (OSError, urllib.error.URLError):
            is_delivered = False
        with self._lock:
            if is_delivered or tries >= CALLBACK_ATTEMPTS_MAX:
                self._db.execute("DELETE FROM callback WHERE id = ?", (callback,))
                self._log.write("callback", payment=payment, kind=kind, heard=is_delivered)
            else:
                self._db.execute(
                    "UPDATE callback SET due = ?, tries = tries + 1 WHERE id = ?", (time.time() + RETRY_S, callback)
                )
