#!/bin/sh
# Makes a cluster of the nodes that are named, ADDRESS:PORT each: half of them primaries, each with one replica. Run it once;
# on a cluster that exists it changes nothing.
set -eu
: "${REDIS_ADMIN_PASSWORD:?the password of user admin}"
export REDISCLI_AUTH="$REDIS_ADMIN_PASSWORD"
if redis-cli --user admin -h "${1%:*}" -p "${1##*:}" CLUSTER INFO | grep -q '^cluster_state:ok'; then
  exit 0
fi
exec redis-cli --user admin --cluster create "$@" --cluster-replicas 1 --cluster-yes
