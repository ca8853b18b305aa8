"""Writes the first inputs of the fuzz targets to FOLDER/<target>/; found ones are added beside them by hand (README).
usage: make_corpus.py FOLDER"""
import bz2
import gzip
import json
import lzma
import os
import struct
import subprocess
import sys


def write(target, name, data):
    folder = os.path.join(sys.argv[1], target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as out:
        out.write(data)


# json_string: what follows an opening quote
long_text = b"words that fill more than one block of sixty-four bytes, so that an escape lies in the next one "
for i, raw in enumerate([b'plain" rest', b'\\n\\"\\\\\\/\\b\\f\\r\\t"', b'\\u00e9\\ud83d\\ude00\\ud800"', long_text + b'\\n"',
                         long_text[:63] + b'\\\\"', long_text[:62] + b'\\u4e2d"', b'\\' * 130 + b'"', b'\x1f"', b'\\x"', b'\\u12g4"',
                         "caf\u00e9 \u4e2d\U0001F600".encode() + b'"', b'no end']):
    write("json_string", f"{i}", raw)

# json_lines: chunks of lines
lines = [b'{"text":"the text"}', b'{"text":["a","","b\\n"]}', b'{"a":[1,{"b":null}],"text":"caf\xc3\xa9 \\u00e9","c":-1.5e+3}',
         b'{"text":"aaaa te","text":"last"}', b'{"text":NaN}', b'[]', b'', b'{"text":"\\ud800"}', b'{"\\u0074ext":"x"}', b'\xff',
         b'\xef\xbb\xbf{"text":"x"}', b'{"x":Infinity,"text":""}', b'{"text":"<|endoftext|>"}', b'[' * 995 + b']' * 995,
         b'{"text":"' + long_text * 3 + b'\\"end"}', b'{"text":[]}', b'{"text":["a",1]}', b'{"text":"a"} x', b'{"text": 01}']
for i, line in enumerate(lines):
    write("json_lines", f"{i}", line)
for name, end in ("n", b"\n"), ("rn", b"\r\n"), ("r", b"\r"):
    write("json_lines", f"all_{name}", end.join(lines[:13]) + end)

# vocabulary: vocab.json, NUL, merges.txt
printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
alphabet = [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]
entries = {text: i for i, text in enumerate(alphabet)}
with_merges = dict(entries)
for text in ["th", "the", "\u0120the", "ab", "aa", "aaaa", "<|endoftext|>"]:
    with_merges[text] = len(with_merges)
merges = "#version: 0.2\nt h\nth e\n\u0120 the\na b\na a\naa aa\n"
for name, vocab, merge_text in [("bytes", entries, ""), ("merges", with_merges, merges), ("order", with_merges, merges.replace("t h\n", "") + "t h\n"),
                                ("twice", with_merges, merges + "t h\n"), ("three", with_merges, merges + "t h e\n"),
                                ("gap", {**entries, "zz": 300}, ""), ("few", {"a": 0}, ""), ("not", [1], "")]:
    write("vocabulary", name, json.dumps(vocab).encode() + b"\0" + merge_text.encode())


# index: .idx beside a .bin of 64 bytes, 32 tokens of 16 bits or 16 of 32
def index(dtype, lengths, bounds, size, magic=b"MMIDIDX\0\0", version=1, counts=None):
    offsets = [sum(lengths[:i]) * size for i in range(len(lengths))]
    num = counts or (len(lengths), len(bounds))
    return (magic + struct.pack("<QBQQ", version, dtype, *num) + struct.pack(f"<{len(lengths)}i", *lengths) +
            struct.pack(f"<{len(offsets)}q", *offsets) + struct.pack(f"<{len(bounds)}q", *bounds))


write("index", "u16", index(8, [10, 20, 2], [0, 1, 1, 3], 2))
write("index", "i32", index(4, [16], [0, 1], 4))
write("index", "no_bounds", index(8, [30, 2], [0], 2))
write("index", "empty", index(8, [], [0], 2))
write("index", "short", index(8, [10, 20], [0, 2], 2))
write("index", "negative", index(8, [33, -1], [0, 1, 2], 2))
write("index", "counts", index(8, [32], [0, 1], 2, counts=(2**62, 2**62)))
write("index", "float", index(6, [8], [0, 1], 8))

# decompress
text = b'{"text":"some lines of text"}\n' * 8


def run(*command):
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True).stdout


files = {"plain": text, "gzip": gzip.compress(text, mtime=0), "bzip2": bz2.compress(text), "xz": lzma.compress(text),
         "xz_crc32": lzma.compress(text, check=lzma.CHECK_CRC32), "zstd": run("zstd", "-q", "-c"),
         "zstd_check": run("zstd", "-q", "-c", "--check", "--no-content-size"), "zstd_skip": b"\x50\x2a\x4d\x18\x04\0\0\0skip" + run("zstd", "-q", "-c"),
         "xz_blocks": run("xz", "-c", "--block-size=64"), "zstd_19": run("zstd", "-q", "-c", "-19")}
for name, data in files.items():
    write("decompress", name, data)
    if name != "plain":
        write("decompress", name + "_cut", data[:-3])
        write("decompress", name + "_two", data + data)
        write("decompress", name + "_more", data + b"more")
write("decompress", "gzip_zeros", files["gzip"] + bytes(100))
write("decompress", "gzip_bomb", gzip.compress(bytes(1 << 21), mtime=0))
write("decompress", "zstd_bomb", subprocess.run(["zstd", "-q", "-c"], input=bytes(1 << 22), stdout=subprocess.PIPE, check=True).stdout)
