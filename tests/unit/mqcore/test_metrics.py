"""The metrics page: names, types, labels and sums in Prometheus' text format."""

from __future__ import annotations

import re

from mqcore.metrics import LATENCY_BOUNDS_S, Metrics

LINE = re.compile(r'[a-z_]+(\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})? [-+0-9.e]+')


def test_every_line_is_valid_in_the_text_format_of_prometheus() -> None:
    metrics = Metrics()
    metrics.requests.cell("Fetch").value += 3
    metrics.request_seconds.histogram("Fetch").observe(0.003)
    metrics.add_computed("mqcore_lag", "records behind", ("group",), lambda: [(('a"b\\c\nd',), 5)])
    page = metrics.page()
    assert page.endswith("\n")
    for line in page.splitlines():
        assert line.startswith(("# HELP ", "# TYPE ")) or LINE.fullmatch(line), line
    assert 'mqcore_lag{group="a\\"b\\\\c\\nd"} 5' in page


def test_each_metric_has_one_help_line_and_one_type_line() -> None:
    page = Metrics().page()
    helped = re.findall(r"# HELP (\S+) (.+)", page)
    typed = re.findall(r"# TYPE (\S+) (\S+)", page)
    assert [name for name, _ in helped] == [name for name, _ in typed]
    assert len({name for name, _ in helped}) == len(helped)
    assert dict(typed)["mqcore_connections"] == "gauge" and dict(typed)["mqcore_requests_total"] == "counter"


def test_the_same_labels_always_give_the_same_cell() -> None:
    metrics = Metrics()
    metrics.requests.cell("Fetch").value += 1
    metrics.requests.cell("Fetch").value += 1
    assert 'mqcore_requests_total{api="Fetch"} 2' in metrics.page()


def test_large_numbers_keep_their_digits() -> None:
    metrics = Metrics()
    metrics.bytes_in.cell().value = 123_456_789_012
    assert "mqcore_received_bytes_total 123456789012" in metrics.page()


def test_buckets_are_cumulative_and_the_last_one_counts_everything() -> None:
    metrics = Metrics()
    histogram = metrics.request_seconds.histogram("Fetch")
    for seconds in (0.00005, 0.003, 0.003, 60):
        histogram.observe(seconds)
    buckets = re.findall(r'mqcore_request_seconds_bucket\{api="Fetch",le="([^"]+)"\} (\d+)', metrics.page())
    assert len(buckets) == len(LATENCY_BOUNDS_S) + 1
    counts = [int(count) for _, count in buckets]
    assert counts == sorted(counts) and counts[0] == 1 and counts[-1] == 4
    assert dict(buckets)["0.005"] == "3" and dict(buckets)["+Inf"] == "4"
    assert 'mqcore_request_seconds_count{api="Fetch"} 4' in metrics.page()
