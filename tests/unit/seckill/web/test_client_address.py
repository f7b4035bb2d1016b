"""Whose address a call is counted for: the client's, as far as proxies that we trust have written it."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

import pytest
from django.conf import settings

from gateway.addresses import client_address, client_of, networks


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = replace(settings.ENVIRONMENT, trusted_proxies="127.0.0.1, 10.0.0.0/8")
    monkeypatch.setattr(settings, "ENVIRONMENT", trusted)


def meta(peer: str, forwarded: str | None = None) -> dict[str, str]:
    return {"REMOTE_ADDR": peer} | ({} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded})


def test_without_trusted_proxies_the_header_is_hearsay() -> None:
    assert client_address(meta("127.0.0.1", "1.2.3.4")) == "127.0.0.1"


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize(
    ("peer", "forwarded", "counted"),
    [
        ("127.0.0.1", "1.2.3.4", "1.2.3.4"),
        ("127.0.0.1", None, "127.0.0.1"),
        ("9.9.9.9", "1.2.3.4", "9.9.9.9"),  # no proxy of ours
        ("127.0.0.1", "6.6.6.6, 1.2.3.4", "1.2.3.4"),  # what the client made up stands before what the proxy saw
        ("127.0.0.1", "1.2.3.4, 10.0.0.7", "1.2.3.4"),  # two proxies of ours
        ("127.0.0.1", "nonsense", "127.0.0.1"),
        ("127.0.0.1", "nonsense, 1.2.3.4", "1.2.3.4"),
        ("127.0.0.1", "10.0.0.1, 10.0.0.2", "10.0.0.1"),
        ("127.0.0.1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),  # a household
        ("127.0.0.1", "::ffff:1.2.3.4", "1.2.3.4"),
        ("", "1.2.3.4", "unknown"),
    ],
)
def test_the_header_is_believed_from_its_end_as_far_as_it_is_ours(peer: str, forwarded: str, counted: str) -> None:
    assert client_address(meta(peer, forwarded)) == counted


@pytest.mark.usefixtures("trusting")
def test_a_trusted_proxy_that_does_not_say_for_whom_it_calls_is_known_as_one() -> None:
    assert client_of(meta("127.0.0.1")).is_proxy
    assert client_of(meta("::ffff:127.0.0.1")).is_proxy
    assert not client_of(meta("127.0.0.1", "1.2.3.4")).is_proxy
    assert not client_of(meta("9.9.9.9", "10.0.0.1")).is_proxy


@pytest.mark.parametrize(("bits", "counted"), [(32, "1.2.3.4"), (24, "1.2.3.0/24"), (16, "1.2.0.0/16")])
def test_neighbours_may_count_as_one(bits: int, counted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = replace(settings.ENVIRONMENT, trusted_proxies="127.0.0.1", address_bits_v4=bits)
    monkeypatch.setattr(settings, "ENVIRONMENT", chosen)
    for told in (meta("1.2.3.4"), meta("127.0.0.1", "1.2.3.4"), meta("127.0.0.1", "::ffff:1.2.3.4")):
        assert client_address(told) == counted
    assert client_address(meta("2001:db8::1")) == "2001:db8::/64"


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(ValueError):
        networks("127.0.0.1, elsewhere")


@pytest.mark.parametrize(
    "text",
    ["1.2.3.4", "01.2.3.4", "1.2.3", "1.2.3.4 ", "0x1.2.3.4", "1.2.3.256", "", "1.2.3.4.5",
      "\uff11.2.3.4", "1.2.3.4\x00"],
)  # fmt: skip
def test_the_quick_way_takes_for_an_address_what_the_library_does(text: str) -> None:
    try:
        expected = str(ip_address(text))
    except ValueError:
        expected = "unknown"
    assert client_address({"REMOTE_ADDR": text}) == expected
