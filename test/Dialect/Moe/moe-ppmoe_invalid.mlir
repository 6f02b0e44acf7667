// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,func.func(moe-ppmoe))" -split-input-file -verify-diagnostics
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,func.func(moe-insert-to-varying,moe-verify-spmd))" -split-input-file > %t.before
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,func.func(moe-ppmoe))" -split-input-file 2>/dev/null \
// RUN:   | sed 's/ {moe.left = .*"]}//' | diff %t.before -

// A layer whose experts' ranks have different tokens is named, with the reason, and left as it is.

// Experts over data parallelism, without model parallelism.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  func.func @f(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    // expected-warning @+1 {{moe-ppmoe leaves this layer as it is: the ranks that hold its experts have different tokens over 'dp'; expected ep * esp to divide mp}}
    %y, %aux = moe.layer "l" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}

// -----

// Experts over a model-parallel group and part of data parallelism, dropless.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  func.func @f(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    // expected-warning @+1 {{moe-ppmoe leaves this layer as it is: the ranks that hold its experts have different tokens over 'ep'; expected ep * esp to divide mp}}
    %y, %aux = moe.layer "l" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}
