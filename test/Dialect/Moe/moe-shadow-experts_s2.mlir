// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 4, expert_flops = 1024.0, expert_bytes = 64.0, node_link_bytes = 256.0, broadcast_bytes = 1024.0>'},moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-shadow-experts{max=3},moe-verify-spmd),canonicalize,cse)" \
// RUN:   | FileCheck %s

// Behind Parm's S2 the members of esp exchange the shadows' rows among themselves, each giving every other all that it has, since each
// holds a part of each shadow. A rank has a half of each sorted row list: its times are of half a row, and which half is not known,
// so that no room is told, nor is any saved.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // A row is 32 bytes and 256 FLOPs of its two products with 8 columns on this rank; both holders send it to another node. A rank has
  // 512 bytes of an expert.
  // CHECK-LABEL: func.func @s2(
  // CHECK:         [[SHADOWS:%[a-z0-9_]+]] = moe.choose_shadows
  // CHECK-SAME:      {expert = 5.000000e-01 : f64, most = 3 : i64, node_workers = 2 : i64, policy = #moe<shadow_policy simulate>,
  // CHECK-SAME:      row_compute = 1.250000e-01 : f64, row_node = 1.250000e-01 : f64, row_send = 2.500000e-01 : f64, workers = 2 : i64}
  // CHECK:         [[OWN:%[a-z0-9_]+]], [[OWN_COUNTS:%[a-z0-9_]+]], [[THEIRS:%[a-z0-9_]+]], [[THEIR_COUNTS:%[a-z0-9_]+]] = moe.divide_choices
  // CHECK-NEXT:    moe.slice_counts [[OWN_COUNTS]] over <"mp", 2, 1> {rows = 16 : i64}
  // CHECK:         moe.all_to_all_v {{.*}} over <"ep_esp", 4, 1> {copies = 2 : i64, direction = #moe<direction to_experts>}
  // CHECK-SAME:      -> tensor<32x8xf32>
  // CHECK:         [[S1:%[a-z0-9_]+]] = moe.broadcast_experts {{.*}}, [[SHADOWS]] over <"ep", 2, 2> : (tensor<4x8x8xf32>, tensor<1x8xi32>) -> tensor<3x8x8xf32>
  // CHECK-NEXT:    [[S2:%[a-z0-9_]+]] = moe.broadcast_experts {{.*}}, [[SHADOWS]] over <"ep", 2, 2> : (tensor<4x8x8xf32>, tensor<1x8xi32>) -> tensor<3x8x8xf32>
  // CHECK-NEXT:    [[D:%[a-z0-9_]+]] = moe.dispatch %{{.*}}, [[THEIRS]]
  // CHECK-NEXT:    [[C:%[a-z0-9_]+]] = moe.slice_counts [[THEIR_COUNTS]] over <"mp", 2, 1> {rows = 16 : i64} : tensor<1x3xi32>
  // CHECK-NEXT:    [[PART:%[a-z0-9_]+]] = moe.slice [[D]] over <"mp", 2, 1> {dim = 0 : i64} : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT:    [[CC:%[a-z0-9_]+]] = moe.dump [[C]] {dim = 1 : i64} : (tensor<1x3xi32>) -> tensor<1x6xi32>
  // CHECK-NEXT:    [[EC:%[a-z0-9_]+]] = moe.all_to_all [[CC]] over <"esp", 2, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-SAME:      : (tensor<1x6xi32>) -> tensor<2x3xi32>
  // CHECK-NEXT:    [[COPIES:%[a-z0-9_]+]] = moe.dump [[PART]] : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:    [[H0:%[a-z0-9_]+]] = moe.all_to_all_v [[COPIES]], [[C]], [[EC]] over <"esp", 2, 1>
  // CHECK-SAME:      {copies = 2 : i64, direction = #moe<direction to_experts>}
  // CHECK-SAME:      : (tensor<16x8xf32>, tensor<1x3xi32>, tensor<2x3xi32>) -> tensor<16x8xf32>
  // CHECK-NEXT:    [[H1:%[a-z0-9_]+]] = moe.grouped_matmul [[H0]], [[S1]] counts([[EC]])
  // CHECK-NEXT:    [[H2:%[a-z0-9_]+]] = moe.activation [[H1]] counts([[EC]])
  // CHECK-NEXT:    [[H3:%[a-z0-9_]+]] = moe.grouped_matmul [[H2]], [[S2]] counts([[EC]])
  // CHECK-NEXT:    [[H4:%[a-z0-9_]+]] = moe.all_to_all_v [[H3]], [[C]], [[EC]] over <"esp", 2, 1>
  // CHECK-SAME:      {copies = 2 : i64, direction = #moe<direction from_experts>}
  // CHECK-NEXT:    [[H5:%[a-z0-9_]+]] = moe.local_reduce [[H4]] : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT:    [[H6:%[a-z0-9_]+]] = moe.all_gather [[H5]] over <"mp", 2, 1> {dim = 0 : i64}
  // CHECK-NEXT:    moe.combine [[H6]], [[THEIRS]]
  func.func @s2(%x: tensor<32x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "s2" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}
