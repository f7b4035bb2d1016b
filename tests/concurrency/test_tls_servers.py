"""TLS with verification: the right server is accepted; another authority's certificate, or another name, is refused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
import trustme
from celery import Celery
from django.db import OperationalError
from django.db.utils import ConnectionHandler
from kombu.exceptions import OperationalError as CeleryUnavailable
from redis.exceptions import RedisError

from seckill.config.database import settings_of
from seckill.config.redis_address import celery_settings
from seckill.resilience import redis_client
from seckill.stack import health_checks, servers
from seckill.stack.child_processes import free_port, running
from tests.services import Services


class Certificates(NamedTuple):
    """Files: the authority, another authority, and a server's certificate and key for 127.0.0.1 only."""

    authority: Path
    other_authority: Path
    certificate: Path
    key: Path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    files = Certificates(*(folder / name for name in ("ca.pem", "other.pem", "server.pem", "server.key")))
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(files.authority))
    trustme.CA().cert_pem.write_to_path(str(files.other_authority))
    issued.cert_chain_pems[0].write_to_path(str(files.certificate))
    issued.private_key_pem.write_to_path(str(files.key))
    return files


# ── Postgres ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def postgres_port(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder, port = tmp_path_factory.mktemp("tls") / "postgres", free_port()
    servers.init_postgres(folder)
    if not has_tls(folder):
        pytest.skip("this Postgres was built without TLS; Debian's has it (apt-get install postgresql)")
    for name, source in (("server.crt", certificates.certificate), ("server.key", certificates.key)):
        shutil.copy(source, folder / name)
        os.chown(folder / name, folder.stat().st_uid, folder.stat().st_gid)
        (folder / name).chmod(0o600)
    command, popen_options = servers.postgres_command(folder, port)
    check = health_checks.postgres(f"postgresql://seckill@127.0.0.1:{port}/postgres")
    with running("Postgres", [*command, "-c", "ssl=on"], folder.parent / "log", check, **popen_options):
        yield port


def has_tls(folder: Path) -> bool:
    prefix, popen_options = servers.owner_of(folder)
    command = [*prefix, str(servers.postgres_binaries() / "postgres"), "-C", "ssl_library", "-D", str(folder)]
    return bool(subprocess.run(command, capture_output=True, text=True, **popen_options).stdout.strip())


def postgres_url(port: int, authority: Path, host: str = "127.0.0.1") -> str:
    return (
        f"postgresql://seckill@{host}:{port},{host}:{port}/postgres?target_session_attrs=read-write"
        f"&sslmode=verify-full&sslrootcert={authority}"
    )


def test_postgres_is_reached_over_verified_tls(certificates: Certificates, postgres_port: int) -> None:
    url = postgres_url(postgres_port, certificates.authority)
    used = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    with psycopg.connect(url) as connection:
        assert connection.execute(used).fetchone() == (True,)
    with ConnectionHandler({"default": settings_of(url)})["default"].cursor() as cursor:
        cursor.execute(used)
        assert cursor.fetchone() == (True,)


@pytest.mark.parametrize(("is_other_authority", "host"), [(True, "127.0.0.1"), (False, "localhost")])
def test_postgres_with_another_certificate_or_name_is_refused(
    certificates: Certificates, postgres_port: int, is_other_authority: bool, host: str
) -> None:
    authority = certificates.other_authority if is_other_authority else certificates.authority
    url = postgres_url(postgres_port, authority, host)
    with pytest.raises(psycopg.OperationalError, match="certificate"):
        psycopg.connect(url)
    with pytest.raises(OperationalError, match="certificate"):
        ConnectionHandler({"default": settings_of(url)})["default"].ensure_connection()


# ── Redis ────────────────────────────────────────────────────────────────────────────────────────


class TlsFront:
    """Ends TLS before a Redis, as stunnel or a load balancer does: the bundled valkey-server is built without TLS."""

    def __init__(self, certificates: Certificates, port: int) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificates.certificate, certificates.key)
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            inside = self._context.wrap_socket(client, server_side=True)
        except OSError:
            client.close()  # the client did not like the certificate
            return
        server = socket.create_connection(("127.0.0.1", self._port))
        threading.Thread(target=_copy, args=(server, inside), daemon=True).start()
        _copy(inside, server)

    def close(self) -> None:
        self._listener.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
    for each in (source, target):
        each.close()


@pytest.fixture
def front(certificates: Certificates, services: Services) -> Iterator[TlsFront]:
    front = TlsFront(certificates, services.redis_port)
    yield front
    front.close()


def celery_at(url: str) -> Celery:
    made = celery_settings(url)
    made["broker_transport_options"] = {"socket_timeout": 5, "socket_connect_timeout": 5}
    return Celery("test", **made)


def test_redis_is_reached_over_verified_tls(certificates: Certificates, front: TlsFront) -> None:
    url = f"rediss://127.0.0.1:{front.port}/0?ssl_ca_certs={certificates.authority}"
    assert redis_client.connect(url).set("tls", "yes")

    async def get() -> object:
        return await redis_client.connect_async(url).get("tls")

    assert asyncio.run(get()) == "yes"
    celery_at(url).send_task("work", queue="over-tls", retry=False)
    assert redis_client.connect(url).llen("over-tls") == 1


@pytest.mark.parametrize(("is_other_authority", "host"), [(True, "127.0.0.1"), (False, "localhost")])
def test_redis_with_another_certificate_or_name_is_refused(
    certificates: Certificates, front: TlsFront, is_other_authority: bool, host: str
) -> None:
    authority = certificates.other_authority if is_other_authority else certificates.authority
    url = f"rediss://{host}:{front.port}/0?ssl_ca_certs={authority}"
    with pytest.raises(RedisError, match="CERTIFICATE_VERIFY_FAILED"):
        redis_client.connect(url).ping()

    async def ping() -> None:
        await redis_client.connect_async(url).ping()

    with pytest.raises(RedisError, match="CERTIFICATE_VERIFY_FAILED"):
        asyncio.run(ping())
    if is_other_authority:  # kombu tries for six seconds
        with pytest.raises(CeleryUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            celery_at(url).send_task("work", queue="over-tls", retry=False)
