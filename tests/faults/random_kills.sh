#!/usr/bin/env bash
# kill -9 of weft-data preprocess at random times, and of one or all of its ranks under mpirun, until the same command comes to its end: the
# bytes are those of an undisturbed run, and nothing is left.
# usage: random_kills.sh [KILLS [KILLS_OF_RANKS]]     SEED in the environment repeats the random numbers, though not the machine's speed
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
num_kills=${1:-6} num_rank_kills=${2:-3}
RANDOM=${SEED:=$RANDOM}
echo "SEED=$SEED"
forget_launchers
make_vocabulary
make_corpus 40000 >a.jsonl
make_corpus 30000 | sed 's/line/gzip/' | gzip >b.jsonl.gz
for part in 1 2 3 4; do make_corpus 10000 | sed "s/line/frame $part/" | zstd -q; done >c.jsonl.zst
make_corpus 10000 | sed 's/line/xz/' | xz -0 >d.jsonl.xz
command=("$data" preprocess --input a.jsonl b.jsonl.gz c.jsonl.zst d.jsonl.xz --append-eod --origin-key text --workers 2 --output-prefix)
now_ms() { date +%s%3N; }

alone() { # PREFIX
  exec "${command[@]}" "$1"
}
# A launcher whose rank dies while it starts can wait for ever (seen with Open MPI 4.1.4): it is ended.
ranks() { # PREFIX: pid.RANK is a rank's process
  exec timeout -k 5 60 mpirun -n 3 bash -c 'echo $$ >"pid.$OMPI_COMM_WORLD_RANK"; exec "$@"' rank "${command[@]}" "$1"
}
processes() { # HOW PID: those that one kill ends
  if [ "$1" = alone ]; then
    echo "$2"
  elif ((RANDOM % 2)); then
    cat "pid.$((RANDOM % 3))" 2>/dev/null || true
  else
    cat pid.? 2>/dev/null || true
  fi
}
check() { # PREFIX
  for suffix in bin idx sources checksums; do cmp "one_text_document.$suffix" "$1_text_document.$suffix" || fail "$1_text_document.$suffix"; done
  [ ! -e "$1.work" ] && [ ! -e "$1.lock" ] || fail "$1.work or $1.lock is left"
  rm -f "$1"_text_document.*
}

kill_often() { # HOW KILLS
  local how=$1 hits=0 runs=0 datasets=0 limit_ms begin pid ms victims is_killed
  begin=$(now_ms)
  ("$how" whole) >whole.log 2>&1 </dev/null || { cat whole.log; fail "an undisturbed run, $how"; }
  limit_ms=$(($(now_ms) - begin))
  check whole
  while ((hits < $2)); do
    ((++runs <= 40 * $2)) || fail "only $hits of $2 kills hit a run that worked, $how"
    rm -f pid.?
    ("$how" killed) >killed.log 2>&1 </dev/null &
    pid=$!
    ms=$((RANDOM % 1000 * limit_ms / 1000 + 1))
    sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
    victims=$(processes "$how" "$pid")
    is_killed=0
    # A kill counts where there is work that it may spoil. Runs of a busy machine are slower than the first one was: the limit follows.
    if [ -n "$victims" ] && [ -d killed.work ]; then
      is_killed=1
      kill -9 $victims 2>/dev/null || true
    elif kill -0 "$pid" 2>/dev/null; then
      limit_ms=$((limit_ms * 11 / 10 + 1))
    else
      limit_ms=$((limit_ms * 9 / 10 + 1))
    fi
    if wait "$pid" 2>/dev/null; then
      check killed
      ((++datasets))
    else
      [ $is_killed = 1 ] || { cat killed.log; fail "it ended unasked, $how"; }
      ((++hits))
    fi
  done
  ("$how" killed) >killed.log 2>&1 </dev/null || { cat killed.log; fail "after the last kill, $how"; }
  check killed
  echo "$how: $hits kills in $runs runs, $((datasets + 1)) datasets, all bytes as of an undisturbed run"
}

expect 0 wrote "${command[@]}" one
kill_often alone "$num_kills"
. "$WEFT_SOURCE_DIR/tests/preprocess/mpi.sh" || exit
kill_often ranks "$num_rank_kills"
