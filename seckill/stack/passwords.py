"""Passwords of the servers that `seckill up` starts: one per server and data folder, readable only by the owner."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

BYTES = 24


def server_password(folder: Path, server: str) -> str:
    """Read `SERVER.password`; the first call creates it, and concurrent callers get the same password."""
    path = folder / f"{server}.password"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f".{server}.password.{os.getpid()}.{secrets.token_hex(4)}"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(BYTES))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass  # another process created it first
        finally:
            fresh.unlink()
    return path.read_text()
