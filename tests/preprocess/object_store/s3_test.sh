#!/usr/bin/env bash
# s3:// and gs:// addresses as inputs and for downloads, against a store that checks signatures and misbehaves.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
source "$WEFT_SOURCE_DIR/tests/preprocess/web/web.sh"
for name in $(env | grep -oE '^(AWS|GS)_[A-Z0-9_]+' || true) STORAGE_EMULATOR_HOST; do unset "$name"; done
export AWS_EC2_METADATA_DISABLED=true WEFT_RETRY_DELAY_MS=10
make_vocabulary
mkdir -p objects/corpus/b
make_corpus 40000 >whole.jsonl
head -n 20000 whole.jsonl >objects/corpus/a.jsonl
tail -n 20000 whole.jsonl | gzip >"objects/corpus/b/é +%20&.jsonl.gz"
echo 'no corpus' >objects/corpus/README.md
cp whole.jsonl objects/whole.jsonl
python3 "$WEFT_SOURCE_DIR/tests/preprocess/object_store/fake_s3.py" objects >port 2>requests &
servers+=($!)
wait_until test -s port
at=http://127.0.0.1:$(cat port)
preprocess() { "$data" preprocess --json-keys text --append-eod --workers 2 "$@"; }
expect 0 '' preprocess --input whole.jsonl --output-prefix file
is_equal() {
  cmp file_text_document.bin "$1_text_document.bin" && cmp file_text_document.idx "$1_text_document.idx" || fail "$1: another dataset"
}
made=0
# gives_whole ARGUMENTS...: the dataset of whole.jsonl
gives_whole() {
  expect 0 '' preprocess --output-prefix "made$((++made))" "$@"
  is_equal made$made
}

# --- usage
expect 2 'no name of a bucket' preprocess --input s3://b/x --output-prefix none
expect 2 'without a path' preprocess --input s3://bucket/x --s3-endpoint "$at/path" --output-prefix none
expect 2 'no AWS credentials found' preprocess --input s3://bucket/x --output-prefix none
expect 2 'GS_ACCESS_KEY_ID' preprocess --input gs://bucket/x --output-prefix none

# --- objects, folders and patterns; http is allowed since the endpoint says so
export AWS_ACCESS_KEY_ID=mine AWS_SECRET_ACCESS_KEY=secret-of-mine AWS_ENDPOINT_URL=$at
gives_whole --input s3://bucket/whole.jsonl
gives_whole --input s3://bucket/corpus/
grep -q '1 other passed over' out.log || fail "the README was not passed over"
gives_whole --input 's3://bucket/corp*/a.jsonl' 's3://bucket/corpus/b/*+*.jsonl.gz'
gives_whole --input 's3://bucket/corpus/a.jsonl' 's3://bucket/corpus/b/é +%20&.jsonl.gz'
printf 'a.jsonl\nb/\n' >objects/list.txt
cp -r objects/corpus/b objects/a.jsonl objects 2>/dev/null || { cp -r objects/corpus/b objects; cp objects/corpus/a.jsonl objects; }
gives_whole --input-list s3://bucket/list.txt
gives_whole --input-list objects/list.txt --input-root s3://bucket/corpus/
grep -q '"version": *"[0-9]* etag' made1_text_document*.json || fail "the manifest has no ETag"

# --- each way to give the endpoint and the keys
unset AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
gives_whole --input s3://public/whole.jsonl --s3-unsigned --s3-endpoint "$at"
tail -n 1 requests | grep -q -- ' - -$' || fail "a request without keys was signed"
at_once=(--input s3://public/whole.jsonl --s3-unsigned --s3-endpoint "$at")
for name in public file; do
  [ $name = public ] && from=("${at_once[@]}") || from=(--input whole.jsonl)
  expect 0 'learned from 40000 documents' "$data" train-vocab "${from[@]}" --vocab-size 280 --output vocabulary-$name
  "$data" encode --format jsonl "${from[@]}" >ids-$name && "$data" encode "${from[@]}" >>ids-$name || fail "encode ${from[*]}"
done
cmp vocabulary-public/merges.txt vocabulary-file/merges.txt && cmp ids-public ids-file || fail "train-vocab and encode read something else from a store"
for command in encode 'train-vocab --vocab-size 280 --output x'; do
  expect 2 '--s3-unsigned and --s3-requester-pays exclude each other' "$data" $command "${at_once[@]}" --s3-requester-pays
done
(
  export STORAGE_EMULATOR_HOST=$at GS_ACCESS_KEY_ID=hmac GS_SECRET_ACCESS_KEY=secret-of-hmac
  gives_whole --input gs://bucket/whole.jsonl
)
tail -n 1 requests | grep -q 'hmac auto$' || fail "gs:// was not signed as Google wants it"
export AWS_ENDPOINT_URL_S3=$at
made=20
(
  mkdir home/.aws
  printf '[default]\naws_access_key_id=filed\naws_secret_access_key=secret-of-filed\nregion=eu-south-3\n' >home/.aws/credentials
  gives_whole --input s3://bucket/whole.jsonl
  rm -r home/.aws
)
tail -n 1 requests | grep -q 'filed eu-south-3$' || fail "the profile was not used"
made=30
(
  echo token-of-pod >pod_token
  export AWS_WEB_IDENTITY_TOKEN_FILE=$PWD/pod_token AWS_ROLE_ARN=arn:aws:iam::1:role/r AWS_ENDPOINT_URL_STS=$at/sts
  gives_whole --input s3://bucket/whole.jsonl
  echo token-of-stranger >pod_token
  expect 7 'InvalidIdentityToken' preprocess --input s3://bucket/whole.jsonl --output-prefix none
  ! grep -q token-of-stranger out.log || fail "a token was shown"
)
grep -q 'temporary-pod' requests || fail "STS was not used"
made=40
(
  export AWS_CONTAINER_CREDENTIALS_FULL_URI=$at/container AWS_CONTAINER_AUTHORIZATION_TOKEN=token-of-container
  gives_whole --input s3://bucket/whole.jsonl  # the first keys have expired
  AWS_CONTAINER_CREDENTIALS_FULL_URI=http://example.org/ expect 2 'may give keys' preprocess --input s3://bucket/x --output-prefix none
)
[ "$(grep -c 'temporary-old' requests)" = 1 ] && grep -q 'temporary-container' requests || fail "expired keys were not replaced once"
made=50
(
  export AWS_EC2_METADATA_DISABLED=false AWS_EC2_METADATA_SERVICE_ENDPOINT=$at
  gives_whole --input s3://bucket/whole.jsonl
)
grep -q 'temporary-instance' requests || fail "the metadata service was not used"

# --- trouble that passes
made=60
export AWS_ACCESS_KEY_ID=mine AWS_SECRET_ACCESS_KEY=secret-of-mine
for bucket in moved malformed slow busy whole part liar; do gives_whole --input s3://$bucket/corpus/; done
[ "$(grep -c '/moved.* 301 ' requests)" = 1 ] || fail "the region of a bucket is learnt once"
gives_whole --input s3://pays/whole.jsonl --s3-requester-pays

# --- trouble that does not: exit 7, and what to do
refused() { expect 7 "$2" preprocess --input "$1" --output-prefix none; }
refused s3://denied/corpus/ 's3:ListBucket'
refused s3://pays/whole.jsonl '--s3-requester-pays'
refused s3://skewed/whole.jsonl 'clock'
refused s3://bucket/missing.jsonl 'slash at its end'
refused s3://changing/whole.jsonl 'has changed'
refused s3://circle/whole.jsonl 'PermanentRedirect'
refused s3://endless/corpus/ 'has no end'
refused s3://commoncrawl/x.gz 'https://data.commoncrawl.org/'
AWS_SECRET_ACCESS_KEY=secret-0815 refused s3://bucket/whole.jsonl 'does not belong to its access key'
AWS_ACCESS_KEY_ID=expired AWS_SECRET_ACCESS_KEY=secret-of-expired refused s3://bucket/whole.jsonl 'have expired'
[ ! -e none_text_document.idx ] || fail "a dataset of half a corpus"

# --- killed in the middle: the rest is asked for; an object that was replaced is refused
kill_held() { # PREFIX
  rm -f release
  held="$data preprocess --json-keys text --append-eod --workers 2 --input s3://held/whole.jsonl --output-prefix $1"
  $held >log_of_held 2>&1 &
  run=$!
  is_noted() { [ "$(wc -l 2>/dev/null <"$1.work/journal" || echo 0)" -ge 2 ]; }
  wait_until is_noted "$1"
  kill -KILL $run
  wait $run 2>/dev/null && fail "not killed"
  touch release
}
kill_held held
expect 0 'going on with the work' $held
is_equal held
grep -q '/held/whole.jsonl 206 bytes=[1-9]' requests || fail "the object was read anew"

# --- downloads, in pieces and of folders
mkdir one all
WEFT_PART_BYTES=100000 expect 0 '' "$data" download s3://bucket/whole.jsonl --output-folder one
cmp whole.jsonl one/whole.jsonl || fail "the download has other bytes"
expect 0 '' "$data" download s3://moved/corpus/ --output-folder all
diff -r objects/corpus all || fail "the folder has other files"

# --- other commands read them as well
expect 0 '' "$data" encode --input s3://bucket/corpus/a.jsonl --special literal --format jsonl
expect 0 'entries learned' "$data" train-vocab --input s3://bucket/corpus/a.jsonl --vocab-size 300 --output learned

# --- no secret is in any file or message
if grep -rlE 'secret-(of|0815)|token-of-(temp|pod|cont|inst)' . --exclude=pod_token --exclude=requests; then fail "a secret is in these files"; fi
echo "all passed"
