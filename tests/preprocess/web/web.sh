# Sourced after lib.sh by the tests of downloads: servers on ports from the kernel, ended with the test.
command -v python3 >/dev/null || skip "no python3"
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH HF_HUB_DISABLE_IMPLICIT_TOKEN HF_ENDPOINT CURL_CA_BUNDLE SSL_CERT_FILE
export HF_HOME=$work/huggingface # no token of the user's
servers=()
trap 'for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done; rm -rf "$work"' EXIT

# wait_until COMMAND...: until it succeeds; a minute at most.
wait_until() {
  for _ in $(seq 1200); do
    if "$@"; then return; fi
    sleep 0.05
  done
  fail "waited for a minute: $*"
}

# start_server NAME [CERTIFICATE KEY]: bad_http_server.py; its port in NAME.port, its requests in NAME.requests, and the file that
# it serves in "whole".
start_server() {
  python3 "$WEFT_SOURCE_DIR/tests/preprocess/web/bad_http_server.py" whole "${@:2}" >"$1.port" 2>"$1.requests" &
  servers+=($!)
  wait_until test -s "$1.port"
}

# make_certificate: a certificate authority in ca.pem, and cert.pem with key.pem for localhost and 127.0.0.1.
make_certificate() {
  command -v openssl >/dev/null || skip "no openssl"
  {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -keyout key.pem -out cert.csr
    printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' >extensions
    openssl x509 -req -in cert.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out cert.pem
  } >openssl.log 2>&1 || { cat openssl.log >&2; fail "openssl"; }
}

# requests_of FILE PATH: how many requests for it are in the log.
requests_of() { grep -c "^$2[ ?]" "$1" || true; }

# is_whole NAME: has the served bytes, and nothing is left beside it.
is_whole() {
  cmp whole "$1" || fail "$1 has other bytes"
  [ "$(ls "$1"*)" = "$1" ] || fail "left behind: $(ls "$1"*)"
}
