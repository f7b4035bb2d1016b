"""Template tags of all pages: money, moments, durations, short ids. Known in every template without loading."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django import template
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.timesince import timesince
from django.utils.translation import gettext, ngettext

register = template.Library()
register.simple_tag(static, name="asset")

SHORT = 13


@register.filter
def money(amount: int) -> str:
    """Yuan, from fen."""
    return f"¥{Decimal(amount) / 100:,.2f}"


@register.filter
def grouped(number: int) -> str:
    """With separators of thousands: as the scripts write them, in both languages."""
    return f"{number:,}"


@register.filter
def short(identity: object) -> str:
    """Shortened in the middle."""
    text = str(identity)
    return text if len(text) <= SHORT else f"{text[:8]}…{text[-4:]}"


@register.filter
def eta(wait_ms: int | None) -> str:
    """How long it may take, as honest as we know it."""
    if wait_ms is None:
        return gettext("not known yet")
    seconds = max(1, round(wait_ms / 1000))
    if seconds < 90:
        return ngettext("about %(n)d s", "about %(n)d s", seconds) % {"n": seconds}
    return gettext("about %(n)d min") % {"n": round(seconds / 60)}


@register.filter
def ago(at: datetime | int) -> SafeString:
    """Relative, with the absolute time on hover."""
    at = _moment(at)
    is_new = datetime.now(UTC) - at < timedelta(minutes=1)
    text = gettext("just now") if is_new else gettext("%(time)s ago") % {"time": timesince(at).split(",")[0]}
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S} UTC", text)


@register.filter
def clock(at: datetime | int) -> SafeString:
    at = _moment(at)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S} UTC", f"{at:%H:%M:%S}"
    )


@register.simple_tag
def countdown(until_ms: int, now_ms: int) -> SafeString:
    """What is left, as h:mm:ss; a script of the page lets it run."""
    left = max(0, (until_ms - now_ms) // 1000)
    text = f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02}" if left >= 3600 else f"{left // 60}:{left % 60:02}"
    at = _moment(until_ms).isoformat()
    return format_html('<time class="number" datetime="{}" data-until-ms="{}">{}</time>', at, until_ms, text)


@register.simple_tag(takes_context=True)
def here(context: dict[str, Any], name: str) -> str:
    """For a link to the page that is being read."""
    return mark_safe(' aria-current="page"') if context["request"].path == reverse(name) else ""  # a constant  # nosec B308


@register.filter
def share(part: int, whole: int) -> str:
    """In percent, for the width of a bar."""
    return f"{100 * part / whole:.2f}" if whole > 0 else "0"


@register.filter
def plus(number: int, more: int) -> int:
    return number + more


@register.filter
def entry(table: dict[Any, Any], key: Any) -> Any:
    return table.get(key)


def _moment(at: datetime | int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC) if isinstance(at, int) else at.astimezone(UTC)
