"""Deciding a batch: Redis proposes, the locked row decides, one transaction keeps everything.

Runs inside the transaction of the consume loop, which adds the offsets. In order: skip what was decided before; ask the
gate; lock the stock of those who may get something; apply the rule in order of arrival; write stock, holds, ledger,
inbox and events. Other batches wait meanwhile, so Postgres works on the one while we make up the next. A refusal rests
on a stock version at which there was too little, locked or not.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from django.db import transaction
from redis.exceptions import RedisError

from gateway.events import PurchaseRequested, read
from inventory import gate, rebuild, rows, views
from inventory.events import Decision, PurchaseDecided
from inventory.gate import Proposal
from inventory.locks import lock_stocks
from inventory.models import Stock
from inventory.stock import Decided, StockNow, decide
from seckill.envelope import BadEnvelope, Origin
from seckill.streams import faults, statements
from seckill.streams.outbox import Event, publish
from seckill.streams.records import Batch, Permanent
from seckill.topics import INVENTORY_DECISIONS

log = logging.getLogger(__name__)

Article = tuple[int, str]
"""A sale and a sku."""


class Arrived(NamedTuple):
    request: PurchaseRequested
    place: Origin


class Contest(NamedTuple):
    """The requests for one article, and what row and gate say of it, request by request."""

    stock: Stock
    arrived: list[Arrived]
    proposals: list[Proposal]


class Outcome(NamedTuple):
    """Who gets units of an article, and whose the gate is to take back."""

    stock: Stock
    granted: list[Arrived]
    given_back: list[Arrived]


Verdicts = dict[int, Decided]
"""By offset."""


def reserve(batch: Batch) -> None:
    """Decide every request of the batch, exactly once."""
    fresh = _fresh(batch)
    if not fresh:
        return
    by_article: dict[Article, list[Arrived]] = defaultdict(list)
    for arrived in fresh:
        by_article[arrived.request.sale_id, arrived.request.sku].append(arrived)
    stocks = _stocks(by_article)
    contests = [
        Contest(stock, by_article[article], _proposals(stock, by_article[article])) for article, stock in stocks.items()
    ]
    faults.point("inventory.after_gate")
    locked = lock_stocks(contest.stock.id for contest in contests if _is_contended(contest))
    now_ms = rows.now_ms()  # a deadline may pass while the lock is waited for
    verdicts: Verdicts = {}
    for contest in contests:
        stock = locked.get(contest.stock.id, contest.stock)
        _note(verdicts, contest.arrived, _verdicts(stock, contest.arrived, now_ms))
    for article, arrivals in by_article.items():
        if article not in stocks:
            _note(verdicts, arrivals, decide([each.request for each in arrivals], None, (), now_ms))
    outcomes = [_settle(locked.get(contest.stock.id), contest, verdicts) for contest in contests]
    with rows.overtaken(), statements.unawaited():
        for outcome in outcomes:
            _keep_grants(outcome, verdicts)
        _keep_decisions(batch, fresh, verdicts, stocks, now_ms)


def discard(batch: Batch) -> None:
    """Requests that were given up as dead letters: INVALID, unless they have been decided since."""
    fresh = _fresh(batch)
    if fresh:
        now_ms = rows.now_ms()
        stocks = _stocks({(request.sale_id, request.sku): None for request, _ in fresh})
        verdicts = {place.offset: Decided(request, Decision.INVALID, 0) for request, place in fresh}
        with rows.overtaken():
            _keep_decisions(batch, fresh, verdicts, stocks, now_ms)
        _give_back(fresh, stocks)


def bury(batch: Batch) -> None:
    """Requests that become dead letters: undecided, and what the gate may hold for them is for others meanwhile. If one
    is replayed, the gate is asked again."""
    arrived = [Arrived(request, place) for request, place in _readable(batch)]
    _give_back(arrived, _stocks({(request.sale_id, request.sku): None for request, _ in arrived}))


def _readable(batch: Batch) -> Iterator[Arrived]:
    for record in batch.records:
        try:
            yield Arrived(read(record.envelope), record.place)
        except BadEnvelope:
            pass  # the gate was never asked for it


def _give_back(arrived: Sequence[Arrived], stocks: Mapping[Article, Stock]) -> None:
    found = [(stocks.get((request.sale_id, request.sku)), request.request_id) for request, _ in arrived]
    held = [(stock.id, request_id) for stock, request_id in found if stock is not None]
    rows.insert_gate_sync(held)
    for stock_id in {stock_id for stock_id, _ in held}:
        transaction.on_commit(lambda stock_id=stock_id: rebuild.sync_after_commit(stock_id), robust=True)  # type: ignore[misc]


def _fresh(batch: Batch) -> list[Arrived]:
    """What has not been decided yet; the rest is recorded as delivered again."""
    arrived = []
    for record in batch.records:
        try:
            arrived.append(Arrived(read(record.envelope), record.place))
        except BadEnvelope as bad:
            raise Permanent(str(bad)) from bad
    seen = rows.decided_before([each.request.request_id for each in arrived])
    fresh, again = [], []
    for each in arrived:
        if each.request.request_id in seen:
            again.append((each.request.request_id, each.place.offset))
        else:
            seen.add(each.request.request_id)
            fresh.append(each)
    rows.insert_redelivered(batch.cluster_id, batch.topic_id, batch.partition, again)
    return fresh


def _stocks(articles: Mapping[Article, object]) -> dict[Article, Stock]:
    found = Stock.objects.select_related("sale").filter(sale_id__in={sale_id for sale_id, _ in articles})
    return {(stock.sale_id, stock.sku): stock for stock in found if (stock.sale_id, stock.sku) in articles}


def _proposals(stock: Stock, arrived: Sequence[Arrived]) -> list[Proposal]:
    """What the gate says; closed if it cannot be asked: then the row is, which is slower and no less right.

    Where the row shows nothing left, nobody is asked: units come back to the row before they come back to the gate.
    """
    if not stock.available or stock.gate_retired:
        return [Proposal.REFUSED] * len(arrived)
    asked = [(each.request.request_id, max(1, each.request.quantity)) for each in arrived]
    if stock.gate_epoch:
        try:
            return gate.propose(stock.sale_id, stock.sku, stock.gate_epoch, asked)
        except RedisError as fault:
            log.warning("the gate does not answer", extra={"stock": stock.id, "reason": str(fault)})
    return [Proposal.CLOSED] * len(arrived)


def _is_contended(contest: Contest) -> bool:
    """May anybody get something? Units the row shows win over a gate that denies them."""
    if any(proposal is not Proposal.REFUSED for proposal in contest.proposals):
        return True
    return any(each.request.quantity <= contest.stock.available for each in contest.arrived)


def _verdicts(stock: Stock, arrived: Sequence[Arrived], now_ms: int) -> list[Decided]:
    requests = [each.request for each in arrived]
    now = StockNow(stock.available, stock.version, stock.cap, stock.unit_price, stock.sale.state != "closed")
    holders = rows.holders(stock.sale_id, [request.user_id for request in requests])
    return decide(requests, now, holders, now_ms)


def _note(verdicts: Verdicts, arrived: Sequence[Arrived], decided: Sequence[Decided]) -> None:
    for each, verdict in zip(arrived, decided, strict=True):
        verdicts[each.place.offset] = verdict


def _settle(stock: Stock | None, contest: Contest, verdicts: Verdicts) -> Outcome:
    """The row itself, and whether the gate is right."""
    outcome = Outcome(contest.stock, [], [])
    wrong = False
    for each, proposal in zip(contest.arrived, contest.proposals, strict=True):
        decision = verdicts[each.place.offset].decision
        if decision is Decision.RESERVED:
            outcome.granted.append(each)
            wrong = wrong or proposal is not Proposal.GRANTED
        elif proposal is Proposal.GRANTED:
            if decision is Decision.SOLD_OUT:
                wrong = True  # the counter promised what is not there: count anew, give nothing back
            else:
                outcome.given_back.append(each)
        elif proposal is Proposal.CLOSED:
            wrong = wrong or contest.stock.sale.state != "closed"
    if outcome.granted:
        assert stock is not None, "units are granted only under the row's lock"
        _take(stock, outcome.granted)
        # An epoch that began between the proposal and the lock does not know what is granted here.
        wrong = wrong or stock.gate_epoch != contest.stock.gate_epoch
        transaction.on_commit(lambda: views.show(contest.stock.sale_id), robust=True)
    if wrong:
        Stock.objects.filter(id=contest.stock.id).update(gate_owed=True)
        transaction.on_commit(lambda: rebuild.after_commit(contest.stock.id, contest.stock.gate_epoch), robust=True)
    elif outcome.given_back:
        transaction.on_commit(lambda: rebuild.sync_after_commit(contest.stock.id), robust=True)
    return outcome


def _take(stock: Stock, granted: Sequence[Arrived]) -> None:
    """available → reserved; the row's version says that nobody moved in between."""
    units = sum(each.request.quantity for each in granted)
    before = stock.version
    moved = Stock.objects.filter(id=stock.id, version=before, available__gte=units).update(
        available=stock.available - units, reserved=stock.reserved + units, version=before + len(granted)
    )
    if moved != 1:
        raise rows.Overtaken(f"stock {stock.id} moved on from version {before}")


def _keep_grants(outcome: Outcome, verdicts: Verdicts) -> None:
    """Holds, one ledger entry each, and what the gate has to be told."""
    stock, granted, given_back = outcome
    rows.insert_holds(
        [
            (each.request.request_id, stock.id, stock.sale_id, each.request.user_id, each.request.quantity, each.place)
            for each in granted
        ]
    )
    rows.insert_reserved(
        stock.id,
        [(verdicts[place.offset].version, request.quantity, request.request_id) for request, place in granted],
    )
    rows.insert_gate_sync([(stock.id, each.request.request_id) for each in given_back])


def _keep_decisions(
    batch: Batch,
    fresh: Sequence[Arrived],
    verdicts: Verdicts,
    stocks: Mapping[Article, Stock],
    now_ms: int,
) -> None:
    """Inbox and events of every request, in order of arrival."""
    prices = {article: stock.unit_price for article, stock in stocks.items()}
    kept, events = [], []
    for request, place in fresh:
        _, decision, version = verdicts[place.offset]
        request_id, user_id, sale_id, sku, quantity, admitted_at_ms, deadline_ms = request
        kept.append(
            (request_id, user_id, sale_id, sku, quantity, decision, version, admitted_at_ms, deadline_ms, place.offset)
        )
        price = prices.get((sale_id, sku), 0)
        decided = PurchaseDecided(request_id, user_id, sale_id, sku, quantity, price, decision, version, now_ms)
        events.append(Event(INVENTORY_DECISIONS, user_id, decided.envelope(place)))
    rows.insert_decided(now_ms, batch.cluster_id, batch.topic_id, batch.partition, kept)
    publish(events)
