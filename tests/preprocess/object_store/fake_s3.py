"""An S3 store that checks signatures, and misbehaves in the ways that the names of its buckets say; also the services that give keys.

usage: fake_s3.py FOLDER

Objects are the files of FOLDER, the same in each bucket. The secret of the access key ID is "secret-of-ID". Prints its port. Logs to
stderr, after each answer: METHOD PATH STATUS RANGE IF-MATCH ACCESS_KEY_ID REGION, with '-' for what is absent.
"""
import hashlib
import hmac
import http.server
import json
import os
import re
import sys
import threading
import time
import urllib.parse

FOLDER = sys.argv[1]
counts = {}
lock = threading.Lock()


def count(name):
    with lock:
        counts[name] = counts.get(name, 0) + 1
        return counts[name]


def signature(secret, scope, text):
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def error(code, more=""):
    return f'<?xml version="1.0"?>\n<Error><Code>{code}</Code><Message>said the store</Message>{more}</Error>'.encode()


def keys(name, token_name, seconds=3600):
    expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    return {"AccessKeyId": name, "SecretAccessKey": "secret-of-" + name, token_name: "token-of-" + name, "Expiration": expires}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", headers=()):
        told = [self.headers.get(name) or "-" for name in ("Range", "If-Match")]
        with lock:
            print(self.command, self.path, status, *told, self.access_key, self.region, file=sys.stderr, flush=True)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status == 206 and self.path.startswith("/held/") and count("held") == 2:
            self.wfile.write(body[:len(body) // 2])
            body = body[len(body) // 2:]
            while not os.path.exists("release"):
                time.sleep(0.01)
        self.wfile.write(body)

    def signed_by(self):
        """What is wrong with the signature: "" for nothing."""
        form = r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+/([^/]+)/s3/aws4_request), SignedHeaders=([^,]+), Signature=(\w+)"
        match = re.fullmatch(form, self.headers.get("Authorization") or "")
        if not match:
            return "AccessDenied"
        self.access_key, scope, self.region, names, given = match.groups()
        if self.access_key.startswith("temporary") and self.headers.get("x-amz-security-token") != "token-of-" + self.access_key:
            return "InvalidToken"
        path, _, query = self.path.partition("?")
        lines = "".join(f"{name}:{self.headers[name]}\n" for name in names.split(";"))
        canonical = "\n".join([self.command, path, query, lines, names, self.headers["x-amz-content-sha256"]])
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
        return "" if signature("secret-of-" + self.access_key, scope, text) == given else "SignatureDoesNotMatch"

    def do_PUT(self):
        self.access_key = self.region = "-"
        if self.path == "/latest/api/token" and self.headers.get("X-aws-ec2-metadata-token-ttl-seconds"):
            return self.answer(200, b"token-of-instance")
        self.answer(404)

    def do_service(self, address):
        path, query = address.path, dict(urllib.parse.parse_qsl(address.query))
        roles = "/latest/meta-data/iam/security-credentials/"
        if path.startswith(roles):
            if self.headers.get("X-aws-ec2-metadata-token") != "token-of-instance":
                return self.answer(401)
            body = b"role" if path == roles else json.dumps(keys("temporary-instance", "Token")).encode()
            return self.answer(200, body)
        if path == "/container":
            if self.headers.get("Authorization") != "token-of-container":
                return self.answer(401)
            # The first keys have expired when they are used once, whatever is said of them.
            name = "temporary-old" if count("container") == 1 else "temporary-container"
            return self.answer(200, json.dumps(keys(name, "Token")).encode())
        if query.get("WebIdentityToken") != "token-of-pod" or query.get("RoleArn") != "arn:aws:iam::1:role/r":
            return self.answer(403, b"<ErrorResponse>" + error("InvalidIdentityToken")[22:] + b"</ErrorResponse>")
        members = "".join(f"<{k}>{v}</{k}>" for k, v in keys("temporary-pod", "SessionToken").items())
        name = "AssumeRoleWithWebIdentityRes"
        self.answer(200, f"<{name}ponse><{name}ult><Credentials>{members}</Credentials></{name}ult></{name}ponse>".encode())

    def do_GET(self):
        self.access_key = self.region = "-"
        address = urllib.parse.urlsplit(self.path)
        if address.path.split("/")[1] in ("latest", "container", "sts"):
            return self.do_service(address)
        bucket, _, key = address.path[1:].partition("/")
        key = urllib.parse.unquote(key)
        if bucket == "public":
            return self.do_list(address) if not key else self.do_object(bucket, key)
        problem = self.signed_by()
        if problem:
            return self.answer(403, error(problem))
        if bucket in ("denied", "commoncrawl"):
            return self.answer(403, error("AccessDenied"))
        if bucket == "skewed":
            return self.answer(403, error("RequestTimeTooSkewed"))
        if self.access_key in ("temporary-old", "expired"):
            return self.answer(400, error("ExpiredToken"))
        if bucket == "moved" and self.region != "eu-west-9":
            return self.answer(301, error("PermanentRedirect"), [("x-amz-bucket-region", "eu-west-9")])
        if bucket == "malformed" and self.region != "eu-west-9":
            return self.answer(400, error("AuthorizationHeaderMalformed", "<Region>eu-west-9</Region>"))
        if bucket == "circle":
            return self.answer(301, error("PermanentRedirect"), [("x-amz-bucket-region", "eu-west-9")])
        if bucket == "slow" and count(bucket) % 3 == 1:
            return self.answer(503, error("SlowDown"))
        if bucket == "busy" and count(bucket) % 3 == 1:
            return self.answer(429, error("TooManyRequests"))
        if bucket == "pays" and self.headers.get("x-amz-request-payer") != "requester":
            return self.answer(403, error("AccessDenied"))
        return self.do_list(address) if not key else self.do_object(bucket, key)

    def do_list(self, address):
        query = dict(urllib.parse.parse_qsl(address.query))
        paths = [os.path.relpath(os.path.join(at, name), FOLDER) for at, _, names in os.walk(FOLDER) for name in names]
        found = sorted(p for p in paths if p.startswith(query.get("prefix", "")))
        begin = int(query.get("continuation-token", "0"))
        page, more = found[begin:begin + 2], begin + 2 < len(found)
        contents = "".join(f"<Contents><Key>{urllib.parse.quote_plus(p)}</Key><Size>{os.path.getsize(os.path.join(FOLDER, p))}</Size></Contents>" for p in page)
        if address.path.startswith("/endless"):  # the tokens 0 and 2 by turns
            more, begin = True, 2 * (begin == 0) - 2
        token = f"<NextContinuationToken>{begin + 2}</NextContinuationToken>" if more else ""
        self.answer(200, f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><EncodingType>url</EncodingType>'
                    f"<IsTruncated>{str(more).lower()}</IsTruncated>{contents}{token}</ListBucketResult>".encode())

    def do_object(self, bucket, key):
        path = os.path.join(FOLDER, key)
        if not os.path.isfile(path):
            return self.answer(404, error("NoSuchKey"))
        with open(path, "rb") as file:
            content = file.read()
        if bucket == "changing" and count(bucket) > 1:
            content = content[::-1]
        etag = '"%s-7"' % hashlib.md5(content).hexdigest()  # of an object in parts: no MD5 of it
        if self.headers.get("If-Match") not in (None, etag):
            return self.answer(412, error("PreconditionFailed"))
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        headers = [("ETag", etag), ("Last-Modified", "Wed, 21 Oct 2026 07:28:00 GMT")]
        if not match:
            return self.answer(200, content, headers)
        begin = int(match[1])
        end = min(int(match[2] or len(content)) + 1, len(content))
        if begin >= len(content):
            return self.answer(416, error("InvalidRange"), [("Content-Range", f"bytes */{len(content)}")])
        if bucket in ("whole", "part"):  # the latter as rclone does
            body = content if bucket == "whole" else content[begin:end]
            return self.answer(200, body, headers + [("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")])
        if bucket == "liar":
            return self.answer(206, content[1:1 + end - begin], headers + [("Content-Range", f"bytes 1-{end - begin}/{len(content)}")])
        self.answer(206, content[begin:end], headers + [("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")])


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
