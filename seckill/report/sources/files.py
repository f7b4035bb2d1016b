"""Shell: read the logs of the crowd, the payment provider, the sinks and the faults: files of JSON lines.

The crowd's log ends with a line that holds a count and a checksum. Without that line the log was cut off.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Any

import orjson

from seckill.report.identity import Id, identity
from seckill.report.rows import REQUESTS, Attempt, OtherCall, Poll, ProviderLine, SinkLine

BLOCK_BYTES = 4 * 1024 * 1024

LogContents = tuple[list[Any], list[str]]
"""The lines that were read, and why the log may be incomplete."""


@dataclass(slots=True)
class CrowdLog:
    """What all workers logged. `polls` keeps the first and the last of equal polls; `polls_logged` counts all."""

    attempts: list[Attempt] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    other_calls: list[OtherCall] = field(default_factory=list)
    polls_logged: int = 0
    sales: set[int] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)


def read_crowd_logs(paths: list[Path]) -> CrowdLog:
    crowd = CrowdLog()
    for path in paths:
        try:
            _read_crowd_log(path, crowd)
        except (OSError, ValueError, KeyError, TypeError) as error:
            crowd.faults.append(f"{path.name}: {error!r}")
    return crowd


def _read_crowd_log(path: Path, crowd: CrowdLog) -> None:
    """Read block by block, because a log may be larger than memory."""
    count, last, is_complete, checksum = 0, b"", True, hashlib.sha256()
    polls = _PollCompressor(crowd.polls)
    with path.open("rb") as file:
        while block := file.readlines(BLOCK_BYTES):
            checksum.update(last)
            last = block.pop()
            checksum.update(b"".join(block))
            count += len(block) + 1
            is_complete = last.endswith(b"\n")
            for line in [*block, last] if is_complete else block:
                _add_line(orjson.loads(line), crowd, polls)
    if not count:
        crowd.faults.append(f"{path.name}: empty")
        return
    closing = orjson.loads(last) if is_complete else {}
    if closing.get("what") != "end":
        crowd.faults.append(f"{path.name}: cut off, it has no closing line")
    elif closing["count"] != count - 1 or closing["sha256"] != checksum.hexdigest():
        crowd.faults.append(f"{path.name}: the count or checksum in its closing line does not match its lines")


def _add_line(line: dict[str, Any], crowd: CrowdLog, polls: _PollCompressor) -> None:
    match line["what"]:
        case "begin":
            crowd.sales.add(line["sale"])
        case "purchase":
            request = line.get("request_id")
            crowd.attempts.append(
                Attempt(
                    line["at_ms"], line["took_ms"], line["user"], line["key"], line["sale"], line["quantity"],
                    line["status"], None if request is None else identity(request), line.get("partition"),
                    line.get("offset"), line.get("topic", REQUESTS), _problem(line), line.get("ticket"),
                    line.get("address", ""), line.get("stock_version"),
                )
            )  # fmt: skip
        case "poll":
            crowd.polls_logged += 1
            polls.add(
                Poll(
                    line["at_ms"], line["took_ms"], line["user"], identity(line["request_id"]), line["status"],
                    line.get("state", ""), bool(line.get("may_buy_again", False)), _optional_id(line.get("order_id")),
                )
            )  # fmt: skip
        case "ticket" | "pay" | "cancel" | "session" | "sale":
            if line["what"] in ("session", "sale") and line["status"] in (200, 201):
                return  # no check uses these, and there is at least one for each buyer
            crowd.other_calls.append(
                OtherCall(
                    line["at_ms"], line["took_ms"], line["what"], line["user"], line.get("sale"),
                    _optional_id(line.get("order_id")), line["status"], _problem(line), line.get("ticket", ""),
                    line.get("expires_at_ms"),
                )
            )  # fmt: skip


def _optional_id(text: str | None) -> Id | None:
    return None if text is None else identity(text)


def _problem(line: dict[str, Any]) -> str:
    return intern(line.get("problem", "").removeprefix("/problems/"))


class _PollCompressor:
    """Of equal consecutive polls of a request keeps only the first and the last.

    No check loses anything: whatever another poll of the request showed in between lies between these two.
    """

    def __init__(self, polls: list[Poll]) -> None:
        self._polls = polls
        self._last: dict[Id, int] = {}  # index of the latest poll of each request
        self._repeats: set[int] = set()  # indexes of polls that repeat the one before

    def add(self, poll: Poll) -> None:
        at = self._last.get(poll.request_id)
        is_same = at is not None and self._polls[at][2:] == poll[2:]
        if is_same and at in self._repeats:
            self._polls[at] = poll
            return
        self._last[poll.request_id] = len(self._polls)
        if is_same:
            self._repeats.add(len(self._polls))
        self._polls.append(poll)


def read_provider_log(path: Path) -> tuple[list[ProviderLine], list[str]]:
    found = []
    lines, faults = _json_lines(path)
    for line in lines:
        try:
            if line["what"] in ("opened", "captured", "voided", "refunded"):
                payment, order = identity(line["payment"]), _optional_id(line.get("order"))
                found.append(ProviderLine(line["at_ms"], line["what"], payment, int(line["amount"]), order))
        except (ValueError, KeyError, TypeError) as error:
            faults.append(f"{path.name}: {error!r}")
    return found, faults


def read_sink_log(path: Path) -> tuple[list[SinkLine], list[str]]:
    found = []
    lines, faults = _json_lines(path)
    for line in lines:
        try:
            if line["what"] in ("effect", "again", "refused"):
                event, _, channel = line["key"].partition(":")
                if line.get("channel", channel) != channel:
                    raise ValueError(f"the key {line['key']} does not belong to channel {line['channel']}")
                trace_id = line.get("traceparent", "")[3:35]
                user, text = line.get("user", ""), line.get("text", "")
                found.append(SinkLine(line["at_ms"], line["what"], identity(event), channel, user, trace_id, text))
        except (ValueError, KeyError, TypeError) as error:
            faults.append(f"{path.name}: {error!r}")
    return found, faults


def read_fault_log(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    lines, faults = _json_lines(path)
    return list(lines), faults


def read_process_log(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """What the supervisor noticed. Without a supervisor, or if nothing happened, the file does not exist."""
    if not path.exists():
        return [], []
    lines, faults = _json_lines(path)
    return [line for line in lines if {"at_ms", "what", "name"} <= line.keys()], faults


def _json_lines(path: Path) -> tuple[Iterator[dict[str, Any]], list[str]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        return iter(()), [f"{path.name}: {error.strerror}"]
    lines = content.splitlines(keepends=True)
    complete = [line for line in lines if line.endswith(b"\n")]
    faults = [f"{path.name}: the last line is cut off"] if len(complete) < len(lines) else []
    try:
        return iter([orjson.loads(line) for line in complete]), faults
    except ValueError as error:
        return iter(()), [*faults, f"{path.name}: {error}"]
