#!/usr/bin/env bash
# Tables behind addresses give the datasets that the files give, from ranges of them: the wanted columns, once. Skipped (77) without the
# plug-in, python3, or a way to install pyarrow.
python=$(PYTHONDONTWRITEBYTECODE=1 "$WEFT_SOURCE_DIR/tests/tokenizer/test_venv.sh" columnar-venv 'import pyarrow' pyarrow==26.0.1) || python=
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
. "$WEFT_SOURCE_DIR/tests/preprocess/web/web.sh"
. "$WEFT_SOURCE_DIR/tests/preprocess/stores/hub.sh"
[ -e "$WEFT_BIN_DIR/../lib/weft_columnar.so" ] || skip "weft_columnar.so is not built: jobs/install-deps.sh --parquet gets what it needs"
[ -n "$python" ] || skip "no python3 with pyarrow, and it could not be installed"
forget_launchers
make_vocabulary
mkdir -p $one/{fineweb,arrow}
# wide.parquet has 60 row groups, whose column "other" has most of their bytes; tall.parquet one row group of several blocks.
"$python" - $one <<'END'
import os
import random
import sys
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
random.seed(3)
words = [random.randbytes(4).hex() for _ in range(5000)]
text = [" ".join(random.choices(words, k=60)) for _ in range(30000)]
url = [f"https://www.site{i % 7}.org/{i}" for i in range(30000)]
wide = pa.table({"text": text[:3000], "url": url[:3000], "n": range(3000), "other": [random.randbytes(3000) for _ in range(3000)]})
pq.write_table(wide, sys.argv[1] + "/fineweb/wide.parquet", row_group_size=50, compression="snappy")
pq.write_table(wide.slice(0, 500).drop(["other"]), sys.argv[1] + "/small.parquet", row_group_size=100, compression="none")
tall = pa.table({"text": text, "url": url, "n": range(30000)})
pq.write_table(tall, sys.argv[1] + "/fineweb/tall.parquet", row_group_size=10**6, use_dictionary=False, compression="none", data_page_size=1 << 20)
for name, new in [("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)]:
    with new(f"{sys.argv[1]}/arrow/{name}.arrow", wide.schema) as writer:
        writer.write_table(wide.slice(0, 1000), max_chunksize=300)
END
printf 'main %s\n' $commit_1 >hub/o/n/refs
make_certificate
start_hub
run=("$data" preprocess --append-eod --origin-key url --overwrite --workers 2)
for folder in fineweb arrow; do expect 0 wrote "${run[@]}" --input $one/$folder --output-prefix $folder; done
same() { for suffix in bin idx; do cmp "$1_text_document.$suffix" "$2_text_document.$suffix" || fail "$1 and $2 differ: .$suffix"; done; }
# The number of bytes that the storage was asked for, and of its requests.
asked() { sed -n "s/^storage 206 .*bytes=\([0-9]*\)-\([0-9]*\) .*/\1 \2/p" hub.requests | awk '{n += $2 - $1 + 1} END {print n + 0}'; }

echo "from the hub: the same dataset, of the wanted columns only"
: >hub.requests
expect 0 wrote "${run[@]}" --input hf://datasets/o/n@main/fineweb --output-prefix hub
same fineweb hub
bytes=$(($(stat -c %s $one/fineweb/wide.parquet) + $(stat -c %s $one/fineweb/tall.parquet)))
[ "$(asked)" -lt $((bytes * 3 / 4)) ] || fail "$(asked) bytes of $bytes were fetched"
[ "$(grep -c '^hub 302 ' hub.requests)" = 2 ] || fail "a file was resolved more than once"
expect 0 "hf://datasets/o/n@$commit_1/fineweb/wide.parquet" "$data" inspect document hub_text_document 31234
expect 0 'row: 1234' "$data" inspect document hub_text_document 31234
expect 0 'from: site2.org' "$data" inspect document hub_text_document 31234
expect 0 wrote "${run[@]}" --input hf://datasets/o/n@main/arrow --output-prefix hub_arrow
same arrow hub_arrow
expect 0 'left out by --where: 2000 documents' "${run[@]}" --input hf://datasets/o/n/fineweb/wide.parquet --where 'n < 1000' --output-prefix some
expect 0 wrote "${run[@]}" --input $one/fineweb/wide.parquet --limit 1000 --output-prefix first
same first some

echo "shards, ranks and a killed run make the same"
for i in 0 1; do expect 0 '' "${run[@]}" --input hf://datasets/o/n/fineweb --shard $i/2 --output-prefix shard$i; done
expect 0 '' "$data" merge shard{0,1}_text_document --output-prefix merged_text_document
same fineweb merged
for delay in 0.2 0.4; do
  rm -rf killed*
  killed=("$data" preprocess --append-eod --origin-key url --input hf://datasets/o/n/fineweb --output-prefix killed)
  timeout --foreground -s KILL $delay "${killed[@]}" >/dev/null 2>&1 || true
  expect 0 '' "${killed[@]}"
  same fineweb killed
done

echo "addresses expire, servers are busy, files change"
echo 3 >uses
expect 0 wrote "${run[@]}" --input hf://datasets/o/n/fineweb --output-prefix expired
same fineweb expired
grep -q '^storage 403 ' hub.requests || fail "no address has expired"
rm uses
expect 3 'wide.parquet: the column "words" is not there' "${run[@]}" --input hf://datasets/o/n/fineweb/wide.parquet --json-keys words --output-prefix x
head -c 100000 $one/fineweb/wide.parquet >$one/cut.parquet
expect 3 'cut.parquet: cannot be read' "${run[@]}" --input hf://datasets/o/n/cut.parquet --output-prefix x
CONTENT=$one/small.parquet start_server bad
bad=http://127.0.0.1:$(cat bad.port)
web=("${run[@]}" --allow-http)
expect 0 wrote "${run[@]}" --input $one/small.parquet --output-prefix whole
for mode in plain cuts; do
  expect 0 wrote "${web[@]}" --input "$bad/$mode" --output-prefix $mode
  same whole $mode
done
expect 7 'its server gives no ranges of it' "${web[@]}" --input "$bad/norange" --output-prefix x
expect 7 'has changed' "${web[@]}" --input "$bad/changed" --output-prefix x

echo "from a store that checks signatures"
for name in $(env | grep -oE '^(AWS|GS)_[A-Z0-9_]+' || true); do unset "$name"; done
python3 "$WEFT_SOURCE_DIR/tests/preprocess/object_store/fake_s3.py" $one >s3.port 2>s3.requests &
servers+=($!)
wait_until test -s s3.port
export AWS_EC2_METADATA_DISABLED=true AWS_ACCESS_KEY_ID=mine AWS_SECRET_ACCESS_KEY=secret-of-mine AWS_ENDPOINT_URL=http://127.0.0.1:$(cat s3.port)
expect 0 wrote "${run[@]}" --input s3://bucket/fineweb/ --output-prefix s3
same fineweb s3

echo "rank 0 looks for the others"
: >hub.requests
status=0
(
  . "$WEFT_SOURCE_DIR/tests/preprocess/mpi.sh"
  ranks=(mpirun -n 3 "$data" preprocess --workers 1 --append-eod --origin-key url --allow-incoherent-file-system)
  expect 0 '3 ranks make one output together' "${ranks[@]}" --input hf://datasets/o/n/small.parquet --output-prefix ranks
  [ "$(grep -c '^hub 302 ' hub.requests)" -le 2 ] || fail "ranks that read nothing have asked where the file lies"
  expect 0 '' "${ranks[@]}" --input hf://datasets/o/n/fineweb/{tall,wide}.parquet --output-prefix ranks2
  same fineweb ranks2
  expect 0 '' "${ranks[@]}" --input $one/fineweb --output-prefix ranks3
  same fineweb ranks3
  expect 3 'the column "words" is not there' "${ranks[@]}" --input $one/fineweb --json-keys words --output-prefix x
) || status=$?
[ $status = 0 ] || [ $status = 77 ] || exit $status
echo "all passed"
