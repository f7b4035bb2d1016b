"""Every mutation of a good run is detected or listed as harmless with a reason."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.apps import apps
from rich.console import Console

from seckill.report.evidence import Evidence
from seckill.report.invariants import registry
from seckill.report.selftest import harmless, kill_table, trials
from seckill.report.selftest.harmless import HARMLESS, UNREAD_TABLES
from seckill.report.selftest.mutations import mutations
from seckill.report.selftest.trials import MutationResult
from seckill.report.sources.database import QUERIES
from seckill.report.sources.files import read_crowd_logs
from seckill.report.verdicts import Findings, Invariant
from tests.unit.seckill.report.good_run import good_run
from tests.unit.seckill.report.spark_tables import with_statistics


def whole_run() -> Evidence:
    return with_statistics(good_run())


@pytest.fixture(scope="module")
def made() -> list[MutationResult]:
    return list(trials.run_mutations(whole_run(), 1))


def test_every_mutation_is_detected_or_listed_as_harmless(made: list[MutationResult]) -> None:
    assert [each.mutation.what for each in made if each.is_undetected] == []
    assert len({each.mutation.what for each in made if each.detected_by}) > 1000


def test_every_table_topic_and_log_that_is_read_is_mutated() -> None:
    evidence = whole_run()
    mutated = {mutation.field for mutation in mutations(evidence, 1)}
    rows = {name for name, rows in vars(evidence).items() if isinstance(rows, list) and rows}
    assert rows <= mutated
    assert {
        "attempts",
        "other_calls",
        "polls",
        "requests",
        "decision_events",
        "order_events",
        "provider_lines",
        "sink_lines",
    } <= mutated


def test_equal_seeds_make_equal_mutations() -> None:
    first, again = ([each.what for each in mutations(whole_run(), 7)] for _ in range(2))
    assert first == again != [each.what for each in mutations(whole_run(), 8)]


def test_an_undetected_mutation_is_named_and_fails_the_selftest(monkeypatch: pytest.MonkeyPatch) -> None:
    def asleep(evidence: Evidence, found: Findings) -> None:
        found.checked += 1

    sleepy = tuple(
        Invariant(each.name, each.title, each.needs, asleep) if each.name == "I25" else each
        for each in registry.INVARIANTS
    )
    monkeypatch.setattr(registry, "INVARIANTS", sleepy)
    amounts = [each for each in mutations(whole_run(), 1) if (each.field, each.column) == ("orders", "amount")]
    monkeypatch.setattr(trials, "mutations", lambda evidence, seed: iter(amounts))
    text = StringIO()
    assert trials.run_selftest(Console(file=text, width=200), whole_run(), generate=True) == 1
    assert "undetected: orders.amount one more (CANCELLED)" in text.getvalue()


def test_every_harmless_pattern_names_a_column_that_the_report_reads() -> None:
    evidence = whole_run()
    for each in HARMLESS:
        field, _, column = each.mutation.partition(" ")[0].partition(".")
        rows = getattr(evidence, field, None)
        if field in ("*_ms", "stages", "dead_letters") or "*" in field or not isinstance(rows, list) or not rows:
            continue
        assert column in ("", "*", "*exchanged*") or column in type(rows[0])._fields, each.mutation


def test_every_database_table_is_read_or_listed_with_a_reason() -> None:
    read = " ".join(query.sql for query in QUERIES)
    tables = {model._meta.db_table for model in apps.get_models() if model._meta.managed}
    ours = {table for table in tables if not table.startswith(("auth_", "django_"))}
    unread = {table for table in ours if table not in read}
    assert unread == set(UNREAD_TABLES)


def test_the_kill_table_has_every_corruption_and_every_column(made: list[MutationResult]) -> None:
    named = list(trials.run_trials(whole_run()))
    written = kill_table.render_kill_table(named, made, 1)
    assert all(f"| {each.corruption.invariant} | {each.corruption.what} |" in written for each in named)
    assert all(f"| {each.mutation.field}.{each.mutation.column}".rstrip(".") in written for each in made)
    assert "0 undetected" in written


def test_a_missing_duplicated_moved_or_altered_line_of_the_crowd_log_is_noticed(tmp_path: Path) -> None:
    from loadtest.client_log import ClientLog

    path = tmp_path / "rush.jsonl"
    log = ClientLog(path, sale=1)
    for number in range(4):
        log.write(
            "poll", user=f"u{number}", took_ms=1, request_id=f"{number:08d}-0000-4000-8000-000000000000", status=200
        )
    log.close()
    lines = path.read_bytes().splitlines(keepends=True)
    assert read_crowd_logs([path]).faults == []
    for at in range(len(lines) - 1):
        for altered in (
            [*lines[:at], *lines[at + 1 :]],
            [*lines[: at + 1], *lines[at:]],
            [*lines[:at], *lines[at : at + 2][::-1], *lines[at + 2 :]],
            [*lines[:at], lines[at].replace(b":1", b":2"), *lines[at + 1 :]],
        ):
            path.write_bytes(b"".join(altered))
            assert read_crowd_logs([path]).faults, (at, altered)


def test_a_harmless_pattern_matches_only_the_column_it_names() -> None:
    mutation = next(each for each in mutations(whole_run(), 1) if each.what.startswith("sink_lines.trace_id"))
    assert harmless.harmless_reason(mutation)
    assert not harmless.harmless_reason(mutation._replace(field="orders", column="amount"))
