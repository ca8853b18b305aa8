# shellcheck shell=bash
# Sourced by the tests of this folder. start_slurm gives a test its own Slurm, and a folder ($work, the current one) that goes with it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_dir=${WEFT_SOURCE_DIR:-$(cd "$here/../.." && pwd)}
bin=${WEFT_BIN_DIR:?}

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*" >&2; tail -n 60 "$work"/*.out >&2 2>/dev/null || true; exit 1; }

wait_for() { # WHAT COMMAND...: until it succeeds
  local what=$1; shift
  for _ in $(seq 900); do "$@" >/dev/null 2>&1 && return 0; sleep 0.2; done
  fail "waited in vain for: $what"
}

# NODES [PROGRAM...]: skips the test where that cannot be. Several nodes are virtual ones with a network between them.
start_slurm() {
  local nodes=$1 program; shift
  [ "$(id -u)" = 0 ] || skip "the local Slurm needs root"
  export PATH=$PATH:/usr/sbin:/sbin
  for program in slurmctld slurmd munged sbatch jq "$@"; do command -v "$program" >/dev/null || skip "$program is not installed"; done
  work=$(mktemp -d "${TMPDIR:-/tmp}/weft-slurm.XXXXXX")
  chmod 755 "$work"  # munge wants every folder above its socket open to all
  export LOCAL_SLURM_DIR=$work/slurm
  trap '"$here/stop-local-slurm.sh" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
  "$here/start-local-slurm.sh" -n "$nodes" -c 2 -m 8000 || fail "the local Slurm did not start"
  # shellcheck disable=SC1091
  source "$LOCAL_SLURM_DIR/env.sh"
  cd "$work"
  [ "$nodes" -gt 1 ] || return 0
  # shellcheck disable=SC1091
  [ "$(. "$LOCAL_SLURM_DIR/settings" && echo "$MODE")" = netns ] || skip "virtual nodes need network namespaces"
  # Slurm's plugin opens libpmix.so, which is in Debian's libpmix-dev.
  srun --mpi=pmix --nodes="$nodes" --ntasks="$nodes" true 2>"$work/pmix.err" ||
    skip "srun --mpi=pmix does not work here: $(cat "$work/pmix.err")"
}
