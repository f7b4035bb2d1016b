"""The client's address: X-Forwarded-For counts only as far as trusted proxies wrote it."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

import pytest
from django.conf import settings

from seckill.web.client_address import client_address, identify_client, parse_networks


@pytest.fixture
def trusted_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = replace(settings.ENVIRONMENT, trusted_proxies="127.0.0.1, 10.0.0.0/8")
    monkeypatch.setattr(settings, "ENVIRONMENT", trusted)


def meta(peer: str, forwarded: str | None = None) -> dict[str, str]:
    return {"REMOTE_ADDR": peer} | ({} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded})


def test_without_trusted_proxies_the_header_is_ignored() -> None:
    assert client_address(meta("127.0.0.1", "1.2.3.4")) == "127.0.0.1"


@pytest.mark.usefixtures("trusted_proxies")
@pytest.mark.parametrize(
    ("peer", "forwarded", "counted"),
    [
        ("127.0.0.1", "1.2.3.4", "1.2.3.4"),
        ("127.0.0.1", None, "127.0.0.1"),
        ("9.9.9.9", "1.2.3.4", "9.9.9.9"),  # not a trusted proxy
        ("127.0.0.1", "6.6.6.6, 1.2.3.4", "1.2.3.4"),  # the first entry was invented by the client
        ("127.0.0.1", "1.2.3.4, 10.0.0.7", "1.2.3.4"),  # two trusted proxies
        ("127.0.0.1", "nonsense", "127.0.0.1"),
        ("127.0.0.1", "nonsense, 1.2.3.4", "1.2.3.4"),
        ("127.0.0.1", "10.0.0.1, 10.0.0.2", "10.0.0.1"),
        ("127.0.0.1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),  # one customer's network
        ("127.0.0.1", "::ffff:1.2.3.4", "1.2.3.4"),
        ("", "1.2.3.4", "unknown"),
    ],
)
def test_the_header_is_read_from_its_end_up_to_the_first_untrusted_hop(peer: str, forwarded: str, counted: str) -> None:
    assert client_address(meta(peer, forwarded)) == counted


@pytest.mark.usefixtures("trusted_proxies")
def test_a_trusted_proxy_without_a_client_address_is_marked_as_a_proxy() -> None:
    assert identify_client("127.0.0.1").is_proxy
    assert identify_client("::ffff:127.0.0.1").is_proxy
    assert not identify_client("127.0.0.1", "1.2.3.4").is_proxy
    assert not identify_client("9.9.9.9", "10.0.0.1").is_proxy


@pytest.mark.parametrize(("bits", "counted"), [(32, "1.2.3.4"), (24, "1.2.3.0/24"), (16, "1.2.0.0/16")])
def test_neighbouring_addresses_can_count_as_one(bits: int, counted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = replace(settings.ENVIRONMENT, trusted_proxies="127.0.0.1", address_bits_v4=bits)
    monkeypatch.setattr(settings, "ENVIRONMENT", chosen)
    for each in (meta("1.2.3.4"), meta("127.0.0.1", "1.2.3.4"), meta("127.0.0.1", "::ffff:1.2.3.4")):
        assert client_address(each) == counted
    assert client_address(meta("2001:db8::1")) == "2001:db8::/64"


def test_a_malformed_network_is_refused() -> None:
    with pytest.raises(ValueError):
        parse_networks("127.0.0.1, elsewhere")


@pytest.mark.parametrize(
    "text",
    ["1.2.3.4", "01.2.3.4", "1.2.3", "1.2.3.4 ", "0x1.2.3.4", "1.2.3.256", "", "1.2.3.4.5",
      "\uff11.2.3.4", "1.2.3.4\x00"],
)  # fmt: skip
def test_the_fast_parser_accepts_the_same_addresses_as_the_standard_library(text: str) -> None:
    try:
        expected = str(ip_address(text))
    except ValueError:
        expected = "unknown"
    assert client_address({"REMOTE_ADDR": text}) == expected
