"""The Hugging Face hub and its storage, as far as datasets are read from it: API, resolve, signed addresses that expire.

usage: fake_hub.py FOLDER [CERTIFICATE KEY]

FOLDER/OWNER/NAME/COMMIT holds the files of a commit, FOLDER/OWNER/NAME/refs has a line "BRANCH COMMIT" for each branch. Files of 1,000
bytes and more lie in the storage, at a port of its own. Prints both ports. Logs to stderr: hub|storage STATUS PATH RANGE TOKEN.

Files in the working directory change what it does from the next request on:
  uses     how often the storage takes a signed address before it answers 403
  busy     how many requests get 429; it counts down
  page     how many files a page of the tree has
  hold     the storage sends half of each answer from byte 100,000 on, and the rest once the file is gone
  lie      the storage has other bytes
  endless  the last page of the tree names the first one as the next
  odd      the hub names no text as the commit of a branch
The dataset o/gated needs the token $CANARY of an account that has accepted its conditions; o/private any; all others none.
"""
import hashlib
import http.server
import json
import os
import re
import ssl
import sys
import threading
import time
import urllib.parse

ROOT = sys.argv[1]
CANARY = os.environ.get("CANARY", "?")
lock = threading.Lock()
uses = {}  # of signatures


def number_in(name, default):
    try:
        with open(name) as f:
            return int(f.read())
    except (OSError, ValueError):
        return default


def is_busy():
    with lock:
        left = number_in("busy", 0)
        if left > 0:
            with open("busy", "w") as f:
                f.write(str(left - 1))
        return left > 0


def content_of(path):
    with open(path, "rb") as f:
        return f.read()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def answer(self, status, headers=(), body=b"", sent=None):
        told = [self.headers.get(name, "-").replace(" ", "_") for name in ("Range", "Authorization")]
        with lock:
            print(self.role, status, self.path, *told, file=sys.stderr, flush=True)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if sent is not None:
            self.wfile.write(body[:sent])
            self.wfile.flush()
            while os.path.exists("hold"):
                time.sleep(0.02)
            body = body[sent:]
        self.wfile.write(body)

    def refuse(self, status, code, message):
        headers = [("X-Error-Message", message)] + ([("X-Error-Code", code)] if code else [])
        self.answer(status, headers, json.dumps({"error": message}).encode())

    def answer_range(self, body, headers):
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        begin, end = 0, len(body)
        if asked and self.headers.get("If-Range", "") in ("", dict(headers).get("ETag")):
            begin, end = int(asked[1]), min(end, int(asked[2]) + 1) if asked[2] else end
            if begin >= end:
                return self.answer(416, [("Content-Range", f"bytes */{len(body)}")])
            headers = headers + [("Content-Range", f"bytes {begin}-{end - 1}/{len(body)}")]
            held = (end - begin) // 2 if os.path.exists("hold") and end > 100_000 else None
            return self.answer(206, headers, body[begin:end], held)
        self.answer(200, headers, body)


class Storage(Handler):
    role = "storage"

    def do_GET(self):
        if self.headers.get("Authorization"):
            return self.answer(400, [], b"Only one auth mechanism allowed")
        address = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(address.query))
        with lock:
            uses[query["signature"]] = used = uses.get(query["signature"], 0) + 1
        if used > number_in("uses", 10**9):
            return self.answer(403, [], b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>")
        body = content_of(query["file"])
        if os.path.exists("lie"):
            body = body[::-1]
        # Each address may lead to another storage: its ETag proves nothing.
        self.answer_range(body, [("ETag", '"storage-%s"' % query["signature"])])


class Hub(Handler):
    role = "hub"

    def do_GET(self):
        if is_busy():
            return self.answer(429, [("RateLimit", '"api";r=0;t=1')])
        address = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(address.query))
        parts = [urllib.parse.unquote(part) for part in address.path.split("/")[1:]]
        if parts[0] == "cache":
            return self.answer_range(content_of(query["file"]), [("ETag", query["etag"])])
        is_api = parts[0] == "api"
        _, owner, name, what, revision = parts[is_api : is_api + 5]
        path = "/".join(parts[is_api + 5 :])
        folder = os.path.join(ROOT, owner, name)
        token = self.headers.get("Authorization", "")
        if token not in ("", "Bearer " + CANARY, "Bearer stranger"):
            return self.refuse(401, "", "Invalid credentials in Authorization header")
        if not os.path.isdir(folder) or name == "private" and not token:
            return self.refuse(404 if token else 401, "RepoNotFound", "Repository not found")
        if name == "gated" and token != "Bearer " + CANARY and not (is_api and token):
            return self.refuse(403 if token else 401, "GatedRepo", "Access to dataset o/gated is restricted.")
        with open(os.path.join(folder, "refs")) as refs:
            branches = dict(line.split() for line in refs)
        commit = branches.get(revision, revision)
        top = os.path.join(folder, commit)
        if not os.path.isdir(top):
            return self.refuse(404, "RevisionNotFound", "Invalid rev id: " + revision)
        if what == "revision":
            sha = None if os.path.exists("odd") else commit
            return self.answer(200, [], json.dumps({"id": owner + "/" + name, "sha": sha}).encode())
        at = os.path.join(top, path)
        if what == "tree" and os.path.isdir(at):
            return self.send_tree(top, at, query)
        if what == "resolve" and os.path.isfile(at):
            return self.resolve(at, commit)
        self.refuse(404, "EntryNotFound", "Entry not found")

    def send_tree(self, top, at, query):
        entries = []
        for folder, folders, files in os.walk(at):
            for name in folders + files:
                path = os.path.join(folder, name)
                entry = {"type": "directory" if name in folders else "file", "oid": "0" * 40, "size": 0, "path": os.path.relpath(path, top)}
                if name in files:
                    body = content_of(path)
                    entry["size"] = len(body)
                    if len(body) >= 1000:
                        entry["lfs"] = {"oid": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 130}
                entries.append(entry)
            if query["recursive"] != "true":
                break
        size, begin = number_in("page", 1000), int(query.get("cursor", 0))
        headers = []
        if begin + size < len(entries) or os.path.exists("endless"):
            query["cursor"] = str(begin + size) if begin + size < len(entries) else "0"
            url = "%s://%s%s?%s" % (SCHEME, self.headers["Host"], self.path.split("?")[0], urllib.parse.urlencode(query))
            headers = [("Link", f'<{url}>; rel="next"')]
        self.answer(200, headers, json.dumps(entries[begin : begin + size]).encode())

    def resolve(self, at, commit):
        body = content_of(at)
        if len(body) < 1000:
            etag = '"' + hashlib.sha1(body).hexdigest() + '"'
            query = urllib.parse.urlencode({"file": at, "etag": etag})
            return self.answer(307, [("Location", "/cache?" + query), ("X-Repo-Commit", commit)])
        with lock:
            uses["n"] = signature = uses.get("n", 0) + 1
        query = urllib.parse.urlencode({"file": at, "signature": f"secret-{signature}"})
        sha = hashlib.sha256(body).hexdigest()
        self.answer(
            302,
            [
                ("Location", f"{SCHEME}://127.0.0.1:{storage.server_address[1]}/lfs?{query}"),
                ("X-Repo-Commit", commit),
                ("X-Linked-Etag", f'"{sha}"'),
                ("X-Linked-Size", str(len(body))),
            ],
        )


SCHEME = "https" if len(sys.argv) > 2 else "http"
hub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
storage = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Storage)
for server in (hub, storage):
    server.daemon_threads = True
    if len(sys.argv) > 2:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2], sys.argv[3])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever).start()
print(hub.server_address[1], storage.server_address[1], flush=True)
