"""Shell: the project's command line. One word each; `mqcore` has a command of its own.

A room that has words adds them (`add_words`) and is named here in one line, at its place in `seckill --help`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from seckill import backlog, halted, messages, money, operating, processes, rewiring
from seckill.audit import command as auditing
from seckill.demo import words as demo
from seckill.reaching import named
from seckill.stack import words as stack

ROOMS = (demo, stack, operating, auditing, money, messages, rewiring, backlog, halted, processes)
OWN = {  # words with words and exit codes of their own
    "report": ("seckill.consistency.command:leave",
               "do the books of a run agree? exit 0 PASS, 1 FAIL, 2 UNKNOWN, 3 the tool failed"),
    "faults": ("seckill.faults.command:main", "break a running sale in every way we know, and ask the books"),
    "stats": ("analytics.command:main", "statistics from the topics, by Spark: fetch, live, replay, report"),
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in OWN:
        path, _ = OWN[words[0]]
        return int(named(path)(words[1:]))
    chosen = parser().parse_args(words)
    return int(chosen.run(chosen))


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="seckill", description="The flash sale and the broker it runs on.")
    words = whole.add_subparsers(dest="word", required=True, metavar="WORD")
    for room in ROOMS:
        room.add_words(words)
    for word, (_, text) in OWN.items():
        words.add_parser(word, help=text)
    _describe(words)
    return whole


def _describe(words: Any) -> None:
    """What the list says of a word, its own `--help` says, too."""
    for told in words._choices_actions:
        word = words.choices[told.dest]
        word.description = word.description or told.help
        for inner in word._actions:
            if isinstance(inner, argparse._SubParsersAction):
                _describe(inner)


if __name__ == "__main__":
    sys.exit(main())
