"""Makes small_tokenizer.json and its golden ids with Hugging Face's tokenizers (version: README.md).

usage: make_added_tokens.py

  small_tokenizer.json  the small vocabulary with NFC, a template, and added tokens of every kind
  added_tokens.jsonl    texts and their ids: "literal" (encode_special_tokens), "special", "template"
"""
import json
import os
import random

import tokenizers
from tokenizers import AddedToken

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENIZER = f"{HERE}/small_tokenizer.json"
SPECIAL = [AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=False), AddedToken("<s><think>", normalized=False),
           AddedToken("<mask>", lstrip=True, normalized=True), AddedToken("<pad>", rstrip=True, normalized=False)]
ORDINARY = [AddedToken("<think>", normalized=False), AddedToken("word", single_word=True, normalized=False), AddedToken("e\u0301!", normalized=True),
            *[AddedToken(" " * n, normalized=True) for n in (2, 3, 5)], AddedToken("\t", lstrip=True, rstrip=True, normalized=True)]
PIECES = ["<s>", "</s>", "<s><think>", "<think>", "<mask>", "<pad>", "<|endoftext|>", "word", "sword", "words", "word_", "e\u0301!", "\u00e9!", "\u00e9", "\u0301",
          " ", "  ", "   ", "\u2000", "\t", "\n", "\u3000", "a", "The", " the", "it's", "12", "\u00b2", "\u4e2d", "\u0391", "\u212b", "\uac00", "\u1100\u1161", "\u20ac", ".", "<", ">", "\u24d0", "\u0300"]


def make_tokenizer():
    model = tokenizers.models.BPE.from_file(f"{HERE}/small_vocab.json", f"{HERE}/small_merges.txt")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.NFC()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>", *SPECIAL])
    tokenizer.add_tokens(ORDINARY)
    ids = {name: tokenizer.token_to_id(name) for name in ("<s>", "</s>")}
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A </s>", special_tokens=list(ids.items()))
    tokenizer.save(TOKENIZER, pretty=False)


def main():
    make_tokenizer()
    tokenizer = tokenizers.Tokenizer.from_file(TOKENIZER)
    generator = random.Random(34)
    texts = ["", *PIECES, *["".join(generator.choices(PIECES, k=generator.randint(2, 12))) for _ in range(400)]]
    with open(f"{HERE}/added_tokens.jsonl", "w", encoding="ascii") as file:
        for text in texts:
            line = {"text": text}
            tokenizer.encode_special_tokens = True
            line["literal"] = tokenizer.encode(text, add_special_tokens=False).ids
            tokenizer.encode_special_tokens = False
            line["special"] = tokenizer.encode(text, add_special_tokens=False).ids
            line["template"] = tokenizer.encode(text).ids
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
