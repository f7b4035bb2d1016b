"""What is looked at once, before the gateway serves: settings that would only hurt later, under load."""

from __future__ import annotations

import logging

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from gateway import sales
from gateway.addresses import networks
from seckill.problems import Problem

log = logging.getLogger(__name__)

# Of the connections that the server has, those that somebody else has already, and those that it keeps for itself.
_FREE = """
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())
"""


class BadStart(SystemExit):
    """Says what is wrong and what to change; ends the process."""


def check() -> None:
    _check_proxies()
    _check_pool()
    try:
        sales.views()  # so that Redis is known to remember from before the next opening on
    except Problem as problem:
        log.warning("no sales at the start", extra={"reason": problem.detail})


def _check_proxies() -> None:
    try:
        networks(settings.ENVIRONMENT.trusted_proxies)
    except ValueError as error:
        raise BadStart(f"SECKILL_TRUSTED_PROXIES: {error}") from error


def _check_pool() -> None:
    """The pool fits into what Postgres has left."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(_FREE)
            [free] = cursor.fetchone()
    except DatabaseError as fault:
        log.warning("the database cannot be asked at the start", extra={"reason": str(fault)})
        return  # /readyz says so until it can
    finally:
        connection.close()
    pool = settings.ENVIRONMENT.database_pool
    if pool > free:
        raise BadStart(
            f"the pool may open {pool} connections, and Postgres has {free} left: lower SECKILL_DATABASE_POOL, or raise"
            " max_connections"
        )
