// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 2>'},moe-partition,canonicalize,cse,func.func(moe-smart-schedule{group-size=1},moe-differentiate),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s

// In the backward the phases come in reverse order, each its own way back, under its chunk's number. What they bring is added up in one
// buffer, as are the gradients of the experts' weights.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // The forward's phases are 0, 2, 1 and 3.
  // CHECK-LABEL: func.func @backward(
  // CHECK:         %[[B:counts]], %{{[a-z0-9_]+}} = moe.route
  // CHECK:         %[[E0:.+]] = moe.phase {{.*}}phase = 0 : i64
  // CHECK:         %[[E2:.+]] = moe.phase {{.*}}phase = 2 : i64
  // CHECK:         %[[E1:.+]] = moe.phase {{.*}}phase = 1 : i64
  // CHECK:         %[[E3:.+]] = moe.phase {{.*}}phase = 3 : i64
  // CHECK:         moe.combine
  // CHECK-NEXT:    %[[G:.+]] = moe.dispatch %arg4
  // CHECK:         moe.all_to_all_v %[[G]], %[[B]], %[[E3]] over <"ep", 4, 1> {direction = #moe<direction to_experts>, moe.chunk = #moe.chunk<3 of 4>, phase = 3 : i64
  // CHECK:         %[[V3:.+]] = moe.grouped_matmul_wgrad {{.*}} counts(%[[E3]]) {moe.chunk
  // CHECK:         %[[W3:.+]] = moe.grouped_matmul_wgrad {{.*}} counts(%[[E3]]) {moe.chunk
  // CHECK-NEXT:    %[[R3:.+]] = moe.all_to_all_v {{.*}}, %[[B]], %[[E3]] over <"ep", 4, 1> {direction = #moe<direction from_experts>, moe.chunk = #moe.chunk<3 of 4>, phase = 3 : i64
  // CHECK-NEXT:    moe.all_to_all_v %[[G]], %[[B]], %[[E1]] {{.*}}to_experts>, moe.chunk = #moe.chunk<2 of 4>, phase = 1 : i64
  // CHECK:         %[[V1:.+]] = moe.grouped_matmul_wgrad {{.*}} counts(%[[E1]]) addend(%[[V3]])
  // CHECK:         %[[W1:.+]] = moe.grouped_matmul_wgrad {{.*}} counts(%[[E1]]) addend(%[[W3]])
  // CHECK-NEXT:    %[[R1:.+]] = moe.all_to_all_v {{.*}}, %[[E1]] addend(%[[R3]]) {{.*}}from_experts>, moe.chunk = #moe.chunk<2 of 4>, phase = 1 : i64
  // CHECK-NEXT:    moe.all_to_all_v %[[G]], %[[B]], %[[E2]] {{.*}}to_experts>, moe.chunk = #moe.chunk<1 of 4>, phase = 2 : i64
  // CHECK:         %[[V2:.+]] = moe.grouped_matmul_wgrad {{.*}} counts(%[[E2]]) addend(%[[V1]])
  // CHECK:         %[[W2:.+]] = moe.grouped_matmul_wgrad {{.*}} counts(%[[E2]]) addend(%[[W1]])
  // CHECK-NEXT:    %[[R2:.+]] = moe.all_to_all_v {{.*}}, %[[E2]] addend(%[[R1]]) {{.*}}from_experts>, moe.chunk = #moe.chunk<1 of 4>, phase = 2 : i64
  // CHECK-NEXT:    moe.all_to_all_v %[[G]], %[[B]], %[[E0]] {{.*}}to_experts>, moe.chunk = #moe.chunk<0 of 4>, phases = 4 : i64}
  // CHECK:         %[[V0:.+]] = moe.grouped_matmul_wgrad {{.*}} counts(%[[E0]]) addend(%[[V2]])
  // CHECK:         %[[W0:.+]] = moe.grouped_matmul_wgrad {{.*}} counts(%[[E0]]) addend(%[[W2]])
  // CHECK-NEXT:    %[[R0:.+]] = moe.all_to_all_v {{.*}}, %[[E0]] addend(%[[R2]]) {{.*}}from_experts>, moe.chunk = #moe.chunk<0 of 4>, phases = 4 : i64}
  // CHECK-NEXT:    moe.combine %[[R0]]
  // CHECK:         return {{.*}}, %[[W0]], %[[V0]] : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<2x8x16xf32>, tensor<2x16x8xf32>
  func.func @backward(%x: tensor<32x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "backward" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}
