#!/bin/sh
# Copy the bucket of the full stack: `deploy/copy-bucket.sh out FOLDER` writes its objects into a folder for a backup,
# and `back FOLDER` writes those of the folder into the bucket. Objects that are there already are left as they are:
# nothing is ever written over, so a second run copies only what is new.
set -eu
way=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."
docker compose run --rm --no-deps -T --user "$(id -u):0" -v "$folder:/backup" bucket python3 - "$way" /backup <<'PYTHON'
import sys

from obstore import get, list, put
from obstore.store import LocalStore, S3Store

way, folder = sys.argv[1:]
stores = S3Store("payoff", client_options={"allow_http": True}), LocalStore(folder)
source, target = {"out": stores, "back": stores[::-1]}[way]
paths = [{each["path"] for part in list(store) for each in part} for store in (source, target)]
for path in sorted(paths[0] - paths[1]):
    put(target, path, get(source, path).bytes())
print(f"{len(paths[0])} objects, of which {len(paths[0] - paths[1])} were copied")
PYTHON
