// A model graph has its own tokens and types: moe-plan chooses groups and a schedule for it without further options.
// RUN: moe-plan %s 4 hgx-h100 2>/dev/null | FileCheck %s
// RUN: moe-plan %s 4 hgx-h100 --json 2>/dev/null | FileCheck %s --check-prefix=JSON
// RUN: not moe-plan %s 4 hgx-h100 --seq=64 2>&1 | FileCheck %s --check-prefix=SEQ
// CHECK: moe-plan-graph.mlir on 4 x H100 SXM (hgx-h100), a step of the graph's tokens, Adam
// CHECK: groups  TP4 PP1 DP1 EP1 ETP1 CP1, MBS 1, GA 1; ppmoe{{$}}
// CHECK: step {{.*}} ms
// JSON-NOT: "sequence"
// JSON: "parallel": "pp=
// SEQ: error: --seq cannot be combined with
func.func @model(%x: tensor<64x16xf32> {moe.name = "x", moe.role = "input"}, %gate: tensor<16x4xf32> {moe.name = "gate", moe.role = "parameter"},
                 %w1: tensor<4x16x32xf32> {moe.name = "w1", moe.role = "parameter"}, %w2: tensor<4x32x16xf32> {moe.name = "w2", moe.role = "parameter"})
    -> (tensor<64x16xf32> {moe.name = "y", moe.role = "output"}, tensor<f32> {moe.name = "aux", moe.role = "output"}) {
  %y, %aux = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2)
    {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
    : (tensor<64x16xf32>, tensor<16x4xf32>, tensor<4x16x32xf32>, tensor<4x32x16xf32>) -> (tensor<64x16xf32>, tensor<f32>)
  return %y, %aux : tensor<64x16xf32>, tensor<f32>
}
