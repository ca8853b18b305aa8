"""An HTTP server that misbehaves in the ways that its paths say. Prints its port; logs one line per request to stderr."""
import http.server
import random
import re
import sys
import time

CONTENT = random.Random(1).randbytes(300_000)
counts = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        print(self.path, self.headers.get("Range"), self.headers.get("If-Range"), file=sys.stderr, flush=True)

    def answer(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.close_connection = True
        mode = self.path.split("/")[1]
        counts[mode] = counts.get(mode, 0) + 1
        n = counts[mode]
        if mode == "missing":
            return self.answer(404)
        if mode == "busy" and n <= 2:
            return self.answer(503, [("Retry-After", "1")])
        if mode == "loop":
            return self.answer(302, [("Location", "/loop")])
        if mode == "hops" and n <= 3:
            return self.answer(302, [("Location", "/hops")])
        if mode == "to_file":
            return self.answer(302, [("Location", "file:///etc/passwd")])
        self.send_file(mode, n)

    def send_file(self, mode, n):
        content = CONTENT
        etag = '"one"'
        if mode == "changed" and n > 1:
            content, etag = CONTENT[::-1], '"two"'
        if mode in ("weak", "always"):
            etag = 'W/"one"'
        start = 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked and self.headers.get("If-Range") == etag and mode != "norange":
            start = int(asked[1])
        if mode == "wrongrange" and asked:
            start = 7
        body = content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut_after = {"cuts": 5, "changed": 1, "weak": 2, "norange": 2, "wrongrange": 1, "always": 10**9}.get(mode, 0)
        if n <= cut_after:
            body = body[: len(body) // 3]
        if mode == "slow" and n == 1:
            self.wfile.write(body[:100_000])
            self.wfile.flush()
            time.sleep(60)
        self.wfile.write(body)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
with open(sys.argv[1], "wb") as whole:
    whole.write(CONTENT)
print(server.server_address[1], flush=True)
server.serve_forever()
