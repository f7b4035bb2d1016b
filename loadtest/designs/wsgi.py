"""The gateway of a design: plain Django over WSGI, with the blocking views of loadtest/designs/urls.py."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "loadtest.designs.settings")
application = get_wsgi_application()
