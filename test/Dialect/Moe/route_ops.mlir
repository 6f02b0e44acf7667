// RUN: moe-opt %s --verify-roundtrip | FileCheck %s

// Routing in the capacity form, with every attribute, and dropless, with none.

// The defaults are softmax scores, one group of experts, one of tokens, and no capacity.
// CHECK-LABEL: func.func @route_dropless(
// CHECK-NEXT: moe.route %arg0 :
func.func @route_dropless(%l: tensor<16x4xf64>) -> tensor<16x2xf64> {
  %scores, %experts, %slots, %weights, %counts, %aux = moe.route %l
    : (tensor<16x4xf64>)
    -> (tensor<16x4xf64>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf64>, tensor<1x4xi32>, tensor<f64>)
  return %weights : tensor<16x2xf64>
}

// Deep-seek's routing: sigmoid scores, a selection bias, the best groups of experts, renormalised and scaled weights.
// CHECK-LABEL: func.func @route_grouped(
// CHECK-NEXT: moe.route %arg0 selection_bias(%arg1) {capacity = 8 : i64, expert_groups = 4 : i64, group_score = #moe<group_score top2>, groups = 2 : i64, renormalize, routing_scale = 2.500000e+00 : f64, score = #moe<score sigmoid>, top_groups = 2 : i64}
func.func @route_grouped(%l: tensor<16x8xf64>, %b: tensor<8xf64>) -> tensor<16x4xi32> {
  %scores, %experts, %slots, %weights, %counts, %aux = moe.route %l selection_bias(%b)
    {score = #moe<score sigmoid>, renormalize, routing_scale = 2.500000e+00 : f64, expert_groups = 4 : i64,
     top_groups = 2 : i64, group_score = #moe<group_score top2>, capacity = 8 : i64, groups = 2 : i64}
    : (tensor<16x8xf64>, tensor<8xf64>)
    -> (tensor<16x8xf64>, tensor<16x4xi32>, tensor<16x4xi32>, tensor<16x4xf64>, tensor<1x8xi32>, tensor<f64>)
  return %slots : tensor<16x4xi32>
}

// The gradient of the logits from that of the weights, of the loss, or of both.
// CHECK-LABEL: func.func @route_grad(
// CHECK-NEXT: moe.route_grad %arg0, %arg1 weights(%arg2) {renormalize}
// CHECK-NEXT: moe.route_grad %arg0, %arg1 aux(%arg3) {groups = 2 : i64}
// CHECK-NEXT: moe.route_grad %arg0, %arg1 weights(%arg2) aux(%arg3) {routing_scale = 2.000000e+00 : f64, score = #moe<score sigmoid>}
func.func @route_grad(%s: tensor<16x4xf64>, %e: tensor<16x2xi32>, %w: tensor<16x2xf64>, %a: tensor<f64>)
    -> (tensor<16x4xf64>, tensor<16x4xf64>, tensor<16x4xf64>) {
  %0 = moe.route_grad %s, %e weights(%w) {renormalize} : (tensor<16x4xf64>, tensor<16x2xi32>, tensor<16x2xf64>) -> tensor<16x4xf64>
  %1 = moe.route_grad %s, %e aux(%a) {groups = 2 : i64} : (tensor<16x4xf64>, tensor<16x2xi32>, tensor<f64>) -> tensor<16x4xf64>
  %2 = moe.route_grad %s, %e weights(%w) aux(%a) {score = #moe<score sigmoid>, routing_scale = 2.000000e+00 : f64}
    : (tensor<16x4xf64>, tensor<16x2xi32>, tensor<16x2xf64>, tensor<f64>) -> tensor<16x4xf64>
  return %0, %1, %2 : tensor<16x4xf64>, tensor<16x4xf64>, tensor<16x4xf64>
}

// Tokens to rows and back in the capacity form; the gradient of the weights.
// CHECK-LABEL: func.func @capacity(
// CHECK-NEXT: %[[DISPATCH:.+]] = moe.dispatch %arg0, %arg1 :
// CHECK-NEXT: %[[COMBINE:.+]] = moe.combine %[[DISPATCH]], %arg1 weights(%arg2) :
// CHECK-NEXT: moe.slot_dot %[[COMBINE]], %[[DISPATCH]], %arg1 :
func.func @capacity(%x: tensor<16x8xf64>, %s: tensor<16x2xi32>, %w: tensor<16x2xf64>) -> (tensor<16x8xf64>, tensor<16x2xf64>) {
  %0 = moe.dispatch %x, %s : (tensor<16x8xf64>, tensor<16x2xi32>) -> tensor<4x8x8xf64>
  %1 = moe.combine %0, %s weights(%w) : (tensor<4x8x8xf64>, tensor<16x2xi32>, tensor<16x2xf64>) -> tensor<16x8xf64>
  %2 = moe.slot_dot %1, %0, %s : (tensor<16x8xf64>, tensor<4x8x8xf64>, tensor<16x2xi32>) -> tensor<16x2xf64>
  return %1, %2 : tensor<16x8xf64>, tensor<16x2xf64>
}

// The same with rows sorted by expert, weighted on the way there; weights of 16-bit rows are f32.
// CHECK-LABEL: func.func @ragged(
// CHECK-NEXT: %[[DISPATCH:.+]] = moe.dispatch %arg0, %arg1 weights(%arg2) :
// CHECK-NEXT: %[[COMBINE:.+]] = moe.combine %[[DISPATCH]], %arg1 :
// CHECK-NEXT: moe.slot_dot %[[COMBINE]], %[[DISPATCH]], %arg1 :
func.func @ragged(%x: tensor<16x8xbf16>, %s: tensor<16x2xi32>, %w: tensor<16x2xf32>) -> (tensor<16x8xbf16>, tensor<16x2xf32>) {
  %0 = moe.dispatch %x, %s weights(%w) : (tensor<16x8xbf16>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<32x8xbf16>
  %1 = moe.combine %0, %s : (tensor<32x8xbf16>, tensor<16x2xi32>) -> tensor<16x8xbf16>
  %2 = moe.slot_dot %1, %0, %s : (tensor<16x8xbf16>, tensor<32x8xbf16>, tensor<16x2xi32>) -> tensor<16x2xf32>
  return %1, %2 : tensor<16x8xbf16>, tensor<16x2xf32>
}

// The rows of chunks one after the other, with a capacity and dropless. With a capacity there may be more rows than choices.
// CHECK-LABEL: func.func @route_chunks(
// CHECK: moe.route %{{.*}} {capacity = 6 : i64, chunks = 4 : i64, groups = 2 : i64} {{.*}}tensor<4x4xi32>
// CHECK: moe.route %{{.*}} {chunk_rows = 12 : i64, chunks = 3 : i64} {{.*}}tensor<3x4xi32>
// CHECK: moe.route %{{.*}} {capacity = 5 : i64, chunk_rows = 4 : i64, chunks = 3 : i64, groups = 2 : i64} {{.*}}tensor<3x4xi32>
func.func @route_chunks(%l: tensor<16x4xf32>) -> (tensor<4x4xi32>, tensor<3x4xi32>, tensor<3x4xi32>) {
  %0:6 = moe.route %l {capacity = 6 : i64, groups = 2 : i64, chunks = 4 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<4x4xi32>, tensor<f32>)
  %1:6 = moe.route %l {chunks = 3 : i64, chunk_rows = 12 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<3x4xi32>, tensor<f32>)
  %2:6 = moe.route %l {capacity = 5 : i64, groups = 2 : i64, chunks = 3 : i64, chunk_rows = 4 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<3x4xi32>, tensor<f32>)
  return %0#4, %1#4, %2#4 : tensor<4x4xi32>, tensor<3x4xi32>, tensor<3x4xi32>
}

// FasterMoE's gate: of each block of 8 tokens 3 leave their node's experts, of which there are two blocks. Without a limit homes say
// nothing, and none may leave.
// CHECK-LABEL: func.func @route_homes(
// CHECK: moe.route %{{.*}} {groups = 2 : i64, home_span = 2 : i64, home_stride = 4 : i64, homes = 2 : i64, leave = 3 : i64}
// CHECK: moe.route %{{.*}} {capacity = 4 : i64, homes = 4 : i64, leave = 0 : i64}
// CHECK: moe.route %{{.*}} : (tensor<16x4xf32>)
func.func @route_homes(%l: tensor<16x4xf32>) {
  %0:6 = moe.route %l {groups = 2 : i64, leave = 3 : i64, homes = 2 : i64, home_stride = 4 : i64, home_span = 2 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  %1:6 = moe.route %l {capacity = 4 : i64, leave = 0 : i64, homes = 4 : i64, home_stride = 1 : i64, home_span = 1 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x1xi32>, tensor<16x1xi32>, tensor<16x1xf32>, tensor<1x4xi32>, tensor<f32>)
  %2:6 = moe.route %l {leave = -1 : i64, homes = 1 : i64, home_stride = 1 : i64, home_span = 1 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}
