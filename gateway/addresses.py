"""Whose bucket a call is counted in: the client's own address; X-Forwarded-For only as far as trusted proxies wrote it.

TRUSTED_PROXIES are addresses and networks, e.g. `127.0.0.1,10.0.0.0/8`. The header is read from its end: each proxy
appends whom it was called by, so the first one that is not ours is the client, and what stands before it is hearsay.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from django.conf import settings

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

HOUSEHOLD = 64
"""Bits of an IPv6 address that are one customer's: he has all the others to play with."""
MOST_HOPS = 10


def client_address(meta: Mapping[str, Any]) -> str:
    peer = str(meta.get("REMOTE_ADDR", ""))
    trusted = settings.ENVIRONMENT.trusted_proxies
    if not trusted or not _is_trusted(peer, trusted):
        return _bucket(peer)
    client = peer
    for hop in reversed(str(meta.get("HTTP_X_FORWARDED_FOR", "")).split(",")[-MOST_HOPS:]):
        if _parsed(hop.strip()) is None:
            break
        client = hop.strip()
        if not _is_trusted(client, trusted):
            break
    return _bucket(client)


def networks(text: str) -> tuple[Network, ...]:
    """`ValueError` if it is none."""
    return tuple(ip_network(each.strip(), strict=False) for each in text.split(",") if each.strip())


@lru_cache(maxsize=16_384)
def _is_trusted(text: str, trusted: str) -> bool:
    address = _parsed(text)
    return address is not None and any(address in network for network in networks(trusted))


@lru_cache(maxsize=16_384)
def _bucket(text: str) -> str:
    address = _parsed(text)
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or ip_network((address, HOUSEHOLD), strict=False))
    return str(address) if address is not None else "unknown"


def _parsed(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
