// A model in f16 down to calls: besides f16 (4) there is f32 (0) for routing and the loss.

// RUN: moe-compile %S/models/mixtral.json --whole-model --batch=2 --seq=8 --dtype=f16 --parallel=dp=2,mp=1,ep=2,esp=1 --emit=spmd -o - | FileCheck %s --check-prefix=SPMD
// SPMD: moe.route {{.*}} : (tensor<16x4xf32>) ->
// SPMD: moe.combine {{.*}} : (tensor<32x24xf16>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x24xf16>

// RUN: moe-compile %S/models/mixtral.json --whole-model --batch=2 --seq=8 --dtype=f16 --parallel=dp=2,mp=1,ep=2,esp=1 --emit=llvm -o - | FileCheck %s --check-prefix=LLVM
// The embedding is argument 3, after tokens, labels and the step.
// Its space and type are the two halves of a number: 4 * 2^32 + 2.
// LLVM: @moeplan_rank_buffers = {{.*}} [11 x i64] [i64 17179869186, i64 3, i64 2, i64 40, i64 24, i64 0, i64 0,
// LLVM: \22mode\22:\22train\22,\22dtype\22:\22f16\22
// LLVM-SAME: \22name\22:\22loss\22,\22role\22:\22loss\22,\22dtype\22:\22f32\22

// RUN: moe-compile %S/models/mixtral.json --whole-model --batch=2 --seq=8 --dtype=f16 --parallel=dp=2,mp=1,ep=2,esp=1 -o %t.so
// RUN: moe-run %t.so --verify | FileCheck %s --check-prefix=VERIFY
// VERIFY: verification ok: {{.*}} in f16

// The profile has a rate of its own for f16.
// RUN: moe-sim mixtral-8x7b --layers=1 --seq=64 --dtype=f16 --parallel=dp=8,ep=8 --cluster=ppmoe-v100-32 --json | FileCheck %s --check-prefix=RATE
// RATE: "peak_flops_per_s": 125000000000000
