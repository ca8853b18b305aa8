"""Speed of one peer's GPT-2 encoder on one thread, printed as weft_tokenizer_bench prints its own.

usage: encoder_peers.py gigatoken|tiktoken|tokenizers NUM_WARM_PASSES VOCAB.json MERGES.txt FILE.jsonl...

Documents are in memory; MB/s are 10^6 bytes of UTF-8 a second of the process's CPU time, as other programs may take the core.
"""
import base64
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tokenizer"))
import peers  # noqa: E402


BATCH_BYTES = int(os.environ.get("WEFT_PEER_BATCH_MB", "2")) << 20


def load_gigatoken(vocab_file):
    import gigatoken

    alphabet = peers.bytes_of_alphabet()
    with open(vocab_file, encoding="utf-8") as file:
        vocab = json.load(file)
    vocab.pop(peers.END_OF_TEXT)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "gpt2.tiktoken")
        with open(path, "w", encoding="ascii") as file:
            for entry, token in sorted(vocab.items(), key=lambda item: item[1]):
                file.write(base64.b64encode(bytes(alphabet[c] for c in entry)).decode() + f" {token}\n")
        return gigatoken.Tokenizer.from_tiktoken(path, pretokenizer="gpt2")


def make_encoder(name, vocab_file, merge_file):
    """A function from documents to their number of tokens, with empty caches."""
    if name == "gigatoken":
        tokenizer = load_gigatoken(vocab_file)
        import awkward

        return lambda documents: tokenizer.encode_batch(documents, parallel=False), lambda ids: int(awkward.count(ids))
    if name == "tiktoken":
        encoding = peers.load_tiktoken(vocab_file)
        return lambda documents: [encoding.encode_ordinary(text) for text in documents], lambda ids: sum(map(len, ids))
    tokenizer = peers.load_hugging_face(vocab_file, merge_file)
    return lambda documents: [tokenizer.encode(text).ids for text in documents], lambda ids: sum(map(len, ids))


def read_documents(path, as_bytes):
    documents = []
    with open(path, "rb") as file:
        for line in file:
            text = json.loads(line)["text"]
            try:
                encoded = text.encode()
            except UnicodeEncodeError:  # lone surrogates: left out, as by weft_tokenizer_bench
                continue
            documents.append(encoded if as_bytes else text)
    return documents


def in_batches(documents):
    """Lists of about BATCH_BYTES: the ids of a whole text would take fresh memory all the time, which halves gigatoken's speed."""
    batch, num_bytes = [], 0
    for document in documents:
        batch.append(document)
        num_bytes += len(document)
        if num_bytes >= BATCH_BYTES:
            yield batch
            batch, num_bytes = [], 0
    if batch:
        yield batch


def main():
    name, num_warm_passes, vocab_file, merge_file = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for path in sys.argv[5:]:
        documents = read_documents(path, name == "gigatoken")
        megabytes = sum(len(d if isinstance(d, bytes) else d.encode()) for d in documents) / 1e6
        encode, count = make_encoder(name, vocab_file, merge_file)
        batches = list(in_batches(documents))
        speeds = []
        for _ in range(1 + num_warm_passes):
            seconds, num_tokens = 0, 0
            for batch in batches:
                start = time.process_time()
                ids = encode(batch)
                seconds += time.process_time() - start
                num_tokens += count(ids)
                del ids
            speeds.append(megabytes / seconds)
        print(f"{os.path.basename(path)} {megabytes:.1f} MB {num_tokens} tokens | cold {speeds[0]:.1f} warm {max(speeds):.1f} MB/s", flush=True)


if __name__ == "__main__":
    main()
