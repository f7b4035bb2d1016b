"""The advertised versions are those of one release of Apache Kafka, according to kafka-python."""

from __future__ import annotations

from typing import Any

from kafka.protocol import broker_version_data as theirs

from mqcore.apis import api_versions
from mqcore.apis.api_versions import METADATA_VERSION, RELEASE
from mqcore.apis.table import TABLE
from tests.unit.mqcore.apis.running_broker import RunningBroker

SERVED = {key: (entry.api.first_version, entry.api.last_version) for key, entry in TABLE.items()}


def test_kafka_python_infers_our_release() -> None:
    assert theirs.infer_broker_version_from_api_versions(SERVED) == RELEASE


def test_each_api_has_the_versions_of_our_release() -> None:
    released = {int(key): tuple(versions) for key, versions in theirs.BROKER_API_VERSIONS[RELEASE].items()}
    assert {key: released.get(key) for key in SERVED} == SERVED


def test_the_metadata_version_feature_is_described(broker: RunningBroker) -> None:
    client = {"client_software_name": "test", "client_software_version": "1"}
    for version in (3, 4):
        answer: Any = broker.request(api_versions.API.key, version, **client)
        (supported,), (finalized,) = answer.supported_features, answer.finalized_features
        assert (supported.name, finalized.name) == ("metadata.version", "metadata.version")
        assert supported.min_version <= finalized.max_version_level == METADATA_VERSION == supported.max_version
        assert answer.finalized_features_epoch >= 0
