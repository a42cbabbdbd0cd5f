#!/usr/bin/env bash
# Write docker-compose.digests.yml (or the file that is named): the images of docker-compose.yml, and the base of its
# Dockerfile, by the digests that their tags have at the registry now. Needs docker with buildx, and the registry. Then
#
#   docker compose -f docker-compose.yml -f docker-compose.digests.yml up -d --build
#
# starts these images to the byte, whatever becomes of the tags. Run it again to take up security fixes.
set -euo pipefail
cd "$(dirname "$0")/.."
file=${1:-docker-compose.digests.yml}
new=$(mktemp)
trap 'rm -f "$new"' EXIT

pinned() { # image with its tag
  local digest
  digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$1")
  [[ $digest =~ ^sha256:[0-9a-f]{64}$ ]] || { echo "no digest for '$1': '$digest'" >&2; return 1; }
  echo "$1@$digest"
}

base=$(pinned "$(sed -n 's/^ARG PYTHON=//p' Dockerfile)")
printf 'services:\n  service:\n    build:\n      args:\n        PYTHON: %s\n' "$base" >"$new"
# the name of each service that names an image, and the image
awk '/^[a-z]/ {in_services = $1 == "services:"}
     in_services && /^  [a-z-]+:/ {name = $1}
     in_services && /^    image: / {print name, $2}' docker-compose.yml >"$new.images"
while read -r name image; do
  image=$(pinned "$image")
  printf '  %s\n    image: %s\n' "$name" "$image" >>"$new"
done <"$new.images"
rm -f "$new.images"
mv "$new" "$file"
