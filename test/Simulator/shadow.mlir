// RUN: split-file %s %t
// RUN: moe-sim %t/layer.mlir --parallel=dp=4,ep=4 --cluster=%S/Inputs/fastermoe.json --routing=%t/counts.jsonl --json | tr -d '\n' | FileCheck %s --check-prefix=BASELINE
// RUN: moe-sim %t/layer.mlir --parallel=dp=4,ep=4 --cluster=%S/Inputs/fastermoe.json --routing=%t/counts.jsonl --schedule=baseline+shadow:2,prefix --order=program --json | tr -d '\n' | FileCheck %s --check-prefix=SHADOW
// RUN: moe-sim %t/layer.mlir --parallel=dp=4,ep=4 --cluster=%S/Inputs/fastermoe.json --routing=%t/counts.jsonl --schedule=baseline+smart:1 --json | tr -d '\n' | FileCheck %s --check-prefix=SMART
// RUN: moe-sim %t/layer.mlir --parallel=dp=4,ep=4 --cluster=%S/Inputs/fastermoe.json --schedule=baseline+shadow:2,prefix | FileCheck %s --check-prefix=EVEN

// Rows [800, 100, 50, 50] of every worker, H = 1024, alpha = 2. The ranks send 200, 900, 950 and 950 rows of 4 KB to others, there and
// back, forward and backward. Each row takes 2 products of 4 M FLOPs forward, and twice as many backward.
// BASELINE-DAG: "kernel": "all_to_all_v [ep]",{{[^}]*}}"launches": 4,{{[^}]*}}"bytes": 12288000,
// BASELINE-DAG: "kernel": "grouped_matmul",{{[^}]*}}"flops": 16777216000,
// BASELINE-DAG: "kernel": "grouped_matmul_wgrad",{{[^}]*}}"flops": 8388608000,

// By Eq. 8, 7.995 ms, expert 0 is worth it and no second one: its two weights of 8 MB reach all ranks over a chain in 2.684 ms, and
// their gradients return. 200, 100, 150 and 150 rows remain for others, and the same products are computed.
// SHADOW: "step_s": 0.0080
// SHADOW-DAG: "kernel": "broadcast_experts [ep]",{{[^}]*}}"launches": 2,{{[^}]*}}"busy_s": 0.0026843{{[^}]*}}"bytes": 12582912,
// SHADOW-DAG: "kernel": "reduce_experts [ep]",{{[^}]*}}"launches": 2,{{[^}]*}}"busy_s": 0.0026843{{[^}]*}}"bytes": 12582912,
// SHADOW-DAG: "kernel": "all_to_all_v [ep]",{{[^}]*}}"launches": 4,{{[^}]*}}"bytes": 2457600,
// SHADOW-DAG: "kernel": "grouped_matmul",{{[^}]*}}"flops": 16777216000,
// SHADOW-DAG: "kernel": "grouped_matmul_wgrad",{{[^}]*}}"flops": 8388608000,

// In four phases the exchanges send as much as in one, and computation hides behind them.
// SMART: "step_s": 0.0095
// SMART-DAG: "kernel": "all_to_all_v [ep]",{{[^}]*}}"launches": 16,{{[^}]*}}"bytes": 12288000,
// SMART-DAG: "kernel": "grouped_matmul",{{[^}]*}}"flops": 16777216000,
// SMART-DAG: "kernel": "grouped_matmul_wgrad",{{[^}]*}}"flops": 8388608000,

// Even routing is decided on, too, without a shadow: one rank stands for all, and nothing is broadcast.
// EVEN: 4 ranks (1 simulated, the others do the same)
// EVEN: broadcast_experts [ep]             2       0.000      0.0%

//--- layer.mlir
func.func @model(%x: tensor<4000x1024xf32> {moe.name = "x", moe.role = "input"},
                 %gate: tensor<1024x4xf32> {moe.name = "gate", moe.role = "parameter"},
                 %w1: tensor<4x1024x2048xf32> {moe.name = "w1", moe.role = "parameter"},
                 %w2: tensor<4x2048x1024xf32> {moe.name = "w2", moe.role = "parameter"})
    -> (tensor<4000x1024xf32> {moe.name = "y", moe.role = "output"}, tensor<f32> {moe.name = "aux", moe.role = "output"}) {
  %y, %aux = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>}
      : (tensor<4000x1024xf32>, tensor<1024x4xf32>, tensor<4x1024x2048xf32>, tensor<4x2048x1024xf32>)
      -> (tensor<4000x1024xf32>, tensor<f32>)
  return %y, %aux : tensor<4000x1024xf32>, tensor<f32>
}
//--- counts.jsonl
{"iteration": 0, "layer": 0, "counts": [[800, 100, 50, 50], [800, 100, 50, 50], [800, 100, 50, 50], [800, 100, 50, 50]]}
