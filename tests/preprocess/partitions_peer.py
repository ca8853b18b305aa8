"""The steps of Megatron-LM's tools/preprocess_data.py --partitions (the script is not in its package on PyPI), with Megatron-Core's own
IndexedDatasetBuilder: lines are dealt to .jsonl files in turn, each file becomes a pair, and the pairs are merged by add_index.

usage: partitions_peer.py VOCAB.json OUTPUT_PREFIX NUM_PARTITIONS KEY INPUT...

Not its code. Its tokenizer is replaced by one of bytes; only one key, since the script finalizes the partitions of its last key only.
"""
import gzip
import importlib.util
import json
import os
import sys
import types


def stand_in(name, **names):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(names)
    return sys.modules[name]


# PyTorch lends two base classes to the builder's module and does nothing in it.
stand_in("torch", Tensor=object).utils = stand_in("torch.utils")
sys.modules["torch.utils"].data = stand_in("torch.utils.data", Dataset=object)
folder = list(importlib.util.find_spec("megatron").submodule_search_locations)[0]
stand_in("megatron.core").__path__ = [os.path.join(folder, "core")]
stand_in("megatron.core.utils", log_single_rank=lambda *args, **kwargs: None)
from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder  # noqa: E402

vocab_file, prefix, num_partitions, key, *inputs = sys.argv[1:]
vocab = json.load(open(vocab_file, encoding="utf-8"))
printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
character = {b: chr(b) for b in printable}
character.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in printable)})
id_of_byte = [vocab[character[b]] for b in range(256)]
token_type = DType.optimal_dtype(len(vocab))
parts = [f"{prefix}_{i}" for i in range(int(num_partitions))]


def deal_lines():
    files = [open(part + ".jsonl", "w", encoding="utf-8") for part in parts]
    count = 0
    for name in inputs:
        opened = gzip.open(name, "rt", encoding="utf-8") if name.endswith(".gz") else open(name, encoding="utf-8")
        with opened as lines:
            for line in lines:
                files[count % len(files)].write(line)
                count += 1
    for file in files:
        file.close()


def make_pair(part):
    builder = IndexedDatasetBuilder(part + ".bin", dtype=token_type)
    with open(part + ".jsonl", encoding="utf-8") as lines:
        for line in lines:
            texts = json.loads(line)[key]
            sequences = [[id_of_byte[b] for b in text.encode()] for text in ([texts] if isinstance(texts, str) else texts)]
            sequences = [ids for ids in sequences if ids]
            if sequences:
                sequences[-1].append(vocab["<|endoftext|>"])
            builder.add_document([i for ids in sequences for i in ids], [len(ids) for ids in sequences])
    builder.finalize(part + ".idx")


deal_lines()
whole = IndexedDatasetBuilder(prefix + ".bin", dtype=token_type)
for part in parts:
    make_pair(part)
    whole.add_index(part)
whole.finalize(prefix + ".idx")
