#!/usr/bin/env bash
# weft-data as its users meet it: options, messages, exit codes, formats.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1

# --- no vocabulary: says so at once and what to do, exit 7 (the network is not asked: a proxy that is not there)
echo '{"text":"x"}' >one.jsonl
export https_proxy=http://127.0.0.1:9
start=$SECONDS
expect 7 'weft-data train-vocab' "$data" preprocess --input one.jsonl --output-prefix none
[ $((SECONDS - start)) -lt 20 ] || fail "a missing network took $((SECONDS - start)) s to notice"
[ ! -e none_text_document.idx ] || fail "output without vocabulary"
unset https_proxy

make_vocabulary
make_corpus 2000 >corpus.jsonl

# --- help lists every command and option; options are long only
for command in download preprocess info verify inspect train-vocab; do expect 0 "$command" "$data" --help; done
for option in --input --output-prefix --json-keys --append-eod --workers --log-interval --special --empty-docs --on-bad-line \
  --tokenizer-type --vocab-file --merge-file --max-line-bytes --max-bad-lines; do
  expect 0 "$option" "$data" preprocess --help
done
for option in --run --data-path --split --seq-length --seed --train-samples --train-iters --eval-iters --eval-interval \
  --split-name --sample-range --iteration --global-batch-size --format; do
  expect 0 "$option" "$data" inspect samples --help
done
for version in -v --version; do expect 0 'Unicode 16.0' "$data" $version; done
for words in -h help --help; do expect 0 'Usage: weft-data COMMAND' "$data" $words; done
for words in 'merge -h' 'help merge' 'merge --output-prefix --help'; do expect 0 'Usage: weft-data merge [OPTIONS]' "$data" $words; done
for words in 'inspect -h' 'help inspect'; do expect 0 'inspect document' "$data" $words; done
expect 0 'Usage: weft-data inspect samples' "$data" help inspect samples
expect 0 '--max-bad-lines' "$data" --help-all

# --- help fits the terminal, and every command has an example with options that it has
for columns in 80 120; do
  COLUMNS=$columns expect 0 '--max-bad-lines' "$data" --help-all
  # A line is longer only where there is no blank behind the column at which texts begin.
  awk -v n="$columns" 'length($0) > n && index(substr($0, 32, n - 31), " ") { print; bad = 1 } END { exit bad }' out.log ||
    fail "lines of over $columns columns"
done
"$data" --help | sed -nE 's/^  ([a-z-]+( [a-z-]+)?)  +.*/\1/p' | sed 's/ *$//' >commands
[ "$(wc -l <commands)" -ge 20 ] || { cat commands; fail "the list of commands"; }
while read -r command; do
  expect 0 'Example:' "$data" $command --help
  example=$(sed '1,/^Example:/d' out.log)
  grep -qF -- "weft-data $command" <<<"$example" || fail "the example of $command: $example"
  for option in $(grep -oE -- ' --[a-z-]+' <<<"$example" || true); do
    grep -qE -- "^  $option( |$)" out.log || fail "the example of $command has $option, which it does not know"
  done
done <commands

# --- completion of shells and man pages come from the options
expect 0 'complete -o default -F _weft_data weft-data' "$data" completion bash
bash -c '
  source out.log
  complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _weft_data; echo "${COMPREPLY[*]}"; }
  set -e
  [ "$(complete_words weft-data prep)" = preprocess ]
  [[ " $(complete_words weft-data "") " = *" merge "*" inspect "* ]]
  [[ " $(complete_words weft-data inspect "") " = *" samples "*" spikes "* ]]
  [ "$(complete_words weft-data preprocess --input x --outp)" = --output-prefix ]
  [ "$(complete_words weft-data inspect documents --docu)" = "--document --document-list" ] ||
    [[ "$(complete_words weft-data inspect documents --docu)" = --document* ]]
  [ "$(complete_words weft-data preprocess --on-bad-line "")" = "stop skip" ]
  [ -z "$(complete_words weft-data verify "")" ]   # files, by readline
' || fail "completion of bash"
for option in $("$data" preprocess --help | grep -oE -- '^  --[a-z-]+'); do
  grep -qF -- " $option" out.log || fail "no completion for $option"
done
expect 0 '#compdef weft-data' "$data" completion zsh
! command -v zsh >/dev/null || zsh -n out.log || fail "completion of zsh"
expect 0 '.SH COMMANDS' "$data" man
if command -v groff >/dev/null; then
  groff -man -ww -Tutf8 -K utf8 out.log >page 2>warnings || fail "groff"
  [ ! -s warnings ] || { head warnings; fail "the man page has warnings"; }
  sed 's/\x1b\[[0-9;]*m//g; s/.\x08//g' page | grep -F -- '--max-bad-lines N' >/dev/null || fail "the man page lacks an option"
fi

# --- wrong usage: everything at once, with hints, exit 2
expect 2 'did you mean preprocess?' "$data" preproces
expect 2 'did you mean preprocess?' "$data" preproces --help
expect 2 'did you mean samples?' "$data" inspect sample --run r
expect 2 'give one of the commands samples, document' "$data" inspect
expect 2 '--overwrite: options stand behind the command' "$data" --overwrite preprocess --input corpus.jsonl --output-prefix x
expect 2 '--wrokers: unknown option; did you mean --workers?' "$data" preprocess --wrokers 3 --workers x --special maybe
for text in "--workers: 'x' is not an integer" "--special: 'maybe' is none of literal, token, error" '--input is required' \
  '--output-prefix is required' '5 problems'; do
  grep -qF -- "$text" out.log || fail "'$text' is not in the list of problems"
done
expect 2 "--max-bad-lines needs --on-bad-line skip" "$data" preprocess --input corpus.jsonl --output-prefix x --max-bad-lines 5
expect 2 'use an https URL, or --allow-http' "$data" preprocess --input http://example.org/x.jsonl --output-prefix x
expect 2 "--vocab-file and --merge-file belong together" "$data" preprocess --input corpus.jsonl --output-prefix x --vocab-file gpt2/vocab.json
expect 2 "--workers: 0 is too small" "$data" preprocess --input corpus.jsonl --output-prefix x --workers 0

# --- what the file system lacks is said at once, all of it, exit 4
expect 4 "cannot read 'absent.jsonl', 'none.jsonl': No such file" "$data" preprocess --input absent.jsonl corpus.jsonl none.jsonl --output-prefix x
mkdir hollow
expect 4 "cannot read 'hollow' (no file in it has a name of JSON lines" "$data" preprocess --input corpus.jsonl hollow --output-prefix x
expect 4 "cannot read 'absent/vocab.json'" "$data" preprocess --input corpus.jsonl --output-prefix x --vocab-file absent/vocab.json --merge-file gpt2/merges.txt
expect 4 "does not exist; create it first" "$data" preprocess --input corpus.jsonl --output-prefix absent/x
[ -z "$(ls x* 2>/dev/null)" ] || fail "wrong options left $(ls x*)"

# --- Megatron's log, options and files
expect 0 'Processed ' "$data" preprocess --input corpus.jsonl --output-prefix plain --tokenizer-type GPT2BPETokenizer \
  --vocab-file gpt2/vocab.json --merge-file gpt2/merges.txt --json-keys text --append-eod --workers 2 --log-interval 1_000
for line in '^Opening corpus.jsonl$' '^Time to startup: [0-9.e-]*$' '^Processed [12]000 documents ([0-9.]* docs/s, [0-9.]* MB/s).$' \
  '^done: 2000 documents (0 empty), [0-9]* tokens, 0 bad lines, 0 lone surrogates replaced, '; do
  grep -q "$line" out.log || { cat out.log; fail "no line $line"; }
done
[ "$(ls plain*)" = "$(printf 'plain_text_document.%s\n' bin checksums idx manifest.json sources)" ] || fail "files: $(ls plain*)"
expect 0 'sound; 2000 documents' "$data" verify plain_text_document
expect 0 '"inputs"' cat plain_text_document.manifest.json

# --- all formats, by content; standard input; several inputs in order
same() { cmp plain_text_document.bin "$1_text_document.bin" && cmp plain_text_document.idx "$1_text_document.idx"; }
run() { expect 0 '' "$data" preprocess --append-eod "${@:2}" --output-prefix "$1"; same "$1" || fail "$1 differs"; }
head -n 700 corpus.jsonl >a && tail -n +701 corpus.jsonl >b
for tool in gzip xz zstd bzip2; do
  command -v $tool >/dev/null || continue
  $tool -c a >a.packed && $tool -c b >b.packed && cat a.packed b.packed >disguised.txt
  run "format_$tool" --input disguised.txt --workers 3
done
run parts --input a b
run workers --input corpus.jsonl --workers 7
"$data" preprocess --append-eod --input - --output-prefix stdin <corpus.jsonl >out.log 2>&1 && same stdin || fail "standard input"
sed 's/$/\r/' corpus.jsonl >crlf && run crlf --input crlf
tr '\n' '\r' <corpus.jsonl >cr && run cr --input cr
head -c -1 corpus.jsonl >unended && run unended --input unended

# --- standard streams that are closed do not lend their numbers to the dataset; a log that is full is dropped
"$data" preprocess --append-eod --input corpus.jsonl --output-prefix closed --log-interval 1 <&- >&- 2>&- || fail "closed streams"
same closed || fail "messages were written into the dataset"
expect 4 'Bad file descriptor' bash -c "'$data' preprocess --input - --output-prefix closed --overwrite <&-"
"$data" preprocess --append-eod --input corpus.jsonl --output-prefix nolog >/dev/full 2>&1 && same nolog || fail "a full log"
for command in 'info plain_text_document' 'verify plain_text_document' '--help'; do
  expect 5 'standard output' bash -c "'$data' $command >/dev/full"
done

# --- damage: exit 3, with file and offset, under every policy
if command -v zstd >/dev/null; then
  zstd -qc corpus.jsonl >whole.zst && head -c 3000 whole.zst >cut.zst
  expect 3 'cut.zst: zstd data, compressed byte 3000 (after' "$data" preprocess --input cut.zst --output-prefix cut --on-bad-line skip
  # Windows above 128 MiB take a word of the user's: dumps by --long=31, dictionaries that no text of that length fills do no harm.
  zstd -qc --long=31 <corpus.jsonl >window.zst
  expect 9 '--decoder-memory 2147483648' "$data" preprocess --input window.zst --output-prefix window
  [ ! -e window_text_document.idx ] || fail "output of a refused window"
  expect 0 '2000 documents' "$data" preprocess --input window.zst --output-prefix window --decoder-memory 2147483648
  xz -qc --lzma2=preset=0,dict=192MiB <corpus.jsonl >dictionary.xz
  expect 9 '--decoder-memory ' "$data" preprocess --input dictionary.xz --output-prefix dictionary
  needed=$(sed -n 's/.*--decoder-memory \([0-9]*\)$/\1/p' out.log | tail -1)
  expect 0 '2000 documents' "$data" preprocess --input dictionary.xz --output-prefix dictionary --decoder-memory "$needed"
  cmp window_text_document.bin dictionary_text_document.bin || fail "another text"
fi
[ ! -e cut_text_document.idx ] || fail "a truncated input gave a dataset"

: >empty.jsonl.gz
expect 3 'empty.jsonl.gz: has only 0 bytes' "$data" preprocess --input corpus.jsonl empty.jsonl.gz --output-prefix cut
: >empty.jsonl
run with_empty --input corpus.jsonl empty.jsonl

# --- bad lines
{ head -n 3 corpus.jsonl; echo 'nonsense'; echo; head -n 2 corpus.jsonl; } >bad.jsonl
at=$(head -n 3 bad.jsonl | wc -c)
expect 3 "error: bad.jsonl:4: (byte $at) not valid JSON: expected a value" "$data" preprocess --input bad.jsonl --output-prefix bad
[ -z "$(ls bad_* 2>/dev/null)" ] || fail "stop left $(ls bad_*)"
expect 0 '2 bad lines (1 blank line, 1 not valid JSON)' "$data" preprocess --input bad.jsonl --output-prefix bad --on-bad-line skip
grep -qF "bad line: bad.jsonl:5: (byte $((at + 9))) blank line" out.log || fail "the second bad line is not shown"
expect 0 'sound; 5 documents' "$data" verify bad_text_document
expect 3 'no line of the input is a document: 7 bad lines' "$data" preprocess --input bad.jsonl --output-prefix bad2 --on-bad-line skip \
  --json-keys content
[ ! -e bad2_content_document.idx ] || fail "bad lines only gave a dataset"
expect 3 'more bad lines than --max-bad-lines 1 allows' "$data" preprocess --input bad.jsonl --output-prefix bad1 --on-bad-line skip --max-bad-lines 1

# --- a report beside it; later, of what is there already; one for each key
expect 0 'wrote bad.html' "$data" preprocess --input bad.jsonl --output-prefix bad --on-bad-line skip --report bad.html
grep -q '<html' bad.html && grep -q 'blank line' bad.html || fail "the report does not count bad lines"
echo '{"text":"a b","n":"c"}' >two_keys.jsonl
expect 0 'wrote both.n.json' "$data" preprocess --input two_keys.jsonl --output-prefix both --json-keys text n --report both.json
jq -e . both.text.json >/dev/null && jq -e . both.n.json >/dev/null || fail "reports of several keys"
expect 2 "ends in neither .html nor .json" "$data" preprocess --input bad.jsonl --output-prefix bad --report bad.txt

# --- empty documents, special token, several keys
printf '{"text":"","t2":"a"}\n{"text":"b<|endoftext|>","t2":""}\n' >special.jsonl
expect 0 '2 documents (2 empty)' "$data" preprocess --input special.jsonl --output-prefix keys --json-keys text t2
expect 0 'documents: 2 (1 of them empty), sequences: 1' "$data" info keys_text_document
expect 0 'documents: 2 (1 of them empty), sequences: 1' "$data" info keys_t2_document.idx
expect 0 '' "$data" preprocess --input special.jsonl --output-prefix skipped --empty-docs skip
expect 0 'documents: 1 (0 of them empty), sequences: 1' "$data" info skipped_text_document
expect 0 'tokens: 2 ' bash -c "'$data' preprocess --input special.jsonl --output-prefix token --special token && '$data' info token_text_document"
expect 3 'special token in the text' "$data" preprocess --input special.jsonl --output-prefix error --special error

# --- info decodes, escapes; verify finds damage
printf '{"text":"\\u001b[31mred \\u202e"}\n' >escape.jsonl
"$data" preprocess --input escape.jsonl --output-prefix escape >out.log 2>&1
expect 0 'document 0 (' "$data" info escape_text_document --documents 1
grep -qF '\x1B[31mred \u{202E}' out.log || { cat out.log; fail "control characters reached the terminal"; }
cp plain_text_document.bin negative.bin && cp plain_text_document.idx negative.idx
printf '\xff\xff\xff\xff' | dd of=negative.idx bs=1 seek=34 conv=notrunc status=none
expect 3 'length of sequence 0 is -1' "$data" info negative
cp plain_text_document.bin torn.bin && head -c 1000 plain_text_document.idx >torn.idx
expect 3 'torn' "$data" verify torn
expect 3 'torn' "$data" info torn
expect 4 'absent' "$data" info absent
rm -f plain_text_document.checksums # what the structure alone shows
printf '\xff\xff' | dd of=plain_text_document.bin bs=1 seek=40 conv=notrunc status=none
expect 3 '65535' "$data" verify plain_text_document

# --- text is only shown by the vocabulary that made the ids
cp -r gpt2 other && expect 0 '' "$data" preprocess --input one.jsonl --output-prefix other --vocab-file other/vocab.json --merge-file other/merges.txt
expect 0 'document 0 (1 tokens): x' "$data" info other_text_document
rm -r other # the same vocabulary elsewhere will do
expect 0 'document 0 (1 tokens): x' "$data" info other_text_document
expect 0 '' "$data" train-vocab --input corpus.jsonl --vocab-size 290 --output other
expect 0 'document 0 (1 tokens): x' "$data" info other_text_document
expect 0 "vocabulary was not found" env WEFT_GPT2_DIR=other "$data" info other_text_document

# --- train-vocab
expect 2 '--vocab-size is required' "$data" train-vocab --input corpus.jsonl --output v
expect 3 'no document' bash -c "echo bad | '$data' train-vocab --input - --vocab-size 300 --output v"
expect 0 '' "$data" train-vocab --input corpus.jsonl --vocab-size 280 --output v --min-frequency 3
cp -r v v1 && expect 0 '' "$data" train-vocab --input b a --vocab-size 280 --output v --min-frequency 3
diff -r v v1 || fail "the vocabulary depends on the order of documents"
expect 2 "no pattern 'llama' for a tokenizer.json, only gpt2, bloom" "$data" train-vocab --input b --vocab-size 280 --output t --pattern llama
expect 2 '--special-tokens needs --pattern' "$data" train-vocab --input b --vocab-size 280 --output t --special-tokens '</s>'
expect 2 "special token 'a': it is there already" "$data" train-vocab --input b --vocab-size 280 --output t --pattern llama3 --special-tokens a
expect 0 '280 entries' "$data" train-vocab --input b a --vocab-size 280 --output t --pattern llama3 --special-tokens '<pad>' '</s>'
expect 0 '278 279' bash -c "printf '<pad></s>' | '$data' encode --tokenizer t --special token"
expect 0 'pattern llama3; documents end with </s> (279)' "$data" preprocess --input one.jsonl --output-prefix learned --tokenizer t --append-eod
expect 2 'another vocabulary' "$data" train-vocab --input b --vocab-size 270 --output t --pattern llama3

# --- inspect samples: by hand and from a run's manifest
order=(--data-path workers_text_document --split 90,10,0 --seq-length 16 --seed 7 --train-samples 64)
expect 0 'sample 3 of train: 17 tokens from' "$data" inspect samples "${order[@]}" --sample-range 3 4
expect 0 '' "$data" inspect samples "${order[@]}" --sample-range 8 12 --format jsonl
cp out.log by_range
[ "$(wc -l <by_range)" = 4 ] || fail "--format jsonl prints one line a sample"
expect 0 '' "$data" inspect samples "${order[@]}" --iteration 3 --global-batch-size 4 --format jsonl
sed 's/"iteration":3,//' out.log | cmp - by_range || fail "iteration 3 of batch size 4 is samples 8 to 12"
if [ -x "$WEFT_BIN_DIR/weft-train" ]; then
expect 0 '' "$WEFT_BIN_DIR/weft-train" --num-layers 1 --hidden-size 16 --num-attention-heads 1 --seq-length 16 --max-position-embeddings 16 \
  --micro-batch-size 4 --global-batch-size 4 --train-samples 64 --lr 1e-3 --seed 7 --split 90,10,0 --eval-iters 2 --eval-interval 10 \
  --data-path workers_text_document --run-dir run --device cpu
expect 0 '' "$data" inspect samples --run run --iteration 3 --format jsonl
diff <(jq -c .ids out.log) <(jq -c .ids by_range) || fail "--run gives other samples"
expect 0 'sample 0 of valid' "$data" inspect samples --run run --split-name valid --sample-range 0 1
set -o pipefail
"$data" inspect samples --run run --sample-range 0 64 2>err.log | head -n 1 >first || fail "a reader that stops early is an error"
[ ! -s err.log ] || fail "a reader that stops early: $(cat err.log)"
expect 2 '--run already says how the run was trained: leave --seed out' "$data" inspect samples --run run --sample-range 0 1 --seed 1234
expect 2 "iteration 17 is asked for, but the run's last one is 16, by --train-" "$data" inspect samples --run run --iteration 17
expect 0 '' "$data" inspect samples --run run --iteration 16
expect 2 "the run's last one is 16" "$data" inspect samples --run run --iteration 9223372036854775807
expect 2 'test' "$data" inspect samples --run run --split-name test --sample-range 0 1
expect 2 'samples 64000 to 64001 are asked for' "$data" inspect samples --run run --sample-range 64000 64001
fi
expect 2 'give one of --sample-range A B, --iteration I, --iterations A B and --log-line LINE' "$data" inspect samples
grep -qF -- '--data-path is required without --run' out.log || fail "not all problems at once"
expect 4 'run_manifest.json' "$data" inspect samples --run absent --iteration 1
mkdir empty && echo '{}' >empty/run_manifest.json
expect 3 'empty/run_manifest.json: it has no checksum' "$data" inspect samples --run empty --iteration 1
echo "all passed"
