#!/usr/bin/env bash
# Every block of jobs/tutorial.md, in its order and in one folder, on a real Slurm of two virtual nodes. What installs and builds is left to
# tests/run.sh and jobs_package; without a Slurm the blocks of its two sections are left out, with a message.
. "$(dirname "$0")/test-lib.sh" || exit
slurm=1
if [ "$(id -u)" = 0 ] && PATH=$PATH:/usr/sbin:/sbin command -v slurmctld slurmd munged sbatch jq >/dev/null; then
  start_slurm 2
else
  echo "no Slurm here: sections 10 and 11 are left out"
  slurm=0 work=$(mktemp -d "${TMPDIR:-/tmp}/weft-tutorial.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  cd "$work"
fi
export WEFT_HOME=$source_dir WEFT_BIN=$bin HOME=$work PATH=$bin:$PATH OMP_NUM_THREADS=1
unset WEFT_GPT2_DIR

section='' count=0
while IFS= read -r line; do
  case $line in '## '*) section=${line#\#\# }; continue ;; esac
  command=${line#    }
  case $section in *' Slurm' | *' More nodes') [ $slurm = 1 ] || continue ;; esac
  case $command in
    cmake*) continue ;;
    jobs/install-deps.sh) command+=' --dry-run' ;;
  esac
  echo "+ $command"
  eval "$command" >"$work/block.out" 2>&1 </dev/null || { cat "$work/block.out" >&2; fail "section $section: $command"; }
  case $command in *' --dry-run') grep -qE '^fits: |^install-deps: ' "$work/block.out" || fail "no verdict of: $command" ;; esac
  count=$((count + 1))
done < <(sed -e ':a' -e '/\\$/N; s/\\\n//; ta' "$source_dir/jobs/tutorial.md" | grep -E '^(## |    )')

grep -qx 40 "$work/block.out" || [ $slurm = 0 ] || fail "two nodes did not go on to iteration 40: $(cat "$work/block.out")"
cd "$work/weft-tutorial"
[ "$(cat run/latest_checkpointed_iteration.txt)" = 200 ] || fail "the run did not resume to iteration 200"
for made in report.html my-gpt2-hf/model.safetensors iteration-120.txt; do [ -s "$made" ] || fail "no $made"; done
[ $count -ge 20 ] || fail "only $count commands"
echo "$count commands passed"
