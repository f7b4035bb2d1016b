"""Values: the state of a delivery and the channels that messages go through, and their names for people."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class DeliveryState(models.TextChoices):
    DUE = "due", _("due")
    DONE = "done", _("delivered")
    GIVEN_UP = "given_up", _("rejected by the sink")


class ChannelName(models.TextChoices):
    SMS = "sms", _("SMS")
    EMAIL = "email", _("e-mail")
    PUSH = "push", _("push")
