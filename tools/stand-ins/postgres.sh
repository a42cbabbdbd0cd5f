#!/bin/sh
# What the official image's entrypoint does with POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB on an empty folder.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf %s "$POSTGRES_PASSWORD" >/tmp/password
  initdb --encoding=UTF8 --locale=C.UTF-8 --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 >/dev/null
  rm /tmp/password
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
  echo "CREATE DATABASE $POSTGRES_DB;" | postgres --single postgres >/dev/null
fi
exec "$@"
