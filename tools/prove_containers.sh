#!/usr/bin/env bash
# Prove the containers: build the image, bring up the single container and then the whole system, use them, break
# them, take them down. Needs a Docker engine with Compose (or tools/engine.sh before it) and curl. Works under a
# project name, secrets and volumes of its own, on ports 8000 and 9090; all of it is gone afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."
W=$(mktemp -d)
export COMPOSE_PROJECT_NAME=payoff-proof
deploy/secrets.sh "$W/env"; set -a; . "$W/env"; set +a
files=$(ulimit -Hn) # an engine started here may open no more
[ "$files" = unlimited ] || [ "$files" -ge "$OPEN_FILES" ] || OPEN_FILES=$files
URL=http://127.0.0.1:$PAYOFF_PORT
FILES=()

compose() {
  if docker compose version >/dev/null 2>&1; then docker compose "${FILES[@]}" "$@"; else docker-compose "${FILES[@]}" "$@"; fi
}
say() { printf '%4ss  %s\n' "$SECONDS" "$*"; }
fail() { say "FAILED: $*" >&2; compose ps >&2; compose logs --tail=15 >&2; exit 1; }
containers() { # that run; of one service, by default of all
  docker ps "${2:--q}" --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" \
    ${1:+--filter "label=com.docker.compose.service=$1"}
}
of() { docker inspect --format "{{.$2}}" "$1"; } # container, what
ask() { curl --silent --show-error --fail -H "X-API-Key: $PAYOFF_ADMIN_KEY" -H 'Content-Type: application/json' "$URL$1" "${@:2}"; }
decide() { ask /predict -d '{"model": "proof:1", "instances": [[1], [9], [null]], "benefits": [[0, -1], [-10, 5]]}'; }
await_healthy() { # of one service, by default all; what has no check must have ended well
  local container state
  for container in $(containers "${1:-}" -aq); do
    for _ in $(seq 360); do
      state=$(docker inspect --format '{{if .State.Health}}{{.State.Health.Status}}{{else}}{{if .State.ExitCode}}failed{{else}}healthy{{end}}{{end}}' "$container")
      [ "$state" = healthy ] && continue 2
      sleep 0.5
    done
    fail "$(of "$container" Name) is $state after three minutes"
  done
}
await_ready() { # each container of this service is healthy, and ready to take the load of another
  local container
  await_healthy "$1"
  for container in $(containers "$1"); do
    for _ in $(seq 360); do
      docker exec "$container" python3 -c "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health/ready', timeout=2)" \
        >/dev/null 2>&1 && continue 2
      sleep 0.5
    done
    fail "$(of "$container" Name) is not ready after three minutes"
  done
}
train() {
  local job id
  job=$(ask /train -d '{"model": "proof", "learner": {"kind": "logistic"}, "holdout": 0, "data":
    {"features": ["x"], "rows": [[1],[2],[3],[4],[5],[6],[7],[8]], "labels": ["a","a","a","b","a","b","b","b"]}}')
  id=$(grep -o 'job_[0-9a-f]*' <<<"$job" | head -n 1)
  for _ in $(seq 5); do
    job=$(ask "/train/$id" -H 'Prefer: wait=60')
    case $job in *'"status":"succeeded"'*) echo "$id"; return ;; *'"status":"failed"'*) break ;; esac
  done
  fail "training: $job"
}
show() { # the tour, from inside of one of the containers of this service against that URL
  docker exec "$(containers "$1" | head -n 1)" payoff demo --exit --url "$2" >"$W/tour" 2>&1 ||
    { tail -n 20 "$W/tour" >&2; fail "the tour ends early"; }
  grep -c '^POST' "$W/tour"
}
compiles_nothing() { # to answer with the compiled loops, a container of this service needs no more than its image has
  ask /retrieve -o /dev/null -d '{"probabilities": [[0.9, 0.5, 0.1]], "setting": "binary", "loss": {"name": "f_beta"}}' || return 1
  local container
  for container in $(containers "$1"); do docker exec "$container" diff -rq /opt/payoff/kernels /srv/payoff/kernels || return 1; done
}
# all containers: no root, no writing outside of volumes, no capabilities, bounded memory, and no key no answer
examine() {
  local container name
  for container in $(containers); do
    name=$(of "$container" Name)
    docker exec "$container" sh -c '[ "$(stat -c %u /proc/1)" != 0 ]' || fail "$name runs as root"
    docker exec "$container" sh -c 'grep -qE "^[^ ]+ / [^ ]+ ro[ ,]" /proc/mounts' || fail "$name: its root file system can be written"
    docker exec "$container" sh -c 'grep -q "^CapEff:[^1-9a-f]*$" /proc/1/status' || fail "$name has capabilities"
    docker exec "$container" sh -c 'grep -q "^NoNewPrivs:.1" /proc/1/status' || fail "$name may gain privileges"
    [ "$(of "$container" HostConfig.Memory)" -gt 0 ] || fail "$name has no limit of memory"
    [ "$(of "$container" HostConfig.PidsLimit)" -gt 0 ] || fail "$name has no limit of processes"
    [ "$(of "$container" HostConfig.Init)" = true ] || fail "$name has no init process"
  done
  [ "$(curl -s -o /dev/null -w '%{http_code}' "$URL/models")" = 401 ] || fail "answers without the key"
}
stop() { # all, in time and with exit codes that say so
  local began=$SECONDS container code
  compose stop >/dev/null 2>&1
  for container in $(containers "" -aq); do
    code=$(of "$container" State.ExitCode)
    case $code in 0 | 143 | 130) ;; *) fail "$(of "$container" Name) stopped with exit code $code" ;; esac
  done
  say "stopped within $((SECONDS - began)) s"
}
down() { compose down --volumes --timeout 5 >/dev/null 2>&1; }
trap 'down; rm -rf "$W"' EXIT

single() {
  say "-- the single container"
  cp docker-compose.single.yml "$W/"; mkdir "$W/models"; export PAYOFF_UID=1234; chown 1234 "$W/models" 2>/dev/null || PAYOFF_UID=$(id -u)
  FILES=(-f "$W/docker-compose.single.yml")
  local began=$SECONDS job before asked
  compose up -d --no-build >/dev/null 2>"$W/up" || { cat "$W/up"; fail "does not start"; }
  await_healthy; say "healthy $((SECONDS - began)) s after its start"
  compiles_nothing payoff || fail "/retrieve needs a compiler"
  examine
  docker exec "$(containers payoff)" python3 -c 'import app, pkgutil; [*map(__import__, (m.name for m in
    pkgutil.walk_packages(app.__path__, "app.") if "versions" not in m.name and not m.name.endswith("env")))]' || fail "a module cannot be imported in it"
  ! docker exec "$(containers payoff)" sh -c 'command -v gcc || command -v cc || command -v pip || python3 -m pip' >/dev/null 2>&1 ||
    fail "it has a compiler or an installer"
  job=$(train); before=$(decide); say "trained and decided: $before"
  [ -e "$W/models/proof/1" ] || fail "the model is not in the folder: $(ls -R "$W/models")"
  asked=$(show payoff http://127.0.0.1:8000); say "the tour asked $asked times"
  compose restart >/dev/null 2>&1; await_ready payoff
  [ "$(decide)" = "$before" ] || fail "decides otherwise after a restart"
  [[ $(ask "/train/$job") == *'"status":"succeeded"'* ]] || fail "the job is forgotten after a restart"
  say "restarted: the model and the job are still there; $(docker stats --no-stream --format '{{.MemUsage}}' "$(containers payoff)") of memory"
  stop; down
}

# one request after the other until the file is gone; how many there were, and each that failed
hammer() {
  local count=0 failed=0
  while [ -e "$W/hammer" ]; do
    count=$((count + 1))
    decide >/dev/null 2>>"$W/failures" || failed=$((failed + 1))
  done
  echo "$count $failed" >"$W/hammered"
}
# what each container that has Python or wget can open a connection to, by the name and port of the other
reaches() { # from service, to host, port; by whatever the image has to connect with
  local status=0
  docker exec "$(containers "$1" | head -n 1)" sh -c "if command -v python3; then
      python3 -c 'import socket; socket.create_connection((\"$2\", $3), 2)'
    elif command -v bash; then timeout 2 bash -c ': </dev/tcp/$2/$3'
    elif command -v wget; then ! wget -T 2 -O /dev/null http://$2:$3/ 2>&1 | grep -q 'bad address\|timed out\|unreachable\|refused'
    else exit 9; fi" >/dev/null 2>&1 || status=$?
  [ "$status" != 9 ] || fail "the image of $1 has nothing to connect with"
  return "$status"
}
separated() { # who must not reach whom, and the same question where the answer is yes
  local from to
  for from in service prometheus balancer postgres store; do
    for to in dask-scheduler:8786 dask-scheduler:8787 dask-worker:8789; do
      ! reaches "$from" "${to%:*}" "${to#*:}" || fail "$from reaches $to"
    done
  done
  for to in postgres:5432 store:8333; do
    for from in balancer prometheus dask-worker dask-scheduler; do
      ! reaches "$from" "${to%:*}" "${to#*:}" || fail "$from reaches $to"
    done
    reaches service "${to%:*}" "${to#*:}" || fail "the service does not reach $to"
  done
  reaches worker dask-scheduler 8786 || fail "the worker does not reach its scheduler"
}
# a body of an upload without a key, and with one: how many bytes the balancer's disk has for it
spooled() { # arguments of curl
  curl -s -o "$W/answer" -X POST -H 'Content-Type: text/csv' --limit-rate 5M --data-binary @"$W/upload" "$@" "$URL/datasets?label=y" &
  local asking=$! most=0 now
  while kill -0 "$asking" 2>/dev/null; do
    now=$(docker exec "$(containers balancer)" sh -c 'for f in /proc/[0-9]*/fd/*; do case $(readlink "$f") in /tmp/body/*) stat -Lc %s "$f";; esac; done' 2>/dev/null | sort -n | tail -n 1)
    [ "${now:-0}" -le "$most" ] || most=$now
    sleep 0.2
  done
  echo "$most"
}
replicas_seen() { # by the balancer, among the last answers
  docker logs --tail 100 "$(containers balancer)" 2>/dev/null | grep -oE '"tried":"[0-9.:]+' | sort -u | wc -l
}

whole() {
  say "-- the whole system"
  FILES=(-f docker-compose.yml)
  ( unset PAYOFF_ADMIN_KEY; ! compose config >/dev/null 2>&1 ) || fail "starts without a secret"
  local services began=$SECONDS before victim asked
  services=$(compose config --services | grep -v grafana)
  docker image inspect "$(grep -o 'grafana/grafana:.*' docker-compose.yml)" >/dev/null 2>&1 && services="$services grafana"
  # shellcheck disable=SC2086
  compose up -d --no-build $services >/dev/null 2>"$W/up" || { cat "$W/up"; fail "does not start"; }
  await_healthy; say "healthy $((SECONDS - began)) s after its start: $(containers | wc -l) containers"
  compiles_nothing service || fail "/retrieve needs a compiler"
  examine
  [ "$(curl -s -o /dev/null -w '%{http_code}' -H "X-API-Key: $PAYOFF_ADMIN_KEY" "$URL/metrics")" = 404 ] || fail "/metrics is open"
  ! docker inspect "$(containers prometheus)" | grep -q "$PAYOFF_ADMIN_KEY" || fail "Prometheus has the admin key"
  separated; say "networks: only workers reach the Dask scheduler, only Payoff reaches the database and the store"
  { echo x,y; yes 1,a | head -n 4000000 || true; } >"$W/upload" # head ends yes, which pipefail takes for an error
  [ "$(spooled)" = 0 ] || fail "the balancer keeps what comes without a key"
  grep -q '"status":401' "$W/answer" || fail "an upload without a key: $(cat "$W/answer")"
  [ "$(spooled -H "X-API-Key: $PAYOFF_ADMIN_KEY")" -gt 1000000 ] || fail "the balancer does not keep an upload: the line above proves nothing"
  say "an upload without a key leaves nothing on the balancer's disk"
  train >/dev/null; before=$(decide); say "trained and decided: $before"
  for _ in $(seq 30); do decide >/dev/null; done
  [ "$(replicas_seen)" = 2 ] || fail "$(replicas_seen) replicas answer"
  say "two replicas answer"
  asked=$(show service http://balancer:8080); say "the tour through the balancer asked $asked times"

  touch "$W/hammer"; hammer & began=$SECONDS
  sleep 2
  victim=$(containers service | head -n 1)
  docker kill "$victim" >/dev/null
  sleep 5
  docker start "$victim" >/dev/null; await_ready service
  for victim in $(containers service); do docker restart "$victim" >/dev/null; await_ready service; done
  sleep 3; rm "$W/hammer"; wait $!
  read -r count failed <"$W/hammered"
  say "while a replica was killed, started again, and each restarted in turn: $count predictions in $((SECONDS - began)) s, $failed failed"
  [ "$failed" = 0 ] || { tail -n 5 "$W/failures"; fail "predictions fail while a replica is away"; }

  # shellcheck disable=SC2086
  compose up -d --no-build --scale service=3 --scale worker=3 $services >/dev/null 2>&1; await_healthy; await_ready service
  for _ in $(seq 50); do decide >/dev/null; done
  [ "$(replicas_seen)" = 3 ] || fail "$(replicas_seen) of three replicas answer"
  victim=$(containers worker | head -n 1)
  docker kill "$victim" >/dev/null
  train >/dev/null
  docker start "$victim" >/dev/null; await_healthy worker
  say "scaled to three replicas and three workers; jobs go on while one of them is away"
  docker exec "$victim" payoff check >"$W/check" 2>&1 || say "payoff check has findings:"
  grep -vE '^ok|^\{' "$W/check" | sed 's/^/       /' || true
  for _ in $(seq 30); do
    curl -s "http://127.0.0.1:$PROMETHEUS_PORT/api/v1/query?query=sum(up)%20by%20(job)" >"$W/up"
    grep -q '"job":"service"},"value":\[[^]]*"3"' "$W/up" && break; sleep 1
  done
  grep -q '"job":"service"},"value":\[[^]]*"3"' "$W/up" || fail "Prometheus does not see three replicas: $(cat "$W/up")"
  say "Prometheus sees $(grep -o '"job":"[a-z-]*"},"value":\[[^]]*\]' "$W/up" | sed 's/"job":"\([a-z-]*\)".*"\([0-9]*\)"\]/\1 \2/' | paste -sd ,)"
  # the bodies of all that was said: no secret among them
  compose logs --no-color 2>/dev/null >"$W/logs"
  for secret in "$POSTGRES_PASSWORD" "$STORE_SECRET_KEY" "$PAYOFF_ADMIN_KEY"; do
    ! grep -q "$secret" "$W/logs" || fail "a secret is in the logs"
  done
  docker stats --no-stream --format '{{.Name}} {{.MemUsage}}' | sort | sed 's/^/       /'
  stop; down
}

docker image inspect payoff >/dev/null 2>&1 && [ "${BUILD:-yes}" = no ] || { compose -f docker-compose.single.yml build >/dev/null; }
say "image: $(docker image inspect --format '{{.Size}}' payoff | awk '{printf "%.0f MB", $1 / 1e6}')"
for profile in "${@:-single whole}"; do for part in $profile; do "$part"; done; done
