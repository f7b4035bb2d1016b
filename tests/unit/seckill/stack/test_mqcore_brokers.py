"""The command lines of one broker and of three, and the folders that three need."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest

from mqcore.config import BrokerConfig, parse_config
from mqcore.topic_defaults import check_default
from seckill.stack import mqcore_brokers
from seckill.stack.services import Layout, Ports, services

PORT, CONTROLLER_PORT = 20_000, 20_010


def config(brokers: int, number: int) -> BrokerConfig:
    words = mqcore_brokers.command(Path("data"), PORT, CONTROLLER_PORT, brokers, number)
    assert words[1:5] == ["-m", "mqcore", "serve", "--data"]
    return parse_config("", [value for word, value in pairwise(words) if word == "--set"], check_default)


def listeners(of: BrokerConfig) -> dict[str, int]:
    return {each.name: each.port for each in of.listener_list()}


# ── names, addresses and settings ────────────────────────────────────────────────────────────────


def test_three_brokers_have_consecutive_ports() -> None:
    assert mqcore_brokers.addresses(PORT, 1) == "127.0.0.1:20000"
    assert mqcore_brokers.addresses(PORT, 3) == "127.0.0.1:20000,127.0.0.1:20001,127.0.0.1:20002"


def test_the_number_of_a_broker_is_found_in_the_name_of_its_process() -> None:
    assert [mqcore_brokers.process_name(3, number) for number in (1, 2, 3)] == ["mqcore.1", "mqcore.2", "mqcore.3"]
    for brokers, numbers in ((1, (1,)), (3, (1, 2, 3))):
        names = [mqcore_brokers.process_name(brokers, number) for number in numbers]
        assert tuple(map(mqcore_brokers.number_of, names)) == numbers


def test_a_single_broker_has_no_controller_listener() -> None:
    alone = config(1, 1)
    assert set(listeners(alone).values()) == {PORT}
    assert not alone.controller_quorum_voters
    assert mqcore_brokers.data_folder(Path("data"), 1, 1) == Path("data")


def test_each_of_three_brokers_knows_the_same_voters_and_listens_where_they_say() -> None:
    configs = {number: config(3, number) for number in (1, 2, 3)}
    assert len({str(each.controller_quorum_voters) for each in configs.values()}) == 1
    for number, each in configs.items():
        assert each.node_id == number
        assert listeners(each) == {"PLAINTEXT": PORT + number - 1, "CONTROLLER": CONTROLLER_PORT + number - 1}
        assert each.voters()[number].port == CONTROLLER_PORT + number - 1
        assert mqcore_brokers.data_folder(Path("data"), 3, number) == Path("data") / str(number)


# ── folders ──────────────────────────────────────────────────────────────────────────────────────


def identity(folder: Path) -> dict[str, str]:
    lines = (folder / mqcore_brokers.IDENTITY_FILE).read_text().splitlines()
    return dict(line.partition("=")[::2] for line in lines if not line.startswith("#"))


def identities(folder: Path) -> list[dict[str, str]]:
    return [identity(folder / str(number)) for number in (1, 2, 3)]


def test_a_single_broker_needs_no_format(tmp_path: Path) -> None:
    mqcore_brokers.format_folders(tmp_path / "mqcore", 1)
    assert not (tmp_path / "mqcore").exists()


def test_the_folders_of_three_brokers_belong_to_one_cluster_and_are_made_once(tmp_path: Path) -> None:
    mqcore_brokers.format_folders(tmp_path, 3)
    made = identities(tmp_path)
    assert [each["node.id"] for each in made] == ["1", "2", "3"]
    assert len({each["cluster.id"] for each in made}) == 1
    assert len({each["directory.id"] for each in made}) == 3
    mqcore_brokers.format_folders(tmp_path, 3)
    assert identities(tmp_path) == made


def test_a_cluster_id_may_begin_like_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uuid.uuid4", lambda: UUID(int=0xF8 << 120))
    mqcore_brokers.format_folders(tmp_path, 3)
    assert {each["cluster.id"] for each in identities(tmp_path)} == {"-AAAAAAAAAAAAAAAAAAAAA"}


def test_a_lost_folder_joins_the_cluster_of_the_others_and_founds_none(tmp_path: Path) -> None:
    """Broker 1 has founded the cluster. With a second founding its metadata could win over what the others know."""
    mqcore_brokers.format_folders(tmp_path, 3)
    before, founder, joiner = identities(tmp_path), files(tmp_path / "1"), files(tmp_path / "2")
    assert founder > joiner
    shutil.rmtree(tmp_path / "1")
    mqcore_brokers.format_folders(tmp_path, 3)
    after = identities(tmp_path)
    assert after[1:] == before[1:]
    assert after[0]["cluster.id"] == before[0]["cluster.id"]
    assert after[0]["directory.id"] != before[0]["directory.id"]
    assert files(tmp_path / "1") == joiner


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("a file where the folder should be")
    with pytest.raises((mqcore_brokers.CannotFormat, NotADirectoryError)):
        mqcore_brokers.format_folders(tmp_path, 3)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# ── the stack ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("brokers", [1, 3])
def test_the_stack_runs_as_many_brokers_as_it_was_started_with(
    brokers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    layout = Layout(tmp_path, Ports(broker=PORT, controller=CONTROLLER_PORT), brokers=brokers)
    [row] = [service for service in services(layout) if service.name == "mqcore"]
    assert (row.count, row.count_max) == (brokers, brokers)
    assert layout.addresses()["KAFKA_BOOTSTRAP_SERVERS"] == mqcore_brokers.addresses(PORT, brokers)


def test_the_ports_of_three_brokers_and_their_controllers_belong_to_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    ports = Ports(broker=PORT, controller=CONTROLLER_PORT)
    brokers = {"broker": 20_000, "broker.2": 20_001, "broker.3": 20_002}
    controllers = {"controller": 20_010, "controller.2": 20_011, "controller.3": 20_012}
    three = Layout(tmp_path, ports, brokers=3).own_ports()
    assert (brokers | controllers).items() <= three.items()
    alone = Layout(tmp_path, ports).own_ports()
    assert alone["broker"] == PORT and not alone.keys() & (brokers | controllers).keys() - {"broker"}
    external = Layout(tmp_path, ports, "kafka.example:9092", brokers=3).own_ports()
    assert not external.keys() & (brokers | controllers).keys()


@pytest.mark.parametrize(("made", "wanted"), [("meta.properties", 3), ("1/meta.properties", 1)])
def test_the_folder_of_another_number_of_brokers_is_refused(tmp_path: Path, made: str, wanted: int) -> None:
    """The database remembers how far each topic was read, and new topics would be empty."""
    (tmp_path / made).parent.mkdir(exist_ok=True)
    (tmp_path / made).write_text("cluster.id=abc\n")
    with pytest.raises(mqcore_brokers.CannotFormat, match="choose another --data"):
        mqcore_brokers.format_folders(tmp_path, wanted)
