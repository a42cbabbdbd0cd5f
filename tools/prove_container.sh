#!/usr/bin/env bash
# Prove the container: build it, use it, restart it, stop it. Needs a Docker engine with Compose, curl and port 8000;
# works in volumes of its own, which are gone afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."
export COMPOSE_PROJECT_NAME=payoff-proof PAYOFF_ADMIN_KEY=proof PAYOFF_SIGNING_KEY=proof
URL=http://127.0.0.1:8000

compose() { if docker compose version >/dev/null 2>&1; then docker compose "$@"; else docker-compose "$@"; fi; }
state() { docker inspect --format "{{.State.$1}}" "$(compose ps -aq payoff)"; }
say() { printf '%4ss  %s\n' "$SECONDS" "$*"; }
fail() { say "FAILED: $*" >&2; compose logs --tail=20 >&2; exit 1; }
ask() { curl --silent --show-error --fail -H 'X-API-Key: proof' -H 'Content-Type: application/json' "$URL$1" "${@:2}"; }
decide() {
  ask /predict -d '{"model": "proof:1", "instances": [[1], [9], [null]], "benefits": [[0, -1], [-10, 5]]}'
}
await_healthy() {
  for _ in $(seq 360); do
    case $(state Health.Status) in healthy) return ;; unhealthy) fail "unhealthy" ;; esac
    sleep 0.5
  done
  fail "not healthy within three minutes"
}
in_container() { docker exec "$(compose ps -q payoff)" "$@"; }

trap 'compose down --volumes --timeout 5 >/dev/null 2>&1' EXIT
compose build --quiet >/dev/null; say "built"
compose up -d >/dev/null 2>&1 || fail "does not start; is port 8000 free?"
await_healthy; say "healthy"

[ "$(in_container id -u)" = 10001 ] || fail "runs as uid $(in_container id -u)"
in_container grep -qE '^[^ ]+ / [^ ]+ ro[ ,]' /proc/mounts || fail "its root file system can be written"
in_container python3 -c 'import app, pkgutil; [*map(__import__, (m.name for m in
  pkgutil.walk_packages(app.__path__, "app.")))]' || fail "a module cannot be imported in it"
[ "$(curl -s -o /dev/null -w '%{http_code}' $URL/models)" = 401 ] || fail "answers without the key"

job=$(ask /train -H 'Prefer: wait=60' -d '{"model": "proof", "learner": {"kind": "logistic"}, "holdout": 0, "data":
  {"features": ["x"], "rows": [[1],[2],[3],[4],[5],[6],[7],[8]], "labels": ["a","a","a","b","a","b","b","b"]}}')
[[ $job == *'"status":"succeeded"'* ]] || fail "training: $job"
path=/train/$(grep -o 'job_[0-9a-f]*' <<<"$job" | head -n 1)
before=$(decide); say "trained and decided: $before"

compose restart >/dev/null 2>&1; await_healthy
[ "$(decide)" = "$before" ] || fail "decides otherwise after a restart"
[[ $(ask "$path") == *'"status":"succeeded"'* ]] || fail "the job is forgotten after a restart"
say "restarted: the model and the job are still there; $(docker stats --no-stream --format '{{.MemUsage}}' \
  "$(compose ps -q payoff)") of memory"

began=$SECONDS
compose stop >/dev/null 2>&1
code=$(state ExitCode)
case $code in 0 | 143) ;; *) fail "stopped with exit code $code" ;; esac
say "stopped within $((SECONDS - began)) s, exit code $code"
