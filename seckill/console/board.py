"""The board: the page itself, and what it shows, as JSON, a few times a second from what `watching` has seen."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET

from seckill.consistency.live.residuals import worst
from seckill.console import operating, words
from seckill.console.staff import for_operators
from seckill.console.watching import Look, Watching, watching
from seckill.streams.switches import OPTIONAL
from seckill.topics import TOPICS

QUICK_STALE_S, SLOW_STALE_S = 3.0, 30.0


@require_GET
@for_operators
def board(request: HttpRequest) -> HttpResponse:
    watching().ask()
    told = {
        "optional": OPTIONAL,
        "faults": operating.faults(),
        "has_stack": bool(settings.ENVIRONMENT.stack_folder),
        "hops": words.HOPS,
        "said": request.session.pop("said", None),
    }
    return render(request, "console/board.html", told)


@require_GET
@for_operators
def live(request: HttpRequest) -> HttpResponse:
    seen = watching()
    seen.ask()
    since = request.GET.get("since", "0")
    return JsonResponse(told(seen, int(since) if since.isdecimal() and len(since) < 16 else 0))


def told(seen: Watching, since_ms: int) -> dict[str, Any]:
    now = time.monotonic()
    return {
        "now_ms": time.time_ns() // 1_000_000,
        "sources": {
            "quick": _source(seen.quick, now, QUICK_STALE_S),
            "counts": _source(seen.counts, now, SLOW_STALE_S),
            "books": _source(seen.books, now, SLOW_STALE_S),
            "stack": _source(seen.stack, now, QUICK_STALE_S),
        },
        "points": seen.peak.since(since_ms),
        "marks": [
            {"at_ms": mark.at_ms, "until_ms": mark.until_ms, "what": mark.what, "kind": mark.kind}
            for mark in seen.marks.listed()
        ],
        "hops": _hops(seen, now),
        "books": _books(seen),
        "stack": seen.stack.said,
        **_counts(seen),
    }


def _source(look: Look, now: float, stale_s: float) -> dict[str, Any]:
    age_s = look.age_s(now)
    return {"age_s": age_s, "stale": age_s is not None and age_s > stale_s, "fault": look.fault}


def _books(seen: Watching) -> dict[str, Any] | None:
    if seen.books.said is None:
        return None
    marks = [
        {
            "name": each.name,
            "title": gettext(each.title),
            "state": each.state.value,
            "residual": each.residual,
            "in_flight": each.in_flight,
        }
        for each in seen.books.said
    ]
    return {"worst": worst(seen.books.said).value, "marks": marks}


def _counts(seen: Watching) -> dict[str, Any]:
    counted = seen.counts.said
    if counted is None:
        return {"sales": None, "outcomes": None, "waiting": None}
    whole = sum(count for _, count, _ in counted.outcomes)
    return {
        "sales": [sale._asdict() for sale in counted.sales],
        "outcomes": [
            {"state": state, "words": str(words.OUTCOMES.get(state, state)), "count": count, "share": count / whole,
             "example": example}
            for state, count, example in counted.outcomes
        ],
        "waiting": {
            "unpublished": counted.unpublished,
            "deliveries": counted.deliveries_due,
            "letters": counted.dead_letters,
            "refunds": counted.refunding,
        },
        "off": counted.off,
    }  # fmt: skip


def _hops(seen: Watching, now: float) -> list[dict[str, Any]] | None:
    if seen.quick.said is None:
        return None
    ends, reached, moved = (seen.quick.said[name] for name in ("ends", "reached", "moved"))
    owners = seen.owners.said or {}
    took = {} if seen.counts.said is None else seen.counts.said.took
    hops = []
    for hop in words.HOPS:
        partitions = [
            {
                "topic": topic.name,
                "partition": place[1],
                "end": end,
                "reached": reached.get((hop.group, *place), 0),
                "lag": max(0, end - reached.get((hop.group, *place), 0)),
                "consumer": owners.get((hop.group, *place), ""),
                "moved_s": round(now - moved[(hop.group, *place)], 1) if (hop.group, *place) in moved else None,
            }
            for topic in TOPICS.values()
            if hop.group in topic.readers
            for place, end in sorted(ends.items())
            if place[0] == topic.name
        ]
        measured = took.get(hop.took)
        hops.append(
            {
                "group": hop.group,
                "title": str(hop.title),
                "total": sum(each["reached"] for each in partitions),
                "lag": sum(each["lag"] for each in partitions),
                "p50_ms": measured and measured.p50_ms,
                "p99_ms": measured and measured.p99_ms,
                "partitions": partitions,
            }
        )
    return hops
