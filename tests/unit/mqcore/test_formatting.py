"""`mqcore format`: what it writes, what it refuses, and who needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqcore.__main__ import main
from mqcore.config import parse_config
from mqcore.data_folder import FILE, read_identity
from mqcore.disk.posix import PosixDisk
from mqcore.identity import BrokerId
from mqcore.metadata_log import CannotStart, check_formatted
from mqcore.raft.messages import VoterKey
from mqcore.raft.quorum_file import QUORUM_FILE
from mqcore.raft.quorum_log import FOLDER, QuorumLog
from tests.unit.mqcore.apis.running_broker import RunningBroker

VOTERS = (
    "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names=CONTROLLER",
    "controller.quorum.voters=1@127.0.0.1:9193,2@127.0.0.1:9194,3@127.0.0.1:9195",
)


def run_format(data: Path, node: int = 1, *more: str) -> int:
    return main(["format", "--data", str(data), "--cluster-id", "shop", "--node-id", str(node), *more])


def test_the_founder_is_the_only_voter_at_first(tmp_path: Path) -> None:
    assert run_format(tmp_path / "1", 1, "--founder") == 0
    disk = PosixDisk(str(tmp_path / "1"))
    identity = read_identity(disk)
    assert (identity.cluster_id, identity.node_id) == ("shop", 1)
    assert QuorumLog(disk, 0).voters == {1: VoterKey(BrokerId(1), identity.directory_id)}


def test_another_node_begins_without_voters_and_learns_them_from_the_founder(tmp_path: Path) -> None:
    assert run_format(tmp_path / "2", 2) == 0
    log = QuorumLog(PosixDisk(str(tmp_path / "2")), 0)
    assert log.voters == {} and log.end == 0


def test_a_formatted_founder_also_starts_alone(tmp_path: Path) -> None:
    assert run_format(tmp_path / "1", 1, "--founder") == 0
    with RunningBroker(tmp_path / "1") as broker:
        broker.create_topic("orders")
        assert broker.services.cluster_id == "shop"


def test_a_folder_is_formatted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_format(tmp_path / "1", 1, "--founder") == 0
    assert run_format(tmp_path / "1", 2) == 1
    assert "node 1 of cluster shop" in capsys.readouterr().err


def test_a_format_that_was_interrupted_is_repeated(tmp_path: Path) -> None:
    assert run_format(tmp_path / "1", 1, "--founder") == 0
    (tmp_path / "1" / FILE).unlink()
    assert run_format(tmp_path / "1", 1, "--founder") == 0
    (tmp_path / "1" / FILE).unlink()
    (tmp_path / "1" / str(FOLDER) / QUORUM_FILE).unlink()
    assert run_format(tmp_path / "1", 1, "--founder") == 0


def test_a_folder_with_data_is_not_formatted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunningBroker(tmp_path):
        pass
    (tmp_path / FILE).unlink()
    assert run_format(tmp_path, 1, "--founder") == 1
    assert "a folder with data" in capsys.readouterr().err


@pytest.mark.parametrize("changes", [("--node-id", "-1"), ("--cluster-id", ""), ("--cluster-id", "a\nb")])
def test_an_identity_that_the_file_cannot_hold_is_refused(tmp_path: Path, changes: tuple[str, str]) -> None:
    assert run_format(tmp_path / "1", 1, *changes) == 1
    assert not (tmp_path / "1" / FILE).exists()


def test_a_cluster_of_three_starts_only_in_formatted_folders(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="not formatted: run `mqcore format"):
        RunningBroker(tmp_path / "1", *VOTERS).__enter__()
    assert not (tmp_path / "1" / FILE).exists()
    assert run_format(tmp_path / "1", 1, "--founder") == 0
    check_formatted(
        parse_config("", [f"log.dirs={tmp_path / '1'}", "node.id=1", *VOTERS]), PosixDisk(str(tmp_path / "1"))
    )


def test_an_old_folder_joins_no_cluster_before_it_has_started_alone(tmp_path: Path) -> None:
    with RunningBroker(tmp_path):
        pass
    (tmp_path / str(FOLDER) / QUORUM_FILE).unlink()
    with pytest.raises(CannotStart, match="not formatted"):
        RunningBroker(tmp_path, *VOTERS).__enter__()
