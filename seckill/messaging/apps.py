from django.apps import AppConfig


class MessagingConfig(AppConfig):
    name = "seckill.messaging"
    label = "messaging"
