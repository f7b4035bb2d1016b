"""`manage.py operator NAME --may view,operate`: create an operator of /console, or set a new password and
permissions."""

from __future__ import annotations

import argparse
import secrets
import sys
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from seckill.console.permissions import ConsolePermission, grant_permissions


def _parse_permissions(text: str) -> list[ConsolePermission]:
    try:
        chosen = {ConsolePermission(name.strip()) for name in text.split(",")}
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}: the permissions are {', '.join(ConsolePermission)}") from error
    if ConsolePermission.VIEW not in chosen:
        raise argparse.ArgumentTypeError("'view' is missing: every page needs it")
    return [permission for permission in ConsolePermission if permission in chosen]


class Command(BaseCommand):
    help = "Create an operator of /console, or change one. Prints the new password once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument(
            "--may",
            type=_parse_permissions,
            metavar="PERMISSIONS",
            help=f"separated by commas: {', '.join(ConsolePermission)} (default: view; in development all of them)",
        )
        parser.add_argument("--password-stdin", action="store_true", help="read the password from standard input")

    def handle(
        self, *args: Any, name: str, password_stdin: bool, may: list[ConsolePermission] | None, **options: Any
    ) -> None:
        permissions = may or (list(ConsolePermission) if settings.ENVIRONMENT.development else [ConsolePermission.VIEW])
        password = sys.stdin.readline().rstrip("\n") if password_stdin else secrets.token_urlsafe(12)
        try:
            validate_password(password)
        except ValidationError as weak:
            raise CommandError(" ".join(weak.messages)) from weak
        user, _ = User.objects.get_or_create(username=name)
        user.is_staff = user.is_active = True
        user.set_password(password)
        with transaction.atomic():
            user.save()
            grant_permissions(user, permissions)
        self.stdout.write(
            f"{name} may {', '.join(permissions)} in /console" + ("" if password_stdin else f", password {password}")
        )
