"""The form for a new sale: its name, its window in the operator's time zone, and its articles.

The fields check what the operator typed. `inventory.sale_commands` checks the sale again, as for the command line.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, cast
from zoneinfo import ZoneInfo, available_timezones

from django import forms
from django.core.exceptions import ValidationError
from django.forms import BaseFormSet, formset_factory
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from inventory.sale_commands import AMOUNT_MAX, TEXT_CHARACTERS_MAX, UNITS_MAX, Article

ARTICLES_MAX = 20
LASTS_MINUTES, LASTS_MINUTES_MAX = 60, 60 * 24 * 90
CAP_MAX = 1000
PRICE_MAX = Decimal(AMOUNT_MAX // CAP_MAX) / 100
TIME_INPUT = "%Y-%m-%dT%H:%M"
"""What a browser's `datetime-local` field sends."""


def _check_printable(text: str) -> None:
    if not text.isprintable():
        raise ValidationError(_("Use printable characters only."))


class SaleForm(forms.Form):
    name = forms.CharField(label=_("Name of the sale"), max_length=TEXT_CHARACTERS_MAX, validators=[_check_printable])
    opens_at = forms.DateTimeField(
        label=_("Opens at"),
        required=False,
        input_formats=[TIME_INPUT, "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format=TIME_INPUT),
        help_text=_("Empty: at once."),
    )
    time_zone = forms.CharField(
        label=_("Time zone of this time"),
        initial="UTC",
        widget=forms.TextInput(attrs={"list": "time-zones", "autocomplete": "off"}),
        help_text=_("A name such as Asia/Shanghai. The browser fills in yours."),
    )
    lasts_minutes = forms.IntegerField(
        label=_("Lasts, in minutes"), min_value=1, max_value=LASTS_MINUTES_MAX, initial=LASTS_MINUTES
    )

    def clean_opens_at(self) -> datetime | None:
        """As it was typed. Django has read it in the server's zone, which is not the operator's."""
        typed: datetime | None = self.cleaned_data["opens_at"]
        return None if typed is None else timezone.make_naive(typed)

    def clean_time_zone(self) -> ZoneInfo:
        name: str = self.cleaned_data["time_zone"].strip()
        if name not in available_timezones():
            raise ValidationError(_("No time zone has this name. Choose one from the list, such as Asia/Shanghai."))
        return ZoneInfo(name)

    def clean(self) -> dict[str, Any]:
        typed, zone = self.cleaned_data.get("opens_at"), self.cleaned_data.get("time_zone")
        if typed is not None and zone is not None:
            self.cleaned_data["opens_at"] = opens_at = typed.replace(tzinfo=zone)
            if opens_at.astimezone(ZoneInfo("UTC")).astimezone(zone).replace(tzinfo=None) != typed:
                self.add_error("opens_at", _("This time does not exist there, because the clocks are changed."))
            elif opens_at < timezone.now() - timedelta(minutes=1):
                self.add_error("opens_at", _("This time is over. Leave the field empty to open the sale at once."))
        return self.cleaned_data


class ArticleForm(forms.Form):
    """Prices are typed in yuan and stored in fen."""

    sku = forms.CharField(label=_("Article"), max_length=TEXT_CHARACTERS_MAX, validators=[_check_printable])
    units = forms.IntegerField(label=_("Units"), min_value=1, max_value=UNITS_MAX)
    price = forms.DecimalField(
        label=_("Price, in ¥"), min_value=0, max_value=PRICE_MAX, decimal_places=2, max_digits=15
    )
    cap = forms.IntegerField(label=_("Units per buyer"), min_value=1, max_value=CAP_MAX, initial=1)

    def article(self) -> Article:
        found = self.cleaned_data
        return Article(found["sku"], found["units"], int(found["price"] * 100), found["cap"])


class Articles(BaseFormSet):  # type: ignore[type-arg]
    def clean(self) -> None:
        """An empty row is ignored. Two articles of a sale need different names."""
        seen: set[str] = set()
        for form in self.forms:
            sku = getattr(form, "cleaned_data", {}).get("sku")
            if sku in seen:
                form.add_error("sku", _("Another article of this sale has this name."))
            if sku is not None:
                seen.add(sku)

    def articles(self) -> list[Article]:
        return [form.article() for form in self.forms if form.cleaned_data]


_forms = formset_factory(
    ArticleForm,
    formset=Articles,
    extra=0,
    min_num=1,
    max_num=ARTICLES_MAX,
    validate_max=True,
    absolute_max=ARTICLES_MAX,
)


def parse_articles(posted: Any, prefix: str) -> Articles:
    return cast(Articles, _forms(posted, prefix=prefix))
