#!/usr/bin/env bash
# Installs everything Weft needs from Debian/Ubuntu packages and says what it does. Safe to run again: what is there is left alone.
#
# usage: jobs/install-deps.sh [--tests] [--parquet] [--dry-run]
#   --parquet  also what Parquet and Arrow files need: Debian's libparquet-dev where there is one, else libarrow and libparquet out of
#              pyarrow's wheel (PyPI, 55 MB, checked by SHA-256) into ~/.cache/weft/arrow; no Python is used then or later
#   --tests    also what only the test suite uses (GoogleTest, clang with libFuzzer, clang-format, clang-tidy, a local Slurm, munge)
#   --dry-run  print what is missing, install nothing
#
# Works as root or with sudo. The CUDA toolkit is not in Debian: it is looked for and reported, never installed.
set -euo pipefail

build=(g++ cmake ninja-build ccache pkg-config
  libcli11-dev libfmt-dev libsimdjson-dev nlohmann-json3-dev libpugixml-dev libcurl4-openssl-dev libssl-dev
  zlib1g-dev libzstd-dev liblzma-dev libbz2-dev libxxhash-dev libre2-dev libopenblas-dev
  libopenmpi-dev openmpi-bin ca-certificates jq xz-utils zstd bzip2 gzip)
tests=(libgtest-dev libgmock-dev nginx-light openssl clang libclang-rt-dev clang-format clang-tidy python3 python3-venv
  slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libpmix-dev iproute2 util-linux procps)

# Only where Debian has them (libisal: amd64); Weft is built without them too, slower.
optional=(libisal-dev)

wanted=("${build[@]}")
dry_run=0
parquet=0
for arg in "$@"; do
  case $arg in
    --tests) wanted+=("${tests[@]}") ;;
    --dry-run) dry_run=1 ;;
    --parquet) parquet=1 ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "error: unknown option $arg; see jobs/install-deps.sh --help" >&2; exit 2 ;;
  esac
done

report_cuda() {
  local nvcc
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
  if [ -n "$nvcc" ]; then
    echo "install-deps: CUDA toolkit: $("$nvcc" --version | grep -o 'release [0-9.]*') ($nvcc)"
  else
    echo "install-deps: no CUDA toolkit found: Weft is built for the CPU. For GPUs install CUDA 12.4 or newer from" \
      "https://developer.nvidia.com/cuda-downloads (packages cuda-nvcc, cuda-cudart-dev, libcublas-dev, cuda-nvml-dev, and libnccl-dev for several GPUs) and run again."
  fi
}

# Takes the two libraries, the headers and the licences out of the wheel.
install_arrow_wheel() {
  local version=26.0.1 target=${XDG_CACHE_HOME:-$HOME/.cache}/weft/arrow scratch sum file
  if ls "$target"/lib/libparquet.so* >/dev/null 2>&1; then echo "install-deps: Arrow: $target"; return; fi
  case $(uname -m) in
    x86_64) sum=c718bf97a92a6dea97fd1062c3b9f9e2e83cb9cc926e752289fa4ffff41738f9 ;;
    aarch64) sum=6c18167774fb599d42444b7ac558a893d49e750fb14232b538955e6f0d1d51ea ;;
    *) echo "error: there is no pyarrow wheel for $(uname -m); install Arrow's own packages (arrow.apache.org/install)" >&2; exit 2 ;;
  esac
  if [ $dry_run = 1 ]; then echo "install-deps: missing: pyarrow $version's libraries in $target"; return; fi
  echo "install-deps: fetching pyarrow $version for its libraries"
  mkdir -p "$target"
  scratch=$(mktemp -d "$target/new.XXXXXX")
  trap "rm -rf '$scratch'" EXIT
  echo "pyarrow==$version --hash=sha256:$sum" >"$scratch/requirements.txt"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.12 --require-hashes \
    --dest "$scratch" -r "$scratch/requirements.txt"
  python3 -m zipfile -e "$scratch"/pyarrow-*.whl "$scratch/wheel"
  mkdir "$scratch/lib"
  for file in arrow parquet; do mv "$scratch/wheel/pyarrow/lib$file".so.[0-9]* "$scratch/lib/"; done
  rm -rf "$target/lib" "$target/include" "$target/licenses"
  mv "$scratch/wheel/pyarrow/include" "$scratch/wheel"/pyarrow-*.dist-info/licenses "$target/"
  mv "$scratch/lib" "$target/"  # last: what is there is whole
  echo "install-deps: Arrow: $target"
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "install-deps: this is not Debian or Ubuntu. Install these by hand (Debian's names), then build with cmake --preset release:"
  printf '  %s\n' "${wanted[@]}"
  [ $parquet = 0 ] || install_arrow_wheel
  report_cuda
  exit 0
fi

if [ $parquet = 1 ]; then
  wanted+=(python3 python3-pip)
  optional+=(libarrow-dev libparquet-dev)
fi
missing=()
for package in "${wanted[@]}"; do
  # "install ok installed" or a package that provides it (t64 names on newer releases)
  dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done

for package in "${optional[@]}"; do
  dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' && continue
  # Known before an update only where there was one lately; else the update below decides.
  if apt-cache show "$package" >/dev/null 2>&1; then missing+=("$package"); fi
done

if [ ${#missing[@]} -eq 0 ]; then
  echo "install-deps: all ${#wanted[@]} packages are there"
elif [ $dry_run = 1 ]; then
  echo "install-deps: missing: ${missing[*]}"
else
  if [ "$(id -u)" = 0 ]; then as_root=(); elif command -v sudo >/dev/null; then as_root=(sudo); else
    echo "error: these packages are missing and neither root nor sudo is here to install them:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 2
  fi
  echo "install-deps: installing ${#missing[@]} packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq
  for package in "${optional[@]}"; do
    if apt-cache show "$package" >/dev/null 2>&1; then missing+=("$package"); fi
  done
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  echo "install-deps: done"
fi
if [ $parquet = 1 ] && ! dpkg-query -W -f='${Status}\n' libparquet-dev 2>/dev/null | grep -q 'ok installed'; then install_arrow_wheel; fi
report_cuda
