#!/usr/bin/env bash
# Installs a wheel in a minimal Debian that has Python and nothing else, as an unprivileged user, and uses all of it.
# Usage: scripts/wheel_check.sh WHEEL [SUITE [torch]]: SUITE is bookworm (Debian 12) unless given, or trixie. `torch` also installs PyTorch
#        from PyPI, and runs a layer in it. Run it as root: debootstrap makes the tree build/minimal-SUITE once, or MOE_MINIMAL_TREE.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh

[ $# -ge 1 ] && [ -f "$1" ] || { echo "usage: scripts/wheel_check.sh WHEEL [SUITE [torch]]" >&2; exit 2; }
wheel=$(realpath "$1")
suite=${2:-bookworm}
torch=${3:-}
tree=${MOE_MINIMAL_TREE:-build/minimal-$suite}
if [ ! -x "$tree/usr/bin/python3" ]; then
  moe_install_packages debootstrap
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$tree" >"$tree.log" || { tail "$tree.log" >&2; exit 1; }
fi
home=$tree/home/user
rm -rf "$home" && mkdir -p "$home"
cp "$wheel" "$home"
cp test/Integration/models/mixtral.json "$home/config.json"
cp examples/train_mixtral_tiny.py "$home"
# PyTorch and pip ask for a name of the user, and for the registry that this machine uses.
grep -q ^user: "$tree/etc/passwd" || echo "user:x:1000:1000::/home/user:/bin/bash" >>"$tree/etc/passwd"
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$tree/etc/pip.conf"
cp -L /etc/resolv.conf "$tree/etc/resolv.conf"
mountpoint -q "$tree/proc" || mount -t proc proc "$tree/proc"
mountpoint -q "$tree/dev" || mount --bind /dev "$tree/dev"
trap 'umount "$tree/proc" "$tree/dev"' EXIT

cat >"$home/check.sh" <<'INSIDE'
set -euo pipefail
cd
for program in cc c++ ld ld.lld llc mlir-opt; do
  ! command -v "$program" >/dev/null || { echo "error: the tree has $program, so it is not minimal" >&2; exit 1; }
done
say() { printf '%7.2f s  %s\n' "$(python3 -c "print($(date +%s.%N) - $begin)")" "$*"; }
begin=$(date +%s.%N)
python3 -m venv venv
say "venv"
export PATH=$HOME/venv/bin:$PATH
begin=$(date +%s.%N)
pip install --quiet --no-index --no-deps ./*.whl
say "pip install, $(du -k ./*.whl | cut -f1) KB, $(du -sk venv/lib/python3*/site-packages/moeplan* | awk '{sum += $1} END {print sum}') KB installed"
moe-plan mixtral-8x7b 64 hgx-h100 2>/dev/null >answer.txt
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
moe-import config.json --whole-model -o model.mlir && moe-opt model.mlir -o /dev/null
python -c 'import moeplan; print("from Python:", moeplan.plan("mixtral-8x7b", 8, "hgx-h200", layers=4, global_batch=64).parallel)'
mv venv moved && moved/lib/python3*/site-packages/moeplan/bin/moe-plan --version && mv moved venv
if [ "${1:-}" = torch ]; then
  pip install --quiet torch==2.15.0 transformers==5.24.0
  seq 20000 >book.txt
  OMP_NUM_THREADS=1 python -m torch.distributed.run --standalone --nproc-per-node=2 train_mixtral_tiny.py book.txt --parallel=dp=2,ep=2 --steps=2
fi
echo "all passed"
INSIDE
chown -R 1000:1000 "$home"
chroot --userspec=1000:1000 "$tree" /usr/bin/env -i HOME=/home/user PATH=/usr/bin:/bin LC_ALL=C.UTF-8 bash /home/user/check.sh "$torch" 2>&1 || {
  echo "error: the wheel failed in $suite" >&2
  exit 1
}
