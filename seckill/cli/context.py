"""Shell: what all commands share: the stack's folder, Django on the stack's addresses, exit codes, error lines."""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

PROGRAM = "seckill"
DATA_VARIABLE = "SECKILL_DATA"
DATA_DEFAULT = Path("var/stack")

DONE, REFUSED, USAGE_ERROR, UNAVAILABLE = 0, 1, 2, 3
EXIT_CODES = """Exit codes: 0 done · 1 refused, or something needs attention · 2 wrong arguments or environment ·
3 the database, the broker or another server is unavailable. `seckill report` has its own: 0 PASS · 1 FAIL · 2 UNKNOWN ·
3 the report could not be made."""


class CommandError(Exception):
    """Ends the command with one line on stderr."""

    def __init__(self, text: str, exit_code: int = REFUSED) -> None:
        super().__init__(text)
        self.exit_code = exit_code


# ── the stack's folder ───────────────────────────────────────────────────────────────────────────


def data_folder() -> Path:
    """The folder of the stack: `--data`, else the variable, else the default. Relative to the working folder."""
    given = explicit_data_folder()
    return given if given is not None else Path(os.environ.get(DATA_VARIABLE) or DATA_DEFAULT)


def explicit_data_folder() -> Path | None:
    """Only what `--data` says, for commands that create stacks of their own."""
    return None if _root is None else _root.params.get("data")


_root: typer.Context | None = None


def begin(root: typer.Context) -> None:
    """The outermost context of the command line, which holds the common options once everything is parsed."""
    global _root
    _root = root


def inherit_options(group: TyperGroup, names: Iterable[str]) -> None:
    """Let options of a group also stand after its subcommands: `report trace ID --json -` means
    `report --json - trace ID`. A subcommand with an option of the same name keeps its own."""
    for command in group.commands.values():
        for option in group.params:
            taken = {text for each in command.params for text in each.opts}
            if option.name in names and not taken & set(option.opts):
                clone = copy.copy(option)
                clone.default, clone.required, clone.expose_value, clone.envvar = None, False, False, None
                clone.callback = _store_in_parent
                command.params.append(clone)
        if isinstance(command, TyperGroup):
            inherit_options(command, names)


def _store_in_parent(context: Any, option: Any, value: Any) -> None:
    """Groups read their options from their context when they run, so a value that comes later still counts."""
    if value is None or (value is False and option.is_flag):
        return
    owner = context.parent
    while owner is not None:
        if any(each.name == option.name for each in owner.command.params if each.expose_value):
            owner.params[option.name] = value
            return
        owner = owner.parent


# ── Django and the stack's servers ───────────────────────────────────────────────────────────────


def stack_addresses(data: Path) -> dict[str, str]:
    """What the stack in this folder has written down about its servers; empty if none has run there."""
    path = data / "run" / "environment.json"
    written: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return written


def use_stack_addresses(data: Path) -> None:
    """Variables of this process take precedence over the stack's addresses."""
    for name, value in stack_addresses(data).items():
        if f"{name}_FILE" not in os.environ:
            os.environ.setdefault(name, value)


def start_django(data: Path | None = None) -> str:
    """Set Django up, with the addresses of the stack in this folder if there is one. Returns the broker's address."""
    if data is not None:
        use_stack_addresses(data)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
    import django
    from django.conf import settings

    from seckill.monitoring import logs

    logs.configure()
    django.setup()
    return str(settings.ENVIRONMENT.kafka_bootstrap_servers)


def start_django_on_stack() -> str:
    """As `start_django`, on the stack that `--data` names."""
    return start_django(data_folder())


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


def explain(fault: BaseException) -> CommandError | None:
    """The one line for a fault that an operator can do something about; None for a bug, which needs its traceback."""
    if isinstance(fault, CommandError):
        return fault
    if isinstance(fault, KeyboardInterrupt):
        return CommandError("interrupted", 130)
    from seckill.config.environment import BadEnvironment

    if isinstance(fault, BadEnvironment):
        return CommandError(str(fault), USAGE_ERROR)
    return _explain_server_fault(fault)


def _explain_server_fault(fault: BaseException) -> CommandError | None:
    """No library is imported for this: if a command has not loaded it, the fault is not one of its exceptions."""

    def is_a(module: str, *names: str) -> bool:
        loaded = sys.modules.get(module)
        return loaded is not None and isinstance(fault, tuple(getattr(loaded, name) for name in names))

    reason = str(fault).strip().partition("\n")[0] or type(fault).__name__
    if is_a("django.db.utils", "ProgrammingError") and "does not exist" in reason:
        return CommandError(f"the database has no such table; run `seckill manage migrate`: {reason}", UNAVAILABLE)
    if is_a("django.db.utils", "OperationalError", "InterfaceError") or is_a("psycopg", "OperationalError"):
        return CommandError(f"the database is unavailable (is the stack up?): {reason}", UNAVAILABLE)
    if is_a("kafka.errors", "KafkaTimeoutError"):
        from seckill.config.kafka_bootstrap import bootstrap_failure

        reason = ": ".join(filter(None, (reason, bootstrap_failure())))
    if is_a("kafka.errors", "KafkaError"):
        return CommandError(f"the broker is unavailable or refuses: {reason}", UNAVAILABLE)
    if is_a("redis.exceptions", "RedisError"):
        return CommandError(f"Redis is unavailable or refuses: {reason}", UNAVAILABLE)
    return None
