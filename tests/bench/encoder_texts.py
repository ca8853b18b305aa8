"""Texts for the encoder's benchmark: usage: encoder_texts.py FOLDER MAX_SYSTEM_MB [FILE.jsonl.zst...]

Writes each given corpus as FOLDER/NAME.jsonl, what this machine's packages hold of documentation and sources (no file twice) as
FOLDER/system.jsonl, and 20 MB texts that are hard for an encoder as FOLDER/hard_NAME.jsonl.
"""
import base64
import hashlib
import json
import os
import random
import sys

import zstandard

TEXT_ENDINGS = (".py", ".h", ".hpp", ".c", ".cpp", ".txt", ".html", ".js", ".md", ".rst", ".pm", ".pl", ".cmake")


def system_texts(max_bytes):
    seen = set()
    for folder, folders, names in os.walk("/usr"):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.endswith(TEXT_ENDINGS) or os.path.islink(path):
                continue
            try:
                with open(path, encoding="utf-8") as file:
                    text = file.read(4 << 20)
            except (OSError, UnicodeDecodeError):
                continue
            digest = hashlib.sha1(text.encode()).digest()
            if digest not in seen and max_bytes > 0:
                seen.add(digest)
                max_bytes -= len(text)
                yield text


def hard_texts(num_bytes=20_000_000):
    generator = random.Random(20261120)
    yield "one_letter", "a" * num_bytes
    yield "ab", "ab" * (num_bytes // 2)
    yield "random_letters", "".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=num_bytes))
    yield "random_etaoinshr", "".join(generator.choices("etaoinshr", k=num_bytes))
    yield "random_han", "".join(chr(generator.randrange(0x4E00, 0x9FA5)) for _ in range(num_bytes // 3))
    yield "marks", "".join(chr(generator.randrange(0x300, 0x370)) for _ in range(num_bytes // 2))
    yield "base64", base64.b64encode(generator.randbytes(num_bytes * 3 // 4)).decode()


def write_jsonl(path, texts):
    with open(path, "w", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")


def main():
    folder, max_system_mb = sys.argv[1], int(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    for path in sys.argv[3:]:
        with open(path, "rb") as source, open(os.path.join(folder, os.path.basename(path)[: -len(".zst")]), "wb") as target:
            zstandard.ZstdDecompressor().copy_stream(source, target)
    write_jsonl(os.path.join(folder, "system.jsonl"), system_texts(max_system_mb * 1_000_000))
    for name, text in hard_texts():
        write_jsonl(os.path.join(folder, f"hard_{name}.jsonl"), [text])


main()
