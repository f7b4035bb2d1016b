"""C, P, N, F: logs of JSON lines. The crowd's ends with a count and a checksum; without them it was cut off."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from seckill.consistency.rows import Attempt, ProviderLine, Sight, SinkLine


class Crowd(NamedTuple):
    attempts: list[Attempt]
    sights: list[Sight]
    sales: set[int]
    faults: list[str]


def crowd(paths: list[Path]) -> Crowd:
    """All logs of all workers."""
    found = Crowd([], [], set(), [])
    for path in paths:
        try:
            _read_crowd(path, found)
        except (OSError, ValueError, KeyError, TypeError) as error:
            found.faults.append(f"{path.name}: {error!r}")
    return found


def _read_crowd(path: Path, found: Crowd) -> None:
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    if not lines:
        found.faults.append(f"{path.name}: empty")
        return
    last = json.loads(lines[-1]) if lines[-1].endswith(b"\n") else {}
    if last.get("what") != "end":
        found.faults.append(f"{path.name}: cut off, it has no closing line")
    elif last["count"] != len(lines) - 1 or last["sha256"] != hashlib.sha256(b"".join(lines[:-1])).hexdigest():
        found.faults.append(f"{path.name}: its closing count or checksum is not that of its lines")
    for line in lines if line_is_whole(lines) else lines[:-1]:
        said = json.loads(line)
        match said["what"]:
            case "begin":
                found.sales.add(said["sale"])
            case "purchase":
                found.attempts.append(
                    Attempt(
                        said["at_ms"], said["took_ms"], said["user"], said["key"], said["sale"], said["quantity"],
                        said["status"], _uuid(said.get("request_id")), said.get("partition"), said.get("offset"),
                    )
                )  # fmt: skip
            case "poll":
                found.sights.append(
                    Sight(
                        said["at_ms"], said["took_ms"], said["user"], UUID(said["request_id"]), said["status"],
                        said.get("state", ""), bool(said.get("may_buy_again", False)),
                    )
                )  # fmt: skip


def line_is_whole(lines: list[bytes]) -> bool:
    return lines[-1].endswith(b"\n")


def provider(path: Path) -> tuple[list[ProviderLine], list[str]]:
    found = []
    lines, faults = _lines(path)
    for said in lines:
        try:
            if said["what"] in ("opened", "captured", "voided", "refunded"):
                found.append(ProviderLine(said["at_ms"], said["what"], UUID(said["payment"]), int(said["amount"])))
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
                trace_id = said.get("traceparent", "")[3:35]
                user = said.get("user", "")
                found.append(SinkLine(said["at_ms"], said["what"], UUID(event), channel, user, trace_id))
        except (ValueError, KeyError, TypeError) as error:
            faults.append(f"{path.name}: {error!r}")
    return found, faults


def injected(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    lines, faults = _lines(path)
    return list(lines), faults


def _lines(path: Path) -> tuple[Iterator[dict[str, Any]], list[str]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        return iter(()), [f"{path.name}: {error.strerror}"]
    lines = content.splitlines(keepends=True)
    whole = [line for line in lines if line.endswith(b"\n")]
    faults = [f"{path.name}: the last line is cut off"] if len(whole) < len(lines) else []
    try:
        return iter([json.loads(line) for line in whole]), faults
    except ValueError as error:
        return iter(()), [*faults, f"{path.name}: {error}"]


def _uuid(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)
