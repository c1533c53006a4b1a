#!/bin/sh
# Starts one node of the cluster: the Redis of ../redis with cluster.conf. Replicas log in at their primary as admin.
# Variables and arguments are those of ../redis/start.sh.
set -eu
: "${REDIS_ADMIN_PASSWORD:?the password of user admin}"
here=$(dirname "$0")
run=${RUN:-/run/redis}

umask 077
{
  cat "$here/../redis/redis.conf" "$here/cluster.conf"
  printf 'masteruser admin\nmasterauth "%s"\n' "$REDIS_ADMIN_PASSWORD"
} >"$run/redis.conf"
CONFIG=$run/redis.conf exec "$here/../redis/start.sh" "$@"
