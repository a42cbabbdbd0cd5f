#!/usr/bin/env bash
# Run a command with a Docker engine of its own: tools/engine.sh tools/prove_containers.sh
#
# For a machine that has Debian's packages docker.io, docker-compose, mmdebstrap, iproute2 and iptables, but neither a
# running engine nor a registry. The images that docker-compose.yml names are made from Debian's packages under their
# usual names (tools/stand-ins), and `payoff` is built from the Dockerfile. The engine lives in a network of its own,
# so that it changes no firewall rule and takes no port of this machine; everything is gone afterwards.
# ENGINE=folder keeps it all there, for a quicker second time.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '%4ss  %s\n' "$SECONDS" "$*"; }

engine_up() { # with these arguments
  dockerd -H "unix://$W/docker.sock" -p "$W/docker.pid" --data-root "$W/data" --exec-root "$W/exec" "$@" \
    >"$W/dockerd.log" 2>&1 &
  for _ in $(seq 150); do docker info >/dev/null 2>&1 && return; sleep 0.2; done
  tail -n 20 "$W/dockerd.log" >&2; return 1
}
engine_down() {
  local pid; pid=$(cat "$W/docker.pid" 2>/dev/null) || return 0
  kill "$pid" 2>/dev/null || return 0
  for _ in $(seq 300); do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.1; done
  kill -KILL "$pid"
}

if [ "${1:-}" = --inside ]; then # in the network of its own
  W=$2; shift 2
  ip link set lo up
  trap engine_down EXIT
  engine_up
  BUILD=no "$@"
  exit
fi

[ "$(id -u)" = 0 ] || { echo "needs root" >&2; exit 2; }
for tool in dockerd mmdebstrap ip iptables unshare; do
  command -v "$tool" >/dev/null || { echo "needs $tool" >&2; exit 2; }
done
W=${ENGINE:-$(mktemp -d /tmp/payoff-engine.XXXXXX)}
mkdir -p "$W"
export DOCKER_HOST="unix://$W/docker.sock" DOCKER_BUILDKIT=0
! docker info >/dev/null 2>&1 || { echo "an engine runs in $W already" >&2; exit 2; }
finish() {
  engine_down
  awk -v under="$W/" 'index($2, under) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount # what it leaves
  [ -n "${ENGINE:-}" ] || rm -rf "$W"
}
trap finish EXIT
image() { grep -hoE "image: [^ ]*$1[^ ]*" docker-compose.yml | head -n 1 | cut -d ' ' -f 2; }

# a whole Debian as an image, with these packages
bootstrap() { # name, packages
  docker image inspect "$1" >/dev/null 2>&1 && return
  # without documentation, as slim images are; this machine's certificates, and Python's installer told of them
  mmdebstrap --quiet --variant=minbase --include="$2" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook='cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"' \
    --customize-hook='printf "[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n" >"$1/etc/pip.conf"' \
    bookworm - 2>"$W/bootstrap.log" | docker import - "$1" >/dev/null
  say "made $1"
}

# the network outside is needed to build, and only then
engine_up --bridge=none --iptables=false --ip6tables=false --ip-masq=false
bootstrap python:3.11-slim-bookworm ca-certificates,python3,python3-venv
bootstrap payoff-stand-in ca-certificates,busybox,nginx-light,postgresql,prometheus
docker build --quiet --network host --tag payoff . >/dev/null 2>"$W/build.log"
say "built payoff: $(docker image inspect --format '{{.Size}}' payoff | awk '{printf "%.0f MB", $1 / 1e6}')"
for name in nginx postgres prometheus seaweedfs; do
  docker build --quiet --network host --tag "$(image "$name")" --file "tools/stand-ins/$name.Dockerfile" \
    --build-arg MOTO="$(sed -n 's/^moto\[server\]==\([^ ]*\).*/\1/p' requirements-dev.lock)" tools/stand-ins >/dev/null 2>&1
  say "stands in for $(image "$name")"
done
engine_down
unshare --net "$0" --inside "$W" "$@"
