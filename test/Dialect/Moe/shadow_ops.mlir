// RUN: moe-opt %s --verify-roundtrip | FileCheck %s

// Shadows are chosen, the choices of tokens divided, and the shadows' weights and gradients exchanged.

// The defaults: workers are their own nodes, no room is known, one phase, and nothing takes time. Two members are one worker.
// CHECK-LABEL: func.func @choose_shadows(
// CHECK-NEXT: moe.choose_shadows %arg0 {most = 2 : i64, policy = #moe<shadow_policy simulate>, workers = 4 : i64}
func.func @choose_shadows(%c: tensor<8x8xi32>) -> tensor<1x8xi32> {
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, node_workers = 1 : i64, most = 2 : i64,
                              room = 0 : i64, phases = 1 : i64, row_compute = 0.0 : f64, start = 0.0 : f64}
    : (tensor<8x8xi32>) -> tensor<1x8xi32>
  return %0 : tensor<1x8xi32>
}

// Every attribute, and each policy. All experts may be shadows, and all of one worker.
// CHECK-LABEL: func.func @choose_shadows_full(
// CHECK-NEXT: moe.choose_shadows %arg0 {expert = 5.000000e-01 : f64, most = 8 : i64, node_workers = 2 : i64, phases = 4 : i64, policy = #moe<shadow_policy algorithm1>, room = 24 : i64, row_compute = 3.125000e-02 : f64, row_local = 1.250000e-01 : f64, row_node = 2.500000e-01 : f64, row_send = 6.250000e-02 : f64, start = 1.000000e+00 : f64, workers = 4 : i64}
// CHECK-NEXT: moe.choose_shadows %arg1 {most = 3 : i64, policy = #moe<shadow_policy prefix>, workers = 1 : i64}
func.func @choose_shadows_full(%c: tensor<4x8xi32>, %one: tensor<1x3xi32>) -> (tensor<1x8xi32>, tensor<1x3xi32>) {
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy algorithm1>, workers = 4 : i64, node_workers = 2 : i64, most = 8 : i64,
                              room = 24 : i64, phases = 4 : i64, row_compute = 0.03125 : f64, row_send = 0.0625 : f64,
                              row_local = 0.125 : f64, row_node = 0.25 : f64, expert = 0.5 : f64, start = 1.0 : f64}
    : (tensor<4x8xi32>) -> tensor<1x8xi32>
  %1 = moe.choose_shadows %one {policy = #moe<shadow_policy prefix>, workers = 1 : i64, most = 3 : i64}
    : (tensor<1x3xi32>) -> tensor<1x3xi32>
  return %0, %1 : tensor<1x8xi32>, tensor<1x3xi32>
}

// The experts' slots in one piece, and in chunks that are larger than they need be; the shadows' are always in one.
// CHECK-LABEL: func.func @divide_choices(
// CHECK-NEXT: moe.divide_choices %arg0, %arg1 :
// CHECK-NEXT: moe.divide_choices %arg0, %arg1 {chunk_rows = 9 : i64, chunks = 3 : i64}
func.func @divide_choices(%e: tensor<10x2xi32>, %s: tensor<1x4xi32>) -> (tensor<10x2xi32>, tensor<1x2xi32>) {
  %0:4 = moe.divide_choices %e, %s {chunks = 1 : i64, chunk_rows = 0 : i64}
    : (tensor<10x2xi32>, tensor<1x4xi32>) -> (tensor<10x2xi32>, tensor<1x4xi32>, tensor<10x2xi32>, tensor<1x2xi32>)
  %1:4 = moe.divide_choices %e, %s {chunks = 3 : i64, chunk_rows = 9 : i64}
    : (tensor<10x2xi32>, tensor<1x4xi32>) -> (tensor<10x2xi32>, tensor<3x4xi32>, tensor<10x2xi32>, tensor<1x1xi32>)
  return %0#0, %0#3 : tensor<10x2xi32>, tensor<1x2xi32>
}

// Weights and biases of two experts on each of four members to three places, and their gradients back, with what the owner has
// already and without.
// CHECK-LABEL: func.func @exchange(
// CHECK-NEXT: %[[WS:.+]] = moe.broadcast_experts %arg0, %arg2 over <"ep", 4, 2> :
// CHECK-NEXT: %[[BS:.+]] = moe.broadcast_experts %arg1, %arg2 over <"ep", 4, 2> :
// CHECK-NEXT: moe.reduce_experts %[[WS]], %arg2 addend(%arg0) over <"ep", 4, 2> :
// CHECK-NEXT: moe.reduce_experts %[[BS]], %arg2 over <"ep", 4, 2> :
func.func @exchange(%w: tensor<2x4x8xf32>, %b: tensor<2x8xbf16>, %s: tensor<1x8xi32>) -> (tensor<2x4x8xf32>, tensor<2x8xbf16>) {
  %0 = moe.broadcast_experts %w, %s over <"ep", 4, 2> : (tensor<2x4x8xf32>, tensor<1x8xi32>) -> tensor<3x4x8xf32>
  %1 = moe.broadcast_experts %b, %s over <"ep", 4, 2> : (tensor<2x8xbf16>, tensor<1x8xi32>) -> tensor<3x8xbf16>
  %2 = moe.reduce_experts %0, %s addend(%w) over <"ep", 4, 2>
    : (tensor<3x4x8xf32>, tensor<1x8xi32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %3 = moe.reduce_experts %1, %s over <"ep", 4, 2> : (tensor<3x8xbf16>, tensor<1x8xi32>) -> tensor<2x8xbf16>
  return %2, %3 : tensor<2x4x8xf32>, tensor<2x8xbf16>
}
