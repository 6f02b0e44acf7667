// RUN: moe-opt %s --moe-partition --canonicalize | FileCheck %s

// On one rank nothing of the exchange is left.
module attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
  // Capacity form, with biases and a shared expert.
  // CHECK-LABEL: func.func @capacity(
  // CHECK-NEXT: %[[LOGITS:.+]] = moe.matmul %arg0, %arg1 :
  // CHECK-NEXT: %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}}, %[[AUX:aux[0-9_]*]] = moe.route %[[LOGITS]] {capacity = 32 : i64}
  // CHECK-NEXT: %[[ROWS:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[ROWS]], %arg2 :
  // CHECK-NEXT: %[[BIASED:.+]] = moe.bias_add %[[H]], %arg4 :
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[BIASED]] {kind = #moe<activation gelu>}
  // CHECK-NEXT: %[[Y:.+]] = moe.grouped_matmul %[[A]], %arg3 :
  // CHECK-NEXT: %[[BIASED_Y:.+]] = moe.bias_add %[[Y]], %arg5 :
  // CHECK-NEXT: %[[ROUTED:.+]] = moe.combine %[[BIASED_Y]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // CHECK-NEXT: %[[SHARED_H:.+]] = moe.matmul %arg0, %arg6 :
  // CHECK-NEXT: %[[SHARED_A:.+]] = moe.activation %[[SHARED_H]] {kind = #moe<activation gelu>}
  // CHECK-NEXT: %[[SHARED:.+]] = moe.matmul %[[SHARED_A]], %arg7 :
  // CHECK-NEXT: %[[OUT:.+]] = moe.add %[[ROUTED]], %[[SHARED]] :
  // CHECK-NEXT: return %[[OUT]], %[[AUX]] :
  func.func @capacity(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b1: tensor<4x16xf32>, %b2: tensor<4x8xf32>, %s1: tensor<8x8xf32>, %s2: tensor<8x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2, %b1, %b2) shared(%s1, %s2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>, tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Dropless form.
  // CHECK-LABEL: func.func @dropless(
  // CHECK:      %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], %[[COUNTS:counts[0-9_]*]], %[[AUX:aux[0-9_]*]] = moe.route %{{.+}} : (
  // CHECK-NEXT: %[[ROWS:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[ROWS]], %arg2 counts(%[[COUNTS]]) :
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[H]] counts(%[[COUNTS]])
  // CHECK-NEXT: %[[Y:.+]] = moe.grouped_matmul %[[A]], %arg3 counts(%[[COUNTS]]) :
  // CHECK-NEXT: %[[OUT:.+]] = moe.combine %[[Y]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // CHECK-NEXT: return %[[OUT]], %[[AUX]] :
  func.func @dropless(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}
