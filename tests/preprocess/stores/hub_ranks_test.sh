#!/usr/bin/env bash
# Ranks share the files of a dataset on the hub: one of them lists, all make one pair.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
forget_launchers
source "$WEFT_SOURCE_DIR/tests/preprocess/mpi.sh"
source "$WEFT_SOURCE_DIR/tests/preprocess/web/web.sh"
source "$WEFT_SOURCE_DIR/tests/preprocess/stores/hub.sh"
make_vocabulary
make_dataset
make_certificate
start_hub
expect 0 '' "$data" preprocess --input $one/data --output-prefix file --append-eod
ranks() {
  mpirun -n 3 "$data" preprocess --workers 1 --append-eod --allow-incoherent-file-system "$@"
}
expect 0 '3 ranks make one output together' ranks --input hf://datasets/o/n/data --output-prefix hub
cmp file_text_document.bin hub_text_document.bin && cmp file_text_document.idx hub_text_document.idx || fail "another dataset"
[ "$(grep -c ' /api/datasets/o/n/revision/' hub.requests)" = 1 ] || fail "not one rank asked for the commit"
[ "$(grep -c ' /api/datasets/o/n/tree/' hub.requests)" = 2 ] || fail "not one rank listed"
expect 7 "'o/absent' does not exist" ranks --input hf://datasets/o/absent --output-prefix none
echo "all passed"
