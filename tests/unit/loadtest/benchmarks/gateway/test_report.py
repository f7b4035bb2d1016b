"""The gateway's benchmark: ratios within a repetition, verdicts, and what the page says."""

from __future__ import annotations

import json

import pytest

from loadtest.benchmarks.gateway import report
from loadtest.benchmarks.gateway.memory import MemoryResult
from loadtest.benchmarks.gateway.mixed import LOADS, KindResult, MixedRun
from loadtest.benchmarks.gateway.results import Results, calculated_mb, is_late, stream_slowdowns
from loadtest.benchmarks.gateway.servers import BARE, GATEWAY, WSGI
from loadtest.benchmarks.gateway.streams import StreamsResult
from loadtest.benchmarks.gateway.throughput import Run

OTHER = "gateway at abc"


def run(view: str, accepted_s: float, cpu_us: float = 100.0, **cores: float) -> Run:
    used = {"server": 0.5, "broker": 0.1, "redis": 0.1, "load": 0.1} | cores
    return Run(view, 96, accepted_s, 1.0, {"p50": 5.0, "p99": 9.0}, cpu_us, used)


def throughput(ours: list[float], bare: list[float], **cores: float) -> Results:
    return Results(
        {"commit": "abc"}, 2, OTHER,
        runs=[
            *(run(GATEWAY, each, **cores) for each in ours), *(run(BARE, each) for each in bare),
            *(run(WSGI, each) for each in bare), *(run(OTHER, each / 2) for each in ours),
        ],
        steps_us={"token": 2.0},
    )  # fmt: skip


def mixed_run(view: str, p99: float, lag_ms: float = 0.1, generator: float = 0.2, load: int = 0) -> MixedRun:
    kind = KindResult(3000.0, 1.0, {"p50": 10.0, "p99": p99})
    return MixedRun(view, LOADS[load].name, kind, kind, generator, lag_ms)


def streams() -> StreamsResult:
    without = [mixed_run(GATEWAY, each) for each in (10.0, 20.0, 10.0)]
    beside = [mixed_run(GATEWAY, each) for each in (15.0, 20.0, 40.0)]
    return StreamsResult(8_000, 100.0, 260.0, 2000.0, without, beside)


def test_a_ratio_is_taken_within_its_repetition() -> None:
    results = throughput([100, 10, 50], [50, 10, 100])
    assert results.ratios(BARE) == [2.0, 1.0, 0.5]  # the ratio of the medians would be a different number


@pytest.mark.parametrize(
    ("busy", "limit"),
    [
        ({"server": 0.95}, "server"),
        ({"server": 0.9, "load": 0.9}, "server, load"),
        ({"server": 0.8, "redis": 0.8, "load": 0.2}, "the machine: all its cores are busy"),
        ({}, "nothing was busy: requests were waiting"),
    ],
)
def test_a_process_that_used_nearly_a_whole_core_is_the_limit(busy: dict[str, float], limit: str) -> None:
    assert throughput([1], [1], **busy).limited_by() == limit


def test_a_goal_is_a_lower_bound_for_rates_and_an_upper_bound_for_costs() -> None:
    assert report.verdict(0.65, 0.65) == "≥ 0.65 ✓"
    assert report.verdict(0.64, 0.65) == "≥ 0.65 ✗"
    assert report.verdict(120, 120, at_most=True) == "≤ 120 ✓"
    assert report.verdict(121, 120, at_most=True) == "≤ 120 ✗"


def test_the_memory_of_more_streams_is_calculated_from_what_one_costs() -> None:
    result = streams()
    assert result.kb_per_stream == 20.0
    assert calculated_mb(result, 20_000) == 500.0


def test_the_slowdown_by_streams_is_taken_within_its_repetition() -> None:
    assert stream_slowdowns(streams()) == [1.5, 1.0, 4.0]


def test_a_generator_that_is_late_or_uses_a_whole_core_is_named() -> None:
    assert not is_late(mixed_run(GATEWAY, 10.0))
    assert is_late(mixed_run(GATEWAY, 10.0, lag_ms=6.0))
    assert is_late(mixed_run(GATEWAY, 10.0, generator=0.9))


def test_the_page_shows_each_goal_with_its_verdict() -> None:
    results = throughput([70, 70, 60], [100, 100, 100])
    results.mixed = [mixed_run(view, 100.0, load=load) for view in (GATEWAY, OTHER) for load in (0, 1)]
    results.streams = streams()
    results.memory = MemoryResult(4096, 768, 100, 120, 150, 600)
    page = report.markdown(results)
    assert "| accepted per second, gateway ÷ bare view | 0.70 (0.60–0.70) | ≥ 0.65 ✓ | 1 |" in page
    assert f"| accepted per second, gateway ÷ {OTHER} | 2.00 (2.00–2.00) | ≥ 1.15 ✓ | 1.4 |" in page
    assert "| CPU of the gateway per accepted purchase, µs | 100 (100–100) | ≤ 120 ✓ | 90 |" in page
    assert "| 3,000 + 1,500 | gateway | 3,000 + 3,000 | 10.0 | 100 (100–100) | ≤ 78 ✗ |" in page
    assert f"| 3,000 + 1,500 | {OTHER} | 3,000 + 3,000 | 10.0 | 100 (100–100) |  |" in page
    assert "The load generator kept up in all runs." in page
    assert "| ratio | 1.50 (1.00–4.00) | ≤ 2 ✓ |" in page
    assert "| memory with 20,000 streams, MB (calculated) | 500 |" in page
    assert "| with 768 purchases waiting | 600 | ≤ 512 ✗ |" in page
    assert json.loads(json.dumps(report.as_json(results)))["ratios"][BARE] == [0.7, 0.7, 0.6]
    assert "0.70 (0.60–0.70)" in report.summary(results)


def test_the_page_says_how_often_the_generator_could_not_keep_up() -> None:
    results = Results({}, 2, mixed=[mixed_run(GATEWAY, 1.0, load=load) for load in (0, 1)])
    results.mixed.append(mixed_run(GATEWAY, 1.0, lag_ms=50.0))
    assert "The load generator was late in 1 of 3 runs" in report.markdown(results)


def test_a_part_that_was_not_measured_is_not_on_the_page() -> None:
    page = report.markdown(Results({}, 2, memory=MemoryResult(4096, 768, 100, 120, 150, 200)))
    assert "## Memory" in page
    assert "## Purchases" not in page and "event streams" not in page
