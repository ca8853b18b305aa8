"""Writes small datasets and blends of them with Megatron-Core's own code, for megatron_blend_test.cpp to compare.

    python megatron_blend_peer.py OUT_DIR [--cases N] [--seed S] [--datasets N]

Needs numpy and megatron-core (0.7 or later), as megatron_peer.py, whose stand-ins for PyTorch it uses. OUT_DIR gets dK.bin
and dK.idx; the other names begin with the --sample-order of this version, core or core-0.10. core.blends.txt has one split
of one blend a line: which split (0 train, 1 valid, 2 test), --split, samples asked for of all three, sequence length, seed,
surplus, the number of values of --data-path and these values; then the results: samples of the blend, MD5 of dataset
index and of dataset sample index, and of the tokens (i32) of the first 2000 samples. A blend that Megatron refuses because
it outruns a dataset has "refused" for the split. core.caches.txt has MD5 and name of each file of Megatron's index caches,
without those that a refused blend leaves.
"""
import argparse
import hashlib
import os
import random
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from megatron_peer import (  # noqa: E402
    BlendedMegatronDatasetBuilder,
    DType,
    GPTDataset,
    IndexedDatasetBuilder,
    ORDER,
    make_config,
    md5,
    numpy,
)
from megatron.core.datasets.utils import get_blend_from_list  # noqa: E402


class Gpt2Tokenizer:
    unique_identifiers = {"class": "_GPT2BPETokenizer", "tokenizer_path": ["/v/gpt2-vocab.json", "/v/gpt2-merges.txt"]}
    vocab_size = 50257
    eod = -5
    pad = -6


def write_dataset(prefix, rng, num_documents):
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=DType.optimal_dtype(50257))
    for _ in range(num_documents):
        length = rng.choice((0, 1, 2, rng.randrange(1, 60), rng.randrange(1, 60)))
        builder.add_document([rng.randrange(50257) for _ in range(length)], [length] if length else [])
    builder.finalize(prefix + ".idx")


def random_values(rng, prefixes):
    chosen = [rng.choice(prefixes) for _ in range(rng.choice((1, 2, 3, len(prefixes))))]
    kind = rng.randrange(5)
    if kind == 0:
        return chosen
    if kind == 4:  # many small weights lengthen the blend, and may outrun the dataset of the large one
        return ["30", chosen[0]] + [value for prefix in chosen[1:] for value in ("1e-2", prefix)]
    weights = {
        1: lambda: "0.1",
        2: lambda: str(rng.randrange(1, 30)),
        3: lambda: repr(rng.random()),
    }[kind]
    return [value for prefix in chosen for value in (weights(), prefix)]


def results_of(dataset):
    is_blend = hasattr(dataset, "dataset_index")
    rows = []
    for i in range(min(len(dataset), 2000)):
        part, at = dataset, i
        if is_blend:
            part, at = dataset.datasets[dataset.dataset_index[i]], dataset.dataset_sample_index[i]
        rows.append(part._query_document_sample_shuffle_indices(at)[0])
    indexes = ["-", "-"]
    if is_blend:
        indexes = [md5(dataset.dataset_index), md5(dataset.dataset_sample_index)]
    return [len(dataset), *indexes, md5(numpy.concatenate(rows).astype(numpy.int32))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out_dir")
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--datasets", type=int, default=9)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    os.makedirs(args.out_dir, exist_ok=True)
    os.chdir(args.out_dir)  # paths stand in the names of caches
    prefixes = [f"d{k}" for k in range(args.datasets)]
    for prefix in prefixes:
        write_dataset(prefix, rng, rng.randrange(20, 60))
    os.mkdir("cache")
    lines = []
    while len(lines) < args.cases:
        values = random_values(rng, prefixes)
        # Splits that leave no dataset without sequences: Megatron would never end.
        split = rng.choice(("8,1,1", "100,0,0", "0.5,0.3,0.2", "3/1"))
        sizes = [rng.randrange(1, 400) for _ in range(3)]
        length, seed = rng.choice((rng.randrange(2, 40), 300)), rng.choice((1234, 42, rng.randrange(2**32)))
        surplus = rng.choice((0.005, 0.5))
        config = make_config(
            random_seed=seed,
            sequence_length=length,
            blend=get_blend_from_list(values),
            split=split,
            path_to_cache="cache-of-blend",  # no part of the names
            tokenizer=Gpt2Tokenizer(),
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            mid_level_dataset_surplus=surplus,
        )
        surplus = getattr(config, "mid_level_dataset_surplus", 0.005)  # the only value of older versions
        head = [split, *sizes, length, seed, surplus, len(values)] + values
        try:
            built = BlendedMegatronDatasetBuilder(GPTDataset, sizes, lambda: True, config).build()
        except (IndexError, AssertionError) as error:
            if isinstance(error, IndexError):
                lines.append(["refused", *head])
            shutil.rmtree("cache-of-blend", ignore_errors=True)
            continue
        for name in os.listdir("cache-of-blend"):
            os.replace(os.path.join("cache-of-blend", name), os.path.join("cache", name))
        os.rmdir("cache-of-blend")
        for which, dataset in enumerate(built):
            if dataset is not None:
                lines.append([which, *head, *results_of(dataset)])
    with open(f"{ORDER}.blends.txt", "w") as file:
        file.write("".join(" ".join(map(str, line)) + "\n" for line in lines))
    with open(f"{ORDER}.caches.txt", "w") as file:
        for name in sorted(os.listdir("cache")):
            with open(os.path.join("cache", name), "rb") as content:
                file.write(f"{hashlib.md5(content.read()).hexdigest()} {name}\n")
    shutil.rmtree("cache")


if __name__ == "__main__":
    main()
