"""Whose bucket a call is counted in: the client's own address; X-Forwarded-For only as far as trusted proxies wrote it.

TRUSTED_PROXIES are addresses and networks, e.g. `127.0.0.1,10.0.0.0/8`. The header is read from its end: each proxy
appends whom it was called by, so the first one that is not ours is the client, and what stands before it is hearsay.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from socket import AF_INET, inet_pton
from typing import Any, NamedTuple

from django.conf import settings

Network = IPv4Network | IPv6Network

HOUSEHOLD = 64
"""Bits of an IPv6 address that are one customer's: he has all the others to play with."""
MOST_HOPS = 10
UNKNOWN = "unknown"


class Client(NamedTuple):
    """`is_proxy`: the call came from a trusted proxy that did not say for whom, so the address is not the client's."""

    address: str
    is_proxy: bool


def client_address(meta: Mapping[str, Any]) -> str:
    return client_of(meta).address


def client_of(meta: Mapping[str, Any]) -> Client:
    peer = str(meta.get("REMOTE_ADDR", ""))
    trusted, bits = settings.ENVIRONMENT.trusted_proxies, settings.ENVIRONMENT.address_bits_v4
    client = _known(peer, trusted, bits)
    if client.is_trusted:
        for hop in reversed(str(meta.get("HTTP_X_FORWARDED_FOR", "")).split(",")[-MOST_HOPS:]):
            before = _known(hop.strip(), trusted, bits)
            if before.bucket == UNKNOWN:
                break
            client = before
            if not client.is_trusted:
                break
    return Client(client.bucket, client.is_trusted)


def is_trusted_peer(meta: Mapping[str, Any]) -> bool:
    """Was the connection made by a trusted proxy?"""
    environment = settings.ENVIRONMENT
    return _known(str(meta.get("REMOTE_ADDR", "")), environment.trusted_proxies, environment.address_bits_v4).is_trusted


@lru_cache(maxsize=8)
def networks(text: str) -> tuple[Network, ...]:
    """`ValueError` if it is none."""
    return tuple(ip_network(each.strip(), strict=False) for each in text.split(",") if each.strip())


@lru_cache(maxsize=8)
def _masks(text: str) -> tuple[tuple[int, int], ...]:
    """Of those that are IPv4: mask and network."""
    known = [each for each in networks(text) if isinstance(each, IPv4Network)]
    return tuple((int(each.netmask), int(each.network_address)) for each in known)


class _Known(NamedTuple):
    bucket: str
    is_trusted: bool


@lru_cache(maxsize=65_536)
def _known(text: str, trusted: str, bits_v4: int) -> _Known:
    try:
        number = int.from_bytes(inet_pton(AF_INET, text))  # most are; the library takes ten times as long
    except (OSError, ValueError):
        pass
    else:
        bucket = text if bits_v4 == 32 else str(ip_network((text, bits_v4), strict=False))
        return _Known(bucket, any(number & mask == network for mask, network in _masks(trusted)))
    try:
        address = ip_address(text)
    except ValueError:
        return _Known(UNKNOWN, False)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return _known(str(address.ipv4_mapped), trusted, bits_v4)
    is_trusted = any(address in network for network in networks(trusted))
    return _Known(str(ip_network((address, HOUSEHOLD), strict=False)), is_trusted)
