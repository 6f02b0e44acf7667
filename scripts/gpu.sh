#!/usr/bin/env bash
# Prepares, runs and reports a session on a machine with a GPU. docs/Cuda.md, "What ran on a GPU", describes it.
# Usage: scripts/gpu.sh pack [FOLDER]              where compiler and nvcc are: makes a folder with all that the GPU's machine lacks
#        FOLDER/gpu.sh run CALL [RESULTS]          where the GPU is: runs call 1, in at most 2 minutes, or call 2, in at most 8
#        scripts/gpu.sh report RESULTS [-o FILE]   anywhere: writes the page docs/Gpu.md and the measured cluster profile
# Each command has more options: --help.
set -euo pipefail
here=${BASH_SOURCE[0]%/*}
[ "$here" != "${BASH_SOURCE[0]}" ] || here=.
command=${1:-}
case $command in
pack | run | report) exec "${MOE_PYTHON:-python3}" -B "$here/gpu/$command.py" "${@:2}" ;;
*)
  echo "error: expected pack, run or report, but got '$command'" >&2
  echo "usage: gpu.sh pack [FOLDER] | run STAGE [RESULTS] | report RESULTS [-o FILE]" >&2
  exit 2
  ;;
esac
