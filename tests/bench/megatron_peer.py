"""The steps of Megatron-LM's two preprocessing tools, whose scripts are not in its package on PyPI, for a benchmark.

usage: megatron_peer.py slow|fast INPUT.jsonl OUTPUT_PREFIX NUM_WORKERS VOCAB.json MERGES.txt

slow (tools/preprocess_data.py): a pool of processes parses lines and tokenizes them with Hugging Face's tokenizer, 32 lines at a time; the
    main process writes the documents in order. Here without the wrapper that Megatron puts around the tokenizer, which would only slow it.
fast (tools/preprocess_data_fast.py): gigatoken reads and tokenizes the whole file, end-of-document ids are joined as one more column, and the
    result is written. Here in one piece, by gigatoken's own threads (RAYON_NUM_THREADS): faster than a builder that is fed documents.

Both write with Megatron-Core's IndexedDatasetBuilder, and append <|endoftext|>. Prints the seconds of user, system and wall time that were
spent after loading; the first two include child processes.
"""
import importlib.util
import json
import multiprocessing
import os
import sys
import time
import types

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tokenizer"))
import peers  # noqa: E402


def import_builder():
    """Megatron-Core's dataset module alone: its package would import all of PyTorch, which writes nothing here."""

    def module(name, **names):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(names)
        return sys.modules[name]

    module("torch", Tensor=object).utils = module("torch.utils")
    sys.modules["torch.utils"].data = module("torch.utils.data", Dataset=object)
    folder = list(importlib.util.find_spec("megatron").submodule_search_locations)[0]
    module("megatron.core").__path__ = [os.path.join(folder, "core")]
    module("megatron.core.utils", log_single_rank=lambda *args, **kwargs: None)
    from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder

    return IndexedDatasetBuilder, DType


class Worker:
    tokenizer = None
    eod = 50256

    @classmethod
    def load(cls, vocab_file, merge_file):
        cls.tokenizer = peers.load_hugging_face(vocab_file, merge_file)

    @classmethod
    def encode(cls, line):
        ids = cls.tokenizer.encode(json.loads(line)["text"]).ids
        if ids:
            ids.append(cls.eod)
        return ids


def write_slow(path, builder, num_workers, files):
    with multiprocessing.Pool(num_workers, Worker.load, files) as pool, open(path, encoding="utf-8") as lines:
        for ids in pool.imap(Worker.encode, lines, 32):
            builder.add_document(ids, [len(ids)] if ids else [])
        pool.close()
        pool.join()


def write_fast(path, builder, tokenizer, num_workers):
    import awkward
    import gigatoken

    documents = tokenizer.encode_files(gigatoken.JsonlFileSource([path], field="text"), parallel=num_workers > 1)
    ends = numpy.full((len(documents), 1), Worker.eod, dtype=numpy.uint32)
    documents = awkward.concatenate([documents, awkward.from_regular(awkward.from_numpy(ends))], axis=1)
    lengths = awkward.to_numpy(awkward.num(documents)).tolist()
    builder.data_file.write(awkward.to_numpy(awkward.flatten(documents)).astype(builder.dtype).tobytes())
    builder.sequence_lengths.extend(lengths)
    builder.document_indices.extend(range(1, len(lengths) + 1))


def times_now():
    """User and system time, child processes included, and the clock on the wall."""
    times = os.times()
    return numpy.array([times.user + times.children_user, times.system + times.children_system, time.monotonic()])


def main():
    tool, path, prefix, num_workers, *files = sys.argv[1:]
    make_builder, types_of_tokens = import_builder()
    if tool == "fast":
        import encoder_peers

        tokenizer = encoder_peers.load_gigatoken(files[0])
    start = times_now()
    builder = make_builder(prefix + ".bin", dtype=types_of_tokens.optimal_dtype(50257))
    if tool == "slow":
        write_slow(path, builder, int(num_workers), files)
    else:
        write_fast(path, builder, tokenizer, int(num_workers))
    builder.finalize(prefix + ".idx")
    print(*(times_now() - start))


if __name__ == "__main__":
    main()
