"""The page on which an operator creates a sale. Without scripts too: "Another article" is a button of the form."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import available_timezones

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods

from inventory import sale_commands
from inventory.models import Stock
from inventory.sale_commands import SaleCommandRejected
from seckill.console.notices import set_notice
from seckill.console.permissions import require_permission
from seckill.console.sale_form import ARTICLES_MAX, ArticleForm, SaleForm, parse_articles
from seckill.console.staff import operator_required
from seckill.messaging import database_clock
from seckill.web.article_pictures import PICTURES

PREFIX = "article"


@require_http_methods(["GET", "POST"])
@operator_required
def new_sale(request: HttpRequest) -> HttpResponse:
    require_permission(request, "sale create")
    if request.method == "GET":
        return _page(request, SaleForm(), [])
    if "more" in request.POST:
        return _page(request, *_with_another_article(request.POST))
    sale, articles = SaleForm(request.POST), parse_articles(request.POST, PREFIX)
    is_valid = sale.is_valid()
    if articles.is_valid() and is_valid:
        try:
            stocks = _create(sale.cleaned_data, articles.articles())
        except SaleCommandRejected as refusal:
            sale.add_error(None, str(refusal))
        else:
            set_notice(request, _result(stocks, sale.cleaned_data), is_good=True)
            return HttpResponseRedirect(reverse("console:board"), status=303)
    for text in articles.non_form_errors():
        sale.add_error(None, text)
    return _page(request, sale, articles.forms, status=400)


def _create(sale: dict[str, Any], articles: list[sale_commands.Article]) -> list[Stock]:
    """Without an opening time the sale opens now, by the database's clock, which judges all windows."""
    opens_at: datetime | None = sale["opens_at"]
    opens_at_ms = database_clock.now_ms() if opens_at is None else int(opens_at.timestamp() * 1000)
    closes_at_ms = opens_at_ms + sale["lasts_minutes"] * 60_000
    return sale_commands.create_sale_of(sale["name"], articles, opens_at_ms, closes_at_ms)


def _result(stocks: list[Stock], sale: dict[str, Any]) -> str:
    text = ngettext(
        "Sale %(sale)d was created with %(n)d article. It opens: %(opening)s",
        "Sale %(sale)d was created with %(n)d articles. It opens: %(opening)s",
        len(stocks),
    )
    opens_at: datetime | None = sale["opens_at"]
    opening = gettext("now") if opens_at is None else f"{opens_at:%Y-%m-%d %H:%M} {sale['time_zone']}"
    return text % {"sale": stocks[0].sale_id, "n": len(stocks), "opening": opening}


def _with_another_article(posted: Any) -> tuple[SaleForm, list[ArticleForm]]:
    """The same form with one more row. Nothing is checked yet."""
    text = posted.get(f"{PREFIX}-TOTAL_FORMS", "")
    rows = min(int(text), ARTICLES_MAX) if text.isdecimal() and len(text) <= 3 else 1
    forms = [
        ArticleForm(prefix=f"{PREFIX}-{row}", initial=_typed(posted, ArticleForm, f"{PREFIX}-{row}-"))
        for row in range(min(rows + 1, ARTICLES_MAX))
    ]
    return SaleForm(initial=_typed(posted, SaleForm, "")), forms


def _typed(posted: Any, form: type[SaleForm] | type[ArticleForm], prefix: str) -> dict[str, str]:
    return {name: posted[f"{prefix}{name}"] for name in form.base_fields if f"{prefix}{name}" in posted}


def _page(request: HttpRequest, sale: SaleForm, articles: list[Any], status: int = 200) -> HttpResponse:
    context = {
        "sale": sale,
        "articles": articles or [ArticleForm(prefix=f"{PREFIX}-0")],
        "is_refused": status == 400,
        "may_add": len(articles) < ARTICLES_MAX,
        "prefix": PREFIX,
        "pictures": PICTURES,
        "time_zones": sorted(available_timezones()),
    }
    return render(request, "console/new_sale.html", context, status=status)
