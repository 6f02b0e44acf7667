#!/usr/bin/env bash
# Gives what MoePlan writes to the programs that read it. It takes installed packages, checkouts and built programs, and
# builds and downloads nothing. PYTHON is the Python that has the packages (python3 unless given). Without plans, it
# takes all models of share/models on three clusters (scripts/clients/plans.txt).
# Usage: scripts/clients.sh megatron-lm --checkout=DIR [OPTION..] [NAME..]      parser, validation, models on the meta device
#        scripts/clients.sh megatron-bridge [OPTION..] [NAME..]                 recipes, changed and validated
#        scripts/clients.sh torchtitan [--step] [NAME..]                        keys, degrees, models, and a step over gloo
#        scripts/clients.sh astra-sim PROGRAM build/dev/bin/moe-sim ARGUMENT..  a replay and a simulation of a step
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
megatron-lm | megatron-bridge | torchtitan | astra-sim) ;;
*)
  echo "error: expected megatron-lm, megatron-bridge, torchtitan or astra-sim, but got '${1:-}'" >&2
  sed -n '/^# Usage/,/^set/s/^# //p' "$0" >&2
  exit 2
  ;;
esac
script=scripts/clients/${1//-/_}.py
exec "${PYTHON:-python3}" "$script" "${@:2}"
