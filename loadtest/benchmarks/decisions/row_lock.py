"""The common design: the purchase is one transaction in the request, and the lock of the stock row is the queue.

It is tuned well: a buyer who comes too late is refused without a lock; the buyer's row is written before the stock row,
so the contended lock is held for one statement and the commit; the statements are prepared; the number of processes and
threads is the fastest one. Here the function runs in a loop without HTTP.

`python -m loadtest.benchmarks.decisions.row_lock URL THREADS FIRST COUNT STOCK KEEP` is one worker process. It buys as
users FIRST to FIRST + COUNT, starts when it reads a line, and prints how many seconds it took.
"""

from __future__ import annotations

import sys
import threading
import time
from itertools import count
from typing import Any
from uuid import uuid4

import psycopg

TABLES = """
CREATE TABLE IF NOT EXISTS peer_stock (id bigserial PRIMARY KEY, available bigint NOT NULL CHECK (available >= 0));
CREATE TABLE IF NOT EXISTS peer_order (
    request_id uuid PRIMARY KEY, stock_id bigint NOT NULL, user_id text NOT NULL, quantity int NOT NULL,
    state text NOT NULL, at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX IF NOT EXISTS peer_order_one ON peer_order (stock_id, user_id) WHERE state = 'reserved';
"""
LOOK = "SELECT available FROM peer_stock WHERE id = %b"
ORDER = """
INSERT INTO peer_order (request_id, stock_id, user_id, quantity, state) VALUES (%b, %b, %b, %b, %b)
ON CONFLICT DO NOTHING
"""
TAKE = "UPDATE peer_stock SET available = available - %b WHERE id = %b AND available >= %b"


def buy(connection: psycopg.Connection[Any], stock: int, user: str, keep_refusals: bool, quantity: int = 1) -> str:
    """One purchase. With `keep_refusals`, refusals are stored as well, as a view needs it to repeat its answer."""
    request = uuid4()
    cursor = connection.cursor(binary=True)
    left = cursor.execute(LOOK, [stock], prepare=True).fetchone()
    if left is None or left[0] < quantity:
        if keep_refusals:
            cursor.execute(ORDER, [request, stock, user, quantity, "sold_out"], prepare=True)
        return "sold_out"
    with connection.transaction() as transaction:
        cursor.execute(ORDER, [request, stock, user, quantity, "reserved"], prepare=True)
        if cursor.rowcount == 0:
            return "duplicate"
        cursor.execute(TAKE, [quantity, stock, quantity], prepare=True)
        if cursor.rowcount != 1:
            raise psycopg.Rollback(transaction)
    return "reserved" if cursor.rowcount == 1 else "sold_out"


def crowd(url: str, threads: int, first: int, users: int, stock: int, keep_refusals: bool) -> None:
    numbers = count(first)
    ready = threading.Barrier(threads + 1)

    def work() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            ready.wait()
            ready.wait()
            while (number := next(numbers)) < first + users:
                buy(connection, stock, f"user-{number}", keep_refusals)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    ready.wait()
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    ready.wait()
    for worker in workers:
        worker.join()
    print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    crowd(words[0], int(words[1]), int(words[2]), int(words[3]), int(words[4]), words[5] == "keep")
