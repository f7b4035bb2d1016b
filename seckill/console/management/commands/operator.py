"""`manage.py operator NAME --may view,operate`: an operator of /console; called again, a new password and powers."""

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

from seckill.console.permissions import Power, grant


def _powers(text: str) -> list[Power]:
    try:
        chosen = {Power(name.strip()) for name in text.split(",")}
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}: the powers are {', '.join(Power)}") from error
    if Power.VIEW not in chosen:
        raise argparse.ArgumentTypeError("'view' is missing: without it no page opens")
    return [power for power in Power if power in chosen]


class Command(BaseCommand):
    help = "Make an operator of /console, or change one; prints the new password, once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument(
            "--may",
            type=_powers,
            metavar="POWERS",
            help=f"of {', '.join(Power)}, with commas (default: view; in development all of them)",
        )
        parser.add_argument("--password-stdin", action="store_true", help="take the password from standard input")

    def handle(self, *args: Any, name: str, password_stdin: bool, may: list[Power] | None, **options: Any) -> None:
        powers = may or (list(Power) if settings.ENVIRONMENT.development else [Power.VIEW])
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
            grant(user, powers)
        self.stdout.write(
            f"{name} may {', '.join(powers)} in /console" + ("" if password_stdin else f", password {password}")
        )
