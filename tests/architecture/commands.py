"""The commands in the code blocks of a page, and whether the tools know them."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
from typing import Any

from tests.architecture.links import ROOT

BLOCK = re.compile(r"(?:^ {4}\S.*\n(?:^(?: {4}.*)?\n)*)+", re.MULTILINE)
INLINE = re.compile(r"`(\.venv/bin/[^`]+|make [a-z]+)`")
TARGET = re.compile(r"^([a-z]+):.*  ## ", re.MULTILINE)


def blocks(text: str) -> list[list[str]]:
    """The indented code of a page, without its comments."""
    return [
        [line.strip().partition("  #")[0].partition(" # ")[0].strip() for line in block.splitlines() if line.strip()]
        for block in BLOCK.findall(text)
    ]


def commands(text: str) -> list[str]:
    lines = [line for block in blocks(text) for line in block]
    starts = ("make ", ".venv/bin/", "docker compose")
    return [line for line in [*lines, *INLINE.findall(text)] if line.startswith(starts)]


def wrong(command: str) -> str:
    """What is wrong with it; empty: its tool would understand it."""
    tool, *words = shlex.split(command)
    if tool == "make":
        unknown = {word for word in words if "=" not in word} - set(TARGET.findall((ROOT / "Makefile").read_text()))
        return f"make knows no {', '.join(unknown)}" if unknown else ""
    if tool == "docker":
        return "" if (ROOT / "docker-compose.yml").exists() else "there is no docker-compose.yml"
    if words[:1] == ["-m"]:
        return _refusal(f"{words[1]}.__main__", words[2:])
    if tool == ".venv/bin/pytest":
        return ", ".join(f"there is no {word}" for word in words if word[0] != "-" and not (ROOT / word).exists())
    if tool == ".venv/bin/seckill":
        return _seckill(words)
    return _refusal("mqcore.__main__", words) if tool == ".venv/bin/mqcore" else ""


def _seckill(words: list[str]) -> str:
    from seckill.cli import OWN, parser

    if words[0] in OWN:
        return _refusal(OWN[words[0]][0].partition(":")[0], words[1:])
    return _refused_by(parser(), words)


def _refusal(module: str, words: list[str]) -> str:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        return str(missing)
    return _refused_by(found._parser(), words) if hasattr(found, "_parser") else ""


def _refused_by(parser: Any, words: list[str]) -> str:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parser.parse_args(words)
    except SystemExit:
        return said.getvalue() or "refused"
    return ""
