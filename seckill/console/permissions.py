"""Decision: which power each verb of the console needs, and who has it.

Powers are Django permissions of the app `console` (`console.view` …), so users may have them directly or by a group.
`view` is needed for every page. `break` (kill a process, inject a fault) works in development only.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from django.conf import settings

from seckill.problems import Problem


class Power(StrEnum):
    VIEW = "view"
    OPERATE = "operate"
    REFUND = "refund"
    BREAK = "break"

    @property
    def meaning(self) -> str:
        return {
            Power.VIEW: "see the console",
            Power.OPERATE: "operate sales, processes, dead letters and reports",
            Power.REFUND: "give money back",
            Power.BREAK: "kill processes and inject faults",
        }[self]


VERBS: dict[str, Power] = {
    "sale open": Power.OPERATE,
    "sale pause": Power.OPERATE,
    "sale close": Power.OPERATE,
    "sale adjust": Power.OPERATE,
    "refund": Power.REFUND,
    "switch": Power.OPERATE,
    "stack start": Power.OPERATE,
    "stack stop": Power.OPERATE,
    "stack scale": Power.OPERATE,
    "stack kill": Power.BREAK,
    "fault": Power.BREAK,
    "letter replay": Power.OPERATE,
    "letter discard": Power.OPERATE,
    "report": Power.OPERATE,
}
"""Everything an operator can change by HTTP."""


def powers_of(user: Any) -> frozenset[Power]:
    """None without `view`: every page of the console needs it."""
    if not (user.is_authenticated and user.is_active and user.has_perm("console.view")):
        return frozenset()
    usable = [power for power in Power if power is not Power.BREAK or settings.ENVIRONMENT.development]
    return frozenset(power for power in usable if user.has_perm(f"console.{power.value}"))


def demand(request: Any, verb: str) -> None:
    """`Problem` unless the operator may do this. A verb that does not exist needs `operate`, and is refused later."""
    power = VERBS.get(verb, Power.OPERATE)
    if power not in request.powers:
        raise Problem(403, "not-permitted", f"This needs the permission '{power.value}'.")


def grant(user: Any, powers: Iterable[Power]) -> None:
    """Exactly these powers, beside those of the user's groups."""
    from django.contrib.auth.models import Permission
    from django.contrib.contenttypes.models import ContentType

    kind, _ = ContentType.objects.get_or_create(app_label="console", model="console")
    granted = [
        Permission.objects.get_or_create(content_type=kind, codename=power.value, defaults={"name": power.meaning})[0]
        for power in powers
    ]
    user.user_permissions.remove(*user.user_permissions.filter(content_type=kind))
    user.user_permissions.add(*granted)
