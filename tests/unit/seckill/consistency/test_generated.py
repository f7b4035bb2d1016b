"""Mutations of a good run: each is found, or is harmless for a reason that stands in a table."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.apps import apps
from rich.console import Console

from seckill.consistency.evidence import Evidence
from seckill.consistency.invariants import judging
from seckill.consistency.selftest import harmless, page, running
from seckill.consistency.selftest.generating import mutations
from seckill.consistency.selftest.harmless import HARMLESS, UNREAD_TABLES
from seckill.consistency.selftest.running import Generated
from seckill.consistency.sources.database import QUERIES
from seckill.consistency.sources.files import crowd
from seckill.consistency.verdicts import Found, Invariant
from tests.unit.seckill.consistency.good_run import counted, good_run


def whole_run() -> Evidence:
    return counted(good_run())


@pytest.fixture(scope="module")
def made() -> list[Generated]:
    return list(running.generated(whole_run(), 1))


def test_every_mutation_is_found_or_harmless_for_a_reason(made: list[Generated]) -> None:
    assert [each.mutation.what for each in made if each.slipped] == []
    assert len({each.mutation.what for each in made if each.killed_by}) > 1000


def test_every_table_topic_and_log_that_is_read_is_mutated() -> None:
    evidence = whole_run()
    mutated = {mutation.field for mutation in mutations(evidence, 1)}
    rows = {name for name, rows in vars(evidence).items() if isinstance(rows, list) and rows}
    assert rows <= mutated
    assert {"attempts", "called", "sights", "requested", "decisions_said", "orders_said", "provider", "sink"} <= mutated


def test_equal_seeds_make_equal_mutations() -> None:
    first, again = ([each.what for each in mutations(whole_run(), 7)] for _ in range(2))
    assert first == again != [each.what for each in mutations(whole_run(), 8)]


def test_a_mutation_that_slips_through_without_a_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def asleep(evidence: Evidence, found: Found) -> None:
        found.looked_at += 1

    sleepy = tuple(
        Invariant(each.name, each.title, each.needs, asleep) if each.name == "I25" else each
        for each in judging.INVARIANTS
    )
    monkeypatch.setattr(judging, "INVARIANTS", sleepy)
    amounts = [each for each in mutations(whole_run(), 1) if (each.field, each.column) == ("orders", "amount")]
    monkeypatch.setattr(running, "mutations", lambda evidence, seed: iter(amounts))
    text = StringIO()
    assert running.run(Console(file=text, width=200), whole_run(), generate=True) == 1
    assert "slipped through: orders.amount one more (CANCELLED)" in text.getvalue()


def test_every_reason_names_a_column_that_the_report_reads() -> None:
    evidence = whole_run()
    for each in HARMLESS:
        field, _, column = each.mutation.partition(" ")[0].partition(".")
        rows = getattr(evidence, field, None)
        if field in ("*_ms", "stages", "dead") or "*" in field or not isinstance(rows, list) or not rows:
            continue
        assert column in ("", "*", "*exchanged*") or column in type(rows[0])._fields, each.mutation


def test_every_table_of_the_database_is_read_or_says_why_not() -> None:
    read = " ".join(query.sql for query in QUERIES)
    tables = {model._meta.db_table for model in apps.get_models() if model._meta.managed}
    ours = {table for table in tables if not table.startswith(("auth_", "django_"))}
    unread = {table for table in ours if table not in read}
    assert unread == set(UNREAD_TABLES)


def test_the_page_has_every_corruption_and_every_column(made: list[Generated]) -> None:
    named = list(running.trials(whole_run()))
    written = page.written(named, made, 1)
    assert all(f"| {each.corruption.invariant} | {each.corruption.what} |" in written for each in named)
    assert all(f"| {each.mutation.field}.{each.mutation.column}".rstrip(".") in written for each in made)
    assert "0 slipped through" in written


def test_a_line_of_the_crowds_log_that_is_gone_doubled_moved_or_altered_is_missed(tmp_path: Path) -> None:
    from loadtest.ledger import ClientLog

    path = tmp_path / "rush.jsonl"
    log = ClientLog(path, sale=1)
    for number in range(4):
        log.write(
            "poll", user=f"u{number}", took_ms=1, request_id=f"{number:08d}-0000-4000-8000-000000000000", status=200
        )
    log.close()
    lines = path.read_bytes().splitlines(keepends=True)
    assert crowd([path]).faults == []
    for at in range(len(lines) - 1):
        for spoilt in (
            [*lines[:at], *lines[at + 1 :]],
            [*lines[: at + 1], *lines[at:]],
            [*lines[:at], *lines[at : at + 2][::-1], *lines[at + 2 :]],
            [*lines[:at], lines[at].replace(b":1", b":2"), *lines[at + 1 :]],
        ):
            path.write_bytes(b"".join(spoilt))
            assert crowd([path]).faults, (at, spoilt)


def test_a_reason_is_given_only_for_what_it_names() -> None:
    mutation = next(each for each in mutations(whole_run(), 1) if each.what.startswith("sink.trace_id"))
    assert harmless.reason(mutation)
    assert not harmless.reason(mutation._replace(field="orders", column="amount"))
