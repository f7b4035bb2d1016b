"""Shell: what `seckill lab` does: list labs, run them, print what they found. Imported only when it is called."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.markup import escape

from seckill.cli.context import DONE, REFUSED, UNAVAILABLE, USAGE_ERROR, CommandError
from seckill.cli.output import console, print_json, print_table
from seckill.lab.labs.catalogue import LABS
from seckill.lab.labs.excerpt import read_excerpt
from seckill.lab.labs.lab import Lab, Variant, is_expected
from seckill.lab.labs.picture import to_text
from seckill.lab.labs.runner import LabFailed, LabResult, LabRunner
from seckill.stack.broker_process import BrokerFault
from seckill.stack.control import StackFault
from seckill.stack.servers import NoServer

PICTURES = Path("var/labs")
ALL = "all"
SUFFIX = ".svg"


def list_labs(*, as_json: bool) -> None:
    if as_json:
        names = ("number", "name", "question", "broken", "fixed", "test")
        print_json([{name: getattr(lab, name) for name in names} for lab in LABS.values()], indent=1)
        return
    print_table(("", "lab", "question"), [(lab.number, lab.name, lab.question) for lab in LABS.values()])
    print("\n`seckill lab run N` runs one; docs/labs has a page with exercises for each.")


def find_labs(number: str) -> list[Lab]:
    if number == ALL:
        return list(LABS.values())
    found = LABS.get(int(number)) if number.isascii() and number.isdigit() else None
    if found is None:
        raise CommandError(
            f"N must be one of {', '.join(map(str, LABS))}, or all; got {number!r}. `seckill lab list` shows them",
            USAGE_ERROR,
        )
    return [found]


def run_labs(
    number: str, folder: Path | None, *, broken: bool, fixed: bool, picture: Path | None, as_json: bool
) -> int:
    labs = find_labs(number)
    if picture is not None and picture.suffix == SUFFIX and len(labs) > 1:
        raise CommandError(f"--picture must be a folder for several labs, got {picture}", USAGE_ERROR)
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise CommandError(f"{folder} is not empty; name another folder with --data", USAGE_ERROR)
    variants = [Variant.BROKEN] if broken else [Variant.FIXED] if fixed else list(Variant)
    for interrupt in (signal.SIGTERM, signal.SIGINT):
        signal.signal(interrupt, _interrupt)
    out = console(stderr=as_json)
    results: list[LabResult] = []
    failures: list[str] = []
    try:
        with ExitStack() as opened:
            where = folder or Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="seckill-lab-")))
            runner = opened.enter_context(LabRunner(where.resolve(), lambda text: _tell(out, text)))
            for lab in labs:
                out.print(f"[bold]Lab {lab.number}[/] · {escape(lab.question)}", highlight=False)
                try:
                    result = runner.run(lab, variants, _picture_path(lab, picture))
                except (LabFailed, StackFault, BrokerFault, NoServer, TimeoutError) as fault:
                    failures.append(f"lab {lab.number} could not run: {fault}")
                    _tell(out, failures[-1])
                    continue
                results.append(result)
                if not as_json:
                    _print_result(out, result)
    except KeyboardInterrupt:
        raise CommandError("interrupted; everything that the lab started has been stopped", 130) from None
    if as_json and results:
        print_json([_as_json(result) for result in results] if number == ALL else _as_json(results[0]), indent=1)
    elif len(labs) > 1:
        _print_summary(out, results)
    if failures:
        raise CommandError("; ".join(each.partition("\n")[0] for each in failures), UNAVAILABLE)
    return DONE if all(result.is_as_expected for result in results) else REFUSED


def _picture_path(lab: Lab, picture: Path | None) -> Path:
    if picture is not None and picture.suffix == SUFFIX:
        return picture
    return (picture or PICTURES) / f"{lab.stem}{SUFFIX}"


# ── printing ─────────────────────────────────────────────────────────────────────────────────────


def _print_result(out: Console, result: LabResult) -> None:
    lab = result.lab
    top = max(each.chart.top for each in result.observations.values())
    for variant, observation in result.observations.items():
        style = "bold red" if observation.damage else "bold green"
        out.print(f"\n[{style}]{variant}: {observation.damage:,} {escape(lab.damage)}[/]", highlight=False)
        for line in to_text(observation.chart, top):
            _tell(out, line)
        for name, value in observation.facts.items():
            _tell(out, f"{name:>44}: {value:,}" if isinstance(value, int) else f"{name:>44}: {value}")
    _tell(out, f"\nWhy: {lab.why}\n\nThe lines that matter:")
    for code in lab.code:
        excerpt = read_excerpt(code)
        _tell(out, f"\n{excerpt.path}:{excerpt.first_line}")
        for number, line in enumerate(excerpt.lines, excerpt.first_line):
            _tell(out, f"{number:>5} {line}".rstrip())
    _tell(out, f"\nGuarded by: {lab.test}\nPicture:    {result.picture}\nYour turn:  {lab.next}")
    _tell(out, f"            Exercises: docs/labs/{lab.stem}.md\n")
    out.print(_verdict(result), highlight=False, soft_wrap=True)


def _verdict(result: LabResult) -> str:
    wrong = [
        f"{variant} shows {each.damage:,} {result.lab.damage}"
        for variant, each in result.observations.items()
        if not is_expected(variant, each.damage)
    ]
    if wrong:
        return f"[bold red]VERDICT: not as expected[/]: {escape(', '.join(wrong))}"
    said = " · ".join(f"{variant} {each.damage:,}" for variant, each in result.observations.items())
    return f"[bold green]VERDICT: as expected[/] ({said} {escape(result.lab.damage)})"


def _print_summary(out: Console, results: Sequence[LabResult]) -> None:
    out.print()
    for result in results:
        out.print(f"{result.lab.number:>3} {result.lab.name:<16} {_verdict(result)}", highlight=False, soft_wrap=True)


def _tell(out: Console, text: str) -> None:
    out.print(text, highlight=False, markup=False, soft_wrap=True)


def _as_json(result: LabResult) -> dict[str, Any]:
    lab = result.lab
    return {
        "lab": lab.number,
        "name": lab.name,
        "question": lab.question,
        "as_expected": result.is_as_expected,
        "damage": lab.damage,
        "variants": {variant: each.as_json() for variant, each in result.observations.items()},
        "code": [read_excerpt(code)._asdict() for code in lab.code],
        "test": lab.test,
        "picture": str(result.picture),
        "next": lab.next,
    }


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
