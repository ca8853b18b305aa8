"""A slow, simple re-implementation of the algorithm of Megatron-LM's tools/preprocess_data.py (GPT, no sentence
splitting; a list of strings is a document of several sequences) and of the files of its core/datasets/indexed_dataset.py;
not its code. The vocabulary is the 256 bytes (ids as `weft-data train-vocab --vocab-size 257` gives them). Lines on
which Megatron would stop are left out first; lone surrogates become U+FFFD. PREFIX.sources is ours, not Megatron's.
"""
import argparse
import json
import re
import struct
import sys

parser = argparse.ArgumentParser()
parser.add_argument("vocab_file")
parser.add_argument("prefix")
parser.add_argument("inputs", nargs="+")
parser.add_argument("--keys", nargs="+", default=["text"], help="the first one's texts are written")
parser.add_argument("--dtype", choices=["uint16", "int32"], default="uint16")
args = parser.parse_args()
if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)

# GPT-2's printable alphabet: the byte each character stands for.
printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
alphabet = {chr(b): b for b in printable}
alphabet.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
vocab = json.load(open(args.vocab_file, encoding="utf-8"))
id_of_byte = {alphabet[text]: i for text, i in vocab.items() if text in alphabet}
eod = vocab["<|endoftext|>"]
item, code = ("H", 8) if args.dtype == "uint16" else ("i", 4)


def texts_under(key, line):
    texts = json.loads(line.decode("utf-8"))[key]
    if not isinstance(texts, list):
        texts = [texts]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
    return texts


# (input, byte, texts) of each line that is a document
documents, num_bad = [], 0
for input_idx, name in enumerate(args.inputs):
    data = open(name, "rb").read()
    for found in re.finditer(rb"([^\r\n]*)(\r\n|\r|\n|$)", data):
        if found.start() == len(data):
            break
        try:
            texts = [texts_under(key, found.group(1)) for key in args.keys]
        except (ValueError, KeyError, TypeError, RecursionError):
            num_bad += 1
            continue
        documents.append((input_idx, found.start(), texts[0]))

lengths, bounds, sources = [], [0], []
with open(args.prefix + ".bin", "wb") as out:
    for input_idx, position, texts in documents:
        sequences = []
        for text in texts:
            text = re.sub("[\ud800-\udfff]", "\ufffd", text)
            sequences.append([id_of_byte[b] for b in text.encode("utf-8")])
        sequences = [ids for ids in sequences if ids]
        if sequences:
            sequences[-1].append(eod)
        for ids in sequences:
            out.write(struct.pack(f"<{len(ids)}{item}", *ids))
            lengths.append(len(ids))
        bounds.append(len(lengths))
        sources.append((input_idx, position))

offsets = [0]
for length in lengths[:-1]:
    offsets.append(offsets[-1] + struct.calcsize(item) * length)
with open(args.prefix + ".idx", "wb") as out:
    out.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(lengths), len(bounds)))
    out.write(struct.pack(f"<{len(lengths)}i", *lengths))
    out.write(struct.pack(f"<{len(lengths)}q", *offsets[: len(lengths)]))
    out.write(struct.pack(f"<{len(bounds)}q", *bounds))
footer = json.dumps({"inputs": [{"path": name, "locator": "byte"} for name in args.inputs]}, separators=(",", ":")).encode() + b"\n"
with open(args.prefix + ".sources", "wb") as out:
    out.write(struct.pack("<8sIIQQQ24x", b"WEFTSRC1", 3, 0, len(sources), len(args.inputs), len(footer)))
    for entry in sources:
        out.write(struct.pack("<IQ", *entry))
    out.write(footer)
print(num_bad)
