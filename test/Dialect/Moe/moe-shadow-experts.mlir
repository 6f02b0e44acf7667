// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-shadow-experts{policy=prefix shrink=false},moe-verify-spmd),canonicalize,cse)" \
// RUN:   -split-input-file | FileCheck %s

// A quarter of 8 experts, two on each of four ranks, may be shadows. Their choices go from their own dispatch to their own
// combine, without an exchange, and the exchanged counts leave them out.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // CHECK-LABEL: func.func @ep(
  // CHECK:      %[[EXPERTS:experts[0-9_]*]], {{.*}}, %[[WEIGHTS:weights[0-9_]*]], %[[COUNTS:counts[0-9_]*]], {{.*}} = moe.route
  // CHECK-NEXT: %[[ALL:.+]] = moe.all_gather %[[COUNTS]] over <"ep_esp", 4, 1> {dim = 0 : i64} : {{.*}} -> tensor<4x8xi32>
  // CHECK-NEXT: %[[SHADOWS:.+]] = moe.choose_shadows %[[ALL]] {most = 2 : i64, policy = #moe<shadow_policy prefix>, room = 64 : i64, workers = 4 : i64}
  // CHECK-NEXT: %[[OF_RANK:.+]] = moe.to_varying %[[SHADOWS]] over <"dp", 4, 1> :
  // CHECK-NEXT: %[[OWN:.+]], %[[OWN_COUNTS:.+]], %[[THEIRS:.+]], %[[THEIR_COUNTS:.+]] = moe.divide_choices %[[EXPERTS]], %[[OF_RANK]] : {{.*}} -> (tensor<8x2xi32>, tensor<1x8xi32>, tensor<8x2xi32>, tensor<1x2xi32>)
  // CHECK-NEXT: %[[D:.+]] = moe.dispatch %arg0, %[[OWN]] :
  // CHECK-NEXT: %[[EC:.+]] = moe.all_to_all %[[OWN_COUNTS]] over <"ep", 4, 1>
  // CHECK-NEXT: %[[H:.+]] = moe.all_to_all_v %[[D]], %[[OWN_COUNTS]], %[[EC]] over <"ep", 4, 1> {direction = #moe<direction to_experts>} : {{.*}} -> tensor<64x8xf32>
  // CHECK-NEXT: moe.grouped_matmul %[[H]], %arg2 counts(%[[EC]])
  // CHECK:      %[[R:.+]] = moe.all_to_all_v %{{.+}}, %[[OWN_COUNTS]], %[[EC]] over <"ep", 4, 1> {direction = #moe<direction from_experts>}
  // CHECK-NEXT: %[[Y:.+]] = moe.combine %[[R]], %[[OWN]] weights(%[[WEIGHTS]])
  // CHECK-NEXT: %[[S1:.+]] = moe.broadcast_experts %arg2, %[[SHADOWS]] over <"ep", 4, 1> : {{.*}} -> tensor<2x8x16xf32>
  // CHECK-NEXT: %[[S2:.+]] = moe.broadcast_experts %arg3, %[[SHADOWS]] over <"ep", 4, 1> :
  // CHECK-NEXT: %[[SD:.+]] = moe.dispatch %arg0, %[[THEIRS]] : {{.*}} -> tensor<16x8xf32>
  // CHECK-NEXT: %[[SH:.+]] = moe.grouped_matmul %[[SD]], %[[S1]] counts(%[[THEIR_COUNTS]])
  // CHECK-NEXT: %[[SA:.+]] = moe.activation %[[SH]] counts(%[[THEIR_COUNTS]])
  // CHECK-NEXT: %[[SR:.+]] = moe.grouped_matmul %[[SA]], %[[S2]] counts(%[[THEIR_COUNTS]])
  // CHECK-NEXT: %[[SY:.+]] = moe.combine %[[SR]], %[[THEIRS]] weights(%[[WEIGHTS]])
  // CHECK-NEXT: %[[SUM:.+]] = moe.add %[[Y]], %[[SY]] :
  // CHECK-NEXT: return %[[SUM]] :
  func.func @ep(%x: tensor<32x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "ep" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}

// -----

// Experts over esp too: its members gather their tokens' rows for shadows as for experts, and add up what they have of each, while
// the exchange over ep becomes the ordering of their blocks on the rank. Two workers have the counts of two ranks each. What is
// chosen is the same on all four ranks, and apart from that of the other four.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // CHECK-LABEL: func.func @esp(
  // CHECK:      %[[COUNTS:.+]] = moe.to_varying %{{.*}} over <"mp", 2, 1> : tensor<1x8xi32>
  // CHECK-NEXT: %[[ALL:.+]] = moe.all_gather %[[COUNTS]] over <"ep_esp", 4, 1> {dim = 0 : i64}
  // CHECK-NEXT: %[[SHADOWS:.+]] = moe.choose_shadows %[[ALL]] {most = 2 : i64, policy = #moe<shadow_policy prefix>, room = 64 : i64, workers = 2 : i64}
  // CHECK-NEXT: %[[OF_RANK:.+]] = moe.to_varying %[[SHADOWS]] over <"ep", 2, 2> :
  // CHECK-NEXT: moe.divide_choices %{{.*}}, %[[OF_RANK]]
  // CHECK:      moe.all_to_all_v {{.*}} over <"ep", 2, 2> {direction = #moe<direction to_experts>} : {{.*}} -> tensor<64x8xf32>
  // CHECK:      %[[Y:.+]] = moe.combine
  // CHECK:      %[[S1:.+]] = moe.broadcast_experts {{.*}}, %[[SHADOWS]] over <"ep", 2, 2> : {{.*}} -> tensor<2x8x8xf32>
  // CHECK-NEXT: %[[S2:.+]] = moe.broadcast_experts {{.*}}, %[[SHADOWS]] over <"ep", 2, 2> : {{.*}} -> tensor<2x8x8xf32>
  // CHECK-NEXT: %[[D:.+]] = moe.dispatch
  // CHECK:      %[[GATHERED:.+]] = moe.all_gather %[[D]] over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK-NEXT: %[[ROWS:.+]] = moe.to_varying %[[GATHERED]] over <"esp", 2, 1>
  // CHECK-NEXT: %[[C:.+]] = moe.all_gather %{{.*}} over <"esp", 2, 1> {dim = 0 : i64} : {{.*}} -> tensor<2x2xi32>
  // CHECK-NEXT: %[[VC:.+]] = moe.to_varying %[[C]] over <"mp", 2, 1>
  // CHECK-NEXT: %[[X:.+]] = moe.all_to_all_v %[[ROWS]], %[[VC]], %[[VC]] over <"self", 1, 1> {direction = #moe<direction to_experts>}
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[X]], %[[S1]] counts(%[[VC]])
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[H]] counts(%[[VC]])
  // CHECK-NEXT: %[[SHARE:.+]] = moe.grouped_matmul %[[A]], %[[S2]] counts(%[[VC]])
  // CHECK-NEXT: %[[SHADOW:.+]] = moe.all_reduce %[[SHARE]] counts(%[[C]]) over <"esp", 2, 1>
  // CHECK-NEXT: %[[R:.+]] = moe.all_to_all_v %[[SHADOW]], %[[C]], %[[C]] over <"self", 1, 1> {direction = #moe<direction from_experts>}
  // CHECK-NEXT: %[[PART:.+]] = moe.slice %[[R]] over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK-NEXT: %[[SY:.+]] = moe.combine %[[PART]]
  // CHECK-NEXT: %[[SUM:.+]] = moe.add %[[Y]], %[[SY]] :
  // CHECK-NEXT: moe.assume_replicated %[[SUM]] over <"mp", 2, 1>
  func.func @esp(%x: tensor<32x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "esp" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}

// -----

// Biases are parameters too, and each layer has shadows of its own.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @biases(
  // CHECK:         %[[FIRST:.+]] = moe.choose_shadows {{.*}}most = 1 : i64
  // CHECK-DAG:     %[[B1:.+]] = moe.broadcast_experts {{.*}}, %[[FIRST]] over <"ep", 2, 1> : (tensor<2x16xf32>, tensor<1x4xi32>) -> tensor<1x16xf32>
  // CHECK-DAG:     %[[B2:.+]] = moe.broadcast_experts {{.*}}, %[[FIRST]] over <"ep", 2, 1> : (tensor<2x8xf32>, tensor<1x4xi32>) -> tensor<1x8xf32>
  // CHECK:         moe.bias_add {{.*}}, %[[B1]] counts
  // CHECK:         moe.bias_add {{.*}}, %[[B2]] counts
  // CHECK:         %[[SECOND:.+]] = moe.choose_shadows
  // CHECK-COUNT-2: moe.broadcast_experts {{.*}}, %[[SECOND]] over
  // CHECK-NOT:     moe.broadcast_experts
  // CHECK:         return
  func.func @biases(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>,
                    %b1: tensor<4x16xf32>, %b2: tensor<4x8xf32>, %v1: tensor<4x8x16xf32>, %v2: tensor<4x16x8xf32>) -> tensor<8x8xf32> {
    %h, %aux = moe.layer "a" %x gate(%g) experts(%w1, %w2, %b1, %b2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<8x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>, tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<f32>)
    %y, %aux2 = moe.layer "b" %h gate(%g) experts(%v1, %v2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<8x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<8x8xf32>, tensor<f32>)
    return %y : tensor<8x8xf32>
  }
}
