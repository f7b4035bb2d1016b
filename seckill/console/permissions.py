"""Decision: which permission each action of the console needs, and who has it.

They are Django permissions of the app `console` (`console.view` …), so a user can have them directly or through a
group. Every page needs `view`. `break` (kill a process, inject a fault) works in development only.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from django.conf import settings

from seckill.web.problems import Problem


class ConsolePermission(StrEnum):
    VIEW = "view"
    OPERATE = "operate"
    REFUND = "refund"
    BREAK = "break"

    @property
    def meaning(self) -> str:
        return {
            ConsolePermission.VIEW: "see the console",
            ConsolePermission.OPERATE: "operate sales, processes, dead letters and reports",
            ConsolePermission.REFUND: "give money back",
            ConsolePermission.BREAK: "kill processes and inject faults",
        }[self]


REQUIRED: dict[str, ConsolePermission] = {
    "sale create": ConsolePermission.OPERATE,
    "sale open": ConsolePermission.OPERATE,
    "sale pause": ConsolePermission.OPERATE,
    "sale close": ConsolePermission.OPERATE,
    "sale adjust": ConsolePermission.OPERATE,
    "refund": ConsolePermission.REFUND,
    "switch": ConsolePermission.OPERATE,
    "stack start": ConsolePermission.OPERATE,
    "stack stop": ConsolePermission.OPERATE,
    "stack scale": ConsolePermission.OPERATE,
    "stack kill": ConsolePermission.BREAK,
    "fault": ConsolePermission.BREAK,
    "letter replay": ConsolePermission.OPERATE,
    "letter discard": ConsolePermission.OPERATE,
    "report": ConsolePermission.OPERATE,
    "rush": ConsolePermission.OPERATE,
}
"""Everything an operator can change over HTTP."""


def permissions_of(user: Any) -> frozenset[ConsolePermission]:
    """Empty without `view`, because every page of the console needs it."""
    if not (user.is_authenticated and user.is_active and user.has_perm("console.view")):
        return frozenset()
    usable = [each for each in ConsolePermission if each != ConsolePermission.BREAK or settings.ENVIRONMENT.development]
    return frozenset(each for each in usable if user.has_perm(f"console.{each.value}"))


def require_permission(request: Any, action: str) -> None:
    """Raises a 403 `Problem` unless the operator may do this. An unknown action needs `operate` and is refused
    later."""
    permission = REQUIRED.get(action, ConsolePermission.OPERATE)
    if permission not in request.permissions:
        raise Problem(403, "not-permitted", f"This needs the permission '{permission.value}'.")


def grant_permissions(user: Any, permissions: Iterable[ConsolePermission]) -> None:
    """Give the user exactly these permissions; those of the user's groups stay."""
    from django.contrib.auth.models import Permission
    from django.contrib.contenttypes.models import ContentType

    content_type, _ = ContentType.objects.get_or_create(app_label="console", model="console")
    granted = [
        Permission.objects.get_or_create(
            content_type=content_type, codename=each.value, defaults={"name": each.meaning}
        )[0]
        for each in permissions
    ]
    user.user_permissions.remove(*user.user_permissions.filter(content_type=content_type))
    user.user_permissions.add(*granted)
