#!/bin/sh
# Starts a sentinel with its own copy of sentinel.conf in DATA. PRIMARY, like "redis-1 6379", counts for the first start only.
# ANNOUNCE is the name under which others reach it. Arguments are passed to redis-server, e.g. --port 26380.
set -eu
: "${REDIS_ADMIN_PASSWORD:?the password of user admin}" "${PRIMARY:?the first primary, like redis-1 6379}"
here=$(dirname "$0")
config=${DATA:-/data}/sentinel.conf

umask 077
if [ ! -e "$config" ]; then
  {
    sed "s/PRIMARY/$PRIMARY/" "$here/sentinel.conf"
    printf 'sentinel auth-pass mymaster %s\n' "$REDIS_ADMIN_PASSWORD"
    [ -z "${ANNOUNCE:-}" ] || echo "sentinel announce-ip $ANNOUNCE"
  } >"$config.new"
  mv "$config.new" "$config"
fi
exec redis-server "$config" --sentinel "$@"
