#!/usr/bin/env bash
# Folders, patterns and lists of names stand for files, which make the dataset of the files named one by one.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
forget_launchers
make_vocabulary
part() { make_corpus 30 | sed "s/line/part $1/"; }
mkdir -p c/a/deep c/b/.git
part 1 >c/a/1.jsonl
part 2 | gzip >c/a/deep/2.json.gz
part 3 >c/a/deep.NDJSON
part 4 >'c/b/4 [x] é.jsonl'
part 5 >c/b/.git/5.jsonl
part 6 >c/b/6.jsonl.part
part 7 >c/readme.txt
echo '{}' >c/made_text_document.manifest.json
ln -s ../../../c c/a/deep/back  # a circle
ln -s ../../c/a/1.jsonl c/b/again.jsonl
run=("$data" preprocess --append-eod --overwrite)
# '.' (0x2E) stands before '/' (0x2F)
sorted=(c/a/1.jsonl c/a/deep.NDJSON c/a/deep/2.json.gz 'c/b/4 [x] é.jsonl' c/b/again.jsonl)
expect 0 'wrote' "${run[@]}" --input "${sorted[@]}" --output-prefix named
gives() { # TEXT OPTION...: the dataset of the sorted files, whatever stands for them
  expect 0 "$1" "${run[@]}" "${@:2}" --output-prefix found
  for suffix in bin idx sources; do cmp named_text_document.$suffix found_text_document.$suffix || fail "${*:2}: .$suffix"; done
}

echo "a folder: its order, the names that count, what is passed over, circles and repeated files"
gives "'c' stands for 5 files; 4 others passed over (hidden, or of another name than JSON lines): 'c/b/.git' 'c/b/6.jsonl.part' 'c/made_text_document.manifest.json' ..." --input c
grep -qF "1 input is given again ('c/a/1.jsonl' as 'c/b/again.jsonl'): its documents come twice" out.log || fail "a repeated file is not told"
gives "'c/' stands for 5 files" --input c/ --workers 3
jq -e '[.inputs[].path] == ["c/a/1.jsonl", "c/a/deep.NDJSON", "c/a/deep/2.json.gz", "c/b/4 [x] é.jsonl", "c/b/again.jsonl"]' \
  found_text_document.manifest.json >/dev/null || fail "the manifest does not name the files"
mkdir none
touch none/.hidden.jsonl none/notes.txt
expect 4 "cannot read 'none' (no file in it has a name of JSON lines: .jsonl, .ndjson or .json" "${run[@]}" --input none --output-prefix x
expect 4 "cannot read 'none*' (no file in it has a name of JSON lines" "${run[@]}" --input 'none*' --output-prefix x

echo "patterns, quoted"
rm c/a/deep/back
gives "'c/**' stands for 5 files" --input 'c/**'
gives "'c/[ab]' stands for 5 files" --input 'c/[ab]'
expect 0 "'c/**/?.jsonl' stands for 1 file" "${run[@]}" --input 'c/**/?.jsonl' --output-prefix x
expect 0 "'$work/c/*/*.jsonl' stands for 3 files" "${run[@]}" --input "$work/c/*/*.jsonl" --output-prefix x
expect 0 "'c/b/.git/*' stands for 1 file" "${run[@]}" --input 'c/b/.git/*' --output-prefix x
expect 0 'wrote' "${run[@]}" --input 'c/b/4 [x] é.jsonl' --output-prefix x  # a file of such a name is no pattern
! grep -q 'stands for' out.log || fail "a file was taken for a pattern"
expect 4 "cannot read 'c/*.zst' (no file fits the pattern), 'gone.jsonl'" "${run[@]}" --input 'c/*.zst' gone.jsonl --output-prefix x

echo "lists: relative to the list, to a root, compressed, with comments, blank lines, Windows line ends and folders"
printf '\xEF\xBB\xBF# the corpus\r\n\r\na/1.jsonl\r\n  a/deep.NDJSON \r\n%s/c/a/deep\r\n' "$work" >c/list.txt
printf 'b/*\n' | gzip >c/more.gz
rm c/b/6.jsonl.part
sed -i "s|$work/c/||" c/list.txt
gives "'c/list.txt' names 3 inputs" --input-list c/list.txt c/more.gz
mkdir elsewhere
mv c/list.txt c/more.gz elsewhere
gives "'elsewhere/more.gz' names 1 input" --input-list elsewhere/list.txt elsewhere/more.gz --input-root c
gives "'elsewhere/more.gz' names 1 input" --input c/a/1.jsonl c/a/deep.NDJSON c/a/deep --input-list elsewhere/more.gz --input-root c/
printf '# nothing\n' >empty.txt
expect 2 "--input-list: 'empty.txt' names no input" "${run[@]}" --input-list empty.txt --output-prefix x
expect 2 "line 1 of 'c/a/1.jsonl' is no name: JSON lines are given by --input" "${run[@]}" --input-list c/a/1.jsonl --output-prefix x
expect 4 "cannot read 'absent.txt'" "${run[@]}" --input-list absent.txt --output-prefix x
printf 'http://example.org/x.jsonl\n' >http.txt
expect 2 'use an https URL, or --allow-http' "${run[@]}" --input-list http.txt --output-prefix x
printf -- '-\n' >stdin.txt
expect 2 'standard input can be read once' "${run[@]}" --input - --input-list stdin.txt --output-prefix x
expect 2 '--input is required' "${run[@]}" --output-prefix x

echo "train-vocab takes the same"
expect 0 "'c/**' stands for 5 files" "$data" train-vocab --input 'c/**' --vocab-size 280 --output v1
printf 'c/b/*\n' >b.txt
expect 0 "'b.txt' names" "$data" train-vocab --input c/a --input-list b.txt --vocab-size 280 --output v2
cmp v1/merges.txt v2/merges.txt || fail "another vocabulary"

echo "parts of a folder, merged, are the whole"
for i in 0 1 2; do expect 0 '' "${run[@]}" --input c --shard $i/3 --output-prefix part$i; done
expect 0 '' "$data" merge part0_text_document part1_text_document part2_text_document --output-prefix found_text_document --overwrite
for suffix in bin idx; do cmp named_text_document.$suffix found_text_document.$suffix || fail "shards: .$suffix"; done

echo "a killed run goes on; a file that came to the folder meanwhile is told"
begin=("$data" preprocess --append-eod --input c --output-prefix killed)
code=0
WEFT_CRASH_AT=journal_synced:1 "${begin[@]}" --workers 1 >out.log 2>&1 || code=$?
[ $code = 137 ] || { cat out.log; fail "exit code $code"; }
part 8 >c/a/2.jsonl
expect 2 "of other inputs (inputs: was 5 of them, is 6, 'c/a/2.jsonl' in addition)" "${begin[@]}"
rm c/a/2.jsonl
expect 2 "of other inputs (inputs: was 5 of them, 'c/b/again.jsonl' in addition, is 4)" "$data" preprocess --append-eod \
  --input c/a 'c/b/4 [x] é.jsonl' --output-prefix killed
expect 0 'going on with the work' "${begin[@]}"
for suffix in bin idx sources; do cmp named_text_document.$suffix killed_text_document.$suffix || fail "killed: .$suffix"; done
expect 0 'is there already' "${begin[@]}"

echo "ranks find the same files, or say what differs"
. "$WEFT_SOURCE_DIR/tests/preprocess/mpi.sh" || exit
cat >rank.sh <<'RANK'
#!/usr/bin/env bash
[ ! -d "folder.$OMPI_COMM_WORLD_RANK" ] || cd "folder.$OMPI_COMM_WORLD_RANK"
exec "$@"
RANK
chmod +x rank.sh
expect 0 '2 ranks make one output together' mpirun -n 2 "$work/rank.sh" "${run[@]}" --input c --output-prefix "$work/found"
for suffix in bin idx sources; do cmp named_text_document.$suffix found_text_document.$suffix || fail "ranks: .$suffix"; done
mkdir folder.1
cp -a c folder.1
part 9 >folder.1/c/b/9.jsonl
expect 14 "inputs: rank 0 has 5 of them, that rank has 6, 'c/b/9.jsonl' in addition" \
  mpirun -n 2 "$work/rank.sh" "${run[@]}" --input c --output-prefix "$work/found"
echo "all passed"
