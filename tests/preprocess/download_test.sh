#!/usr/bin/env bash
# weft-data download against a server that cuts, lies, redirects in circles and changes files.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
command -v python3 >/dev/null || skip "no python3"
unset http_proxy https_proxy all_proxy
python3 "$WEFT_SOURCE_DIR/tests/preprocess/bad_http_server.py" whole >port 2>requests &
server=$!
trap 'kill $server; rm -rf "$work"' EXIT
for _ in $(seq 100); do [ -s port ] && break; sleep 0.05; done
at=http://127.0.0.1:$(cat port)
sha=$(sha256sum <whole | cut -c 1-64)
get() { "$data" download "$at/$1" --output "$1" --allow-http "${@:2}"; }
whole() { cmp whole "$1" && [ "$(ls "$1"*)" = "$1" ] || fail "$1: $(ls -l "$1"*)"; }

# --- usage
expect 2 'give the URL to download' "$data" download
expect 2 'not an https URL' "$data" download ftp://x/y --output y
expect 2 '--allow-http' "$data" download "$at/plain" --output y
expect 2 'is not 64 hexadecimal digits' "$data" download "$at/plain" --output y --sha256 12
expect 2 'does not exist' "$data" download "$at/plain" --output absent/y

# --- whole files: checked, continued after each cut, restarted where that cannot be proven right
expect 0 "$sha" get plain --sha256 "${sha^^}" && whole plain
expect 0 '' get cuts --sha256 "$sha" --attempts 2 && whole cuts
[ "$(grep -c '^/cuts' requests)" = 6 ] || fail "cuts: $(grep -c '^/cuts' requests) requests"
grep -q '^/cuts bytes=100000- "one"' requests || fail "the second request did not ask for the rest"
expect 0 '' get weak && whole weak
grep -q '^/weak bytes' requests && fail "a weak ETag was trusted"
expect 0 '' get norange && whole norange
expect 0 '' get busy && whole busy
expect 0 '' get hops && whole hops
expect 0 '' get wrongrange && whole wrongrange
expect 0 '' get changed
cmp <(python3 -c 'import sys; sys.stdout.buffer.write(open("whole","rb").read()[::-1])') changed || fail "changed: mixed"

# --- failures: exit code, URL named, no file under the final name
expect 7 'the server answered 404 (after 1 attempt)' get missing
expect 7 '/loop: ' get loop
expect 7 '/to_file: ' get to_file
expect 6 'expected 0000' get other --sha256 "$(printf '0%.0s' $(seq 64))"
expect 7 '(after 3 attempts)' get always --attempts 2
for name in missing loop to_file other always; do [ ! -e $name ] || fail "$name exists"; done
[ -z "$(ls missing* loop* to_file* other* 2>/dev/null)" ] || fail "failed downloads left files"
[ -s always.part ] || fail "what was received is gone"
expect 7 'not resolve' env -u http_proxy "$data" download https://name.invalid/x --output x

# --- stopped, then continued
"$data" download "$at/slow" --output slow --allow-http >log_of_slow 2>&1 &
run=$!
for _ in $(seq 100); do [ "$(stat -c %s slow.part 2>/dev/null || echo 0)" -ge 100000 ] && break; sleep 0.05; done
"$data" download "$at/slow" --output slow --allow-http >second.log 2>&1 && fail "two downloads of one file"
grep -q 'locked' second.log || fail "no lock"
kill -TERM $run
code=0 && wait $run || code=$?
[ $code = 143 ] || fail "SIGTERM gave $code"
expect 0 '' get slow --sha256 "$sha" && whole slow
grep -q '^/slow bytes=100000- "one"' requests || fail "the download started over"
echo "all passed"
