"""Distinct text out of Debian packages: usage: package_texts.py PROSE.jsonl SOURCES.jsonl MAX_MB PACKAGE.deb...

Documentation, HTML without its tags, goes to PROSE.jsonl; sources go to SOURCES.jsonl until both together have MAX_MB of text. No
document comes twice. The order is that of the packages and of the files in them.
"""
import gzip
import hashlib
import html
import json
import re
import subprocess
import sys
import tarfile

PROSE = (".html", ".htm", ".txt", ".rst", ".md", ".texi", ".info", ".pod", ".dict", ".1", ".2", ".3", ".5", ".7", ".8")
SOURCES = (".c", ".h", ".go", ".py", ".rs", ".java", ".cpp", ".hpp", ".S", ".s", ".dts", ".dtsi", ".pl", ".sh", ".yaml", ".json", ".el")
MAX_DOCUMENT_BYTES = 4 << 20
TAGS = re.compile(r"<(script|style)\b.*?</\1>|<!--.*?-->|<[^>]*>", re.DOTALL | re.IGNORECASE)
BLANK_LINES = re.compile(r"\s*\n\s*\n\s*")


def members(tar):
    """Name and bytes of each regular file, those of compressed ones and of archives within too."""
    for member in tar:
        if not member.isfile():
            continue
        file, name = tar.extractfile(member), member.name
        if name.endswith(".tar.xz"):
            with tarfile.open(fileobj=file, mode="r|xz") as inner:
                yield from members(inner)
        elif name.endswith((".gz", ".dz")):
            yield name[:-3], gzip.decompress(file.read())
        elif name.endswith(PROSE + SOURCES):
            yield name, file.read()


def text_of(name, content):
    """None for what is not text of some length."""
    try:
        text = content[:MAX_DOCUMENT_BYTES].decode()
    except UnicodeDecodeError:
        return None
    if name.endswith((".html", ".htm")):
        text = BLANK_LINES.sub("\n\n", html.unescape(TAGS.sub("", text))).strip()
    return text if len(text) > 200 else None


def main():
    prose_path, sources_path, bytes_left = sys.argv[1], sys.argv[2], int(sys.argv[3]) * 1_000_000
    seen = set()
    with open(prose_path, "w", encoding="utf-8") as prose, open(sources_path, "w", encoding="utf-8") as sources:
        for package in sys.argv[4:]:
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as unpacker:
                with tarfile.open(fileobj=unpacker.stdout, mode="r|") as tar:
                    for name, content in members(tar):
                        if not name.endswith(PROSE + SOURCES):
                            continue
                        text = text_of(name, content)
                        if text is None:
                            continue
                        encoded = text.encode("utf-8", "replace")
                        digest = hashlib.sha1(encoded).digest()
                        if digest in seen:
                            continue
                        seen.add(digest)
                        target = prose if name.endswith(PROSE) else sources
                        target.write(json.dumps({"text": encoded.decode()}, ensure_ascii=False) + "\n")
                        bytes_left -= len(encoded)
                        if bytes_left <= 0:
                            unpacker.terminate()
                            return


main()
