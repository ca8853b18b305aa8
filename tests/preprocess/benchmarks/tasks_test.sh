#!/usr/bin/env bash
# weft-data tasks makes of benchmarks what lm-evaluation-harness makes of them, to the byte; download --benchmark fetches known bytes.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
source "$WEFT_SOURCE_DIR/tests/preprocess/web/web.sh"
source "$WEFT_SOURCE_DIR/tests/preprocess/stores/hub.sh"
golden=$WEFT_SOURCE_DIR/tests/golden/lm_eval
names=(hellaswag lambada_openai arc_easy piqa winogrande mmlu)
mkdir raw tasks
for name in "${names[@]}"; do cp "$golden/$name.rows.jsonl" "raw/$name.jsonl"; done

echo "prompts, endings and labels are lm_eval's"
expect 0 'tasks/mmlu.jsonl: 3 examples' "$data" tasks raw/*.jsonl --output-folder tasks
for name in "${names[@]}"; do cmp "$golden/$name.jsonl" "tasks/$name.jsonl" || fail "$name differs from lm_eval's"; done
cp raw/piqa.jsonl elsewhere.json
expect 0 '' "$data" tasks elsewhere.json --benchmark piqa
cmp piqa.jsonl tasks/piqa.jsonl

echo "so are samples that lm_eval has written, of any task"
expect 0 'arc_easy.jsonl: 3 examples' "$data" tasks "$golden"/samples_*.jsonl
for name in arc_easy lambada_openai; do cmp "$golden/$name.jsonl" "$name.jsonl" || fail "the samples of $name differ"; done

echo "what is wrong is said before anything is written"
expect 2 'give --benchmark, one of hellaswag, ' "$data" tasks elsewhere.json
expect 2 '--benchmark pica: it is none of' "$data" tasks elsewhere.json --benchmark pica
expect 2 "'piqa.jsonl' would be replaced by what is made of it" "$data" tasks piqa.jsonl
expect 2 'another file makes piqa.jsonl, too' "$data" tasks raw/piqa.jsonl elsewhere.json --benchmark piqa --output-folder tasks
expect 2 "--output-folder: 'nowhere' does not exist" "$data" tasks raw/piqa.jsonl --output-folder nowhere
cp tasks/*.jsonl .
refuses() {  # refuses NAME ROW TEXT: behind a good row
  mkdir -p bad && { head -1 "raw/$1.jsonl"; echo "$2"; } >"bad/$1.jsonl"
  expect 3 "bad/$1.jsonl: row 1: $3" "$data" tasks "bad/$1.jsonl"
  cmp "$1.jsonl" "tasks/$1.jsonl" || fail "$1.jsonl was written"
}
refuses piqa '{"goal": "g", "sol1": "a", "sol2": "b", "label": -1}' 'its label -1 is none of the 2 choices'
refuses piqa '{"goal": "g", "sol1": "a"' '[json.exception.parse_error'
refuses piqa '{"goal": "g"}' "[json.exception.out_of_range.403] key 'label' not found"
refuses hellaswag '{"activity_label": "a", "ctx_a": "b", "ctx_b": "c", "endings": ["x", "y"], "label": ""}' 'its label is empty, as those of test sets are'
refuses hellaswag '{"activity_label": "a", "ctx_a": "b", "ctx_b": "über", "endings": ["x", "y"], "label": "0"}' 'a letter beyond ASCII'
refuses arc_easy '{"question": "q", "choices": {"text": ["a"], "label": ["A"]}, "answerKey": "B"}' "no choice has its answerKey 'B'"
refuses winogrande '{"sentence": "s", "option1": "a", "option2": "b", "answer": "1"}' "its sentence has no '_'"
sed 's/"target": "0"/"target": "7"/' "$golden"/samples_arc_easy_*.jsonl >samples_x_2026-01-01T00-00-00.0.jsonl
expect 3 "its target '7' is none of the choices" "$data" tasks samples_x_2026-01-01T00-00-00.0.jsonl
echo '{"arguments": {"gen_args_0": {"arg_0": "a", "arg_1": {"until": ["b"]}}}, "target": "c"}' >samples_x_2026-01-01T00-00-00.0.jsonl
expect 3 'its task lets the model write' "$data" tasks samples_x_2026-01-01T00-00-00.0.jsonl

echo "download --benchmark checks the bytes by the list, or by what the hub says of them"
make_certificate
winogrande=hub/allenai/winogrande/01e74176c63542e6b0bcb004dcdea22d94fb67b5
lambada=hub/EleutherAI/lambada_openai/900124bf3b8235c6daf21033af9948b3f07346c4
mkdir -p $winogrande/winogrande_xl $lambada/data downloads
for folder in $winogrande $lambada; do echo "main ${folder##*/}" >"$folder/../refs"; done
make_corpus 100 | tee $winogrande/winogrande_xl/validation-00000-of-00001.parquet >$lambada/data/lambada_test.jsonl
start_hub
expect 0 'winogrande.parquet: ' "$data" download --benchmark winogrande --output-folder downloads
grep -qF '(as expected)' out.log || fail "the hub's checksum was not used"
cmp downloads/winogrande.parquet $winogrande/winogrande_xl/validation-00000-of-00001.parquet
expect 6 'lambada_test.jsonl' "$data" download --benchmark lambada_openai --output-folder downloads
[ ! -e downloads/lambada_openai.jsonl ] || fail "bytes that are not lambada_openai's were kept"
expect 2 '--benchmark pica: it is none of' "$data" download --benchmark pica
expect 2 'give the URL to download, or --benchmark' "$data" download
expect 2 '--output is for one URL' "$data" download --benchmark piqa --output x
