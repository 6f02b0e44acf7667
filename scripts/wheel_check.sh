#!/usr/bin/env bash
# Installs a wheel in a minimal Debian that has Python and nothing else, as an unprivileged user, and uses all of it.
# Usage: scripts/wheel_check.sh FOLDER [SUITE [torch]]: FOLDER has the wheels of scripts/wheel.sh, those of backends if they are to be
#        checked. SUITE is bookworm (Debian 12) unless given, or trixie. `torch` also installs PyTorch from PyPI, and runs the tests of its
#        layers. Run it as root: debootstrap makes the tree build/minimal-SUITE once, or MOE_MINIMAL_TREE.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh

compgen -G "${1:-}/moeplan-*.whl" >/dev/null || { echo "usage: scripts/wheel_check.sh FOLDER [SUITE [torch]], where FOLDER has wheels" >&2; exit 2; }
wheels=$(realpath "$1")
/usr/bin/python3 -B test/Integration/wheel_files.py "$wheels" || { echo "error: a wheel would not work on other machines" >&2; exit 1; }
suite=${2:-bookworm}
torch=${3:-}
tree=${MOE_MINIMAL_TREE:-build/minimal-$suite}
if [ ! -x "$tree/usr/bin/python3" ]; then
  moe_install_packages debootstrap
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$tree" >"$tree.log" || { tail "$tree.log" >&2; exit 1; }
fi
home=$tree/home/user
rm -rf "$home" && mkdir -p "$home"
mkdir "$home/wheels" "$home/source"
cp "$wheels"/*.whl "$home/wheels"
# The package's own tests, and the files that they read.
git archive HEAD README.md docs/Python.md examples runtime/include test | tar x -C "$home/source"
# PyTorch asks for a name of the user, and pip for the registry of this machine and the certificates of its network.
grep -q ^user: "$tree/etc/passwd" || echo "user:x:1000:1000::/home/user:/bin/bash" >>"$tree/etc/passwd"
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$tree/etc/pip.conf"
cp -L /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/ca-certificates.crt"
cp -L /etc/resolv.conf "$tree/etc/resolv.conf"
# debootstrap leaves this file to the installer.
[ -f "$tree/etc/hosts" ] || echo "127.0.0.1 localhost $(hostname)" >"$tree/etc/hosts"
mountpoint -q "$tree/proc" || mount -t proc proc "$tree/proc"
mountpoint -q "$tree/dev" || mount --bind /dev "$tree/dev"
trap 'umount "$tree/proc" "$tree/dev"' EXIT

cat >"$home/check.sh" <<'INSIDE'
set -euo pipefail
cd
for program in cc c++ ld ld.lld llc mlir-opt; do
  ! command -v "$program" >/dev/null || { echo "error: the tree has $program, so it is not minimal" >&2; exit 1; }
done
# The first block of README.md in a language: the commands of users.
readme() { awk -v first="\`\`\`$1" '$0 == first { inside = 1; next } $0 == "```" && inside { exit } inside' ~/source/README.md; }
say() { printf '%7.2f s  %s\n' "$(python3 -c "print($(date +%s.%N) - $begin)")" "$*"; }
begin=$(date +%s.%N)
python3 -m venv venv
say "venv"
export PATH=$HOME/venv/bin:$PATH
pip download --quiet --no-index --no-deps --find-links=wheels --dest=download moeplan
cd download
begin=$(date +%s.%N)
eval "$(readme bash)" >install.txt
cd
site=$(echo venv/lib/python3*/site-packages)
say "pip install, $(du -sk "$site"/moeplan* | awk '{sum += $1} END {print sum}') KB installed"
eval "$(readme sh)" 2>/dev/null >answer.txt
say "the first plan"
head -4 answer.txt
for tool in plan compile sim import opt run calibrate; do
  moe-$tool --version >/dev/null
  begin=$(date +%s.%N)
  for _ in 1 2 3 4 5 6 7 8 9 10; do moe-$tool --version >/dev/null; done
  say "10 starts of moe-$tool"
done
moe-compile switch-base-8 --seq=16 --parallel=dp=4,mp=2,ep=4 -o plan.so
moe-run plan.so --verify | tail -1
moe-compile switch-base-8 --seq=16 --parallel=dp=4,mp=2,ep=4 --prove | tail -2
moe-sim mixtral-8x7b --parallel=dp=8,ep=8 --cluster=hgx-h100 >simulated.txt && head -4 simulated.txt
moe-import source/test/Integration/models/mixtral.json --whole-model -o model.mlir && moe-opt model.mlir -o /dev/null
python -c 'import moeplan; print("from Python:", moeplan.plan("mixtral-8x7b", 8, "hgx-h200", layers=4, global_batch=64).parallel)'
mv venv moved && "moved${site#venv}/moeplan/bin/moe-plan" --version && mv moved venv
python -B source/test/python/run.py "$site" test_docs test_plan test_tools

# A backend without its library says how to get it.
# refused BACKEND TEXT: a run on the backend fails with the text.
refused() {
  ! moe-run plan.so --backend="$1" &>refused.txt && grep -qF "$2" refused.txt && return
  echo "error: expected '$2' of backend $1 but got:" >&2
  cat refused.txt >&2
  exit 1
}
if [ -n "$(find wheels -name 'moeplan_mpi-*')" ]; then
  refused mpi "pip install moeplan[mpi]"
  pip install --quiet --no-index --no-deps --find-links=wheels moeplan-mpi
  refused mpi "install the MPI that it was built with"
  say "backend mpi: $(tail -1 refused.txt)"
fi
if [ -n "$(find wheels -name 'moeplan_cuda13-*')" ]; then
  refused cuda "pip install moeplan[cuda13]"
  pip install --quiet --no-index --no-deps --find-links=wheels moeplan-cuda13
  refused cuda "pip install nvidia-cublas"
  say "backend cuda: $(tail -1 refused.txt)"
fi
if [ "${1:-}" = torch ]; then
  # PyTorch brings NVIDIA's libraries, so that the backend loads.
  pip install --quiet torch==2.15.0 transformers==5.24.0
  python -B source/test/python/run.py "$site" test_torch.OneRank test_checkpoint
  seq 20000 >book.txt
  OMP_NUM_THREADS=1 python -m torch.distributed.run --standalone --nproc-per-node=2 source/examples/train_mixtral_tiny.py book.txt \
    --parallel=dp=2,ep=2 --steps=2
  if [ -n "$(find wheels -name 'moeplan_cuda13-*')" ]; then
    refused cuda "cannot use a CUDA device"
    say "backend cuda: $(tail -1 refused.txt)"
  fi
fi
echo "all passed"
INSIDE
chown -R 1000:1000 "$home"
chroot --userspec=1000:1000 "$tree" /usr/bin/env -i HOME=/home/user PATH=/usr/bin:/bin LC_ALL=C.UTF-8 bash /home/user/check.sh "$torch" 2>&1 || {
  echo "error: the wheel failed in $suite" >&2
  exit 1
}
