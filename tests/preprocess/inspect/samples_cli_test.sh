#!/usr/bin/env bash
# weft-data inspect samples: iterations, ranges, lines of a log, and a page of HTML.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
make_vocabulary
{ echo '{"text": "<script>alert(1)</script> & \"quoted\"\u0007\nsecond line"}'; make_corpus 40; } >a.jsonl
expect 0 '' "$data" preprocess --input a.jsonl --output-prefix a --append-eod
by_hand="$data inspect samples --data-path a_text_document --split 90,10,0 --seq-length 64 --train-iters 40 --global-batch-size 6 --eval-iters 1 --eval-interval 10"
expect 0 '' $by_hand --sample-range 12 30 --format jsonl
mv out.log range
expect 0 '' $by_hand --iterations 3 5 --format jsonl
cmp range out.log || fail "a range of iterations is not that of its samples"
for i in 3 4 5; do expect 0 '' $by_hand --iteration $i --format jsonl; cat out.log; done >one_by_one
cmp range one_by_one || fail "single iterations"

# Pasted lines, in three styles and behind what srun -l prints.
line() { echo " iteration $(printf %8d "$1")/      40 | consumed samples: $(printf %12d "$2") | elapsed time per iteration (ms): 430.0 | learning rate: 1.3E-04 | global batch size:     6 | lm loss: 7.4E+00 |"; }
lines="  3: $(line 3 18)
[2024-07-16 22:14:01]$(line 4 24)
$(line 5 30)"
expect 0 '' $by_hand --log-line "$lines" --format jsonl
cmp range out.log || fail "lines of a log"
$by_hand --log-line - --format jsonl <<<"$lines" | cmp range - || fail "lines of a log on standard input"
# Without a batch size the line says which samples it means.
without="$data inspect samples --data-path a_text_document --split 90,10,0 --seq-length 64 --train-samples 240 --eval-iters 0"
expect 0 '' $without --log-line "$(line 4 24)" --format jsonl
sed 's/"iteration":4,//' range | sed -n '7,12p' | cmp - out.log || fail "a line without the run's batch size"
expect 3 'iteration 3 ended with 24 consumed samples by the line, and 18 by the run' $by_hand --log-line "$(line 3 24)"
expect 3 'took 6 samples by the line, and 8 by' ${by_hand/size 6/size 8} --log-line "$(line 3 24)"
# The order of samples follows from the number of iterations and from the length, too.
expect 3 'iteration 3 is one of 40 iterations by the line, and 400 by' ${by_hand/iters 40/iters 400} --log-line "$(line 3 18)"
expect 3 'the run has 40 iterations by the line, and 400 by --train-samples 2400 and' ${without/240/2400} --log-line "$(line 4 24)"
deepspeed() { line "$1" "$2" | sed "s/ | elapsed/ | consumed tokens: $(printf %12d "$3")&/"; }
expect 0 '' $by_hand --log-line "$(deepspeed 3 18 1152)" --format jsonl
expect 3 'iteration 3 ended with 1152 consumed tokens by the line, and 576 by' ${by_hand/length 64/length 32} --log-line "$(deepspeed 3 18 1152)"
expect 3 'ended with 1536 consumed tokens by the line, and 768 by' ${without/length 64/length 32} --log-line "$(deepspeed 4 24 1536)"
expect 2 "it has neither 'iteration N/ M |' nor" $by_hand --log-line 'lm loss: 7.4E+00'
expect 0 '' $by_hand --split-name valid --iteration 20 --format jsonl
mv out.log valid
expect 0 '' $by_hand --split-name valid --log-line '0:  validation loss at iteration 20 | lm loss value: 7.4E+00 |' --format jsonl
cmp valid out.log || fail "a line of a validation"
expect 2 'a line of validation goes with --split-name valid' $by_hand --log-line ' validation loss at iteration 20 | lm'
expect 0 '' $by_hand --split-name valid --iterations 15 25 --format jsonl
cmp valid out.log || fail "the only validation of a range"
expect 2 'no validation follows any of them' $by_hand --split-name valid --iterations 11 12
expect 2 'holds no iteration' $by_hand --iterations 5 3

# A page: one file, whatever the corpus holds.
expect 0 '' $by_hand --sample-range 0 30 --format html
grep -qF '<script' out.log && fail "a script of the corpus in the page"
grep -qF '&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quoted&quot;\x07' out.log || fail "the escaped text"
grep -qx 'second line.*' out.log || fail "lines of the text are lines of the page"
grep -qF "default-src 'none'" out.log || fail "the content security policy"
[ "$(grep -c '<h2>sample ' out.log)" = 30 ] && [ "$(tail -n 1 out.log)" = '</html>' ] || fail "the page"
grep -qE '^<p>from a.jsonl, byte [0-9]+</p>$' out.log || fail "the source"
# Places need the sizes that decide them.
expect 0 'iteration 2, rank 2, micro-batch 0, slot 1' $by_hand --sample-range 6 12 --micro-batch-size 2 --data-parallel-size 3
# No run has batches that its ranks cannot share: the check is that of weft-train.
expect 2 '--global-batch-size 6 is not a multiple of --micro-batch-size 2 times data-parallel size 2' $by_hand --sample-range 6 12 --micro-batch-size 2 --data-parallel-size 2
ramped="$data inspect samples --data-path a_text_document --split 90,10,0 --seq-length 64 --train-samples 240 --eval-iters 0 --global-batch-size 8 --sample-range 0 4"
expect 2 'reaches a batch of 2 in step 1, not a multiple of --micro-batch-size 2 times data-parallel size 2' $ramped --rampup-batch-size 2 3 100 --micro-batch-size 2 --data-parallel-size 2
expect 0 '' $ramped --rampup-batch-size 2 3 100
expect 2 'step-batch-size-schedule has a batch of 6, not a multiple of' ${ramped/--global-batch-size 8/} --step-batch-size-schedule '0:6 1K:8' --micro-batch-size 2 --data-parallel-size 2
echo ok
