// RUN: moe-opt %s --canonicalize --cse | FileCheck %s

// Addition is commutative: the same sum twice is one.
// CHECK-LABEL: func.func @add_twice(
// CHECK-NEXT: %[[ADD:.+]] = moe.add %arg0, %arg1 :
// CHECK-NEXT: moe.add %[[ADD]], %[[ADD]] :
func.func @add_twice(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.add %a, %b : tensor<4x8xf32>
  %1 = moe.add %b, %a : tensor<4x8xf32>
  %2 = moe.add %0, %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// A layer that nobody reads is pure, and goes.
// CHECK-LABEL: func.func @unused_layer(
// CHECK-NEXT: return %arg0 :
func.func @unused_layer(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
  %y, %aux = moe.layer "l" %x gate(%g) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
  return %x : tensor<64x8xf32>
}
