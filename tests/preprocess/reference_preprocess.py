"""A slow, simple re-implementation of the algorithm of Megatron-LM's tools/preprocess_data.py (GPT, no sentence
splitting; a list of strings is a document of several sequences) and of the files of its core/datasets/indexed_dataset.py;
not its code. The vocabulary is the 256 bytes (ids as `weft-data train-vocab --vocab-size 257` gives them). Lines on
which Megatron would stop are left out; lone surrogates become U+FFFD.

usage: reference_preprocess.py vocab.json input output_prefix
"""
import json
import re
import struct
import sys

vocab_file, input_file, prefix = sys.argv[1:]
if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)

# GPT-2's printable alphabet: the byte each character stands for.
printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
alphabet = {chr(b): b for b in printable}
alphabet.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
vocab = json.load(open(vocab_file, encoding="utf-8"))
id_of_byte = {alphabet[text]: i for text, i in vocab.items() if text in alphabet}
eod = vocab["<|endoftext|>"]

lengths, bounds, num_bad = [], [0], 0
with open(prefix + ".bin", "wb") as out:
    data = open(input_file, "rb").read()
    lines = re.split(rb"\r\n|\r|\n", data)
    if lines[-1] == b"":
        lines.pop()
    for line in lines:
        try:
            texts = json.loads(line.decode("utf-8"))["text"]
            if not isinstance(texts, list):
                texts = [texts]
            if not all(isinstance(text, str) for text in texts):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            num_bad += 1
            continue
        sequences = []
        for text in texts:
            text = re.sub("[\ud800-\udfff]", "\ufffd", text)
            sequences.append([id_of_byte[b] for b in text.encode("utf-8")])
        sequences = [ids for ids in sequences if ids]
        if sequences:
            sequences[-1].append(eod)
        for ids in sequences:
            out.write(struct.pack(f"<{len(ids)}H", *ids))
            lengths.append(len(ids))
        bounds.append(len(lengths))

offsets = [0]
for length in lengths[:-1]:
    offsets.append(offsets[-1] + 2 * length)
with open(prefix + ".idx", "wb") as out:
    out.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, len(lengths), len(bounds)))
    out.write(struct.pack(f"<{len(lengths)}i", *lengths))
    out.write(struct.pack(f"<{len(lengths)}q", *offsets[: len(lengths)]))
    out.write(struct.pack(f"<{len(bounds)}q", *bounds))
print(num_bad)
