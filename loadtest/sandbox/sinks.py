"""Where messages end: SMS, e-mail and push. A key is an effect once; a sink can be told to fail or to hang.

POST /sms|email|push  {key, user, text}          POST /control  {channel, mode: ok|fail|hang}
"""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from loadtest.sandbox.serving import Answer, Log

CHANNELS = ("sms", "email", "push")
MODES = ("ok", "fail", "hang")
HANG_S = 30.0


class Sinks:
    def __init__(self, folder: Path) -> None:
        self._log = Log(folder / "sinks.jsonl")
        self._lock = threading.Lock()
        self._modes = dict.fromkeys(CHANNELS, "ok")
        self._seen = sqlite3.connect(folder / "sinks.sqlite", check_same_thread=False, isolation_level=None)
        self._seen.execute("CREATE TABLE IF NOT EXISTS seen (key TEXT PRIMARY KEY)")

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        channel = path.strip("/")
        if channel == "control" and body.get("channel") in CHANNELS and body.get("mode") in MODES:
            self._modes[body["channel"]] = body["mode"]
            self._log.write("control", channel=body["channel"], mode=body["mode"])
            return 200, {}
        if method != "POST" or channel not in CHANNELS:
            return 404, {"error": "POST /sms, /email, /push or /control"}
        key, user, text = body.get("key"), body.get("user"), body.get("text")
        if not (isinstance(key, str) and isinstance(user, str) and isinstance(text, str)):
            return 400, {"error": "key, user and text"}
        if self._modes[channel] == "hang":
            time.sleep(HANG_S)
        if self._modes[channel] != "ok":
            self._log.write("refused", channel=channel, key=key)
            return 503, {"error": "the sink was told to fail"}
        with self._lock:
            fresh = self._seen.execute("INSERT OR IGNORE INTO seen VALUES (?)", (key,)).rowcount == 1
            self._log.write("effect" if fresh else "again", channel=channel, key=key, user=user, text=text)
        return 200, {"fresh": fresh}
