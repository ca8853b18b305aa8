"""Texts for the encoder's benchmark: usage: encoder_texts.py FOLDER HARD_MB [FILE.jsonl.zst...]

Writes each given corpus as FOLDER/NAME.jsonl and FOLDER/NAME.txt (the documents back to back), and texts that are hard for an encoder, each
one word or nearly, as FOLDER/hard_NAME_1.txt and FOLDER/hard_NAME_HARD_MB.txt (MB).
"""
import base64
import io
import json
import os
import random
import sys

import zstandard


def write_corpus(path, folder):
    name = os.path.join(folder, os.path.basename(path).removesuffix(".jsonl.zst"))
    with open(path, "rb") as file, open(name + ".jsonl", "wb") as jsonl, open(name + ".txt", "wb") as txt:
        for line in io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file)):
            jsonl.write(line)
            try:
                txt.write(json.loads(line)["text"].encode())
            except UnicodeEncodeError:  # lone surrogates
                pass


def hard_texts(num_bytes):
    """Texts that no cache helps with repeat after a megabyte at the earliest."""
    generator = random.Random(20261120)
    letters = "".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=num_bytes))
    yield "one_letter", "a" * num_bytes
    yield "ab", "ab" * (num_bytes // 2)
    yield "dashes", "-" * num_bytes
    yield "backslashes", "\\" * num_bytes
    yield "random_letters", letters
    yield "random_etaoinshr", "".join(generator.choices("etaoinshr", k=num_bytes))
    yield "random_han", "".join(map(chr, generator.choices(range(0x4E00, 0x9FA5), k=num_bytes // 3)))
    yield "marks", "".join(map(chr, generator.choices(range(0x300, 0x370), k=num_bytes // 2)))
    yield "base64", base64.b64encode(generator.randbytes(num_bytes * 3 // 4)).decode()


def main():
    folder, hard_mb = sys.argv[1], int(sys.argv[2])
    for path in sys.argv[3:]:
        write_corpus(path, folder)
    for megabytes in (1, hard_mb):
        for name, text in hard_texts(megabytes * 1_000_000):
            with open(os.path.join(folder, f"hard_{name}_{megabytes}.txt"), "w", encoding="utf-8") as file:
                file.write(text)


main()
