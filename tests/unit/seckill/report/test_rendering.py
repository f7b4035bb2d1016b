"""Pages are rendered from templates that escape their values and share one stylesheet."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from uuid import UUID

import pytest
from jinja2 import UndefinedError

from analytics.report import RunStatistics, render_page
from seckill.lab.faults.html_page import render_faults
from seckill.report.html.page import render_report
from seckill.report.html.rendering import render_template
from seckill.report.invariants.registry import judge_invariants
from tests.unit.seckill.report.good_run import good_run

ROOT = Path(__file__).parents[4]
STYLESHEET = ROOT / "seckill/report/html/templates/style.css"
EVIL = "<script>alert(1)</script>"


def statistics() -> RunStatistics:
    suspect = {"sale_id": 1, "user_id": EVIL, "requests": 9, "refused": 8, "granted": 1, "first_ms": 0, "last_ms": 10}
    return RunStatistics(
        UUID(int=1), "replay", 0, 1_000,
        partitions=[], faults=[], totals=[], flow=[], sell_through=[], revenue=[], skus=[],
        buyers=[{"requests": 20, "buyers": 3}], suspects=[suspect], suspect_count=1, latency=[], fairness=[],
    )  # fmt: skip


def pages() -> dict[str, str]:
    run = good_run()
    return {
        "report": render_report(run, judge_invariants(run)),
        "statistics": render_page(statistics()),
        "faults": render_faults([], 1, 1.0),
    }


def test_all_pages_have_the_same_stylesheet_and_load_nothing_else() -> None:
    for name, page in pages().items():
        assert STYLESHEET.read_text().strip() in page, name
        assert not re.search(r"<(script|link|img|iframe)\b", page), name


def test_user_names_are_escaped_on_the_statistics_page() -> None:
    page = render_page(statistics())
    assert "&lt;script&gt;" in page and "<script" not in page


def test_sections_without_data_say_so_and_the_last_class_of_buyers_is_open() -> None:
    page = render_page(statistics())
    assert page.count("No data yet.") == 10
    assert "20 or more" in page


def test_a_value_that_a_template_misses_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render_template("seckill.lab.faults", "faults.html")


def test_templates_and_stylesheet_are_part_of_the_package() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    for suffix in ("html", "css"):
        assert f"templates/**/*.{suffix}" in patterns
