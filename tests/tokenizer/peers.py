"""Weft's ids, the two tokenizers that they must equal, and the texts to compare them on.

Used by peers_test.py and families_peers_test.py (compare) and tests/golden/tokenizer/make_golden.py (records).
"""
import array
import json
import os
import random
import struct
import subprocess

import tiktoken
import tokenizers

END_OF_TEXT = "<|endoftext|>"
# tiktoken's spelling of the GPT-2 pattern (tiktoken_ext/openai_public.py, r50k_pat_str).
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


def bytes_of_alphabet():
    """Character of the printable alphabet -> byte (bytes_to_unicode of OpenAI's encoder.py)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [b for b in range(256) if b not in printable]
    alphabet = {chr(b): b for b in printable}
    alphabet.update({chr(0x100 + i): b for i, b in enumerate(moved)})
    return alphabet


def load_tiktoken(vocab_file):
    """tiktoken with this vocabulary: its ranks are the ids. Right where every entry encodes to itself."""
    alphabet = bytes_of_alphabet()
    with open(vocab_file, encoding="utf-8") as file:
        vocab = json.load(file)
    end_of_text = vocab.pop(END_OF_TEXT)
    ranks = {bytes(alphabet[c] for c in entry): i for entry, i in vocab.items()}
    return tiktoken.Encoding("weft-test", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={END_OF_TEXT: end_of_text})


def load_hugging_face(vocab_file, merge_file, special=False):
    """Hugging Face's GPT-2 tokenizer; with `special` it knows <|endoftext|> as a token."""
    model = tokenizers.models.BPE.from_file(vocab_file, merge_file)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    if special:
        tokenizer.add_special_tokens([END_OF_TEXT])
    return tokenizer


def weft_ids(command, texts):
    """The ids of each text by encode_records, whose command line is `command`."""
    encoded = [text.encode() for text in texts]
    records = b"".join(struct.pack("<I", len(data)) + data for data in encoded)
    out = subprocess.run(command, input=records, stdout=subprocess.PIPE, check=True).stdout
    numbers = array.array("I")
    numbers.frombytes(out)
    ids, at = [], 0
    for _ in texts:
        ids.append(numbers[at + 1 : at + 1 + numbers[at]].tolist())
        at += 1 + numbers[at]
    assert at == len(numbers), "the program wrote something else than one record per text"
    return ids


# Characters that split, join, hide or look alike: one entry is drawn at a time.
HOSTILE = [
    *"abzABZ019 '\"\t\n\r\x0b\x0c-_=.,<|>\\/\x00\x1c\x1f\x7f", *[" "] * 8, "  ", "   ", "\n\n", "\r\n",
    "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'RE", "'l", "'r", "'v", "\u2019s", "''", "the", " the", "ing", "2024", "0000000",
    "\u0085", "\u00a0", "\u1680", "\u2000", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",  # white space
    "\u180e", "\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\ufe0f",  # not white space
    "\u0301", "\u0308", "\u20dd", "\u0e31", "\u093f", "\u064b",  # marks
    "\u00e9", "\u00df", "\u0130", "\u01c5", "\u02b0", "\u00aa", "\u03a9", "\u0416", "\u05d0", "\u0639", "\u0915", "\u0e01", "\uac00", "\u3042",
    "\u4e2d", "\u6587", "\U00020000", "\U00031350", "\U0001d400", "\ufb01", "\uff21",  # letters
    "\u00b2", "\u00bd", "\u0660", "\u0966", "\u2160", "\u3007", "\u2460", "\uff11", "\U0001d7ce", "\U00010107",  # numbers
    "\u20ac", "\u00a7", "\u2026", "\u2014", "\u3001", "\u00ab", "\U0001f600", "\U0001f468", "\U0001f3fd", "\U0001f1e9",  # other
    "\ufffd", "\uffff", "\ue000", "\U0010ffff", "\U000e0041", "\u0378",  # replacement, noncharacter, private, unassigned
    END_OF_TEXT, "<|", "|>", "endoftext",
]


def random_hostile_string(generator: random.Random, max_pieces=24):
    pieces = generator.choices(HOSTILE, k=generator.randint(1, max_pieces))
    if generator.random() < 0.1:
        pieces.insert(generator.randrange(len(pieces)), generator.choice(pieces) * generator.randint(2, 40))
    return "".join(pieces)


def corpus_files(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".jsonl.zst")]


def corpus_texts(path):
    """Texts of one .jsonl.zst file; a lone surrogate becomes U+FFFD."""
    import zstandard  # only the corpus test needs it

    with open(path, "rb") as file:
        lines = zstandard.ZstdDecompressor().stream_reader(file).read().splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    return [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
