#!/bin/sh
# At the first start of an empty database folder: the services' role. It owns its database and is no superuser, because a
# superuser can run programs of the machine by SQL.
set -eu

psql --quiet --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
    --set=password="$(cat /run/seckill/database_password)" <<'SQL'
CREATE ROLE seckill LOGIN PASSWORD :'password';
CREATE DATABASE seckill OWNER seckill;
SQL
