#!/usr/bin/env bash
# The Debian package has the programs, the job scripts and the licence, names the libraries that the programs are linked with, and
# what it installs runs from where it lies.
set -euo pipefail
build=$WEFT_BIN_DIR/..
for tool in cpack dpkg-deb dpkg-shlibdeps; do
  command -v "$tool" > /dev/null || { echo "skipped: $tool is not there"; exit 77; }
done
for program in weft-data weft-train weft-model; do
  [ -x "$WEFT_BIN_DIR/$program" ] || { echo "skipped: $program is not built here"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpack -G DEB -B "$work" --config "$build/CPackConfig.cmake" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
package=$(echo "$work"/*.deb)
fields=$(dpkg-deb --field "$package")
echo "$fields"
for field in "Package: weft" "Section: science" "Depends: .*libc6 [(]>= " "Depends: .*libcurl4" "Depends: .*libopenblas0" "Depends: .*libstdc++6"; do
  grep -qE -- "${field//++/\\+\\+}" <<< "$fields" || { echo "error: no '$field' in the control file"; exit 1; }
done
dpkg-deb --extract "$package" "$work/root"
for file in bin/weft-data bin/weft-train bin/weft-model share/weft/jobs/2.distributed-training.sbatch share/weft/jobs/recipes/gpt3-175b.env \
    share/doc/weft/LICENSE share/doc/weft/NOTICE share/man/man1/weft-data.1 share/man/man1/weft-train.1 share/man/man1/weft-model.1 \
    share/bash-completion/completions/weft-data share/bash-completion/completions/weft-train share/zsh/vendor-completions/_weft-model; do
  [ -f "$work/root/usr/$file" ] || { echo "error: $file is not in the package"; exit 1; }
done
"$work/root/usr/bin/weft-train" --version | grep -q '^weft-train '
# The completion of bash offers the options of weft-train, and the values of one.
bash -c '
  source "$1/usr/share/bash-completion/completions/weft-train"
  complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _weft_train; echo "${COMPREPLY[*]}"; }
  [ "$(complete_words weft-train --num-layers 12 --seq-l)" = --seq-length ] &&
    [ "$(complete_words weft-train --num-layers 12 --lr-decay-style co)" = "constant cosine" ]
' - "$work/root" || { echo "error: completion of bash"; exit 1; }
# A job script of the package finds the programs on the PATH.
cd "$work"
PATH=$work/root/usr/bin:$PATH RECIPE=$work/root/usr/share/weft/jobs/recipes/gpt3-126m.env PLAN=h100 \
  bash "$work/root/usr/share/weft/jobs/2.distributed-training.sbatch" > plan
grep -q '^fits: ' plan
