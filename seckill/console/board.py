"""The board: its page, and its content as JSON, which the page loads several times a second."""

from __future__ import annotations

import re
import time
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET

from seckill.console import labels
from seckill.console.board_events import event_json
from seckill.console.labels import INVARIANT_GROUPS, PROCESS_STATES, Hop, state_label
from seckill.console.monitor import (
    BoardMonitor,
    GroupPartition,
    Progress,
    SourceReading,
    has_several_brokers,
    now_ms,
    shared_monitor,
)
from seckill.console.notices import pop_notice
from seckill.console.queries import BoardCounts
from seckill.console.stack_operations import available_faults
from seckill.console.staff import operator_required
from seckill.messaging.group_switches import OPTIONAL_GROUPS
from seckill.messaging.topics import TOPICS
from seckill.report.live.residuals import worst_state
from seckill.web.purchase_states import PurchaseState

FAST_STALE_S, SLOW_STALE_S = 3.0, 30.0
TIME_DIGITS_MAX = 15
STAGES = "|".join(["gateway", *(hop.group.replace(".", "-") for hop in labels.HOPS)])
CONTAINER_NAME = re.compile(f"-({STAGES})-[0-9]+$")


@require_GET
@operator_required
def board(request: HttpRequest) -> HttpResponse:
    shared_monitor().keep_running()
    has_stack = bool(settings.ENVIRONMENT.stack_folder)
    hops = [
        {"group": hop.group, "title": hop.title, "topic": topics_of(hop)[0], "topics": " + ".join(topics_of(hop))}
        for hop in labels.HOPS
    ]
    context = {
        "groups": labels.GROUPS,
        "series": labels.SERIES,
        "chain": hops[: labels.CHAIN_HOPS],
        "fan": hops[labels.CHAIN_HOPS :],
        "optional_groups": OPTIONAL_GROUPS,
        "faults": available_faults(),
        "has_replicas": has_several_brokers(),
        "has_stack": has_stack,
        "has_process_dialog": has_stack and any(request.may.get(name) for name in ("operate", "break")),  # type: ignore[attr-defined]
        "notice": pop_notice(request),
    }
    return render(request, "console/board.html", context)


@require_GET
@operator_required
def live(request: HttpRequest) -> HttpResponse:
    monitor = shared_monitor()
    monitor.keep_running()
    since = request.GET.get("since", "0")
    is_time = since.isdecimal() and len(since) <= TIME_DIGITS_MAX
    return JsonResponse(board_json(monitor, int(since) if is_time else 0))


def board_json(monitor: BoardMonitor, since_ms: int) -> dict[str, Any]:
    """`since_ms`: the newest point of traffic that the page already has."""
    now, at_ms = time.monotonic(), now_ms()
    totals = monitor.traffic.latest_totals()
    return {
        "now_ms": at_ms,
        "sources": {
            "progress": _source_json(monitor.progress, now, FAST_STALE_S),
            "counts": _source_json(monitor.counts, now, SLOW_STALE_S),
            "books": _source_json(monitor.books, now, SLOW_STALE_S),
            "stack": _source_json(monitor.stack, now, FAST_STALE_S),
            "replicas": _source_json(monitor.replicas, now, FAST_STALE_S),
        },
        "points": monitor.traffic.since(since_ms),
        "totals": totals and totals._asdict(),
        "events": [event_json(mark) for mark in monitor.marks.listed(at_ms)],
        "hops": _hops_json(monitor, now),
        "books": _books_json(monitor),
        "processes": _processes_json(monitor),
        "replicas": None if monitor.replicas.value is None else [each._asdict() for each in monitor.replicas.value],
        **_counts_json(monitor.counts.value),
    }


def _source_json(reading: SourceReading[Any], now: float, stale_s: float) -> dict[str, Any]:
    age_s = reading.age_s(now)
    return {"age_s": age_s, "is_stale": age_s is not None and age_s > stale_s, "fault": reading.fault}


def _books_json(monitor: BoardMonitor) -> dict[str, Any] | None:
    if monitor.books.value is None:
        return None
    invariants = [
        {
            "name": each.name,
            "title": gettext(each.title),
            "state": each.state.value,
            "group": INVARIANT_GROUPS[each.name],
            "residual": each.residual,
            "in_flight": each.in_flight,
        }
        for each in monitor.books.value
    ]
    return {"worst": worst_state(monitor.books.value).value, "invariants": invariants}


def _processes_json(monitor: BoardMonitor) -> list[dict[str, Any]] | None:
    """The processes of the stack, and each Redis that is not one of them. None: nothing has been read yet."""
    if monitor.stack.value is None and (settings.ENVIRONMENT.stack_folder or monitor.redis.value is None):
        return None
    processes = [
        {
            "name": row["name"],
            "service": _service_of(row["name"]),
            "is_up": row["state"] == "up",
            "is_starting": row["state"] in ("starting", "waiting"),
            "state": state_label(PROCESS_STATES, row["state"]),
            "restarts": row["restarts"],
            "missing": row.get("missing", ""),
            "is_outside": not settings.ENVIRONMENT.stack_folder,
        }
        for row in monitor.stack.value or ()
    ]
    own = {process["name"] for process in processes}
    servers = (monitor.redis.value or {}).items()
    return processes + [_outside_json(name, fault) for name, fault in servers if name not in own]


def _outside_json(name: str, fault: str) -> dict[str, Any]:
    """A server that the stack cannot start or stop."""
    return {
        "name": name,
        "service": name,
        "is_up": not fault,
        "is_starting": False,
        "state": state_label(PROCESS_STATES, "no answer" if fault else "up"),
        "restarts": 0,
        "missing": fault,
        "is_outside": True,
    }


def _service_of(process: str) -> str:
    """`orders.2` is a process of the service `orders`; `orders.sweep` is a service with one process. In containers, it
    is `seckill-orders-2`."""
    if found := CONTAINER_NAME.search(process):
        return found[1].replace("-", ".")
    name, _, number = process.rpartition(".")
    return name if number.isdecimal() else process


def _counts_json(counts: BoardCounts | None) -> dict[str, Any]:
    if counts is None:
        return {"sales": None, "outcomes": None, "unfinished": None}
    total = sum(outcome.requests for outcome in counts.outcomes)
    return {
        "sales": [sale._asdict() for sale in counts.sales],
        "outcomes": [
            {"label": str(PurchaseState(outcome.state).label), "share": outcome.requests / total, **outcome._asdict()}
            for outcome in counts.outcomes
        ],
        "unfinished": counts.unfinished._asdict(),
        "switched_off": counts.switched_off,
    }


def _hops_json(monitor: BoardMonitor, now: float) -> list[dict[str, Any]] | None:
    if monitor.progress.value is None:
        return None
    latencies = {} if monitor.counts.value is None else monitor.counts.value.latencies
    hops = []
    for hop in labels.HOPS:
        partitions = _partitions_json(hop, monitor.progress.value, monitor.owners.value or {}, now)
        latency = latencies.get(hop.latency)
        hops.append(
            {
                "group": hop.group,
                "title": str(hop.title),
                "total": sum(each["offset"] for each in partitions),
                "lag": sum(each["lag"] for each in partitions),
                "p50_ms": latency and latency.p50_ms,
                "p99_ms": latency and latency.p99_ms,
                "partitions": partitions,
            }
        )
    return hops


def topics_of(hop: Hop) -> list[str]:
    return [topic.name for topic in TOPICS.values() if hop.group in topic.readers]


def _partitions_json(
    hop: Hop, progress: Progress, owners: dict[GroupPartition, str], now: float
) -> list[dict[str, Any]]:
    rows = []
    for topic in (topic for topic in TOPICS.values() if hop.group in topic.readers):
        for (name, partition), end in sorted(progress.ends.items()):
            if name != topic.name:
                continue
            key = (hop.group, name, partition)
            offset = progress.offsets.get(key, 0)
            rows.append(
                {
                    "topic": name,
                    "partition": partition,
                    "end": end,
                    "offset": offset,
                    "lag": max(0, end - offset),
                    "consumer": owners.get(key, ""),
                    "moved_s": round(now - progress.moved_at[key], 1) if key in progress.moved_at else None,
                }
            )
    return rows
