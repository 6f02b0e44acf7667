// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 2, node_link_bytes = 1.0e9, link_bytes = 2.0e9>'},moe-partition,canonicalize,cse,func.func(moe-topology-gate,moe-verify-spmd))" \
// RUN:   -split-input-file | FileCheck %s
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 2>'},moe-partition,canonicalize,cse,func.func(moe-topology-gate,moe-verify-spmd))" \
// RUN:   -split-input-file | FileCheck %s --check-prefix=NONE
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 2, node_link_bytes = 1.0e9, link_bytes = 1.0>'},moe-partition,canonicalize,cse,func.func(moe-topology-gate,moe-verify-spmd))" \
// RUN:   -split-input-file | FileCheck %s --check-prefix=ALL

// In one node nobody leaves.
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 8, node_link_bytes = 1.0>'},moe-partition,canonicalize,cse)" -split-input-file -o %t.before
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 8, node_link_bytes = 1.0>'},moe-partition,canonicalize,cse,func.func(moe-topology-gate))" \
// RUN:   -split-input-file -o %t.after
// RUN: diff %t.before %t.after

// Four ranks in two nodes of two, 1 / (2 * 2) of whose 8 tokens leave their node: 2. Without a network none, with one of no end all.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // CHECK-LABEL: func.func @nodes(
  // CHECK:         moe.route {{.*}} {home_stride = 2 : i64, homes = 2 : i64, leave = 2 : i64} : (tensor<8x8xf32>)
  // NONE-LABEL: func.func @nodes(
  // NONE:          moe.route {{.*}} {home_stride = 2 : i64, homes = 2 : i64, leave = 0 : i64} : (tensor<8x8xf32>)
  // ALL-LABEL: func.func @nodes(
  // ALL:           moe.route {{.*}} {home_stride = 2 : i64, homes = 2 : i64, leave = 8 : i64} : (tensor<8x8xf32>)
  func.func @nodes(%x: tensor<32x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "nodes" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}

// -----

// Each of a rank's two routing groups of 20 tokens lets 5 leave, and both are at home in one node; the replicas of the experts,
// ranks 4 to 7, are in nodes of the same experts. A capacity is no hindrance.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // CHECK-LABEL: func.func @groups(
  // CHECK:         moe.route {{.*}} {capacity = 10 : i64, groups = 2 : i64, home_span = 2 : i64, home_stride = 2 : i64, homes = 2 : i64, leave = 5 : i64}
  // CHECK-SAME:      : (tensor<40x4xf32>)
  func.func @groups(%x: tensor<160x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<160x8xf32> {
    %y, %aux = moe.layer "groups" %x gate(%g) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>, groups = 8 : i64, capacity_factor = 2.0 : f64}
      : (tensor<160x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<160x8xf32>, tensor<f32>)
    return %y : tensor<160x8xf32>
  }
}
