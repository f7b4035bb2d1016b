from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig


class ConsoleConfig(AppConfig):
    name = "seckill.console"
    label = "console"


class OperatorAdminConfig(SimpleAdminConfig):
    """Only processes that serve pages load the admin modules (seckill/config/urls.py); consumers and workers do not."""

    default_site = "seckill.console.admin_site.OperatorAdminSite"
