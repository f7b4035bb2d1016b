from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "seckill.console"
    label = "console"
