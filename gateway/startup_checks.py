"""Checks before the gateway starts to serve, for settings that would otherwise fail only under load."""

from __future__ import annotations

import logging

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from gateway import sales
from seckill.config.environment import DEVELOPMENT_SECRET
from seckill.web.client_address import parse_networks
from seckill.web.problems import Problem
from seckill.web.sign_in import custom_sign_in_view

log = logging.getLogger(__name__)

TRUSTED_NETWORK_ADDRESSES_MAX = 16
"""A larger trusted network causes a warning in production."""

# Connections that Postgres has left: its maximum without the reserved ones and those that are open already.
_FREE_CONNECTIONS = """
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())
"""


class StartupError(SystemExit):
    """Ends the process with a message that says what is wrong and what to change."""


def run_checks() -> None:
    _check_proxies()
    _check_sign_in()
    _check_keys()
    _check_pool()
    try:
        sales.current_views()  # makes Redis remember requests from before the next opening on
    except Problem as problem:
        log.warning("no sales at the start", extra={"reason": problem.detail})


def _check_proxies() -> None:
    try:
        trusted = parse_networks(settings.ENVIRONMENT.trusted_proxies)
    except ValueError as error:
        raise StartupError(f"SECKILL_TRUSTED_PROXIES: {error}") from error
    if settings.ENVIRONMENT.development:
        return
    for network in trusted:
        if network.num_addresses > TRUSTED_NETWORK_ADDRESSES_MAX:
            log.warning(
                "SECKILL_TRUSTED_PROXIES trusts a whole network: name the address of the proxy itself",
                extra={"network": str(network)},
            )
    if not trusted:
        log.warning("SECKILL_TRUSTED_PROXIES is empty: behind a proxy, all buyers count as one address")


def _check_keys() -> None:
    """Outside development the environment has already refused the published keys."""
    environment = settings.ENVIRONMENT
    if environment.allow_public_bind and DEVELOPMENT_SECRET in (environment.secret_key, environment.provider_secret):
        log.warning(
            "servers may listen beyond loopback with the published development key: anyone who can connect can forge"
            " tokens; set SECKILL_SECRET_KEY and SECKILL_PROVIDER_SECRET"
        )


def _check_sign_in() -> None:
    try:
        custom = custom_sign_in_view()
    except ImportError as error:
        raise StartupError(f"SECKILL_SIGN_IN: {error}") from error
    if custom is None and not settings.ENVIRONMENT.development:
        log.warning("SECKILL_SIGN_IN is empty: outside development no buyer can sign in")


def _check_pool() -> None:
    """The pool must fit into the connections that Postgres has left."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(_FREE_CONNECTIONS)
            [free] = cursor.fetchone()
    except DatabaseError as fault:
        log.warning("cannot check the database at the start", extra={"reason": str(fault)})
        return  # /readyz reports it until the database answers
    finally:
        connection.close()
    pool = settings.ENVIRONMENT.database_pool
    if pool > free:
        raise StartupError(
            f"the pool may open {pool} connections, but Postgres has only {free} left: lower SECKILL_DATABASE_POOL, or"
            " raise max_connections"
        )
