"""Check stock and ledger: no unit is sold twice or lost, and tables, ledger and gate agree."""

from __future__ import annotations

from collections import Counter, defaultdict

from seckill.report.evidence import Evidence
from seckill.report.rows import LedgerEntry, Stock
from seckill.report.verdicts import Findings, Subject

SUPPLY, AVAILABLE, HELD, SOLD = "supply", "available", "reserved", "sold"
MOVES = {
    "declare": ((SUPPLY, AVAILABLE),),
    "adjust": ((SUPPLY, AVAILABLE), (AVAILABLE, SUPPLY)),
    "reserve": ((AVAILABLE, HELD),),
    "sell": ((HELD, SOLD),),
    "release": ((HELD, AVAILABLE),),
    "return": ((SOLD, AVAILABLE),),
}
"""The accounts (debit, credit) between which each kind of entry may move units."""
LIVES = {(), ("reserve",), ("reserve", "sell"), ("reserve", "sell", "return"), ("reserve", "release")}
"""The sequences of ledger entries that the units of a request may go through."""


def no_oversell(evidence: Evidence, findings: Findings) -> None:
    """I1. After every ledger entry, no account is below zero and the units held or sold do not exceed the supply."""
    for stock in evidence.stocks:
        supply = sum(entry.units for entry in evidence.entries_by_stock.get(stock.id, ()) if entry.kind == "declare")
        balance = Counter({SUPPLY: supply})
        adjusted = 0
        for entry in evidence.entries_by_stock.get(stock.id, ()):
            findings.checked += 1
            if entry.kind == "adjust":
                change = entry.units if entry.debit == SUPPLY else -entry.units
                adjusted += change
                balance[SUPPLY] += change
            balance[entry.debit] -= entry.units
            balance[entry.credit] += entry.units
            for account in (AVAILABLE, HELD, SOLD):
                if balance[account] < 0:
                    _add_entry_violation(findings, stock, entry, f"{account} is {balance[account]} afterwards")
            active = balance[HELD] + balance[SOLD]
            if active > supply + adjusted:
                _add_entry_violation(findings, stock, entry, f"{active} of {supply + adjusted} units are held or sold")
        active = sum(hold.quantity for hold in evidence.holds if hold.stock_id == stock.id and hold.is_active)
        findings.facts[f"{_name(stock)}: declared"] = supply
        findings.facts[f"{_name(stock)}: held or sold"] = active
        if active > supply + adjusted:
            over = [hold for hold in evidence.holds if hold.stock_id == stock.id and hold.is_active]
            findings.add_violation(
                f"{_name(stock)}: active holds have {active} of {supply + adjusted} units",
                Subject(over[-1].request_id),
            )


def units_are_conserved(evidence: Evidence, findings: Findings) -> None:
    """I2. Units declared and adjusted equal units available, reserved and sold. Every ledger entry moves units between
    the accounts of its kind and has its own cause, versions have no gaps, and the stock row and the holds equal the
    sums of the ledger."""
    causes = Counter((entry.kind, entry.cause) for entry in evidence.ledger)
    held: dict[int, Counter[str]] = defaultdict(Counter)
    for hold in evidence.holds:
        held[hold.stock_id][hold.state] += hold.quantity
    known = {stock.id for stock in evidence.stocks}
    for entry in evidence.ledger:
        if entry.stock_id not in known:
            findings.add_violation(
                f"ledger entry {entry.version} belongs to stock {entry.stock_id}, which does not exist"
            )
    for stock in evidence.stocks:
        entries = evidence.entries_by_stock.get(stock.id, [])
        balance: Counter[str] = Counter()
        for number, entry in enumerate(entries, 1):
            findings.checked += 1
            balance[entry.debit] -= entry.units
            balance[entry.credit] += entry.units
            if entry.version != number:
                _add_entry_violation(findings, stock, entry, f"entry number {number} has version {entry.version}")
            if entry.units <= 0 or (entry.debit, entry.credit) not in MOVES.get(entry.kind, ()):
                _add_entry_violation(
                    findings,
                    stock,
                    entry,
                    f"a {entry.kind} must not move {entry.units} units from {entry.debit} to {entry.credit}",
                )
            if causes[entry.kind, entry.cause] > 1:
                _add_entry_violation(
                    findings,
                    stock,
                    entry,
                    f"{entry.kind} was posted {causes[entry.kind, entry.cause]} times for one cause",
                )
            if (entry.request_id is None) != (entry.kind in ("declare", "adjust")):
                _add_entry_violation(findings, stock, entry, "it has no request")
        declared = [entry for entry in entries if entry.kind == "declare"]
        if len(declared) != 1 or declared[0].version != 1:
            findings.add_violation(f"{_name(stock)}: declared {len(declared)} times")
        elif declared[0].units != stock.declared:
            findings.add_violation(f"{_name(stock)}: the ledger declares {declared[0].units}, the row {stock.declared}")
        for account, shown in ((AVAILABLE, stock.available), (HELD, stock.reserved), (SOLD, stock.sold)):
            if balance[account] != shown:
                findings.add_violation(f"{_name(stock)}: the row has {shown} {account}, the ledger {balance[account]}")
            if account != AVAILABLE and held[stock.id][account] != balance[account]:
                findings.add_violation(
                    f"{_name(stock)}: holds have {held[stock.id][account]} {account}, the ledger {balance[account]}"
                )
        if entries and entries[-1].version != stock.version:
            findings.add_violation(f"{_name(stock)}: version {stock.version}, the ledger ends at {entries[-1].version}")
        if -balance[SUPPLY] != stock.available + stock.reserved + stock.sold:
            findings.add_violation(
                f"{_name(stock)}: {-balance[SUPPLY]} units were supplied, but "
                f"{stock.available} + {stock.reserved} + {stock.sold} are in the row"
            )


def gate_matches_ledger(evidence: Evidence, findings: Findings) -> None:
    """I4. The requests that the gate has granted are exactly the active holders, except for releases that have not
    reached it yet. The gate of a sale that is over is retired an hour later and no longer compared."""
    active: dict[int, set[object]] = defaultdict(set)
    for hold in evidence.holds:
        if hold.is_active:
            active[hold.stock_id].add(hold.request_id)
    owed = set(evidence.gate_releases_due)
    stocks = {stock.id: stock for stock in evidence.stocks}
    over = {sale.id for sale in evidence.sales if sale.state == "closed" or sale.closes_at_ms < evidence.taken_at_ms}
    with_gate = {gate.stock_id for gate in evidence.gates}
    for stock in evidence.stocks:
        if stock.gate_retired:
            findings.checked += 1
            findings.facts[f"{_name(stock)}: gate"] = "retired after the sale"
            if stock.sale_id not in over:
                findings.add_violation(f"{_name(stock)}: its gate is retired, but the sale is not over")
        elif stock.id not in with_gate:
            findings.unknown.append(f"{_name(stock)}: its gate was not read")
    for gate in evidence.gates:
        if gate.free is None:
            findings.unknown.append(f"stock {gate.stock_id}: the gate has no keys for its current epoch")
            continue
        findings.checked += 1
        known = stocks.get(gate.stock_id)
        if known is None:
            findings.add_violation(f"the gate has stock {gate.stock_id}, which does not exist")
            continue
        findings.facts[f"{_name(known)}: free in the gate minus available in the row"] = gate.free - known.available
        for request in gate.granted.keys() - active[gate.stock_id] - owed:
            findings.add_missing("granted in the gate, but not an active holder", Subject(request))
        for hold in evidence.holds:
            if hold.stock_id != gate.stock_id or not hold.is_active:
                continue
            units = gate.granted.get(hold.request_id)
            if units is None:
                findings.add_missing("an active holder that the gate does not know", Subject(hold.request_id))
            elif units != hold.quantity:
                findings.add_missing(f"holds {hold.quantity} units, but the gate has {units}", Subject(hold.request_id))


def no_undersell(evidence: Evidence, findings: Findings) -> None:
    """I5. Units remain only if no request was refused that could have had them, or if they came back after the last
    such refusal."""
    for stock in evidence.stocks:
        findings.checked += 1
        refused = [
            row
            for row in evidence.decisions
            if (row.sale_id, row.sku) == (stock.sale_id, stock.sku)
            and row.decision == "SOLD_OUT"
            and row.quantity <= stock.available
        ]
        findings.facts[f"{_name(stock)}: left"] = stock.available
        if not refused:
            continue
        last = max(refused, key=lambda row: row.stock_version)
        back = _came_back(evidence, stock, last.stock_version, stock.version)
        if stock.available > back:
            findings.add_violation(
                f"{_name(stock)}: {stock.available} units remain, but only {back} came back after the last refusal",
                Subject(last.request_id),
            )


def no_false_sold_out(evidence: Evidence, findings: Findings) -> None:
    """I6. At the stock version on which a SOLD_OUT decision is based, fewer units were available than requested."""
    available: dict[tuple[int, str], dict[int, int]] = {}
    for stock in evidence.stocks:
        level, levels = 0, {0: 0}
        for entry in evidence.entries_by_stock.get(stock.id, ()):
            level += entry.units * ((entry.credit == AVAILABLE) - (entry.debit == AVAILABLE))
            levels[entry.version] = level
        available[stock.sale_id, stock.sku] = levels
    refused = 0
    for row in evidence.decisions:
        findings.checked += 1
        if row.decision != "SOLD_OUT":
            continue
        refused += 1
        there = available.get((row.sale_id, row.sku), {}).get(row.stock_version)
        if there is None:
            findings.add_violation(
                f"refused at stock version {row.stock_version}, which never existed", Subject(row.request_id)
            )
        elif there >= row.quantity:
            findings.add_violation(
                f"refused {row.quantity} at stock version {row.stock_version}, where {there} were available",
                Subject(row.request_id),
            )
    findings.facts["refused as sold out"] = refused


def one_active_purchase(evidence: Evidence, findings: Findings) -> None:
    """I12. No user has two active purchases in a sale now, and none had two of one article after any ledger entry."""
    holders: dict[tuple[int, str], list[object]] = defaultdict(list)
    for hold in evidence.holds:
        if hold.is_active:
            findings.checked += 1
            holders[hold.sale_id, hold.user_id].append(hold.request_id)
            if len(holders[hold.sale_id, hold.user_id]) == 2:
                findings.add_violation(
                    f"a second active purchase in sale {hold.sale_id}", Subject(user_id=hold.user_id)
                )
    users = {hold.request_id: hold.user_id for hold in evidence.holds}
    for entries in evidence.entries_by_stock.values():
        active: Counter[str] = Counter()
        for entry in entries:
            user = users.get(entry.request_id) if entry.request_id is not None else None
            if user is None:
                continue
            if entry.kind == "reserve":
                active[user] += 1
                if active[user] == 2:
                    findings.add_violation(
                        f"reserved at version {entry.version} while another purchase was active",
                        Subject(entry.request_id, None, user),
                    )
            elif entry.kind in ("release", "return"):
                active[user] -= 1


def returned_once(evidence: Evidence, findings: Findings) -> None:
    """I15. The units of a request are returned at most once, and never both paid for and released."""
    for request, entries in evidence.entries_by_request.items():
        findings.checked += 1
        life = tuple(entry.kind for entry in entries)
        if life not in LIVES:
            findings.add_violation(f"its units went through {' → '.join(life)}", Subject(request))
        elif len({entry.units for entry in entries}) > 1:
            findings.add_violation(
                f"its ledger entries have different units: {[entry.units for entry in entries]}", Subject(request)
            )


def _came_back(evidence: Evidence, stock: Stock, after: int, until: int) -> int:
    """Units that were returned or added at versions in (after, until]."""
    return sum(
        entry.units
        for entry in evidence.entries_by_stock.get(stock.id, ())
        if after < entry.version <= until and entry.credit == AVAILABLE
    )


def _name(stock: Stock) -> str:
    return f"sale {stock.sale_id} {stock.sku}"


def _add_entry_violation(findings: Findings, stock: Stock, entry: LedgerEntry, what: str) -> None:
    findings.add_violation(f"{_name(stock)}, version {entry.version} ({entry.kind}): {what}", Subject(entry.request_id))
