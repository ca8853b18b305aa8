"""`weft-data train-vocab` must learn the merges of Hugging Face's trainer, ties included, for every pattern that a tokenizer.json can have,
and Hugging Face's tokenizers must load that file and give the ids that Weft gives.

usage: train_peers_test.py WEFT_DATA WORK_DIR [CORPUS_DIR]
Learns from random texts of few letters, where most pairs tie, and from the corpus (not nasty.jsonl.zst: Hugging Face's
trainer is quadratic in the length of a word). Exits 1 on any difference.
"""
import json
import os
import random
import subprocess
import sys

import peers
import tokenizers

NUM_RANDOM = 40
PATTERNS = "gpt2 bloom cl100k-oniguruma llama3 qwen2 qwen3.5 o200k tekken deepseek-v3 starcoder falcon".split()
SPECIAL_TOKENS = ["<pad>", peers.END_OF_TEXT]
CORPUS = [("english", 4096), ("multilingual", 32000), ("code", 20000)]


def weft_merges(program, work_dir, input_file, vocab_size, min_frequency):
    options = {"--input": input_file, "--vocab-size": vocab_size, "--min-frequency": min_frequency, "--output": work_dir}
    command = [program, "train-vocab", *(str(word) for option in options.items() for word in option), "--overwrite"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(f"{work_dir}/merges.txt", encoding="utf-8") as file:
        return file.read().splitlines()


def hugging_face_merges(work_dir, texts, vocab_size, min_frequency):
    learner = tokenizers.ByteLevelBPETokenizer(add_prefix_space=False)
    learner.train_from_iterator(
        texts, vocab_size=vocab_size, min_frequency=min_frequency, special_tokens=[peers.END_OF_TEXT], show_progress=False
    )
    learner.save_model(work_dir, "peer")
    with open(f"{work_dir}/peer-merges.txt", encoding="utf-8") as file:
        return file.read().splitlines()


def compare_pattern(program, work_dir, pattern, seed):
    """Returns what differs, or "" for equal merges and ids."""
    generator = random.Random(seed)
    texts = [peers.random_hostile_string(generator) + f" it's IT'S {i} caf\u00e9 12345\r\n\r\n" for i in range(600)]
    input_file, folder = f"{work_dir}/hostile.jsonl", f"{work_dir}/{pattern}"
    with open(input_file, "w", encoding="ascii") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    settings = ["--vocab-size", "900", "--min-frequency", "2", "--pattern", pattern, "--special-tokens", *SPECIAL_TOKENS]
    subprocess.run([program, "train-vocab", "--input", input_file, "--output", folder, *settings], check=True, stdout=subprocess.DEVNULL)
    path = f"{folder}/tokenizer.json"
    known = tokenizers.Tokenizer.from_file(path)
    learner = tokenizers.Tokenizer(tokenizers.models.BPE())
    learner.pre_tokenizer = known.pre_tokenizer
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=900, min_frequency=2, special_tokens=SPECIAL_TOKENS, initial_alphabet=alphabet, show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    with open(path, encoding="utf-8") as file:
        ours = json.load(file)["model"]["merges"]
    theirs = [" ".join(merge) for merge in json.loads(learner.to_str())["model"]["merges"]]
    if ours != theirs or not ours:
        return f"{len(ours)} and {len(theirs)} merges, first {next((a, b) for a, b in zip(ours, theirs) if a != b)}"
    encode = [program, "encode", "--tokenizer", path, "--input", input_file, "--special", "token", "--format", "jsonl"]
    our_ids = [json.loads(line) for line in subprocess.run(encode, check=True, stdout=subprocess.PIPE).stdout.splitlines()]
    their_ids = [encoding.ids for encoding in known.encode_batch(texts)]
    different = [text for text, a, b in zip(texts, our_ids, their_ids) if a != b]
    return f"{len(different)} texts have other ids, first {different[:1]}" if different or len(our_ids) != len(texts) else ""


def random_texts(seed):
    generator = random.Random(seed)
    alphabet = "abcd"[: generator.randint(1, 4)]
    longest = generator.choice([5, 12, 40])
    words = ["".join(generator.choices(alphabet, k=generator.randint(1, longest))) for _ in range(400)]
    return [" ".join(words[i : i + 20]) for i in range(0, len(words), 20)]


def main():
    program, work_dir = sys.argv[1:3]
    failed = False

    def compare(name, input_file, texts, vocab_size, min_frequency):
        ours = weft_merges(program, work_dir, input_file, vocab_size, min_frequency)
        theirs = hugging_face_merges(work_dir, texts, vocab_size, min_frequency)
        if ours == theirs:
            return len(ours) - 1
        nonlocal failed
        failed = True
        first = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
        print(f"{name}: {len(ours)} and {len(theirs)} lines, line {first + 1}: {ours[first:first+1]} and {theirs[first:first+1]}")
        return 0

    num_merges = 0
    for seed in range(NUM_RANDOM):
        texts = random_texts(seed)
        input_file = f"{work_dir}/random.jsonl"
        with open(input_file, "w", encoding="ascii") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        num_merges += compare(f"random texts {seed}", input_file, texts, [300, 500, 1500][seed % 3], 1 + seed % 4)
    print(f"random texts: {num_merges} equal merges")
    for pattern in PATTERNS:
        difference = compare_pattern(program, work_dir, pattern, len(pattern))
        failed = failed or bool(difference)
        print(f"{pattern}: {difference or 'equal merges and ids'}", flush=True)
    for name, vocab_size in CORPUS if len(sys.argv) > 3 else []:
        path = os.path.join(sys.argv[3], f"{name}.jsonl.zst")
        num_merges = compare(path, path, peers.corpus_texts(path), vocab_size, 2)
        print(f"{path}: {num_merges} equal merges", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
