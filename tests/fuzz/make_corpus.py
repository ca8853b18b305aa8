"""Writes the first inputs of the fuzz targets to FOLDER/<target>/; found ones are added beside them by hand (README).
usage: make_corpus.py FOLDER"""
import base64
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
lines_with_origins = [b'{"text":"a","url":"https://u:p@www.Ex\\u0041mple.org:80/x"}', b'{"meta":{"url":"http://a.b/","url":3,"source":"s"},"text":"b"}',
                      b'{"text":"c","meta":{"warc_headers":{"warc-target-uri":"ftp://[::1]:1/"}},"meta":{"pile_set_name":"' + long_text + b'"}}',
                      b'{"metadata":{"url":"a://\xc3\xa9' + b"\xe4\xb8\xad" * 20 + b'"},"text":["d","e"],"source":"\\u0000x"}']
for i, line in enumerate([*lines_with_origins, b"\n".join(lines_with_origins)]):
    write("json_lines", f"origin_{i}", line)
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

# vocabulary: the formats that are one file
gpt2_pattern = {"type": "ByteLevel", "add_prefix_space": False}
model = {"type": "BPE", "vocab": {text: i for text, i in with_merges.items() if text[0] != "<"}, "merges": merges.split("\n")[1:-1]}
tokenizer = {"version": "1.0", "added_tokens": [{"id": len(model["vocab"]), "content": "<|endoftext|>", "special": True}], "pre_tokenizer": gpt2_pattern,
             "model": model}
template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "B"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"B": {"ids": [1]}}}
few_bytes = {text: i for i, text in enumerate(["t", "h", "e", "th", "a"])}
for name, changes in [("plain", {}), ("whole", {"model": {**model, "ignore_merges": True, "merges": [m.split() for m in reversed(model["merges"])]}}),
                      ("template", {"post_processor": {"type": "Sequence", "processors": [template, {"type": "ByteLevel"}]}, "normalizer": {"type": "NFC"}}),
                      ("missing", {"model": {"vocab": few_bytes, "merges": ["t h"], "ignore_merges": True}, "added_tokens": []})]:
    write("vocabulary", f"tokenizer_json_{name}", json.dumps({**tokenizer, **changes}).encode())
ranked = [bytes([i]) for i in range(256)] + [b"th", b"the", b" the", b"aa", b"aaaa", b"xyz"]
write("vocabulary", "rank_file", b"".join(base64.b64encode(entry) + b" %d\n" % rank for rank, entry in enumerate(ranked) if rank != 259))


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

# input_layout: several frames, blocks, hints and tables
for name in ("zstd", "zstd_check", "zstd_19"):
    write("input_layout", name + "_3", files[name] * 3)
frame = files["zstd"]
hint = b"\x50\x2a\x4d\x18\x04\0\0\0"
write("input_layout", "pzstd", (hint + struct.pack("<I", len(frame)) + frame) * 3)
write("input_layout", "pzstd_lies", hint + struct.pack("<I", len(frame) + 1) + frame + hint + struct.pack("<I", 5) + frame)
table = b"".join(struct.pack("<II", len(frame), len(text)) for _ in range(3))
seek_table = struct.pack("<II", 0x184D2A5E, len(table) + 9) + table + struct.pack("<IBI", 3, 0, 0x8F92EAB1)
write("input_layout", "seekable", frame * 3 + seek_table)
write("input_layout", "seekable_lies", frame * 2 + frame[:-1] + seek_table)
write("input_layout", "seekable_swapped", frame + files["zstd_19"] * 2 + seek_table)
for name in ("xz", "xz_blocks", "xz_crc32"):
    write("input_layout", name + "_2", files[name] * 2)
    write("input_layout", name + "_padded", files[name] + bytes(8) + files[name])
write("input_layout", "xz_blocks", files["xz_blocks"])
write("input_layout", "xz_bent", files["xz_blocks"][:-20] + b"\1" + files["xz_blocks"][-19:])
write("input_layout", "gzip_2", files["gzip"] * 2)
write("input_layout", "plain", text)

# sidecars
footer = json.dumps({"inputs": [{"path": "a.jsonl"}, {"path": "b.zst"}]}).encode()
header = b"WEFTSRC1" + struct.pack("<IIQQQ", 1, 0, 2, 2, len(footer)) + bytes(24)
write("sidecars", "sources", b"s" + header + struct.pack("<IqIq", 0, 0, 1, 77) + footer)
with_origins = header[:8] + struct.pack("<I", 2) + header[12:]
write("sidecars", "sources_origins", b"s" + with_origins + struct.pack("<Iq32sIq32s", 0, 0, b"example.org", 1, 77, b"") + footer)
write("sidecars", "sources_bad_origin", b"s" + with_origins + struct.pack("<Iq32sIq32s", 0, 0, b"a\0b", 1, 77, b"\xe2\x80") + footer)
write("sidecars", "sources_bad_entry", b"s" + header + struct.pack("<IqIq", 5, 0, 1, -1) + footer)
write("sidecars", "sources_huge", b"s" + header[:16] + struct.pack("<QQQ", 2**60, 2**60, 2**60) + bytes(24) + footer)
sums = (b"weft-checksums 1\nxxh3-64 16777216\nfile .bin 33554433 bytes\n06a05fe3b2d5f9c1\n9d4e1e0b51a2cc0a\nc77b3abb6f87acd9\n"
        b"file .idx 0 bytes\nfile .sources 62 bytes\n0123456789abcdef\n")
write("sidecars", "checksums", b"c" + sums)
write("sidecars", "checksums_huge", b"c" + sums.replace(b"33554433", b"9223372036854775807"))
write("sidecars", "checksums_raw", b"C" + sums + b"end 2d06800538d394c2\n")
def progress(problem):  # of a task, as ledger_messages.h writes it
    bad_line = struct.pack("<qqqqq3sqq", 0, 1, 2, problem, 3, b"why", 4, 0)
    counts = struct.pack("<16q", 1, 2, 3, 5, 6, 7, 0, *[0] * 9) + struct.pack("<4q", 1, 1, 2, 3) + struct.pack("<9q", 1, *range(8)) + struct.pack("<q", 1) + bad_line + struct.pack("<q", 9)
    return (struct.pack("<q", 0) + counts + struct.pack("<q3q4qqq", 1, 1, 7, 2, 1, 1, 2, 3, 1, 0)).hex().encode()
write("sidecars", "journal", b'j{"program":"x"}\n' + progress(3) + b"\n")
write("sidecars", "journal_problem", b"j{}\n" + progress(9))
write("sidecars", "journal_raw", b'J0123456789abcdef {"program":"x"}\n')
sound = index(8, [10, 20, 2], [0, 1, 2, 3], 2)

# messages: numbers of 8 bytes, strings and lists with their length in front (ledger_messages.cpp)
def numbers(*values):
    return struct.pack(f"<{len(values)}q", *values)


def string(value):
    return numbers(len(value)) + value


totals = numbers(*range(7), *[0] * 9)
bad_line = string(b"in") + numbers(1, 2, 3) + string(b"why") + numbers(4) + string(b"hint")
counts = totals + numbers(1, 5, 6, 7) + numbers(1, *range(8)) + numbers(1) + bad_line + numbers(99)
progress = counts + numbers(10, 0, 0, 1)
failure = numbers(4) + string(b"message") + numbers(1) + bad_line
write("messages", "request", b"q" + numbers(2, 3) + totals + numbers(0, 0, 0, 0, 0))
write("messages", "request_full", b"q" + numbers(2, 3) + totals + numbers(1, 3) + counts + numbers(1, 4) + progress + numbers(1, 5, 6) + numbers(1, 7, 1, 5, 6, 1, 9) + numbers(1, 5) + failure +
      numbers(1) + failure)
write("messages", "answer", b"a" + numbers(0, 0, 0, 1, 0))
write("messages", "answer_full", b"a" + numbers(1, 0, 0, 0, 100) + progress + numbers(2, 3, 0, 0, 4, 5, 6, 1, 1, 2, 3, 4, 0, 0, 0, 4, 0, 1, 0, 0, 0, 0, 10, 30, 1, 20) + numbers(1, 8, 1, 1, 2, 3, 4, 5) + numbers(0, 1) + failure)
write("messages", "end", b"e" + failure)

# run_files: what a run reads and has read
def array(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


rows = index(1, [2, 0, 3], [0], 1)
for name, idx, values in [("u8", rows, bytes(range(5))), ("i32", index(4, [1, 2], [0], 4), struct.pack("<3i", 1, -2, 3)),
                          ("short", rows, b"\1"), ("float", index(6, [1], [0], 8), bytes(8)), ("cut", rows[:50], b"")]:
    write("run_files", f"rows_{name}", b"r" + struct.pack("<H", len(idx)) + idx + values)
write("run_files", "array", b"n" + array("<i4", "(3,)", struct.pack("<3i", 1, 2, 3)))
write("run_files", "array_two", b"n" + array("<i8", "(1, 2)", bytes(16)))
write("run_files", "array_huge", b"n" + array("<i2", "(4611686018427387904, 4)", bytes(8)))


def step(iteration, consumed, batch=8):
    return json.dumps({"iteration": iteration, "consumed_samples": consumed, "global_batch_size": batch, "lm_loss": 2.5, "grad_norm": None})


log = "\n".join([step(1, 8), step(2, 16), '{"iteration": 2, "validation_loss": 3}', '{"note": []}', step(4, 24), '{"iter'])
write("run_files", "metrics", b"l" + log.encode())
write("run_files", "metrics_twice", b"l" + (step(1, 8) + "\n" + step(1, 8) + "\n").encode())
run_arguments = {"data_path": ["0.3", "a", "0.7", "b"], "split": "90,5,5", "seq_length": 16, "seed": 1, "train_iters": 30, "train_samples": None,
                 "global_batch_size": 8, "micro_batch_size": 2, "eval_iters": 1, "eval_interval": 10, "dataloader_type": "single"}
identity = {"prefix": "/data/a", "num_documents": 3, "num_sequences": 3, "num_tokens": 100, "bin_bytes": 200, "idx_xxh3": "1", "bin_xxh3": "2"}
manifest = {"resumed_iteration": 2, "resumed_samples": 16, "resumed_tokens": 256, "resumed_valid_samples": 0, "data_parallel_size": 2,
            "num_iterations": 30, "working_directory": "/", "arguments": {**run_arguments, "dataloader_type": "cyclic", "global_batch_size": 4},
            "cyclic_order": {"micro_batch_size": 2, "data_parallel_size": 1},
            "earlier": [{"data_parallel_size": 1, "arguments": run_arguments}]}
for name, value in [("cyclic", manifest), ("first", manifest["earlier"][0]), ("datasets", {**manifest, "datasets": [identity]}),
                    ("rampup", {"arguments": {**run_arguments, "rampup_batch_size": [2, 2, 20], "train_samples": 200, "train_iters": None}}),
                    ("steps", {"arguments": {**run_arguments, "step_batch_size_schedule": "0:4 1K:8", "train_samples": 200, "train_iters": None}}),
                    ("curriculum", {"arguments": {**run_arguments, "curriculum_schedule_type": "fixed_linear", "curriculum_mode": "reshape",
                                                  "curriculum_min_difficulty": 8, "curriculum_total_step": 5}}),
                    ("samples", {"arguments": run_arguments, "dataset_samples": {"train": 240, "validation": 32, "test": 8}})]:
    write("run_files", f"manifest_{name}", b"m" + json.dumps(value).encode() + b"\0" + (step(1, 8) + "\n" + step(2, 16) + "\n").encode())
later = {**manifest, "cyclic_order": None, "arguments": {**run_arguments, "global_batch_size": 4}, "blends": "unchanged"}
later.pop("earlier")
listed = [{"data_parallel_size": 1, "arguments": run_arguments, "blends": {}}, later]
write("run_files", "checkpoint", b"p" + json.dumps({"info": {"iteration": 4, "consumed_train_samples": 24, "arguments": later["arguments"],
                                                           "run_segments": listed}}).encode())
write("run_files", "losses", b"oWEFTLOSS" + struct.pack("<q", 5) + bytes(24))
write("run_files", "losses_raw", b"oWEFTLOSS" + struct.pack("<qIfI", 0, 1, 2.5, 77))
for i, line in enumerate(["document 3 of data: 20 tokens", "data 4", "# none\n\ndata 0\ndata 0", '{"dataset": "data", "document": 2}', "data 99",
                          "sample 3 of train: 17 tokens from 1 document\n  document 1 (sequence 1), tokens 0 to 17 of 99", "web.jsonl:10"]):
    write("run_files", f"unsee_{i}", b"u" + line.encode() + b"\n")
write("run_files", "schedule", b"b" + json.dumps([{"from_samples": 10, "blend": "0.4 a 0.6 c"}, {"from_samples": 20, "blend": [0.1, "a", 0.9, "b"]}]).encode())
write("run_files", "schedule_tokens", b"b" + json.dumps([{"from_tokens": 4000000000, "blend": "1 a"}]).encode())
metric = {"index_to_sample_path": "/m/s_index_to_sample", "index_to_metric_path": "/m/s_index_to_metric", "difficulty_type": "value", "min_difficulty": 1,
          "max_difficulty": 20, "schedule_type": "fixed_root", "schedule_config": {"total_curriculum_step": 9, "difficulty_step": 1, "root_degree": 2}}
discrete = {**metric, "difficulty_type": "percentile", "schedule_type": "fixed_discrete", "schedule_config": {"difficulty": [1, 50, 100], "max_step": [5, 10]}}
write("run_files", "curriculum", b"c" + json.dumps({"score": metric}).encode())
write("run_files", "curriculum_discrete", b"c" + json.dumps({"a": discrete, "b": metric}).encode())
deepspeed = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0, "bf16": {"enabled": True}, "zero_optimization": {"stage": 1},
             "curriculum_learning": {"enabled": True, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 64,
                                     "schedule_type": "fixed_linear", "schedule_config": {"total_curriculum_step": 9, "difficulty_step": 8}}}
efficiency = {"data_efficiency": {"enabled": True, "seed": 5, "data_sampling": {"enabled": True, "curriculum_learning": {
    "enabled": True, "data_cluster_path": "/c", "curriculum_metrics": {"score": metric}}}}}
write("run_files", "deepspeed", b"d" + json.dumps(deepspeed).encode())
write("run_files", "deepspeed_efficiency", b"d" + json.dumps(efficiency).encode())
