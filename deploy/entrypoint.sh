#!/bin/sh
# numba uses what it compiled only where it could also write: so the image's compiled loops go where this container may.
set -eu
umask 002 # the group owns with the user: the next start may be as another one
rm -rf "$NUMBA_CACHE_DIR"
cp -r /opt/payoff/kernels "$NUMBA_CACHE_DIR"
exec "$@"
