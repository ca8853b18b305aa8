#!/usr/bin/env bash
# compute_sanitizer.sh PARITY_TEST [TOOL...]: runs the tools of compute-sanitizer (memcheck, initcheck, synccheck, racecheck)
# over our own kernels: chosen small cases of kernels_parity_test, which also compares their results. Only kernels of
# namespace weft are checked, so cuBLAS's are left out by name. Prints each tool's summary and fails where it names an
# error, or a hazard that explained_hazards.txt does not have; logs stay in WEFT_SANITIZER_LOGS (default: compute_sanitizer in the working directory). WEFT_SANITIZER_GROUPS
# names some groups of cases instead of all, so that they can run side by side.
#
# racecheck before version 2026 ends with an error of its own in cuBLAS's kernels, which it does not leave alone though they are left
# out; there it runs the GEMMs in which our kernels run alone. A newer one is in the Python package nvidia-cuda-sanitizer-api (put its
# folder in front of PATH; it also works on drivers of CUDA 13.0).
# Exit code 77 (skipped): there is no GPU, or no compute-sanitizer.
set -uo pipefail
parity_test=${1:?usage: compute_sanitizer.sh PARITY_TEST [TOOL...]}; shift
tools=("$@"); [ $# -gt 0 ] || tools=(memcheck initcheck synccheck racecheck)
logs=${WEFT_SANITIZER_LOGS:-compute_sanitizer}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} WEFT_REQUIRE_GPU=1
sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) ||
  { echo "skipped: compute-sanitizer is not installed (it comes with the CUDA toolkit)"; exit 77; }
nvidia-smi -L 2>/dev/null | grep -q '^GPU' || { echo "skipped: no GPU"; exit 77; }
mkdir -p "$logs"

# Cases: attention's sizes that cross tiles, with and without dropout, documents and ALiBi, and heads that make a block take
# several tiles; of all other operations those of bf16 and fp8 models.
cases() {  # PATTERN...
  printf 'All/BackendParity.CudaMatchesCpu/%s:' "$@"
}
attention_cases() {  # DTYPE
  cases "attention_*_$1_B2_T321_*" "attention_*_$1_B10_T300_*" \
    "attention_*_$1_B2_T300_H3_*" "attention_*_$1_B2_T200_H2_D*" "attention_*_$1_B2_T65_H3_D40*"
}
# The norms have hundreds of cases, of which those of other sizes suffice.
large_norms=$(printf '*%s:' N130_C1032 N37_C96 N257_C768 N17_C5120 N3_C64 N3401_C768 N421_C4104 N841_C2568 N143_C | sed 's/:/*:/g')
declare -A filters=(
  [operations]="$(cases '*bf16*' '*e4m3*' '*e5m2*' 'sum*' 'clip*' 'sample_losses*' 'update_fp8*' 'squared*')-*attention*:*linear*:*fp8_product*:$large_norms"
  [gemm]="$(cases '*linear*bf16*' '*fp8_product*')"
  [attention]="$(attention_cases bf16)"
  [attention_fp16]="$(cases 'attention_*_fp16_B2_T321_*')"
  [attention_fp32]="$(cases 'attention_*_fp32_B2_T200_H2_D64*' 'attention_*_fp32_B2_T321_H2_D80*')"
  [attention_mma_sync]="$(cases 'attention_*_bf16_B2_T321_*' 'attention_*_bf16_B2_T200_H2_D64*')"
)

# GEMMs of our own kernels alone, for racecheck of the versions that cuBLAS's kernels end.
own_gemms=$(cases '*linear_gelu_*_bf16_N1_*_tanh_bias*' '*linear_gelu_*_bf16_N130_I512_O40_tanh_bias*' '*linear_gelu_*_bf16_N130_I40_O512_tanh_bias*')
version=$("$sanitizer" --version | grep -oP 'Version \K[0-9]+')

explained=$(dirname "$0")/explained_hazards.txt
# Prints how many pairs of accesses the log of racecheck names, and those that nobody has explained.
unexplained() {  # LOG
  awk -v list="$explained" '
    function name(text) {  # of the function, without its type, namespaces, templates and arguments
      sub(/.* access at /, "", text); sub(/^(void|int|float) /, "", text); sub(/[<(].*/, "", text); sub(/.*::/, "", text)
      return text
    }
    BEGIN { while ((getline line < list) > 0) if (line !~ /^[# ]/ && split(line, word, " ") > 1) known[word[1] " " word[2]] = 1 }
    /Race reported between (Write|Read) access at / { first = name($0); first_writes = /between Write/; next }
    / and (Write|Read) access at / {
      second = name($0); ++pairs
      pair = first_writes ? first " " second : second " " first
      if (!(pair in known)) other[pair] = 1
    }
    /Internal Sanitizer Error|terminate called/ { other["the program was ended"] = 1 }
    END { printf "%d pairs of accesses;", pairs; for (pair in other) printf " UNEXPLAINED: %s;", pair; print "" }' "$1"
}

status=0
check() {  # TOOL GROUP
  local log=$logs/$1_$2.txt options=(--tool "$1" --kernel-name kns=weft --error-exitcode 99 --print-limit 1000) pairs=""
  local filter=${filters[$2]}
  [ "$1" = memcheck ] && options+=(--report-api-errors no)
  [[ $1 = racecheck && $2 = gemm && ${version:-0} -lt 2026 ]] && filter=$own_gemms
  WEFT_ATTENTION=$([ "$2" = attention_mma_sync ] && echo mma_sync) timeout "${WEFT_SANITIZER_TIMEOUT:-1800}" \
    "$sanitizer" "${options[@]}" "$parity_test" --gtest_brief=1 "--gtest_filter=$filter" >"$log" 2>&1
  local code=$?
  if [ "$1" = racecheck ]; then
    pairs=$(unexplained "$log")
    [[ $code = 99 && $pairs != *UNEXPLAINED* ]] && code=0
  fi
  printf '%-10s %-20s %4d cases, %s: %s %s\n' "$1" "$2" \
    "$(grep -oP '\[==========\] \K[0-9]+(?= tests? )' "$log" | tail -1)" "$([ $code = 0 ] && echo passed || echo "FAILED ($code)")" \
    "$(grep -E '(ERROR|RACECHECK) SUMMARY' "$log" | sed 's/^=* *//' | tail -1)" "$pairs"
  return "$code"
}
for tool in "${tools[@]}"; do
  for group in ${WEFT_SANITIZER_GROUPS:-operations gemm attention attention_fp16 attention_fp32 attention_mma_sync}; do
    check "$tool" "$group" || status=1
  done
done
[ "$status" = 0 ] || echo "FAILED: the reports are in $logs"
exit "$status"
