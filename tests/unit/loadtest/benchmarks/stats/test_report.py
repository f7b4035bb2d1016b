"""The page of the statistics benchmark: ratios within a round, and how the time grows with the size."""

from __future__ import annotations

import pytest

from loadtest.benchmarks.stats import corpus, report
from loadtest.benchmarks.stats.measurement import MQCORE, PARQUET, Run


def run(records: int, source: str, took_s: float) -> Run:
    return Run(records, source, took_s, took_s, 900.0, 100.0, 40.0)


ROUNDS = [
    run(1_000, MQCORE, 4.0), run(1_000, PARQUET, 2.0),
    run(1_000, PARQUET, 3.0), run(1_000, MQCORE, 4.0),
    run(1_000, MQCORE, 8.0), run(1_000, PARQUET, 2.0),
]  # fmt: skip


def test_a_ratio_compares_two_runs_of_one_round() -> None:
    assert report.ratios(ROUNDS, 1_000, MQCORE) == [0.5, 0.75, 0.25]


@pytest.mark.parametrize(("large_s", "shape"), [(40.0, "flat"), (80.0, "more than linear")])
def test_growth_is_flat_if_the_cost_per_record_stays_the_same(large_s: float, shape: str) -> None:
    larger = [run(10_000, MQCORE, large_s), run(10_000, PARQUET, 20.0)]
    said = report.growth(ROUNDS + larger)
    assert f"({shape}); Parquet" in said
    assert report.growth(ROUNDS) == "Only one size was measured, so growth is unknown."


def test_the_page_says_whether_the_goal_was_met() -> None:
    assert "0.50 at 1,000 ✓" in report.markdown(ROUNDS, {})
    assert "0.25 at 1,000 ✗" in report.markdown([run(1_000, MQCORE, 8.0), run(1_000, PARQUET, 2.0)], {})


@pytest.mark.parametrize("wanted", [1_000, 1_000_000, 10_000_000])
def test_a_corpus_has_the_requested_size(wanted: int) -> None:
    assert corpus.records(corpus.requests(wanted)) == pytest.approx(wanted, rel=0.01)
