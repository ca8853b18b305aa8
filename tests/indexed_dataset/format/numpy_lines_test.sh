#!/usr/bin/env bash
# The lines of NumPy in indexed_dataset/format/README.md read what weft-data writes.
shopt -s nullglob
python=
for candidate in python3 "${XDG_CACHE_HOME:-$HOME/.cache}"/weft/test-venv*/bin/python; do
  if "$candidate" -c 'import numpy' 2>/dev/null; then python=$candidate; break; fi
done
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh"
[ -n "$python" ] || skip "no Python here has NumPy"
make_vocabulary
make_corpus 30 >corpus.jsonl
sed -n '/^```python$/,/^```$/{/^```/d;p}' "$WEFT_SOURCE_DIR/indexed_dataset/format/README.md" >reader.py
for dtype in uint16 int32; do
  expect 0 '' "$data" preprocess --append-eod --dtype $dtype --input corpus.jsonl --output-prefix d --overwrite
  expect 0 '"ids":' "$data" inspect document d_text_document 7 --format jsonl
  mv out.log document.json
  "$python" - <<'PYTHON' || fail "the lines of NumPy read other tokens ($dtype)"
import json
exec(open("reader.py").read())
documents, bounds = read_dataset("d_text_document")
assert len(documents) == 30 and list(bounds) == list(range(31)), (len(documents), bounds)
line = json.loads(open("document.json").read().strip().splitlines()[-1])
assert documents[7].tolist() == line["ids"], (documents[7], line["ids"])
PYTHON
done
echo "30 documents of two types of tokens are the same"
