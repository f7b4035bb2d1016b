"""A group halts at a log that lost records or was replaced, and continues in all other partitions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition

from seckill.audit.models import AuditEntry
from seckill.cli.__main__ import main
from seckill.messaging import consume_loop, halted_groups, log_bounds, offsets, partition_claims
from seckill.messaging.models import ConsumerOffset
from seckill.messaging.topics import Topic
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.messaging_cast import Notes, claim, effects, fill, make_topic
from tests.concurrency.test_messaging_consume_loop import all_read, consuming
from tests.services import until

COUNT = 20


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_loop, "SESSION_TIMEOUT_MS", 2_000)
    monkeypatch.setattr(consume_loop, "PAUSE_SECONDS_MAX", 0.2)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of this test alone, because its files are cut."""
    with BrokerProcess(tmp_path, {"auto.create.topics.enable": "false"}) as process:
        yield process


def cut(broker: BrokerProcess, topic: Topic, partition: int, keep: int) -> None:
    """Simulate a power loss that removes acknowledged records: cut the segment after this many."""
    broker.kill()
    [segment] = (broker.data / f"{topic.name}-{partition}").glob("*.log")
    content, at, records = segment.read_bytes(), 0, 0
    while records < keep:
        size = 12 + int.from_bytes(content[at + 8 : at + 12], "big")
        records += int.from_bytes(content[at + 57 : at + 61], "big")
        at += size
    assert records == keep, "batches end there"
    with segment.open("r+b") as file:
        file.truncate(at)
    for name in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        (broker.data / name).unlink(missing_ok=True)
    broker.start()


def each_alone(broker: BrokerProcess, topic: Topic, numbers: range) -> None:
    """One batch for each record, so the log can be cut between any two records."""
    for number in numbers:
        fill(broker.address, topic, [number])


def halted() -> dict[int, str]:
    return {row.partition: row.halted for row in halted_groups.list_halted()}


def read_all(own: BrokerProcess, topic: Topic, count: int = COUNT) -> None:
    with consuming(Notes(topic=topic), own):
        until(lambda: all_read(topic, count), "the group to finish")


def test_a_shorter_log_halts_only_its_partition_until_an_operator_resumes_it(own: BrokerProcess) -> None:
    topic = make_topic(own.address)
    each_alone(own, topic, range(COUNT))
    read_all(own, topic)
    cut(own, topic, 0, keep=6)
    with consuming(Notes(topic=topic), own):
        until(lambda: halted().get(0), "partition 0 to halt")
        assert "offset 10 is outside 0 to 6" in halted()[0]
        fill(own.address, topic, [COUNT + 1])  # to partition 1
        until(lambda: str(COUNT + 1) in effects(), "partition 1 to continue")
        with pytest.raises(halted_groups.ResumeRefused, match="not halted"):
            halted_groups.resume(own.address, "readers", topic.name, 1, because="never")
        with pytest.raises(halted_groups.ResumeRefused, match="offsets 0 to 6; 7 is outside"):
            halted_groups.resume(own.address, "readers", topic.name, 0, at=7, because="never")
        assert halted_groups.resume(own.address, "readers", topic.name, 0, at=6, because="the disk lied") == (10, 6)
        fill(own.address, topic, [COUNT])
        until(lambda: str(COUNT) in effects(), "partition 0 to continue")
    assert halted() == {}
    done = AuditEntry.objects.filter(verb="offsets resume", result="done").get()
    assert done.arguments == {"at": 6, "was": 10, "because": "the disk lied"}


def test_a_replaced_log_that_has_grown_past_the_offset_is_recognised(own: BrokerProcess) -> None:
    """Otherwise the new records between the loss and the group's offset would never be read."""
    topic = make_topic(own.address, partitions=1)
    each_alone(own, topic, range(10))
    read_all(own, topic, 10)
    cut(own, topic, 0, keep=5)
    fill(own.address, topic, range(100, 120))
    with consuming(Notes(topic=topic), own):
        until(lambda: halted().get(0), "the group to halt")
        assert "offset 9 is not the record that was read there" in halted()[0]
        assert not {str(number) for number in range(100, 120)} & set(effects()), "nothing is skipped in silence"
        halted_groups.resume(own.address, "readers", topic.name, 0, at=5, because="the disk lied")
        until(lambda: "119" in effects(), "the group to continue")
    counted = Counter(effects())
    assert all(counted[str(number)] == 1 for number in range(100, 120))


def test_a_log_replaced_under_a_running_consumer_is_recognised_by_its_new_leader_epoch(own: BrokerProcess) -> None:
    topic = make_topic(own.address)
    each_alone(own, topic, range(COUNT))
    with consuming(Notes(topic=topic), own):
        until(lambda: all_read(topic, COUNT), "the group to finish")
        cut(own, topic, 0, keep=4)
        fill(own.address, topic, range(100, 140))
        until(lambda: halted().get(0), "partition 0 to halt")
        until(lambda: "139" in effects(), "partition 1 to continue")
    assert {int(text) % 2 for text in effects() if int(text) >= 100} == {1}


def test_a_broker_restart_without_losses_halts_no_group(own: BrokerProcess) -> None:
    """The control, with the consumer running and with it stopped."""
    topic = make_topic(own.address)
    each_alone(own, topic, range(COUNT))
    with consuming(Notes(topic=topic), own):
        until(lambda: all_read(topic, COUNT), "the group to finish")
        own.kill()
        own.start()
        fill(own.address, topic, range(COUNT, COUNT + 10))
        until(lambda: all_read(topic, COUNT + 10), "the later records")
    own.restart()
    fill(own.address, topic, range(COUNT + 10, COUNT + 20))
    read_all(own, topic, COUNT + 20)
    assert effects().count("0") == 1 and len(effects()) == COUNT + 20
    assert halted() == {}


def test_a_partition_that_does_not_answer_does_not_delay_the_others(
    own: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One partition is offline when the consumer starts, because its log cannot be read."""
    monkeypatch.setattr(partition_claims, "ALL_BOUNDS_MS_MAX", 300)
    topic = make_topic(own.address, partitions=3)
    each_alone(own, topic, range(9))
    own.stop()
    folder = own.data / f"{topic.name}-0"
    [segment] = folder.glob("*.log")
    whole = segment.read_bytes()
    segment.unlink()
    segment.mkdir()  # a folder instead of a file takes this partition offline
    own.start()
    with consuming(Notes(topic=topic), own):
        until(lambda: len(effects()) == 6, "the other partitions")
        fill(own.address, topic, [10, 11])
        until(lambda: len(effects()) == 8, "the other partitions to continue")
        own.stop()
        segment.rmdir()
        segment.write_bytes(whole)
        own.start()
        until(lambda: len(effects()) == 11, "the partition that is back")
    assert halted() == {}


def test_bounds_of_a_partition_that_does_not_answer_are_omitted(own: BrokerProcess) -> None:
    topic = make_topic(own.address)
    each_alone(own, topic, range(4))
    admin = KafkaAdminClient(bootstrap_servers=own.address)
    both = log_bounds.online_partitions(admin, [topic.name])
    missing = TopicPartition(topic.name, 7)
    assert log_bounds.end_offsets(admin, [*both, missing]) == dict.fromkeys(both, 2)
    assert log_bounds.start_offsets(admin, both) == dict.fromkeys(both, 0)
    admin.close()
    assert ConsumerOffset.objects.count() == 0


def test_operators_see_where_a_group_has_halted_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["offsets", "list"]) == 0
    assert capsys.readouterr().out == "no group has halted\n"
    offsets.mark_halted(claim(1), "test.events-1: offset 9 is not the record that was read there")
    assert main(["offsets", "list", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["group"], row["partition"]) == ("readers", 1)
    assert row["halted"] == "test.events-1: offset 9 is not the record that was read there"
