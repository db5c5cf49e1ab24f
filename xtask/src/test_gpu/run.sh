#!/usr/bin/env bash
# Runs the tests of this folder, which `cargo xtask test-gpu --save` made, on every GPU, kind of
# stream and resource. Needs the driver, nothing else.
#
#   run.sh [ARGUMENTS OF THE TEST PROGRAMS]     such as `--skip stress::`, or a part of a name
#
# Variables: DEVICES, such as `0 2`, in the place of all; LIMIT, the seconds that a run may take;
# ALLOW_NO_GPU=1 makes it a success that there is none.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")" || exit

# The real driver and no other: simulated devices are not what is being looked for.
export RMM_DRIVER=cuda
unset RMM_TEST_STREAM RMM_TEST_RESOURCE
report=$(bin/rmm doctor --json)
if [[ $report != *'"driver":'* ]]; then
  echo "error: bin/rmm doctor printed no report" >&2
  exit 1
fi
found=$(grep -o '"ordinal": *[0-9]*' <<<"$report" | grep -o '[0-9]*$')
if [[ -z $found || $report =~ \"driver\":\ *null ]]; then
  echo "no GPU here (bin/rmm doctor says why): NO TEST WAS RUN" >&2
  exit $((${ALLOW_NO_GPU:-0} == 0))
fi
for device in ${DEVICES:-}; do
  if ! grep -qx "$device" <<<"$found"; then
    echo "error: there is no device $device; there are:" $found >&2
    exit 1
  fi
done

rm -rf results
mkdir results
runs=0
failed=0
# A line of the table.
row='%-6s %-12s %-20s %6s %6s %7s %6s  %s\n'
count() { sed -n "s/^test result: .* \([0-9]*\) $1;.*/\1/p" "$log" | tail -n 1; }
printf "$row" device stream resource passed failed ignored time result
for device in ${DEVICES:-$found}; do
  while read -r stream resource command; do
    log=results/$device-$stream-$resource.txt
    begin=$SECONDS
    # A process of its own: a device that was left broken harms no other run.
    RMM_TEST_DEVICE=$device timeout --kill-after=10 "${LIMIT:-900}" \
      env $command --test-threads=1 "$@" >"$log" 2>&1 </dev/null
    status=$?
    # One that finds out only when it runs that it cannot says so, and then passes.
    ignored=$(grep -c ' \.\.\. ignored' "$log")
    passed=$(($(count passed) + $(count ignored) - ignored))
    # Neither what was printed nor how it ended is believed alone.
    result=ok
    case $status in
      0) ((passed > 0)) || result='FAILED: ran no test to its end' ;;
      101) result=FAILED ;;
      124 | 137) result='FAILED: was killed at its time limit' ;;
      *) result="FAILED: ended with status $status" ;;
    esac
    printf "$row" "$device" "$stream" "$resource" "$passed" "$(($(count failed)))" "$ignored" \
      "$((SECONDS - begin)) s" "$result"
    runs=$((runs + 1))
    if [[ $result != ok ]]; then
      failed=$((failed + 1))
      tail -n 60 "$log"
    fi
  done <runs.txt
done

grep -ho '^test .* \.\.\. ignored.*' results/*.txt | sort | uniq -c
echo "$failed of $runs runs failed; what they printed is in $PWD/results"
exit $((failed > 0))
