"""Funnel, rates and backlog: the definitions that report, statistics page, console and demo share."""

from __future__ import annotations

from analytics.report import figures as statistics_figures
from seckill.console.traffic import TrafficHistory
from seckill.lab.demo import progress
from seckill.report.html import figures as report_figures
from seckill.report.traffic import FunnelStage, TrafficTotals, backlog, funnel, running_backlog, traffic_rates
from tests.unit.seckill.report.good_run import good_run


def test_the_funnel_keeps_the_order_of_the_stages_and_leaves_out_what_a_source_cannot_count() -> None:
    counts = {FunnelStage.PAID: 1, FunnelStage.REQUESTED: 5, FunnelStage.DECIDED: 4}
    assert funnel(counts) == [(FunnelStage.REQUESTED, 5), (FunnelStage.DECIDED, 4), (FunnelStage.PAID, 1)]


def test_rates_are_differences_per_second() -> None:
    rates = traffic_rates(TrafficTotals(1_000, 10, 8, 2), TrafficTotals(3_000, 30, 18, 6))
    assert rates is not None
    assert (rates.offered, rates.acknowledged, rates.decided, rates.backlog) == (10.0, 5.0, 2.0, 12)


def test_without_elapsed_time_there_are_no_rates() -> None:
    totals = TrafficTotals(1_000, 10, 8, 2)
    assert traffic_rates(totals, totals) is None


def test_a_counter_that_restarted_has_a_rate_of_zero() -> None:
    rates = traffic_rates(TrafficTotals(0, 100, 0, 0), TrafficTotals(1_000, 3, 0, 0))
    assert rates is not None and rates.offered == 0


def test_the_backlog_is_never_negative() -> None:
    assert backlog(3, 5) == 0
    assert running_backlog([5, 0, 0], [0, 2, 4]) == [5, 3, 0]


def test_report_statistics_console_and_demo_agree_on_one_sale() -> None:
    """Five requests arrive in the first second, two of them are decided in the second one."""
    run = good_run()
    curves = report_figures.peak_curves(run)
    assert curves is not None and curves.backlog[-1] == 0
    flow = [
        {"sale_id": 1, "at_ms": 0, "kind": "arrived", "events": 5},
        {"sale_id": 1, "at_ms": 1_000, "kind": "RESERVED", "events": 2},
    ]
    statistics = [(step.at_ms, step.backlog) for step in statistics_figures.flow_steps(flow, 1_000)]
    console = TrafficHistory()
    for totals in (TrafficTotals(0, 5, 0, 0), TrafficTotals(1_000, 5, 5, 0), TrafficTotals(2_000, 5, 5, 2)):
        console.add(totals)
    demo = [progress.Sample(at_s, 5, 5, decided, 0, 0, 0).backlog for at_s, decided in ((1.0, 0), (2.0, 2))]
    assert statistics[1:3] == [(0, 5), (1_000, 3)]
    assert [rates.backlog for rates in console.since(0)] == demo == [5, 3]
