#!/usr/bin/env bash
# Tokenizers of other families through the commands: how they are named, what encode and decode print, datasets and their manifests,
# what is refused.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
golden=$WEFT_SOURCE_DIR/tests/golden/tokenizer
mkdir -p folder hub/models--owner--model/{refs,snapshots/0123abc}
cp "$golden/small_tokenizer.json" folder/tokenizer.json
cp "$golden/small_tokenizer.json" hub/models--owner--model/snapshots/0123abc/tokenizer.json
echo 0123abc >hub/models--owner--model/refs/main
tokenizer=$golden/small_tokenizer.json

# --- encode prints the golden ids, a line for each document, in every mode
ids_of() { sed -E "s/.*\"$1\":(\[[0-9,]*\]).*/\1/" "$golden/added_tokens.jsonl" | sed 's/,/, /g'; }
check_mode() {
  "$data" encode --tokenizer "$tokenizer" --input "$golden/added_tokens.jsonl" --format jsonl "${@:2}" >ids
  cmp ids <(ids_of "$1") || fail "other ids than Hugging Face's, $1"
}
check_mode literal
check_mode literal --special literal
check_mode special --special token
check_mode template --special token --add-special-tokens
[ "$(head -1 ids)" = '[1500, 1501]' ] && [ "$("$data" encode --tokenizer "$tokenizer" --format jsonl <<<'{"text":""}')" = '[]' ] || fail "an empty document"
expect 3 'bad line: ' bash -c "printf '{\"text\":\"a\"}\n{}\n{\"text\":\"b\"}\n' | '$data' encode --tokenizer '$tokenizer' --format jsonl"
expect 3 '<s>' bash -c "echo '{\"text\":\"a<s>\"}' | '$data' encode --tokenizer '$tokenizer' --format jsonl --special error"

# --- decode gives the bytes back
printf '{"text":"The <s> words,\\n\\u00e9\\u4e2d \\ud83d\\ude00 \\"it'"'"'s\\""}\n{"text":""}\n' >texts.jsonl
"$data" encode --tokenizer "$tokenizer" --input texts.jsonl --format jsonl >ids
"$data" decode --tokenizer "$tokenizer" --input ids --format jsonl >back.jsonl
printf '{"text":"The <s> words,\\n\u00e9\u4e2d \U0001f600 \\"it'"'"'s\\""}\n{"text":""}\n' >want.jsonl
cmp back.jsonl want.jsonl || fail "decode is not the inverse of encode"
make_corpus 20000 >text
"$data" encode --tokenizer "$tokenizer" --input text --special token --add-special-tokens >ids
"$data" encode --tokenizer "$tokenizer" --input text --special token --add-special-tokens --threads 3 >other
cmp ids other || fail "other ids with 3 threads"
"$data" decode --tokenizer "$tokenizer" <ids >back
cmp back <(printf '<s>'; cat text; printf '</s>') || fail "decode does not give the bytes back"
for wrong in '[1, x]' '[1.5]' '{"a":1}' '[-1]' '[4294967297]' '[99999]' '[150]'; do
  expect 3 ':2: not the ids of a document' bash -c "printf '[1]\n%s\n' '$wrong' | '$data' decode --tokenizer '$tokenizer' --format jsonl"
done

# --- every way to name it is the same tokenizer
make_corpus 300 >corpus.jsonl
run() { expect 0 '' "$data" preprocess --input corpus.jsonl --append-eod --output-prefix "$1" "${@:2}"; }
run plain --tokenizer "$tokenizer"
grep -qF "tokenizer: $tokenizer, huggingface, 1512 ids" out.log || { cat out.log; fail "the tokenizer is not named"; }
grep -qF 'documents end with <|endoftext|> (1499)' out.log || { cat out.log; fail "the token that ends documents is not named"; }
same() { cmp plain_text_document.bin "$1_text_document.bin" && cmp plain_text_document.idx "$1_text_document.idx" || fail "$1 differs"; }
run folder --tokenizer folder; same folder
run megatron --tokenizer-type HuggingFaceTokenizer --tokenizer-model folder; same megatron
run deepspeed --tokenizer-type PretrainedFromHF --tokenizer-name-or-path folder/tokenizer.json; same deepspeed
HF_HUB_CACHE=$work/hub run hub --tokenizer-type HuggingFaceTokenizer --tokenizer-model owner/model; same hub
mkdir -p "$HOME/.cache/huggingface" && ln -s "$work/hub" "$HOME/.cache/huggingface/hub"
run home --tokenizer owner/model; same home
for text in '"kind": "huggingface"' "$(sha256sum "$tokenizer" | cut -d' ' -f1)" '"size": 1512' '"end_of_document": 1499' '"nfc_version": "9.0"' '"unicode_version"'; do
  grep -qF "$text" plain_text_document.manifest.json || fail "$text is not in the manifest"
done
expect 0 'all ids below 1512' "$data" verify plain_text_document
expect 0 'the quick brown fox' "$data" info plain_text_document
expect 0 'documents without an end-of-document token: 0' "$data" report plain_text_document

# The ids are those of encode, and another token may end documents.
"$data" encode --tokenizer "$tokenizer" --input corpus.jsonl --format jsonl | tr -d '[],' | sed 's/$/ 1499/' >want
python3 -c "import array; a=array.array('H', open('plain_text_document.bin','rb').read()); print(*a)" >got
cmp <(tr '\n' ' ' <want | tr -s ' ' | sed 's/ $//') <(tr -d '\n' <got) || fail "the dataset's ids are not those of encode"
run other --tokenizer folder --eod-token '</s>'
grep -qF 'documents end with </s> (1501)' out.log || fail "--eod-token is not named"
grep -qF '"end_of_document": 1501' other_text_document.manifest.json || fail "--eod-token is not in the manifest"
run other --tokenizer folder --eod-token 1501
grep -qF 'is there already' out.log || fail "a token is the same by text and by id"
expect 2 '--eod-token: was 1501' "$data" preprocess --input corpus.jsonl --append-eod --output-prefix other --tokenizer folder
expect 2 "'nothing' is neither an entry of the tokenizer nor an id below 1512" "$data" preprocess --input corpus.jsonl --append-eod --output-prefix x --tokenizer folder --eod-token nothing

# --- bytes without an entry are dropped, counted and told
sed 's/"ă":/"中":/' "$tokenizer" >lacking.json
seq 2000 | sed 's/.*/{"text": "a\\u0003b & \\u0003"}/' >control.jsonl
expect 0 'warning: the tokenizer has no entry for 4000 bytes of the text' "$data" preprocess --input control.jsonl --output-prefix dropped --tokenizer lacking.json --workers 3
grep -qF '"bytes_without_entry": 4000' dropped_text_document.manifest.json || fail "dropped bytes are not in the manifest"
expect 0 'no entry for 4000 bytes' "$data" encode --input control.jsonl --format jsonl --tokenizer lacking.json
expect 0 'no entry for 1 byte of' bash -c "printf 'a\003b' | '$data' encode --tokenizer lacking.json --repeat 3"
expect 0 'done: ' "$data" preprocess --input control.jsonl --output-prefix whole --tokenizer "$tokenizer"
if grep -q warning out.log || ! grep -qF '"bytes_without_entry": 0' whole_text_document.manifest.json; then fail "bytes with an entry are told as dropped"; fi

# --- a tokenizer without such a token
sed 's/<|endoftext|>/<|unknown_end|>/g; s/<\/s>/<\/unknown>/g; s/<pad>/<unknown_pad>/g' "$tokenizer" >none.json
expect 2 'none of the known tokens that end documents; name one with --eod-token' "$data" preprocess --input corpus.jsonl --append-eod --output-prefix x --tokenizer none.json
expect 0 '' "$data" preprocess --input corpus.jsonl --output-prefix x --tokenizer none.json

# --- another tokenizer is refused, finished or not
expect 2 'another vocabulary' "$data" preprocess --input corpus.jsonl --append-eod --output-prefix plain --tokenizer none.json --eod-token 1499

# --- Megatron-LM's list of ranks: the ids of tiktoken 0.14.0 with the patterns of its tiktoken_tokenizer.py
python3 - <<'LIST' >ranks.json
import base64, json
tokens = [bytes([b]) for b in range(256)] + [b"th", b"the", b" the", b"'s", b"He", b"llo", b"World", b"HelloWorld", b"20", "é".encode(), b"\n\n"]
print(json.dumps([{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": t.decode("utf-8", "ignore")} for i, t in enumerate(tokens)]))
LIST
echo '{"text": "</s>HelloWorld'"'"'s the th\u00e9 2020\n\n/\n don'"'"'t<SPECIAL_9>"}' >megatron.jsonl
megatron=(--tokenizer-type TikTokenizer --tokenizer-model ranks.json --tiktoken-num-special-tokens 10 --vocab-size 277)
behind='269, 268, 42, 266, 275, 42, 60, 58, 60, 58, 276, 57, 20, 42, 110, 121, 120, 49, 126'
expect 0 "[70, 57, 125, 72, 270, 118, 118, 121, 97, 121, 124, 118, 110, $behind, 70, 93, 90, 79, 77, 83, 75, 86, 105, 67, 72]" \
  "$data" encode --format jsonl --input megatron.jsonl "${megatron[@]}" --tiktoken-pattern v1
expect 0 "[2, 273, $behind, 9]" "$data" encode --format jsonl --input megatron.jsonl "${megatron[@]}" --tiktoken-pattern v1 --special token
expect 0 "[2, 270, 118, 118, 121, 272, $behind, 9]" "$data" encode --format jsonl --input megatron.jsonl "${megatron[@]}" --tiktoken-pattern v2 --special token
expect 0 'ranks.json, tiktoken:v2,10,277, 277 ids, pattern tekken; documents end with </s> (2)' "$data" preprocess --input megatron.jsonl --append-eod \
  --output-prefix listed "${megatron[@]}" --tiktoken-pattern v2
expect 0 'thé 2020' "$data" inspect document listed_text_document 0
expect 2 'another vocabulary' "$data" preprocess --input megatron.jsonl --append-eod --output-prefix listed "${megatron[@]}" --tiktoken-pattern v1
expect 3 'do not make a vocabulary of 131072; say by --tiktoken-num-special-tokens' "$data" encode --input megatron.jsonl --tokenizer ranks.json --tiktoken-pattern v2
expect 3 'name its pattern by --tiktoken-pattern v1 or v2' "$data" encode --input megatron.jsonl --tokenizer ranks.json
expect 2 'are for --tiktoken-pattern v1 and v2' "$data" encode --input megatron.jsonl "${megatron[@]}" --tiktoken-pattern cl100k
expect 2 'are for --tiktoken-pattern v1 and v2' "$data" encode --input megatron.jsonl --vocab-size 277

# --- wrong usage and wrong files
preprocess() { "$data" preprocess --input corpus.jsonl --output-prefix y "$@"; }
expect 2 'both say which tokenizer is meant' preprocess --tokenizer folder --tokenizer-model folder
expect 2 'both say which tokenizer is meant' preprocess --tokenizer folder --vocab-file v --merge-file m
expect 2 'needs --tokenizer-model' preprocess --tokenizer-type TikTokenizer
expect 2 'of the kind huggingface, which it does not read' preprocess --tokenizer-type TikTokenizer --tokenizer-model folder
expect 2 'of the kind huggingface, which it does not read' preprocess --tokenizer-type GPT2BPETokenizer --tokenizer folder
expect 2 'is no rank file' preprocess --tokenizer folder --tiktoken-pattern cl100k
mkdir ranks && echo 'YQ== 0' >ranks/a.tiktoken
expect 3 "no pattern 'v2' for rank files (Megatron-LM's v1 and v2 are for its lists in JSON)" preprocess --tokenizer ranks --tiktoken-pattern v2
expect 2 'neither a file nor a folder' preprocess --tokenizer absent/model
expect 2 'hf download absent/model tokenizer.json' preprocess --tokenizer absent/model
expect 2 'holds no tokenizer' preprocess --tokenizer .
expect 2 '--eod-token needs --append-eod' preprocess --tokenizer folder --eod-token 1
echo '{"model":{"type":"WordPiece","vocab":{}}}' >wordpiece.json
expect 3 'WordPiece' preprocess --tokenizer wordpiece.json
head -c 5000 "$tokenizer" >cut.json
expect 3 'cut.json' preprocess --tokenizer cut.json
[ -z "$(ls y* 2>/dev/null)" ] || fail "wrong tokenizers left $(ls y*)"

# --- real vocabularies of more than 65,500 entries: int32, the ids of encode, and a run that was killed goes on
[ -n "${WEFT_TOKENIZERS_DIR:-}" ] && command -v zstd >/dev/null || { echo "all passed, but for real tokenizers: WEFT_TOKENIZERS_DIR is not set"; exit 0; }
for family in llama-3.1 bloom-shaped-70k; do
  zstd -dq "$WEFT_TOKENIZERS_DIR/$family/tokenizer.json.zst" -o $family.json
  zstd -dqf "$WEFT_TOKENIZERS_DIR/golden/soup.jsonl.zst" -o soup.jsonl
  expect 0 '' "$data" preprocess --input soup.jsonl --output-prefix $family --tokenizer $family.json --append-eod --workers 2
  "$data" encode --tokenizer $family.json --input soup.jsonl --format jsonl >ids
  python3 - $family <<'END' || fail "the dataset of $family does not hold the ids of encode"
import array, json, sys
manifest = json.load(open(f"{sys.argv[1]}_text_document.manifest.json"))["vocabulary"]
tokens = array.array("i", open(f"{sys.argv[1]}_text_document.bin", "rb").read())
documents = [json.loads(line) for line in open("ids")]
want = [i for document in documents if document for i in (*document, manifest["end_of_document"])]
assert tokens.tolist() == want
END
  for _ in $(seq 200); do cat soup.jsonl; done >large.jsonl
  command=("$data" preprocess --input large.jsonl --output-prefix killed --overwrite --tokenizer $family.json --append-eod --workers 2)
  # One thread is held up, so that the run cannot end before it is killed.
  WEFT_CRASH_AT=batch_written:100:killed.go "${command[@]}" >/dev/null 2>&1 &
  pid=$!
  for _ in $(seq 200); do [ "$(stat -c %s killed.work/journal 2>/dev/null || echo 0)" -gt 2000 ] && break; sleep 0.05; done
  kill -9 $pid 2>/dev/null && wait $pid 2>/dev/null || true
  [ -e killed.work/journal ] || fail "the run was not killed in its midst"
  "$data" preprocess --input large.jsonl --output-prefix killed --tokenizer folder --append-eod >out.log 2>&1 && fail "another tokenizer went on with the work"
  "${command[@]/--overwrite/--special=literal}" >out.log 2>&1 || { cat out.log; fail "the killed run does not go on"; }
  "${command[@]/killed/whole}" >out.log 2>&1 || { cat out.log; fail "no whole run"; }
  cmp killed_text_document.bin whole_text_document.bin && cmp killed_text_document.idx whole_text_document.idx || fail "the run that was killed made something else"
  rm -rf killed* whole*
done
echo "all passed"
