"""Everything a page says, it says in Chinese, too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from gettext import GNUTranslations
from pathlib import Path
from typing import Any

from django.test import Client

from seckill.consistency.live.residuals import Counts, residuals
from seckill.console.words import INVARIANTS

ROOT = Path(__file__).parents[3]
CATALOGUE = ROOT / "seckill/locale/zh_Hans/LC_MESSAGES"
TEMPLATES = sorted(ROOT.glob("*/templates/**/*.html")) + sorted(ROOT.glob("seckill/console/templates/**/*.html"))
CODE = [*ROOT.glob("seckill/*.py"), *ROOT.glob("seckill/console/*.py")]
SAID = re.compile(r"""\{%\s*translate\s+(?:"([^"]*)"|'([^']*)')""")
BLOCK = re.compile(
    r"\{%\s*blocktranslate[^%]*%\}(.*?)(?:\{%\s*plural\s*%\}.*?)?\{%\s*endblocktranslate\s*%\}", re.DOTALL
)
PLACES = re.compile(r"%\(\w+\)[sd]|\{\w+\}")
SPEAKING = {"_", "gettext", "gettext_noop", "ngettext"}


def compiled() -> dict[str, str]:
    with (CATALOGUE / "django.mo").open("rb") as file:
        entries = GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    return {key if isinstance(key, str) else key[0]: text for key, text in entries.items() if key}


def written() -> dict[str, str]:
    """From the text: id → translation."""
    found = {}
    for entry in (CATALOGUE / "django.po").read_text().split("\n\n")[1:]:
        parts = re.findall(r'^(msgid|msgstr(?:\[0\])?) (".*")$', entry, re.MULTILINE)
        said = {name.partition("[")[0]: ast.literal_eval(text) for name, text in parts}
        found[said["msgid"]] = said["msgstr"]
    return found


def said_by_pages() -> Iterator[str]:
    for path in TEMPLATES:
        text = path.read_text()
        yield from (double or single for double, single in SAID.findall(text))
        for block in BLOCK.findall(text):
            yield re.sub(r"\{\{\s*(\w+)\s*\}\}", r"%(\1)s", block)


def said_by_code() -> Iterator[str]:
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SPEAKING:
                argument = node.args[0]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def test_everything_that_is_said_is_translated() -> None:
    said = {*said_by_pages(), *said_by_code()}
    assert len(said) > 200, "the search finds nothing"
    known = compiled()
    assert sorted(text for text in said if not known.get(text)) == []


def test_a_translation_has_the_same_places_to_fill() -> None:
    for text, translated in compiled().items():
        assert sorted(PLACES.findall(text)) == sorted(PLACES.findall(translated)), text


def test_what_is_compiled_is_what_is_written() -> None:
    assert compiled() == written()


def test_the_live_invariants_have_their_names() -> None:
    numbers: dict[str, Any] = dict.fromkeys(Counts._fields, 0) | {"behind": {}}
    assert {each.title for each in residuals(Counts(**numbers))} == set(INVARIANTS)


def test_a_visitor_reads_what_his_browser_asks_for_until_he_chooses(client: Client) -> None:
    asked = {"Accept-Language": "zh-CN,zh;q=0.9"}
    assert "您的名字" in client.get("/shop/sign-in", headers=asked).content.decode()
    chosen = client.post("/i18n/language", {"language": "en", "next": "/shop/sign-in"}, headers=asked)
    assert chosen.status_code == 302
    assert "Your name" in client.get("/shop/sign-in", headers=asked).content.decode()
