#!/bin/sh
# deploy/example.env with a random value wherever one is missing: deploy/secrets.sh >.env
set -eu
while IFS= read -r line; do
  case $line in
    [A-Z]*=) echo "$line$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" ;;
    *) echo "$line" ;;
  esac
done <"$(dirname "$0")/example.env"
