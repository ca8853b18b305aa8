"""Times whole training steps of GPT models from 124M to 7.5B on one GPU, on a tokenized dataset, one after the other.

    python gpu_steps.py WEFT_TRAIN DATASET_PREFIX FOLDER ROW ... [-- FLAG ...]

A row is the name of a model, or it with options behind colons: `1.7B`, `1.7B:ga8` (8 micro-batches a step), `1.7B:dropout` (0.1
everywhere), `1.7B:bf16-state` (--bf16-optimizer-state), `1.7B:fp8` (--fp8-format hybrid). FLAGs go to all runs. Every run writes FOLDER/ROW, and all
share FOLDER/gemm, the table of timed matrix products.

A step's time is the median of the last half of the steps, by the clock, loading and logging included. Power, clock and memory are what
nvidia-smi tells ten times a second: power and clock as medians over the last half of the run's time, memory at its peak.
model TF/s = 72 tokens L h^2 (1 + s / (6 h) + V / (12 L h)) / time.
"""
import json
import os
import statistics
import subprocess
import sys
import time

# layers, hidden size, heads, sequence, micro-batch, steps
MODELS = {
    "124M": (12, 768, 12, 1024, 64, 40),
    "350M": (24, 1024, 16, 1024, 32, 30),
    "1558M": (48, 1600, 25, 1024, 16, 16),
    "1.7B": (24, 2304, 24, 2048, 8, 16),
    "3.6B": (30, 3072, 32, 2048, 4, 16),
    "7.5B": (36, 4096, 32, 2048, 1, 16),
}
OPTIONS = {
    "dropout": ["--attention-dropout", "0.1", "--hidden-dropout", "0.1"],
    "bf16-state": ["--bf16-optimizer-state"],
    "fp8": ["--fp8-format", "hybrid"],
}


def flags(row):
    name, *options = row.split(":")
    layers, hidden, heads, sequence, batch, steps = MODELS[name]
    accumulation = next((int(o[2:]) for o in options if o.startswith("ga")), 1)
    steps = max(4, steps // accumulation)
    words = f"""--num-layers {layers} --hidden-size {hidden} --num-attention-heads {heads} --seq-length {sequence}
        --max-position-embeddings {sequence} --micro-batch-size {batch} --global-batch-size {batch * accumulation}
        --train-iters {steps} --lr 1e-4 --lr-decay-style constant --bf16 --split 100,0,0 --eval-iters 0
        --log-interval 1 --vocab-size 50257 --seed 1""".split()
    if "dropout" not in options:
        words += ["--attention-dropout", "0", "--hidden-dropout", "0"]
    for option in options:
        words += OPTIONS.get(option, [])
    return words, batch * sequence * accumulation


def model_flop(row, tokens):
    layers, hidden, _, sequence, _, _ = MODELS[row.split(":")[0]]
    return 72 * tokens * layers * hidden**2 * (1 + sequence / (6 * hidden) + 50304 / (12 * layers * hidden))


def run(weft_train, dataset, folder, row, more):
    words, tokens = flags(row)
    here = os.path.join(folder, row.replace(":", "-"))
    os.makedirs(here, exist_ok=True)
    command = [weft_train, "--data-path", dataset, "--gemm-algorithm-cache", os.path.join(folder, "gemm"), "--run-dir", here]
    samples = []
    with open(os.path.join(here, "output.log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen(command + words + more, stdout=log, stderr=subprocess.STDOUT)
        query = "--query-gpu=power.draw,clocks.sm,memory.used"
        while process.poll() is None:
            told = subprocess.run(["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True)
            samples.append([float(number) for number in told.stdout.splitlines()[0].split(",")])
            time.sleep(0.1)
    if process.returncode != 0:
        with open(os.path.join(here, "output.log"), encoding="utf-8") as log:
            print(f"| {row} | ended with {process.returncode}: {log.read()[-300:]!r} |", flush=True)
        return
    with open(os.path.join(here, "metrics.jsonl"), encoding="utf-8") as file:
        steps = [line for line in map(json.loads, file) if "lm_loss" in line]
    last = steps[len(steps) // 2:]
    ms = statistics.median(step["elapsed_ms"] for step in last)
    optimizer = statistics.median(step["optimizer_ms"] for step in last)
    late = samples[len(samples) // 2:]
    print(f"| {row} | {ms:.1f} | {tokens / ms:.1f} k | {model_flop(row, tokens) / ms / 1e9:.0f} | {optimizer:.1f} |"
          f" {max(s[2] for s in samples) / 1024:.1f} | {statistics.median(s[0] for s in late):.0f} |"
          f" {statistics.median(s[1] for s in late):.0f} | {steps[-1]['lm_loss']:.4f} |", flush=True)


def main():
    words = sys.argv[1:]
    more = words[words.index("--") + 1:] if "--" in words else []
    weft_train, dataset, folder, *rows = words[:words.index("--")] if "--" in words else words
    print("| model | ms/step | tok/s | model TF/s | optimizer, ms | GiB | W | MHz | last loss |\n" + "| --- " * 9 + "|", flush=True)
    for row in rows:
        run(weft_train, dataset, folder, row, more)


if __name__ == "__main__":
    main()
