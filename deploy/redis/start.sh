#!/bin/sh
# Starts Redis with the redis.conf and users.acl in this folder. Adds the hashes of REDIS_PASSWORD (user tidegate) and
# REDIS_ADMIN_PASSWORD (user admin) to a copy of users.acl in RUN. Redis keeps its data in DATA. CONFIG is another
# redis.conf. Arguments are passed to redis-server, e.g. --port 6380.
set -eu
: "${REDIS_PASSWORD:?the password of user tidegate}" "${REDIS_ADMIN_PASSWORD:?the password of user admin}"
here=$(dirname "$0")
run=${RUN:-/run/redis}

sha256() { printf %s "$1" | sha256sum | cut -d' ' -f1; }

umask 077
sed -e "s/TIDEGATE_PASSWORD_SHA256/$(sha256 "$REDIS_PASSWORD")/" \
  -e "s/ADMIN_PASSWORD_SHA256/$(sha256 "$REDIS_ADMIN_PASSWORD")/" "$here/users.acl" >"$run/users.acl"
exec redis-server "${CONFIG:-$here/redis.conf}" --aclfile "$run/users.acl" --dir "${DATA:-/data}" "$@"
