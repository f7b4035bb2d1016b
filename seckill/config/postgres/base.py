"""Shell: Django's Postgres backend, which closes a session after "cannot execute … in a read-only transaction".

After a failover a session may be left on a server that only reads: a standby behind an address that has moved, or a
primary that was demoted. Such a session answers every health check, so Django would keep it for good. Once it is
closed, the next use connects again, and `target_session_attrs=read-write` finds the server that accepts writes.
"""

from __future__ import annotations

from types import TracebackType

from django.db.backends.postgresql import base
from django.db.utils import DatabaseErrorWrapper
from django.utils.functional import cached_property
from psycopg.errors import ReadOnlySqlTransaction


class ReadOnlySessionCloser(DatabaseErrorWrapper):
    """Closes the driver's connection. Its owner sees a lost connection: a pool replaces it, a thread reconnects."""

    wrapper: DatabaseWrapper

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(fault, ReadOnlySqlTransaction) and self.wrapper.connection is not None:
            self.wrapper.connection.close()
        super().__exit__(kind, fault, traceback)


class DatabaseWrapper(base.DatabaseWrapper):
    @cached_property
    def wrap_database_errors(self) -> ReadOnlySessionCloser:
        return ReadOnlySessionCloser(self)
