"""Shell: how a word of the command line reaches a stack: its addresses, Django on them, what a name stands for."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Word = Callable[[argparse.Namespace], int]

DATA = Path("var/stack")


def stack_words() -> argparse.ArgumentParser:
    """A parent for the parsers of words that are said to a stack: where it is."""
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--data", type=Path, default=DATA, help=f"folder of the stack (default: {DATA})")
    return where


def adopt(data: Path) -> None:
    """Take the addresses of the stack in this folder, except where the environment names others."""
    path = data / "run" / "environment.json"
    if path.exists():
        for name, value in json.loads(path.read_text()).items():
            os.environ.setdefault(name, value)


def start_django(data: Path | None = None) -> str:
    """Set Django up, for the stack in this folder if there is one; the address of the broker."""
    if data is not None:
        adopt(data)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.settings")
    import django
    from django.conf import settings

    from seckill import logs

    logs.to_stderr()
    django.setup()
    return str(settings.ENVIRONMENT.kafka_bootstrap_servers)


def on_a_stack(word: Word) -> Word:
    """The word, with Django set up for it; 3 if the stack's database is not there to hear it."""

    def run(chosen: argparse.Namespace) -> int:
        start_django(chosen.data)
        from django.db import OperationalError

        try:
            return word(chosen)
        except OperationalError as fault:
            print(f"seckill: the database cannot be asked (is the stack up?): {fault}".strip(), file=sys.stderr)
            return 3

    return run


def with_a_broker(word: Callable[[argparse.Namespace, str], int]) -> Word:
    """The word, with Django set up for it; it is told where the broker is."""
    return lambda chosen: word(chosen, start_django(chosen.data))


def named(path: str) -> Any:
    """The object that "package.module:name" names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
