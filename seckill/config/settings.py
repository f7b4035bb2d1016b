"""Django's settings, made from the environment (seckill/config/environment.py)."""

from __future__ import annotations

from pathlib import Path

from seckill.config.database import settings_of
from seckill.config.environment import BadEnvironment, read
from seckill.config.redis_address import celery_settings, check_redis_address

try:
    ENVIRONMENT = read()
    DATABASES = {
        "default": settings_of(
            ENVIRONMENT.database_url,
            pool=ENVIRONMENT.database_pool,
            statement_timeout_ms=ENVIRONMENT.statement_timeout_ms,
        )
    }
    for use in ("admission", "gate", "celery"):
        check_redis_address(f"SECKILL_{use.upper()}_REDIS_URL", getattr(ENVIRONMENT, f"{use}_redis_url"))
except BadEnvironment as bad:
    raise SystemExit(f"seckill: {bad}") from None  # one line for the operator, not a traceback
WEB = Path(__file__).parent.parent / "web"

SECRET_KEY = ENVIRONMENT.secret_key
SECRET_KEY_FALLBACKS = [key.strip() for key in ENVIRONMENT.secret_key_fallbacks.split(",") if key.strip()]
DEBUG = ENVIRONMENT.debug
ALLOWED_HOSTS = [host.strip() for host in ENVIRONMENT.allowed_hosts.split(",") if host.strip()]
ALLOWED_HOSTS += [host.strip() for host in ENVIRONMENT.console_hosts.split(",") if host.strip()]
ROOT_URLCONF = "seckill.config.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "中文")]
LOCALE_PATHS = [WEB / "locale"]
FORMAT_MODULE_PATH = ["seckill.web.formats"]

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",  # for operators only; a buyer's cookie holds a signed token, which needs no table
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "seckill.messaging",
    "seckill.audit",
    "seckill.console.apps.ConsoleConfig",
    "seckill.console.apps.OperatorAdminConfig",  # after the console, whose templates replace some of its own
    "gateway",
    "inventory",
    "orders",
    "notifications",
    "analytics",
]
MIDDLEWARE = [  # the routes of the event loop do not pass through it: see gateway/http.py before you add one
    "seckill.web.request_limits.limit_headers",
    "seckill.web.forwarded.trust_proxies_only",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "seckill.web.content_security.content_security_policy",
    "seckill.web.problems.api_errors_as_problems",
    "seckill.web.page_middleware.Sessions",
    "seckill.web.page_middleware.Locale",
    "seckill.web.page_middleware.Common",
    "django.middleware.csrf.CsrfViewMiddleware",
    "seckill.web.page_middleware.Authentication",
    "seckill.web.page_middleware.Messages",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
APPEND_SLASH = False
DATA_UPLOAD_MAX_MEMORY_SIZE = 64 * 1024  # for each open connection; our longest form is shorter
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [WEB / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["seckill.web.tags"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "seckill.web.pages.page_context",
            ],
        },
    }
]
STATIC_URL = "/static/"
STATICFILES_DIRS = [WEB / "static"]
WHITENOISE_USE_FINDERS = True  # serves static files without a `collectstatic` step
WHITENOISE_ALLOW_ALL_ORIGINS = False

# An https:// public address means TLS in front: cookies are for TLS only, and plain HTTP is redirected.
HAS_TLS = ENVIRONMENT.public_url.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = SECURE_SSL_REDIRECT = HAS_TLS
SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$", r"^metrics$", r"^api/v1/payments/callback$"]  # called from inside
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HAS_TLS else None
# A browser remembers HSTS and nothing can revoke it, so longer times, subdomains and preloading are explicit settings.
SECURE_HSTS_SECONDS = ENVIRONMENT.hsts_seconds if HAS_TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HAS_TLS and ENVIRONMENT.hsts_include_subdomains
SECURE_HSTS_PRELOAD = HAS_TLS and ENVIRONMENT.hsts_preload
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]  # the two flags above are the operator's decision
CSRF_TRUSTED_ORIGINS = [ENVIRONMENT.public_url] if HAS_TLS else []
CSRF_COOKIE_HTTPONLY = SESSION_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "seckill.web.pages.csrf_failure"
SESSION_COOKIE_NAME = "operator"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
SESSION_COOKIE_AGE = 12 * 3600
PASSWORD_HASHERS = [  # scrypt needs memory as Argon2 does, and comes with Python; older hashes are renewed at a login
    "django.contrib.auth.hashers.ScryptPasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("MinimumLengthValidator", "CommonPasswordValidator", "NumericPasswordValidator")
]


_CELERY = celery_settings(ENVIRONMENT.celery_redis_url)
CELERY_BROKER_URL = _CELERY["broker_url"]
CELERY_BROKER_USE_SSL = _CELERY.get("broker_use_ssl", False)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 4
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = _CELERY["broker_transport_options"] | {
    "socket_timeout": 2,
    "socket_connect_timeout": 1,
    # A task that waits for its time is unacknowledged until then: a shorter timeout would hand it out again and again.
    "visibility_timeout": ENVIRONMENT.payment_ttl_s + 60,
}
