"""Writes vectors.jsonl: requests with a fixed seed, and how botocore signs them for S3.

Made once with botocore 1.44.8 (pip install botocore):  python3 make_vectors.py >vectors.jsonl
"""
import datetime
import json
import random
import urllib.parse
from unittest import mock

import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ALPHABET = "abcXYZ019-_.~ +=&%$'(,;~!*)@:?#[]{}|\\^`<>\"é漢😀/\t%20"
random.seed(34)


class Recording(botocore.auth.S3SigV4Auth):
    def canonical_request(self, request):
        self.recorded = super().canonical_request(request)
        return self.recorded


def text(most, alphabet=ALPHABET):
    return "".join(random.choices(alphabet, k=random.randint(1, most)))


def words():
    return "".join(random.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789", k=20))


for _ in range(200):
    time = datetime.datetime.fromtimestamp(random.randrange(1_500_000_000, 1_900_000_000), datetime.timezone.utc)
    host = random.choice(["bucket.s3.eu-west-1.amazonaws.com", "s3.us-east-1.amazonaws.com", "127.0.0.1:9000", "storage.googleapis.com"])
    path = "/" + "/".join(text(12) for _ in range(random.randint(1, 5)))
    query = [(text(8), text(20)) for _ in range(random.choice([0, 0, 1, 3, 6]))]
    headers = []
    if random.random() < 0.5:
        headers.append(("If-Match", '"%s"' % words()))
    if random.random() < 0.3:
        headers.append(("x-amz-request-payer", "requester"))
    if random.random() < 0.3:
        headers.append(("X-Amz-Meta-%s" % words(), "  two  or   more spaces "))
    token = random.choice([None, words() + "/+=="])
    access, secret, region = words(), words() + "/+", random.choice(["us-east-1", "eu-central-1", "auto"])
    request = AWSRequest("GET", "http://" + host + urllib.parse.quote(path, safe="/~"), dict(headers), params=query)
    signer = Recording(Credentials(access, secret, token), "s3", region)
    with mock.patch.object(botocore.auth, "get_current_datetime", lambda: time):
        signer.add_auth(request)
    print(json.dumps({
        "host": host, "path": path, "query": query, "headers": headers, "access_key_id": access,
        "secret_access_key": secret, "session_token": token or "", "region": region, "time": int(time.timestamp()),
        "canonical_request": signer.recorded, "authorization": request.headers["Authorization"]}))
