"""Dead letters in the browser: read one, try its replay, replay it, give it up."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods

from seckill.console.permissions import demand
from seckill.console.staff import for_operators
from seckill.processes import handler
from seckill.streams import letters as streams
from seckill.streams.models import DeadLetter

PAGE = 50
MOST_TEXT = 10_000
PENDING = (DeadLetter.State.OPEN, DeadLetter.State.QUARANTINED)


@require_GET
@for_operators
def letters(request: HttpRequest) -> HttpResponse:
    chosen = DeadLetter.objects.order_by("-id")
    shows_all = request.GET.get("all") == "1"
    if not shows_all:
        chosen = chosen.filter(state__in=PENDING)
    if group := request.GET.get("group"):
        chosen = chosen.filter(group=group)
    page = Paginator(chosen.defer("value", "key", "headers"), PAGE).get_page(request.GET.get("page"))
    return render(request, "console/letters.html", {"page": page, "shows_all": shows_all, "group": group or ""})


@require_http_methods(["GET", "POST"])
@for_operators
def letter(request: HttpRequest, number: int) -> HttpResponse:
    found = DeadLetter.objects.filter(id=number).first()
    if found is None:
        raise Http404
    if request.method == "POST":
        demand(request, f"letter {request.POST.get('verb', '')}")
        request.session["said"] = _act(found, request.POST)
        return HttpResponseRedirect(request.path, status=303)
    told = {
        "letter": found,
        "key": _text(found.key),
        "value": _text(found.value),
        "headers": [(name, None if value is None else _text(bytes.fromhex(value))) for name, value in found.headers],
        "is_pending": found.state in PENDING,
        "hinders": streams.try_out(found),  # a dry run
        "said": request.session.pop("said", None),
    }
    return render(request, "console/letter.html", told)


def _act(letter: DeadLetter, form: Any) -> dict[str, Any]:
    match form.get("verb"):
        case "replay":
            why = streams.replay(letter, handler(letter.group), quarantined=form.get("quarantined") == "on")
            done = gettext("Replayed: its group has worked on it.")
        case "discard":
            why = streams.discard(letter, handler(letter.group), form.get("because", "")[:500])
            done = gettext("Discarded.")
        case _:
            why, done = gettext("There is no such verb."), ""
    return {"text": done if why is None else why, "good": why is None}


def _text(content: Any) -> str | None:
    if content is None:
        return None
    return bytes(content)[:MOST_TEXT].decode(errors="backslashreplace")
