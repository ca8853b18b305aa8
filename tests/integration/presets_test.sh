#!/usr/bin/env bash
# What the README's commands build has neither tests nor the hooks by which tests make a program fail, whatever was configured in its
# folder before; tests/run.sh asks for both.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:?}"
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-presets.XXXXXX"); trap 'rm -rf "$work"' EXIT
fail() { cat "$work/log" >&2; echo "FAILED: $*" >&2; exit 1; }
configure() { cmake --preset release -B "$work/build" -DWEFT_CUDA=OFF -DWEFT_TRAIN=OFF "$@" >"$work/log" 2>&1 || fail "cmake --preset release $*"; }
has_hooks() { grep -q WEFT_TEST_HOOKS "$work/build/compile_commands.json"; }
with_tests=$(grep -oE 'cmake --preset release .*' tests/run.sh | grep -oE -- '-DWEFT_TEST(S|_HOOKS)=ON' | tr '\n' ' ')

configure $with_tests
has_hooks || fail "tests/run.sh builds no hooks"
grep -q 'tests/' "$work/build/compile_commands.json" || fail "tests/run.sh builds no tests"
configure
! has_hooks || fail "the preset release builds the hooks of tests"
! grep -q 'tests/' "$work/build/compile_commands.json" || fail "the preset release builds tests"
echo passed
