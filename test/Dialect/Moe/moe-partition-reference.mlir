// RUN: moe-opt %s --moe-partition=reference | FileCheck %s
// RUN: moe-opt %s --moe-partition="reference groups=8" | FileCheck %s --check-prefix=GROUPS
// RUN: moe-opt %s --moe-partition=groups=8 | FileCheck %s --check-prefix=SHARD

// The program of one rank for comparison, routed in the groups of tokens that the partitioned program routes: one for each
// of the four token shards, or as many as asked for. The function gets the world of one rank.
// GROUPS: moe.route {{.*}} {capacity = 4 : i64, groups = 8 : i64}
// Of eight groups each of the four shards routes two of eight tokens: T = ceil(2 * 1.0 * 8 / 4) = 4 for each.
// SHARD: moe.route {{.*}} {capacity = 4 : i64, groups = 2 : i64}
// SHARD: moe.dispatch {{.*}} -> tensor<4x8x8xf32>
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // T holds for a group of 16 tokens, so that the same tokens are dropped.
  // CHECK-LABEL: func.func @reference(
  // CHECK:      moe.route %{{.+}} {capacity = 8 : i64, groups = 4 : i64}
  // CHECK:      moe.dispatch {{.*}} -> tensor<4x32x8xf32>
  // CHECK:      moe.all_gather %{{.+}} over <"esp", 1, 1>
  // CHECK:      moe.all_to_all %{{.+}} over <"ep", 1, 1>
  // CHECK:      %[[SHARE:.+]] = moe.scale %{{.+}} {factor = 1.000000e+00 : f64}
  // CHECK-NEXT: moe.all_reduce %[[SHARE]] over <"dp", 1, 1> :
  func.func @reference(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "reference" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}
