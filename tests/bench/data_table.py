"""The table of data.sh: usage: data_table.py bench.log. Medians over the rounds, targets of the data engine, verdicts."""
import collections
import re
import statistics
import sys

ENCODERS = ("weft", "gigatoken", "tiktoken", "tokenizers")
# (text, pass): least ratio to gigatoken, least MB/s on a processor of 2.3 GHz
TARGETS = {
    ("english", "warm"): (1.15, 400),
    ("code", "warm"): (1.15, 350),
    ("multilingual", "warm"): (1.5, 200),
    ("english", "cold"): (1.15, 250),
    ("prose", "cold"): (1.15, 250),
    ("both", "cold"): (1.15, 250),
}
HARD_MB_PER_S, DECODE_MB_PER_S, TWO_THREADS = 30, 1000, 1.9


def verdict(met):
    return "yes" if met else "NO"


def add_both(speeds, tokens, megabytes):
    """The 1 GB of distinct text as one: both files one after the other."""
    parts = ("prose", "sources")
    if not all(part in tokens for part in parts):
        return
    tokens["both"] = {"see above"}
    for encoder in ENCODERS:
        for kind in ("cold", "warm"):
            if all(speeds[part, encoder, kind] for part in parts):
                seconds = sum(megabytes[part] / statistics.median(speeds[part, encoder, kind]) for part in parts)
                speeds["both", encoder, kind].append(sum(megabytes[part] for part in parts) / seconds)


def encoder_table(speeds, tokens):
    print("| text | MB/s | " + " | ".join(ENCODERS) + " | weft / gigatoken | target | met |\n| --- " + "| --- " * (4 + len(ENCODERS)) + "|")
    for name in tokens:
        for kind in ("cold", "warm"):
            row = [statistics.median(speeds[name, encoder, kind] or [0]) for encoder in ENCODERS]
            ratio = row[0] / row[1] if row[1] else 0
            least_ratio, least_speed = TARGETS.get((name, kind), (None, None))
            target = ", ".join([f"{least_ratio} x"] * bool(least_ratio) + [f"{least_speed} MB/s"] * bool(least_speed))
            met = verdict(ratio >= (least_ratio or 0) and row[0] >= (least_speed or 0)) if target else ""
            cells = " | ".join(f"{speed:.0f}" if speed >= 20 else f"{speed:.1f}" if speed else "-" for speed in row)
            print(f"| {name} | {kind} | {cells} | {ratio:.2f} | {target} | {met} |")
        if len(tokens[name]) > 1:
            print(f"the encoders disagree on {name}: {sorted(tokens[name])} tokens")
    print()


def main():
    speeds, tokens = collections.defaultdict(list), collections.defaultdict(set)
    megabytes, single, hard, memory = {}, {}, [], {}
    with open(sys.argv[1], encoding="utf-8") as log:
        for line in log:
            words = line.split()
            part, name = words[0], words[2].removesuffix(".jsonl")
            passes = {kind: float(speed) for kind, speed in re.findall(r"(cold|warm)\s+([\d.]+)", line)}
            if part in ("encoder", "big"):
                megabytes[name] = float(words[3])
                tokens[name].add(re.search(r"(\d+) tokens", line)[1])
                for kind, speed in passes.items():
                    speeds[name, words[1], kind].append(speed)
            elif part == "hard":
                hard.append((name, passes["cold"]))
            elif part == "memory":
                memory[name] = line.split(maxsplit=3)[3].strip()
            else:
                single[part, words[1]] = max(single.get((part, words[1]), 0), float(words[-2]))
    add_both(speeds, tokens, megabytes)
    if tokens:
        encoder_table(speeds, tokens)
    if hard:
        print(f"| one word | cold MB/s | >= {HARD_MB_PER_S} | memory of weft-data encode |\n| --- | --- | --- | --- |")
        for name, speed in hard:
            print(f"| {name} | {speed:.0f} | {verdict(speed >= HARD_MB_PER_S)} | {memory.get(name, '')} |")
        print()
    for (part, name), speed in single.items():
        if part == "decode":
            print(f"decoding {name}: {speed:.0f} MB/s, at least {DECODE_MB_PER_S}: {verdict(speed >= DECODE_MB_PER_S)}")
        elif part == "threads_2":
            ratio = 2 * speed / single["threads_1", name]
            print(f"two threads on {name}: {ratio:.2f} x one ({speed:.0f} MB per second of each processor), at least {TWO_THREADS}: "
                  f"{verdict(ratio >= TWO_THREADS)}")


main()
