"""Servers listen on loopback; with SECKILL_ALLOW_PUBLIC_BIND=1 they may listen on other addresses, too.

Every server that we start calls `check_bind`: metrics pages, the sandbox, Locust's page, and (through `check_granian`)
the gateway and the live streams. mqcore has a setting of its own, because its clients need no passwords. This module
imports only the standard library, so the sandbox can use it.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from itertools import pairwise

ALLOW = "SECKILL_ALLOW_PUBLIC_BIND"


class PublicBind(SystemExit):
    """The address is reachable from other machines, and the environment does not allow that."""


def check_bind(host: str, server: str, variables: Mapping[str, str] = os.environ) -> str:
    """The host, if `server` may listen on it; raises `PublicBind` otherwise."""
    if variables.get(ALLOW, "").lower() not in ("1", "true") and not _is_loopback(host):
        raise PublicBind(
            f"seckill: {server} would listen on {host or 'every interface'}, which other machines can reach: listen on"
            f" 127.0.0.1, or set {ALLOW}=1"
        )
    return host


def check_granian(
    server: str, arguments: Sequence[str] | None = None, variables: Mapping[str, str] = os.environ
) -> None:
    """The same check for an application that Granian loads, on the host of its command line or environment."""
    words = list(sys.argv if arguments is None else arguments)
    given = [after for word, after in pairwise(words) if word == "--host"]
    given += [word.removeprefix("--host=") for word in words if word.startswith("--host=")]
    check_bind(given[-1] if given else variables.get("GRANIAN_HOST", "127.0.0.1"), server, variables)


def _is_loopback(host: str) -> bool:
    if not host:
        return False
    try:
        addresses = {str(found[4][0]).partition("%")[0] for found in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(_is_loopback_number(address) for address in addresses)


def _is_loopback_number(text: str) -> bool:
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
