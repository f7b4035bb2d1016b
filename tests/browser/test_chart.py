"""The chart's own rules, run in the browser that draws it."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from tests.browser.conftest import Open

SECOND, MINUTE = 1000, 60_000
START = 1_800_000_000_000  # a whole minute


def call(page: Page, function: str, *arguments: object) -> Any:
    script = "async ([name, given]) => (await import('/static/console/chart.js'))[name](...given)"
    return page.evaluate(script, [function, arguments])


def test_the_time_axis_stands_still_while_it_fills_and_then_moves_by_whole_minutes(visit: Open) -> None:
    page = visit("/")

    def window(seconds: float) -> tuple[float, float]:
        found = call(page, "timeWindow", START + 3 * SECOND, START + seconds * SECOND)
        return (found["from"] - START) / SECOND, (found["to"] - START) / SECOND

    assert [window(at) for at in (3, 60, 120)] == [(0, 120)] * 3
    assert [window(at) for at in (121, 200, 300)] == [(0, 300)] * 3
    assert [window(at) for at in (301, 330, 360)] == [(60, 360)] * 3
    assert window(361) == (120, 420)


def test_the_value_axis_grows_in_steps_and_does_not_shrink_at_once(visit: Open) -> None:
    page = visit("/")
    assert [call(page, "nextTop", 10, largest) for largest in (0, 10, 11, 21, 99, 1200)] == [10, 10, 20, 50, 100, 2000]
    assert call(page, "nextTop", 100, 40) == 100
    assert call(page, "nextTop", 100, 30) == 50


def test_ticks_are_round_and_few(visit: Open) -> None:
    page = visit("/")
    assert call(page, "valueTicks", 500, 200) == [0, 100, 200, 300, 400, 500]
    assert call(page, "valueTicks", 20, 200) == [0, 5, 10, 15, 20]
    assert call(page, "valueTicks", 20, 80) == [0, 10, 20]
    for minutes in (2, 5):
        ticks = call(page, "timeTicks", START, START + minutes * MINUTE)
        assert 4 <= len(ticks) <= 8
        assert {tick % (10 * SECOND) for tick in ticks} == {0}


def test_labels_that_would_overlap_are_moved_apart(visit: Open) -> None:
    page = visit("/")
    assert call(page, "spread", [50, 51, 10], 14) == [50, 64, 10]


def test_a_chart_draws_lines_bands_moments_and_no_line_across_a_gap(visit: Open) -> None:
    page = visit("/")
    drawn = page.evaluate(
        """async () => {
          const { TimeChart } = await import("/static/console/chart.js");
          const box = document.createElement("div");
          Object.assign(box.style, { width: "800px", height: "200px" });
          document.body.append(box);
          const chart = new TimeChart(box, {
            series: [{ name: "a", label: "A", area: true }], valueLabel: "per second",
            formatValue: String, formatTime: String,
          });
          const points = [[1000, 5], [2000, 9], [9000, 4], [10000, 4]];
          const marks = [
            { at_ms: 3000, until_ms: null, kind: "down", label: "lasts" },
            { at_ms: 1000, until_ms: 1000, kind: "operation", label: "moment" },
            { at_ms: -9000, until_ms: -8000, kind: "down", label: "long ago" },
          ];
          chart.update({ from: 0, to: 20000, now: 10000, points, marks });
          const band = box.querySelector("[data-band] rect");
          return {
            line: box.querySelector("path[data-series=a]").getAttribute("d"),
            bands: [...box.querySelectorAll("[data-band]")].map((each) => each.dataset.band),
            moments: [...box.querySelectorAll("[data-moment]")].map((each) => each.dataset.moment),
            bandEnd: Number(band.getAttribute("x")) + Number(band.getAttribute("width")),
            nowX: Number(box.querySelector("path[data-series=a]").getAttribute("d").split("L").at(-1).split(",")[0]),
          };
        }"""
    )
    assert drawn["line"].count("M") == 2, "a gap of seven seconds interrupts the line"
    assert (drawn["bands"], drawn["moments"]) == (["lasts"], ["moment"])
    assert abs(drawn["bandEnd"] - drawn["nowX"]) < 1, "an outage that lasts ends at the present, not at the axis"


def test_outages_that_overlap_are_one_band(visit: Open) -> None:
    page = visit("/")
    marks = [
        {"at_ms": 10, "until_ms": None, "label": "c"},
        {"at_ms": 1, "until_ms": 4, "label": "a"},
        {"at_ms": 3, "until_ms": 6, "label": "b"},
    ]
    assert call(page, "mergeBands", marks, 12) == [
        {"at": 1, "end": 6, "label": "a +1"},
        {"at": 10, "end": 12, "label": "c"},
    ]
