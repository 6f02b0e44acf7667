// RUN: moe-opt %s --moe-partition=groups=8 | FileCheck %s

// More routing groups than token shards: each shard routes two groups of eight tokens.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // T = ceil(2 * 1.0 * 8 / 4) = 4 for each group.
  // CHECK-LABEL: func.func @groups(
  // CHECK: moe.route %{{.+}} {capacity = 4 : i64, groups = 2 : i64}
  // CHECK: moe.dispatch {{.*}} -> tensor<4x8x8xf32>
  func.func @groups(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "groups" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}
