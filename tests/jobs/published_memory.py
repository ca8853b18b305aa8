#!/usr/bin/env python3
"""Compares bigscience's published memory of a GPU with a plan of weft-train, row by row.

The rows are in published_memory.csv: those of bigscience's tables of topologies for its 200B model (A100 with 80 GB,
February 2022, Megatron-DeepSpeed with ZeRO-1 and checkpointed activations) that print memory, read from nvidia-smi on the
fullest node. Layers that a table does not print follow from its seconds and TFLOPs.

A plan is of Weft: the memory that it allocates, what it says of NCCL, and 1573 MiB of CUDA's context and kernels, which
the text of the tables reports of an idle A100. Two numbers are printed for a row: this sum, and the sum with what the
other program holds in another way. Each difference is counted from that program's code or a paper; nothing is fitted
to the rows.

  state        16-bit: 2 P weights + 2 P gradients + (12 + 4) P/dp, where 4 P/dp are the fp32 gradients of a shard
               [DeepSpeed runtime/zero/stage_1_and_2.py]
               bf16: 2 P + 2 P + 4 P fp32 gradients, which are not sharded, + 12 P/dp [runtime/bf16_optimizer.py]
               Weft: 2 P + 4 P + 10.125 P/dp. P is the number of parameters of a rank.
  exchanges    each micro-batch in flight holds its stage's output as well, and there are an input and a gradient
               more to receive into [runtime/pipe/engine.py, schedule.py: num_pipe_buffers]
  scores       a layer that is computed again holds 5 bytes for each pair of tokens and head, softmax and dropout
               [Korthikanti et al. 2022, arXiv:2205.05198, equation 1]
  logits       10 bytes each, a copy in fp32 and the softmax, where Weft has 2 [megatron/mpu/cross_entropy.py]

What PyTorch's allocator holds without use is not counted.

  published_memory.py --weft-train build/dev/bin/weft-train [--least 58]

With --least it fails where fewer rows are within 15 % of the published memory, counted with the other's state.
"""

import argparse
import csv
import os
import re
import statistics
import subprocess
import sys

MIB = 1 << 20
CONTEXT_MIB = 1573


def plan(weft_train, row):
    """Returns (parameters, device MiB) of each pipeline stage."""
    tp, pp, dp = (int(row[name]) for name in ("tp", "pp", "dp"))
    batch = dp * int(row["mbs"]) * 2 * pp  # more micro-batches in a step change no memory
    command = [
        weft_train, "--dry-run", "--verbose", "--device-profile", "h200", "--world-size", tp * pp * dp,
        "--num-layers", row["layers"], "--hidden-size", row["hidden"],
        "--num-attention-heads", row["heads"], "--seq-length", row["seq"],
        "--max-position-embeddings", row["seq"], "--micro-batch-size", row["mbs"], "--global-batch-size", batch,
        "--train-iters", 1, "--lr", 1e-4, "--vocab-size", row["vocab"], "--tensor-model-parallel-size", tp,
        "--pipeline-model-parallel-size", pp, "--bf16", "--use-distributed-optimizer", "--checkpoint-activations",
        "--pp-partition-method", row["partition"],
    ]
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    text = run.stdout + run.stderr
    stages = [line.split() for line in text.splitlines() if re.match(r"^ +\d+( +[\d.]+){6}$", line)]
    if run.returncode == 0 and pp == 1:  # one stage has no table of stages
        kinds = {words[0]: float(words[1]) for words in map(str.split, text.splitlines())
                 if len(words) > 1 and words[0] in ("parameters", "gradients")}
        total = re.search(r"device total +([\d.]+)", text).group(1)
        stages = [[0, kinds["parameters"], kinds["gradients"], 0, 0, 0, total]]
    if run.returncode != 0 or len(stages) != pp:
        sys.exit(f"{row}: no plan:\n{text[-2000:]}")
    nccl = re.search(r"NCCL: about (\d+) MiB", text)
    beside = CONTEXT_MIB + (int(nccl.group(1)) if nccl else 0)
    return [(float(stage[2]) * MIB / 4, float(stage[-1]) + beside) for stage in stages]


def mib_of_megatron_deepspeed(row, stage, parameters, planned):
    tp, pp, dp, mbs, seq, hidden, heads, vocab = (
        int(row[name]) for name in ("tp", "pp", "dp", "mbs", "seq", "hidden", "heads", "vocab"))
    state = 2 * parameters + 1.875 * parameters / dp if row["type"] == "bf16" else -2 * parameters + 5.875 * parameters / dp
    stream = 2 * mbs * seq * hidden  # bytes of one input
    exchanges = (pp - stage + 2) * stream if pp > 1 else 0
    scores = 5 * mbs * seq * seq * heads / tp
    logits = 8 * mbs * seq * vocab / tp if stage == pp - 1 else 0
    return planned + (state + exchanges + scores + logits) / MIB


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft-train", required=True)
    parser.add_argument("--rows", default=os.path.join(os.path.dirname(__file__), "published_memory.csv"))
    parser.add_argument("--least", type=int, default=0)
    options = parser.parse_args()
    errors = {"16-bit": [], "bf16": []}
    print("| date | type | layers x width, heads | DP | TP | PP | micro-batch | published, GB | plan | with the other's state |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with open(options.rows, newline="") as rows:
        for row in csv.DictReader(rows):
            stages = plan(options.weft_train, row)
            published = 1000 * float(row["gb"])  # MiB as nvidia-smi prints them
            own = max(planned for _, planned in stages)
            other = max(mib_of_megatron_deepspeed(row, stage, *values) for stage, values in enumerate(stages))
            errors[row["type"]].append((own / published - 1, other / published - 1))
            print(f"| {row['date']} | {row['type']} | {row['layers']} x {row['hidden']}, {row['heads']} | {row['dp']} | {row['tp']} "
                  f"| {row['pp']} | {row['mbs']} | {row['gb']} | {own / 1000:.1f} ({own / published - 1:+.0%}) "
                  f"| {other / 1000:.1f} ({other / published - 1:+.0%}) |")
    for dtype, pairs in errors.items():
        for idx, name in enumerate(("plan", "with the other's state")):
            values = [pair[idx] for pair in pairs]
            within = sum(abs(value) <= 0.15 for value in values)
            print(f"{dtype}, {name}: {within} of {len(values)} rows within 15 %, median {statistics.median(values):+.0%}, "
                  f"{min(values):+.0%} to {max(values):+.0%}")
    within = sum(abs(other) <= 0.15 for pairs in errors.values() for _, other in pairs)
    if within < options.least:
        sys.exit(f"{within} rows are within 15 %, and not {options.least}")


if __name__ == "__main__":
    main()
