"""Base classes of the Django admin: rows are read-only, and every change is an audited command of the service.

A model's admin lists its commands as `OperatorAction`s. An action needs the console permission of the same command
(seckill/console/permissions.py), asks for confirmation, and runs as the signed-in operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.functional import Promise, cached_property
from django.utils.translation import gettext as _

from seckill.audit.trail import acting_as

COUNT_ROWS_MAX = 10_000
"""A changelist counts no further than this, because counting millions of rows takes seconds."""
REASON_CHARACTERS_MAX = 500


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """One command. `run` gets the row and the operator's reason; it returns a message, or raises one of `refusals`."""

    name: str
    verb: str  # as in the console's table of permissions
    permission: str
    label: str | Promise
    run: Callable[[Any, str], str]
    refusals: tuple[type[Exception], ...] = ()


class CappedPaginator(Paginator):  # type: ignore[type-arg]
    @cached_property
    def count(self) -> int:
        rows: QuerySet[Model] = self.object_list  # type: ignore[assignment]
        return rows.order_by()[:COUNT_ROWS_MAX].count()


class OperatorAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Needs the console's permission to view. No form adds, changes or deletes a row."""

    operator_actions: tuple[OperatorAction, ...] = ()
    search_texts: tuple[str, ...] = ()
    search_ids: tuple[str, ...] = ()
    list_per_page = 50
    list_max_show_all = 200
    show_full_result_count = False
    paginator = CappedPaginator

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        return self.search_texts + self.search_ids

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Exact matches only, so that each search uses an index. UUID columns are searched only for a valid UUID."""
        term = search_term.strip()
        if not term:
            return queryset, False
        wanted = Q(pk__in=[])
        for name in self.search_texts:
            wanted |= Q(**{name: term})
        try:
            for name in self.search_ids:
                wanted |= Q(**{name: UUID(term)})
        except ValueError:
            pass
        return queryset.filter(wanted), False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        user = request.user
        return bool(user.is_authenticated and user.is_active and user.has_perm("console.view"))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_actions(self, request: HttpRequest) -> dict[str, tuple[Callable[..., Any], str, str] | None]:
        """Only the actions for which the operator has the permission; Django refuses all others."""
        return {
            action.name: (partial(_confirm_or_run, action), action.name, str(action.label))
            for action in self.operator_actions
            if self.has_view_permission(request) and request.user.has_perm(f"console.{action.permission}")
        }


def _confirm_or_run(
    action: OperatorAction, model_admin: OperatorAdmin, request: HttpRequest, chosen: QuerySet[Any]
) -> TemplateResponse | None:
    if request.POST.get("confirmed") != "yes":
        context = {
            **model_admin.admin_site.each_context(request),
            "title": action.label,
            "action": action.name,
            "rows": list(chosen),
            "opts": model_admin.opts,
            "reason_characters_max": REASON_CHARACTERS_MAX,
        }
        return TemplateResponse(request, "admin/confirm_operator_action.html", context)
    reason = request.POST.get("reason", "").strip()[:REASON_CHARACTERS_MAX]
    with acting_as(request.user.get_username()):
        for row in chosen:
            try:
                text, level = action.run(row, reason), messages.SUCCESS
            except action.refusals as refusal:
                text, level = _("Refused: %(reason)s") % {"reason": refusal}, messages.ERROR
            model_admin.message_user(request, text, level)
    return None
