"""The events of the board as JSON: a short label for the chart, a sentence for the timeline."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext, ngettext

from seckill.console.labels import operation_label
from seckill.console.marks import ChartMark, MarkKind

LABEL_CHARACTERS_MAX = 60


def event_json(mark: ChartMark) -> dict[str, Any]:
    label, text = _words(mark)
    return {
        "at_ms": mark.at_ms,
        "until_ms": mark.until_ms,
        "kind": mark.kind.value,
        "label": label[:LABEL_CHARACTERS_MAX],
        "text": text,
    }


def _words(mark: ChartMark) -> tuple[str, str]:
    match mark.kind:
        case MarkKind.DOWN:
            return mark.subject, _outage_text(mark)
        case MarkKind.ELECTION:
            return gettext("election"), _election_text(mark)
        case MarkKind.OPERATION:
            label = f"{operation_label(mark.verb)} · {mark.subject}"
            return label, f"{label} · {mark.actor}" if mark.actor else label
        case MarkKind.SALE_OPENED:
            text = gettext("sale %(sale)s opened") % {"sale": mark.subject}
            return text, text
        case MarkKind.SOLD_OUT:
            return gettext("sold out"), gettext("the last unit was sold")


def _outage_text(mark: ChartMark) -> str:
    if mark.until_ms is None:
        return gettext("%(process)s is down") % {"process": mark.subject}
    seconds = f"{(mark.until_ms - mark.at_ms) / 1000:.1f}"
    return gettext("%(process)s was down for %(seconds)s s") % {"process": mark.subject, "seconds": seconds}


def _election_text(mark: ChartMark) -> str:
    if not mark.subject:
        text = ngettext("%(n)d partition without a leader", "%(n)d partitions without a leader", mark.count)
    else:
        text = ngettext(
            "broker %(broker)s now leads %(n)d partition", "broker %(broker)s now leads %(n)d partitions", mark.count
        )
    return text % {"broker": mark.subject, "n": mark.count}
