// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-shadow-experts{policy=prefix shrink=false},moe-verify-spmd),canonicalize,cse)" \
// RUN:   -split-input-file | FileCheck %s

// A quarter of 8 experts, two on each of four ranks, may be shadows. Their choices go from their own dispatch to their own
// combine, without an exchange, and the exchanged counts leave them out.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // CHECK-LABEL: func.func @ep(
  // CHECK-SAME:    [[X:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}, [[G:%[a-z0-9_]+]]: tensor<8x8xf32> {{{[^}]*}}},
  // CHECK-SAME:    [[W1:%[a-z0-9_]+]]: tensor<2x8x16xf32> {{{[^}]*}}}, [[W2:%[a-z0-9_]+]]: tensor<2x16x8xf32> {{{[^}]*}}}
  // CHECK:         [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]], [[COUNTS:%[a-z0-9_]+]],
  // CHECK-SAME:      [[AUX:%[a-z0-9_]+]] = moe.route
  // CHECK-NEXT:    [[ALL:%[a-z0-9_]+]] = moe.all_gather [[COUNTS]] over <"ep_esp", 4, 1> {dim = 0 : i64} : (tensor<1x8xi32>) -> tensor<4x8xi32>
  // CHECK-NEXT:    [[SHADOWS:%[a-z0-9_]+]] = moe.choose_shadows [[ALL]]
  // CHECK-SAME:      {most = 2 : i64, policy = #moe<shadow_policy prefix>, room = 64 : i64, workers = 4 : i64}
  // CHECK-NEXT:    [[OF_RANK:%[a-z0-9_]+]] = moe.to_varying [[SHADOWS]] over <"dp", 4, 1> : tensor<1x8xi32>
  // CHECK-NEXT:    [[OWN:%[a-z0-9_]+]], [[OWN_COUNTS:%[a-z0-9_]+]], [[THEIRS:%[a-z0-9_]+]], [[THEIR_COUNTS:%[a-z0-9_]+]] =
  // CHECK-SAME:      moe.divide_choices [[EXPERTS]], [[OF_RANK]]
  // CHECK-SAME:      -> (tensor<8x2xi32>, tensor<1x8xi32>, tensor<8x2xi32>, tensor<1x2xi32>)
  // CHECK-NEXT:    [[D:%[a-z0-9_]+]] = moe.dispatch [[X]], [[OWN]] : (tensor<8x8xf32>, tensor<8x2xi32>) -> tensor<16x8xf32>
  // CHECK-NEXT:    [[EC:%[a-z0-9_]+]] = moe.all_to_all [[OWN_COUNTS]] over <"ep", 4, 1>
  // CHECK-NEXT:    [[H0:%[a-z0-9_]+]] = moe.all_to_all_v [[D]], [[OWN_COUNTS]], [[EC]] over <"ep", 4, 1>
  // CHECK-SAME:      {direction = #moe<direction to_experts>} : (tensor<16x8xf32>, tensor<1x8xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // CHECK-NEXT:    [[H1:%[a-z0-9_]+]] = moe.grouped_matmul [[H0]], [[W1]] counts([[EC]])
  // CHECK-NEXT:    [[H2:%[a-z0-9_]+]] = moe.activation [[H1]] counts([[EC]]) {kind = #moe<activation relu>}
  // CHECK-NEXT:    [[H3:%[a-z0-9_]+]] = moe.grouped_matmul [[H2]], [[W2]] counts([[EC]])
  // CHECK-NEXT:    [[H4:%[a-z0-9_]+]] = moe.all_to_all_v [[H3]], [[OWN_COUNTS]], [[EC]] over <"ep", 4, 1> {direction = #moe<direction from_experts>}
  // CHECK-NEXT:    [[Y:%[a-z0-9_]+]] = moe.combine [[H4]], [[OWN]] weights([[WEIGHTS]])
  // CHECK-NEXT:    [[S1:%[a-z0-9_]+]] = moe.broadcast_experts [[W1]], [[SHADOWS]] over <"ep", 4, 1>
  // CHECK-SAME:      : (tensor<2x8x16xf32>, tensor<1x8xi32>) -> tensor<2x8x16xf32>
  // CHECK-NEXT:    [[S2:%[a-z0-9_]+]] = moe.broadcast_experts [[W2]], [[SHADOWS]] over <"ep", 4, 1>
  // CHECK-NEXT:    [[SD:%[a-z0-9_]+]] = moe.dispatch [[X]], [[THEIRS]] : (tensor<8x8xf32>, tensor<8x2xi32>) -> tensor<16x8xf32>
  // CHECK-NEXT:    [[SH1:%[a-z0-9_]+]] = moe.grouped_matmul [[SD]], [[S1]] counts([[THEIR_COUNTS]])
  // CHECK-SAME:      : (tensor<16x8xf32>, tensor<2x8x16xf32>, tensor<1x2xi32>) -> tensor<16x16xf32>
  // CHECK-NEXT:    [[SH2:%[a-z0-9_]+]] = moe.activation [[SH1]] counts([[THEIR_COUNTS]]) {kind = #moe<activation relu>}
  // CHECK-NEXT:    [[SH3:%[a-z0-9_]+]] = moe.grouped_matmul [[SH2]], [[S2]] counts([[THEIR_COUNTS]])
  // CHECK-NEXT:    [[SY:%[a-z0-9_]+]] = moe.combine [[SH3]], [[THEIRS]] weights([[WEIGHTS]])
  // CHECK-NEXT:    [[SUM:%[a-z0-9_]+]] = moe.add [[Y]], [[SY]] : tensor<8x8xf32>
  // CHECK-NEXT:    return [[SUM]] : tensor<8x8xf32>
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
  // CHECK:         [[COUNTS:%[a-z0-9_]+]] = moe.to_varying %{{.*}} over <"mp", 2, 1> : tensor<1x8xi32>
  // CHECK-NEXT:    [[ALL:%[a-z0-9_]+]] = moe.all_gather [[COUNTS]] over <"ep_esp", 4, 1> {dim = 0 : i64} : (tensor<1x8xi32>) -> tensor<4x8xi32>
  // CHECK-NEXT:    [[SHADOWS:%[a-z0-9_]+]] = moe.choose_shadows [[ALL]]
  // CHECK-SAME:      {most = 2 : i64, policy = #moe<shadow_policy prefix>, room = 64 : i64, workers = 2 : i64}
  // CHECK-NEXT:    [[OF_RANK:%[a-z0-9_]+]] = moe.to_varying [[SHADOWS]] over <"ep", 2, 2> : tensor<1x8xi32>
  // CHECK-NEXT:    [[OWN:%[a-z0-9_]+]], [[OWN_COUNTS:%[a-z0-9_]+]], [[THEIRS:%[a-z0-9_]+]], [[THEIR_COUNTS:%[a-z0-9_]+]] =
  // CHECK-SAME:      moe.divide_choices %{{.*}}, [[OF_RANK]]
  // CHECK:         moe.all_to_all_v {{.*}} over <"ep", 2, 2> {direction = #moe<direction to_experts>}
  // CHECK-SAME:      : (tensor<32x8xf32>, tensor<2x8xi32>, tensor<4x4xi32>) -> tensor<64x8xf32>
  // CHECK:         [[Y:%[a-z0-9_]+]] = moe.combine
  // CHECK:         [[S1:%[a-z0-9_]+]] = moe.broadcast_experts {{.*}}, [[SHADOWS]] over <"ep", 2, 2> : (tensor<4x8x8xf32>, tensor<1x8xi32>) -> tensor<2x8x8xf32>
  // CHECK-NEXT:    [[S2:%[a-z0-9_]+]] = moe.broadcast_experts {{.*}}, [[SHADOWS]] over <"ep", 2, 2> : (tensor<4x8x8xf32>, tensor<1x8xi32>) -> tensor<2x8x8xf32>
  // CHECK-NEXT:    [[D:%[a-z0-9_]+]] = moe.dispatch
  // CHECK:         [[GATHERED:%[a-z0-9_]+]] = moe.all_gather [[D]] over <"esp", 2, 1> {dim = 0 : i64} : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // CHECK-NEXT:    [[ROWS:%[a-z0-9_]+]] = moe.to_varying [[GATHERED]] over <"esp", 2, 1>
  // CHECK-NEXT:    [[C:%[a-z0-9_]+]] = moe.all_gather %{{.*}} over <"esp", 2, 1> {dim = 0 : i64} : (tensor<1x2xi32>) -> tensor<2x2xi32>
  // CHECK-NEXT:    [[VC:%[a-z0-9_]+]] = moe.to_varying [[C]] over <"mp", 2, 1>
  // CHECK-NEXT:    [[H0:%[a-z0-9_]+]] = moe.all_to_all_v [[ROWS]], [[VC]], [[VC]] over <"self", 1, 1> {direction = #moe<direction to_experts>}
  // CHECK-SAME:      : (tensor<32x8xf32>, tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:    [[H1:%[a-z0-9_]+]] = moe.grouped_matmul [[H0]], [[S1]] counts([[VC]])
  // CHECK-NEXT:    [[H2:%[a-z0-9_]+]] = moe.activation [[H1]] counts([[VC]])
  // CHECK-NEXT:    [[H3:%[a-z0-9_]+]] = moe.grouped_matmul [[H2]], [[S2]] counts([[VC]])
  // CHECK-NEXT:    [[H4:%[a-z0-9_]+]] = moe.all_reduce [[H3]] counts([[C]]) over <"esp", 2, 1>
  // CHECK-NEXT:    [[H5:%[a-z0-9_]+]] = moe.all_to_all_v [[H4]], [[C]], [[C]] over <"self", 1, 1> {direction = #moe<direction from_experts>}
  // CHECK-NEXT:    [[H6:%[a-z0-9_]+]] = moe.slice [[H5]] over <"esp", 2, 1> {dim = 0 : i64} : (tensor<32x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:    [[SY:%[a-z0-9_]+]] = moe.combine [[H6]]
  // CHECK-NEXT:    [[SUM:%[a-z0-9_]+]] = moe.add [[Y]], [[SY]] : tensor<8x8xf32>
  // CHECK-NEXT:    moe.assume_replicated [[SUM]] over <"mp", 2, 1>
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
  // CHECK:         [[FIRST:%[a-z0-9_]+]] = moe.choose_shadows {{.*}}most = 1 : i64
  // CHECK-DAG:     [[B1:%[a-z0-9_]+]] = moe.broadcast_experts {{.*}}, [[FIRST]] over <"ep", 2, 1> : (tensor<2x16xf32>, tensor<1x4xi32>) -> tensor<1x16xf32>
  // CHECK-DAG:     [[B2:%[a-z0-9_]+]] = moe.broadcast_experts {{.*}}, [[FIRST]] over <"ep", 2, 1> : (tensor<2x8xf32>, tensor<1x4xi32>) -> tensor<1x8xf32>
  // CHECK:         moe.bias_add {{.*}}, [[B1]] counts
  // CHECK:         moe.bias_add {{.*}}, [[B2]] counts
  // CHECK:         [[SECOND:%[a-z0-9_]+]] = moe.choose_shadows
  // CHECK-COUNT-2: moe.broadcast_experts {{.*}}, [[SECOND]] over
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
