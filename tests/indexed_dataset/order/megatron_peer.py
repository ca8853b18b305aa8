"""Writes datasets and sample indexes with Megatron-Core's own code, for megatron_golden_test.cpp to compare.

    python megatron_peer.py OUT_DIR [--cases N] [--seed S] [--documents N]

Needs numpy and megatron-core (pip install --no-deps megatron-core): its IndexedDatasetBuilder,
BlendedMegatronDatasetBuilder, GPTDataset and compiled extension run unchanged. PyTorch, several GB, does nothing in them
but lend a base class, so a module with these few names stands in for it; likewise Megatron's packages that would
import all of PyTorch (tokenizers, utils) are replaced by the one name each that the dataset code takes from them.

OUT_DIR gets NAME.txt (documents, one a line), NAME.bin and NAME.idx for each dataset, datasets.txt and samples.txt.
"""
import argparse
import dataclasses
import hashlib
import importlib.util
import inspect
import os
import random
import shutil
import sys
import types

import numpy


def install_stand_ins():
    def module(name, **names):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(names)
        return sys.modules[name]

    class Tensor:
        pass

    class Dataset:
        pass

    torch = module("torch", Tensor=Tensor)
    torch.utils = module("torch.utils")
    torch.utils.data = module("torch.utils.data", Dataset=Dataset)
    torch.distributed = module("torch.distributed", is_initialized=lambda: False, get_rank=lambda: 0)

    found = importlib.util.find_spec("megatron")  # a namespace package: nothing is executed
    folder = os.path.join(list(found.submodule_search_locations)[0], "core")
    core = module("megatron.core")
    core.__path__ = [folder]
    module("megatron.core.utils", log_single_rank=lambda *args, **kwargs: None)
    module("megatron.core.tokenizers", MegatronTokenizerBase=object)
    # Versions before 0.13 ask which rank builds first.
    module("megatron.core.parallel_state", get_virtual_pipeline_model_parallel_rank=lambda: 0)


install_stand_ins()
from megatron.core.datasets import blended_megatron_dataset_builder as builder_module  # noqa: E402
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder  # noqa: E402
from megatron.core.datasets.blended_megatron_dataset_config import (  # noqa: E402
    convert_split_vector_to_split_matrix,
    parse_and_normalize_split,
)
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig  # noqa: E402
from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder  # noqa: E402


# The --sample-order of this version: from 0.11 on sizes of blends are computed in two steps.
ORDER = "core" if len(inspect.signature(builder_module._get_size_per_split_per_dataset).parameters) > 2 else "core-0.10"


def make_config(**options):
    """Options that this version does not have keep their only value."""
    known = {field.name for field in dataclasses.fields(GPTDatasetConfig)}
    return GPTDatasetConfig(**{name: value for name, value in options.items() if name in known})


class Tokenizer:
    unique_identifiers = {"class": "none"}
    vocab_size = 65500
    eod = -5
    pad = -6


def md5(array):
    return hashlib.md5(numpy.ascontiguousarray(array).tobytes()).hexdigest()


def write_dataset(prefix, vocabulary_size, documents):
    """As tools/preprocess_data.py does: one add_document per line, no lengths for an empty one."""
    dtype = DType.optimal_dtype(vocabulary_size)
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype)
    for document in documents:
        builder.add_document(document, [len(document)] if document else [])
    builder.finalize(prefix + ".idx")
    with open(prefix + ".txt", "w") as file:
        for document in documents:
            file.write(" ".join(map(str, document)) + "\n")
    return DType.code_from_dtype(dtype)


def splits_with_tokens(split, num_sequences):
    """Megatron never ends on a split without tokens, so such cases cannot be compared."""
    matrix = convert_split_vector_to_split_matrix(parse_and_normalize_split(split))
    return all(
        pair is None or round(pair[1] * float(num_sequences)) > round(pair[0] * float(num_sequences))
        for pair in matrix
    )


def sample_lines(prefix, split, sizes, sequence_length, seed, extra, drop_last):
    config = make_config(
        random_seed=seed,
        sequence_length=sequence_length,
        blend=([prefix], None),
        split=split,
        path_to_cache=prefix + ".cache",
        tokenizer=Tokenizer(),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        add_extra_token_to_sequence=extra,
        drop_last_partial_validation_sequence=drop_last,
    )
    # Megatron's cache key lacks the last two options: with a cache kept, cases would read each other's indexes.
    shutil.rmtree(config.path_to_cache, ignore_errors=True)
    built = BlendedMegatronDatasetBuilder(GPTDataset, sizes, lambda: True, config).build()
    for which, dataset in enumerate(built):
        if dataset is None:
            continue
        text = "-"
        if extra and drop_last:
            rows = [dataset._query_document_sample_shuffle_indices(i)[0] for i in range(len(dataset))]
            text = md5(numpy.concatenate(rows).astype(numpy.int32)) if rows else md5(numpy.zeros(0))
        yield " ".join(
            map(
                str,
                (
                    os.path.basename(prefix), split, which,
                    -1 if sizes[which] is None else sizes[which],
                    sequence_length, seed, int(extra), int(drop_last or which != 1),
                    dataset.indices[0], dataset.indices[-1] + 1, dataset.sample_index.shape[0] - 1,
                    md5(dataset.document_index), md5(dataset.sample_index),
                    md5(dataset.shuffle_index), text,
                ),
            )
        )  # fmt: skip


def random_documents(rng, count, vocabulary_size):
    documents = []
    for _ in range(count):
        length = 0 if rng.random() < 0.1 else rng.choice((1, 2, rng.randrange(1, 40)))
        documents.append([rng.randrange(vocabulary_size) for _ in range(length)])
    return documents


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out_dir")
    parser.add_argument("--cases", type=int, default=3, help="sample cases of each dataset")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--documents", type=int, default=20)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    os.makedirs(args.out_dir, exist_ok=True)
    datasets = {
        "vector": (50257, [[1, 2, 3], [], [4, 50256]]),
        "u16": (50257, random_documents(rng, args.documents, 50257)),
        "i32": (65500, random_documents(rng, args.documents, 65500)),
    }
    dataset_lines, lines = [], []
    for name, (vocabulary_size, documents) in datasets.items():
        prefix = os.path.join(args.out_dir, name)
        dataset_lines.append(f"{name} {write_dataset(prefix, vocabulary_size, documents)}")
        num_sequences = sum(1 for document in documents if document)
        num_done = 0
        while name != "vector" and num_done < args.cases:
            split = rng.choice(("949,50,1", "8,1,1", "98,2,0", "100,0,0", "0.5,0.3,0.2", "1,1,1", "3/1"))
            if not splits_with_tokens(split, num_sequences):
                continue
            sizes = [rng.choice((None, rng.randrange(1, 300))) for _ in range(3)]
            extra, drop_last = rng.random() < 0.7, rng.random() < 0.7
            seed = rng.choice((1234, 42, 0, rng.randrange(2**32)))
            lines += sample_lines(prefix, split, sizes, rng.randrange(2, 70), seed, extra, drop_last)
            num_done += 1
        shutil.rmtree(prefix + ".cache", ignore_errors=True)
    with open(os.path.join(args.out_dir, "datasets.txt"), "w") as file:
        file.write("".join(line + "\n" for line in dataset_lines))
    with open(os.path.join(args.out_dir, "samples.txt"), "w") as file:
        file.write("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()
