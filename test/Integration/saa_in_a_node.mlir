// RUN: moe-compile %s --parallel=dp=3,mp=2,ep=3,esp=2 --schedule=parm-auto --cluster=hgx-h100 --emit=plan -o - | FileCheck %s
// RUN: moe-compile %s --parallel=dp=3,mp=2,ep=3,esp=2 --schedule=s2+saa --cluster=hgx-h100 --emit=plan -o - | FileCheck %s --check-prefix=ASKED

// Six ranks of a node of eight exchange on one stream in any group, so phases would overlap with nothing. auto,
// which takes S2 for so few choices, makes none. An explicit request makes them.
// CHECK: chosen = "s2"
// CHECK-NOT: phase = [
// ASKED: phase = [1, 3]
// ASKED-NOT: comm.inter
func.func @model(%x: tensor<3072x64xf32> {moe.name = "x", moe.role = "input"}, %gate: tensor<64x6xf32> {moe.name = "gate", moe.role = "parameter"},
                 %w1: tensor<6x64x64xf32> {moe.name = "w1", moe.role = "parameter"}, %w2: tensor<6x64x64xf32> {moe.name = "w2", moe.role = "parameter"})
    -> (tensor<3072x64xf32> {moe.name = "y", moe.role = "output"}, tensor<f32> {moe.name = "aux", moe.role = "output"}) {
  %y, %aux = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2)
    {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 0.25 : f64}
    : (tensor<3072x64xf32>, tensor<64x6xf32>, tensor<6x64x64xf32>, tensor<6x64x64xf32>) -> (tensor<3072x64xf32>, tensor<f32>)
  return %y, %aux : tensor<3072x64xf32>, tensor<f32>
}
