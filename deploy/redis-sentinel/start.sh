#!/bin/sh
# Starts a Redis behind sentinels: that of ../redis with replication.conf. Sentinels decide who is the primary, and Redis
# notes it in its own copy of the configuration, in DATA. So REPLICA_OF, like "redis-1 6379", counts for the first start only.
# ANNOUNCE is the name under which others reach it. Other variables and arguments are those of ../redis/start.sh.
set -eu
: "${REDIS_ADMIN_PASSWORD:?the password of user admin}"
here=$(dirname "$0")
config=${DATA:-/data}/redis.conf

umask 077
if [ ! -e "$config" ]; then
  {
    cat "$here/../redis/redis.conf" "$here/replication.conf"
    printf 'masteruser admin\nmasterauth "%s"\n' "$REDIS_ADMIN_PASSWORD"
    [ -z "${ANNOUNCE:-}" ] || echo "replica-announce-ip $ANNOUNCE"
    [ -z "${REPLICA_OF:-}" ] || echo "replicaof $REPLICA_OF"
  } >"$config.new"
  mv "$config.new" "$config"
fi
CONFIG=$config exec "$here/../redis/start.sh" "$@"
