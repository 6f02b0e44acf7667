// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s1},moe-sequence-parallel),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --implicit-check-not="= moe.all_" --implicit-check-not="= moe.slice" --implicit-check-not="= moe.reduce"

// Parm's S1 begins with a slice of the tokens and ends with a gather of them. Both meet their opposite: the layer takes the norm's part and
// gives its own to the residual sum.

module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @block(
  // CHECK:         [[P:%[a-z0-9_]+]] = moe.matmul {{.*}} -> tensor<8x8xf32>
  // CHECK-NEXT:    [[S:%[a-z0-9_]+]] = moe.reduce_scatter [[P]] over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT:    [[N:%[a-z0-9_]+]] = moe.norm [[S]], {{.*}} -> tensor<4x8xf32>
  // CHECK-NEXT:    [[L:%[a-z0-9_]+]] = moe.matmul [[N]], {{.*}} -> tensor<4x4xf32>
  // CHECK:         moe.dispatch [[N]],
  // CHECK-COUNT-2: moe.all_to_all {{.*}} over <"mp", 2, 1>
  // CHECK:         [[C:%[a-z0-9_]+]] = moe.combine {{.*}} -> tensor<4x8xf32>
  // CHECK-COUNT-2: moe.all_reduce {{.*}} : (tensor<f32>) -> tensor<f32>
  // CHECK:         [[R:%[a-z0-9_]+]] = moe.add [[S]], [[C]] : tensor<4x8xf32>
  // CHECK:         moe.norm [[R]], {{.*}} -> tensor<4x8xf32>
  // CHECK-NEXT:    moe.all_gather {{.*}} over <"mp", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  // CHECK:         moe.matmul {{.*}} -> tensor<8x2xf32>
  func.func @block(%x: tensor<16x16xf32> {moe.layout = #moe.layout<[dp], [mp]>}, %w: tensor<16x8xf32>, %n1: tensor<8xf32>, %g: tensor<8x4xf32>,
                   %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %n2: tensor<8xf32>, %w3: tensor<8x4xf32>)
      -> (tensor<16x4xf32>, tensor<f32>) {
    %o = moe.linear %x, %w : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %n = moe.norm %o, %n1 {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<16x8xf32>, tensor<8xf32>) -> tensor<16x8xf32>
    %y, %aux = moe.layer "layer" %n gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    %r = moe.add %o, %y : tensor<16x8xf32>
    %m = moe.norm %r, %n2 {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<16x8xf32>, tensor<8xf32>) -> tensor<16x8xf32>
    %l = moe.linear %m, %w3 {column = 1 : i64} : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    return %l, %aux : tensor<16x4xf32>, tensor<f32>
  }
}
