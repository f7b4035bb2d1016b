"""C, P, N, F: logs of JSON lines. The crowd's ends with a count and a checksum; without them it was cut off."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Any

import orjson

from seckill.consistency.identity import Id, identity
from seckill.consistency.rows import REQUESTS, Attempt, Called, ProviderLine, Sight, SinkLine

BLOCK = 4 * 1024 * 1024


@dataclass(slots=True)
class Crowd:
    """`sights` are changes: of what a buyer saw again and again, the first time and the last; `looks` counts all."""

    attempts: list[Attempt] = field(default_factory=list)
    sights: list[Sight] = field(default_factory=list)
    called: list[Called] = field(default_factory=list)
    looks: int = 0
    sales: set[int] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)


def crowd(paths: list[Path]) -> Crowd:
    """All logs of all workers."""
    found = Crowd()
    for path in paths:
        try:
            _read_crowd(path, found)
        except (OSError, ValueError, KeyError, TypeError) as error:
            found.faults.append(f"{path.name}: {error!r}")
    return found


def _read_crowd(path: Path, found: Crowd) -> None:
    """Line by line: a log may be larger than memory."""
    count, last, is_whole, total = 0, b"", True, hashlib.sha256()
    memory = _Memory(found.sights)
    with path.open("rb") as file:
        while block := file.readlines(BLOCK):
            total.update(last)
            last = block.pop()
            total.update(b"".join(block))
            count += len(block) + 1
            is_whole = last.endswith(b"\n")
            for line in [*block, last] if is_whole else block:
                _note(orjson.loads(line), found, memory)
    if not count:
        found.faults.append(f"{path.name}: empty")
        return
    said = orjson.loads(last) if is_whole else {}
    if said.get("what") != "end":
        found.faults.append(f"{path.name}: cut off, it has no closing line")
    elif said["count"] != count - 1 or said["sha256"] != total.hexdigest():
        found.faults.append(f"{path.name}: its closing count or checksum is not that of its lines")


def _note(said: dict[str, Any], found: Crowd, memory: _Memory) -> None:
    match said["what"]:
        case "begin":
            found.sales.add(said["sale"])
        case "purchase":
            request = said.get("request_id")
            found.attempts.append(
                Attempt(
                    said["at_ms"], said["took_ms"], said["user"], said["key"], said["sale"], said["quantity"],
                    said["status"], None if request is None else identity(request), said.get("partition"),
                    said.get("offset"), said.get("topic", REQUESTS), _problem(said), said.get("ticket"),
                    said.get("address", ""), said.get("stock_version"),
                )
            )  # fmt: skip
        case "poll":
            found.looks += 1
            memory.add(
                Sight(
                    said["at_ms"], said["took_ms"], said["user"], identity(said["request_id"]), said["status"],
                    said.get("state", ""), bool(said.get("may_buy_again", False)), _known(said.get("order_id")),
                )
            )  # fmt: skip
        case "ticket" | "pay" | "cancel" | "session" | "sale":
            if said["what"] in ("session", "sale") and said["status"] in (200, 201):
                return  # as many as there are buyers, and nothing follows from them
            found.called.append(
                Called(
                    said["at_ms"], said["took_ms"], said["what"], said["user"], said.get("sale"),
                    _known(said.get("order_id")), said["status"], _problem(said), said.get("ticket", ""),
                    said.get("expires_at_ms"),
                )
            )  # fmt: skip


def _known(name: str | None) -> Id | None:
    return None if name is None else identity(name)


def _problem(said: dict[str, Any]) -> str:
    return intern(said.get("problem", "").removeprefix("/problems/"))


class _Memory:
    """Sights of one log. While a buyer sees the same, only the first and the last of them are kept: whatever anybody
    else was shown in between lies between these two, so that nothing which could be found is lost."""

    def __init__(self, sights: list[Sight]) -> None:
        self._sights = sights
        self._last: dict[Id, int] = {}  # where the last one of a request lies
        self._closed: set[int] = set()  # of these, those which are not the first of what they saw

    def add(self, sight: Sight) -> None:
        at = self._last.get(sight.request_id)
        is_same = at is not None and self._sights[at][2:] == sight[2:]
        if is_same and at in self._closed:
            self._sights[at] = sight
            return
        self._last[sight.request_id] = len(self._sights)
        if is_same:
            self._closed.add(len(self._sights))
        self._sights.append(sight)


def provider(path: Path) -> tuple[list[ProviderLine], list[str]]:
    found = []
    lines, faults = _lines(path)
    for said in lines:
        try:
            if said["what"] in ("opened", "captured", "voided", "refunded"):
                found.append(
                    ProviderLine(
                        said["at_ms"],
                        said["what"],
                        identity(said["payment"]),
                        int(said["amount"]),
                        _known(said.get("order")),
                    )
                )
        except (ValueError, KeyError, TypeError) as error:
            faults.append(f"{path.name}: {error!r}")
    return found, faults


def sink(path: Path) -> tuple[list[SinkLine], list[str]]:
    found = []
    lines, faults = _lines(path)
    for said in lines:
        try:
            if said["what"] in ("effect", "again", "refused"):
                event, _, channel = said["key"].partition(":")
                if said.get("channel", channel) != channel:
                    raise ValueError(f"the key {said['key']} is not of channel {said['channel']}")
                trace_id = said.get("traceparent", "")[3:35]
                user = said.get("user", "")
                found.append(
                    SinkLine(
                        said["at_ms"], said["what"], identity(event), channel, user, trace_id, said.get("text", "")
                    )
                )
        except (ValueError, KeyError, TypeError) as error:
            faults.append(f"{path.name}: {error!r}")
    return found, faults


def injected(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    lines, faults = _lines(path)
    return list(lines), faults


def observed(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """What the supervisor noticed. Where none watched, or nothing happened, there is no such file."""
    if not path.exists():
        return [], []
    lines, faults = _lines(path)
    return [line for line in lines if {"at_ms", "what", "name"} <= line.keys()], faults


def _lines(path: Path) -> tuple[Iterator[dict[str, Any]], list[str]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        return iter(()), [f"{path.name}: {error.strerror}"]
    lines = content.splitlines(keepends=True)
    whole = [line for line in lines if line.endswith(b"\n")]
    faults = [f"{path.name}: the last line is cut off"] if len(whole) < len(lines) else []
    try:
        return iter([orjson.loads(line) for line in whole]), faults
    except ValueError as error:
        return iter(()), [*faults, f"{path.name}: {error}"]
