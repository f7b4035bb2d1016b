"""Generate the secrets of a compose project into a volume, so that no secret is in an image or on a command line.

`python deploy/keys.py FOLDER [--sandbox FOLDER]`. The payment provider has its own folder with the only secret that it
shares. A secret in the environment, by its name in capitals (SECRET_KEY=…), is used instead of a generated one and
replaces an older one. All other secrets stay as they are.
"""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

OURS, OTHERS = 0o400, 0o444
"""File modes: readable only by our own user, or also by the users of other images that mount the volume."""
NAMES = {
    "secret_key": OURS,
    "provider_secret": OURS,
    "postgres_password": OTHERS,
    "database_password": OTHERS,
    "grafana_password": OTHERS,
}
KEPT = {"postgres_password", "database_password"}
"""Postgres reads them only when it creates its folder, so they never change."""
SHARED = "provider_secret"
BYTES = 32


def write_secrets(folder: Path, given: Mapping[str, str]) -> list[str]:
    """The names of the secrets written. Each file is replaced in one step."""
    written = []
    for name, mode in NAMES.items():
        path, wanted = folder / name, given.get(name.upper(), "")
        if path.exists() and (name in KEPT or not wanted or path.read_text().strip() == wanted):
            continue
        _write(path, wanted or secrets.token_urlsafe(BYTES), mode)
        written.append(name)
    password = (folder / "database_password").read_text().strip()
    url = folder / "database_url"
    if not url.exists() or f":{password}@" not in url.read_text():
        _write(url, f"postgresql://seckill:{password}@postgres:5432/seckill", OURS)
        written.append(url.name)
    return written


def _write(path: Path, text: str, mode: int) -> None:
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
        os.fchmod(file.fileno(), mode)
    fresh.replace(path)


def share_secret(folder: Path, sandbox: Path) -> None:
    """Copy the secret that signs callbacks to the payment provider's folder."""
    secret = (folder / SHARED).read_text().strip()
    copy = sandbox / SHARED
    if not copy.exists() or copy.read_text().strip() != secret:
        _write(copy, secret, OURS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python deploy/keys.py", description="Generate the secrets of a compose project."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sandbox", type=Path, metavar="FOLDER", help="folder for the payment provider's copy")
    chosen = parser.parse_args()
    for each in filter(None, (chosen.folder, chosen.sandbox)):
        if not each.is_dir():
            parser.error(f"{each} is not a folder")
    written = write_secrets(chosen.folder, os.environ)
    if chosen.sandbox:
        share_secret(chosen.folder, chosen.sandbox)
    print("secrets: " + (", ".join(written) + " written" if written else "nothing to do"))
