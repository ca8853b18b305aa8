#!/usr/bin/env bash
# The NEON splitter on any machine: the tests that compare it with the plain one, and those of the tokenizer as a whole, are compiled for aarch64 and run by qemu. Skipped (77) without the means:
#   apt-get install --no-install-recommends g++-aarch64-linux-gnu qemu-user-static libgtest-dev nlohmann-json3-dev
set -euo pipefail
skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*" >&2; exit 1; }
command -v aarch64-linux-gnu-g++ >/dev/null || skip "no aarch64-linux-gnu-g++ (Debian: g++-aarch64-linux-gnu)"
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || skip "no qemu-aarch64-static (Debian: qemu-user-static)"
googletest=/usr/src/googletest
for file in {googletest/src/gtest,googlemock/src/gmock}-all.cc; do
  [ -e $googletest/$file ] || skip "no $googletest/$file (Debian: libgtest-dev)"
done
[ -d /usr/include/nlohmann ] || skip "no /usr/include/nlohmann (Debian: nlohmann-json3-dev)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# Only headers that fit any processor are taken from this machine: those of the C library come with the cross compiler.
mkdir include
ln -s /usr/include/nlohmann include/
sources=($googletest/{googletest/src/{gtest-all,gtest_main},googlemock/src/gmock-all}.cc
  "$WEFT_SOURCE_DIR"/tests/tokenizer/{split,split_pattern,split_simd,tokenizer,word_batch}_test.cpp "$WEFT_SOURCE_DIR"/tests/tokenizer/pattern_interpreter.cpp)
for file in "$WEFT_SOURCE_DIR"/tokenizer/{,*/}*.cpp; do
  sources+=("$file")
done

compile() {
  flags=(-O2 -Wall -Wextra -Wpedantic -Wshadow -Werror)
  case $1 in "$googletest"/*) flags=(-w -I"$googletest/googletest" -I"$googletest/googlemock") ;; esac
  aarch64-linux-gnu-g++ -std=c++20 "${flags[@]}" -I"$WEFT_SOURCE_DIR" -isystem include \
    -isystem "$googletest/googletest/include" -isystem "$googletest/googlemock/include" -c "$1" -o "$(basename "$1" | tr . _).o"
}
export googletest
export -f compile
printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P 2 bash -c 'set -e; compile "$1"' compile
# The linker warns that getaddrinfo, which GoogleTest can call, is not wholly static.
aarch64-linux-gnu-g++ -static ./*.o -o tests 2>link.log || { cat link.log >&2; fail "the tests do not link"; }

# Real text would take minutes.
unset WEFT_GPT2_DIR WEFT_CORPUS_DIR WEFT_SIMD
"$qemu" ./tests >log 2>&1 || { cat log >&2; fail "the tests above, on aarch64"; }
# No test may pass because it was left out.
num_passed=$(grep -c "^\[       OK \] Every/SplitSimd\..*/Neon" log) || true
num_tests=$(grep -c "^TEST_P(SplitSimd, " "$WEFT_SOURCE_DIR"/tests/tokenizer/split_simd_test.cpp)
num_kinds=$(grep -c "case SplitKind::" "$WEFT_SOURCE_DIR"/tests/tokenizer/split_kinds.h)
num_skipped=$(grep -c "^\[  SKIPPED \] Every/SplitSimd\.EqualsScalarOnTheCorpus/Neon.* (" log) || true
[ $((num_passed + num_skipped)) = $((num_tests * num_kinds)) ] || { cat log >&2; fail "of $num_tests of SplitSimd for $num_kinds patterns only $num_passed passed"; }
tail -n 5 log
