#!/usr/bin/env bash
# weft-data download against a server that cuts, lies, redirects in circles and changes files.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
source "$WEFT_SOURCE_DIR/tests/preprocess/web/web.sh"
start_server bad
at=http://127.0.0.1:$(cat bad.port)
sha=$(sha256sum <whole | cut -c 1-64)
python3 -c 'import sys; sys.stdout.buffer.write(open("whole","rb").read()[::-1])' >other
# get PATH OPTION...: into a file of that name; parts far smaller than the file.
export WEFT_PART_BYTES=40000 WEFT_RETRY_DELAY_MS=10
get() { "$data" download "$at/$1" --output "${1%%\?*}" --allow-http "${@:2}"; }

# --- usage
expect 2 'give the URL to download' "$data" download
expect 2 'not an https URL' "$data" download ftp://x/y --output y
expect 2 '--allow-http' "$data" download "$at/plain" --output y
expect 2 'is not 64 hexadecimal digits' "$data" download "$at/plain" --allow-http --output y --sha256 12
expect 2 'does not exist' "$data" download "$at/plain" --allow-http --output absent/y
expect 2 'is for one URL' "$data" download "$at/plain" "$at/cuts" --allow-http --output y
expect 2 'several URLs would be written' "$data" download "$at/plain" "$at/a/plain" --allow-http
expect 2 'does not end in a file name' "$data" download "$at/" --allow-http
expect 2 'holds a user name or password' "$data" download https://me:canary@127.0.0.1/x
grep -q canary out.log && fail "a password was shown"

# --- whole files, over several connections, continued after every cut
expect 0 "$sha (as expected)" get plain --sha256 "${sha^^}" && is_whole plain
[ "$(requests_of bad.requests /plain)" = 8 ] || fail "plain: $(requests_of bad.requests /plain) requests for 8 parts"
[ "$(grep -c '^/plain bytes=[1-9][0-9]*-[0-9]* "one"' bad.requests)" = 7 ] || fail "ranged requests without If-Range"
expect 0 '' get cuts --sha256 "$sha" --attempts 2 && is_whole cuts
[ "$(requests_of bad.requests /cuts)" -ge 24 ] || fail "cuts: $(requests_of bad.requests /cuts) requests"
expect 0 '' get dated --attempts 2 && is_whole dated
grep -q '^/dated bytes=[1-9][0-9]*-[0-9]* Wed,_21_Oct_2026' bad.requests || fail "no If-Range with a date"
for mode in weak norange novalidator sometimes busy wrongrange long short excess empty; do
  expect 0 '' get $mode --attempts 4
  [ $mode = empty ] || is_whole $mode
done
[ -e empty ] && [ ! -s empty ] || fail "no empty file"
grep -q '^/weak bytes=[1-9]' bad.requests && fail "a weak ETag was trusted"
expect 0 '' get 'hops?left=5' && is_whole hops
expect 7 'Maximum (5) redirects' get 'hops?left=6' --overwrite
# Another query may be another file, and the same one is there; what it says is nobody else's.
expect 0 'is there already; --overwrite' get 'hops?left=5'
expect 2 'is there already, but comes from' get 'hops?left=4&key=secret-0815'
grep -q secret-0815 out.log && fail "a query is shown"
# Between its parts the file becomes another one: no mixture, whether or not the server knows If-Range.
expect 0 '' get changed && cmp other changed
expect 0 '' get throttled && is_whole throttled

# --- failures: exit code, URL named, no file under the final name, nothing useless left
expect 7 'the server answered 404 (after 1 attempt)' get missing
expect 7 '/loop: Maximum (5) redirects' get loop
expect 7 '/to: Protocol "file"' get 'to?url=file:///etc/passwd'
expect 6 'expected 0000' get unlike --sha256 "$(printf '0%.0s' $(seq 64))"
expect 7 '(after 3 attempts)' get always --attempts 2
expect 7 'has changed' get changing --attempts 2
expect 7 'Content-Encoding gzip' get encoded
expect 7 'headers' get manyheaders
expect 9 'longer than the limit of 1000000 bytes' get endless --max-bytes 1_000_000
expect 9 'longer than the limit of 1099511627776 bytes' get huge
expect 9 'longer than the limit of 299999 bytes' get plain --overwrite --max-bytes 299_999
is_whole plain
for name in missing loop to unlike always changing encoded manyheaders endless huge; do
  [ -z "$(ls $name* 2>/dev/null)" ] || fail "a failed download left $(ls $name*)"
done
expect 7 'not resolve' "$data" download https://name.invalid/x --output x
# Slower than 1 kB/s: the connection is given up, the file comes over another.
expect 0 '' get trickle --stall-timeout 1 --attempts 100 && is_whole trickle

# --- mirrors
expect 0 "$sha (as expected)" "$data" download "$at/missing" --output m2 --allow-http --sha256 "$sha" --mirror "$at/unlike" "$at/plain"
is_whole m2
expect 6 'expected' "$data" download "$at/unlike" --output m3 --allow-http --sha256 "$sha" --mirror "$at/missing"
[ -z "$(ls m3* 2>/dev/null)" ] || fail "left: $(ls m3*)"
grep -q '/missing: the server answered 404' out.log || fail "the mirror's failure is not told"
# A mirror goes on where the first one broke off, if a checksum will tell; a wrong mixture is fetched again.
expect 0 '' "$data" download "$at/always" --output m4 --allow-http --sha256 "$sha" --attempts 2 --mirror "$at/plain"
is_whole m4

# --- a file of the same name from elsewhere is not "there already"
mkdir a b
expect 0 '' "$data" download "$at/plain" --output-folder a --allow-http
expect 0 'is there already' "$data" download "$at/plain" --output-folder a --allow-http
if python3 -c 'import os; os.getxattr("a/plain", "user.xdg.origin.url")'; then
  expect 2 "'a/plain' is there already, but comes from $at/plain" "$data" download "$at/other/plain" --output-folder a --allow-http
fi
echo "all passed"
