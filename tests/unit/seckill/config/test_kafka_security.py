"""SECKILL_KAFKA_…: what stops the start, and what our clients and Spark's are opened with."""

from __future__ import annotations

from pathlib import Path

import pytest

from seckill.config.environment import BadEnvironment, Environment, read
from seckill.config.kafka_clients import client_options
from seckill.config.kafka_security import spark_options

SASL = {
    "SECKILL_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "SECKILL_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
    "SECKILL_KAFKA_SASL_USERNAME": "ann",
    "SECKILL_KAFKA_SASL_PASSWORD": 'hu"sh',
}
ADDRESS = "kafka.example:9093"


def test_without_variables_clients_speak_plain_text() -> None:
    assert client_options(ADDRESS, {}) == {"bootstrap_servers": ADDRESS, "security_protocol": "PLAINTEXT"}
    assert spark_options(Environment()) == {"kafka.security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"SECURITY_PROTOCOL": "TLS"}, "must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, got 'TLS'"),
        ({"SASL_USERNAME": ""}, "SECURITY_PROTOCOL=SASL_SSL needs SECKILL_KAFKA_SASL_USERNAME"),
        ({"SASL_USERNAME": "", "SASL_PASSWORD": ""}, "SASL_USERNAME and SECKILL_KAFKA_SASL_PASSWORD"),
        ({"SASL_MECHANISM": "GSSAPI"}, "SASL_MECHANISM must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, got 'GSSAPI'"),
        ({"SECURITY_PROTOCOL": "SSL"}, "SASL_MECHANISM has no effect with SECKILL_KAFKA_SECURITY_PROTOCOL=SSL"),
        ({"SSL_CAFILE": "/nowhere/ca.pem"}, "SECKILL_KAFKA_SSL_CAFILE=/nowhere/ca.pem is not a file"),
        ({"SSL_KEYFILE": __file__}, "SSL_KEYFILE needs SECKILL_KAFKA_SSL_CERTFILE"),
        ({"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SSL_CAFILE": __file__}, "SSL_CAFILE has no effect"),
        ({"SSL_CHECK_HOSTNAME": "maybe"}, "must be true, false, 1 or 0"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_together_stop_the_start_without_showing_the_password(
    changed: dict[str, str], reason: str
) -> None:
    read(SASL)
    with pytest.raises(BadEnvironment, match=reason) as refused:
        read(SASL | {f"SECKILL_KAFKA_{name}": value for name, value in changed.items()})
    assert 'hu"sh' not in str(refused.value)


def test_a_password_in_a_file_is_read_again_for_each_client(tmp_path: Path) -> None:
    path = tmp_path / "password"
    variables = {name: value for name, value in SASL.items() if not name.endswith("PASSWORD")}
    variables["SECKILL_KAFKA_SASL_PASSWORD_FILE"] = str(path)
    for password in ("first", "second"):
        path.write_text(f"{password}\n")
        assert client_options(ADDRESS, variables)["sasl_plain_password"] == password


def test_certificates_are_verified_and_host_names_too_unless_it_is_switched_off(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("PEM")
    variables = SASL | {"SECKILL_KAFKA_SSL_CAFILE": str(authority)}
    options = client_options(ADDRESS, variables)
    assert (options["ssl_cafile"], options["ssl_check_hostname"]) == (str(authority), True)
    unchecked = variables | {"SECKILL_KAFKA_SSL_CHECK_HOSTNAME": "false"}
    assert client_options(ADDRESS, unchecked)["ssl_check_hostname"] is False
    identification = "kafka.ssl.endpoint.identification.algorithm"
    assert spark_options(read(variables))[identification] == "https"
    assert spark_options(read(unchecked))[identification] == ""


def test_spark_gets_the_login_quoted_and_the_certificates_by_value(tmp_path: Path) -> None:
    authority, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    authority.write_text("THEIRS")
    own.write_text("OURS")
    files = {"SECKILL_KAFKA_SSL_CAFILE": str(authority), "SECKILL_KAFKA_SSL_CERTFILE": str(own)}
    options = spark_options(read(SASL | files))
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    assert options["kafka.sasl.jaas.config"] == f'{module} required username="ann" password="hu\\"sh";'
    assert options["kafka.ssl.truststore.certificates"] == "THEIRS"
    assert options["kafka.ssl.keystore.key"] == options["kafka.ssl.keystore.certificate.chain"] == "OURS"
    assert not any("location" in name for name in options)
