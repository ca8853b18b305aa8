#!/usr/bin/env bash
# Downloads from a real server, nginx, over TLS with an authority of our own; and datasets straight from it.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
nginx=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v nginx) || skip "no nginx"
source "$WEFT_SOURCE_DIR/tests/preprocess/web/web.sh"
make_certificate
make_vocabulary
mkdir -p www nginx
make_corpus 20000 >www/corpus.jsonl
gzip -k www/corpus.jsonl
xz -k -1 www/corpus.jsonl
zstd -q -k www/corpus.jsonl
: >www/empty
(cd www && sha256sum corpus* >SHA256SUMS)

# nginx cannot ask the kernel for a port: one that is free is tried, another one if somebody was faster.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
start_nginx() {
  port=$(free_port)
  cat >nginx.conf <<END
daemon off;
master_process off;
pid $work/nginx/pid;
error_log $work/nginx/error.log;
events { worker_connections 64; }
http {
  access_log $work/nginx/access.log;
  client_body_temp_path $work/nginx/a; proxy_temp_path $work/nginx/b; fastcgi_temp_path $work/nginx/c;
  uwsgi_temp_path $work/nginx/d; scgi_temp_path $work/nginx/e;
  server {
    listen 127.0.0.1:$port ssl;
    ssl_certificate $work/cert.pem;
    ssl_certificate_key $work/key.pem;
    root $work/www;
    location /moved/ { rewrite ^/moved/(.*) /\$1 redirect; }
    location /gzipped/ { rewrite ^/gzipped/(.*) /\$1 break; gzip on; gzip_types *; gzip_min_length 1; }
  }
}
END
  "$nginx" -p "$work/nginx" -c "$work/nginx.conf" -e "$work/nginx/error.log" &
  server=$!
  has_begun_or_ended() { [ -s nginx/pid ] || ! kill -0 "$server" 2>/dev/null; } # it writes the file when it has the port
  wait_until has_begun_or_ended
  kill -0 "$server" 2>/dev/null
}
for attempt in 1 2 3 4 5; do
  if start_nginx; then break; fi
done
kill -0 "$server" 2>/dev/null || { cat nginx/error.log >&2; fail "nginx does not start"; }
servers+=("$server")
at=https://localhost:$port

expect 7 'certificate' "$data" download "$at/corpus.jsonl"
export SSL_CERT_FILE=$work/ca.pem
export WEFT_PART_BYTES=100000 WEFT_RETRY_DELAY_MS=20
get() { "$data" download --output-folder . "$@"; }

# --- every file by several connections, checked by a list from the same server
expect 0 '' get "$at"/corpus.jsonl{,.gz,.xz,.zst} --sha256sums "$at/SHA256SUMS"
[ "$(grep -c 'as expected' out.log)" = 4 ] || fail "not all were checked"
for name in corpus.jsonl{,.gz,.xz,.zst}; do cmp "$name" "www/$name" || fail "$name"; done
num_parts=$((($(stat -c %s corpus.jsonl) + 99999) / 100000))
[ "$(grep -c '"GET /corpus.jsonl HTTP/1.1" 206' nginx/access.log)" = "$num_parts" ] || fail "not $num_parts ranged requests"
expect 0 '' get "$at/empty" && [ -e empty ] && [ ! -s empty ] || fail "empty"
for kind in moved gzipped; do
  rm corpus.jsonl
  expect 0 'as expected' get "$at/$kind/corpus.jsonl" --sha256sums www/SHA256SUMS
done

# --- a part of an older file: nginx says by its ETag that it is another one now
python3 - <<END
import json, os
url, size = "$at/corpus.jsonl", os.path.getsize("www/corpus.jsonl")
open("old.part", "wb").write(b"x" * 150000)
json.dump({"version": 2, "url": url, "size_bytes": size, "etag": '"123-456"', "last_modified": "",
           "num_bytes": 150000}, open("old.part.json", "w"))
END
expect 0 '' "$data" download "$at/corpus.jsonl" --output old
cmp old www/corpus.jsonl || fail "old and new bytes were mixed"

# --- datasets straight from the server are those of the files
preprocess() { "$data" preprocess --append-eod --workers 2 "$@"; }
expect 0 '' preprocess --input www/corpus.jsonl www/corpus.jsonl --output-prefix file
expect 0 '' preprocess --input "$at"/corpus.jsonl{,.gz} --output-prefix one
expect 0 '' preprocess --input "$at"/moved/corpus.jsonl{.xz,.zst} --output-prefix two
for prefix in one two; do
  for suffix in bin idx; do
    cmp "file_text_document.$suffix" "${prefix}_text_document.$suffix" || fail "$prefix.$suffix"
  done
done
echo "all passed"
