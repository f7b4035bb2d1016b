"""Log files are read completely, or the fault is named."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from loadtest.client_log import ClientLog, declare
from loadtest.sandbox.http_server import EvidenceLog
from seckill.report import manifest
from seckill.report.evidence_sources import Source
from seckill.report.manifest import BadManifest
from seckill.report.sources import files

REQUEST = uuid4()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that the crowd writes. Crowd and report share only this format."""
    path = tmp_path / "rush.jsonl"
    request = str(uuid4())
    written = ClientLog(path, url="http://x", sale=7, buyers=1, seed=1)
    written.write(
        "purchase", took_ms=3, user="anna", key="k", sale=7, quantity=1, status=202, request_id=request, partition=2,
        offset=5,
    )  # fmt: skip
    written.write("purchase", took_ms=3, user="anna", key="l", sale=7, quantity=1, status=0, problem="TimeoutError")
    written.write("poll", took_ms=1, user="anna", request_id=request, status=200, state="QUEUED")
    written.close()
    return path


def test_a_complete_crowd_log_is_read_completely(log: Path) -> None:
    found = files.read_crowd_logs([log])
    assert found.faults == []
    assert found.sales == {7}
    assert [(attempt.status, attempt.partition, attempt.offset) for attempt in found.attempts] == [
        (202, 2, 5),
        (0, None, None),
    ]
    assert [sight.state for sight in found.polls] == ["QUEUED"]


def test_a_log_without_its_closing_line_was_cut_off(log: Path) -> None:
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    found = files.read_crowd_logs([log])
    assert found.faults == ["rush.jsonl: cut off, it has no closing line"]
    assert len(found.attempts) == 2


def test_a_log_cut_off_in_the_middle_of_a_line_keeps_its_whole_lines(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-200])
    found = files.read_crowd_logs([log])
    assert found.faults == ["rush.jsonl: cut off, it has no closing line"]
    assert found.attempts


@pytest.mark.parametrize(
    ("old", "new"), [(b'"status":202', b'"status":503'), (b'"QUEUED"', b'"queued"')], ids=["status", "state"]
)
def test_an_altered_log_does_not_match_its_checksum(log: Path, old: bytes, new: bytes) -> None:
    log.write_bytes(log.read_bytes().replace(old, new))
    assert files.read_crowd_logs([log]).faults == [
        "rush.jsonl: the count or checksum in its closing line does not match its lines"
    ]


def test_a_removed_line_is_noticed(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], *lines[2:]]))
    assert files.read_crowd_logs([log]).faults


def looked(path: Path, *states: str, users: str = "") -> files.CrowdLog:
    """A log of buyers who poll one request repeatedly."""
    written = ClientLog(path, url="http://x", sale=7, buyers=1, seed=1)
    for second, state in enumerate(states):
        user = users[second] if users else "a"
        written.write("poll", 1000 * second, took_ms=1, user=user, request_id=str(REQUEST), status=200, state=state)
    written.close()
    return files.read_crowd_logs([path])


def test_of_equal_consecutive_polls_the_first_and_the_last_are_kept(tmp_path: Path) -> None:
    found = looked(tmp_path / "log", *["QUEUED"] * 50, *["SOLD_OUT"] * 3, "QUEUED")
    assert found.faults == []
    assert found.polls_logged == 54
    assert [(sight.state, sight.at_ms) for sight in found.polls] == [
        ("QUEUED", 0), ("QUEUED", 49_000), ("SOLD_OUT", 50_000), ("SOLD_OUT", 52_000), ("QUEUED", 53_000),
    ]  # fmt: skip


def test_polls_of_different_users_are_never_merged(tmp_path: Path) -> None:
    found = looked(tmp_path / "log", *["QUEUED"] * 5, users="aabaa")
    assert [sight.user_id for sight in found.polls] == ["a", "a", "b", "a", "a"]


def test_the_checksum_covers_a_log_of_many_blocks(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK_BYTES", 1)
    assert files.read_crowd_logs([log]).faults == []
    log.write_bytes(log.read_bytes().replace(b'"QUEUED"', b'"queued"'))
    assert files.read_crowd_logs([log]).faults == [
        "rush.jsonl: the count or checksum in its closing line does not match its lines"
    ]


def test_an_empty_or_missing_log_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    faults = files.read_crowd_logs([tmp_path / "empty.jsonl", tmp_path / "gone.jsonl"]).faults
    assert len(faults) == 2


def test_the_crowd_never_overwrites_evidence(log: Path) -> None:
    with pytest.raises(FileExistsError):
        ClientLog(log)


def test_the_report_reads_the_logs_that_provider_and_sinks_write(tmp_path: Path) -> None:
    payment, event = uuid4(), uuid4()
    logs = EvidenceLog(tmp_path / "provider.jsonl"), EvidenceLog(tmp_path / "sinks.jsonl")
    logs[0].write("captured", payment=str(payment), amount=100)
    trace = "00-" + 32 * "a" + "-" + 16 * "b" + "-01"
    logs[1].write("effect", channel="sms", key=f"{event}:sms", user="anna", text="x", traceparent=trace)
    for log in logs:
        log._file.close()
    lines, faults = files.read_provider_log(tmp_path / "provider.jsonl")
    assert [(line.what, line.payment_id, line.amount) for line in lines] == [("captured", str(payment), 100)]
    told, more = files.read_sink_log(tmp_path / "sinks.jsonl")
    assert [tuple(line)[1:] for line in told] == [("effect", str(event), "sms", "anna", 32 * "a", "x")]
    assert faults == more == []


def test_an_invalid_line_is_a_fault_instead_of_a_crash(tmp_path: Path) -> None:
    (tmp_path / "sinks.jsonl").write_text('{"at_ms":1,"what":"effect","key":"no id:sms"}\n')
    (tmp_path / "provider.jsonl").write_text("no JSON\n")
    assert files.read_sink_log(tmp_path / "sinks.jsonl")[1]
    assert files.read_provider_log(tmp_path / "provider.jsonl")[1]
    assert files.read_provider_log(tmp_path / "gone.jsonl")[1]


# ── the manifest ─────────────────────────────────────────────────────────────────────────────────


def test_what_a_crowd_declares_is_what_the_report_reads(tmp_path: Path) -> None:
    declare(tmp_path / "one.jsonl", 1, 10)
    declare(tmp_path / "two.jsonl", 2, 10)
    declared = manifest.read_manifest(tmp_path)
    assert declared.is_there
    assert declared.logs == ("one.jsonl", "two.jsonl")
    assert declared.declared_off == {Source.STATISTICS}


def test_without_a_manifest_no_source_is_off(tmp_path: Path) -> None:
    declared = manifest.read_manifest(tmp_path)
    assert not declared.is_there
    assert declared.declared_off == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[]",
        json.dumps({"version": 2, "runs": [], "off": [], "faults": []}),
        json.dumps({"version": 1, "runs": [], "off": ["stock"], "faults": []}),
    ],
)
def test_an_invalid_manifest_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / manifest.NAME).write_text(text)
    with pytest.raises(BadManifest):
        manifest.read_manifest(tmp_path)
