"""A folder that only this user can enter, for sockets whose path in the stack's own folder would be too long."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def private_folder() -> Path:
    """`PermissionError` if the folder belongs to another user or other users can enter it."""
    path = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"seckill-{os.getuid()}"
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        pass
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{path} must be a folder that only you can enter: remove it, or set XDG_RUNTIME_DIR")
    return path
