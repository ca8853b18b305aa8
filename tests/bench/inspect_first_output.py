"""Measures how long weft-data inspect takes to its first line, on a dataset of many documents whose index caches are there.

    python inspect_first_output.py WEFT_DATA FOLDER VOCAB MERGES [--documents N] [--mean-tokens T] [--train-samples S] [--runs R] [--weft-train PATH]

The dataset is that of sample_idxs_to_text.py: lengths of documents and a .bin of holes, whose tokens are zeros. The caches are
built first, and each command runs once before it is measured, so that its files are in the page cache. A time is that from the start of
the process to the first bytes on its standard output, the least of R runs, beside the processor time of the whole command.
"""
import argparse
import os
import resource
import subprocess
import time

from sample_idxs_to_text import write_dataset


def run(command):
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = process.stdout.read(1)
    seconds = time.time() - begin
    message = process.communicate()[1].decode()
    assert process.returncode == 0 and first, message
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(weft_data, name, options, num_runs):
    command = [weft_data, "inspect", name.split()[0], *options]
    run(command)
    times = [run(command) for _ in range(num_runs)]
    print(f"{name}: {min(t[0] for t in times):.2f} s to the first output, {min(t[1] for t in times):.2f} s of processor time")


def train_one_iteration(weft_train, order, vocab, merges):
    """A run folder of a tiny model over the same samples."""
    sizes = {"num-layers": 1, "hidden-size": 16, "num-attention-heads": 1, "max-position-embeddings": 2048, "micro-batch-size": 1}
    sizes |= {"global-batch-size": 512, "lr": 1e-3, "exit-interval": 1, "run-dir": "run", "device": "cpu"}
    options = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    subprocess.run([weft_train, *order, "--vocab-file", vocab, "--merge-file", merges, *options], check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser()
    for name in ("weft_data", "folder", "vocab", "merges"):
        parser.add_argument(name)
    parser.add_argument("--documents", type=int, default=60_000_000)
    parser.add_argument("--mean-tokens", type=int, default=500)
    parser.add_argument("--train-samples", type=int, default=14_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--weft-train", help="also measures --run, on a run of one iteration that this program makes")
    args = parser.parse_args()
    weft_data, vocab, merges = map(os.path.abspath, (args.weft_data, args.vocab, args.merges))
    args.folder, args.weft_train = os.path.abspath(args.folder), args.weft_train and os.path.abspath(args.weft_train)
    os.makedirs(args.folder, exist_ok=True)
    os.chdir(args.folder)
    write_dataset("data_text_document", args.documents, args.mean_tokens)
    order = ["--data-path", "data_text_document", "--split", "98,2,0", "--seq-length", "2048", "--data-cache-path", "cache"]
    order += ["--train-samples", str(args.train_samples), "--eval-iters", "0"]
    print(f"index: {run([weft_data, 'index', *order])[1]:.1f} s of processor time")
    by_hand = [*order, "--global-batch-size", "512", "--vocab-file", vocab, "--merge-file", merges]
    middle = str(args.train_samples // 1024)  # an iteration
    if args.weft_train:
        train_one_iteration(args.weft_train, order, vocab, merges)
        measure(weft_data, "samples --run", ["--run", "run", "--iteration", middle, "--vocab-file", vocab, "--merge-file", merges], args.runs)
    for name, selection in (
        ("samples", ["--iteration", middle]),
        ("documents", ["--document", str(args.documents // 2)]),
        ("stats", ["--iterations", middle, str(int(middle) + 1)]),
    ):
        measure(weft_data, name, [*by_hand, *selection], args.runs)


if __name__ == "__main__":
    main()
