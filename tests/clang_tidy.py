"""Runs clang-tidy with .clang-tidy over every .cpp file of the build, CUDA excepted (clang 14 knows no CUDA 12).

usage: clang_tidy.py SOURCE_DIR BUILD_DIR
Most of clang-tidy's time goes into the headers of libraries, so neighbouring files are checked as one file that includes
them. Those that define a name that an earlier one of the group defines, too, are a group of their own.
A group that passed is remembered in ~/.cache/weft/clang-tidy under a hash of everything that its result depends on: its files,
all our headers that they include, the flags, .clang-tidy and clang-tidy's version. Only changed groups are checked.
"""
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

SKIPPED = 77
MAX_GROUP = 24
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
source_dir, build_dir = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
work_dir = build_dir / "clang-tidy"
cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "weft" / "clang-tidy"


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def flags_of(command):
    """{name: flag} of the compiler's flags that matter to a reader of the code."""
    words = iter(shlex.split(command))
    flags = {}
    for word in words:
        if word == "-isystem":
            word += next(words)
        if re.match(r"-(I|D|std|f|m(?!cpu|tune)|isystem)", word):
            flags[word.split("=")[0]] = word
    return flags


def compiled_files():
    """(file, flags) of all files in the build; CMake's unity builds compile files that include them."""
    for entry in json.loads((build_dir / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        names = INCLUDE.findall(file.read_text()) if file.parent.name == "Unity" else [file]
        for name in names:
            yield pathlib.Path(name), flags_of(entry["command"])


def groups():
    """[(flags, files)] of all our .cpp files in the build: neighbours, with the flags of each other."""
    by_folder = collections.defaultdict(dict)
    for file, flags in compiled_files():
        if file.suffix == ".cpp" and file.is_relative_to(source_dir) and not file.is_relative_to(build_dir) and "cuda" not in file.parts:
            machine = tuple(flag for flag in flags if flag.startswith("-m"))
            first, *rest = file.relative_to(source_dir).parts
            by_folder[first, rest[0] if first == "tests" else "", machine].setdefault(file, flags)
    for _, flags_of_file in sorted(by_folder.items()):
        flags = {name: flag for flags in flags_of_file.values() for name, flag in flags.items()}
        files = sorted(flags_of_file)
        num_groups = -(-len(files) // MAX_GROUP)
        for i in range(num_groups):
            yield tuple(flags.values()), tuple(files[len(files) * i // num_groups : len(files) * (i + 1) // num_groups])


def with_headers(files):
    """The files and all our headers that they include; includes begin at the root (check_includes.sh)."""
    found, todo = set(), list(files)
    while todo:
        path = todo.pop()
        if path not in found and path.is_file():
            found.add(path)
            todo += (source_dir / name for name in INCLUDE.findall(path.read_text()))
    return sorted(found)


def key_of(flags, files, tool):
    key = hashlib.sha256(f"{tool} {flags} {files}".replace(str(source_dir), ".").encode())
    for path in [source_dir / ".clang-tidy", *with_headers(files)]:
        key.update(f"{path.relative_to(source_dir)}\n".encode() + path.read_bytes())
    return key.hexdigest()


def check(flags, files):
    """What clang-tidy finds in the files; empty if nothing."""
    together = work_dir / (hashlib.sha256(str((flags, files)).encode()).hexdigest() + ".cpp")
    together.write_text("".join(f'#include "{file}"\n' for file in files))
    # GCC's warnings say more than clang's would; its omp.h is what clang's own package lacks.
    command = ["clang-tidy", "--quiet", f"--config-file={source_dir}/.clang-tidy", f"--header-filter=^{source_dir}/", together]
    done = subprocess.run([*command, "--", *flags, "-w", f"-isystem{work_dir}"], capture_output=True, text=True, check=False)
    if "[clang-diagnostic-error]" in done.stdout and len(files) > 1:
        named = set(re.findall(r"^(/[^:]+):\d+:\d+: error: ", done.stdout, re.MULTILINE))
        apart = [file for file in files if str(file) in named]
        if not apart or len(apart) == len(files):  # a header is named, or each file
            apart = files[len(files) // 2 :]
        return check(flags, [file for file in files if file not in apart]) + check(flags, apart)
    return done.stdout or ("" if done.returncode == 0 else done.stderr)


def main():
    if not shutil.which("clang-tidy") or "version 14." not in (tool := output_of("clang-tidy", "--version")):
        print("skipped: clang-tidy 14 is not installed")
        return SKIPPED
    start = time.monotonic()
    for folder in (work_dir, cache):
        folder.mkdir(parents=True, exist_ok=True)
    omp = pathlib.Path(output_of("gcc", "-print-file-name=include/omp.h").strip()).read_text()
    (work_dir / "omp.h").write_text(omp.replace("__malloc__ (omp_free)", "__malloc__"))  # clang's attribute has no argument
    marks = {group: cache / key_of(*group, tool) for group in groups()}
    assert marks, f"no file of {source_dir} is built in {build_dir}"
    to_check = [group for group, mark in marks.items() if not mark.exists()]
    num_bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for group, found in zip(to_check, pool.map(lambda group: check(*group), to_check)):
            if found:
                num_bad += 1
                print(found, flush=True)
            else:
                marks[group].touch()
    num_files = sum(len(files) for _, files in marks)
    print(f"{num_files} files; {len(to_check)} of {len(marks)} groups changed, {num_bad} have findings; {time.monotonic() - start:.0f} s")
    return 1 if num_bad else 0


if __name__ == "__main__":
    sys.exit(main())
