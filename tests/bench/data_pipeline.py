"""Weft's pipeline, from .jsonl to .bin/.idx on disk, beside its own encoder, decompressors and Megatron-LM.

usage: data_pipeline.py FOLDER [pipeline] [formats] [memory] [megatron]      (without a part: all)

FOLDER is WEFT_BENCH_CACHE of data.sh, which makes its venv and texts; WEFT_GPT2_DIR, WEFT_BUILD_DIR (default: build/release) and WEFT_ROUNDS (3)
as there. Prints Markdown tables. Things that are compared take turns in every round. MB are 10^6 bytes. Speeds are by processor time (user and system, all
threads and child processes) where not called wall: other programs may take the cores.
"""
import glob
import json
import multiprocessing
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("WEFT_BUILD_DIR", os.path.join(HERE, "../../build/release"))
WEFT = os.path.realpath(os.path.join(BUILD, "bin/weft-data"))
GPT2 = os.environ["WEFT_GPT2_DIR"]
VOCABULARY = ["--vocab-file", f"{GPT2}/vocab.json", "--merge-file", f"{GPT2}/merges.txt"]
ROUNDS = int(os.environ.get("WEFT_ROUNDS", "3"))
COPIES = 8  # the corpora are small: so often over, caches are warm from the second copy on
MIB = 1 << 20


class Run:
    """One finished process: user_s and system_s (children included), wall_s, peak_bytes, output."""

    def __init__(self, command, keep_output=False, env=None):
        start = time.monotonic()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE if keep_output else subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env
        )
        self.output = process.stdout.read().decode() if keep_output else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.wall_s = time.monotonic() - start
        self.user_s, self.system_s = usage.ru_utime, usage.ru_stime
        self.peak_bytes = usage.ru_maxrss * 1024  # not less than this program's own: see apart()
        if process.returncode != 0:
            sys.exit(f"exit status {process.returncode}: {' '.join(command)}")

    @property
    def processor_s(self):
        return self.user_s + self.system_s

    def without(self, startup):
        self.user_s -= startup.user_s
        self.system_s -= startup.system_s
        self.wall_s -= startup.wall_s
        return self


def apart(function, *arguments):
    """Calls it in a process of its own: what it takes of memory would count for every program that is measured later."""
    process = multiprocessing.Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode != 0:
        sys.exit(f"{function.__name__} failed")


def in_turns(jobs, rounds=ROUNDS):
    """{name: [result of each round]} of {name: function}, one after the other in every round."""
    results = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            results[name].append(job())
    return results


def preprocess(path, num_workers, prefix="out"):
    for old in glob.glob(prefix + "_text_document.*"):  # or the run would have to free their memory
        os.remove(old)
    command = [WEFT, "preprocess", "--input", path, "--output-prefix", prefix, "--append-eod"]
    return Run(command + ["--workers", str(num_workers), *VOCABULARY])


def startup(num_workers=1):
    """Of a run without input: loading the vocabulary, making files, committing."""
    open("empty.jsonl", "wb").close()
    return min((preprocess("empty.jsonl", num_workers) for _ in range(5)), key=lambda run: run.processor_s)


def encode_seconds(path, num_passes):
    """(wall, processor) time that `weft-data encode` says it needs for all passes together, the first with empty caches."""
    run = Run([WEFT, "encode", "--input", path, "--repeat", str(num_passes), "--quiet", *VOCABULARY], keep_output=True)
    speeds = re.findall(r"([\d.]+) MB/s, ([\d.]+) MB a second of processor time", run.output)
    assert len(speeds) == num_passes, run.output
    return tuple(sum(size_of(path) / float(speed[k]) for speed in speeds) for k in (0, 1))


def table(head, rows):
    print("\n| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def spread(values, digits=0):
    """Best and median of speeds."""
    return f"{max(values):.{digits}f} ({statistics.median(values):.{digits}f})"


def size_of(path):
    return os.path.getsize(path) / 1e6


def write_copies(source, target, copies):
    if not os.path.exists(target) or os.path.getsize(target) != copies * os.path.getsize(source):
        with open(target + ".part", "wb") as out:
            for _ in range(copies):
                with open(source, "rb") as file:
                    shutil.copyfileobj(file, out, 16 * MIB)
        os.rename(target + ".part", target)
    return target


def write_texts(source, target):
    """The texts of a .jsonl, one after the other: what the encoder alone is given."""
    with open(source, "rb") as lines, open(target, "wb") as out:
        for line in lines:
            out.write(json.loads(line)["text"].encode("utf-8", "replace"))


def measure_pipeline():
    """The goal is 0.70 of the encoder's speed per thread, by the clock: what somebody waits for with one worker, beside one thread that
    only encodes the same text. Processor time counts the reader's thread and the kernel's copies against the pipeline as well."""
    rows = []
    start = startup()
    for name in ("english", "code", "multilingual", "prose", "sources"):  # the last two: 1 GB of distinct text
        copies = 1 if name in ("prose", "sources") else COPIES
        source = f"../texts/{name}.jsonl"
        if not os.path.exists(source):
            continue
        lines = write_copies(source, f"{name}{copies}.jsonl", copies)
        text = f"{name}.txt"
        apart(write_texts, source, text)
        megabytes = size_of(text) * copies
        results = in_turns(
            {
                1: lambda: preprocess(lines, 1).without(start),
                "encoder": lambda: encode_seconds(text, copies),
                2: lambda: preprocess(lines, 2).without(start),
            }
        )
        row = [f"{name} x {copies}", f"{size_of(lines):.0f}", f"{megabytes:.0f}"]
        for k, seconds_of in enumerate((lambda run: run.wall_s, lambda run: run.processor_s)):
            encoder = [megabytes / seconds[k] for seconds in results["encoder"]]
            one, two = ([megabytes / seconds_of(run) for run in results[n]] for n in (1, 2))
            ratio = f"{max(one) / max(encoder):.2f} ({statistics.median(one) / statistics.median(encoder):.2f})"
            row += [spread(encoder), spread(one), ratio, spread(two)]
        rows.append(row)
    print(f"\nFrom .jsonl to .bin/.idx on disk. Best (median) of {ROUNDS} rounds; MB/s of text, by the clock and by processor time, startup of")
    print(f"{start.wall_s:.2f} s taken off; the encoder goes over the same text as often in memory, the first time with empty caches.")
    head = ["text", "MB", "MB of text"]
    for measure in ("clock", "processor"):
        head += [f"{measure}: encoder", "1 worker", "1 worker / encoder", "2 workers"]
    table(head, rows)


def compressed(text, name, command):
    if not os.path.exists(name):
        subprocess.run(f"{command} <{text} >{name}.part && mv {name}.part {name}", shell=True, check=True)
    return name


def write_mostly_unused(source, target):
    """Lines whose text is short beside a long member that nobody asked for: little but the decompression costs time."""
    with open(source, "rb") as lines, open(target, "w", encoding="utf-8") as out:
        for line in lines:
            page = json.loads(line)["text"]
            out.write(json.dumps({"page": page, "text": page[:20]}, ensure_ascii=False) + "\n")


def measure_formats():
    subprocess.run("cat ../texts/english.jsonl ../texts/code.jsonl ../texts/multilingual.jsonl >mixed", shell=True, check=True)
    write_copies("mixed", "mixed4.jsonl", 4)
    apart(write_mostly_unused, f"english{COPIES}.jsonl", "unused.jsonl")
    unused = "unused.jsonl"
    blocks = "split -b 4M --filter='{}'"
    files = [
        ("zstd, one frame", "mixed4.jsonl", compressed("mixed4.jsonl", "frame.jsonl.zst", "zstd -q -3"), "zstd"),
        ("zstd, frames of 4 MiB", "mixed4.jsonl", compressed("mixed4.jsonl", "frames.jsonl.zst", blocks.format("zstd -q -3")), "zstd"),
        ("zstd, one frame, mostly unused", unused, compressed(unused, "unused.jsonl.zst", "zstd -q -3"), "zstd"),
        ("xz, blocks of 4 MiB", "mixed4.jsonl", compressed("mixed4.jsonl", "blocks.jsonl.xz", "xz -1 -T2 --block-size=4MiB"), "xz"),
        ("gzip, one member", "mixed4.jsonl", compressed("mixed4.jsonl", "member.jsonl.gz", "gzip -6"), "gzip"),
        ("bzip2, one stream", "mixed", compressed("mixed", "stream.jsonl.bz2", "bzip2 -9"), "bzip2"),
    ]
    start = startup()
    rows = []
    for name, plain, path, tool in files:
        results = in_turns(
            {
                "tool": lambda: Run([tool, "-dc", path]),
                1: lambda: preprocess(path, 1).without(start),
                2: lambda: preprocess(path, 2).without(start),
                "plain 1": lambda: preprocess(plain, 1).without(start),
                "plain 2": lambda: preprocess(plain, 2).without(start),
            }
        )
        wall = {job: max(size_of(plain) / run.wall_s for run in runs) for job, runs in results.items()}
        processor = {job: min(run.processor_s for run in runs) for job, runs in results.items()}
        decoding = size_of(plain) / max(processor[1] - processor["plain 1"], 1e-3)
        rows.append(
            [name, f"{size_of(plain):.0f}", f"{size_of(plain) / processor['tool']:.0f}", f"{decoding:.0f}"]
            + [f"{wall[job]:.0f}" for job in ("tool", 1, 2, "plain 1", "plain 2")]
            + [f"{wall[n] / min(wall['tool'], wall[f'plain {n}']):.2f}" for n in (1, 2)]
        )
    print(f"\nCompressed input, MB/s of decompressed text, best of {ROUNDS} rounds, startup taken off. Decoding: what weft needs beyond what it needs")
    print("for the same lines uncompressed. Of the bound: wall time beside the slower of `TOOL -dc` to /dev/null and the lines uncompressed.")
    head = ["input", "MB", "tool, processor", "decoding, processor", "tool, wall", "1 worker", "2 workers", "plain, 1 worker", "plain, 2 workers"]
    table(head + ["of the bound, 1", "of the bound, 2"], rows)


def write_long_lines(target, num_lines):
    """Lines of 60 MiB of English, each behind 2000 ordinary ones."""
    with open("../texts/english.jsonl", "rb") as file:
        lines = file.readlines()
    text = "\n".join(json.loads(line)["text"] for line in lines)
    text = json.dumps({"text": (text + text + text)[: 57 * MIB]})
    assert 57 * MIB < len(text) < 60 * MIB, len(text)
    with open(target, "wb") as out:
        for _ in range(num_lines):
            out.writelines(lines[:2000])
            out.write(text.ljust(60 * MIB - 1).encode() + b"\n")


def measure_memory():
    apart(write_long_lines, "long1.jsonl", 1)
    apart(write_long_lines, "long8.jsonl", 8)
    inputs = [
        ("English, plain", write_copies("../texts/english.jsonl", f"english{COPIES}.jsonl", COPIES)),
        ("a line of 60 MiB", "long1.jsonl"),
        ("eight lines of 60 MiB", "long8.jsonl"),
    ]
    if os.path.exists("frame.jsonl.zst"):
        inputs.insert(1, ("zstd, one frame", "frame.jsonl.zst"))
    rows = []
    for name, path in inputs:
        peaks = [preprocess(path, num_workers).peak_bytes / MIB for num_workers in (1, 2, 8)]
        rows.append([name] + [f"{peak:.0f}" for peak in peaks])
    rows.append(["allowed"] + [str(256 + 64 * num_workers) for num_workers in (1, 2, 8)])
    print("\nPeak memory, MiB.")
    table(["input", "1 worker", "2 workers", "8 workers"], rows)


def same_bytes(first, second):
    return all(subprocess.run(["cmp", "-s", first + suffix, second + suffix]).returncode == 0 for suffix in (".bin", ".idx"))


def write_plain_documents(source, target):
    """None of over 1 MB, none that is empty: the tools treat those otherwise."""
    with open(source, "rb") as lines, open(target, "wb") as out:
        out.writelines(line for line in lines if len(line) < 1_000_000 and json.loads(line)["text"])


def measure_megatron():
    python = os.path.abspath("../venv/bin/python")
    has = [python, "-c", "import numpy, importlib.util as u; assert u.find_spec('megatron.core')"]
    if subprocess.run(has, stderr=subprocess.DEVNULL).returncode != 0:
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run(pip + ["numpy"], check=True)
        subprocess.run(pip + ["--no-deps", "megatron-core==0.16.1"], check=True)  # without PyTorch
    apart(write_plain_documents, "../texts/english.jsonl", "megatron1.jsonl")
    write_copies("megatron1.jsonl", f"megatron{COPIES}.jsonl", COPIES)
    with open("megatron1.jsonl", "rb") as file:
        num_documents = sum(1 for _ in file)
    start = startup()

    def peer(tool, path, num_workers):
        command = [python, os.path.join(HERE, "megatron_peer.py"), tool, path, f"{tool}{num_workers}", str(num_workers)]
        environment = {**os.environ, "RAYON_NUM_THREADS": str(num_workers), "TOKENIZERS_PARALLELISM": "false", "PYTHONDONTWRITEBYTECODE": "1"}
        run = Run([*command, *VOCABULARY[1::2]], keep_output=True, env=environment)
        run.user_s, run.system_s, run.wall_s = map(float, run.output.split()[-3:])  # without imports and loading
        return run

    rows = []
    for tool, script, copies in (("slow", "preprocess_data.py", 1), ("fast", "preprocess_data_fast.py", COPIES)):
        for num_workers in (1, 2):
            path = f"megatron{copies}.jsonl"
            jobs = {
                "weft": lambda: preprocess(path, num_workers, f"weft_{tool}").without(start),
                "tool": lambda: peer(tool, path, num_workers),
            }
            results = in_turns(jobs, 1 if tool == "slow" else ROUNDS)
            row = [script, str(num_workers), f"{size_of(path):.0f}"]
            best = {job: min(runs, key=lambda run: run.processor_s) for job, runs in results.items()}
            for run in (best["tool"], best["weft"]):
                row += [f"{num_documents * copies / run.processor_s:.0f}", f"{size_of(path) / run.processor_s:.1f}", f"{run.user_s:.2f} + {run.system_s:.2f}"]
            for what in ("processor_s", "user_s", "wall_s"):
                theirs, ours = (min(getattr(run, what) for run in results[job]) for job in ("tool", "weft"))
                row += [f"{theirs / ours:.1f}"]
            row += [f"{max(run.peak_bytes for run in results[job]) / MIB:.0f}" for job in ("tool", "weft")]
            rows.append(row + ["yes" if same_bytes(f"weft_{tool}_text_document", f"{tool}{num_workers}") else "NO"])
    print("\nMegatron-LM's two tools (megatron_peer.py: their steps, Megatron-Core's own dataset builder), startup taken off on both sides, by")
    print("processor time. Ratios: best of theirs to best of ours. Peak memory in MiB, of the largest process.")
    head = ["tool", "workers", "MB", "docs/s", "MB/s", "user + system s", "weft: docs/s", "MB/s", "user + system s"]
    table(head + ["ratio", "ratio, user time only", "ratio, wall", "peak", "weft: peak", "same files"], rows)


def main():
    parts = {"pipeline": measure_pipeline, "formats": measure_formats, "memory": measure_memory, "megatron": measure_megatron}
    wanted = sys.argv[2:] or list(parts)
    folder = os.path.join(sys.argv[1], "pipeline")
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    for part in wanted:
        parts[part]()


if __name__ == "__main__":
    main()
