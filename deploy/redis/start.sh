#!/bin/sh
# Starts Redis with redis.conf and users.acl beside this file. Passwords are not in users.acl: Redis is given their hashes,
# of what REDIS_PASSWORD (user tidegate) and REDIS_ADMIN_PASSWORD (user admin) say. RUN is where the list is written to, DATA
# where Redis keeps its own; what follows goes to redis-server, such as --port 6380.
set -eu
: "${REDIS_PASSWORD:?the password of user tidegate}" "${REDIS_ADMIN_PASSWORD:?the password of user admin}"
here=$(dirname "$0")
run=${RUN:-/run/redis}

sha256() { printf %s "$1" | sha256sum | cut -d' ' -f1; }

umask 077
sed -e "s/TIDEGATE_PASSWORD_SHA256/$(sha256 "$REDIS_PASSWORD")/" \
  -e "s/ADMIN_PASSWORD_SHA256/$(sha256 "$REDIS_ADMIN_PASSWORD")/" "$here/users.acl" >"$run/users.acl"
exec redis-server "$here/redis.conf" --aclfile "$run/users.acl" --dir "${DATA:-/data}" "$@"
