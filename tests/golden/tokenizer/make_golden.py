"""Makes the golden files of the tokenizer's tests with its two peers (versions: README.md).

usage: make_golden.py GPT2_DIR       (folder with GPT-2's vocab.json and merges.txt)

  small_vocab.json, small_merges.txt  learned from texts.jsonl by Hugging Face's ByteLevelBPETokenizer, vocab_size 1500,
                                      min_frequency 2; <|endoftext|> moved from the first id to the last, as in GPT-2
  ids.jsonl                           hostile texts and their ids in GPT-2's and in the small vocabulary, by tiktoken
                                      and by Hugging Face's tokenizers, which must agree
"""
import json
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/../../tokenizer")
import peers

import tokenizers

NUM_RANDOM = 300
SMALL = (f"{HERE}/small_vocab.json", f"{HERE}/small_merges.txt")

# Each rule of the pattern, and what breaks programs that only nearly follow it.
WRITTEN = [
    "", "Hello world", "hello world", " hello", "\n\n", "0" * 17, "indivisible", "hello \U0001f44b world \U0001f30d", "\ufffd",
    "it's I'm you're we've they'll he'd don't", "IT'S I'M YOU'RE WE'VE", "'tis", " 's", "''s", "x's's", "it\u2019s", "'", "' s", "'r", "'re",
    "a b", "a  b", "a   b", "a    ", "    a", " ", "  ", "\t", " \t", "\t ", "\ta", " \ta", "\t a", "a\n\nb", "x\n\n y", "a \n b", "\r\n\r\nx",
    "a\u00a0b", "a \u00a0 b", "a\u3000\u3000b", "a\u0085b", "a\u2028b", "a\x1cb \x1c", "a\u180eb", "a\u200bb", "\ufeffa",
    "2024 20 24, 1,000.00 3rd x86", "\u0661\u0662 \u00bd\u00bc \u2160\u2161 a\u00b2", "snake_case __init__ a-b", "e\u0301 \u0301\u0301 a\u0308",
    "...!!!??? ... (a) [b] {c} <d>", "https://example.com/a?b=c&d=%20#e", "if (x == 1) {\n        return y[0];\n    }\n", "a" * 40, "ab" * 60, "-" * 130,
    " " * 70 + "x", "=" * 33, "\u4e2d\u6587\u6ca1\u6709\u7a7a\u683c", "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22", "\u0939\u093f\u0928\u094d\u0926\u0940",
    "\ud55c\uad6d\uc5b4 \uc870\uc120\ub9d0", "\u05e2\u05d1\u05e8\u05d9\u05ea \u0627\u0644\u0639\u0631\u0628\u064a\u0629", "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "<|endoftext|>", "a<|endoftext|>b", "hello <|endoftext|>", "<|endoftext|><|endoftext|>", "\x00\x01\x02", "\U00031350\U00031351",
    "Antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0NTY3ODkrLw==",
]


def learn_small_vocabulary():
    with open(f"{HERE}/texts.jsonl", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    learner = tokenizers.ByteLevelBPETokenizer(add_prefix_space=False)
    learner.train_from_iterator(texts, vocab_size=1500, min_frequency=2, special_tokens=[peers.END_OF_TEXT], show_progress=False)
    learner.save_model(HERE, "made")
    os.rename(f"{HERE}/made-merges.txt", SMALL[1])
    with open(f"{HERE}/made-vocab.json", encoding="utf-8") as file:
        vocab = json.load(file)
    os.remove(f"{HERE}/made-vocab.json")
    entries = sorted(vocab, key=vocab.get)
    entries.remove(peers.END_OF_TEXT)
    with open(SMALL[0], "w", encoding="utf-8") as file:
        numbered = {entry: i for i, entry in enumerate([*entries, peers.END_OF_TEXT])}
        json.dump(numbered, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


def main():
    learn_small_vocabulary()
    vocabularies = {"gpt2": (f"{sys.argv[1]}/vocab.json", f"{sys.argv[1]}/merges.txt"), "small": SMALL}
    encoders = {name: (peers.load_tiktoken(files[0]), peers.load_hugging_face(*files)) for name, files in vocabularies.items()}
    generator = random.Random(2)
    texts = WRITTEN + [peers.random_hostile_string(generator) for _ in range(NUM_RANDOM)]
    with open(f"{HERE}/ids.jsonl", "w", encoding="ascii") as file:
        for text in texts:
            line = {"text": text}
            for name, (tiktoken, hugging_face) in encoders.items():
                line[name] = tiktoken.encode_ordinary(text)
                assert line[name] == hugging_face.encode(text).ids, (name, text)
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
