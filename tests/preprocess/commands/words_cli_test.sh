#!/usr/bin/env bash
# weft-data is given something else than it wants: its first message has to tell what to do.
gpt2=${WEFT_GPT2_DIR:-}
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
make_vocabulary

# said FILE TEXT [OPTION...]: preprocess ends with exit 3, says so, and leaves nothing.
said() {
  local file=$1 text=$2
  shift 2
  expect 3 "$text" "$data" preprocess --input "$file" --output-prefix x "$@"
  [ -z "$(ls -d x_* 2>/dev/null)" ] || fail "$file left $(ls -d x_*)"
}
# holds TEXT PRINTF_FORMAT [PACKER...]: a file of these bytes, and noise behind them that is no text.
holds() {
  local text=$1 format=$2
  shift 2
  { printf "$format" && printf '\377\001\n%.0s' {1..200}; } >corpus
  [ $# = 0 ] || { "$@" -c corpus >packed && mv packed corpus; }
  said corpus "this is $text"
}

# --- other kinds of files, by their first bytes, also within compressed data
holds 'a Parquet file' 'PAR1\025\004' gzip
holds 'an Arrow file' 'ARROW1\0\0' gzip
holds 'a zip archive: unpack it first (unzip FILE)' 'PK\003\004'
holds 'a 7z archive' '7z\274\257\047\034'
holds 'lz4 data' '\004\042\115\030'
holds 'gzip data within compressed data' '\037\213\010\000' gzip
holds 'the .idx of a dataset' 'MMIDIDX\0\0\001'
holds 'a pointer of Git LFS: fetch the file itself (git lfs pull)' 'version https://git-lfs.github.com/spec/v1\n'
holds "a web page, perhaps a server's message" '<!DOCTYPE html>\n<html>'
holds 'a stretch of zero bytes: the file is damaged' '\0\0\0\0\0'
echo '{"text":"a"}' >one.jsonl
tar -cf a.tar one.jsonl
said a.tar 'this is a tar archive: unpack it first (tar -xf FILE)'
gzip a.tar
said a.tar.gz 'this is a tar archive'

# --- other encodings
for code in UTF-16 UTF-16LE UTF-16BE UTF-32; do
  iconv -f UTF-8 -t $code one.jsonl >corpus
  said corpus "convert it first (iconv -f $code -t UTF-8 FILE)"
done
printf '\357\273\277{"text":"a"}\n' >corpus
said corpus "byte order mark; remove it; tail -c +4 FILE"
printf '{"text":"a"}\n\357\273\277{"text":"b"}\n' >corpus
said corpus "corpus:2: (byte 13) not valid JSON: the line starts with a byte order mark; remove it; several files with such marks were put together: LC_ALL=C sed 's/^\xEF\xBB\xBF//' FILE"
printf '{"text":"caf\351"}\n' >corpus
said corpus 'corpus:1: (byte 0) invalid UTF-8: byte 0xE9, at byte 12 of the line'

# --- JSON, but not one object a line
array="this looks like one JSON array: write its elements on lines of their own (jq -c '.[]' FILE)"
echo '[{"text":"a"},{"text":"b"}]' >corpus && said corpus "$array"
printf '[\n  {"text":"a"},\n  {"text":"b"}\n]\n' >corpus && said corpus "$array"
expect 3 "$array" bash -c "'$data' preprocess --input - --output-prefix x <corpus" # a pipe cannot be read again
printf '{\n  "text": "a"\n}\n' >corpus && said corpus 'this looks like an object over several lines: write each on one line (jq -c . FILE)'
echo '{"text":"a"}{"text":"b"}' >corpus && said corpus 'several objects on one line'
{ printf '{"text":"a","n":'; printf '{"n":%.0s' {1..2000}; printf '1'; printf '}%.0s' {0..2000}; echo; } >corpus
said corpus 'more than 990 brackets within each other are refused'
printf '{"text":"a"},\n{"text":"b"}\n' >corpus && said corpus 'a comma behind the object'
echo "{'text': 'a'}" >corpus && said corpus "Python's notation of a dict"
echo 'a text' >corpus && said corpus "input is JSON lines, one {\"text\": \"...\"} on each; --input-format text makes one document of each text file, or of each of its lines"
printf '{"text":"a"}\nnonsense\n' >corpus
said corpus 'corpus:2: (byte 13) not valid JSON: expected a value'
! grep -q 'jq' out.log || fail "one broken line is taken for a text file"
echo '{"text":null}' >corpus && said corpus 'not a string: the value of "text", at byte 8 of the line; it is null'

# --- keys
echo '{"title":"t","body":"b","n":1}' >corpus
said corpus 'missing key: "text"; the line has the keys "title", "body", "n"'
said corpus 'missing key: "title,body"; the line has the keys "title", "body", "n"; --json-keys wants spaces between keys: --json-keys title body' \
  --json-keys title,body
said corpus 'bad line: corpus:1: (byte 0) missing key: "text"; the line has the keys "title"' --on-bad-line skip
printf '{"\\u001b[31m":"t","%s":1,"%s":2}\n' "$(printf 'k%.0s' {1..60})" "$(seq -s '":1,"' 1 9)" >corpus
said corpus 'the line has the keys "\\u001b[31m", "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk...", "1", "2", "3", "4", "5", "6" and 3 more'
echo '{"meta":{"title":"t","deep":{}},"n":1}' >corpus
said corpus 'missing key: "meta.text"; "meta" has the keys "title", "deep"' --json-keys meta.text
said corpus 'missing key: "meta.deep.text"; "deep" has no keys' --json-keys meta.deep.text
said corpus 'missing key: "text"; the line has the keys "meta", "n"'
expect 2 "--json-keys: 'meta.' has an empty key in it" "$data" preprocess --input corpus --output-prefix x --json-keys meta.
echo '{"meta":{"text":"a"},"x.y":"b"}' >corpus
expect 0 'wrote nested_x.y_document.bin and .idx: 1 documents' "$data" preprocess --input corpus --output-prefix nested --json-keys meta.text x.y
echo '{}' >corpus && said corpus 'the line has no keys'
{ printf '{'; seq -s, 1 1000000 | sed 's/[0-9][0-9]*/"k&":0/g' | tr -d '\n'; echo '}'; } >corpus # of so many the hint is as quick
said corpus '"k7", "k8" and 999992 more'

# --- what is there already was made of something else: the difference has a name
differs() { expect 2 "$1; give --overwrite to replace it, or another --output-prefix" "$data" preprocess --output-prefix there "${@:2}"; }
echo '{"text":"b"}' >two.jsonl
expect 0 '' "$data" preprocess --input one.jsonl --output-prefix there
expect 0 'is there already' "$data" preprocess --input one.jsonl --output-prefix there --workers 2
differs "'there_text_document.idx' is a finished dataset, made with other options (--append-eod: was false, is true)" --input one.jsonl --append-eod
differs 'made with other options (--dtype: was "uint16", is "int32"; --special: was "literal", is "token")' --input one.jsonl --special token --dtype int32
differs 'made with other options (--json-keys: was "text", is "text n")' --input one.jsonl --json-keys text n
differs "made from other inputs (input 1: was 'one.jsonl', is 'two.jsonl')" --input two.jsonl
differs 'made from other inputs (inputs: was 1 of them, is 2, '\''two.jsonl'\'' in addition)' --input one.jsonl two.jsonl
expect 0 '' "$data" train-vocab --input vocabulary.jsonl --vocab-size 280 --output other
differs 'made with other options (another vocabulary)' --input one.jsonl --vocab-file other/vocab.json --merge-file other/merges.txt
echo '{"text":"c"}' >>one.jsonl
differs "made from other inputs (the input 'one.jsonl' has changed)" --input one.jsonl
rm there_text_document.manifest.json
differs 'which has no manifest: it was not made by this command' --input one.jsonl
"$data" preprocess --input - --output-prefix piped <one.jsonl >/dev/null 2>&1
expect 2 'made from an input of which nobody knows whether it is the same' "$data" preprocess --input - --output-prefix piped

for name in a b; do expect 0 '' "$data" preprocess --input one.jsonl --output-prefix $name; done
merged() { expect 2 "'m.idx' is a finished dataset, $1; give --overwrite" "$data" merge "${@:2}" --output-prefix m; }
expect 0 'wrote m.bin' "$data" merge a_text_document b_text_document --output-prefix m
expect 0 'is there already' "$data" merge a_text_document b_text_document --output-prefix m
merged "made of other parts (part 1: was \"$PWD/a_text_document\", is \"$PWD/b_text_document\")" b_text_document a_text_document
merged 'made of other parts (was 2 of them, is 1)' a_text_document
touch -d 2100-01-01 b_text_document.idx # times do not tell
expect 0 'is there already' "$data" merge a_text_document b_text_document --output-prefix m
rm m.manifest.json
merged 'which has no manifest: it was not made by this command' a_text_document b_text_document
expect 0 '' "$data" preprocess --input one.jsonl --output-prefix wide --dtype int32
expect 3 'its tokens are int32, those of a_text_document.idx are uint16: datasets of different token types cannot be merged' \
  "$data" merge a_text_document wide_text_document --output-prefix x
printf '\006' | dd of=wide_text_document.idx bs=1 seek=17 conv=notrunc status=none
expect 3 'token type code 6 at byte 17 is float64, a floating-point type' "$data" info wide_text_document

# --- the command line: what is wrong, and where all options are listed
wrong() { expect 2 "$1" "$data" "${@:2}" && grep -qF -- "--help lists" out.log || fail "no word of --help: ${*:2}"; }
p=(preprocess --input one.jsonl --output-prefix x)
wrong '--workers: its value is missing' "${p[@]}" --workers
wrong "--output-prefix: its value is missing; if it is '--append-eod', write --output-prefix=--append-eod" \
  preprocess --input one.jsonl --output-prefix --append-eod
for words in '--output-prefix= --append-eod' '--output-prefix x --origin-key --append-eod' '--output-prefix x --json-keys --append-eod' \
  '--output-prefix --' '--output-prefix'; do
  wrong 'its value is missing' preprocess --input one.jsonl $words
done
wrong '--output-prefix: its value is missing' merge --output-prefix --overwrite a a
for option in --tokenizer --shard --where; do
  wrong "$option: its value is empty: a variable that is not set?" preprocess --input one.jsonl --output-prefix x $option ''
done
wrong '--sha256: its value is empty' download https://host.example/x --sha256 ''
wrong '--input: its value is missing' preprocess --input --output-prefix x --wrokers 2
grep -qF -- '--wrokers: unknown option' out.log || fail "not all problems at once: $(cat out.log)"
[ -z "$(ls -d ./-* ./x_* 2>/dev/null)" ] || fail "a missing value gave $(ls)"
expect 0 'wrote --x_text_document.bin' "$data" preprocess --input one.jsonl --output-prefix=--x --append-eod
! grep -qF 'without --append-eod' out.log || fail "--append-eod was given"
rm -f ./--x_*
wrong '--workers: is given 2 times, give it once' "${p[@]}" --workers 2 --workers 3
wrong '--workers: 99999999999999999999 is too large, the most is 1024' "${p[@]}" --workers 99999999999999999999
wrong '--workers: -99999999999999999999 is too small, the least is 1' "${p[@]}" --workers -99999999999999999999
wrong '--append-eod: takes no value' "${p[@]}" --append-eod=perhaps
wrong "--input: '-' is given twice: standard input can be read once" preprocess --input - one.jsonl - --output-prefix x
expect 2 "'-' and '/dev/stdin' are both standard input, which can be read once" \
  bash -c "echo '{\"text\":\"a\"}' | '$data' preprocess --input - /dev/stdin --output-prefix x"
expect 2 "'-' is given twice" "$data" train-vocab --input - - --vocab-size 300 --output v
# options and addresses of other programs
for option in '--vocab: unknown option; it is called --vocab-file' '--output: unknown option; it is called --output-prefix' \
  '--dataset-impl: unknown option; leave it out' '--chunk-size: unknown option; leave it out' \
  '--split-sentences: unknown option; documents are not split' '--keep-newlines: unknown option; leave it out'; do
  wrong "$option" preprocess --input one.jsonl "${option%%:*}" y
done
wrong "'file:///x.jsonl': not an https URL; give the path itself" preprocess --input file:///x.jsonl --output-prefix x
wrong "'az://b/x.jsonl': not an https URL; give its https address" preprocess --input az://b/x.jsonl --output-prefix x
wrong "'hf://x.jsonl': is not of a dataset; an address of the hub is hf://datasets/OWNER/NAME" preprocess --input hf://x.jsonl --output-prefix x
wrong "'one.jsonl' is a file; give a folder" train-vocab --input one.jsonl --vocab-size 300 --output one.jsonl
wrong '--sample-range: its value is missing' inspect samples --sample-range
grep -qF 'weft-data inspect samples --help' out.log || fail "another command's --help: $(cat out.log)"
echo '[{"text":"a"}]' >corpus
expect 3 "no document in the input, 1 bad line (1 not a JSON object); the first one: corpus:1: (byte 0) not a JSON object; $array" \
  "$data" train-vocab --input corpus --vocab-size 300 --output v

# --- names
given() { expect 4 "cannot read '$1'$2: No such file" "$data" preprocess --input "$1" --output-prefix x; }
given 'absent*.jsonl' ' (no file fits the pattern)'
given '~/x.jsonl' ' (~ is not replaced within quotes: give $HOME)'
given 'C:\data\x.jsonl' ' (a Windows path: within WSL, C:\ is /mnt/c/)'
given 'one.jsonl,' ' (names are separated by spaces, not by commas)'
expect 4 "cannot read '' (an empty name: a variable that is not set?)" "$data" preprocess --input one.jsonl '' --output-prefix x
given absent ''
nearly="no dataset file 'a.idx'; there is 'a_text_document': No such file"
for command in 'info a' 'verify a' 'report a' 'inspect document a 0' 'merge a --output-prefix q'; do expect 4 "$nearly" "$data" $command; done

cp a_text_document.bin lost.bin
for command in info verify report; do expect 4 'weft-data repair' "$data" $command lost; done

# --- a vocabulary is not replaced by another one unless asked for
cp -r gpt2 kept
expect 2 "'kept/merges.txt', 'kept/vocab.json': another vocabulary" "$data" train-vocab --input vocabulary.jsonl --vocab-size 280 --output kept
diff -r gpt2 kept || fail "a vocabulary was replaced"
expect 0 'entries learned' "$data" train-vocab --input vocabulary.jsonl --vocab-size 300 --output kept
expect 0 'entries learned' "$data" train-vocab --input vocabulary.jsonl --vocab-size 280 --output kept --overwrite
! cmp -s gpt2/merges.txt kept/merges.txt || fail "--overwrite did not replace it"

# --- an empty or cut merges.txt would give other tokens
cp gpt2/vocab.json . && head -n 20 gpt2/merges.txt >cut.txt && : >empty.txt
for merges in cut.txt empty.txt; do
  expect 3 "$merges: has " "$data" preprocess --input one.jsonl --output-prefix x --vocab-file vocab.json --merge-file $merges
  grep -qF 'none makes the entry' out.log && [ -z "$(ls -d x_* 2>/dev/null)" ] || fail "$merges: $(ls) $(cat out.log)"
done
if [ -n "$gpt2" ]; then # two merges that have changed places
  sed '1000{h;d};1001{G}' "$gpt2/merges.txt" >swapped.txt
  expect 3 "is not GPT-2's merges.txt" "$data" encode --input one.jsonl --vocab-file "$gpt2/vocab.json" --merge-file swapped.txt
fi

# --- what is read of merges.txt counts, not its bytes: a mark and carriage returns, or no first line and no last line feed
rewrite_marked() { printf '\357\273\277' && sed 's/$/\r/' "$1"; }
rewrite_bare() { printf %s "$(tail -n +2 "$1")"; }
expect 0 '' "$data" preprocess --input one.jsonl --output-prefix same
for rewrite in rewrite_marked rewrite_bare; do
  mkdir $rewrite && cp gpt2/vocab.json $rewrite && $rewrite gpt2/merges.txt >$rewrite/merges.txt
  expect 0 'is there already' "$data" preprocess --input one.jsonl --output-prefix same --vocab-file $rewrite/vocab.json --merge-file $rewrite/merges.txt
  mv gpt2 gone && expect 0 'document 0 (1 tokens): a' env WEFT_GPT2_DIR=$rewrite "$data" info same_text_document && mv gone gpt2
  [ -n "$gpt2" ] || continue
  $rewrite "$gpt2/merges.txt" >merges.txt
  expect 0 '' "$data" encode --input one.jsonl --vocab-file "$gpt2/vocab.json" --merge-file merges.txt
done
rm -f same_* merges.txt

# --- names of files forge no lines of a log and reach no terminal as they are
name=$'n\nerror: fake\033]0;t\a.jsonl'
for text in '{"text":"a"}' nonsense; do
  echo "$text" >"$name"
  "$data" preprocess --input "$name" one.jsonl --output-prefix x --on-bad-line skip >out.log 2>&1 || fail "$(cat out.log)"
  "$data" preprocess --input "$name" --output-prefix y >>out.log 2>&1 || true
  "$data" preprocess --input "$name.gz" --output-prefix y >>out.log 2>&1 || true
  ! grep -q $'\033\|\a\|^error: fake' out.log || fail "a name reached the terminal: $(cat -A out.log)"
  grep -qF 'Opening n\nerror: fake\x1B]0;t\x07.jsonl' out.log || fail "not escaped: $(cat out.log)"
  rm -rf x[._]* y[._]*
done

# --- what may not be meant is done, with a note
expect 0 'note: without --append-eod no end-of-document token stands between documents' "$data" preprocess --input one.jsonl --output-prefix x
rm -rf x_*
expect 0 "note: 2 inputs are given again ('one.jsonl' as './one.jsonl'): their documents come twice" \
  "$data" preprocess --input one.jsonl ./one.jsonl "$PWD/one.jsonl" two.jsonl --output-prefix x
rm -rf x_*

# --- files whose size says nothing are read all the same
expect 3 '/proc/self/status:1: (byte 0) not valid JSON' "$data" preprocess --input /proc/self/status --output-prefix x

# --- where compressed data is damaged, and what it lacks
make_corpus 500 >plain && gzip -c plain >crc.gz && size=$(stat -c %s crc.gz)
printf '\0\0\0\0' | dd of=crc.gz bs=1 seek=$((size - 8)) conv=notrunc status=none
expect 3 "crc.gz: gzip data, compressed byte 10 to $((size - 1)) (after 0 decompressed bytes): incorrect" \
  "$data" preprocess --input crc.gz --output-prefix x
grep -qF 'fetch or copy the file again' out.log || fail "no advice: $(cat out.log)"
if command -v zstd >/dev/null && zstd -q --train -B100 plain -o dictionary 2>/dev/null; then
  zstd -qc -D dictionary plain >dictionary.zst
  expect 3 'it was compressed with a dictionary; decompress it with that first' "$data" preprocess --input dictionary.zst --output-prefix x
fi

# --- a broken pipe that is not our own output is an error; so is a umask that takes the owner's rights
expect 4 'Broken pipe' env WEFT_IO_FAIL_AT=9:32 "$data" preprocess --input one.jsonl --output-prefix x
rm -rf x.work
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
if [ "$(id -u)" = 0 ] && $nobody "$data" --version >/dev/null 2>&1; then
  chmod 711 . && mkdir -m 777 open
  expect 4 'the umask 0777 takes rights from the owner' \
    bash -c "umask 777; $nobody '$data' train-vocab --input vocabulary.jsonl --vocab-size 280 --output open/v"
fi

# --- far more workers than cores
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
if [ "$cores" -le 100 ]; then
  expect 0 "workers on $cores cores: not faster" "$data" preprocess --input one.jsonl --output-prefix crowd --workers $((5 * cores))
fi

# --- an input without lines is a corpus, but worth a word
: >empty
expect 0 'note: there is no line in the input' "$data" preprocess --input empty --output-prefix nothing

# --- on a terminal the line of progress is refreshed, and never longer than the terminal is wide
if command -v python3 >/dev/null; then
  mkfifo pipe
  python3 - "$data" <<'PY' || fail "the line of progress on a terminal of 40 columns"
import fcntl, os, pty, re, signal, struct, sys, termios
signal.alarm(300)
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    os.dup2(os.open("terminal.log", os.O_WRONLY | os.O_CREAT, 0o600), 1)  # only standard error is a terminal
    os.execv(sys.argv[1], [sys.argv[1], "preprocess", "--input", "pipe", "--output-prefix", "terminal"])
corpus = os.open("pipe", os.O_WRONLY)
os.write(corpus, b'{"text":"a"}\n')
shown = b""
while True:
    try:
        got = os.read(terminal, 4096)
    except OSError:  # the other side is closed
        got = b""
    if not got:
        break
    shown += got
    if corpus is not None and b"tokenized" in shown:
        os.close(corpus)
        corpus = None
status = os.waitpid(child, 0)[1]
lines = re.findall(rb"\x1b\[K(tokenized[^\r\n]*)", shown)
print(shown.decode(), lines, status)
sys.exit(not (status == 0 and lines and max(map(len, lines)) == 39))
PY
fi

# --- the hints do what they say
if command -v jq >/dev/null; then
  printf '[\n  {"text":"a"},\n  {"text":"b"}\n]\n' >corpus && jq -c '.[]' corpus >fixed
  expect 0 'wrote x_text_document.bin and .idx: 2 documents' "$data" preprocess --input fixed --output-prefix x --overwrite
  printf '{\n"text": "a"\n}\n{\n"text": "b"\n}\n' >corpus && jq -c . corpus >fixed
  expect 0 '.idx: 2 documents' "$data" preprocess --input fixed --output-prefix x --overwrite
  # The command is taken out of the message as it stands there.
  for kind in messages:content conversations:value; do
    printf '{"%s":[{"role":"user","%s":"a \\"b\\""},{"role":"x","%s":"c"}]}\n' "${kind%:*}" "${kind#*:}" "${kind#*:}" >corpus
    expect 3 'this looks like chat data' "$data" preprocess --input corpus --output-prefix x --overwrite
    eval "$(grep -o 'jq -c .* FILE makes' out.log | sed 's/FILE makes$/corpus/')" >fixed
    [ "$(cat fixed)" = '{"text":"a \"b\"\n\nc"}' ] || fail "chat data become $(cat fixed)"
  done
  { printf 'WARC/1.0\r\nWARC-Type: warcinfo\r\n\r\nx: y\r\n\r\n'
    for text in 'a b' 'c'; do printf 'WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 3\r\n\r\n%s\n\r\n\r\n' "$text"; done; } | gzip >corpus
  expect 3 'this is a WARC file' "$data" preprocess --input corpus --output-prefix x --overwrite
  eval "$(grep -o 'zcat -f FILE.*' out.log | sed 's/FILE/corpus/')" >fixed
  [ "$(cat fixed)" = $'{"text":"a b\\n"}\n{"text":"c\\n"}' ] || fail "a WET file becomes $(cat fixed)"
  printf 'some\ntext\n' >corpus && jq -Rsc '{text: .}' corpus >fixed
  expect 0 '.idx: 1 documents' "$data" preprocess --input fixed --output-prefix x --overwrite
fi
if command -v sqlite3 >/dev/null; then
  printf 'id,text\n1,"a, ""b"""\n2,c\n' >corpus
  expect 3 'this looks like CSV' "$data" preprocess --input corpus --output-prefix x --overwrite
  eval "$(grep -o 'sqlite3 .* makes' out.log | sed 's/FILE/corpus/; s/ makes$//')" >fixed
  [ "$(cat fixed)" = $'{"text":"a, \\"b\\""}\n{"text":"c"}' ] || fail "CSV becomes $(cat fixed)"
fi
printf '{"text":"a"},\n{"text":"b"}\n' >corpus && sed 's/,[[:space:]]*$//' corpus >fixed
expect 0 '.idx: 2 documents' "$data" preprocess --input fixed --output-prefix x --overwrite
printf '\357\273\277{"text":"a"}\n' >corpus && tail -c +4 corpus >fixed
expect 0 '.idx: 1 documents' "$data" preprocess --input fixed --output-prefix x --overwrite
printf '\357\273\277{"text":"a"}\n\357\273\277{"text":"b"}\n' >corpus && LC_ALL=C sed 's/^\xEF\xBB\xBF//' corpus >fixed
expect 0 '.idx: 2 documents' "$data" preprocess --input fixed --output-prefix x --overwrite
# --- files that do not tell their size, and kinds of files that have no lines
sys=/sys/kernel/mm/transparent_hugepage/enabled
[ ! -r $sys ] || expect 3 "$sys:1: (byte 0) not valid JSON" "$data" preprocess --input $sys --output-prefix sys
expect 4 '/proc/self/mem: reading failed' "$data" preprocess --input /proc/self/mem --output-prefix mem
printf '\x5d\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff' >alone.lzma
expect 3 'this is LZMA data without the frame of xz' "$data" preprocess --input alone.lzma --output-prefix lzma
echo "all passed"
