#!/usr/bin/env bash
# weft-data download: kills and stops, names, lists of checksums, and where HF_TOKEN goes.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
source "$WEFT_SOURCE_DIR/tests/preprocess/web/web.sh"
start_server bad
at=http://127.0.0.1:$(cat bad.port)
sha=$(sha256sum <whole | cut -c 1-64)

# --- killed in the middle, then continued: the server sends only what the state says is missing
held="env WEFT_PART_BYTES=30000 $data download $at/held --output held --allow-http --connections 2 --sha256 $sha"
$held >log_of_held 2>&1 &
run=$!
wait_until grep -sq '"num_bytes":[1-9]' held.part.json # written at the first save
expect 8 'locked' $held
kill -KILL $run
wait $run 2>/dev/null && fail "not killed"
[ ! -e held ] || fail "an incomplete file has the final name"
missing=$(python3 -c 'import json; print(300000 - json.load(open("held.part.json"))["num_bytes"])')
[ "$missing" -gt 0 ] && [ "$missing" -lt 300000 ] || fail "$missing bytes missing"
touch release
num_requests=$(wc -l <bad.requests)
expect 0 "$sha (as expected)" $held
rm held.lock 2>/dev/null || true
is_whole held
served=$(tail -n +$((num_requests + 1)) bad.requests | awk '{n += $5} END {print n}')
[ "$served" = "$missing" ] || fail "$served bytes were sent again, $missing were missing"

# --- stopped while a server that never answers is asked what it has
make_vocabulary
python3 -c 'import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
connections = []
while True:
    connections.append(listener.accept()[0])
    open("asked", "w").close()' >silent.port &
servers+=($!)
wait_until test -s silent.port
"$data" preprocess --input "http://127.0.0.1:$(cat silent.port)/x.jsonl" --allow-http --output-prefix silent >log_of_silent 2>&1 &
run=$!
wait_until test -e asked
kill -TERM $run
code=0 && wait $run || code=$?
[ $code = 143 ] || fail "SIGTERM gave $code: $(cat log_of_silent)"
grep -qF 'stopped by signal 15' log_of_silent || fail "$(cat log_of_silent)"
[ ! -e silent.lock ] || fail "a stopped run has left its lock"

# --- stopped: 128 + 15, continued as well; a state that cannot be right starts over
rm -f release held
$held >log_of_held 2>&1 &
run=$!
wait_until test -s held.part
kill -TERM $run
code=0 && wait $run || code=$?
[ $code = 143 ] || fail "SIGTERM gave $code"
touch release
if [ -e held.part.json ]; then sed -i -E 's/"num_bytes":[0-9]*/"num_bytes":300000/' held.part.json; fi
expect 0 '' $held && is_whole held
expect 0 'is there already, SHA-256 as expected' $held

# --- the n-th call on a file fails, whichever it is: exit 4, never a wrong file, and the same command goes on
for ((n = 1; ; ++n)); do
  [ $n -lt 200 ] || fail "there is no end of calls"
  code=0
  WEFT_PART_BYTES=100000 WEFT_IO_FAIL_AT=$n "$data" download "$at/plain" --output fault --allow-http >log_of_fault 2>&1 || code=$?
  if [ -e fault ]; then cmp whole fault || fail "call $n failed: a wrong file"; fi
  [ $code = 0 ] && break
  [ $code = 4 ] || { cat log_of_fault >&2; fail "call $n failed: exit $code"; }
  # A state without its part would make any file of the part's name one of ours.
  [ -e fault ] || [ ! -e fault.part.json ] || [ -e fault.part ] || fail "call $n failed: a state without its part is left"
  if ((n % 5 == 0)); then
    expect 0 '' "$data" download "$at/plain" --output fault --allow-http --overwrite
    is_whole fault
  fi
  rm -f fault
done
[ $n -gt 8 ] && [ -e fault ] || fail "only $n calls"

# --- the network fails, and then the disk: the network's error stays the first one
for ((n = 1; ; ++n)); do
  [ $n -lt 100 ] || fail "no call of the end failed"
  code=0
  WEFT_PART_BYTES=100000 WEFT_IO_FAIL_AT=$n "$data" download "$at/dies" --output both --allow-http >log_of_both 2>&1 || code=$?
  rm -f both.part*
  if grep -q 'nor can what has come be kept' log_of_both; then
    [ $code = 7 ] || fail "the disk's error hides the network's: exit $code"
    break
  fi
done

# --- a link planted under the name of the part
echo precious >victim
ln -s "$PWD/victim" linked.part
expect 2 "'linked.part' was left by another program, and would" "$data" download "$at/plain" --output linked --allow-http
[ "$(cat victim)" = precious ] || fail "wrote through a symbolic link"

# --- names from URLs: one safe component in the folder; several URLs; checksum lists
mkdir -p folder/inside
get() { "$data" download "$@" --output-folder folder/inside --allow-http; }
expect 0 '' get "$at/plain/..%2f..%2f..%2f.%2e.evil%20n%00me?x=/../y#z"
is_whole folder/inside/evil_n_me
[ "$(find folder -type f)" = folder/inside/evil_n_me ] || fail "written elsewhere: $(find folder)"
rm folder/inside/*
printf '%s  ./a/one\n%s *two\nSHA256 (three) = %s\n' "$sha" "$sha" "$sha" >SHA256SUMS
expect 0 '' get "$at/plain/a/one" "$at/plain/two" --sha256sums SHA256SUMS
[ "$(grep -c 'as expected' out.log)" = 2 ] || fail "not both were checked"
expect 0 'is there already' get "$at/plain/two" "$at/plain/three" --sha256sums "$at/text?text=$(sed 's/ /%20/g' SHA256SUMS | sed ':a;N;$!ba;s/\n/%0a/g')"
is_whole folder/inside/three
expect 3 'has no checksum for' get "$at/plain/four" --sha256sums SHA256SUMS
echo hello >no_list
expect 3 'no_list:1: not a line' get "$at/plain/four" --sha256sums no_list
expect 7 'error: ' get "$at/missing/five" "$at/plain/six"
is_whole folder/inside/six # the others still come

# --- tokens: over TLS, to Hugging Face's address only, dropped at a redirect to another host or port, never shown
make_certificate
export HF_TOKEN=canary-4711 CANARY=canary-4711
start_server hub cert.pem key.pem
start_server cdn cert.pem key.pem
hub=https://localhost:$(cat hub.port) cdn=https://127.0.0.1:$(cat cdn.port)
expect 7 'certificate' "$data" download "$cdn/plain" --output t0
export CURL_CA_BUNDLE=$work/ca.pem
expect 0 '' "$data" download "$cdn/plain" --output t1
expect 7 '401' "$data" download "$hub/gated?url=$cdn/plain" --output t2 # not yet Hugging Face's
export HF_ENDPOINT=$hub
WEFT_PART_BYTES=50000 expect 0 '' "$data" download "$hub/gated?url=$cdn/plain&signature=secret-0815" --output t2
expect 0 '' "$data" download "$hub/gated?url=https://localhost:$(cat cdn.port)/plain" --output t3
expect 0 'as expected' "$data" download "$hub/linked?url=$cdn/plain&sha=$sha" --output t4
expect 6 'expected' "$data" download "$hub/linked?url=$cdn/unlike&sha=$sha" --output t5
renamed=$hub/to?url=$hub/linked%3Furl=$cdn/unlike%26sha=$sha # a repository's former name
expect 6 'expected' "$data" download "$renamed" --output t5
for name in t1 t2 t3 t4; do is_whole $name; done
expect 7 'Protocol "http"' "$data" download "$hub/to?url=$at/plain" --output t6 --allow-http # https to http
HF_ENDPOINT=$at expect 7 '401' "$data" download "$at/gated?url=$at/plain" --output t7 --allow-http # unencrypted
HF_TOKEN=$'canary\r\nX: y' expect 2 'HF_TOKEN' "$data" download "$hub/plain" --output t8
# Where `hf auth login` leaves it; the name before is the stronger one.
mkdir "$HF_HOME" && echo "$HF_TOKEN" >"$HF_HOME/token"
of_file() { env -u HF_TOKEN "${@:1:$#-1}" "$data" download "$hub/gated?url=$cdn/plain" --output "${!#}"; }
expect 0 '' of_file t11
expect 0 '' of_file HF_TOKEN_PATH="$HF_HOME/token" HF_HOME=/nonexistent t12
expect 0 '' of_file HUGGING_FACE_HUB_TOKEN="$HF_TOKEN" HF_HOME=/nonexistent t13
expect 7 '401' of_file HUGGING_FACE_HUB_TOKEN=other t14
expect 7 '401' of_file HF_HUB_DISABLE_IMPLICIT_TOKEN=1 t14
rm -r "$HF_HOME"
HF_TOKEN='' expect 7 'set HF_TOKEN' "$data" download "$hub/gated?url=$cdn/plain" --output t9
# A state is left by the failure: of the URL it shows no query.
expect 7 '' "$data" download "$hub/always?signature=secret-0815" --output t10 --attempts 1
grep -q Bearer_canary-4711 hub.requests || fail "the token was not sent at all"
if grep -rl 'canary\|secret-0815' . --include='*' | grep -v 'hub.requests'; then fail "a secret is in these files"; fi
echo "all passed"
