"""What --input-format text means: texts_to_jsonl.py SPLIT FILE... prints {"text": ..., "at": BYTE} for each text."""
import json
import re
import sys

for name in sys.argv[2:]:
    data = open(name, "rb").read()
    start = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    found = [(start, data[start:])] if len(data) > start else []
    if sys.argv[1] != "file":
        lines = re.finditer(rb"[^\r\n]*(\r\n|\r|\n)|[^\r\n]+$", data[start:])
        found = [(start + line.start(), line.group().rstrip(b"\r\n")) for line in lines]
    if sys.argv[1] == "blank-line":
        paragraphs, is_open = [], False
        for at, line in found:
            if line and is_open:
                paragraphs[-1] = (paragraphs[-1][0], data[paragraphs[-1][0] : at + len(line)])
            elif line:
                paragraphs.append((at, line))
            is_open = bool(line)
        found = paragraphs
    for at, text in found:
        try:
            print(json.dumps({"text": text.decode("utf-8"), "at": at}))
        except UnicodeDecodeError:
            print("bad", file=sys.stderr)
