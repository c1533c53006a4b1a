#!/bin/bash
# `tidegate` as the commands of a page call it. Each page has its own loopback address instead of 127.0.0.1, so that
# pages can run in parallel with the ports that they name. This script adds the address if a command omits it.
has() { local want=$1 it; shift; for it in "$@"; do [ "$it" = "$want" ] && return 0; done; return 1; }
config() { local last= it; for it in "$@"; do [ "$last" = -c ] && echo "$it"; last=$it; done; }
case "${1-}" in
  check)
    has --server "$@" || set -- "$@" --server "http://$TIDEGATE_HOST:8080" ;;
  doctor)
    has --store "$@" || has -c "$@" || set -- "$@" --store "redis://$TIDEGATE_HOST:6379" ;;
  proxy)
    has --listen "$@" || set -- "$@" --listen "$TIDEGATE_HOST:8000" ;;
  '' | serve | -c | --store | --resp | --grpc)
    file=$(config "$@")
    has --listen "$@" || { [ -n "$file" ] && grep -q '^listen:' "$file"; } || set -- "$@" --listen "$TIDEGATE_HOST:8080" ;;
esac
exec "$TIDEGATE_BINARY" "$@"
