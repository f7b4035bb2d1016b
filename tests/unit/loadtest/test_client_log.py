"""The log of a crowd is complete or recognisably incomplete, and is listed in the manifest before the first request."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from pathlib import Path

from loadtest.buyers import Call, Response
from loadtest.client_log import MANIFEST, ClientLog, declare, now_ms
from seckill.report.sources import files

CALL = Call(
    "purchase", "POST", "/sales/1/purchases", "", {}, {"quantity": 1},
    {"user": "anna", "key": "key-1", "sale": 1, "quantity": 1}, ("request_id", "partition", "offset"),
)  # fmt: skip
ACCEPTED = Response(202, {"request_id": "00000000-0000-8000-8000-000000000001", "partition": 1, "offset": 2})


def test_a_closed_log_is_complete_and_has_every_response(tmp_path: Path) -> None:
    log = ClientLog(tmp_path / "a.jsonl", sale=1)
    log.record(CALL, now_ms(), ACCEPTED)
    log.record(CALL, now_ms(), Response(0, {}, None, "OSError: gone"))
    log.close()
    crowd = files.read_crowd_logs([tmp_path / "a.jsonl"])
    assert crowd.faults == []
    assert [(attempt.status, attempt.partition, attempt.offset) for attempt in crowd.attempts] == [
        (202, 1, 2), (0, None, None),
    ]  # fmt: skip


def _write_until_killed(path: Path) -> None:
    declare(path, 1, 10)
    log = ClientLog(path, sale=1)
    for _ in range(1000):
        log.record(CALL, now_ms(), ACCEPTED)
    log.flush()
    log.record(CALL, now_ms(), ACCEPTED)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_leaves_an_incomplete_log(tmp_path: Path) -> None:
    path = tmp_path / "killed.jsonl"
    worker = multiprocessing.get_context("spawn").Process(target=_write_until_killed, args=(path,))
    worker.start()
    worker.join(60)
    assert worker.exitcode == -signal.SIGKILL
    crowd = files.read_crowd_logs([path])
    assert any("cut off" in fault for fault in crowd.faults)
    assert len(crowd.attempts) >= 1000
    declared = [run["log"] for run in json.loads((tmp_path / MANIFEST).read_text())["runs"]]
    assert declared == ["killed.jsonl"]


def _declare_some(folder: Path, first: int) -> None:
    for number in range(first, first + 25):
        declare(folder / f"{number}.jsonl", 1, 1)


def test_workers_that_register_at_the_same_time_are_all_in_the_manifest(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_declare_some, args=(tmp_path, 100 * number)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    runs = json.loads((tmp_path / MANIFEST).read_text())["runs"]
    assert len({run["log"] for run in runs}) == len(runs) == 75
