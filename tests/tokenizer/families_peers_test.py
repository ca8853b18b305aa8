"""Weft's ids must equal those of Hugging Face's tokenizers for every tokenizer.json, and tiktoken's for every rank file.

usage: families_peers_test.py ENCODE_RECORDS TOKENIZERS_DIR [--num-random N] [--seed S] [--families NAME...]
Draws random strings of hostile pieces and of the family's own added tokens. Prints the seed and the first differences, exits 1 on any.
"""
import argparse
import base64
import os
import random
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tiktoken
import tokenizers
import zstandard

import peers

CL100K = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
O200K = "|".join(
    [
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""\p{N}{1,3}""",
        r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
        r"""\s*[\r\n]+""",
        r"""\s+(?!\S)""",
        r"""\s+""",
    ]
)
# Pattern and special tokens of the rank files. [tiktoken_ext/openai_public.py]
RANK_FILES = {
    "p50k": (peers.PATTERN, {"<|endoftext|>": 50256}),
    "cl100k": (CL100K, {"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276}),
    "o200k": (O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}),
}


class HuggingFace:
    def __init__(self, path):
        self.tokenizer = tokenizers.Tokenizer.from_file(path)
        self.added_tokens = [token.content for token in self.tokenizer.get_added_tokens_decoder().values() if token.content]

    def encode(self, texts, mode):
        self.tokenizer.encode_special_tokens = mode == "literal"
        return [e.ids for e in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


class Tiktoken:
    def __init__(self, path, pattern, special_tokens):
        with open(path, "rb") as file:
            ranks = {base64.b64decode(entry): int(rank) for entry, rank in (line.split() for line in file if line.strip())}
        self.encoding = tiktoken.Encoding("weft-test", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special_tokens)
        self.added_tokens = list(special_tokens)

    def encode(self, texts, mode):
        if mode == "literal":
            return [self.encoding.encode_ordinary(text) for text in texts]
        return [self.encoding.encode(text, allowed_special="all") for text in texts]


def families(folder):
    """Yields (name, file in the folder, function that makes its peer)."""
    for name in sorted(os.listdir(folder)):
        for file in sorted(os.listdir(f"{folder}/{name}")) if os.path.isdir(f"{folder}/{name}") else []:
            if file.startswith("tokenizer.json"):
                yield name, f"{folder}/{name}/{file}", HuggingFace
            elif ".tiktoken" in file and name in RANK_FILES:
                yield name, f"{folder}/{name}/{file}", lambda path, name=name: Tiktoken(path, *RANK_FILES[name])


def random_texts(generator, added_tokens, count):
    # Only the beginnings of so many tokens as NeoX's and Llama's reserved ones would crowd out all others.
    shown = generator.sample(added_tokens, min(40, len(added_tokens)))
    texts = []
    for _ in range(count):
        pieces = [peers.random_hostile_string(generator, 6) for _ in range(generator.randint(1, 4))]
        for _ in range(generator.randint(0, 4) if shown else 0):
            token = generator.choice(shown)
            if generator.random() < 0.3:
                token = token[: generator.randint(0, len(token))]
            pieces.insert(generator.randint(0, len(pieces)), token)
        texts.append("".join(pieces))
    return texts


def compare(program, name, path, make_peer, generator, count):
    peer = make_peer(path)
    texts = random_texts(generator, peer.added_tokens, count)
    num_different = 0
    for mode in ("literal", "special"):
        ours, theirs = peers.weft_ids([program, path, "literal" if mode == "literal" else "token"], texts), peer.encode(texts, mode)
        different = [(text, a, b) for text, a, b in zip(texts, ours, theirs) if a != b]
        num_different += len(different)
        print(f"{name}, {type(peer).__name__}, {mode}: {len(texts)} texts, {len(different)} differences", flush=True)
        for text, a, b in different[:3]:
            print(f"  {text[:200]!r}\n    Weft: {a[:40]}\n    peer: {b[:40]}")
    return num_different


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--num-random", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--families", nargs="*")
    args = parser.parse_args()
    print(f"tokenizers {tokenizers.__version__}, tiktoken {tiktoken.__version__}, --seed {args.seed}", flush=True)
    num_different, num_families = 0, 0
    for name, file, make_peer in families(args.folder):
        if args.families and name not in args.families:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/{os.path.basename(file).removesuffix('.zst')}"
            with open(file, "rb") as source, open(path, "wb") as copy:
                data = source.read()
                copy.write(zstandard.ZstdDecompressor().stream_reader(data).read() if file.endswith(".zst") else data)
            num_different += compare(args.program, name, path, make_peer, random.Random(f"{args.seed} {name}"), args.num_random)
            num_families += 1
    print(f"{num_families} tokenizers, {num_different} differences")
    return 1 if num_different or not num_families else 0


if __name__ == "__main__":
    sys.exit(main())
