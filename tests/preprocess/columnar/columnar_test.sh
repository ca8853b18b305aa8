#!/usr/bin/env bash
# Rows of Parquet and Arrow files, written by pyarrow, give the datasets that the same rows as JSON lines give. Skipped (77) without
# the plug-in, python3, or a way to install pyarrow.
python=$(PYTHONDONTWRITEBYTECODE=1 "$WEFT_SOURCE_DIR/tests/tokenizer/test_venv.sh" columnar-venv 'import pyarrow' pyarrow==26.0.1) || python=
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
[ -e "$WEFT_BIN_DIR/../lib/weft_columnar.so" ] || skip "weft_columnar.so is not built: jobs/install-deps.sh --parquet gets what it needs"
[ -n "$python" ] || skip "no python3 with pyarrow, and it could not be installed"
forget_launchers
make_vocabulary
"$python" "$WEFT_SOURCE_DIR/tests/preprocess/columnar/make_tables.py" || fail "pyarrow did not write the tables"
run=("$data" preprocess --append-eod --overwrite)
same() { for suffix in bin idx ${4:-}; do cmp "$1_$3_document.$suffix" "$2_$3_document.$suffix" || fail "$1 and $2 differ: .$suffix"; done; }

echo "the same rows are the same documents"
for key in text meta.text; do
  expect 0 wrote "${run[@]}" --input plain.jsonl --json-keys $key --output-prefix lines
  for file in plain.*.parquet plain.*.arrow; do
    [ $key = text ] || [[ $file =~ zstd|required|small-groups ]] || continue
    expect 0 wrote "${run[@]}" --input "$file" --json-keys $key --output-prefix rows
    same lines rows $key
  done
done

echo "nothing depends on workers, tasks or shards; rows are counted through the file"
expect 0 wrote "${run[@]}" --input plain.jsonl --origin-key url --output-prefix lines
expect 0 wrote "${run[@]}" --input plain.small-groups.parquet --origin-key url --workers 3 --output-prefix rows
same lines rows text
expect 0 'row: 1234' "$data" inspect document rows_text_document 1234
expect 0 'from: site4.org' "$data" inspect document rows_text_document 1234
inputs=(--input large.parquet plain.small-groups.parquet plain.file-zstd.arrow)
for i in 0 1 2; do expect 0 '' "${run[@]}" "${inputs[@]}" --shard $i/3 --output-prefix "shard$i"; done
expect 0 wrote "${run[@]}" "${inputs[@]}" --workers 2 --output-prefix whole
expect 0 '' "$data" merge shard{0,1,2}_text_document --output-prefix merged_text_document
same whole merged text sources
expect 0 wrote "${run[@]}" --input plain.jsonl --limit 777 --output-prefix lines
expect 0 wrote "${run[@]}" --input plain.small-groups.parquet --limit 777 --output-prefix rows
same lines rows text
expect 0 '' "${run[@]}" --input empty.parquet --output-prefix empty

echo "rows without text are bad lines"
for key in text meta.text; do
  expect 0 wrote "${run[@]}" --input holes.jsonl --json-keys $key --on-bad-line skip --output-prefix lines
  grep -o '[0-9]* bad lines ([^)]*)' out.log | tail -1 >reasons
  for file in holes.*.parquet holes.*.arrow; do
    expect 0 "$(cat reasons)" "${run[@]}" --input "$file" --json-keys $key --on-bad-line skip --output-prefix rows
    same lines rows $key
  done
done
expect 3 'holes.groups.parquet: row 0: not a string: the value of "text"; it is null' "${run[@]}" --input holes.groups.parquet --output-prefix x
expect 3 'row 0: missing key: "meta.text"; what it lies in is null' "${run[@]}" --input holes.file.arrow --json-keys meta.text --output-prefix x

echo "a column that is not there, or holds no text, is one error before the work begins"
rows=("${run[@]}" --on-bad-line skip --output-prefix x --input plain.required.parquet)
expect 3 'holes.groups.parquet: the column "url" is not there; the file has the columns "text", "meta"' "${rows[@]}" holes.groups.parquet --json-keys url
expect 3 'plain.required.parquet: the column "id" is INT64, and no text' "${rows[@]}" --json-keys id
expect 3 'plain.file-zstd.arrow: the column "meta" is struct<' "${rows[@]:0:${#rows[@]}-1}" plain.file-zstd.arrow --json-keys meta
[ ! -e x.work ] || fail "work was begun"
expect 3 'the column "words" is not there' "$data" encode --input plain.stream-None.arrow --format jsonl --json-key words
expect 3 'list.parquet: the column "text" is a list' "${run[@]}" --input list.parquet --output-prefix x
expect 0 '2 bad lines (1 invalid UTF-8, 1 line too long)' "${run[@]}" --input bytes.parquet --max-line-bytes 4096 --on-bad-line skip --output-prefix x

echo "--where looks at columns as at keys of lines, and counts alike"
for condition in "n >= 5 and score < 0.9" "n == null" "n != null and lang != 'de'" "large == 18446744073709551615" "quarter == 0.25" "is_good == true" \
  "lang > 'd' and is_good != false" "meta.n < 2 and meta.lang == 'en'" "nothing == null and score <= 0.5" "text == ''"; do
  expect 0 'left out by --where: ' "${run[@]}" --input where.jsonl --where "$condition" --output-prefix lines
  grep -o 'left out by --where: .*' out.log | tail -1 >left_out
  for file in where.*.parquet where.*.arrow; do
    expect 0 "$(cat left_out)" "${run[@]}" --input "$file" --where "$condition" --output-prefix rows
    same lines rows text
  done
done
expect 0 wrote "${run[@]}" --input where.jsonl --where "lang == 'en'" --limit 40 --origin-key lang --output-prefix lines
expect 0 wrote "${run[@]}" --input where.groups.parquet --where "lang == 'en'" --limit 40 --origin-key lang --workers 3 --output-prefix rows
same lines rows text
expect 0 'from: en' "$data" inspect document rows_text_document 39
expect 3 'odd.parquet: the column "day" is Date, which --where does not compare' "${run[@]}" --input odd.parquet --where "day == '2026-01-01'" --output-prefix x
expect 3 'odd.parquet: the column "tags" is a list, which --where does not compare' "${run[@]}" --input odd.parquet --where "tags == 'x'" --output-prefix x
expect 3 'odd.parquet: the column "languge" is not there; the file has the columns "text", "day", "tags"' "${run[@]}" --input odd.parquet --where "languge == 'en'" --output-prefix x

echo "folders have tables in them; other commands read them"
mkdir -p folder/in && cp plain.zstd-2.0.parquet folder/in/b.parquet && cp plain.file-zstd.arrow folder/a.arrow && cp plain.jsonl folder/c.jsonl
expect 0 "'folder' stands for 3 files" "${run[@]}" --input folder --output-prefix x
"$data" encode --input plain.jsonl --format jsonl >lines.ids && "$data" encode --input plain.zstd-2.0.parquet --format jsonl >rows.ids
cmp lines.ids rows.ids || fail "encode reads other texts from rows"

echo "what is cut, damaged or encrypted is exit 3, with the row group"
head -c 20000 plain.zstd-1.0.parquet >cut.parquet
expect 3 'cut.parquet: cannot be read' "${run[@]}" --input cut.parquet --output-prefix x
head -c 20000 plain.file-None.arrow >cut.arrow
expect 3 'cut.arrow: cannot be read' "${run[@]}" --input cut.arrow --output-prefix x
head -c 200000 plain.stream-None.arrow >cut.arrow
expect 3 'cut.arrow: record batch' "${run[@]}" --input cut.arrow --output-prefix x
head -c -8 plain.stream-None.arrow >cut.arrow  # as if it were cut behind a batch
expect 3 'ends without the mark of its end' "${run[@]}" --input cut.arrow --output-prefix x
cat plain.stream-None.arrow plain.stream-None.arrow >two.arrow
expect 3 'more follows behind' "${run[@]}" --input two.arrow --output-prefix x
cp plain.zstd-1.0.parquet flip.parquet
printf '\xff\xff\xff' | dd of=flip.parquet bs=1 seek=3000 conv=notrunc status=none
expect 3 'flip.parquet: row group 0: cannot be read' "${run[@]}" --input flip.parquet --output-prefix x
expect 3 'rows.parquet: row group 0: cannot be read (a column has another number of values than rows)' "${run[@]}" --input rows.parquet --output-prefix x
for file in encrypted-*.parquet; do
  [ ! -e "$file" ] || expect 3 'ncrypt' "${run[@]}" --input "$file" --output-prefix x
done

echo "pages count against --decoder-memory"
expect 9 'row group 0: its pages need more than the 3000000 bytes allowed; raise --decoder-memory' \
  "${run[@]}" --input large.parquet --decoder-memory 3000000 --output-prefix x
expect 9 'raise --max-output' "${run[@]}" --input large.parquet --max-output 1000000 --output-prefix x

echo "a killed run goes on"
for delay in 0.15 0.4 0.8; do
  rm -rf killed*
  timeout --foreground -s KILL "$delay" "$data" preprocess --append-eod --workers 2 "${inputs[@]}" --output-prefix killed >/dev/null 2>&1 || true
  expect 0 '' "$data" preprocess --append-eod --workers 2 "${inputs[@]}" --output-prefix killed
  same whole killed text sources
done

echo "benchmarks are the same as tables"
for name in hellaswag arc_easy piqa winogrande mmlu; do
  for file in $name.parquet $name.file.arrow $name.stream.arrow; do
    expect 0 "$name.jsonl: " "$data" tasks "$file" --benchmark $name
    cmp "$WEFT_SOURCE_DIR/tests/golden/lm_eval/$name.jsonl" $name.jsonl || fail "$file makes other examples than lm_eval"
  done
done
head -c -8 piqa.stream.arrow >cut.arrow
expect 3 'the stream ends without the mark of its end' "$data" tasks cut.arrow --benchmark piqa
expect 3 'values.parquet: row 0: ' "$data" tasks values.parquet --benchmark piqa

echo "the program itself is linked with neither of the libraries; without the plug-in a message says how to get it"
! ldd "$data" | grep -E 'libarrow|libparquet' || fail "weft-data is linked with Arrow"
mkdir -p alone/bin && cp "$data" alone/bin/
expect 2 'jobs/install-deps.sh --parquet' alone/bin/weft-data preprocess --input plain.required.parquet --output-prefix alone/x
expect 0 wrote alone/bin/weft-data preprocess --input plain.jsonl --output-prefix alone/x
