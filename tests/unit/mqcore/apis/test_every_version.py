"""Every admin request, empty and in every advertised version, gets an answer that can be encoded."""

from __future__ import annotations

import pytest

from mqcore.apis.table import TABLE
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.running_broker import RunningBroker

SECURITY = {17, 29, 31, 36, 30}
ADMIN = [19, 20, 21, 32, 33, 34, 35, 37, 43, 44, 45, 46, 55, 60, 61, 74, 75, *sorted(SECURITY)]

ADVERTISED = {
    17: (0, 1), 19: (2, 7), 20: (1, 6), 21: (0, 2), 29: (1, 3), 30: (1, 3), 31: (1, 3), 32: (1, 4), 33: (0, 2),
    34: (1, 2), 35: (1, 4), 36: (0, 2), 37: (0, 3), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 55: (0, 2),
    60: (0, 2), 61: (0, 0), 74: (0, 1), 75: (0, 0),
}  # fmt: skip


def test_the_served_versions_are_those_tested_with_clients() -> None:
    assert {key: (TABLE[key].api.first_version, TABLE[key].api.last_version) for key in ADMIN} == ADVERTISED


@pytest.mark.parametrize("key", ADMIN)
def test_an_empty_request_is_answered_in_every_version(broker: RunningBroker, key: int) -> None:
    first, last = ADVERTISED[key]
    for version in range(first, last + 1):
        response = broker.request(key, version)
        error = getattr(response, "error_code", ErrorCode.NONE)
        assert (error == ErrorCode.NONE) is (key not in (17, 29, 36)), (version, error)


@pytest.mark.parametrize("version", [0, 1])
def test_sasl_is_refused_on_a_plaintext_listener(broker: RunningBroker, version: int) -> None:
    handshake = broker.request(17, version, mechanism="PLAIN")
    assert (handshake.error_code, handshake.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert broker.request(36, version, auth_bytes=b"\0me\0secret").error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize("version", [1, 3])
def test_each_acl_is_refused_separately(broker: RunningBroker, version: int) -> None:
    described = broker.request(29, version, resource_name_filter=None)
    assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
    created = broker.request(30, version, creations=[{"resource_name": "orders"}] * 2)
    assert [result.error_code for result in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    deleted = broker.request(31, version, filters=[{"resource_name_filter": None}])
    assert [(result.error_code, result.matching_acls) for result in deleted.filter_results] == [
        (ErrorCode.SECURITY_DISABLED, [])
    ]
