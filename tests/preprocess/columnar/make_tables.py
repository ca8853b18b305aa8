"""Writes the same rows as JSON lines (NAME.jsonl) and as tables (NAME.*.parquet, NAME.*.arrow) into the current folder."""
import datetime
import json
import os
import random

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

random.seed(7)
WORDS = ["the", "quick", "fox", "caf\u00e9", "\u4e2d\u6587", "\U0001f98a", "\n", "\t\"quoted\"", "\\", "\0", "1234", "  "]


def text(i):
    return "" if i % 97 == 5 else " ".join(random.choice(WORDS) for _ in range(random.choice([1, 5, 40, 300]))) + str(i)


def write_jsonl(name, rows):
    with open(f"{name}.jsonl", "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def write_ipc(path, table, stream=False, codec=None, batch=None):
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(path, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=batch)


texts = [text(i) for i in range(1500)]
texts[700:900] = [texts[3]] * 200  # for dictionaries
rows = [{"id": i, "text": t, "url": f"https://www.site{i % 5}.org/{i}", "meta": {"text": t, "lang": "en"}} for i, t in enumerate(texts)]
write_jsonl("plain", rows)


def table_of(kind):
    return pa.table({
        "id": pa.array(range(len(texts)), pa.int64()),
        "text": pa.array([t.encode() for t in texts] if "binary" in str(kind) else texts, kind),
        "url": [row["url"] for row in rows],
        "meta": [row["meta"] for row in rows],
    })


table = table_of(pa.string())
for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
    for version in ["1.0", "2.0"]:
        pq.write_table(table, f"plain.{codec}-{version}.parquet", compression=codec, data_page_version=version, row_group_size=400,
                       data_page_size=20000, use_dictionary=version == "1.0", write_page_checksum=codec == "zstd")
for encoding in ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]:
    pq.write_table(table.select(["id", "text"]), f"plain.{encoding}.parquet", use_dictionary=False, column_encoding={"text": encoding})
for kind in [pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()]:
    pq.write_table(table_of(kind), f"plain.{kind}.parquet")
    write_ipc(f"plain.{kind}.arrow", table_of(kind), batch=400)
pq.write_table(table, "plain.small-groups.parquet", row_group_size=7)
pq.write_table(table, "plain.one-group.parquet", row_group_size=10**6, data_page_size=4000)
required = pa.schema([pa.field(f.name, f.type, nullable=False) for f in table.schema])
pq.write_table(pa.table(table.columns, schema=required), "plain.required.parquet")
write_ipc("plain.dictionary.arrow", table.set_column(1, "text", table["text"].combine_chunks().dictionary_encode()), batch=300)
for stream in [False, True]:
    for codec in [None, "zstd", "lz4"]:
        write_ipc(f"plain.{'stream' if stream else 'file'}-{codec}.arrow", table, stream, codec, 250)
write_ipc("plain.dictionary-stream.arrow", table.set_column(1, "text", table["text"].combine_chunks().dictionary_encode()), True)
pq.write_table(table.slice(0, 0), "empty.parquet")
# The metadata say 68 rows of the 100 that its column has: the number is the last one of these bytes.
pq.write_table(pa.table({"text": texts[:100]}), "rows.parquet")
with open("rows.parquet", "r+b") as file:
    file.seek(file.read().rindex(b"\x16\xc8\x01"))
    file.write(b"\x16\x88\x01")

# Rows without text: those of the JSON lines are bad lines for the same reasons.
holes = [None if i % 3 == 0 else t for i, t in enumerate(texts)]
metas = [None if i % 5 == 0 else {"text": None if i % 3 == 0 else t} for i, t in enumerate(texts)]
write_jsonl("holes", [{"text": t, "meta": m} for t, m in zip(holes, metas)])
kind = pa.struct([("text", pa.string())])
table = pa.table({"text": holes, "meta": pa.array(metas, kind)})
pq.write_table(table, "holes.groups.parquet", row_group_size=100)
write_ipc("holes.file.arrow", table, batch=333)
write_ipc("holes.stream.arrow", table, True, "zstd", 100)

# Values for --where beside the texts.
values = []
for i in range(400):
    values.append({
        "text": texts[i],
        "n": None if i % 11 == 0 else i - 100,
        "large": 2**64 - 1 - i % 3,
        "score": i / 400,
        "quarter": i % 8 / 4,
        "is_good": None if i % 7 == 0 else i % 2 == 0,
        "lang": None if i % 13 == 0 else ["en", "de", "caf\u00e9"][i % 3],
        "meta": None if i % 5 == 0 else {"n": i % 4, "lang": "en"},
        "nothing": None,
    })
write_jsonl("where", values)
kinds = {"n": pa.int32(), "large": pa.uint64(), "quarter": pa.float32(), "meta": pa.struct([("n", pa.int8()), ("lang", pa.string())])}
table = pa.table({name: pa.array([row[name] for row in values], kinds.get(name)) for name in values[0]})
pq.write_table(table, "where.groups.parquet", row_group_size=37)
pq.write_table(table, "where.plain.parquet", use_dictionary=False, data_page_version="2.0", compression="zstd")
write_ipc("where.file.arrow", table, batch=50)
write_ipc("where.stream.arrow", table.set_column(6, "lang", table["lang"].combine_chunks().dictionary_encode()), True, "zstd", 400)
pq.write_table(pa.table({"text": ["a"], "day": [__import__("datetime").date(2026, 1, 1)], "tags": [["x"]]}), "odd.parquet")

pq.write_table(pa.table({"text": [["a", "b"]], "n": [1]}), "list.parquet")
# Benchmarks, whose columns are lists, structures and numbers; and all kinds of values.
golden = os.path.join(os.environ["WEFT_SOURCE_DIR"], "tests", "golden", "lm_eval")
for name in ["hellaswag", "arc_easy", "piqa", "winogrande", "mmlu"]:
    with open(f"{golden}/{name}.rows.jsonl") as lines:
        table = pa.Table.from_pylist([json.loads(line) for line in lines])
    pq.write_table(table, f"{name}.parquet", row_group_size=2)
    write_ipc(f"{name}.file.arrow", table, batch=1)
    write_ipc(f"{name}.stream.arrow", table, True)
pq.write_table(pa.table({"goal": [None], "sol1": [1.5], "sol2": [True], "label": [datetime.datetime(2026, 1, 1)]}), "values.parquet")
pq.write_table(pa.table({"text": [b"good", b"\xff\xfe bad", b"x" * 5000]}), "bytes.parquet")
# Three tasks, of which the first two have two groups; pages of 4 MB.
blocks = ["".join(random.choices("abcdefgh ", k=500)) for _ in range(200)]
pq.write_table(pa.table({"text": [str(i) + "".join(random.choices(blocks, k=10)) for i in range(17000)]}), "large.parquet", compression="none",
               use_dictionary=False, row_group_size=3500, data_page_size=4 << 20)
try:
    import pyarrow.parquet.encryption as pe

    class Kms(pe.KmsClient):
        def __init__(self, _):
            pe.KmsClient.__init__(self)

        def wrap_key(self, key, _):
            return key.hex()

        def unwrap_key(self, key, _):
            return bytes.fromhex(key)

    for plain in [False, True]:
        config = pe.EncryptionConfiguration(footer_key="a", column_keys={"b": ["text"]}, plaintext_footer=plain)
        properties = pe.CryptoFactory(Kms).file_encryption_properties(pe.KmsConnectionConfig(), config)
        with pq.ParquetWriter(f"encrypted-{plain}.parquet", required.empty_table().select(["text"]).schema, encryption_properties=properties) as writer:
            writer.write_table(pa.table({"text": ["a secret"]}, schema=pa.schema([pa.field("text", pa.string(), nullable=False)])))
except ImportError:
    pass
