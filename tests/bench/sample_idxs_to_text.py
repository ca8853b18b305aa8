"""Compares weft-data inspect samples with what bigscience's tools/sample_idxs_to_text.py takes, on data of a run's shape.

    python sample_idxs_to_text.py WEFT_DATA FOLDER [--documents N] [--mean-tokens T] [--train-samples S] [--seq-length L]
        [--seed K] [--range A B]

That script builds the training set alone ([train_samples, 0, 0]), begins at consumed sample A with micro-batches of one, and takes
B - A samples of L + 1 tokens. Here their documents and token ranges are computed again from that definition, with numpy and
without the code of either program: the stream of shuffled documents is cut where its running sum of lengths says, so no row of
a sample index is built one after the other. The dataset has lengths of documents and a .bin of holes, which take no disk.
"""
import argparse
import json
import os
import resource
import struct
import subprocess
import time

import numpy


def write_dataset(prefix, num_documents, mean_tokens):
    rng = numpy.random.RandomState(5)
    lengths = (1 + rng.exponential(mean_tokens, num_documents)).astype(numpy.int32)
    pointers = numpy.zeros(num_documents, numpy.int64)
    numpy.cumsum(lengths[:-1].astype(numpy.int64) * 2, out=pointers[1:])
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, num_documents, num_documents + 1))
        for array in (lengths, pointers, numpy.arange(num_documents + 1, dtype=numpy.int64)):
            array.tofile(file)
    with open(prefix + ".bin", "wb") as file:
        file.truncate(int(pointers[-1]) + 2 * int(lengths[-1]))
    return lengths


def end_of_training(split, num_documents):
    """Where Megatron's training documents end: each share is rounded, the error is taken from all bounds after the first."""
    shares = [float(share) / sum(split) for share in split]
    return int(round(shares[0] * num_documents)) - (sum(int(round(s * num_documents)) for s in shares) - num_documents)


def expected_parts(lengths, args):
    L, tokens = args.seq_length, int(lengths.sum(dtype=numpy.int64))
    epochs = 1
    while (epochs * tokens - 1) // L < args.train_samples:
        epochs += 1
    total, before_last = (epochs * tokens - 1) // L, ((epochs - 1) * tokens - 1) // L
    is_last_apart = epochs > 1 and args.train_samples - before_last < int(0.95 * ((tokens - 1) // L))
    random = numpy.random.RandomState(args.seed)

    def shuffled(begin, end, dtype, times=1):
        values = numpy.tile(numpy.arange(begin, end, dtype=dtype), times)
        random.shuffle(values)
        return values

    count = len(lengths)
    stream = shuffled(0, count, numpy.int32, epochs - 1 if is_last_apart else epochs)
    if is_last_apart:
        stream = numpy.concatenate((stream, shuffled(0, count, numpy.int32)))
    order = shuffled(0, before_last if is_last_apart else total, numpy.uint32)
    if is_last_apart:
        order = numpy.concatenate((order, shuffled(before_last, total, numpy.uint32)))
    ends = numpy.cumsum(lengths[stream], dtype=numpy.int64)  # of each document in the stream
    for row in order[args.range[0] : args.range[1]].astype(numpy.int64):
        begin, end = int(row) * L, int(row) * L + L + 1
        parts = []
        at = int(numpy.searchsorted(ends, begin, side="right"))
        while begin < end:
            length = int(lengths[stream[at]])
            offset = begin - (int(ends[at]) - length)
            taken = min(length - offset, end - begin)
            if taken > 0:
                parts.append([int(stream[at]), offset, taken])
            begin += taken
            at += 1
        yield parts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weft_data")
    parser.add_argument("folder")
    parser.add_argument("--documents", type=int, default=3_000_000)
    parser.add_argument("--mean-tokens", type=int, default=25_000)
    parser.add_argument("--train-samples", type=int, default=300_000_000)
    parser.add_argument("--seq-length", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=43)
    parser.add_argument("--range", type=int, nargs=2, default=(1255424, 1257152))
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    os.chdir(args.folder)
    lengths = write_dataset("oscar_text_document", args.documents, args.mean_tokens)
    with open("arguments", "w") as file:
        file.write(
            f"--data-path oscar_text_document --split 949,50,1 --seed {args.seed} --train-samples {args.train_samples} "
            f"--seq-length {args.seq_length} --global-batch-size 1 --eval-iters 0"
        )
    begin = time.time()
    out = subprocess.run(
        [args.weft_data, "inspect", "samples", "--megatron-args", "arguments", "--sample-order", "bigscience", "--format", "jsonl"]
        + ["--sample-range", *map(str, args.range)],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    seconds = time.time() - begin
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    ours = [
        [[part["document"], part["begin_token"], part["num_tokens"]] for part in json.loads(line)["parts"]]
        for line in out.splitlines()
    ]
    begin = time.time()
    theirs = list(expected_parts(lengths[: end_of_training((949, 50, 1), args.documents)], args))
    print(f"weft-data: {seconds:.1f} s, {memory:.1f} GiB; numpy: {time.time() - begin:.1f} s")
    assert len(ours) == len(theirs) == args.range[1] - args.range[0]
    for i, (a, b) in enumerate(zip(ours, theirs)):
        assert a == b, f"sample {args.range[0] + i}: {a} and {b}"
    print(f"{len(ours)} samples of {args.train_samples} are equal: {sum(map(len, ours))} pieces of documents")


if __name__ == "__main__":
    main()
