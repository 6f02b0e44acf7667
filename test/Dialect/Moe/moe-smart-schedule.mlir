// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 1>'},moe-partition,canonicalize,cse,func.func(moe-smart-schedule{group-size=2},moe-verify-spmd))" \
// RUN:   | FileCheck %s
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 2>'},moe-partition,canonicalize,cse,func.func(moe-smart-schedule{group-size=1 order=ring},moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefixes=FOUR,RING
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 2>'},moe-partition,canonicalize,cse,func.func(moe-smart-schedule{group-size=1},moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefixes=FOUR,TOPOLOGY
// By itself a group is a node, or a fourth of the members inside one.
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 2>'},moe-partition,canonicalize,cse,func.func(moe-smart-schedule,moe-verify-spmd))" \
// RUN:   | FileCheck %s
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 4>'},moe-partition,canonicalize,cse,func.func(moe-smart-schedule{order=ring},moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefixes=FOUR,RING

module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // Two groups of two ranks: each phase has the counts of the two that it receives from, and half the room. The rows that return are
  // put together in one buffer, the other phase's first.
  // CHECK-LABEL: func.func @groups(
  // CHECK:      %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], %[[COUNTS:counts[0-9_]*]], {{.*}} = moe.route
  // CHECK-NEXT: %[[D:.+]] = moe.dispatch
  // CHECK-NEXT: %[[E:.+]] = moe.all_to_all %[[COUNTS]] over <"ep", 4, 1>
  // CHECK-NEXT: %[[E0:.+]] = moe.phase %[[E]] over <"ep", 4, 1> {phase = 0 : i64, phases = 2 : i64} : (tensor<4x2xi32>) -> tensor<2x2xi32>
  // CHECK-NEXT: %[[S0:.+]] = moe.all_to_all_v %[[D]], %[[COUNTS]], %[[E0]] over <"ep", 4, 1> {direction = #moe<direction to_experts>, moe.chunk = #moe.chunk<0 of 2>, phases = 2 : i64} : {{.*}} -> tensor<32x8xf32>
  // CHECK-NEXT: %[[H0:.+]] = moe.grouped_matmul %[[S0]], %arg2 counts(%[[E0]]) {moe.chunk = #moe.chunk<0 of 2>}
  // CHECK-NEXT: %[[A0:.+]] = moe.activation %[[H0]] counts(%[[E0]]) {kind = #moe<activation relu>, moe.chunk = #moe.chunk<0 of 2>}
  // CHECK-NEXT: %[[C0:.+]] = moe.grouped_matmul %[[A0]], %arg3 counts(%[[E0]]) {moe.chunk = #moe.chunk<0 of 2>}
  // CHECK-NEXT: %[[R0:.+]] = moe.all_to_all_v %[[C0]], %[[COUNTS]], %[[E0]] over <"ep", 4, 1> {direction = #moe<direction from_experts>, moe.chunk = #moe.chunk<0 of 2>, phases = 2 : i64}
  // CHECK-NEXT: %[[E1:.+]] = moe.phase %[[E]] over <"ep", 4, 1> {phase = 1 : i64, phases = 2 : i64}
  // CHECK-NEXT: %[[S1:.+]] = moe.all_to_all_v %[[D]], %[[COUNTS]], %[[E1]] over <"ep", 4, 1> {direction = #moe<direction to_experts>, moe.chunk = #moe.chunk<1 of 2>, phase = 1 : i64, phases = 2 : i64}
  // CHECK-NEXT: moe.grouped_matmul %[[S1]], %arg2 counts(%[[E1]]) {moe.chunk = #moe.chunk<1 of 2>}
  // CHECK:      %[[R1:.+]] = moe.all_to_all_v %{{.+}}, %[[COUNTS]], %[[E1]] addend(%[[R0]]) over <"ep", 4, 1> {direction = #moe<direction from_experts>, moe.chunk = #moe.chunk<1 of 2>, phase = 1 : i64, phases = 2 : i64}
  // CHECK-NEXT: moe.combine %[[R1]], %[[SLOTS]] weights(%[[WEIGHTS]])

  // Four groups of one rank each, a phase being the step in which a rank exchanges with the one that is so many further. Ranks 0 and 1
  // are one node, 2 and 3 the other: in phase 1 and 3 half of them exchange with the other node, in phase 2 all. By the topology
  // phase 2 comes behind phase 0, and the other two in the ring's order. The chunks are numbered as they come.
  // FOUR-LABEL:  func.func @groups(
  // FOUR:        [[B:%[a-z0-9_]+]], %{{[a-z0-9_]+}} = moe.route
  // FOUR:        [[D:%[a-z0-9_]+]] = moe.dispatch
  // FOUR-NEXT:   [[E:%[a-z0-9_]+]] = moe.all_to_all [[B]]
  // FOUR-NEXT:   [[E0:%[a-z0-9_]+]] = moe.phase [[E]] {{.*}}phase = 0 : i64, phases = 4 : i64} : (tensor<4x2xi32>) -> tensor<1x2xi32>
  // FOUR-NEXT:   moe.all_to_all_v [[D]], [[B]], [[E0]] {{.*}}to_experts>, moe.chunk = #moe.chunk<0 of 4>, phases = 4 : i64}
  // FOUR-SAME:     : (tensor<16x8xf32>, tensor<1x8xi32>, tensor<1x2xi32>) -> tensor<16x8xf32>
  // FOUR:        [[R0:%[a-z0-9_]+]] = moe.all_to_all_v {{.*}}, [[E0]] over {{.*}}from_experts>, moe.chunk = #moe.chunk<0 of 4>, phases = 4 : i64}
  // RING-NEXT:     [[E1:%[a-z0-9_]+]] = moe.phase [[E]] {{.*}}phase = 1 : i64, phases = 4 : i64}
  // TOPOLOGY-NEXT: [[E1:%[a-z0-9_]+]] = moe.phase [[E]] {{.*}}phase = 2 : i64, phases = 4 : i64}
  // RING:          [[R1:%[a-z0-9_]+]] = moe.all_to_all_v {{.*}}, [[E1]] addend([[R0]]) {{.*}}#moe.chunk<1 of 4>, phase = 1 : i64
  // TOPOLOGY:      [[R1:%[a-z0-9_]+]] = moe.all_to_all_v {{.*}}, [[E1]] addend([[R0]]) {{.*}}#moe.chunk<1 of 4>, phase = 2 : i64
  // RING-NEXT:     [[E2:%[a-z0-9_]+]] = moe.phase [[E]] {{.*}}phase = 2 : i64, phases = 4 : i64}
  // TOPOLOGY-NEXT: [[E2:%[a-z0-9_]+]] = moe.phase [[E]] {{.*}}phase = 1 : i64, phases = 4 : i64}
  // RING:          [[R2:%[a-z0-9_]+]] = moe.all_to_all_v {{.*}}, [[E2]] addend([[R1]]) {{.*}}#moe.chunk<2 of 4>, phase = 2 : i64
  // TOPOLOGY:      [[R2:%[a-z0-9_]+]] = moe.all_to_all_v {{.*}}, [[E2]] addend([[R1]]) {{.*}}#moe.chunk<2 of 4>, phase = 1 : i64
  // FOUR-NEXT:   [[E3:%[a-z0-9_]+]] = moe.phase [[E]] {{.*}}phase = 3 : i64, phases = 4 : i64}
  // FOUR:        [[R3:%[a-z0-9_]+]] = moe.all_to_all_v {{.*}}, [[E3]] addend([[R2]]) {{.*}}#moe.chunk<3 of 4>, phase = 3 : i64
  // FOUR-NEXT:   moe.combine [[R3]]
  func.func @groups(%x: tensor<32x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "groups" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}
