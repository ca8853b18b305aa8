"""Prints lines that are JSON, nearly JSON, or nothing like it: for comparing JSON readers. usage: SEED COUNT"""
import random
import sys

rng = random.Random(int(sys.argv[1]))
texts = [b"plain", b"", b"caf\xc3\xa9", b"\\n\\t\\\\\\\"\\/", b"\\u00e9\\u20ac", b"\\ud83d\\ude00", b"\\ud800", b"\\udc00x",
         b"\\ud83d\\ud83d\\ude00", b"\\ud800\\u0041", b"\\u0000", b"\xf0\x9f\x98\x80", b"\xff", b"\xed\xa0\x80", b"\t", b"\\x41",
         b"\\u12", b"\x7f", b"\xe2\x80\xa8", b"a" * 30 + b"\\n", b"<|endoftext|>", b"\xc2\x85", b"\x0b", b"\\", b"\xef\xbb\xbf"]
values = [b"1", b"-0", b"01", b"1.", b"1.5e+3", b"1e", b"NaN", b"-Infinity", b"Infinity", b"-NaN", b"true", b"nul", b"null",
          b"[]", b"[1,]", b"[1, {}]", b"{\"text\": \"inner\"}", b"{\"a\":}", b"9" * 400, b"1e9999", b"\"s\"", b"'s'", b"", b"[[[[]]]]",
          b"-", b"+1", b"1 2", b"\"\\u0074\""]
keys = [b"text", b"text", b"text", b"\\u0074ext", b"a", b"", b"te\\u0078t", b"Text", b"b\\\"c"]
lists = [b"[]", b"[ ]", b'[""]', b'["one"]', b'["one", "two\\n"]', b'["","a",""]', b'[ "\\ud800" ,"\xf0\x9f\x98\x80"]', b'["a",]', b'["a" "b"]',
         b'["a", 1]', b'[["a"]]', b'["]", ",", "\\"", "\\\\"]', b'["\t"]', b'["a"', b'[null]', b'[{"text":"b"}]']
spaces = [b"", b"", b"", b" ", b"\t", b"  ", b"\xc2\xa0", b"\x0c"]
line_ends = [b"\n"] * 8 + [b"\r\n", b"\r", b"\n\n", b"\r\r\n"]


def space():
    return rng.choice(spaces) if rng.random() < 0.3 else b""


def member():
    value = b'"' + b"".join(rng.choice(texts) for _ in range(rng.randrange(3))) + b'"'
    if rng.random() < 0.3:
        value = rng.choice(values)
    elif rng.random() < 0.2:
        value = rng.choice(lists)
    return space() + b'"' + rng.choice(keys) + b'"' + space() + b":" + space() + value + space()


def line():
    if rng.random() < 0.05:
        return rng.choice(values + texts + [b"", b" ", b"[]", b"\xef\xbb\xbf{\"text\":\"x\"}"])
    text = space() + b"{" + b",".join(member() for _ in range(rng.randrange(4))) + b"}" + space()
    if rng.random() < 0.15 and text:  # damage
        at = rng.randrange(len(text))
        text = rng.choice([text[:at], text[:at] + text[at + 1:], text[:at] + bytes([rng.randrange(256)]) + text[at:]])
    return text


out = sys.stdout.buffer
for _ in range(int(sys.argv[2])):
    out.write(line() + rng.choice(line_ends))
