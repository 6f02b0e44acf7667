// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-shadow-experts,moe-differentiate),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   -split-input-file | FileCheck %s

// The gradients of shadows go to their owners, and what the owner's own rows make is added there, in place.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // CHECK-LABEL: func.func @ep(
  // CHECK-SAME:    [[X:%[a-z0-9_]+]]: tensor<8x8xf32> {{{[^}]*}}}, [[G:%[a-z0-9_]+]]: tensor<8x8xf32> {{{[^}]*}}},
  // CHECK-SAME:    [[W1:%[a-z0-9_]+]]: tensor<2x8x16xf32> {{{[^}]*}}}, [[W2:%[a-z0-9_]+]]: tensor<2x16x8xf32> {{{[^}]*}}},
  // CHECK-SAME:    [[CT:%[a-z0-9_]+]]: tensor<8x8xf32>
  // CHECK:         [[SHADOWS:%[a-z0-9_]+]] = moe.choose_shadows
  // CHECK:         [[OWN:%[a-z0-9_]+]], [[OWN_COUNTS:%[a-z0-9_]+]], [[THEIRS:%[a-z0-9_]+]], [[THEIR_COUNTS:%[a-z0-9_]+]] = moe.divide_choices
  // CHECK:         [[S1:%[a-z0-9_]+]] = moe.broadcast_experts [[W1]], [[SHADOWS]]
  // CHECK-NEXT:    [[S2:%[a-z0-9_]+]] = moe.broadcast_experts [[W2]], [[SHADOWS]]
  // CHECK-NEXT:    [[D:%[a-z0-9_]+]] = moe.dispatch [[X]], [[THEIRS]]
  // CHECK-NEXT:    [[H:%[a-z0-9_]+]] = moe.grouped_matmul [[D]], [[S1]] counts([[THEIR_COUNTS]])
  // CHECK-NEXT:    [[A:%[a-z0-9_]+]] = moe.activation [[H]]
  // CHECK-NEXT:    [[O:%[a-z0-9_]+]] = moe.grouped_matmul [[A]], [[S2]] counts([[THEIR_COUNTS]])
  // The backward of the shadows' way, without exchanges but for the sums of their gradients.
  // CHECK:         [[GO:%[a-z0-9_]+]] = moe.dispatch [[CT]], [[THEIRS]] weights
  // CHECK-NEXT:    [[WEIGHTS0:%[a-z0-9_]+]] = moe.slot_dot [[CT]], [[O]], [[THEIRS]]
  // CHECK-NEXT:    [[GA:%[a-z0-9_]+]] = moe.grouped_matmul [[GO]], [[S2]] counts([[THEIR_COUNTS]]) {transpose_weights}
  // CHECK-NEXT:    [[GS2:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad [[A]], [[GO]] counts([[THEIR_COUNTS]])
  // CHECK-NEXT:    [[GH:%[a-z0-9_]+]] = moe.activation_grad [[H]], [[GA]]
  // CHECK-NEXT:    [[GD:%[a-z0-9_]+]] = moe.grouped_matmul [[GH]], [[S1]] counts([[THEIR_COUNTS]]) {transpose_weights}
  // CHECK-NEXT:    [[GS1:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad [[D]], [[GH]] counts([[THEIR_COUNTS]])
  // CHECK-NEXT:    [[GX:%[a-z0-9_]+]] = moe.combine [[GD]], [[THEIRS]] : (tensor<16x8xf32>, tensor<8x2xi32>) -> tensor<8x8xf32>
  // CHECK-NEXT:    [[R2:%[a-z0-9_]+]] = moe.reduce_experts [[GS2]], [[SHADOWS]] over <"ep", 4, 1>
  // CHECK-SAME:      : (tensor<2x16x8xf32>, tensor<1x8xi32>) -> tensor<2x16x8xf32>
  // CHECK-NEXT:    [[R1:%[a-z0-9_]+]] = moe.reduce_experts [[GS1]], [[SHADOWS]] over <"ep", 4, 1>
  // That of the experts' way starts from these, and the gradients of tokens and of combine weights are sums of both.
  // CHECK-NEXT:    moe.dispatch [[CT]], [[OWN]] weights
  // CHECK-NEXT:    [[WEIGHTS1:%[a-z0-9_]+]] = moe.slot_dot [[CT]], {{.*}}, [[OWN]]
  // CHECK-NEXT:    [[GW:%[a-z0-9_]+]] = moe.add [[WEIGHTS0]], [[WEIGHTS1]] : tensor<8x2xf32>
  // CHECK:         [[GW2:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad {{.*}} addend([[R2]])
  // CHECK:         [[GW1:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad {{.*}} addend([[R1]])
  // CHECK:         [[GXO:%[a-z0-9_]+]] = moe.combine {{.*}}, [[OWN]]
  // CHECK-NEXT:    moe.add [[GX]], [[GXO]] : tensor<8x8xf32>
  // CHECK-NEXT:    moe.route_grad {{.*}} weights([[GW]])
  // CHECK:         return {{.*}}, [[GW1]], [[GW2]] : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<2x8x16xf32>, tensor<2x16x8xf32>
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
  // CHECK:         [[SHADOWS:%[a-z0-9_]+]] = moe.choose_shadows
  // CHECK:         [[R2:%[a-z0-9_]+]] = moe.reduce_experts {{.*}}, [[SHADOWS]] over <"ep", 2, 2> : (tensor<2x8x8xf32>, tensor<1x8xi32>) -> tensor<4x8x8xf32>
  // CHECK-NEXT:    [[R1:%[a-z0-9_]+]] = moe.reduce_experts {{.*}}, [[SHADOWS]] over <"ep", 2, 2> : (tensor<2x8x8xf32>, tensor<1x8xi32>) -> tensor<4x8x8xf32>
  // CHECK:         [[GW2:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad {{.*}} addend([[R2]])
  // CHECK:         [[GW1:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad {{.*}} addend([[R1]])
  // CHECK-DAG:     moe.all_reduce [[GW2]] over <"edp", 2, 4>
  // CHECK-DAG:     moe.all_reduce [[GW1]] over <"edp", 2, 4>
  func.func @esp(%x: tensor<32x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "esp" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}
