// RUN: moe-opt %s --moe-partition=groups=12 -verify-diagnostics

// Each of a shard's groups has as many tokens.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  func.func @f(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    // expected-error @+1 {{expected the 16 tokens of a rank to be divisible by its 3 routing groups}}
    %y, %aux = moe.layer "f" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}
