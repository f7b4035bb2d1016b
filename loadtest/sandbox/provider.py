"""A payment provider that can misbehave: it pays late, twice, out of order or never, and calls back over HTTP.

POST /payments {id, order_id, amount, callback_url}   → {state, reference}      GET /payments/ID
POST /payments/ID/void   POST /payments/ID/refund {key}
POST /control {mode: at_once|late|twice|never, delay_s}     what becomes of payments begun from now on
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from uuid import uuid4

from loadtest.sandbox.serving import Answer, Log

MODES = ("at_once", "late", "twice", "never")
BEAT_S = 0.05
RETRY_S = 1.0
MOST_TRIES = 30

_TABLES = """
CREATE TABLE IF NOT EXISTS payment (id TEXT PRIMARY KEY, order_id TEXT, amount INTEGER, state TEXT, reference TEXT,
                                    callback_url TEXT, pay_at REAL, times INTEGER);
CREATE TABLE IF NOT EXISTS callback (id TEXT PRIMARY KEY, payment TEXT, kind TEXT, due REAL, tries INTEGER, url TEXT);
"""


class Provider:
    def __init__(self, folder: Path, secret: str) -> None:
        self._secret = secret
        self._log = Log(folder / "provider.jsonl")
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._mode, self._delay_s = "at_once", 0.0
        self._db = sqlite3.connect(folder / "provider.sqlite", check_same_thread=False, isolation_level=None)
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

    # ── what it is asked ─────────────────────────────────────────────────────────────────────────

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        parts = path.strip("/").split("/")
        with self._lock:
            match (method, parts):
                case ("POST", ["payments"]):
                    return self._open(body)
                case ("GET", ["payments", payment]):
                    return self._shown(payment)
                case ("POST", ["payments", payment, "void"]):
                    self._move(payment, ("open",), "voided")
                    return self._shown(payment)
                case ("POST", ["payments", payment, "refund"]):
                    if self._move(payment, ("captured",), "refunded"):
                        self._call_back(payment, "refunded", 0.0)
                    return self._shown(payment)
                case ("POST", ["control"]):
                    return self._control(body)
        return 404, {"error": "unknown address"}

    def _open(self, body: dict[str, Any]) -> Answer:
        try:
            payment, order, amount, url = body["id"], body["order_id"], int(body["amount"]), body["callback_url"]
        except (KeyError, TypeError, ValueError):
            return 400, {"error": "id, order_id, amount and callback_url"}
        pay_at = None if self._mode == "never" else time.time() + self._delay_s
        made = self._db.execute(
            "INSERT OR IGNORE INTO payment VALUES (?, ?, ?, 'open', ?, ?, ?, ?)",
            (payment, order, amount, f"ref-{uuid4().hex[:12]}", url, pay_at, 2 if self._mode == "twice" else 1),
        )
        if made.rowcount:
            self._log.write("opened", payment=payment, order=order, amount=amount)
        return self._shown(payment)

    def _shown(self, payment: str) -> Answer:
        row = self._db.execute("SELECT state, reference FROM payment WHERE id = ?", (payment,)).fetchone()
        return (404, {"error": "unknown payment"}) if row is None else (200, {"state": row[0], "reference": row[1]})

    def _control(self, body: dict[str, Any]) -> Answer:
        if body.get("mode") not in MODES:
            return 400, {"error": f"mode is one of {', '.join(MODES)}"}
        self._mode, self._delay_s = body["mode"], float(body.get("delay_s", 0))
        self._log.write("control", mode=self._mode, delay_s=self._delay_s)
        return 200, {}

    # ── what it does by itself ───────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while not self._stopping.wait(BEAT_S):
            with self._lock:
                self._capture_due()
                due = self._db.execute(
                    "SELECT id, payment, kind, tries, url FROM callback WHERE due <= ? LIMIT 200", (time.time(),)
                ).fetchall()
            for callback, payment, kind, tries, url in due:
                self._deliver(callback, payment, kind, tries, url)

    def _capture_due(self) -> None:
        rows = self._db.execute(
            "SELECT id, times FROM payment WHERE state = 'open' AND pay_at <= ?", (time.time(),)
        ).fetchall()
        for payment, times in rows:
            if self._move(payment, ("open",), "captured"):
                for number in range(times):
                    self._call_back(payment, "captured", 0.2 * number)

    def _move(self, payment: str, before: tuple[str, ...], after: str) -> bool:
        marks = ",".join("?" * len(before))
        changed = self._db.execute(
            f"UPDATE payment SET state = ? WHERE id = ? AND state IN ({marks})", (after, payment, *before)
        )
        if changed.rowcount:
            amount = self._db.execute("SELECT amount FROM payment WHERE id = ?", (payment,)).fetchone()[0]
            self._log.write(after, payment=payment, amount=amount)
        return bool(changed.rowcount)

    def _call_back(self, payment: str, kind: str, delay_s: float) -> None:
        url = self._db.execute("SELECT callback_url FROM payment WHERE id = ?", (payment,)).fetchone()[0]
        row = (f"cb-{payment}-{kind}", payment, kind, time.time() + delay_s, 0, url)
        if delay_s:
            row = (f"cb-{payment}-{kind}-again", *row[1:])
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
            with urllib.request.urlopen(request, timeout=5):
                heard = True
        except (OSError, urllib.error.URLError):
            heard = False
        with self._lock:
            if heard or tries >= MOST_TRIES:
                self._db.execute("DELETE FROM callback WHERE id = ?", (callback,))
                self._log.write("callback", payment=payment, kind=kind, heard=heard)
            else:
                self._db.execute(
                    "UPDATE callback SET due = ?, tries = tries + 1 WHERE id = ?", (time.time() + RETRY_S, callback)
                )
