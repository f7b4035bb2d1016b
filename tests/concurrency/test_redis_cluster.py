"""Admission and gate on a Redis Cluster, and after one of its masters has been replaced by a replica."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import pytest
from redis.exceptions import RedisError

from gateway import outcome_cache, sales
from gateway.admission import Verdict
from gateway.outcomes import PurchaseOutcome
from inventory import gate, sweep
from inventory.gate import Proposal
from seckill.config.redis_address import HASH_TAG
from seckill.console import login_limits
from seckill.messaging.redis_eviction import EvictionEnabled, require_no_eviction
from seckill.report import rows
from seckill.report.sources.gate import read_gates
from seckill.resilience import redis_client
from seckill.resilience.redis_servers import USES, RedisServer
from seckill.stack.redis_groups import RedisCluster
from seckill.web.problems import Problem
from seckill.web.purchase_states import PurchaseState
from tests.concurrency.redis_group_cast import redis_at
from tests.concurrency.stock_cast import active_requests, assert_gate_agrees, create_stock, decide, request
from tests.concurrency.test_gateway_admission import ask
from tests.gateway_loop import admit_requests, on_loop
from tests.services import until


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(servers: RedisCluster) -> Iterator[RedisCluster]:
    with redis_at(servers.url, servers.url):
        yield servers
        redis_client.connect(servers.url).flushall()


def test_sales_on_different_masters_are_decided_and_reported(cluster: RedisCluster) -> None:
    stocks = [create_stock(2, f"Gong {number}") for number in range(8)]
    assert len({cluster.master_of(gate.keys(stock.sale_id, stock.sku, 1)[0]) for stock in stocks}) > 1
    sweep.run_once()
    for number, stock in enumerate(stocks):
        decide([request(stock, f"user-{number}-{buyer}") for buyer in range(3)], partition=number)
    sweep.run_once()
    for stock in stocks:
        stock.refresh_from_db()
    found = [
        rows.Stock(stock.id, stock.sale_id, stock.sku, 2, 0, 2, 0, stock.version, stock.gate_epoch) for stock in stocks
    ]
    states = read_gates(cluster.url, found)
    assert [(state.stock_id, state.free, len(state.granted)) for state in states] == [(row.id, 0, 2) for row in found]
    gate.delete_gates([(row.sale_id, row.sku, row.gate_epoch) for row in found])
    assert not any(gate.are_open([(row.sale_id, row.sku, row.gate_epoch) for row in found]))


def test_admission_outcomes_sales_and_logins_work_on_one_slot(cluster: RedisCluster) -> None:
    stock = create_stock(5)
    sweep.run_once()
    assert [view.id for view in sales.list_sales()] == [stock.sale_id]
    assert sales._look_up(stock.sale_id) is not None
    asked = ask()
    assert [answer.verdict for answer in admit_requests([asked, asked])] == [Verdict.ADMITTED, Verdict.KNOWN]
    outcome_cache.store_outcomes([outcome(asked.request_id, stock.sale_id)], notify=False)
    cached = on_loop(outcome_cache.fetch_purchase(asked.request_id))
    assert cached.outcome is not None and cached.admitted is not None
    for _ in range(login_limits.FAILURES_MAX):
        login_limits.count_attempt("10.0.0.1", "ann")
    with pytest.raises(Problem):
        login_limits.count_attempt("10.0.0.1", "ann")
    login_limits.uncount_success("10.0.0.1", "ann")


def outcome(request_id: UUID, sale_id: int) -> PurchaseOutcome:
    return PurchaseOutcome(request_id, "ann", sale_id, PurchaseState.SOLD_OUT, None, None, True)


def test_a_message_reaches_a_subscriber_of_any_server(cluster: RedisCluster) -> None:
    async def receive_from_each() -> list[str]:
        clients = [redis_client.connect_subscriber(cluster.url, 2.0) for _ in cluster.ports]
        channels = [client.pubsub() for client in clients]
        for channel in channels:
            await channel.subscribe(outcome_cache.CHANNEL)
            await channel.get_message(timeout=5)
        row = outcome(uuid4(), 1)
        await asyncio.to_thread(outcome_cache.store_outcomes, [row], notify=True)
        found = [await channel.get_message(ignore_subscribe_messages=True, timeout=5) for channel in channels]
        for channel, client in zip(channels, clients, strict=True):
            await channel.aclose()
            await client.aclose()
        return [message["data"].partition("|")[0] for message in found if message is not None]

    assert len(set(asyncio.run(receive_from_each()))) == 1


def test_a_server_that_evicts_is_found_even_if_it_is_a_replica(cluster: RedisCluster) -> None:
    require_no_eviction([RedisServer(USES, cluster.url)])
    replica = cluster.client(len(cluster.ports) - 1)
    replica.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(EvictionEnabled, match=f"127.0.0.1:{cluster.ports[-1]} has maxmemory-policy allkeys-lru"):
            require_no_eviction([RedisServer(USES, cluster.url)])
    finally:
        replica.config_set("maxmemory-policy", "noeviction")


def test_after_a_failover_admission_remembers_from_then_on_and_every_gate_is_counted_again(
    cluster: RedisCluster,
) -> None:
    stock = create_stock(10)
    sweep.run_once()
    sales.current_views()
    first = ask()
    [admitted] = admit_requests([first])
    assert admitted.verdict is Verdict.ADMITTED
    decide([request(stock, f"user-{number}") for number in range(4)])
    stock.refresh_from_db()
    epoch = stock.gate_epoch
    gate_key = gate.keys(stock.sale_id, stock.sku, epoch)[0]
    cluster.client(cluster.master_of(gate_key)).wait(1, 5000)
    for key in (HASH_TAG, gate_key):
        cluster.bring_back(cluster.fail_over(key))
    until(lambda: works(lambda: admit_requests([ask()])), "admission")
    until(lambda: works(sweep.run_once), "the sweep")
    stock.refresh_from_db()
    assert stock.gate_epoch > epoch, "the new master's run id differs"
    assert_gate_agrees(gate.redis(), stock)
    assert gate.propose(stock.sale_id, stock.sku, stock.gate_epoch, [(uuid4(), 1)]) == [Proposal.GRANTED]
    assert len(active_requests(stock)) == 4
    late = ask(opens_at_ms=1)
    [answer] = admit_requests([late])
    assert answer.verdict is Verdict.ADMITTED and not answer.is_first, "the promoted replica may have forgotten some"


def works(call: Callable[[], object]) -> bool:
    try:
        call()
    except RedisError:
        return False
    return True
