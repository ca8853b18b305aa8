#!/usr/bin/env bash
# Includes follow the map (README). A line of it is a group of rooms: a folder of the top, or one inside of it that has a line of its own.
# Behind `>` stand the folders that all rooms of the group may include, whole; behind the colon its rooms, lowest first. A room includes
# only itself and those before it; rooms joined by a comma do not include each other. `top` is what lies in the group's folder itself.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:-$(dirname "$0")/..}"
map='
tokenizer                  : unicode pieces split merge known_words top formats
indexed_dataset/base       : process terminal,ranks,storage
indexed_dataset/format     > indexed_dataset/base : pair soundness sidecars merge,repair
indexed_dataset/order      > indexed_dataset/base indexed_dataset/format : batches,samples curriculum,index_caches blends
indexed_dataset/run_record > indexed_dataset/base indexed_dataset/format indexed_dataset/order : top
preprocess/vocabulary      > tokenizer indexed_dataset : top
preprocess/inspect         > tokenizer indexed_dataset preprocess/vocabulary : text report,lookup losses anomaly,foreign_runs commands
preprocess/analyze         > tokenizer indexed_dataset preprocess/vocabulary preprocess/inspect : top
preprocess                 > tokenizer indexed_dataset preprocess/vocabulary preprocess/inspect preprocess/analyze : stream compressed columnar,web object_store stores inputs documents ledger rank run benchmarks commands
kernels          : numbers operations top cpu/loops,cuda/device cpu,cuda/memory_bound,cuda/hopper cuda/residual_norm,cuda/attention/arguments,cuda/gemm cuda/attention/backward_workspace cuda/attention/mma_sync cuda/attention/hopper_forward,cuda/attention/hopper_backward,cuda/attention/hopper_wide_backward cuda/attention/instances cuda/attention,cuda/fused_gemm cuda
trainer          > tokenizer indexed_dataset kernels : config command_line,problems,identity,data,ranks parallel,ceilings model,profile step checkpoint resume,log model_tool,plan generate evaluate loop top
'
sources=$(find tokenizer indexed_dataset preprocess kernels trainer -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh')
awk -v map="$map" '
  BEGIN {
    num_lines = split(map, lines, "\n")
    for (i = 1; i <= num_lines; ++i) {
      if (split(lines[i], halves, ":") != 2) continue
      split(halves[1], names, ">")
      group = names[1]; gsub(/ /, "", group)
      is_group[group] = 1
      links[group] = names[2]
      num_floors = split(halves[2], floors, " ")
      for (floor = 1; floor <= num_floors; ++floor) {
        num_rooms = split(floors[floor], rooms, ",")
        for (k = 1; k <= num_rooms; ++k) floor_of[group "/" (rooms[k] == "top" ? "" : rooms[k] "/")] = floor
      }
    }
  }
  function parent(path) { return sub(/\/[^\/]*$/, "", path) ? path : "" }
  function group_of(path) {  # "indexed_dataset/order" of its files
    while (path != "" && !(path in is_group)) path = parent(path)
    return path
  }
  function room_of(path, group) {  # "preprocess/run/", or "tokenizer/" for a file of the top
    for (path = parent(path); path != group && !((path "/") in floor_of);) path = parent(path)
    return path "/"
  }
  function may_include(from, to,  num, folders, k) {
    num = split(links[from], folders, " ")
    for (k = 1; k <= num; ++k) if (to == folders[k] || index(to, folders[k] "/") == 1) return 1
    return 0
  }
  function complain(text) { print FILENAME ":" FNR ": " text; bad = 1 }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    if (quoted[2] !~ /\//) { complain("include from the root of the project: " quoted[2]); next }
    from = group_of(FILENAME); to = group_of(quoted[2])
    if (from == "") { complain("it lies in no group of the map in tests/check_includes.sh"); next }
    if (from != to) {
      if (!may_include(from, to)) complain(from " must not include " quoted[2])
      next
    }
    here = room_of(FILENAME, from); there = room_of(quoted[2], to)
    if (!(here in floor_of)) { complain("room " here " is not in the map of tests/check_includes.sh"); next }
    if (here != there && floor_of[there] >= floor_of[here]) complain(here " comes before " there ", or beside it: " quoted[2])
  }
  END { exit bad }
' $sources

# Of the trainer only what makes text of a model reads a tokenizer: training itself needs none.
if grep -l '#include "tokenizer/' $(printf '%s\n' $sources | grep '^trainer/' | grep -vE '^trainer/(generate|evaluate)/'); then
  echo "these must not include the tokenizer"
  exit 1
fi

# No unit (a header with its source) reaches itself through includes: tsort names the units of a circle.
grep -oE '^[ \t]*#[ \t]*include[ \t]*"[^"]+"' $sources |
  sed -E 's/\.(h|cpp|cu|cuh):[^"]*"/ /; s/\.(h|cuh)"$//' | awk '$1 != $2' | tsort >/dev/null || {
  echo "units include each other in a circle"
  exit 1
}
