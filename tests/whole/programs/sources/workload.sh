#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2116,SC2018,SC2019  # it is here to fork, not to be short
#
# workload.sh: many forks and executions, long strings, arrays and here-documents. Prints the same every time.
# Argument: number of forks.
set -eu
forks=${1:-500}
declare -A count
total=0
for ((i = 0; i < forks; ++i)); do
  word=$(echo "word $((i * 7919 % 101))")
  count[$word]=$((${count[$word]:-0} + 1))
  total=$((total + ${#word}))
done
echo "${#count[@]} words, $total characters"
for word in "${!count[@]}"; do echo "$word ${count[$word]}"; done | sort | head -5

text=
for ((i = 0; i < 3000; ++i)); do text+="line $i "; done
echo "${#text} ${text//line/LINE}" | cut -c 1-60
mapfile -t lines < <(seq 1 20000)
echo "${#lines[@]} lines, the last ${lines[-1]}"

# Jobs that run at the same time, and pipelines of subshells.
for ((i = 0; i < 20; ++i)); do (seq "$i" 500 | sort -rn | head -1) & done | sort | uniq -c
wait
seq 1 2000 | while read -r n; do echo $((n * n)); done | awk '{ sum += $1 } END { print sum }'
cat <<END | tr a-z A-Z
$(for ((i = 0; i < 50; ++i)); do echo "here $i"; done | tail -2)
END
