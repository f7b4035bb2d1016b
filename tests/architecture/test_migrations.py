"""Migrations only add, so that old processes work on new tables during an upgrade (docs/running.md)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db.migrations import operations
from django.db.migrations.operations.base import Operation
from django.db.models import NOT_PROVIDED, IntegerField

ROOT = Path(__file__).parents[2]
ADDS = (operations.CreateModel, operations.AddIndex)
LATER = [
    path
    for path in sorted(ROOT.glob("**/migrations/0*.py"))
    if not path.name.startswith("0001_") and ".venv" not in path.parts
]


def only_adds(operation: Operation) -> bool:
    """A process that does not know the change can still read and insert rows."""
    if isinstance(operation, operations.AddField):
        field: Any = operation.field
        return bool(field.null or field.many_to_many) or field.db_default is not NOT_PROVIDED
    return isinstance(operation, ADDS)


def changes() -> Iterator[tuple[str, Operation]]:
    for path in LATER:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for operation in importlib.import_module(module).Migration.operations:
            yield f"{module}: {operation.describe()}", operation


def test_a_migration_after_the_first_only_adds() -> None:
    assert [what for what, operation in changes() if not only_adds(operation)] == []


@pytest.mark.parametrize(
    ("operation", "is_harmless"),
    [
        (operations.AddField("order", "note", IntegerField(null=True)), True),
        (operations.AddField("order", "note", IntegerField(db_default=0)), True),
        (operations.AddField("order", "note", IntegerField(default=0)), False),
        (operations.RemoveField("order", "note"), False),
        (operations.RenameField("order", "note", "notes"), False),
        (operations.DeleteModel("order"), False),
        (operations.RunSQL("DROP TABLE orders_order"), False),
    ],
)
def test_a_change_that_an_old_process_would_notice_is_found(operation: Operation, is_harmless: bool) -> None:
    assert only_adds(operation) == is_harmless
