#!/usr/bin/env bash
# Runs one libFuzzer target from its kept corpus, with a fixed seed: the same inputs everywhere, fewer of them on a slow
# machine. An input that fails is printed as base64.  usage: run.sh NAME RUNS PROGRAM ("" where it could not be built)
set -euo pipefail
name=$1 runs=$2 program=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
[ -n "$program" ] || { echo "skipped: no clang++ with libFuzzer and sanitizers (jobs/install-deps.sh --tests)"; exit 77; }
[ -x "$program" ] || { echo "skipped: $program is not built (target fuzz_targets)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work
# Leaks are looked for with ptrace, which containers forbid. Sizes of hostile files are refused by us, not by the allocator.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=0 UBSAN_OPTIONS=print_stacktrace=1
# Old sanitizers cannot start where addresses are randomised by more bits than they knew.
start=()
if setarch "$(uname -m)" -R true 2>/dev/null; then start=(setarch "$(uname -m)" -R); fi
probe=$(dirname "$program")/probe
"${start[@]}" "$probe" -runs=1 >"$work/probe.log" 2>&1 || { tail -3 "$work/probe.log"; echo "skipped: the sanitizers do not run here"; exit 77; }

mkdir "$work/new" "$work/failed"
# libFuzzer learns from the values that are compared, and some of them differ from run to run, as the numbers of inodes do.
# Without that (-use_cmp=0) the same seed gives the same inputs.
if "${start[@]}" "$program" -seed=1 -runs="$runs" -max_total_time="${WEFT_FUZZ_SECONDS:-5}" -max_len=4096 -timeout=60 \
  -rss_limit_mb=2048 -malloc_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$work/failed/" -use_cmp=0 \
  "$work/new" "$here/corpus/$name" >"$work/log" 2>&1; then
  grep -E '^stat::number_of_executed_units|INITED' "$work/log" || true
else
  tail -60 "$work/log"
  for input in "$work"/failed/*; do
    [ -e "$input" ] || continue
    echo "$(basename "$input"):"
    base64 "$input"
  done
  exit 1
fi
