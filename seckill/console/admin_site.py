"""Django's admin at /admin/: only for operators, who sign in at the console, where attempts are limited.

Models register themselves in the `admin.py` of their app; seckill/audit/operator_admin.py makes them read-only.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin import AdminSite
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from seckill.audit.operator_admin import OperatorAdmin
from seckill.console import staff
from seckill.console.permissions import permissions_of


class OperatorAdminSite(AdminSite):
    site_header = site_title = _("Flash sale")
    index_title = _("Tables")
    site_url = "/console"

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        """Only read-only tables. django.contrib.auth would register users and groups with forms that change them."""
        if admin_class is not None and issubclass(admin_class, OperatorAdmin):
            super().register(model_or_iterable, admin_class, **options)

    def has_permission(self, request: HttpRequest) -> bool:
        staff.check_host(request)
        return bool(permissions_of(request.user))

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        staff.check_host(request)
        target = request.GET.get("next", reverse("admin:index"))
        return HttpResponseRedirect(f"{reverse('console:login')}?{urlencode({'next': target})}")

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return staff.logout(request)

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """`seckill manage changepassword` changes passwords; no form of the admin writes a row."""
        raise Http404

    def password_change_done(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        raise Http404
