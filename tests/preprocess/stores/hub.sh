# Sourced after lib.sh and web.sh by the tests of the hub: a dataset in the folder "hub", and the server of fake_hub.py.
commit_1=1111111111111111111111111111111111111111
commit_2=2222222222222222222222222222222222222222
one=hub/o/n/$commit_1
export CANARY=canary-4711

# make_dataset: o/n with three files of JSON lines, and o/gated and o/private with the same; o/small with a small file.
make_dataset() {
  mkdir -p $one/data/{a,b} $one/notes
  make_corpus 40000 >$one/data/a/1.jsonl
  make_corpus 2000 | tac | gzip >$one/data/a/2.jsonl.gz
  make_corpus 3000 | zstd -q >$one/data/b/3.jsonl.zst
  echo text >$one/README.md
  echo text >$one/.gitattributes
  echo text >$one/notes/x.txt
  echo text >$one/data/b/.hidden.jsonl
  printf 'main %s\nrefs/convert/jsonl %s\n' $commit_1 $commit_1 >hub/o/n/refs
  for name in gated private; do cp -r hub/o/n hub/o/$name; done
  mkdir -p hub/o/small/$commit_1
  make_corpus 3 >hub/o/small/$commit_1/small.ndjson
  cp hub/o/n/refs hub/o/small/refs
}

# move_branch: main of o/n is at a second commit, of which one file differs.
move_branch() {
  cp -r $one hub/o/n/$commit_2
  make_corpus 40001 >hub/o/n/$commit_2/data/a/1.jsonl
  echo "main $commit_2" >hub/o/n/refs
}

# start_hub: over TLS, with the certificate of make_certificate; HF_ENDPOINT names it. Its requests are in hub.requests.
start_hub() {
  python3 "$WEFT_SOURCE_DIR/tests/preprocess/stores/fake_hub.py" hub cert.pem key.pem >hub.ports 2>>hub.requests &
  servers+=($!)
  wait_until test -s hub.ports
  HF_ENDPOINT=https://localhost:$(cut -d ' ' -f 1 hub.ports)
  export HF_ENDPOINT CURL_CA_BUNDLE=$work/ca.pem
}
