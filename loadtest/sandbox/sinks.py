"""The sinks for messages: SMS, e-mail and push. Each key takes effect once. A sink can misbehave.

POST /sms|email|push  {key, user, text}          POST /control  {channel, mode, times}
Modes: ok · fail (503) · hang (no response for long, then 503) · cut (processed, but the connection is cut before the
response) · refuse (400)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadtest.sandbox.http_server import ConnectionCut, EvidenceLog, SandboxResponse, open_storage

CHANNELS = ("sms", "email", "push")
MODES = ("ok", "fail", "hang", "cut", "refuse")
HANG_S = 30.0


class Sinks:
    def __init__(self, folder: Path) -> None:
        self._log = EvidenceLog(folder / "sinks.jsonl")
        self._lock = threading.Lock()
        self._modes = dict.fromkeys(CHANNELS, "ok")
        self._times: dict[str, int] = {}  # remaining requests in this mode, then ok again
        self._seen = open_storage(folder / "sinks.sqlite")
        self._seen.execute("CREATE TABLE IF NOT EXISTS seen (key TEXT PRIMARY KEY)")

    def close(self) -> None:
        self._seen.close()
        self._log.close()

    def handle(self, method: str, path: str, body: dict[str, Any], headers: Mapping[str, str]) -> SandboxResponse:
        channel = path.strip("/")
        if (method, channel) == ("POST", "control"):
            return self._control(body)
        if method != "POST" or channel not in CHANNELS:
            return 404, {"error": "unknown address; use POST /sms, /email, /push or /control"}
        key, user, text = body.get("key"), body.get("user"), body.get("text")
        if not (isinstance(key, str) and isinstance(user, str) and isinstance(text, str)):
            return 400, {"error": "required: key, user and text"}
        mode = self._next_mode(channel)
        if mode == "hang":
            time.sleep(HANG_S)
        if mode not in ("ok", "cut"):
            self._log.write("refused", channel=channel, key=key)
            return (400 if mode == "refuse" else 503), {"error": f"/control has set the mode {mode}"}
        with self._lock:
            fresh = self._seen.execute("INSERT OR IGNORE INTO seen VALUES (?)", (key,)).rowcount == 1
            self._log.write(
                "effect" if fresh else "again",
                channel=channel,
                key=key,
                user=user,
                text=text,
                traceparent=headers.get("traceparent", ""),
            )
        if mode == "cut":
            raise ConnectionCut
        return 200, {"fresh": fresh}

    def _next_mode(self, channel: str) -> str:
        with self._lock:
            mode = self._modes[channel]
            if channel in self._times:
                self._times[channel] -= 1
                if self._times[channel] <= 0:
                    self._modes[channel] = "ok"
                    del self._times[channel]
            return mode

    def _control(self, body: dict[str, Any]) -> SandboxResponse:
        channel, mode, times = body.get("channel"), body.get("mode"), body.get("times")
        if channel not in CHANNELS or mode not in MODES:
            return 400, {"error": f"channel must be one of {', '.join(CHANNELS)}, mode one of {', '.join(MODES)}"}
        if times is not None and (type(times) is not int or times < 1):
            return 400, {"error": f"times must be an integer above 0, got {times!r}"}
        with self._lock:
            self._modes[channel] = mode
            self._times.pop(channel, None)
            if times is not None:
                self._times[channel] = times
        self._log.write("control", channel=channel, mode=mode, times=times)
        return 200, {}
