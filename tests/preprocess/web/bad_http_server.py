"""An HTTP(S) server that misbehaves in the ways that the first component of its paths says.

usage: bad_http_server.py WHOLE [CERTIFICATE KEY]

Writes the file it serves (300 kB of random bytes, or $CONTENT) to WHOLE, prints its port. Logs to stderr, after each answer:
PATH RANGE IF-RANGE AUTHORIZATION NUM_BODY_BYTES, with '-' for what is absent.
"""
import gzip
import http.server
import os
import random
import re
import ssl
import sys
import threading
import time
import urllib.parse

CONTENT = random.Random(1).randbytes(300_000)
if "CONTENT" in os.environ:
    with open(os.environ["CONTENT"], "rb") as given:
        CONTENT = given.read()
OTHER = CONTENT[::-1]
LAST_MODIFIED = "Wed, 21 Oct 2026 07:28:00 GMT"
counts = {}
not_before = {}
lock = threading.Lock()


def wait_for_file(name):
    for _ in range(6000):
        if os.path.exists(name):
            return
        time.sleep(0.01)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or a body waits 40 ms for the acknowledgement of its headers

    def log_message(self, *args):
        pass

    def log(self, num_body_bytes):
        told = [self.headers.get(name) or "-" for name in ("Range", "If-Range", "Authorization")]
        with lock:
            print(self.path, *(t.replace(" ", "_") for t in told), num_body_bytes, file=sys.stderr, flush=True)

    def answer(self, status, headers=(), body=b""):
        self.log(len(body))
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        address = urllib.parse.urlsplit(self.path)
        mode = address.path.split("/")[1]
        query = dict(urllib.parse.parse_qsl(address.query))
        with lock:
            counts[mode] = n = counts.get(mode, 0) + 1
        if mode != "plain":
            self.close_connection = True
        if mode == "missing":
            return self.answer(404)
        if mode == "dies" and not (self.headers.get("Range") or "").startswith("bytes=0-"):
            return self.answer(404)  # behind the first part
        if mode == "busy" and time.monotonic() < not_before.get(mode, 0):
            return self.answer(404)  # for good: it was told to come later
        if mode == "busy" and n <= 2:
            not_before[mode] = time.monotonic() + 1
            return self.answer(503, [("Retry-After", "1")])
        if mode == "throttled" and 2 <= n <= 5:
            return self.answer(429, [("Retry-After", "1")])
        if mode == "loop":
            return self.answer(302, [("Location", "/loop")])
        if mode == "hops" and query["left"] != "0":
            return self.answer(302, [("Location", "/hops?left=%d" % (int(query["left"]) - 1))])
        if mode in ("to", "linked", "gated"):
            if mode == "gated" and self.headers.get("Authorization") != "Bearer " + os.environ.get("CANARY", "?"):
                return self.answer(401)
            linked = [("X-Linked-Etag", '"' + query["sha"] + '"')] if mode == "linked" else []
            return self.answer(302, linked + [("Location", query["url"])])
        if mode == "text":
            return self.answer(200, [], query["text"].encode())
        if mode == "empty":
            return self.answer(200, [("ETag", '"zero"')])
        if mode == "manyheaders":
            self.log(0)
            self.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"h" * 900) for i in range(2000)) + b"\r\n")
            return
        if mode == "endless":
            return self.send_endless()
        self.send_file(mode, n)

    def send_endless(self):
        self.log(0)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for _ in range(1000):  # 64 MB: "no end" for a client that takes 1 MB
                self.wfile.write(b"10000\r\n" + b"e" * 65536 + b"\r\n")
        except OSError:
            pass

    def send_file(self, mode, n):
        content, etag = CONTENT, '"one"'
        if mode == "changed" and n > 2 or mode == "unlike":
            content, etag = OTHER, '"two"'
        if mode == "switched" and os.path.exists("changed_to"):
            with open("changed_to", "rb") as changed:
                content, etag = changed.read(), '"two"'
        if mode == "changing":
            content, etag = OTHER if n % 2 else CONTENT, '"%d"' % n
        if mode in ("weak", "always"):
            etag = 'W/"one"'
        begin, end = 0, len(content)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if_range = self.headers.get("If-Range")
        is_same = if_range in (None, etag, LAST_MODIFIED) or mode == "noifrange"
        is_partial = bool(asked) and is_same and mode != "norange" and not (mode == "sometimes" and n > 3)
        if is_partial:
            begin = int(asked[1])
            end = min(end, int(asked[2]) + 1) if asked[2] else end
        if begin > end:
            return self.answer(416, [("Content-Range", "bytes */%d" % len(content))])
        if mode == "wrongrange" and is_partial and n > 1:
            begin, end = 7, end + 7 - begin
        body = content[begin:end]
        if mode == "encoded":
            body = gzip.compress(body)
        self.send_response(206 if is_partial else 200)
        if is_partial:
            total = 9 * 10**18 if mode == "huge" else len(content)
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{total}")
        if mode != "novalidator" and mode != "dated":
            self.send_header("ETag", etag)
        if mode == "dated":
            self.send_header("Last-Modified", LAST_MODIFIED)
        if mode == "encoded":
            self.send_header("Content-Encoding", "gzip")
        length = len(body)
        if mode == "long" and n <= 3:  # more is promised than comes
            length += 1000
        if mode == "excess":  # more comes than was asked for
            body += b"x" * 1000
            length += 1000
        if mode == "short":  # fewer bytes than Content-Range says
            body = body[: max(1, length // 2)]
            length = len(body)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        cut_after = {"weak": 2, "norange": 2, "sometimes": 4, "changed": 1, "novalidator": 2, "always": 10**9}.get(mode, 0)
        if n <= cut_after:
            body = body[: len(body) // 3]
        if mode in ("cuts", "dated"):
            body = body[:13_000]
        self.log(len(body))
        try:
            if mode == "trickle" and n == 1:
                for i in range(100):
                    self.wfile.write(body[i : i + 1])
                    self.wfile.flush()
                    time.sleep(1)
                return
            num_free = 100 if mode == "held" and n > 6 else len(body) // 2 if mode in ("halfheld", "switched") and n == 2 else 0
            if num_free > 0:
                self.wfile.write(body[:num_free])
                self.wfile.flush()
                wait_for_file("release")
                body = body[num_free:]
            self.wfile.write(body)
        except OSError:
            pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
if len(sys.argv) > 2:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2], sys.argv[3])
    server.socket = context.wrap_socket(server.socket, server_side=True)
with open(sys.argv[1], "wb") as whole:
    whole.write(CONTENT)
print(server.server_address[1], flush=True)
server.serve_forever()
