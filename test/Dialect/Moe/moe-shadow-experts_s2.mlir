// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 4, expert_flops = 1024.0, expert_bytes = 64.0, node_link_bytes = 256.0, broadcast_bytes = 1024.0>'},moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-shadow-experts{max=3},moe-verify-spmd),canonicalize,cse)" \
// RUN:   | FileCheck %s

// Behind Parm's S2 the members of esp exchange the shadows' rows among themselves, each giving every other all that it has, since each
// holds a part of each shadow. A rank has a half of each sorted row list: its times are of half a row, and which half is not known,
// so that no room is told, nor is any saved.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // A row is 32 bytes and 256 FLOPs of its two products with 8 columns on this rank; both holders send it to another node. A rank has
  // 512 bytes of an expert.
  // CHECK-LABEL: func.func @s2(
  // CHECK:      %[[SHADOWS:.+]] = moe.choose_shadows
  // CHECK-SAME: {expert = 5.000000e-01 : f64, most = 3 : i64, node_workers = 2 : i64, policy = #moe<shadow_policy simulate>,
  // CHECK-SAME: row_compute = 1.250000e-01 : f64, row_node = 1.250000e-01 : f64, row_send = 2.500000e-01 : f64, workers = 2 : i64}
  // CHECK:      %[[OWN:.+]], %[[OWN_COUNTS:.+]], %[[THEIRS:.+]], %[[THEIR_COUNTS:.+]] = moe.divide_choices
  // CHECK-NEXT: moe.slice_counts %[[OWN_COUNTS]] over <"mp", 2, 1> {rows = 16 : i64}
  // CHECK:      moe.all_to_all_v {{.*}} over <"ep_esp", 4, 1> {copies = 2 : i64, direction = #moe<direction to_experts>} : {{.*}} -> tensor<32x8xf32>
  // CHECK:      %[[S1:.+]] = moe.broadcast_experts {{.*}}, %[[SHADOWS]] over <"ep", 2, 2> : {{.*}} -> tensor<3x8x8xf32>
  // CHECK-NEXT: %[[S2:.+]] = moe.broadcast_experts {{.*}}, %[[SHADOWS]] over <"ep", 2, 2> : {{.*}} -> tensor<3x8x8xf32>
  // CHECK-NEXT: %[[D:.+]] = moe.dispatch %{{.*}}, %[[THEIRS]]
  // CHECK-NEXT: %[[C:.+]] = moe.slice_counts %[[THEIR_COUNTS]] over <"mp", 2, 1> {rows = 16 : i64} : tensor<1x3xi32>
  // CHECK-NEXT: %[[PART:.+]] = moe.slice %[[D]] over <"mp", 2, 1> {dim = 0 : i64}
  // CHECK-NEXT: %[[CC:.+]] = moe.dump %[[C]] {dim = 1 : i64}
  // CHECK-NEXT: %[[EC:.+]] = moe.all_to_all %[[CC]] over <"esp", 2, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: %[[COPIES:.+]] = moe.dump %[[PART]] :
  // CHECK-NEXT: %[[X:.+]] = moe.all_to_all_v %[[COPIES]], %[[C]], %[[EC]] over <"esp", 2, 1> {copies = 2 : i64, direction = #moe<direction to_experts>} : {{.*}} -> tensor<16x8xf32>
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[X]], %[[S1]] counts(%[[EC]])
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[H]] counts(%[[EC]])
  // CHECK-NEXT: %[[SHARES:.+]] = moe.grouped_matmul %[[A]], %[[S2]] counts(%[[EC]])
  // CHECK-NEXT: %[[R:.+]] = moe.all_to_all_v %[[SHARES]], %[[C]], %[[EC]] over <"esp", 2, 1> {copies = 2 : i64, direction = #moe<direction from_experts>}
  // CHECK-NEXT: %[[SUM:.+]] = moe.local_reduce %[[R]] :
  // CHECK-NEXT: %[[ROWS:.+]] = moe.all_gather %[[SUM]] over <"mp", 2, 1> {dim = 0 : i64}
  // CHECK-NEXT: moe.combine %[[ROWS]], %[[THEIRS]]
  func.func @s2(%x: tensor<32x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "s2" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}
