#!/usr/bin/env bash
# The commands of README's "From FineWeb to a Llama", as they stand there: Parquet files of a hub of this test, a tokenizer in the cache under
# Llama's name, and training. Only the model and the run are made smaller. Skipped (77) without the plug-in, or a way to install pyarrow.
python=$(PYTHONDONTWRITEBYTECODE=1 "$WEFT_SOURCE_DIR/tests/tokenizer/test_venv.sh" columnar-venv 'import pyarrow' pyarrow==26.0.1) || python=
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
[ -e "$WEFT_BIN_DIR/../lib/weft_columnar.so" ] || skip "weft_columnar.so is not built: jobs/install-deps.sh --parquet gets what it needs"
[ -n "$python" ] || skip "no python3 with pyarrow, and it could not be installed"
. "$WEFT_SOURCE_DIR/tests/preprocess/web/web.sh"
. "$WEFT_SOURCE_DIR/tests/preprocess/stores/hub.sh"
forget_launchers
unset HF_HUB_CACHE
make_certificate
mkdir -p "hub/HuggingFaceFW/fineweb-edu/$commit_1/sample/10BT" build/release "$HF_HOME/hub/models--meta-llama--Llama-3.1-8B/snapshots/0123abc"
ln -s "$WEFT_BIN_DIR" build/release/bin
echo "main $commit_1" >hub/HuggingFaceFW/fineweb-edu/refs
"$python" - "hub/HuggingFaceFW/fineweb-edu/$commit_1/sample/10BT" <<'TABLES' || fail "pyarrow did not write the tables"
import json, sys
import pyarrow as pa, pyarrow.parquet as pq
# FineWeb-Edu's columns
rows = [{"text": f"Page {i} of the web: " + "the quick brown fox " * (i % 50 + 1), "id": f"<urn:uuid:{i}>", "dump": "CC-MAIN-2024-10", "url": f"https://site-{i % 7}.example/{i}",
         "language": "en" if i % 5 else "fr", "language_score": 0.9, "token_count": i, "score": i % 50 / 10, "int_score": i % 50 // 10} for i in range(4000)]
for part in range(3):
    pq.write_table(pa.Table.from_pylist(rows[part::3]), f"{sys.argv[1]}/{part:03}_00000.parquet", compression="snappy", row_group_size=1000)
with open("wanted.jsonl", "w") as out:
    for part in range(3):
        out.writelines(json.dumps(row) + "\n" for row in rows[part::3] if row["int_score"] >= 4 and row["language"] == "en")
TABLES
expect 0 '' "$data" train-vocab --input wanted.jsonl --vocab-size 400 --pattern llama3 --special-tokens '<|begin_of_text|>' '<|end_of_text|>' \
  --output "$HF_HOME/hub/models--meta-llama--Llama-3.1-8B/snapshots/0123abc"
start_hub

commands=$(sed -n '/^## From FineWeb to a Llama/,/^## /p' "$WEFT_SOURCE_DIR/README.md" | sed -n 's/^    //p' | sed -e ':a' -e '/\\$/N; s/\\\n//; ta')
[ "$(grep -c '^build/release/bin/weft-' <<<"$commands")" = 3 ] || fail "README has no three commands under 'From FineWeb to a Llama'"
while IFS= read -r command; do
  small=$(sed -E 's/--num-layers [0-9]+/--num-layers 2/; s/--hidden-size [0-9]+/--hidden-size 64/; s/--ffn-hidden-size [0-9]+/--ffn-hidden-size 128/
    s/--num-attention-heads [0-9]+/--num-attention-heads 4/; s/--num-query-groups [0-9]+/--num-query-groups 2/
    s/--seq-length [0-9]+/--seq-length 64/; s/--max-position-embeddings [0-9]+/--max-position-embeddings 64/
    s/--micro-batch-size [0-9]+/--micro-batch-size 2/; s/--global-batch-size [0-9]+/--global-batch-size 4/
    s/--train-iters [0-9]+/--train-iters 12 --split 90,10,0 --eval-iters 1 --device cpu/; s/--lr-warmup-iters [0-9]+/--lr-warmup-iters 2/
    s/--save-interval [0-9]+/--save-interval 10/; s/--iteration [0-9]+/--iteration 7/; s/--workers [0-9]+/--workers 2/' <<<"$command")
  echo "+ $small"
  eval "$small" >out.log 2>&1 </dev/null || { cat out.log; fail "$small"; }
done <<<"$commands"

expect 0 '' "$data" preprocess --input wanted.jsonl --tokenizer meta-llama/Llama-3.1-8B --append-eod --output-prefix wanted
for suffix in bin idx; do cmp wanted_text_document.$suffix fineweb-edu_text_document.$suffix || fail "other documents than those that are wanted: .$suffix"; done
grep -qF "fineweb-edu@$commit_1/sample/10BT/000_00000.parquet" fineweb-edu_text_document.manifest.json || fail "the manifest names no commit"
[ -f llama/latest_checkpointed_iteration.txt ] || fail "no checkpoint"
echo "all passed"
