#!/usr/bin/env bash
# Runs one test with the programs of a sanitized build; what a sanitizer finds is a failure.
# These tests exist only where WEFT_SANITIZE=1 asked for them, so sanitizers that do not start are a failure, too.
# usage: sanitized_test.sh BUILD PROGRAM [ARGUMENT...]      PROGRAM: a path in BUILD
set -euo pipefail
build=$1 program=$2
shift 2
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
# Old sanitizers cannot start where addresses are randomised by more bits than they knew.
start=()
if setarch "$(uname -m)" -R true 2>/dev/null; then start=(setarch "$(uname -m)" -R); fi
# Leaks are looked for with ptrace, which some containers forbid.
probe=$build/bin/sanitizer_probe
if ! "${start[@]}" "$probe"; then
  ASAN_OPTIONS+=:detect_leaks=0
  "${start[@]}" "$probe" || { echo "FAILED: the sanitizers do not start here"; exit 1; }
fi
exec "${start[@]}" "$build/$program" "$@"
