"""The comparison with an earlier commit: when a row passes."""

from __future__ import annotations

import pytest

from loadtest.benchmarks.broker.pairs import BEFORE, START, UNBATCHED, main, table
from loadtest.benchmarks.broker.report import OURS, Measured
from loadtest.benchmarks.broker.rows import Figure


def verdict(figure: Figure, ours: list[float], before: list[float]) -> str:
    row = Measured(figure)
    for value, other in zip(ours, before, strict=True):
        row.add(OURS, value)
        row.add(BEFORE, other)
    return table({figure.key: row}, "abc")[-1]


def test_a_row_fails_if_it_is_slower_in_nine_of_ten_pairs() -> None:
    assert verdict(UNBATCHED, [99.0] * 9 + [101.0], [100.0] * 10).endswith("| 9 of 10 | ✗ |")
    assert verdict(UNBATCHED, [99.0] * 8 + [101.0] * 2, [100.0] * 10).endswith("| 8 of 10 | ✓ |")


def test_a_row_fails_if_its_median_is_below_the_limit() -> None:
    assert verdict(UNBATCHED, [94.0, 94.0, 110.0], [100.0] * 3).endswith("| 2 of 3 | ✗ |")


def test_a_shorter_start_is_better() -> None:
    assert "2.000 (2.00–2.00) | 0 of 2 | ✓" in verdict(START, [0.1, 0.1], [0.2, 0.2])


def test_an_unknown_commit_is_refused() -> None:
    with pytest.raises(SystemExit, match="no-such-commit cannot be exported"):
        main(["--against", "no-such-commit"])
