"""Builds document, sample and shuffle index with Weft and with Megatron-Core, from the same lengths and in turns, and prints the ratios.

usage: sample_indexes.py BENCH_PROGRAM MEGATRON_DATASETS [--sequences N] [--samples N] [--turns N] [--datasets N] [--blend-samples N]

BENCH_PROGRAM      weft_sample_index_bench of the build
MEGATRON_DATASETS  the folder megatron/core/datasets of the package megatron-core from PyPI, with its C++ extension. Where the extension is
                   of another Python, it is compiled from helpers.cpp beside it, with pybind11's headers from PyTorch.

Needs NumPy, and memory for Megatron-Core: 24 bytes a sequence and 12 a sample. Nothing else of Megatron-Core is imported, so PyTorch is not
needed. Each turn is a process of its own; making the lengths and checking the results is not in its time. Ends with exit code 1 if
the indexes differ.
"""
import argparse
import ast
import importlib.util
import json
import os
import re
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time

import numpy

SEQUENCE_LENGTH, SEED = 2048, 1234


def load_extension(folder):
    def load(path):
        spec = importlib.util.spec_from_file_location("helpers_cpp", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    shipped = os.path.join(folder, "helpers_cpp" + suffix)
    if os.path.exists(shipped):
        return load(shipped)
    compiled = os.path.join(tempfile.gettempdir(), f"helpers_cpp_{os.getuid()}{suffix}")
    if not os.path.exists(compiled):
        torch = importlib.util.find_spec("torch")
        includes = [sysconfig.get_paths()["include"], os.path.join(os.path.dirname(torch.origin), "include")]
        # The flags of Megatron-Core's own Makefile.
        subprocess.run(["g++", "-O3", "-Wall", "-shared", "-std=c++17", "-fPIC", *("-I" + path for path in includes),
                        os.path.join(folder, "helpers.cpp"), "-o", compiled], check=True)
    return load(compiled)


def load_functions(path, names, known):
    """Only these functions of a module, whose imports would be all of PyTorch."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    exec(compile(tree, path, "exec"), known)
    return [known[name] for name in names]


def checksum(values):
    """The sum of (i + 1) * value modulo 2^64, as in sample_index_bench.cpp."""
    total = numpy.uint64(0)
    flat = values.reshape(-1)
    for begin in range(0, len(flat), 1 << 24):
        piece = flat[begin : begin + (1 << 24)].astype(numpy.uint64)
        places = numpy.arange(begin + 1, begin + 1 + len(piece), dtype=numpy.uint64)
        total += (piece * places).sum(dtype=numpy.uint64)
    return str(total)


def build_megatron(folder, lengths_path, num_samples):
    """The steps of GPTDataset._build_document_sample_shuffle_indices, which follow the choice of epochs."""
    extension = load_extension(folder)
    known = {"numpy": numpy, "build_sample_idx_int32": extension.build_sample_idx_int32,
             "build_sample_idx_int64": extension.build_sample_idx_int64}
    build_documents, build_shuffle = load_functions(
        os.path.join(folder, "gpt_dataset.py"), ["_build_document_index", "_build_shuffle_index"], known)
    (build_samples,) = load_functions(os.path.join(folder, "helpers.py"), ["build_sample_idx"], known)
    lengths = numpy.fromfile(lengths_path, dtype=numpy.int32)
    documents = numpy.arange(len(lengths), dtype=numpy.int32)
    before = int(open("/proc/self/statm").read().split()[1]) * 4096
    wall, cpu = time.perf_counter(), time.process_time()
    tokens = int(numpy.sum(lengths[documents]))
    if num_samples * SEQUENCE_LENGTH + 1 > tokens:
        sys.exit(f"{num_samples} samples are more than one epoch of {tokens} tokens: ask for fewer")
    random = numpy.random.RandomState(SEED)
    document_index = build_documents(documents, 1, random, False)
    sample_index = build_samples(lengths.copy(), document_index, SEQUENCE_LENGTH, 1, tokens, True, True)
    shuffle_index = build_shuffle(len(sample_index) - 1, len(sample_index) - 1, random)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    sums = [checksum(index) for index in (document_index, sample_index, shuffle_index)]
    print(json.dumps({"wall": wall, "cpu": cpu, "gib": peak / 2**30, "checksums": sums}))


def blend_megatron(folder, num_datasets, size):
    weights = numpy.random.RandomState(1).random_sample(num_datasets)
    weights /= weights.sum()
    datasets, samples = numpy.zeros(size, dtype=numpy.int16), numpy.zeros(size, dtype=numpy.int64)
    start = time.process_time()
    load_extension(folder).build_blending_indices(datasets, samples, weights, num_datasets, size, False)
    return time.process_time() - start


def run_weft(arguments, num_samples):
    text = subprocess.run([arguments.program, "order", str(arguments.sequences), str(num_samples)], check=True,
                          capture_output=True, text=True).stdout
    found = re.search(r": ([\d.]+) s, of processor ([\d.]+) s; indexes ([\d.]+) GiB, built in ([\d.]+) GiB; checksums (.*)", text)
    wall, cpu, own, gib = map(float, found.groups()[:4])
    return {"wall": wall, "cpu": cpu, "own": own, "gib": gib, "checksums": found[5].split()}


def run_megatron(arguments, lengths_path, num_samples):
    command = [sys.executable, __file__, arguments.program, arguments.megatron, "--child", lengths_path, "--samples", str(num_samples)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("megatron")
    parser.add_argument("--sequences", type=int, default=300_000_000)
    parser.add_argument("--samples", type=int, help="default: nearly one epoch, half as many as sequences")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--datasets", type=int, default=1000)
    parser.add_argument("--blend-samples", type=int, default=150_000_000)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    num_samples = arguments.samples or arguments.sequences // 2 * 149 // 150
    if arguments.child:
        return build_megatron(arguments.megatron, arguments.child, num_samples)
    print(f"processors: {len(os.sched_getaffinity(0))}, NumPy {numpy.__version__}, load {os.getloadavg()[0]:.1f}", flush=True)
    same = True
    with tempfile.TemporaryDirectory() as folder:
        lengths_path = os.path.join(folder, "lengths.i32")
        subprocess.run([arguments.program, "lengths", lengths_path, str(arguments.sequences)], check=True)
        for turn in range(1, arguments.turns + 1):
            weft = run_weft(arguments, num_samples)
            megatron = run_megatron(arguments, lengths_path, num_samples)
            same &= weft["checksums"] == megatron["checksums"]
            print(f"turn {turn}: {arguments.sequences} sequences, {num_samples} samples: "
                  f"weft {weft['wall']:.2f} s (processor {weft['cpu']:.2f} s, {weft['gib']:.2f} GiB for indexes of {weft['own']:.2f} GiB), "
                  f"megatron-core {megatron['wall']:.2f} s (processor {megatron['cpu']:.2f} s, {megatron['gib']:.2f} GiB): "
                  f"{megatron['wall'] / weft['wall']:.1f} times, of processor {megatron['cpu'] / weft['cpu']:.1f} times; "
                  f"{'equal' if weft['checksums'] == megatron['checksums'] else 'DIFFERENT'}", flush=True)
    theirs = blend_megatron(arguments.megatron, arguments.datasets, arguments.blend_samples // 100)
    print(f"blend of {arguments.datasets} datasets: megatron-core {theirs * 100:.0f} s of processor for {arguments.blend_samples} samples, "
          f"by a hundredth of them; weft:", flush=True)
    subprocess.run([arguments.program, "blend", str(arguments.datasets), str(arguments.blend_samples)], check=True)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
