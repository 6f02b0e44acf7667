// RUN: moe-opt %s --moe-partition | FileCheck %s

// A capacity of its own is that of each routing group, however many tokens it has: 10 and not ceil(1.0 * 32 / 4) = 8 of a shard's 32.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @padded(
  // CHECK:         [[SLOTS:%slots]], {{.*}} = moe.route {{.*}} {capacity = 10 : i64} : (tensor<32x4xf32>)
  // CHECK:         moe.dispatch {{.*}}, [[SLOTS]] : (tensor<32x8xf32>, tensor<32x1xi32>) -> tensor<4x10x8xf32>
  func.func @padded(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "padded" %x gate(%g) experts(%w1, %w2)
      {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64, expert_capacity = 10 : i64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
