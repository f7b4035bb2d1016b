"""Dead letters in the browser: read one, see whether a replay would work, replay it, discard it."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods

from seckill.console.labels import LETTER_STATES, state_label
from seckill.console.notices import pop_notice, set_notice
from seckill.console.permissions import require_permission
from seckill.console.staff import operator_required
from seckill.messaging import dead_letters
from seckill.messaging.models import DeadLetter
from seckill.messaging.service_registry import create_handler

LETTERS_PER_PAGE = 50
TEXT_CHARACTERS_MAX = 10_000
REASON_CHARACTERS_MAX = 500
PENDING = (DeadLetter.State.OPEN, DeadLetter.State.QUARANTINED)


@require_GET
@operator_required
def letters(request: HttpRequest) -> HttpResponse:
    shows_all, group = request.GET.get("all") == "1", request.GET.get("group", "")
    chosen = DeadLetter.objects.order_by("-id").defer("value", "key", "headers")
    if not shows_all:
        chosen = chosen.filter(state__in=PENDING)
    if group:
        chosen = chosen.filter(group=group)
    page = Paginator(chosen, LETTERS_PER_PAGE).get_page(request.GET.get("page"))
    rows = [(state_label(LETTER_STATES, each.state), each) for each in page]
    return render(request, "console/letters.html", {"page": page, "rows": rows, "shows_all": shows_all})


@require_http_methods(["GET", "POST"])
@operator_required
def letter(request: HttpRequest, number: int) -> HttpResponse:
    found = DeadLetter.objects.filter(id=number).first()
    if found is None:
        raise Http404
    if request.method == "POST":
        require_permission(request, f"letter {request.POST.get('verb', '')}")
        obstacle, done = _apply_verb(found, request.POST)
        set_notice(request, done if obstacle is None else str(obstacle), is_good=obstacle is None)
        return HttpResponseRedirect(request.path, status=303)
    context = {
        "letter": found,
        "state": state_label(LETTER_STATES, found.state),
        "is_quarantined": found.state == DeadLetter.State.QUARANTINED,
        "key": _decode(found.key),
        "value": _decode(found.value),
        "headers": [(name, None if value is None else _decode(bytes.fromhex(value))) for name, value in found.headers],
        "is_pending": found.state in PENDING,
        "obstacle": dead_letters.find_replay_obstacle(found),
        "notice": pop_notice(request),
    }
    return render(request, "console/letter.html", context)


def _apply_verb(letter: DeadLetter, form: Any) -> tuple[dead_letters.Obstacle | None, str]:
    """Why it failed, or None, and what the operator is told otherwise."""
    match form.get("verb"):
        case "replay":
            is_forced = form.get("quarantined") == "on"
            obstacle = dead_letters.replay(letter, create_handler(letter.group), quarantined=is_forced)
            return obstacle, gettext("Replayed: the consumer has processed it.")
        case "discard":
            reason = form.get("because", "")[:REASON_CHARACTERS_MAX]
            return dead_letters.discard(letter, create_handler(letter.group), reason), gettext("Discarded.")
        case _:
            return gettext("This operation does not exist."), ""


def _decode(content: Any) -> str | None:
    if content is None:
        return None
    return bytes(content)[:TEXT_CHARACTERS_MAX].decode(errors="backslashreplace")
