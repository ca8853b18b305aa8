#!/usr/bin/env bash
# From a URL to .bin/.idx, beside the same from a local file: processor time (of weft-data alone) and wall time, best of 3 each, for
# one or more programs. 633 MB of text (the corpus twelve times) from an nginx on this machine. Prints a Markdown table.
#
# usage: WEFT_CORPUS_DIR=FOLDER WEFT_GPT2_DIR=FOLDER tests/bench/url_input.sh WEFT_DATA...
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: tests/bench/url_input.sh WEFT_DATA..." >&2; exit 2; }
nginx=$(PATH=$PATH:/usr/sbin command -v nginx)
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
mkdir "$work/www"
for _ in $(seq 12); do
  for part in english code multilingual; do zstd -dcq "${WEFT_CORPUS_DIR:?}/$part.jsonl.zst"; done
done >"$work/www/text.jsonl"
pzstd -q -p 2 -3 "$work/www/text.jsonl" -o "$work/www/frames.jsonl.zst"
zstd -q -3 "$work/www/text.jsonl" -o "$work/www/one-frame.jsonl.zst"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$work/nginx.conf" <<END
daemon off;
master_process off;
pid $work/pid;
error_log $work/error.log;
events { worker_connections 256; }
http { access_log $work/access.log; sendfile on; server { listen 127.0.0.1:$port; root $work/www; } }
END
"$nginx" -p "$work" -c "$work/nginx.conf" -e "$work/error.log" &
server=$!
until (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.1; done

# measure PROGRAM INPUT: processor and wall seconds, of the run with the least processor time.
measure() {
  for _ in 1 2 3; do
    /usr/bin/time -f '%U %S %e' -o "$work/time" "$1" preprocess --input "$2" --output-prefix "$work/out" --append-eod --workers 2 \
      --on-bad-line skip --allow-http --overwrite >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    awk '{ printf "%.2f %.2f\n", $1 + $2, $3 }' "$work/time"
  done | sort -n | head -1
}
echo "| input | program | processor s | MB per processor second | wall s |"
echo "| --- | --- | --- | --- | --- |"
num_bytes=$(stat -c %s "$work/www/text.jsonl")
for file in text.jsonl frames.jsonl.zst one-frame.jsonl.zst; do
  for at in "$work/www" "http://127.0.0.1:$port"; do
    for program in "$@"; do
      read -r processor wall <<<"$(measure "$program" "$at/$file")"
      awk -v n="$num_bytes" -v p="$processor" -v w="$wall" -v what="$file, $([ "$at" = "$work/www" ] && echo file || echo URL)" \
        -v program="$program" 'BEGIN { printf "| %s | %s | %.2f | %.0f | %.2f |\n", what, program, p, n / 1e6 / p, w }'
    done
  done
done
