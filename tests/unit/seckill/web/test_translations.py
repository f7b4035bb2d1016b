"""Every text of a page exists in Chinese."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from gettext import GNUTranslations
from pathlib import Path
from typing import Any

from django.contrib import admin
from django.test import Client
from django.utils import translation

from seckill.audit.operator_admin import OperatorAdmin
from seckill.console import notices
from seckill.console.labels import INVARIANTS
from seckill.report.live.residuals import LiveCounts, residuals
from seckill.web.tags import grouped, money

ROOT = Path(__file__).parents[4]
CATALOGUE = ROOT / "seckill/web/locale/zh_Hans/LC_MESSAGES"
ROOMS = (
    "gateway", "inventory", "orders", "notifications", "seckill/audit", "seckill/messaging", "seckill/report",
    "seckill/stack", "seckill/web", "seckill/console",
)  # fmt: skip
TEMPLATES = [path for room in ROOMS for path in ROOT.glob(f"{room}/templates/**/*.html")]
CODE = [path for room in ROOMS for path in ROOT.glob(f"{room}/**/*.py")]
TRANSLATE = re.compile(r"""\{%\s*translate\s+(?:"([^"]*)"|'([^']*)')""")
BLOCK = re.compile(
    r"\{%\s*blocktranslate[^%]*%\}(.*?)(?:\{%\s*plural\s*%\}.*?)?\{%\s*endblocktranslate\s*%\}", re.DOTALL
)
PLACES = re.compile(r"%\(\w+\)[sd]|\{\w+(?:![rs])?(?::[^}]*)?\}")
GETTEXT = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "Sentence", "CommandRefused"}


def compiled() -> dict[str, str]:
    with (CATALOGUE / "django.mo").open("rb") as file:
        entries = GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    return {key if isinstance(key, str) else key[0]: text for key, text in entries.items() if key}


def written() -> dict[str, str]:
    """Translations by their ids, from the source."""
    found = {}
    for entry in (CATALOGUE / "django.po").read_text().split("\n\n")[1:]:
        parts = re.findall(r'^(msgid|msgstr(?:\[0\])?) (".*")$', entry, re.MULTILINE)
        said = {name.partition("[")[0]: ast.literal_eval(text) for name, text in parts}
        found[said["msgid"]] = said["msgstr"]
    return found


def texts_of_templates() -> Iterator[str]:
    for path in TEMPLATES:
        text = path.read_text()
        yield from (double or single for double, single in TRANSLATE.findall(text))
        for block in BLOCK.findall(text):
            yield re.sub(r"\{\{\s*(\w+)\s*\}\}", r"%(\1)s", block)


def texts_of_code() -> Iterator[str]:
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in GETTEXT:
                argument = node.args[0]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def test_every_text_has_a_translation() -> None:
    texts = {*texts_of_templates(), *texts_of_code()}
    assert len(texts) > 200, "the search finds nothing"
    known = compiled()
    assert sorted(text for text in texts if not known.get(text)) == []


def test_a_translation_has_the_same_placeholders() -> None:
    for text, translated in compiled().items():
        assert sorted(PLACES.findall(text)) == sorted(PLACES.findall(translated)), text


def test_the_compiled_catalogue_matches_its_source() -> None:
    assert compiled() == written()


def test_every_live_invariant_has_a_translated_name() -> None:
    numbers: dict[str, Any] = dict.fromkeys(LiveCounts._fields, 0) | {"behind": {}}
    assert {each.title for each in residuals(LiveCounts(**numbers))} == set(INVARIANTS)


REFUSALS = {
    "CommandRefused", "DeadLetterRefused", "DeliveryNotGivenUp", "DiscrepancyNotOpen", "GroupNotOptional",
    "OperationRefused", "RefundRejected", "SaleCommandRejected",
}  # fmt: skip
"""Refusals whose text a page shows."""


def untranslated_refusals(source: str) -> list[str]:
    """Refusals that are raised with a text of their own instead of one from the catalogue."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in REFUSALS
        if not isinstance(node.args[0], ast.Call | ast.Name)
        if not (node.func.id in GETTEXT and isinstance(node.args[0], ast.Constant))
    ]


def test_every_refusal_that_a_page_shows_is_translated() -> None:
    sources = [path.read_text() for path in CODE]
    assert sum(source.count(f"raise {name}(") for source in sources for name in REFUSALS) > 20
    assert [refusal for source in sources for refusal in untranslated_refusals(source)] == []


def test_a_refusal_with_a_text_of_its_own_is_found() -> None:
    """The control of the test above."""
    for refusal in (
        "RefundRejected(f'order {id} is new')",
        "RefundRejected('no')",
        "CommandRefused(f'{name} is down')",
    ):
        assert untranslated_refusals(f"raise {refusal}") == [refusal]
    for refusal in ("RefundRejected(_('no'))", "CommandRefused('{name} is down', name=name)"):
        assert untranslated_refusals(f"raise {refusal}") == []


def test_the_known_refusals_are_those_that_pages_catch() -> None:
    admin.autodiscover()
    caught: set[type[Exception]] = set(notices.REFUSALS)
    for model_admin in admin.site._registry.values():
        if isinstance(model_admin, OperatorAdmin):
            caught |= {refusal for action in model_admin.operator_actions for refusal in action.refusals}
    assert {refusal.__name__ for refusal in caught} - {"StackFault", "KeyError"} == REFUSALS - {"CommandRefused"}


def test_the_language_follows_the_browser_until_the_visitor_chooses(client: Client) -> None:
    asked = {"Accept-Language": "zh-CN,zh;q=0.9"}
    assert "您的名字" in client.get("/shop/sign-in", headers=asked).content.decode()
    chosen = client.post("/i18n/language", {"language": "en", "next": "/shop/sign-in"}, headers=asked)
    assert chosen.status_code == 302
    assert "Your name" in client.get("/shop/sign-in", headers=asked).content.decode()


def test_numbers_and_prices_follow_the_language(client: Client) -> None:
    with translation.override("zh-hans"):
        assert (grouped(1_234_567), money(123_456)) == ("1,234,567", "¥1,234.56")
    with translation.override("de"):
        assert grouped(1_234_567) == "1.234.567", "the control: another language has other separators"


def test_a_page_request_does_not_leave_its_language_to_the_next_one(client: Client) -> None:
    client.get("/shop/sign-in", headers={"Accept-Language": "zh-CN"})
    assert "Your name" in client.get("/shop/sign-in", headers={"Accept-Language": "en"}).content.decode()
