"""Times whole training steps of GPT models from 124M to 18.4B on one GPU or several, on a tokenized dataset, one after the other.

    python gpu_steps.py WEFT_TRAIN DATASET_PREFIX FOLDER ROW ... [-- FLAG ...]

A row is the name of a model, or it with options behind colons: `1.7B`, `1.7B:ga8` (8 micro-batches a step on each data-parallel
rank), `7.5B:tp2:pp2:sp` (4 GPUs, tensor and pipeline parallel, with sequence parallelism), `1.7B:mb4` (4 samples a micro-batch),
`7.5B:layers9` (a shorter stack), `1.7B:pp2:chunk3` (interleaved: 3 layers a virtual stage), and the words of OPTIONS. FLAGs go to
all runs. Every run writes FOLDER/ROW, and all share FOLDER/gemm, the table of timed matrix products. Rows of one GPU take that of
CUDA_VISIBLE_DEVICES, so that several of this script may run side by side; rows of several are started by mpirun.

A step's time is the median of the last half of the steps, by the clock, loading and logging included. Power, clock and memory are what
nvidia-smi tells ten times a second: power and clock as medians over the last half of the run's time, memory at its peak; of several GPUs
the mean power and clock and the largest memory.
model TF/s = 72 tokens L h^2 (1 + s / (6 h) + V / (12 L h)) / time, of all GPUs together.
"""
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time

# layers, hidden size, heads, sequence, micro-batch, steps
MODELS = {
    "124M": (12, 768, 12, 1024, 64, 40),
    "350M": (24, 1024, 16, 1024, 32, 30),
    "1.3B": (24, 2048, 16, 2048, 8, 16),
    "1558M": (48, 1600, 25, 1024, 16, 16),
    "1.7B": (24, 2304, 24, 2048, 8, 16),
    "3.6B": (30, 3072, 32, 2048, 4, 16),
    "7.5B": (36, 4096, 32, 2048, 1, 16),
    "13B": (40, 5120, 40, 2048, 1, 8),
    "18.4B": (40, 6144, 48, 2048, 1, 8),
}
# Words behind the name of a model that stand for flags. Those of NUMBERED end in a number.
OPTIONS = {
    "dropout": "--attention-dropout 0.1 --hidden-dropout 0.1",
    "bf16-state": "--bf16-optimizer-state",
    "fp8": "--fp8-format hybrid",
    "fp16": "--initial-loss-scale 65536",
    "fp32-residual": "--fp32-residual-connection",
    "sp": "--sequence-parallel",
    "sharded": "--use-distributed-optimizer",
    "cost": "--pp-partition-method cost",
    "full": "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
    "selective": "--recompute-granularity selective --recompute-modules layernorm activation",
    "bloom": "--position-embedding-type alibi --embed-layernorm",
    "llama": "--normalization RMSNorm --position-embedding-type rope --swiglu --ffn-hidden-size 5504 --disable-bias-linear"
    " --untie-embeddings-and-output-weights",
}
NUMBERED = {
    "tp": "--tensor-model-parallel-size",
    "pp": "--pipeline-model-parallel-size",
    "chunk": "--num-layers-per-virtual-pipeline-stage",
    "logits": "--logits-chunk",
}


def parse(row):
    """Returns the model's name, its numbered options as a dictionary, and its words."""
    name, *options = row.split(":")
    numbers, words = {}, []
    for option in options:
        known = re.fullmatch("(ga|mb|dp|layers|steps|tp|pp|chunk|logits)([0-9]+)", option)
        if known:
            numbers[known[1]] = int(known[2])
        elif option in OPTIONS:
            words.append(option)
        else:
            sys.exit(f"error: {row}: unknown option {option}; known: {', '.join(OPTIONS)}, and those with numbers")
    return name, numbers, words


def num_gpus(numbers):
    return numbers.get("tp", 1) * numbers.get("pp", 1) * numbers.get("dp", 1)


def sizes(row):
    """Returns layers, hidden size, heads, sequence, micro-batch and steps of a row."""
    name, numbers, _ = parse(row)
    layers, hidden, heads, sequence, batch, steps = MODELS[name]
    steps = numbers.get("steps", max(4, steps // numbers.get("ga", 1)))
    return numbers.get("layers", layers), hidden, heads, sequence, numbers.get("mb", batch), steps


def flags(row):
    _, numbers, options = parse(row)
    layers, hidden, heads, sequence, batch, steps = sizes(row)
    global_batch = batch * numbers.get("ga", 1) * numbers.get("dp", 1)
    words = f"""--num-layers {layers} --hidden-size {hidden} --num-attention-heads {heads} --seq-length {sequence}
        --micro-batch-size {batch} --global-batch-size {global_batch}
        --train-iters {steps} --lr 1e-4 --lr-decay-style constant --split 100,0,0 --eval-iters 0
        --log-interval 1 --vocab-size 50257 --seed 1""".split()
    words += ["--fp16" if "fp16" in options else "--bf16"]
    if "bloom" not in options and "llama" not in options:
        words += ["--max-position-embeddings", str(sequence)]
    if "dropout" not in options:
        words += ["--attention-dropout", "0", "--hidden-dropout", "0"]
    for option in options:
        words += OPTIONS[option].split()
    for option, value in numbers.items():
        if option in NUMBERED:
            words += [NUMBERED[option], str(value)]
    return words, global_batch * sequence


def model_flop(row, tokens):
    layers, hidden, _, sequence, _, _ = sizes(row)
    return 72 * tokens * layers * hidden**2 * (1 + sequence / (6 * hidden) + 50304 / (12 * layers * hidden))


def readings():
    """Returns watts, MHz and MiB of each GPU that rows of one, or of several, may use."""
    query = ["nvidia-smi", "--query-gpu=power.draw,clocks.sm,memory.used", "--format=csv,noheader,nounits"]
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen:
        query += ["-i", chosen]
    told = subprocess.run(query, capture_output=True, text=True, check=True)
    return [[float(number) for number in line.split(",")] for line in told.stdout.splitlines()]


def run(weft_train, dataset, folder, row, more):
    words, tokens = flags(row)
    here = os.path.join(folder, row.replace(":", "-"))
    os.makedirs(here, exist_ok=True)
    count = num_gpus(parse(row)[1])
    command = [weft_train, "--data-path", dataset, "--gemm-algorithm-cache", os.path.join(folder, "gemm"), "--run-dir", here]
    if count > 1:
        command = ["mpirun", "-n", str(count)] + command
    samples = []
    with open(os.path.join(here, "output.log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen(command + words + more, stdout=log, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                gpus = readings()[:count]
                samples.append([statistics.mean(g[0] for g in gpus), statistics.mean(g[1] for g in gpus), max(g[2] for g in gpus)])
                time.sleep(0.1)
        finally:
            # A run that stays behind would take the GPU from those after it.
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    words = sys.argv[1:]
    more = words[words.index("--") + 1:] if "--" in words else []
    weft_train, dataset, folder, *rows = words[:words.index("--")] if "--" in words else words
    print("| model | ms/step | tok/s | model TF/s | optimizer, ms | GiB | W | MHz | last loss |\n" + "| --- " * 9 + "|", flush=True)
    for row in rows:
        run(weft_train, dataset, folder, row, more)


if __name__ == "__main__":
    main()
