"""Weft's ids must equal tiktoken's encode_ordinary and Hugging Face's tokenizers.

usage: peers_test.py ENCODE_RECORDS GPT2_DIR [CORPUS_DIR] [--num-random N]
Compares random hostile strings, every code point and all of the corpus. By hand, try more of the first. Prints the first differences, exits 1 on any.
"""
import argparse
import collections
import multiprocessing
import os
import random
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the parallel work is whole tasks, one process each
import peers

SEED = 20261120
TEXTS_PER_TASK = 50_000
CODE_POINTS_PER_TEXT = 8
# A character's class shows in the ids only where it decides whether two others meet: "'s" after a letter or number is
# a contraction, after anything else the apostrophe belongs to the character.
CONTEXT = "a{0}b 1{0}2 {0} {0}{0}'s\n{0}\t{0}."

Result = collections.namedtuple("Result", "name num_texts differences")
Difference = collections.namedtuple("Difference", "text weft peer peer_ids")


class Encoders:
    def __init__(self, program, gpt2_dir):
        self.command = (program, f"{gpt2_dir}/vocab.json", f"{gpt2_dir}/merges.txt")
        self.tiktoken = peers.load_tiktoken(self.command[1])
        self.hugging_face = peers.load_hugging_face(*self.command[1:])
        self.hugging_face_special = peers.load_hugging_face(*self.command[1:], special=True)

    def weft(self, texts, special="literal"):
        return peers.weft_ids([*self.command, special], texts)

    def differences(self, texts):
        ours = self.weft(texts)
        theirs = {
            "tiktoken": [self.tiktoken.encode_ordinary(text) for text in texts],
            "Hugging Face": [e.ids for e in self.hugging_face.encode_batch_fast(texts)],
        }
        return [d for peer, ids in theirs.items() for d in different(texts, ours, peer, ids)]

    def special_token_differences(self, texts):
        ids = [e.ids for e in self.hugging_face_special.encode_batch_fast(texts)]
        return different(texts, self.weft(texts, "token"), "Hugging Face", ids)


def different(texts, ours, peer, theirs):
    return [Difference(text, a, peer, b) for text, a, b in zip(texts, ours, theirs) if a != b]


def compare_random(seed, num_texts):
    generator = random.Random(seed)
    texts = [peers.random_hostile_string(generator) for _ in range(num_texts)]
    yield Result("random hostile strings", num_texts, encoders.differences(texts))
    texts = [text for text in texts if peers.END_OF_TEXT in text]
    yield Result("<|endoftext|> as token", len(texts), encoders.special_token_differences(texts))


def compare_code_points(first, end):
    code_points = [c for c in range(first, end) if not 0xD800 <= c < 0xE000]
    texts = [chr(c) for c in code_points]
    yield Result("code points alone", len(texts), encoders.differences(texts))
    fixed = [CONTEXT.format(chr(c)) for c in code_points]
    texts = ["\n".join(fixed[i : i + CODE_POINTS_PER_TEXT]) for i in range(0, len(fixed), CODE_POINTS_PER_TEXT)]
    yield Result("code points in context", len(texts), encoders.differences(texts))


def compare_corpus(path):
    texts = peers.corpus_texts(path)
    yield Result(path, len(texts), encoders.differences(texts))


def tasks(args):
    if args.corpus_dir:
        yield from ((compare_corpus, path) for path in peers.corpus_files(args.corpus_dir))
    for first in range(0, 0x110000, TEXTS_PER_TASK):
        yield compare_code_points, first, min(first + TEXTS_PER_TASK, 0x110000)
    for i in range(0, args.num_random, TEXTS_PER_TASK):
        yield compare_random, SEED + i, min(TEXTS_PER_TASK, args.num_random - i)


def start_worker(*files):
    global encoders
    encoders = Encoders(*files)


def run(task):
    return list(task[0](*task[1:]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("gpt2_dir")
    parser.add_argument("corpus_dir", nargs="?")
    parser.add_argument("--num-random", type=int, default=250_000)
    args = parser.parse_args()

    print(f"tiktoken {peers.tiktoken.__version__}, tokenizers {peers.tokenizers.__version__}, seed {SEED}", flush=True)
    start = time.monotonic()
    num_texts, differences = collections.Counter(), collections.defaultdict(list)
    with multiprocessing.Pool(os.cpu_count(), start_worker, (args.program, args.gpt2_dir)) as pool:
        for results in pool.imap_unordered(run, tasks(args)):
            for result in results:
                num_texts[result.name] += result.num_texts
                differences[result.name] += result.differences
    for name, count in num_texts.items():
        print(f"{name}: {count} texts, {len(differences[name])} differences")
        for d in differences[name][:5]:
            print(f"  {d.text[:200]!r}\n    Weft: {d.weft[:40]}\n    {d.peer}: {d.peer_ids[:40]}")
    if not args.corpus_dir:
        print("corpus: not compared, WEFT_CORPUS_DIR is not set")
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if any(differences.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
