from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "seckill.audit"
    label = "audit"
