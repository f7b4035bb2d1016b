"""The comparison of designs: which answers count as wrong, and what the table says about several runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadtest.designs import __main__ as designs
from loadtest.designs.answers import read_client_view, wrong_answers
from loadtest.designs.measurement import Measurement


def crowd_log(folder: Path, *states: tuple[str, str]) -> Path:
    """A log in which each request is accepted, and then polled with these states."""
    path = folder / "rush.jsonl"
    lines: list[dict[str, Any]] = [{"what": "begin"}]
    for request in dict(states):
        lines.append({"what": "purchase", "at_ms": 100, "took_ms": 5, "status": 202, "request_id": request})
    lines += [{"what": "poll", "status": 200, "request_id": request, "state": state} for request, state in states]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def wrong(folder: Path, states: list[str], decision: str | None, holds: set[str]) -> bool:
    """Whether the buyer of one request got a wrong answer, given what the books say about it."""
    view = read_client_view(crowd_log(folder, *(("one", state) for state in states)))
    return bool(wrong_answers(view, {"one": decision} if decision else {}, {"one": holds} if holds else {}))


def test_answers_that_agree_with_the_books_are_right(tmp_path: Path) -> None:
    assert not wrong(tmp_path, ["QUEUED", "RESERVED", "AWAITING_PAYMENT", "PAID"], "RESERVED", {"sold"})
    assert not wrong(tmp_path, ["AWAITING_PAYMENT", "EXPIRED"], "RESERVED", {"released"})
    assert not wrong(tmp_path, ["QUEUED", "SOLD_OUT"], "SOLD_OUT", set())
    assert not wrong(tmp_path, ["QUEUED"], None, set())


@pytest.mark.parametrize(
    ("states", "decision", "holds"),
    [
        (["AWAITING_PAYMENT"], None, set()),
        (["PAID"], "RESERVED", {"released"}),
        (["RESERVED", "SOLD_OUT"], "SOLD_OUT", {"reserved"}),
        (["SOLD_OUT"], "RESERVED", {"reserved"}),
        (["SOLD_OUT"], None, set()),
    ],
)
def test_answers_that_the_books_contradict_are_wrong(
    tmp_path: Path, states: list[str], decision: str | None, holds: set[str]
) -> None:
    assert wrong(tmp_path, states, decision, holds)


def test_a_request_that_is_accepted_twice_is_one_accepted_request(tmp_path: Path) -> None:
    path = crowd_log(tmp_path, ("one", "QUEUED"))
    path.write_text(path.read_text() * 2)
    view = read_client_view(path)
    assert (view.first_ms, view.accepted_at_ms, view.latencies_ms) == (100, {"one": 105}, [5, 5])


def test_a_call_without_a_response_was_cut(tmp_path: Path) -> None:
    path = crowd_log(tmp_path, ("one", "QUEUED"))
    assert read_client_view(path).cut == 0
    path.write_text(path.read_text() + json.dumps({"what": "purchase", "at_ms": 1, "took_ms": 5, "status": 0}) + "\n")
    assert read_client_view(path).cut == 1


def test_added_runs_count_together_with_saved_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = iter([100.0, 50.0, 300.0, 70.0])
    folders: list[Path] = []

    def measure(design: Any, folder: Path, *_: Any, **__: Any) -> Measurement:
        folders.append(folder)
        is_ours = design.name == "full"
        broken = {} if is_ours else {"I1": len(folders)}
        failures = 0 if is_ours else len(folders)
        return Measurement(
            design.name, failures, failures, failures, next(rates), 10, 90.0, 20, 30, 1.5, 5, 3 * failures,
            failures / 2, broken,
        )  # fmt: skip

    monkeypatch.setattr(designs, "measure", measure)
    numbers, page = tmp_path / "designs.json", tmp_path / "designs.md"
    words = ["--design", "full", "--design", "naive", "--repeat", "1", "--add", "--data", str(tmp_path)]
    for _ in range(2):
        assert designs.main([*words, "--json", str(numbers), "--markdown", str(page)]) == 0
    assert len({*folders}) == 4, "each run has its own stack"
    runs = json.loads(numbers.read_text())["runs"]
    assert (len(runs["full"]), len(runs["naive"])) == (2, 2)
    text = page.read_text()
    assert "runs of each design: 2" in text
    assert "| full | 0 | 0 | 0 | 0 cut, 0.0 s | 200 | none | 20 | 30 |" in text
    assert "| naive | 4 | 4 | 4 | 12 cut, 2.0 s | 60 | I1 ×4 | 20 | 30 |" in text
    with pytest.raises(SystemExit):
        designs.main(["--add"])
