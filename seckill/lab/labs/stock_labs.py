"""Table: the labs about stock, requests and money."""

from __future__ import annotations

from seckill.lab.labs.lab import Code, Lab, Server

STEPS = "seckill/lab/labs/steps"
POSTGRES = frozenset({Server.POSTGRES})
POSTGRES_AND_REDIS = POSTGRES | {Server.REDIS}
SALE = frozenset(Server)

STOCK_LABS = (
    Lab(
        1, "oversell",
        question="What happens if you read the stock, then write it?",
        damage="units sold beyond the stock",
        broken="eight consumers read the stock without a lock and overwrite it",
        fixed="the same batches, decided by inventory as it is: lock the row, then move its version on",
        why="Two consumers read 20, each sells 5, each writes 15. The second write erases the first sale from the row, "
        "so the row promises units that buyers already hold.",
        code=(
            Code(f"{STEPS}/oversell.py", "read_without_lock"),
            Code(f"{STEPS}/oversell.py", "overwrite_stock"),
            Code("inventory/locks.py", "lock_stocks"),
            Code("inventory/reservation.py", "_move_to_reserved"),
        ),
        test="tests/concurrency/test_stock.py::test_without_the_lock_the_same_crowd_oversells",
        next="Set PAUSE_S to 0 in oversell.py. Does it still oversell? Then put only the lock back.",
        servers=POSTGRES_AND_REDIS,
    ),
    Lab(
        2, "row-lock",
        question="How many buyers does one locked row serve if a commit takes 2 ms?",
        damage="requests still undecided after 3 s",
        broken="one transaction for each buyer; each waits for the row, and for the disk while it holds it",
        fixed="one transaction for 300 buyers of a batch, under the same lock, on the same disk",
        why="The lock is held until the commit is on the disk, so commits of one row never overlap: at 2 ms each there "
        "are at most 500 a second, however many threads wait. A batch pays for the disk once.",
        code=(
            Code("inventory/reservation.py", "decide_batch", "locked = lock_stocks", "decisions: Decisions"),
            Code("inventory/stock.py", "decide_requests", "decided = []", "return decided"),
            Code("inventory/batch_sql.py", "insert_holds"),
        ),
        test="tests/concurrency/test_stock.py::test_concurrent_batches_sell_each_unit_once",
        next="Change BATCH in row_lock.py to 10. How many transactions does it take, and does it still finish in time?",
        servers=POSTGRES_AND_REDIS,
        postgres_options=("-c", "commit_delay=2000", "-c", "commit_siblings=0", "-c", "shared_buffers=64MB"),
    ),
    Lab(
        3, "redis-decides",
        question="What does FLUSHALL cost if Redis alone decides?",
        damage="units sold beyond the stock",
        broken="a counter in Redis decides, and the database records what it said; FLUSHALL in between",
        fixed="Redis only proposes; the locked row decides, and inventory rebuilds what Redis has lost",
        why="A counter that is missing looks like a counter that was never used, so it starts again at the full stock. "
        "What decides must be what survives.",
        code=(
            Code(f"{STEPS}/redis_decides.py", "_TAKE"),
            Code("inventory/gate.py", "_PROPOSE", "local before", "answer = 2"),
            Code("inventory/reservation.py", "_may_grant"),
            Code("inventory/reservation.py", "_grant_units", "if is_gate_wrong:", "transaction.on_commit("),
        ),
        test="tests/concurrency/test_stock_gate.py::test_after_flushall_the_gate_is_closed_not_sold_out_and_is_rebuilt",
        next="Raise the counter by hand instead of deleting it: `INCRBY …:free 50` before the second half.",
        servers=POSTGRES_AND_REDIS,
    ),
    Lab(
        7, "double-click",
        question="What do a double click and a lost response cost?",
        damage="repeated calls that got another answer",
        broken="the gateway, composed with a new request id for each call",
        fixed="the gateway as it is: the id follows from buyer, sale and Idempotency-Key",
        why="A buyer who gets no response must ask again, and the server cannot know that it is the same wish unless "
        "the call says so. If the id follows from the wish, the second call finds the first.",
        code=(
            Code(f"{STEPS}/double_click.py", "new_request_id"),
            Code("gateway/identity.py", "derive_request_id"),
            Code("gateway/purchase.py", "Purchases._enqueue", "if admitted.verdict", "return admitted.position"),
        ),
        test="tests/concurrency/test_gateway_purchases.py::"
        "test_equal_simultaneous_calls_are_one_record_and_a_later_one_adds_none",
        next="Which of the extra requests would inventory stop, and by which of its two keys? See docs/techniques.md.",
        servers=SALE,
    ),
    Lab(
        8, "late-payment",
        question="What happens to money that arrives after the order has expired?",
        damage="orders that are paid and have no unit",
        broken="the callback says paid, so the order becomes paid, whatever it was before",
        fixed="only an order that still waits becomes paid; other money is refunded, once",
        why="When the order expired, its unit went back and was sold to the next buyer. A payment is not an order: it "
        "may be true, and still come too late.",
        code=(
            Code(f"{STEPS}/late_payment.py", "mark_paid"),
            Code("orders/payment_attempts.py", "record_capture"),
            Code("orders/lifecycle.py", "TRANSITIONS"),
        ),
        test="tests/concurrency/test_orders_money.py::test_a_payment_after_the_order_expired_is_refunded_once",
        next="Let the callback of a late payment come five times. How often is it refunded, and why?",
        servers=POSTGRES_AND_REDIS,
    ),
    Lab(
        11, "backlog",
        question="Who gets the units after inventory has stood still for minutes?",
        damage="units held for buyers who had left",
        broken="requests without a deadline: first come, first served, however long it takes",
        fixed="requests with a deadline, which is judged under the stock row's lock",
        why="A queue keeps requests longer than people wait. Units for buyers who have left are taken from buyers who "
        "are still there, until the time to pay has run out.",
        code=(
            Code("inventory/stock.py", "_decide_one", "if stock is None", "TOO_LATE"),
            Code("inventory/reservation.py", "decide_batch", "locked = lock_stocks", "now_ms = "),
            Code("gateway/backlog.py", "Backlog.permit"),
        ),
        test="tests/concurrency/test_frozen_holders.py::"
        "test_a_request_whose_deadline_passes_during_the_wait_for_the_lock_is_too_late",
        next="Read the newest requests first instead. Who is treated unfairly then, and which invariant would notice?",
        servers=POSTGRES_AND_REDIS,
    ),
    Lab(
        12, "checker",
        question="How do you know that your check can fail?",
        damage="corruptions unnoticed",
        broken="a check that compares totals: units, orders, holds",
        fixed="the report's invariants, by identity and across independent sources",
        why="Two errors that cancel out leave every total as it was. Only a check that has been seen to fail, for each "
        "thing that it promises to find, says anything when it passes.",
        code=(
            Code(f"{STEPS}/checker.py", "totals_balance"),
            Code("seckill/report/invariants/stock.py", "no_oversell"),
        ),
        test="tests/unit/seckill/report/test_selftest.py::test_a_corruption_is_noticed_by_its_invariant",
        next="Add a comparison to totals_balance. Which corruptions does it find now, and which can totals never find?",
    ),
)  # fmt: skip
