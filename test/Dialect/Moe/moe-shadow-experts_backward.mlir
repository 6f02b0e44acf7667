// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-shadow-experts,moe-differentiate),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   -split-input-file | FileCheck %s

// The gradients of shadows go to their owners, and what the owner's own rows make is added there, in place.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // CHECK-LABEL: func.func @ep(
  // CHECK:      %[[SHADOWS:.+]] = moe.choose_shadows
  // CHECK:      %[[OWN:.+]], %{{.+}}, %[[THEIRS:.+]], %[[THEIR_COUNTS:.+]] = moe.divide_choices
  // CHECK:      %[[S1:.+]] = moe.broadcast_experts %arg2, %[[SHADOWS]]
  // CHECK-NEXT: %[[S2:.+]] = moe.broadcast_experts %arg3, %[[SHADOWS]]
  // CHECK-NEXT: %[[D:.+]] = moe.dispatch %arg0, %[[THEIRS]]
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[D]], %[[S1]] counts(%[[THEIR_COUNTS]])
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[H]]
  // CHECK-NEXT: %[[O:.+]] = moe.grouped_matmul %[[A]], %[[S2]] counts(%[[THEIR_COUNTS]])
  // The backward of the shadows' way, without exchanges but for the sums of their gradients.
  // CHECK:      %[[GO:.+]] = moe.dispatch %arg4, %[[THEIRS]] weights
  // CHECK-NEXT: %[[WEIGHTS:.+]] = moe.slot_dot %arg4, %[[O]], %[[THEIRS]]
  // CHECK-NEXT: %[[GA:.+]] = moe.grouped_matmul %[[GO]], %[[S2]] counts(%[[THEIR_COUNTS]]) {transpose_weights}
  // CHECK-NEXT: %[[GS2:.+]] = moe.grouped_matmul_wgrad %[[A]], %[[GO]] counts(%[[THEIR_COUNTS]])
  // CHECK-NEXT: %[[GH:.+]] = moe.activation_grad %[[H]], %[[GA]]
  // CHECK-NEXT: %[[GD:.+]] = moe.grouped_matmul %[[GH]], %[[S1]] counts(%[[THEIR_COUNTS]]) {transpose_weights}
  // CHECK-NEXT: %[[GS1:.+]] = moe.grouped_matmul_wgrad %[[D]], %[[GH]] counts(%[[THEIR_COUNTS]])
  // CHECK-NEXT: %[[GX:.+]] = moe.combine %[[GD]], %[[THEIRS]] :
  // CHECK-NEXT: %[[R2:.+]] = moe.reduce_experts %[[GS2]], %[[SHADOWS]] over <"ep", 4, 1> :
  // CHECK-NEXT: %[[R1:.+]] = moe.reduce_experts %[[GS1]], %[[SHADOWS]] over <"ep", 4, 1>
  // That of the experts' way starts from these, and the gradients of tokens and of combine weights are sums of both.
  // CHECK-NEXT: moe.dispatch %arg4, %[[OWN]] weights
  // CHECK-NEXT: %[[WEIGHTS2:.+]] = moe.slot_dot %arg4, {{.*}}, %[[OWN]]
  // CHECK-NEXT: %[[GW:.+]] = moe.add %[[WEIGHTS]], %[[WEIGHTS2]] :
  // CHECK:      %[[GW2:.+]] = moe.grouped_matmul_wgrad {{.*}} addend(%[[R2]])
  // CHECK:      %[[GW1:.+]] = moe.grouped_matmul_wgrad {{.*}} addend(%[[R1]])
  // CHECK:      %[[GXO:.+]] = moe.combine {{.*}}, %[[OWN]]
  // CHECK-NEXT: moe.add %[[GX]], %[[GXO]] :
  // CHECK-NEXT: moe.route_grad {{.*}} weights(%[[GW]])
  // CHECK:      return {{.*}}, %[[GW1]], %[[GW2]] :
  func.func @ep(%x: tensor<32x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "ep" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}

// -----

// Over esp each member reduces its part of the shadows; only the sum with the owner's is reduced over the replicas of the expert.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // CHECK-LABEL: func.func @esp(
  // CHECK:      %[[SHADOWS:.+]] = moe.choose_shadows
  // CHECK:      %[[R2:.+]] = moe.reduce_experts {{.*}}, %[[SHADOWS]] over <"ep", 2, 2> :
  // CHECK-NEXT: %[[R1:.+]] = moe.reduce_experts {{.*}}, %[[SHADOWS]] over <"ep", 2, 2> :
  // CHECK:      %[[GW2:.+]] = moe.grouped_matmul_wgrad {{.*}} addend(%[[R2]])
  // CHECK:      %[[GW1:.+]] = moe.grouped_matmul_wgrad {{.*}} addend(%[[R1]])
  // CHECK-DAG:  moe.all_reduce %[[GW2]] over <"edp", 2, 4>
  // CHECK-DAG:  moe.all_reduce %[[GW1]] over <"edp", 2, 4>
  func.func @esp(%x: tensor<32x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "esp" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}
