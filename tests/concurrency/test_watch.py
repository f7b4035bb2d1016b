"""Signs of life from sender to table: datagrams and probes in, silences out."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings

from seckill.config.environment import Environment
from seckill.console.models import ReportService, Silence
from seckill.console.processes import read_processes
from seckill.console.reports import queue
from seckill.console.start import RunningStack, read_stack
from seckill.console.watch import watcher as watcher_module
from seckill.console.watch.probes import FAULTS, Probe, probes
from seckill.console.watch.sign_log import SignLog
from seckill.console.watch.watcher import Watcher
from seckill.monitoring import signs_of_life
from seckill.stack.child_processes import free_port, wait_until
from tests.services import Services


class Clock:
    """Times of the watcher, which the test sets forward."""

    now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def time_ns(self) -> int:
        return self.now_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(watcher_module, "time", made)
    monkeypatch.setattr(watcher_module, "TICK_SECONDS", 3600)  # the test calls the machine itself
    monkeypatch.setattr(watcher_module, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(signs_of_life, "INTERVAL_SECONDS", 0.01)
    return made


@contextmanager
def watching(*asked: Probe) -> Iterator[tuple[Watcher, SignLog, str]]:
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 0))
    watcher = Watcher(asked, listener)
    try:
        yield watcher, watcher._log, f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        watcher.stop()


def heard(log: SignLog) -> set[str]:
    return set(log._watched)


def pass_time(watcher: Watcher, clock: Clock, seconds: int) -> None:
    for _ in range(seconds):
        clock.now_ns += 1_000_000_000
        with watcher._lock:
            watcher._keep(watcher._log.tick(clock.now_ns // 1_000_000))


def wait(holds: Callable[[], Any], what: str) -> None:
    wait_until(lambda: bool(holds()), what, 20, poll_s=0.01)


def test_a_process_that_falls_silent_is_written_down_and_again_when_it_returns(clock: Clock) -> None:
    with watching() as (watcher, log, address):
        sender = signs_of_life.SignsOfLife(address)
        sender.start()
        wait(lambda: heard(log), "the first sign")
        [name] = heard(log)
        sender._stopping.set()  # as if it was killed: the thread ends without a goodbye
        sender._thread.join()
        pass_time(watcher, clock, 4)
        watcher.run_once()
        silence = Silence.objects.get()
        assert (silence.name, silence.kind, silence.ended_at_ms) == (name, "silent", None)
        assert read_stack() == RunningStack(0, 1, [name])
        signs_of_life.SignsOfLife(address).start()
        wait(lambda: watcher._unwritten, "a sign of the next life")
        watcher.run_once()
        silence.refresh_from_db()
        assert silence.ended_by == "restarted" and silence.ended_at_ms is not None
        assert Silence.objects.count() == 1
        assert read_stack() == RunningStack(1, 1, [])


def test_a_process_that_ends_in_order_says_goodbye(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with watching() as (watcher, log, address):
        monkeypatch.setenv(signs_of_life.SIGNS_TO, address)
        with signs_of_life.signs_of_life():
            wait(lambda: heard(log), "the first sign")
        wait(lambda: all(each.has_left for each in log._watched.values()), "the goodbye")
        pass_time(watcher, clock, 4)
        watcher.run_once()
    assert Silence.objects.get().kind == "stopped"
    assert read_stack() is None, "nothing is missing that was stopped in order"
    assert [row["state"] for row in read_processes() or ()] == ["down"]
    queue.sign_off()
    assert read_processes() is None, "nobody listens"


def test_a_process_that_fails_says_no_goodbye(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    monkeypatch.setattr(signs_of_life.SignsOfLife, "say_goodbye", lambda signs: said.append(signs))
    monkeypatch.setenv(signs_of_life.SIGNS_TO, "127.0.0.1:9")
    with pytest.raises(RuntimeError), signs_of_life.signs_of_life():
        raise RuntimeError("a crash")
    assert said == []


def test_a_server_that_does_not_answer_is_written_down(clock: Clock) -> None:
    answers = threading.Event()
    answers.set()

    def ask() -> None:
        if not answers.is_set():
            raise OSError("refused")

    with watching(Probe("postgres", ask)) as (watcher, log, _):
        wait(lambda: heard(log), "the first answer")
        answers.clear()
        pass_time(watcher, clock, 1)
        before = log._watched["postgres"].heard_ms
        pass_time(watcher, clock, 4)
        assert log._watched["postgres"].heard_ms == before
        answers.set()
        wait(lambda: log._watched["postgres"].silent is None, "the next answer")
        watcher.run_once()
    silence = Silence.objects.get()
    assert (silence.name, silence.kind, silence.ended_by) == ("postgres", "unanswered", "resumed")


def test_bytes_that_are_not_a_sign_are_ignored(clock: Clock) -> None:
    with watching() as (_, log, address):
        host, _, port = address.partition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for content in (b"", b"\xff", b"[]", b'{"host": "x"}', b"1" * 5000):
                stranger.sendto(content, (host, int(port)))
        sender = signs_of_life.SignsOfLife(address)
        sender.start()
        wait(lambda: heard(log), "a real sign after them")
        assert heard(log) == {socket.gethostname()}
        sender.say_goodbye()


def test_the_time_without_a_report_service_is_written_down_by_the_next_one(clock: Clock) -> None:
    queue.sign()
    since = ReportService.objects.get().seen_at
    clock.now_ns = int(since.timestamp() * 1e9) + 60_000_000_000
    with watching() as (watcher, _, _):
        watcher.run_once()
    silence = Silence.objects.get()
    assert (silence.name, silence.kind) == ("reports", "unwatched")
    assert silence.ended_at_ms is not None and silence.ended_at_ms - silence.began_at_ms == pytest.approx(60_000, abs=2)


def test_a_report_service_that_stopped_in_order_leaves_no_such_time(clock: Clock) -> None:
    queue.sign()
    queue.sign_off()
    clock.now_ns = int(ReportService.objects.get().seen_at.timestamp() * 1e9) + 60_000_000_000
    with watching() as (watcher, _, _):
        watcher.run_once()
    assert not Silence.objects.exists()


@pytest.fixture
def known(services: Services) -> Environment:
    return replace(
        settings.ENVIRONMENT,
        database_url=services.environment()["SECKILL_DATABASE_URL"],
        kafka_bootstrap_servers=f"127.0.0.1:{free_port()}",
        provider_url=f"http://127.0.0.1:{free_port()}",
        callback_url="http://front.invalid:8080",
    )


def test_servers_that_live_answer_their_probe_and_others_do_not(known: Environment) -> None:
    found = {probe.name: probe for probe in probes(known)}
    assert set(found) == {"postgres", "redis", "mqcore", "sandbox", "front"}
    for name in ("postgres", "redis"):
        found[name].ask()
        found[name].ask()
    for name in ("mqcore", "sandbox", "front"):
        with pytest.raises(FAULTS):
            found[name].ask()


def test_a_secured_broker_on_this_machine_is_not_called_mqcore_which_has_no_security(known: Environment) -> None:
    servers = "localhost:1,localhost:2"
    secured = replace(
        known, development=False, kafka_security_protocol="SASL_PLAINTEXT", kafka_bootstrap_servers=servers
    )
    assert [probe.name for probe in probes(secured)] == ["postgres", "redis", "kafka.1", "kafka.2"]


def test_outside_development_only_our_own_servers_are_probed(known: Environment) -> None:
    several = replace(known, development=False, kafka_bootstrap_servers="one:9092, two:9092")
    assert [probe.name for probe in probes(several)] == ["postgres", "redis", "one", "two"]
