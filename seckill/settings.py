"""Django's settings, made from the environment (seckill/environment.py)."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from seckill.environment import read

ENVIRONMENT = read()

SECRET_KEY = ENVIRONMENT.secret_key
DEBUG = ENVIRONMENT.debug
ALLOWED_HOSTS = [host.strip() for host in ENVIRONMENT.allowed_hosts.split(",") if host.strip()]
ROOT_URLCONF = "seckill.urls"
WSGI_APPLICATION = "seckill.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"

INSTALLED_APPS = [
    "seckill.streams",
    "seckill.audit",
    "gateway",
    "inventory",
    "orders",
    "notifications",
    "analytics",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "seckill.problems.every_error",
    "django.middleware.common.CommonMiddleware",
]
APPEND_SLASH = False
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]


def _pool(size: int) -> dict[str, object]:
    return {"pool": {"min_size": 1, "max_size": size, "timeout": 2}} if size else {}


_database = urlsplit(ENVIRONMENT.database_url)
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _database.path.lstrip("/"),
        "USER": unquote(_database.username or ""),
        "PASSWORD": unquote(_database.password or ""),
        "HOST": _database.hostname or "",
        "PORT": _database.port or "",
        "CONN_MAX_AGE": 0 if ENVIRONMENT.database_pool else None,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": 5, "application_name": "seckill", **_pool(ENVIRONMENT.database_pool)},
    }
}

CELERY_BROKER_URL = ENVIRONMENT.celery_redis_url
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 4
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_timeout": 2,
    "socket_connect_timeout": 1,
    # A task that waits for its time is unacknowledged until then: a shorter timeout would hand it out again and again.
    "visibility_timeout": ENVIRONMENT.payment_ttl_s + 60,
}
