"""The benchmark's arithmetic: ratios within a repetition, verdicts, and what was the limit."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from loadtest.benchmarks.broker.picture import svg
from loadtest.benchmarks.broker.report import KAFKA, OURS, Measured, cells, markdown, number, ratio_text
from loadtest.benchmarks.broker.rows import LESS, LOADS, MORE, Figure, chosen

THROUGHPUT = Figure("produce", "produce", "MB/s", "mb_per_s", MORE, 1.0)
LATENCY = Figure("p99", "p99 <&>", "ms", "p99", LESS, 0.5)


def measured(
    figure: Figure, ours: list[float], kafka: list[float], broker: float = 0.5, client: float = 0.5
) -> Measured:
    row = Measured(figure, cores=2)
    for value in ours:
        row.add(OURS, value, broker, client)
    for value in kafka:
        row.add(KAFKA, value, 0.5, 0.5)
    return row


def test_a_ratio_is_taken_within_its_repetition() -> None:
    row = measured(THROUGHPUT, [100, 10, 50], [50, 10, 100])
    assert row.ratios(KAFKA) == [2.0, 1.0, 0.5]  # the ratio of the medians would be a different number


def test_the_median_of_the_ratios_decides() -> None:
    assert measured(THROUGHPUT, [100, 90, 120], [100, 100, 100]).reached() is True
    assert measured(THROUGHPUT, [99, 90, 120], [100, 100, 100]).reached() is False


def test_where_less_is_better_the_goal_is_an_upper_bound() -> None:
    assert measured(LATENCY, [4.0], [10.0]).reached() is True
    assert measured(LATENCY, [6.0], [10.0]).reached() is False


def test_a_row_limited_by_the_client_has_a_lower_goal() -> None:
    limited = measured(THROUGHPUT, [96], [100], broker=0.3, client=1.0)
    assert limited.limited_by() == "client" and limited.reached() is True
    assert measured(THROUGHPUT, [94], [100], broker=0.3, client=1.0).reached() is False
    assert measured(THROUGHPUT, [96], [100], broker=0.9, client=1.0).reached() is False


@pytest.mark.parametrize(
    ("broker", "client", "limit"), [(0.9, 0.2, "broker"), (0.2, 0.9, "client"), (0.84, 0.84, ""), (0.5, 0.5, "")]
)
def test_a_process_that_used_nearly_a_whole_core_is_the_limit(broker: float, client: float, limit: str) -> None:
    assert measured(THROUGHPUT, [1], [1], broker, client).limited_by() == limit


def test_without_kafka_there_is_no_verdict() -> None:
    row = measured(THROUGHPUT, [100], [])
    assert row.reached() is None and "–" in cells(row)


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.123, "0.12"), (12.34, "12.3"), (1234.5, "1,234"), (100.0, "100")]
)
def test_numbers_have_three_significant_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_a_ratio_shows_its_spread() -> None:
    assert ratio_text([1.0, 3.0, 2.0]) == "2.00 (1.00–3.00)"
    assert ratio_text([1.5]) == "1.50"


def test_the_picture_is_well_formed_and_inverts_ratios_where_less_is_better() -> None:
    rows = [measured(THROUGHPUT, [200], [100]), measured(LATENCY, [1], [8]), measured(THROUGHPUT, [1], [])]
    texts = [element.text for element in ElementTree.fromstring(svg(rows, "a & b")).iter() if element.text]
    assert "2.00×" in texts and "8.00×" in texts and "p99 <&>" in texts
    assert texts.count("produce") == 1  # a row without Kafka has no bar


def test_the_table_has_a_cell_for_every_head() -> None:
    lines = markdown([measured(LATENCY, [1], [2])], {"commit": "c"}, ["a note"]).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1 and "* a note" in lines


def test_rows_are_chosen_by_their_prefix() -> None:
    assert {load.key for load in chosen(["consume-raw"], quick=False)} == {"consume-raw-1024"}
    assert {load.key for load in chosen(["cpu-produce"], quick=False)} == {"produce-librdkafka-1024-acks-1"}
    assert chosen(["nothing"], quick=False) == []
    assert 0 < len(chosen([], quick=True)) < len(chosen([], quick=False)) == len(LOADS)


def test_every_figure_has_its_own_key() -> None:
    keys = [figure.key for load in LOADS for figure in load.figures]
    assert len(keys) == len(set(keys))
