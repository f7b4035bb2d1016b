from django.apps import AppConfig


class StreamsConfig(AppConfig):
    name = "seckill.streams"
    label = "streams"
