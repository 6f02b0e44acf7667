// RUN: split-file %s %t
// RUN: sed s/TOKENS/4000/g %t/layer.mlir > %t/small.mlir
// RUN: sed s/TOKENS/32000/g %t/layer.mlir > %t/large.mlir
// RUN: moe-sim %t/small.mlir --parallel=dp=4,ep=4 --cluster=%S/Inputs/fastermoe.json --routing=%t/small.jsonl --json | FileCheck %s
// RUN: moe-sim %t/large.mlir --parallel=dp=4,ep=4 --cluster=%S/Inputs/fastermoe.json --routing=%t/large.jsonl --json | FileCheck %s --check-prefix=LARGE

// FasterMoE's Eq. 7 for rows [800, 100, 50, 50] of every worker, H = 1024, alpha = 2: 15.391 ms, all
// computation and all exchanges one after the other. The plan's last weight gradient, 2 B alpha H^2 / P = 1.167 ms, runs beside
// the last exchange: 14.224 ms. Gate, gate gradient and exchange of the counts, which the formula leaves out, are 0.006 ms.
// CHECK: "step_s": 0.01423

// [6000, 1000, 500, 500]: 115.435 ms - 8.753 ms, and 0.020 ms.
// LARGE: "step_s": 0.10670

//--- layer.mlir
func.func @model(%x: tensor<TOKENSx1024xf32> {moe.name = "x", moe.role = "input"},
                 %gate: tensor<1024x4xf32> {moe.name = "gate", moe.role = "parameter"},
                 %w1: tensor<4x1024x2048xf32> {moe.name = "w1", moe.role = "parameter"},
                 %w2: tensor<4x2048x1024xf32> {moe.name = "w2", moe.role = "parameter"})
    -> (tensor<TOKENSx1024xf32> {moe.name = "y", moe.role = "output"}, tensor<f32> {moe.name = "aux", moe.role = "output"}) {
  %y, %aux = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>}
      : (tensor<TOKENSx1024xf32>, tensor<1024x4xf32>, tensor<4x1024x2048xf32>, tensor<4x2048x1024xf32>)
      -> (tensor<TOKENSx1024xf32>, tensor<f32>)
  return %y, %aux : tensor<TOKENSx1024xf32>, tensor<f32>
}
//--- small.jsonl
{"iteration": 0, "layer": 0, "counts": [[800, 100, 50, 50], [800, 100, 50, 50], [800, 100, 50, 50], [800, 100, 50, 50]]}
//--- large.jsonl
{"iteration": 0, "layer": 0, "counts": [[6000, 1000, 500, 500], [6000, 1000, 500, 500], [6000, 1000, 500, 500], [6000, 1000, 500, 500]]}
