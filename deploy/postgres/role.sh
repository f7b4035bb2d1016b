#!/bin/sh
# Runs when Postgres creates its database folder. It creates the role of the services, which owns their database but is
# not a superuser, because a superuser can run programs through SQL.
set -eu

psql --quiet --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
    --set=password="$(cat /run/seckill/database_password)" <<'SQL'
CREATE ROLE seckill LOGIN PASSWORD :'password';
CREATE DATABASE seckill OWNER seckill;
SQL
