"""The exercises of the labs: each test fails for the reader's stub, and passes for the reference solution."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from seckill.lab.labs.catalogue import LABS
from seckill.lab.labs.excerpt import ROOT

EXERCISES, SOLUTIONS = ROOT / "docs" / "labs" / "exercises", ROOT / "docs" / "labs" / "solutions"
TASKS = (1, 2, 3)


def load(path: Path, name: str) -> ModuleType:
    """A copy of the module of its own, so that the reader's and the solved one do not meet."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def stem(number: int) -> str:
    return f"lab{number:02d}_{LABS[number].module}"


def runs_of(number: int, task: int, implementation: ModuleType) -> Iterator[Callable[[], Any]]:
    """The test of a task with each of its parameters, on an implementation of the lab's functions."""
    module = load(EXERCISES / f"test_lab{number:02d}.py", f"exercise_tests_{number}")
    module.lab = implementation  # type: ignore[attr-defined]
    [test] = [value for name, value in vars(module).items() if name.startswith(f"test_{task}_")]
    for arguments in parameters_of(test):
        yield lambda arguments=arguments: test(**arguments)  # type: ignore[misc]


def parameters_of(test: Any) -> list[dict[str, Any]]:
    """What `pytest.mark.parametrize` would pass."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    choices = []
    for mark in marks:
        names, values = mark.args
        names = [each.strip() for each in names.split(",")] if isinstance(names, str) else list(names)
        choices.append([dict(zip(names, each if len(names) > 1 else [each], strict=True)) for each in values])
    return [{name: value for part in chosen for name, value in part.items()} for chosen in itertools.product(*choices)]


def failures(number: int, task: int, implementation: ModuleType) -> list[Exception]:
    found = []
    for run in runs_of(number, task, implementation):
        try:
            run()
        except Exception as failure:
            found.append(failure)
    return found


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("number", LABS)
def test_an_exercise_fails_until_it_is_solved_and_the_reference_solves_it(number: int, task: int) -> None:
    stub = load(EXERCISES / f"{stem(number)}.py", f"stub_{number}")
    solved = load(SOLUTIONS / f"{stem(number)}.py", f"solved_{number}")
    unsolved = failures(number, task, stub)
    assert unsolved and all(isinstance(each, NotImplementedError) for each in unsolved), "the stub is what fails"
    assert failures(number, task, solved) == []


@pytest.mark.parametrize("number", LABS)
def test_a_stub_differs_from_its_solution_only_inside_the_tasks(number: int) -> None:
    """So a reader can replace a function of the stub by one of the solution."""
    stub, solved = (load(folder / f"{stem(number)}.py", f"shape_{number}") for folder in (EXERCISES, SOLUTIONS))
    mine = {name: value.__doc__ for name, value in vars(stub).items() if is_own(value, stub)}
    theirs = {name: value.__doc__ for name, value in vars(solved).items() if is_own(value, solved)}
    assert mine == theirs
    tasks = [text.partition(":")[0] for text in mine.values() if text and text.startswith("Task ")]
    assert tasks == [f"Task {task}" for task in TASKS]


def is_own(value: Any, module: ModuleType) -> bool:
    return callable(value) and getattr(value, "__module__", "") == module.__name__


def test_a_wrong_solution_is_found() -> None:
    """The control: selling without the comparison."""
    solved = load(SOLUTIONS / f"{stem(1)}.py", "wrong")

    def read_then_write(row: Any) -> bool:
        version, available = row.read()
        row.update(version, available - 1)
        return bool(available)

    solved.sell_one = read_then_write  # type: ignore[attr-defined]
    assert failures(1, 1, solved)
