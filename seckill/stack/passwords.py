"""Passwords of the servers that `seckill up` starts: made once for a data folder, readable by its owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

BYTES = 24


def password(folder: Path, server: str) -> str:
    """The one in `SERVER.password`, which is made at the first call; concurrent callers get the same one."""
    path = folder / f"{server}.password"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f".{server}.password.{os.getpid()}.{secrets.token_hex(4)}"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(BYTES))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass  # another process was faster
        finally:
            fresh.unlink()
    return path.read_text()
