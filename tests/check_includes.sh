#!/usr/bin/env bash
# Includes follow the map (README): a folder includes only itself and the folders that come before it in its line below.
# Lines list the rooms of one top-level folder, lowest first; `top` is what lies in the folder itself. Rooms joined by a
# comma do not include each other. After the colon come the top-level folders that all rooms of the line may include.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:-$(dirname "$0")/..}"
map='
tokenizer        : split merge known_words top
indexed_dataset  : process terminal,ranks,storage pair soundness,samples curriculum,index_caches blends beside run_folder
inspect          > tokenizer indexed_dataset : text lookup losses commands
analyze          > tokenizer indexed_dataset inspect : top
preprocess       > tokenizer indexed_dataset inspect analyze : stream compressed web documents ledger rank run,report commands
kernels          : top checks cpu/loops,cuda/device cpu,cuda/memory_bound cuda/residual_norm,cuda/attention/arguments cuda/attention/backward_workspace cuda/attention/fp32,cuda/attention/mma_sync cuda/attention/hopper cuda/attention/hopper_forward,cuda/attention/hopper_backward,cuda/attention/hopper_wide_backward cuda/attention/instances cuda/attention cuda/products cuda
trainer          > indexed_dataset kernels : config command_line,problems,data,ranks parallel model,profile step checkpoint,log model_tool top
'
awk -v map="$map" '
  BEGIN {
    num_lines = split(map, lines, "\n")
    for (i = 1; i <= num_lines; ++i) {
      if (split(lines[i], halves, ":") != 2) continue
      split(halves[1], names, ">")
      top = names[1]; gsub(/ /, "", top)
      num_libraries = split(names[2], libraries, " ")
      for (k = 1; k <= num_libraries; ++k) links[top, libraries[k]] = 1
      num_floors = split(halves[2], floors, " ")
      for (floor = 1; floor <= num_floors; ++floor) {
        num_rooms = split(floors[floor], rooms, ",")
        for (k = 1; k <= num_rooms; ++k) floor_of[top "/" (rooms[k] == "top" ? "" : rooms[k] "/")] = floor
      }
    }
  }
  function room_of(path) {  # "preprocess/run/", or "tokenizer/" for a file of the top
    sub(/[^\/]*$/, "", path)
    while (!(path in floor_of) && path ~ /\/.+\//) sub(/[^\/]*\/$/, "", path)
    return path
  }
  function complain(text) { print FILENAME ":" FNR ": " text; bad = 1 }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    if (quoted[2] !~ /\//) { complain("include from the root of the project: " quoted[2]); next }
    split(FILENAME, from, "/"); split(quoted[2], to, "/")
    if (from[1] != to[1]) {
      if (!((from[1], to[1]) in links)) complain(from[1] " must not include " to[1])
      next
    }
    here = room_of(FILENAME); there = room_of(quoted[2])
    if (!(here in floor_of)) { complain("room " here " is not in the list of tests/check_includes.sh"); next }
    if (here != there && floor_of[there] >= floor_of[here]) complain(here " comes before " there ", or beside it: " quoted[2])
  }
  END { exit bad }
' $(find tokenizer indexed_dataset inspect analyze preprocess kernels trainer -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh')

# No unit (a header with its source) reaches itself through includes: tsort names the units of a circle.
grep -oE '^[ \t]*#[ \t]*include[ \t]*"[^"]+"' \
  $(find tokenizer indexed_dataset inspect analyze preprocess kernels trainer -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh') |
  sed -E 's/\.(h|cpp|cu|cuh):[^"]*"/ /; s/\.(h|cuh)"$//' | awk '$1 != $2' | tsort >/dev/null || {
  echo "units include each other in a circle"
  exit 1
}
