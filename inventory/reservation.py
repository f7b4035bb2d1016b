"""Decide a batch of purchase requests: the gate proposes, the locked stock row decides, one transaction stores it all.

The consume loop calls this inside its transaction and adds the offsets. Steps: skip requests that were decided before;
ask the gate; lock the stock rows that may grant units; apply the rule in order of arrival; write stock, holds, ledger,
inbox and events. Other batches wait for the lock meanwhile, so statements are sent to Postgres without waiting for
their results. A rejection names a stock version at which too few units were available, so it needs no lock.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from django.db import transaction
from redis.exceptions import RedisError

from gateway.events import PurchaseRequested, parse_purchase_request
from inventory import batch_sql, gate, gate_rebuild, sale_view
from inventory.events import Decision, PurchaseDecided
from inventory.gate import Proposal
from inventory.locks import lock_stocks
from inventory.models import Stock
from inventory.states import SaleState
from inventory.stock import RequestDecision, StockSnapshot, decide_requests
from seckill.messaging import binary_sql, database_clock, fault_points
from seckill.messaging.envelope import BadEnvelope
from seckill.messaging.outbox import Event, publish
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.records import Batch, PermanentFailure
from seckill.messaging.topics import INVENTORY_DECISIONS

log = logging.getLogger(__name__)

Article = tuple[int, str]
"""A sale and a sku."""


class ArrivedRequest(NamedTuple):
    request: PurchaseRequested
    position: RecordPosition


class ArticleBatch(NamedTuple):
    """The requests for one article with the gate's proposal for each. `stock` was read without a lock."""

    stock: Stock
    arrived: list[ArrivedRequest]
    proposals: list[Proposal]


class ArticleGrants(NamedTuple):
    """Requests that get units of an article, and requests whose grant the gate has to take back."""

    stock: Stock
    granted: list[ArrivedRequest]
    taken_back: list[ArrivedRequest]


DecisionsByOffset = dict[int, RequestDecision]


def decide_batch(batch: Batch) -> None:
    """Decide every request of the batch, exactly once."""
    undecided = _find_undecided(batch)
    if not undecided:
        return
    by_article: dict[Article, list[ArrivedRequest]] = defaultdict(list)
    for arrived in undecided:
        by_article[arrived.request.sale_id, arrived.request.sku].append(arrived)
    stocks = _find_stocks(by_article)
    articles = [
        ArticleBatch(stock, by_article[article], _ask_gate(stock, by_article[article]))
        for article, stock in stocks.items()
    ]
    fault_points.trigger("inventory.after_gate")
    locked = lock_stocks(article.stock.id for article in articles if _may_grant(article))
    now_ms = database_clock.now_ms()  # after the lock, because a deadline may pass while we wait for it
    decisions: DecisionsByOffset = {}
    granted: dict[int, set[str]] = defaultdict(set)  # buyers by sale: one purchase may be active among all its articles
    for article_batch in articles:
        stock = locked.get(article_batch.stock.id, article_batch.stock)
        decided = _apply_rule(stock, article_batch.arrived, granted[stock.sale_id], now_ms)
        granted[stock.sale_id] |= {each.request.user_id for each in decided if each.decision is Decision.RESERVED}
        _store_decisions(decisions, article_batch.arrived, decided)
    for article, arrivals in by_article.items():
        if article not in stocks:
            unknown = decide_requests([each.request for each in arrivals], None, (), now_ms)
            _store_decisions(decisions, arrivals, unknown)
    grants = [_grant_units(locked.get(article.stock.id), article, decisions) for article in articles]
    with batch_sql.unique_violations_as_conflicts(), binary_sql.pipelined():
        for each in grants:
            _insert_grants(each, decisions)
        _insert_decisions(batch, undecided, decisions, stocks, now_ms)


def decide_discarded(batch: Batch) -> None:
    """An operator discarded these dead letters: decide them INVALID unless they have been decided since."""
    undecided = _find_undecided(batch)
    if undecided:
        now_ms = database_clock.now_ms()
        stocks = _find_stocks({(request.sale_id, request.sku): None for request, _ in undecided})
        decisions = {position.offset: RequestDecision(request, Decision.INVALID, 0) for request, position in undecided}
        with batch_sql.unique_violations_as_conflicts():
            _insert_decisions(batch, undecided, decisions, stocks, now_ms)
        _release_grants(undecided, stocks)


def release_dead_letter_grants(batch: Batch) -> None:
    """These requests become dead letters: give their grants back to the gate. A replay asks the gate again."""
    arrived = list(_parse_readable(batch))
    _release_grants(arrived, _find_stocks({(request.sale_id, request.sku): None for request, _ in arrived}))


def _parse_readable(batch: Batch) -> Iterator[ArrivedRequest]:
    for record in batch.records:
        try:
            yield ArrivedRequest(parse_purchase_request(record.envelope), record.position)
        except BadEnvelope:
            pass  # an unreadable request never reached the gate


def _release_grants(arrived: Sequence[ArrivedRequest], stocks: Mapping[Article, Stock]) -> None:
    found = [(stocks.get((request.sale_id, request.sku)), request.request_id) for request, _ in arrived]
    releases = [(stock.id, request_id) for stock, request_id in found if stock is not None]
    batch_sql.insert_gate_releases(releases)
    for stock_id in {stock_id for stock_id, _ in releases}:
        transaction.on_commit(lambda stock_id=stock_id: gate_rebuild.send_releases_after_commit(stock_id), robust=True)  # type: ignore[misc]


def _find_undecided(batch: Batch) -> list[ArrivedRequest]:
    """The requests without a decision. Repeats of decided requests are recorded as redeliveries."""
    arrived = []
    for record in batch.records:
        try:
            arrived.append(ArrivedRequest(parse_purchase_request(record.envelope), record.position))
        except BadEnvelope as bad:
            raise PermanentFailure(str(bad)) from bad
    seen = batch_sql.find_decided_requests([each.request.request_id for each in arrived])
    undecided, repeated = [], []
    for each in arrived:
        if each.request.request_id in seen:
            repeated.append((each.request.request_id, each.position.offset))
        else:
            seen.add(each.request.request_id)
            undecided.append(each)
    batch_sql.insert_redeliveries(batch.cluster_id, batch.topic_id, batch.partition, repeated)
    return undecided


def _find_stocks(articles: Mapping[Article, object]) -> dict[Article, Stock]:
    found = Stock.objects.select_related("sale").filter(sale_id__in={sale_id for sale_id, _ in articles})
    return {(stock.sale_id, stock.sku): stock for stock in found if (stock.sale_id, stock.sku) in articles}


def _ask_gate(stock: Stock, arrived: Sequence[ArrivedRequest]) -> list[Proposal]:
    """CLOSED if Redis does not answer: the row then decides alone, which is slower but equally correct.

    The gate is not asked if the row has no units left, because returned units reach the row before the gate.
    """
    if not stock.available or stock.gate_retired:
        return [Proposal.REFUSED] * len(arrived)
    requests = [(each.request.request_id, max(1, each.request.quantity)) for each in arrived]
    if stock.gate_epoch:
        try:
            return gate.propose(stock.sale_id, stock.sku, stock.gate_epoch, requests)
        except RedisError as fault:
            log.warning("gate unavailable", extra={"stock": stock.id, "reason": str(fault)})
    return [Proposal.CLOSED] * len(arrived)


def _may_grant(article: ArticleBatch) -> bool:
    """Whether a request may get units. If the row has units and the gate denies them, the row is right."""
    if any(proposal is not Proposal.REFUSED for proposal in article.proposals):
        return True
    return any(each.request.quantity <= article.stock.available for each in article.arrived)


def _apply_rule(
    stock: Stock, arrived: Sequence[ArrivedRequest], granted: set[str], now_ms: int
) -> list[RequestDecision]:
    requests = [each.request for each in arrived]
    is_open = stock.sale.state != SaleState.CLOSED
    snapshot = StockSnapshot(stock.available, stock.version, stock.cap, stock.unit_price, is_open)
    active = batch_sql.find_active_buyers(stock.sale_id, [request.user_id for request in requests])
    return decide_requests(requests, snapshot, active | granted, now_ms)


def _store_decisions(
    decisions: DecisionsByOffset, arrived: Sequence[ArrivedRequest], decided: Sequence[RequestDecision]
) -> None:
    for each, decision in zip(arrived, decided, strict=True):
        decisions[each.position.offset] = decision


def _grant_units(stock: Stock | None, article: ArticleBatch, decisions: DecisionsByOffset) -> ArticleGrants:
    """Move the granted units in the row, and arrange a rebuild of the gate if its proposals were wrong."""
    grants = ArticleGrants(article.stock, [], [])
    is_gate_wrong = False
    for each, proposal in zip(article.arrived, article.proposals, strict=True):
        decision = decisions[each.position.offset].decision
        if decision is Decision.RESERVED:
            grants.granted.append(each)
            is_gate_wrong = is_gate_wrong or proposal is not Proposal.GRANTED
        elif proposal is Proposal.GRANTED:
            if decision is Decision.SOLD_OUT:
                is_gate_wrong = True  # the counter promised units that do not exist, so rebuild instead of giving back
            else:
                grants.taken_back.append(each)
        elif proposal is Proposal.CLOSED:
            is_gate_wrong = is_gate_wrong or article.stock.sale.state != SaleState.CLOSED
    if grants.granted:
        if stock is None:
            raise RuntimeError(f"units of stock {article.stock.id} were granted without its lock")
        _move_to_reserved(stock, grants.granted)
        # An epoch that began between the proposal and the lock does not contain these grants.
        is_gate_wrong = is_gate_wrong or stock.gate_epoch != article.stock.gate_epoch
        transaction.on_commit(lambda: sale_view.publish_view(article.stock.sale_id), robust=True)
    if is_gate_wrong:
        Stock.objects.filter(id=article.stock.id).update(gate_owed=True)
        transaction.on_commit(
            lambda: gate_rebuild.rebuild_after_commit(article.stock.id, article.stock.gate_epoch), robust=True
        )
    elif grants.taken_back:
        transaction.on_commit(lambda: gate_rebuild.send_releases_after_commit(article.stock.id), robust=True)
    return grants


def _move_to_reserved(stock: Stock, granted: Sequence[ArrivedRequest]) -> None:
    """available → reserved. The condition on the version detects a row that changed although it was locked."""
    units = sum(each.request.quantity for each in granted)
    before = stock.version
    moved = Stock.objects.filter(id=stock.id, version=before, available__gte=units).update(
        available=stock.available - units, reserved=stock.reserved + units, version=before + len(granted)
    )
    if moved != 1:
        raise batch_sql.ConcurrentUpdate(f"stock {stock.id} is no longer at version {before}")


def _insert_grants(grants: ArticleGrants, decisions: DecisionsByOffset) -> None:
    """A hold and a ledger entry for each grant, and the releases that the gate has to get."""
    stock, granted, taken_back = grants
    batch_sql.insert_holds(
        [
            (request.request_id, stock.id, stock.sale_id, request.user_id, request.quantity, position)
            for request, position in granted
        ]
    )
    batch_sql.insert_reservations(
        stock.id,
        [(decisions[position.offset].version, request.quantity, request.request_id) for request, position in granted],
    )
    batch_sql.insert_gate_releases([(stock.id, each.request.request_id) for each in taken_back])


def _insert_decisions(
    batch: Batch,
    undecided: Sequence[ArrivedRequest],
    decisions: DecisionsByOffset,
    stocks: Mapping[Article, Stock],
    now_ms: int,
) -> None:
    """Inbox rows and events of all requests, in order of arrival."""
    prices = {article: stock.unit_price for article, stock in stocks.items()}
    rows, events = [], []
    for request, position in undecided:
        _, decision, version = decisions[position.offset]
        request_id, user_id, sale_id, sku, quantity, admitted_at_ms, deadline_ms = request
        rows.append(
            (
                request_id, user_id, sale_id, sku, quantity, decision, version, admitted_at_ms, deadline_ms,
                position.offset,
            )
        )  # fmt: skip
        price = prices.get((sale_id, sku), 0)
        decided = PurchaseDecided(request_id, user_id, sale_id, sku, quantity, price, decision, version, now_ms)
        events.append(Event(INVENTORY_DECISIONS, user_id, decided.envelope(position)))
    batch_sql.insert_decisions(now_ms, batch.cluster_id, batch.topic_id, batch.partition, rows)
    publish(events)
