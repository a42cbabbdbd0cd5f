#!/bin/sh
# Make .env, or the file that is named: deploy/example.env with a random value wherever one is missing. Readable for
# nobody else, and never written over: the passwords in it are those of the volumes.
set -eu
umask 077
here=$(dirname "$0")
file=${1:-$here/../.env}
set -C # refuse to write over a file
while IFS= read -r line; do
  case $line in
    [A-Z]*=) echo "$line$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" ;;
    *) echo "$line" ;;
  esac
done <"$here/example.env" >"$file"
