#!/usr/bin/env bash
# Times the allocators of this folder, which `cargo xtask bench-gpu --save` made: each in a process
# of its own, ours and the peers' in turn. Needs the driver, nothing else.
#
#   run.sh [ARGUMENTS OF THE PROGRAMS]      such as `--workload pair,holes`, or `--quick`
#
# Variables: OUTPUT, the folder of the results; PASSES, how often everything is run; ALLOCATORS,
# such as `pool arena`, in the place of all; LIMIT, the seconds that one of them may take. With
# RMM_DRIVER=sim, ours are run on the software device, which the peers cannot use: that shows that
# the folder is whole, and nothing more.
set -u
bin=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/bin
output=${OUTPUT:-${bin%/bin}/results}
export RMM_DRIVER=${RMM_DRIVER:-cuda}
if [[ $RMM_DRIVER == cuda && $("$bin/rmm" doctor --json) != *'"ordinal":'* ]]; then
  echo "no GPU here (bin/rmm doctor says why): NOTHING WAS RUN" >&2
  exit 1
fi
mkdir -p "$output" && cd "$output" || exit

# A line of the description, if there is something to say.
say() { [[ -z $2 ]] || echo "$1: $2"; }
{
  say commit "$(cat "$bin/../commit.txt")"
  say date "$(date -u +%Y-%m-%d)"
  query=name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit
  say gpu "$(nvidia-smi --query-gpu=$query --format=csv,noheader 2>/dev/null | head -n 1)"
  say processor "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
  say kernel "$(uname -rm)"
  say peers "$(cat "$bin/../lib/peers.txt" 2>/dev/null)"
  printf '\nrmm doctor:\n'
  "$bin/rmm" doctor
} | tee machine.txt

failed=()
# Runs a program within the time limit; what it printed as errors is shown if it fails.
limited() {
  echo "\$ $*"
  timeout --kill-after=10 "${LIMIT:-300}" "$@" >out.txt 2>err.txt </dev/null && return
  echo "FAILED: ended with status $?" && cat err.txt
  return 1
} >&2
# The allocators of a program that are wanted.
wanted=${ALLOCATORS:-.*}
allocators() { "$bin/$1" --list | grep -xE "${wanted// /|}"; }
header=workload,allocator,params,value,unit
# Adds the rows of a runner's allocator; a last one that is cut off is none.
measure() {
  local runner=$1 program=$2 allocator=$3 line
  [[ -n $allocator ]] || return
  limited "$bin/$program" --allocator "$allocator" "${@:4}" ||
    failed+=("$runner $allocator in pass $pass")
  while IFS= read -r line; do
    [[ $line == "$header" || ! $line =~ ^([^,]*,){4}[^,]*$ ]] || echo "$runner,$pass,$line"
  done <out.txt >>rows.csv
}

mapfile -t ours < <(allocators protocol)
theirs=()
if [[ $RMM_DRIVER == cuda && -x $bin/peers ]]; then
  # They replay the same lists.
  if [[ " $* " == *" --quick "* ]]; then quick=--quick; fi
  "$bin/protocol" --write-ops ops --traces "$bin/../traces" ${quick:-} ||
    failed+=("the lists of calls")
  mapfile -t theirs < <(allocators peers)
  "$bin/peers" --list >/dev/null || failed+=(peers)
else
  echo "without the peers: there is nothing to compare with"
fi
if ((${#ours[@]} + ${#theirs[@]} == 0)); then
  echo "error: there is no allocator called ${ALLOCATORS:-anything}" >&2
  exit 1
fi
echo "runner,pass,$header" >rows.csv
for ((pass = 1; pass <= ${PASSES:-2}; pass++)); do
  for ((place = 0; place < ${#ours[@]} || place < ${#theirs[@]}; place++)); do
    measure ours protocol "${ours[place]:-}" "$@"
    measure peer peers "${theirs[place]:-}" --ops ops "$@"
  done
done
if [[ -x $bin/round-trip && -z ${ALLOCATORS:-} && " $*" != *" --workload"* ]]; then
  limited "$bin/round-trip" --output round-trip.csv "$@" || failed+=(round-trip)
  cat err.txt
fi
rm -rf ops out.txt err.txt
"$bin/report" summary rows.csv || failed+=("the summary")
if ((${#failed[@]})); then
  printf -v list ', %s' "${failed[@]}"
  echo "not all was measured: ${list:2} failed" >&2
fi
echo "the results are in $PWD"
exit $((${#failed[@]} > 0))
