"""What operators use: the metrics page, the offsets topic that does not grow, `mqcore doctor` and `mqcore dump`."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress

import pytest

from seckill.stack.broker_process import BrokerProcess
from seckill.stack.child_processes import free_port
from tests.conformance.committed_offsets import MQCORE, commit, committed
from tests.conformance.raw import (
    FIND_COORDINATOR,
    Wire,
    batched,
)


def test_the_metrics_page_counts_requests_and_records(
    new_broker: Callable[..., BrokerProcess], topic: str, group: str
) -> None:
    port = free_port()
    broker = new_broker(metrics_listener=f"127.0.0.1:{port}").start()
    with Wire(broker.port) as wire:
        wire.create(topic)
        wire.ask(FIND_COORDINATOR, 2, {"key": group, "key_type": 0})
        for _ in range(5):
            wire.produce(topic)
        commit(wire, group, topic, 2)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
            text = page.read().decode()
    assert 'mqcore_requests_total{api="Produce"} 5' in text
    assert f'mqcore_group_lag{{group="{group}",topic="{topic}"}} 3' in text
    assert f'mqcore_produced_records_total{{topic="{topic}"}} 5' in text
    assert "mqcore_partitions_offline 0" in text
    assert f'mqcore_log_bytes{{topic="{topic}"}}' in text


def test_endless_commits_do_not_grow_the_offsets_topic(
    new_broker: Callable[..., BrokerProcess], topic: str, group: str
) -> None:
    broker = new_broker(
        offsets_topic_segment_bytes="4096", log_cleaner_backoff_ms="20", offsets_topic_num_partitions="1"
    )
    broker.settings.update({"log.retention.check.interval.ms": "50", "log.segment.delete.delay.ms": "0"})
    broker.start()

    def used() -> int:
        sizes = 0
        for file in (broker.data / "__consumer_offsets-0").glob("*.log"):
            with suppress(FileNotFoundError):  # the broker deletes segments meanwhile
                sizes += file.stat().st_size
        return sizes

    with Wire(broker.port) as wire:
        wire.create(topic)
        wire.ask(FIND_COORDINATOR, 2, {"key": group, "key_type": 0})
        for offset in range(3000):  # about 400 KB of records
            assert commit(wire, group, topic, offset) == "NONE"
        give_up = time.monotonic() + 30
        while used() > 30_000:
            assert time.monotonic() < give_up, used()
            commit(wire, group, topic, 3000)
            time.sleep(0.01)
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        assert committed(wire, group, topic) in (2999, 3000)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_doctor_finds_nothing_and_dump_reads_everything(
    new_broker: Callable[..., BrokerProcess], topic: str, how: str
) -> None:
    broker = new_broker().start()
    with Wire(broker.port) as wire:
        wire.create(topic)
        wire.produce(topic, batched(b"to be found"))
    getattr(broker, how)()
    checked = subprocess.run([*MQCORE, "doctor", str(broker.data)], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    folder = str(broker.data / f"{topic}-0")
    shown = subprocess.run([*MQCORE, "dump", "--records", folder], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0 and "to be found" in shown.stdout, shown.stdout + shown.stderr
