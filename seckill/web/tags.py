"""Template tags for all pages: money, times, durations, short ids. Templates need not load them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django import template
from django.templatetags.static import static
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.timesince import timesince
from django.utils.translation import gettext, ngettext

from seckill.web.article_pictures import picture_of

register = template.Library()
register.simple_tag(static, name="asset")

SHORT_CHARACTERS = 13
DAY_S = 24 * 3600


@register.filter
def money(amount: int) -> str:
    """An amount in fen, in the notation of the reader's language."""
    return gettext("¥%(amount)s") % {"amount": number_format(Decimal(amount) / 100, 2, force_grouping=True)}


@register.filter
def grouped(number: int) -> str:
    """With the language's separators of thousands, like `toLocaleString` in our scripts."""
    return number_format(number, force_grouping=True)


@register.filter
def short(identity: object) -> str:
    """An id shortened in the middle."""
    text = str(identity)
    return text if len(text) <= SHORT_CHARACTERS else f"{text[:8]}…{text[-4:]}"


@register.filter
def eta(wait_ms: int | str | None) -> str:
    """A rounded waiting time; without a number, "not known yet"."""
    if not isinstance(wait_ms, int):
        return gettext("not known yet")
    seconds = max(1, round(wait_ms / 1000))
    if seconds < 90:
        return ngettext("about %(n)d s", "about %(n)d s", seconds) % {"n": seconds}
    return gettext("about %(n)d min") % {"n": round(seconds / 60)}


@register.filter
def ago(at: datetime | int) -> SafeString:
    """A relative time, with the absolute one on hover."""
    at = _to_datetime(at)
    is_new = datetime.now(UTC) - at < timedelta(minutes=1)
    text = gettext("just now") if is_new else gettext("%(time)s ago") % {"time": timesince(at).split(",")[0]}
    return _time(at, "ago", text)


@register.filter
def clock(at: datetime | int) -> SafeString:
    """The time of day. seckill/times.js replaces UTC by the reader's time zone, here and in the three filters below."""
    at = _to_datetime(at)
    return _time(at, "time", f"{at:%H:%M:%S} UTC")


@register.filter
def moment(at: datetime | int) -> SafeString:
    """Date and time."""
    at = _to_datetime(at)
    return _time(at, "full", f"{at:%Y-%m-%d %H:%M:%S} UTC")


@register.filter
def opening(at: datetime | int) -> SafeString:
    """Day, time of day and the name of the time zone, for the start and the end of a sale."""
    at = _to_datetime(at)
    return _time(at, "opening", f"{at:%Y-%m-%d %H:%M} UTC")


@register.filter
def precise(at: datetime | int) -> SafeString:
    """The time of day in milliseconds."""
    at = _to_datetime(at)
    return _time(at, "precise", f"{at:%H:%M:%S}.{at.microsecond // 1000:03} UTC")


@register.simple_tag
def countdown(until_ms: int, now_ms: int) -> SafeString:
    """The time left, as h:mm:ss, with the days before it if there are any. A script of the page updates it."""
    left = max(0, (until_ms - now_ms) // 1000)
    days, hours, minutes, seconds = left // DAY_S, left // 3600 % 24, left // 60 % 60, left % 60
    text = f"{hours}:{minutes:02}:{seconds:02}" if left >= 3600 else f"{minutes}:{seconds:02}"
    in_days = gettext("{n} d")
    if days:
        text = f"{in_days.replace('{n}', str(days))} {text}"
    return format_html(
        '<time class="number" datetime="{}" data-until-ms="{}" data-days="{}">{}</time>',
        _to_datetime(until_ms).isoformat(), until_ms, in_days, text,
    )  # fmt: skip


@register.simple_tag
def article_picture(sku: str) -> SafeString:
    """A drawing of the article. It has no text, because the article's name stands beside it."""
    return format_html(
        '<img class="article" src="{}" alt="" width="480" height="320">',
        static(f"seckill/articles/{picture_of(sku)}.svg"),
    )


@register.simple_tag(takes_context=True)
def here(context: dict[str, Any], name: str) -> str:
    """Marks a link to the current page."""
    return mark_safe(' aria-current="page"') if context["request"].path == reverse(name) else ""  # a constant  # nosec B308


@register.filter
def share(part: int, whole: int) -> str:
    """In percent, for the width of a bar."""
    return f"{100 * part / whole:.2f}" if whole > 0 else "0"


def _time(at: datetime, style: str, text: str) -> SafeString:
    title = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return format_html('<time datetime="{}" title="{}" data-local="{}">{}</time>', at.isoformat(), title, style, text)


def _to_datetime(at: datetime | int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC) if isinstance(at, int) else at.astimezone(UTC)
