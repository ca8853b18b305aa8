#!/usr/bin/env bash
# Every command of preprocess/inspect/README.md, taken from there, on datasets and a run of these names.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
export OMP_NUM_THREADS=2
make_vocabulary
{ make_corpus 20; echo '{"text": "'"$(printf '\\\\%.0s' $(seq 3000))"'"}'; make_corpus 60; } >web.jsonl
make_corpus 80 >wiki.jsonl
make_corpus 6000 >my.jsonl
for name in web wiki my; do expect 0 '' "$data" preprocess --input $name.jsonl --output-prefix $name --append-eod; done
mv my_text_document.bin my-gpt2_text_document.bin && mv my_text_document.idx my-gpt2_text_document.idx
for run in checkpoints other; do
  expect 0 '' "$WEFT_BIN_DIR/weft-train" --num-layers 1 --hidden-size 16 --num-attention-heads 1 --seq-length 32 --max-position-embeddings 32 \
    --micro-batch-size 2 --lr 1e-3 --data-path 0.5 wiki_text_document 0.5 web_text_document --split 90,10,0 --train-iters 30 --log-interval 1 \
    --eval-iters 1 --eval-interval 10 --global-batch-size 4 --save $run --save-interval 30 --device cpu --seed $(wc -c <<<$run)
  [ $run != checkpoints ] || mv out.log train.log
done
# The indented lines that begin with a prompt, continuation lines joined; sizes are those of this test.
count=0
while IFS= read -r command; do
  command=$(sed "s|^weft-data|$data|; s|--seq-length 1024|--seq-length 8|" <<<"$command")
  expect 0 '' bash -c "$command"
  [ -s out.log ] || fail "nothing was printed by: $command"
  count=$((count + 1))
done < <(sed -n 's/^    //p' "$WEFT_SOURCE_DIR/preprocess/inspect/README.md" | sed -e ':a' -e '/\\$/N; s/\\\n//; ta' | sed -n 's/^\$ //p')
[ $count -ge 6 ] || fail "only $count commands"
echo "$count commands"
