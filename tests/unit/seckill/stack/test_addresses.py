"""Which servers a stack uses: it uses those that the environment names, and starts the others."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from seckill.config.environment import BadEnvironment
from seckill.stack.services import Layout, services

DATABASE = "SECKILL_DATABASE_URL"
USES = ("SECKILL_ADMISSION_REDIS_URL", "SECKILL_GATE_REDIS_URL", "SECKILL_CELERY_REDIS_URL")
THEIRS = {DATABASE: "postgresql://them@db.example/sale"} | {name: f"redis://{name.lower()}.example/3" for name in USES}
KAFKA = "kafka.example:9092"


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*THEIRS, *(f"{name}_FILE" for name in THEIRS), "KAFKA_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)


def started(layout: Layout) -> set[str]:
    return {service.name for service in services(layout)} & {"postgres", "redis", "mqcore"}


@pytest.mark.parametrize("count", range(len(USES) + 1))
def test_redis_is_started_unless_all_its_uses_have_external_addresses(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given in combinations(USES, count):
        with monkeypatch.context() as patch:
            for name in given:
                patch.setenv(name, THEIRS[name])
            layout = Layout(tmp_path)
            addresses = layout.addresses()
            assert ("redis" in started(layout)) == ("redis" in layout.own_ports()) == (count < len(USES))
            for name in USES:
                own = f"redis://127.0.0.1:{layout.ports.redis}/"
                assert addresses[name] == THEIRS[name] if name in given else addresses[name].startswith(own)


@pytest.mark.parametrize("kafka", [None, KAFKA])
@pytest.mark.parametrize("database", [False, True])
def test_postgres_and_the_broker_are_started_unless_external_ones_are_configured(
    kafka: str | None, database: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database:
        monkeypatch.setenv(DATABASE, THEIRS[DATABASE])
    layout = Layout(tmp_path, bootstrap_servers=kafka)
    assert ("postgres" in started(layout)) is not database
    assert ("mqcore" in started(layout)) is (kafka is None)
    assert (layout.addresses()[DATABASE] == THEIRS[DATABASE]) is database


def test_an_empty_variable_counts_as_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THEIRS:
        monkeypatch.setenv(name, "")
    layout = Layout(tmp_path)
    assert started(layout) == {"postgres", "redis", "mqcore"}
    assert all("127.0.0.1" in layout.environment()[name] for name in THEIRS)


def test_an_address_in_a_file_is_used_and_stays_out_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, url in THEIRS.items():
        (tmp_path / name).write_text(f"{url}\n")
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / name))
    layout = Layout(tmp_path / "stack")
    assert started(layout) == {"mqcore"}
    assert {name: layout.addresses()[name] for name in THEIRS} == THEIRS
    assert not layout.environment().keys() & THEIRS.keys()


def test_a_missing_address_file_is_named_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECKILL_GATE_REDIS_URL_FILE", str(tmp_path / "absent"))
    with pytest.raises(BadEnvironment, match="SECKILL_GATE_REDIS_URL.*absent.*cannot be read"):
        Layout(tmp_path).addresses()
