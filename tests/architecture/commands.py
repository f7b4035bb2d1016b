"""Finds the commands in the code blocks of a page, and checks them against the tools without running anything."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
from collections.abc import Sequence
from typing import Any

from typer import TyperException
from typer.core import TyperGroup

from seckill.cli.__main__ import command_tree
from tests.architecture.links import ROOT

BLOCK = re.compile(r"(?:^ {4}\S.*\n(?:^(?: {4}.*)?\n)*)+", re.MULTILINE)
INLINE = re.compile(r"`(\.venv/bin/[^`]+|make [a-z]+)`")
TARGET = re.compile(r"^([a-z]+):.*  ## ", re.MULTILINE)


def blocks(text: str) -> list[list[str]]:
    """The indented code blocks of a page, without comments."""
    return [
        [line.strip().partition("  #")[0].partition(" # ")[0].strip() for line in block.splitlines() if line.strip()]
        for block in BLOCK.findall(text)
    ]


def commands(text: str) -> list[str]:
    lines = [line for block in blocks(text) for line in block]
    starts = ("make ", ".venv/bin/", "docker compose")
    return [line for line in [*lines, *INLINE.findall(text)] if line.startswith(starts)]


def problem_with(command: str) -> str:
    """Why the command's tool would reject it; empty if it would not."""
    tool, *words = shlex.split(command)
    if tool == "make":
        unknown = {word for word in words if "=" not in word} - set(TARGET.findall((ROOT / "Makefile").read_text()))
        return f"the Makefile has no target {', '.join(unknown)}" if unknown else ""
    if tool == "docker":
        return "" if (ROOT / "docker-compose.yml").exists() else "there is no docker-compose.yml"
    if words[:1] == ["-m"]:
        return _argparse_error(words[1], words[2:])
    if tool == ".venv/bin/pytest":
        return ", ".join(f"there is no {word}" for word in words if word[0] != "-" and not (ROOT / word).exists())
    if tool == ".venv/bin/seckill":
        return usage_error(words)
    return _argparse_error("mqcore", words) if tool == ".venv/bin/mqcore" else ""


def usage_error(words: Sequence[str]) -> str:
    """Why `seckill` would reject these words; empty if it would run them. Nothing is executed."""
    command: Any = command_tree()
    name, context, remaining = "seckill", None, list(words)
    try:
        while isinstance(command, TyperGroup):
            context = command.make_context(name, remaining, parent=context)
            remaining = [*context._protected_args, *context.args]
            if not remaining:
                return "" if command.invoke_without_command else "a command is missing"
            found, command, remaining = command.resolve_command(context, remaining)
            name = str(found)
        command.make_context(name, remaining, parent=context)
    except TyperException as wrong:
        return str(wrong) or type(wrong).__name__
    return ""


def _argparse_error(module: str, words: list[str]) -> str:
    try:
        found = importlib.import_module(module)
        if hasattr(found, "__path__"):  # a package
            found = importlib.import_module(f"{module}.__main__")
    except ModuleNotFoundError as missing:
        return str(missing)
    return _rejection_by(found._parser(), words) if hasattr(found, "_parser") else ""


def _rejection_by(parser: Any, words: list[str]) -> str:
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output):
            parser.parse_args(words)
    except SystemExit:
        return output.getvalue() or "rejected"
    return ""
