#!/usr/bin/env bash
# The whole main job on the public data (TRACE_PUBLIC_DATA), each step timed, with the peak memory of any process.
# Not part of `make test`. usage: tests/e2e_public.sh [catalog|toolsense|metatool|all]
set -euo pipefail
cd "$(dirname "$0")/.."
DATA=${TRACE_PUBLIC_DATA:-../shared/data}
[ -d "$DATA" ] || { echo "no public data at $DATA: set TRACE_PUBLIC_DATA"; exit 1; }
PY=.venv/bin/python
WORK=$(mktemp -d "${TMPDIR:-/tmp}/trace-e2e.XXXXXX")
REPORT=$WORK/report.txt
trap 'kill "${MONITOR:-0}" 2>/dev/null || true' EXIT

peak_memory() { # the largest resident set of any python process of this run, in MB, sampled twice a second
  local peak=0 now
  while sleep 0.5; do
    now=$(ps -eo rss=,args= | awk '/[.]venv\/bin\/python/ && $1 > m { m = $1 } END { print int(m / 1024) }')
    [ "$now" -gt "$peak" ] && peak=$now && echo "$peak" > "$WORK/peak"
  done
}
step() { # step "name" limit_seconds command...
  local name=$1 limit=$2 began=$SECONDS
  shift 2
  echo "== $name"
  "$@"
  local took=$((SECONDS - began)) verdict=ok
  [ "$limit" -gt 0 ] && [ "$took" -gt "$limit" ] && verdict="OVER the limit of $limit s"
  printf '%-34s %4d s  %s\n' "$name" "$took" "$verdict" >> "$REPORT"
}
json() { # json COMMAND KEY...: run a command with --json and print one value of its last line
  $PY manage.py "${@:2}" --json | tee >(cat >&2) | tail -1 | $PY -c "import json,sys; print(json.load(sys.stdin)$1)"
}

catalog() {
  export TRACE_HOME=$WORK/catalog
  $PY manage.py migrate -v0
  import_catalogs() {
    $PY manage.py catalog_import "$DATA/catalog/hr.jsonl" --domain hr
    $PY manage.py catalog_import "$DATA/catalog/finance.jsonl" --domain finance
  }
  step "import 8,323 tools" 30 import_catalogs
  step "embeddings and neighbours" 90 $PY manage.py catalog_neighbours
  step "clusters" 20 $PY manage.py catalog_clusters
  step "import 123 rules" 0 $PY manage.py rules_import "$DATA/rules/rules.json" --publish
  benchmarks() {
    $PY manage.py benchmark_import "$DATA/benchmarks/prb_public/queries.jsonl" --kind prb --name prb-public
    $PY manage.py benchmark_import "$DATA/benchmarks/prb_public/mcq.jsonl" --kind mcq_expert --name mcq-public
    $PY manage.py benchmark_import "$DATA/benchmarks/mcq_expert/mcq.jsonl" --kind mcq_expert --name mcq-expert
  }
  step "freeze benchmarks" 0 benchmarks
  synthesis() {
    $PY manage.py synthesis_run --branch rule --per-rule 12 --writer offline --seed 1
    $PY manage.py synthesis_run --branch rrb --anchors 500 --writer offline --seed 1
  }
  step "synthesis (123 x 12, 500 anchors)" 300 synthesis
  step "review policy" 0 $PY manage.py review_policy --auto-approve all
  snapshot() { SNAPSHOT=$(json "['id']" snapshot_build --strategy append --per-rule 12 --seed 1); }
  step "snapshot" 0 snapshot
  step "train (a, m, r+R) and evaluate" 0 $PY manage.py training_run --snapshot "$SNAPSHOT" --format a --memo m --retrieval r+R
  evaluations() { # training queued them; without a worker running they are worked off here
    MODEL=$($PY manage.py shell -v0 -c "from training.models import Model; print(Model.objects.latest('id').pk)" | tail -1)
    for decode in fast trace; do $PY manage.py evaluate --model "$MODEL" --benchmark prb-public --decode $decode; done
    $PY manage.py evaluate --model "$MODEL" --benchmark mcq-expert
  }
  step "evaluation" 0 evaluations
  step "coverage" 0 $PY manage.py coverage
}

toolsense() {
  export TRACE_HOME=$WORK/toolsense
  $PY manage.py migrate -v0
  step "ToolSense catalog (5,347 tools)" 0 $PY manage.py catalog_import "$DATA/benchmarks/toolsense/catalog.jsonl" --domain rapidapi
  step "ToolSense neighbours" 0 $PY manage.py catalog_neighbours
  toolsense_benchmarks() {
    $PY manage.py benchmark_import "$DATA/benchmarks/toolsense/rrb.jsonl" --kind prb --name toolsense-rrb
    $PY manage.py benchmark_import "$DATA/benchmarks/toolsense/mcq.jsonl" --kind mcq --name toolsense-mcq
    $PY manage.py benchmark_import "$DATA/benchmarks/toolsense/qa.jsonl" --kind qa --name toolsense-qa
  }
  step "ToolSense benchmarks" 0 toolsense_benchmarks
  step "ToolSense synthesis (500 anchors)" 0 $PY manage.py synthesis_run --branch rrb --anchors 500 --writer offline --seed 1
  $PY manage.py review_policy --auto-approve all
  SNAPSHOT=$(json "['id']" snapshot_build --strategy append --per-rule 0 --branches rrb --seed 1)
  step "ToolSense (c, m, r), evaluated" 0 $PY manage.py training_run --snapshot "$SNAPSHOT" --format c --memo m --retrieval r
}

metatool_home() { # metatool_home NAME: a home with the benchmark's catalog, test queries and training queries
  export TRACE_HOME=$WORK/metatool-$1
  $PY manage.py migrate -v0
  $PY manage.py catalog_import "$DATA/benchmarks/metatool/catalog.jsonl" --domain metatool
  $PY manage.py catalog_neighbours
  $PY manage.py benchmark_import "$DATA/benchmarks/metatool/queries.jsonl" --kind prb --name metatool
  step "MetaTool samples import ($1)" 0 $PY manage.py samples_import "$DATA/benchmarks/metatool/queries.jsonl" --approve
}
metatool_model() { # metatool_model FORMAT RETRIEVAL DECODE LIMIT
  SNAPSHOT=$(json "['id']" snapshot_build --strategy append --per-rule 0 --branches imported --seed 1)
  step "MetaTool training ($1, none, $2)" "$4" $PY manage.py training_run --snapshot "$SNAPSHOT" --format "$1" --memo none --retrieval "$2"
  step "MetaTool evaluation ($1, $2, $3)" 0 $PY manage.py evaluate --model 1 --benchmark metatool --decode "$3"
}
metatool() {
  for format in a c; do
    metatool_home "n-$format"
    metatool_model $format n fast 600
  done
  metatool_home r-a
  step "MetaTool traces" 0 $PY manage.py synthesis_run --branch imported --writer offline --seed 1
  metatool_model a r trace 1800
}

peak_memory & MONITOR=$!
case ${1:-all} in
  catalog) catalog ;;
  toolsense) toolsense ;;
  metatool) metatool ;;
  all) catalog; toolsense; metatool ;;
  *) echo "usage: $0 [catalog|toolsense|metatool|all]"; exit 2 ;;
esac
echo; cat "$REPORT"; echo "peak memory of one process: $(cat "$WORK/peak") MB (limit 6144)"; echo "homes kept in $WORK"
