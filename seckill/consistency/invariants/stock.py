"""Stock and ledger: nothing is sold twice, nothing is lost, and the units are where the books say."""

from __future__ import annotations

from collections import Counter, defaultdict

from seckill.consistency.evidence import Evidence
from seckill.consistency.rows import Entry, Stock
from seckill.consistency.verdicts import Found, Subject

SUPPLY, AVAILABLE, HELD, SOLD = "supply", "available", "reserved", "sold"
MOVES = {
    "declare": ((SUPPLY, AVAILABLE),),
    "adjust": ((SUPPLY, AVAILABLE), (AVAILABLE, SUPPLY)),
    "reserve": ((AVAILABLE, HELD),),
    "sell": ((HELD, SOLD),),
    "release": ((HELD, AVAILABLE),),
    "return": ((SOLD, AVAILABLE),),
}
"""Which accounts each kind of entry may move units between (debit, credit)."""
LIVES = {(), ("reserve",), ("reserve", "sell"), ("reserve", "sell", "return"), ("reserve", "release")}
"""What may become of the units of one request."""


def no_oversell(evidence: Evidence, found: Found) -> None:
    """I1. Replayed entry by entry, nothing is ever below zero, and what is held or sold never exceeds the supply."""
    for stock in evidence.stocks:
        supply = sum(entry.units for entry in evidence.entries.get(stock.id, ()) if entry.kind == "declare")
        balance = Counter({SUPPLY: supply})
        adjusted = 0
        for entry in evidence.entries.get(stock.id, ()):
            found.looked_at += 1
            if entry.kind == "adjust":
                change = entry.units if entry.debit == SUPPLY else -entry.units
                adjusted += change
                balance[SUPPLY] += change
            balance[entry.debit] -= entry.units
            balance[entry.credit] += entry.units
            for account in (AVAILABLE, HELD, SOLD):
                if balance[account] < 0:
                    _say(found, stock, entry, f"{account} is {balance[account]} after it")
            active = balance[HELD] + balance[SOLD]
            if active > supply + adjusted:
                _say(found, stock, entry, f"{active} units are held or sold, of {supply + adjusted}")
        active = sum(hold.quantity for hold in evidence.holds if hold.stock_id == stock.id and hold.is_active)
        found.facts[f"{_name(stock)}: declared"] = supply
        found.facts[f"{_name(stock)}: held or sold"] = active
        if active > supply + adjusted:
            over = [hold for hold in evidence.holds if hold.stock_id == stock.id and hold.is_active]
            found.say_wrong(
                f"{_name(stock)}: active holds have {active} units, of {supply + adjusted}",
                Subject(over[-1].request_id),
            )


def conservation(evidence: Evidence, found: Found) -> None:
    """I2. Declared + adjustments = available + reserved + sold; every entry moves units as its kind may and has one
    cause; versions have no gap; the stock row is the sum of its ledger, and its holds are what the accounts say."""
    causes = Counter((entry.kind, entry.cause) for entry in evidence.ledger)
    held: dict[int, Counter[str]] = defaultdict(Counter)
    for hold in evidence.holds:
        held[hold.stock_id][hold.state] += hold.quantity
    known = {stock.id for stock in evidence.stocks}
    for entry in evidence.ledger:
        if entry.stock_id not in known:
            found.say_wrong(f"ledger entry {entry.version} is of stock {entry.stock_id}, which is not there")
    for stock in evidence.stocks:
        entries = evidence.entries.get(stock.id, [])
        balance: Counter[str] = Counter()
        for number, entry in enumerate(entries, 1):
            found.looked_at += 1
            balance[entry.debit] -= entry.units
            balance[entry.credit] += entry.units
            if entry.version != number:
                _say(found, stock, entry, f"entry number {number} has version {entry.version}")
            if entry.units <= 0 or (entry.debit, entry.credit) not in MOVES.get(entry.kind, ()):
                _say(found, stock, entry, f"a {entry.kind} of {entry.units} from {entry.debit} to {entry.credit}")
            if causes[entry.kind, entry.cause] > 1:
                _say(found, stock, entry, f"{entry.kind} {causes[entry.kind, entry.cause]} times for one cause")
            if (entry.request_id is None) != (entry.kind in ("declare", "adjust")):
                _say(found, stock, entry, "it is nobody's")
        declared = [entry for entry in entries if entry.kind == "declare"]
        if len(declared) != 1 or declared[0].version != 1:
            found.say_wrong(f"{_name(stock)}: declared {len(declared)} times")
        elif declared[0].units != stock.declared:
            found.say_wrong(f"{_name(stock)}: declared {declared[0].units}, the row says {stock.declared}")
        for account, shown in ((AVAILABLE, stock.available), (HELD, stock.reserved), (SOLD, stock.sold)):
            if balance[account] != shown:
                found.say_wrong(f"{_name(stock)}: the row has {shown} {account}, the ledger {balance[account]}")
            if account != AVAILABLE and held[stock.id][account] != balance[account]:
                found.say_wrong(
                    f"{_name(stock)}: holds have {held[stock.id][account]} {account}, the ledger {balance[account]}"
                )
        if entries and entries[-1].version != stock.version:
            found.say_wrong(f"{_name(stock)}: version {stock.version}, the ledger ends at {entries[-1].version}")
        if -balance[SUPPLY] != stock.available + stock.reserved + stock.sold:
            found.say_wrong(
                f"{_name(stock)}: {-balance[SUPPLY]} supplied, "
                f"{stock.available} + {stock.reserved} + {stock.sold} accounted for"
            )


def gate_agrees(evidence: Evidence, found: Found) -> None:
    """I4. Whom the gate remembers as granted are the holders, one by one, but for what it is still owed. The gate of a
    sale that is over is retired an hour later, and not asked for."""
    active: dict[int, set[object]] = defaultdict(set)
    for hold in evidence.holds:
        if hold.is_active:
            active[hold.stock_id].add(hold.request_id)
    owed = set(evidence.gate_owed)
    stocks = {stock.id: stock for stock in evidence.stocks}
    over = {sale.id for sale in evidence.sales if sale.state == "closed" or sale.closes_at_ms < evidence.taken_at_ms}
    asked = {gate.stock_id for gate in evidence.gates}
    for stock in evidence.stocks:
        if stock.gate_retired:
            found.looked_at += 1
            found.facts[f"{_name(stock)}: gate"] = "retired, the sale is over"
            if stock.sale_id not in over:
                found.say_wrong(f"{_name(stock)}: its gate is retired, and the sale is not over")
        elif stock.id not in asked:
            found.unknown.append(f"{_name(stock)}: its gate was not asked")
    for gate in evidence.gates:
        if gate.free is None:
            found.unknown.append(f"stock {gate.stock_id}: the gate has nothing of its present epoch")
            continue
        found.looked_at += 1
        known = stocks.get(gate.stock_id)
        if known is None:
            found.say_wrong(f"the gate has stock {gate.stock_id}, which is not there")
            continue
        found.facts[f"{_name(known)}: free in the gate, beyond the row"] = gate.free - known.available
        for request in gate.granted.keys() - active[gate.stock_id] - owed:
            found.say_missing("granted in the gate, and not a holder", Subject(request))
        for hold in evidence.holds:
            if hold.stock_id != gate.stock_id or not hold.is_active:
                continue
            units = gate.granted.get(hold.request_id)
            if units is None:
                found.say_missing("a holder, and the gate does not know him", Subject(hold.request_id))
            elif units != hold.quantity:
                found.say_missing(f"holds {hold.quantity}, and the gate has {units}", Subject(hold.request_id))


def no_undersell(evidence: Evidence, found: Found) -> None:
    """I5. Units are left only if nobody wanted them, or they came back after the last who did was refused."""
    for stock in evidence.stocks:
        found.looked_at += 1
        refused = [
            row
            for row in evidence.decided
            if (row.sale_id, row.sku) == (stock.sale_id, stock.sku)
            and row.decision == "SOLD_OUT"
            and row.quantity <= stock.available
        ]
        found.facts[f"{_name(stock)}: left"] = stock.available
        if not refused:
            continue
        last = max(refused, key=lambda row: row.stock_version)
        back = _came_back(evidence, stock, last.stock_version, stock.version)
        if stock.available > back:
            found.say_wrong(
                f"{_name(stock)}: {stock.available} are left and only {back} came back after the last refusal",
                Subject(last.request_id),
            )


def no_false_sold_out(evidence: Evidence, found: Found) -> None:
    """I6. At the stock version a refusal rests on, there was too little."""
    available: dict[tuple[int, str], dict[int, int]] = {}
    for stock in evidence.stocks:
        level, levels = 0, {0: 0}
        for entry in evidence.entries.get(stock.id, ()):
            level += entry.units * ((entry.credit == AVAILABLE) - (entry.debit == AVAILABLE))
            levels[entry.version] = level
        available[stock.sale_id, stock.sku] = levels
    refused = 0
    for row in evidence.decided:
        found.looked_at += 1
        if row.decision != "SOLD_OUT":
            continue
        refused += 1
        there = available.get((row.sale_id, row.sku), {}).get(row.stock_version)
        if there is None:
            found.say_wrong(f"refused at stock version {row.stock_version}, which never was", Subject(row.request_id))
        elif there >= row.quantity:
            found.say_wrong(
                f"refused {row.quantity} at stock version {row.stock_version}, where {there} were available",
                Subject(row.request_id),
            )
    found.facts["told that it is sold out"] = refused


def one_active_purchase(evidence: Evidence, found: Found) -> None:
    """I12. Nobody ever has two active purchases in a sale: now, and at any version of the ledger."""
    holders: dict[tuple[int, str], list[object]] = defaultdict(list)
    for hold in evidence.holds:
        if hold.is_active:
            found.looked_at += 1
            holders[hold.sale_id, hold.user_id].append(hold.request_id)
            if len(holders[hold.sale_id, hold.user_id]) == 2:
                found.say_wrong(f"a second active purchase in sale {hold.sale_id}", Subject(user_id=hold.user_id))
    users = {hold.request_id: hold.user_id for hold in evidence.holds}
    sale_of = {stock.id: stock.sale_id for stock in evidence.stocks}
    by_sale: dict[int, Counter[str]] = defaultdict(Counter)
    for stock_id, entries in evidence.entries.items():
        active = by_sale[sale_of.get(stock_id, 0)]
        for entry in entries:
            user = users.get(entry.request_id) if entry.request_id is not None else None
            if user is None:
                continue
            if entry.kind == "reserve":
                active[user] += 1
                if active[user] == 2:
                    found.say_wrong(
                        f"reserved at version {entry.version} while another was active",
                        Subject(entry.request_id, None, user),
                    )
            elif entry.kind in ("release", "return"):
                active[user] -= 1


def returned_once(evidence: Evidence, found: Found) -> None:
    """I15. The units of a request come back at most once, and are never both paid and released."""
    for request, entries in evidence.entries_of.items():
        found.looked_at += 1
        life = tuple(entry.kind for entry in entries)
        if life not in LIVES:
            found.say_wrong(f"its units went {' → '.join(life)}", Subject(request))
        elif len({entry.units for entry in entries}) > 1:
            found.say_wrong(f"its entries have {[entry.units for entry in entries]} units", Subject(request))


def _came_back(evidence: Evidence, stock: Stock, after: int, until: int) -> int:
    """Units that became available at versions in (after, until]."""
    return sum(
        entry.units
        for entry in evidence.entries.get(stock.id, ())
        if after < entry.version <= until and entry.credit == AVAILABLE
    )


def _name(stock: Stock) -> str:
    return f"sale {stock.sale_id} {stock.sku}"


def _say(found: Found, stock: Stock, entry: Entry, what: str) -> None:
    found.say_wrong(f"{_name(stock)}, version {entry.version} ({entry.kind}): {what}", Subject(entry.request_id))
