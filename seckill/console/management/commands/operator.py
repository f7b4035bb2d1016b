"""`manage.py operator NAME`: an operator who may sign in to /console; again, and he has a new password."""

from __future__ import annotations

import secrets
import sys
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = "Let somebody sign in to /console; prints his password, once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--password-stdin", action="store_true", help="take the password from standard input")

    def handle(self, *args: Any, name: str, password_stdin: bool, **options: Any) -> None:
        password = sys.stdin.readline().rstrip("\n") if password_stdin else secrets.token_urlsafe(12)
        try:
            validate_password(password)
        except ValidationError as weak:
            raise CommandError(" ".join(weak.messages)) from weak
        user, _ = User.objects.get_or_create(username=name)
        user.is_staff = user.is_active = True
        user.set_password(password)
        user.save()
        self.stdout.write(f"{name} may sign in to /console" + ("" if password_stdin else f", password {password}"))
