#!/usr/bin/env bash
# weft-data encode: ids and back, threads, instruction sets, what is refused.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
make_vocabulary
expect 0 '--decode' "$data" encode --help

# Over 3 MB, so that there are chunks to share; characters of all widths; and a line without a space.
make_corpus 30000 >text
printf 'tab\t\u00e9 \u4e2d\u6587 \U0001f600 it'"'"'s  two\n' >>text
head -c 3000000 /dev/zero | tr '\0' a >>text
"$data" encode --input text >ids
"$data" encode --input ids --decode >back
cmp text back || fail "decoding does not give the text back"
gzip -k text
for simd in scalar avx2 avx512 neon; do
  case $simd in avx512) flag=avx512_vbmi2 ;; neon) flag=asimd ;; *) flag=$simd ;; esac
  grep -qw $flag /proc/cpuinfo || [ $simd = scalar ] || continue
  WEFT_SIMD=$simd "$data" encode --threads 3 <text >other
  cmp ids other || fail "other ids with $simd and 3 threads"
done
"$data" encode --input text.gz >other
cmp ids other || fail "other ids of compressed text"

# Every repetition gives the same ids, and --quiet leaves only the report.
expect 0 'encode 3: ' "$data" encode --input text --repeat 3 --threads 2 --quiet
[ "$(grep -c "$(wc -c <text) bytes, $(wc -w <ids) tokens" out.log)" = 3 ] || fail "wrong counts: $(cat out.log)"
[ "$(sed 's/.*hash//' out.log | sort -u | wc -l)" = 1 ] || fail "hashes differ: $(cat out.log)"
[ "$(grep -cE '[0-9.]+ MB/s, [0-9.]+ MB a second of processor time' out.log)" = 3 ] || fail "no speeds: $(cat out.log)"
[ "$(wc -l <out.log)" = 3 ] || fail "--quiet prints more than the report"
[ "$("$data" encode </dev/null | wc -w)" = 0 ] || fail "ids of nothing"

[ "$({ printf '\357\273\277' && echo hi | "$data" encode; } | "$data" encode --decode)" = hi ] || fail "a byte order mark before ids"
expect 3 "byte 3: 'x' is not a token id" bash -c "echo 12 x | '$data' encode --decode"
expect 3 "'300' is not a token id" bash -c "echo 300 | '$data' encode --decode"
expect 2 'WEFT_SIMD=sse: not one of' env WEFT_SIMD=sse "$data" encode --input text
expect 2 'leave --threads out' "$data" encode --decode --threads 2
expect 4 'absent' "$data" encode --input absent
echo "all passed"
