"""The address under which a call is rate-limited. X-Forwarded-For counts only as far as trusted proxies wrote it.

TRUSTED_PROXIES lists addresses and networks, for example `127.0.0.1,10.0.0.0/8`. The header is read from its end: each
proxy appends the address that called it, so the first entry that is not a trusted proxy is the client, and everything
before it is unverified.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from socket import AF_INET, inet_pton
from typing import Any, NamedTuple

from django.conf import settings

Network = IPv4Network | IPv6Network

IPV6_CUSTOMER_BITS = 64
"""The prefix that a provider gives to one customer, who can use any address in it."""
HOPS_MAX = 10
UNKNOWN = "unknown"


class ClientAddress(NamedTuple):
    """`is_proxy`: a trusted proxy did not say on whose behalf it called, so the address is the proxy's own."""

    address: str
    is_proxy: bool


class _Hop(NamedTuple):
    address: str
    is_trusted: bool


def client_address(meta: Mapping[str, Any]) -> str:
    """`meta` as in `HttpRequest.META`."""
    return identify_client(str(meta.get("REMOTE_ADDR", "")), str(meta.get("HTTP_X_FORWARDED_FOR", ""))).address


def identify_client(peer: str, forwarded: str = "") -> ClientAddress:
    """`forwarded`: the X-Forwarded-For header."""
    environment = settings.ENVIRONMENT
    trusted, bits = environment.trusted_proxies, environment.address_bits_v4
    client = _classify(peer, trusted, bits)
    if client.is_trusted:
        for text in reversed(forwarded.split(",")[-HOPS_MAX:]):
            hop = _classify(text.strip(), trusted, bits)
            if hop.address == UNKNOWN:
                break
            client = hop
            if not client.is_trusted:
                break
    return ClientAddress(client.address, client.is_trusted)


def is_trusted_peer(peer: str) -> bool:
    """Did a trusted proxy open the connection?"""
    environment = settings.ENVIRONMENT
    return _classify(peer, environment.trusted_proxies, environment.address_bits_v4).is_trusted


@lru_cache(maxsize=8)
def parse_networks(text: str) -> tuple[Network, ...]:
    """Addresses and networks, separated by commas. Raises `ValueError` for anything else."""
    return tuple(ip_network(each.strip(), strict=False) for each in text.split(",") if each.strip())


@lru_cache(maxsize=8)
def _masks_v4(text: str) -> tuple[tuple[int, int], ...]:
    """Mask and network number of each IPv4 network."""
    networks = [each for each in parse_networks(text) if isinstance(each, IPv4Network)]
    return tuple((int(each.netmask), int(each.network_address)) for each in networks)


@lru_cache(maxsize=65_536)
def _classify(text: str, trusted: str, bits_v4: int) -> _Hop:
    try:
        number = int.from_bytes(inet_pton(AF_INET, text))  # the common case; `ipaddress` takes ten times as long
    except (OSError, ValueError):
        pass
    else:
        address = text if bits_v4 == 32 else str(ip_network((text, bits_v4), strict=False))
        for mask, network in _masks_v4(trusted):
            if number & mask == network:
                return _Hop(address, True)
        return _Hop(address, False)
    try:
        parsed = ip_address(text)
    except ValueError:
        return _Hop(UNKNOWN, False)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return _classify(str(parsed.ipv4_mapped), trusted, bits_v4)
    is_trusted = any(parsed in network for network in parse_networks(trusted))
    return _Hop(str(ip_network((parsed, IPV6_CUSTOMER_BITS), strict=False)), is_trusted)
