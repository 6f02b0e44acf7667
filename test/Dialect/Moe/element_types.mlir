// RUN: moe-opt %s | moe-opt | FileCheck %s
// RUN: moe-opt %s --canonicalize | FileCheck %s --check-prefix=FOLD

// Beside rows of bf16, weights of choices and their gradients are f32.
// CHECK-LABEL: func.func @choices(
// CHECK: moe.dispatch {{.*}} : (tensor<16x8xbf16>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<32x8xbf16>
// CHECK: moe.combine {{.*}} : (tensor<32x8xbf16>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xbf16>
// CHECK: moe.slot_dot {{.*}} : (tensor<16x8xbf16>, tensor<32x8xbf16>, tensor<16x2xi32>) -> tensor<16x2xf32>
func.func @choices(%x: tensor<16x8xbf16>, %s: tensor<16x2xi32>, %w: tensor<16x2xf32>) -> tensor<16x2xf32> {
  %0 = moe.dispatch %x, %s weights(%w) : (tensor<16x8xbf16>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<32x8xbf16>
  %1 = moe.combine %0, %s weights(%w) : (tensor<32x8xbf16>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xbf16>
  %2 = moe.slot_dot %1, %0, %s : (tensor<16x8xbf16>, tensor<32x8xbf16>, tensor<16x2xi32>) -> tensor<16x2xf32>
  return %2 : tensor<16x2xf32>
}

// Beside rows of f16, their products and factors are.
// CHECK-LABEL: func.func @rows(
// CHECK: moe.row_dot {{.*}} : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x1xf32>
// CHECK: moe.row_scale {{.*}} : tensor<4x8xf16>, tensor<4x1xf32>
func.func @rows(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %0 = moe.row_dot %x, %x : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x1xf32>
  %1 = moe.row_scale %x, %0 : tensor<4x8xf16>, tensor<4x1xf32>
  return %1 : tensor<4x8xf16>
}

// So is all of a loss behind the logits.
// CHECK-LABEL: func.func @loss(
// CHECK: moe.pick {{.*}} : (tensor<8x16xf16>, tensor<8xi32>) -> tensor<8x1xf32>
// CHECK: moe.row_logsumexp {{.*}} : (tensor<8x16xf16>) -> tensor<8x1xf32>
// CHECK: moe.row_logsumexp_grad {{.*}} : (tensor<8x16xf16>, tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x16xf16>
// CHECK: moe.pick_grad {{.*}} addend({{.*}}) : (tensor<8xi32>, tensor<8x1xf32>, tensor<8x16xf16>) -> tensor<8x16xf16>
func.func @loss(%x: tensor<8x16xf16>, %labels: tensor<8xi32>) -> tensor<8x16xf16> {
  %0 = moe.pick %x, %labels : (tensor<8x16xf16>, tensor<8xi32>) -> tensor<8x1xf32>
  %1 = moe.row_logsumexp %x : (tensor<8x16xf16>) -> tensor<8x1xf32>
  %2 = moe.row_logsumexp_grad %x, %1, %0 : (tensor<8x16xf16>, tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x16xf16>
  %3 = moe.pick_grad %labels, %0 addend(%2) : (tensor<8xi32>, tensor<8x1xf32>, tensor<8x16xf16>) -> tensor<8x16xf16>
  return %3 : tensor<8x16xf16>
}

// And attention's logarithms.
// CHECK-LABEL: func.func @attention(
// CHECK: -> (tensor<8x16xbf16>, tensor<8x4xf32>)
// CHECK: moe.attention_sinks_grad {{.*}} : (tensor<4xbf16>, tensor<8x4xf32>, tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<4xbf16>
func.func @attention(%x: tensor<8x16xbf16>, %sinks: tensor<4xbf16>) -> tensor<4xbf16> {
  %y, %lse = moe.attention %x, %x, %x sinks(%sinks)
    {q_length = 4 : i64, k_length = 4 : i64, heads = 4 : i64, k_heads = 4 : i64, scale = 5.0e-1 : f64}
    : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<4xbf16>) -> (tensor<8x16xbf16>, tensor<8x4xf32>)
  %0 = moe.attention_sinks_grad %sinks, %lse, %y, %y
    : (tensor<4xbf16>, tensor<8x4xf32>, tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// A cast to the type that is there is none; one that rounds stays.
// FOLD-LABEL: func.func @casts(
// FOLD-SAME: %[[X:.+]]: tensor<4xf32>
// FOLD-NEXT: %[[ROUNDED:.+]] = moe.cast %[[X]] : (tensor<4xf32>) -> tensor<4xf16>
// FOLD-NEXT: %[[BACK:.+]] = moe.cast %[[ROUNDED]] : (tensor<4xf16>) -> tensor<4xf32>
// FOLD-NEXT: return %[[BACK]]
func.func @casts(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = moe.cast %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = moe.cast %0 : (tensor<4xf32>) -> tensor<4xf16>
  %2 = moe.cast %1 : (tensor<4xf16>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
