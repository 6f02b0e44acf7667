// RUN: moe-opt %s -split-input-file -verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(moe-partition,func.func(moe-sequence-parallel))"

// Three rows are no two equal parts.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 1, esp = 1>} {
  // expected-warning @+1 {{moe-sequence-parallel leaves the program as it is: expected a norm, dropout or sum that uses a sum or gather over mp, with a number of rows divisible by 2}}
  func.func @odd(%x: tensor<3x16xf32> {moe.layout = #moe.layout<[dp], [mp]>}, %w: tensor<16x8xf32>, %g: tensor<8xf32>) -> tensor<3x8xf32> {
    %o = moe.linear %x, %w : (tensor<3x16xf32>, tensor<16x8xf32>) -> tensor<3x8xf32>
    %n = moe.norm %o, %g {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
    return %n : tensor<3x8xf32>
  }
}

// -----

// Without mp there is nothing to say.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @alone(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
    %n = moe.norm %x, %g {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    return %n : tensor<4x8xf32>
  }
}
