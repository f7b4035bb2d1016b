"""What is looked at once, before the gateway serves: settings that would only hurt later, under load."""

from __future__ import annotations

import logging

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from gateway import sales
from gateway.addresses import networks
from seckill.environment import DEVELOPMENT_SECRET
from seckill.problems import Problem
from seckill.signing_in import own_view

log = logging.getLogger(__name__)

ADDRESSES_MAX = 16
"""Of one trusted network, before the start warns in production."""

# Of the connections that the server has, those that somebody else has already, and those that it keeps for itself.
_FREE = """
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())
"""


class BadStart(SystemExit):
    """Says what is wrong and what to change; ends the process."""


def check() -> None:
    _check_proxies()
    _check_sign_in()
    _check_keys()
    _check_pool()
    try:
        sales.views()  # so that Redis is known to remember from before the next opening on
    except Problem as problem:
        log.warning("no sales at the start", extra={"reason": problem.detail})


def _check_proxies() -> None:
    try:
        trusted = networks(settings.ENVIRONMENT.trusted_proxies)
    except ValueError as error:
        raise BadStart(f"SECKILL_TRUSTED_PROXIES: {error}") from error
    if settings.ENVIRONMENT.development:
        return
    for network in trusted:
        if network.num_addresses > ADDRESSES_MAX:
            log.warning(
                "SECKILL_TRUSTED_PROXIES trusts a whole network: name the address of the proxy itself",
                extra={"network": str(network)},
            )
    if not trusted:
        log.warning("SECKILL_TRUSTED_PROXIES is empty: behind a proxy, all buyers count as one address")


def _check_keys() -> None:
    """Outside development the environment has refused them already."""
    environment = settings.ENVIRONMENT
    if environment.allow_public_bind and DEVELOPMENT_SECRET in (environment.secret_key, environment.provider_secret):
        log.warning("servers may listen beyond loopback, and a key is the published one: whoever can connect can forge")


def _check_sign_in() -> None:
    try:
        own = own_view()
    except ImportError as error:
        raise BadStart(f"SECKILL_SIGN_IN: {error}") from error
    if own is None and not settings.ENVIRONMENT.development:
        log.warning("SECKILL_SIGN_IN is empty: outside development no buyer can sign in")


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
