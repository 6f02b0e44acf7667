// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-exchange-by-node{node-ranks=4}),func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-exchange-by-node{node-ranks=4},moe-chunk-experts{chunks=2}),func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=CHUNKS

// Eight ranks in two nodes: rows go to the rank in the same place of the other node, and from there to all of the node.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 8, esp = 1>} {
  // CHECK-LABEL: func.func @layer(
  // CHECK:      [[D:%[a-z0-9_]+]] = moe.dispatch {{.*}} -> tensor<8x2x8xf32>
  // CHECK-NEXT: [[N:%[a-z0-9_]+]] = moe.all_to_all [[D]] over <"ep_nodes", 2, 4> {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x2x8xf32>) -> tensor<4x4x8xf32>
  // CHECK-NEXT: [[R:%[a-z0-9_]+]] = moe.all_to_all [[N]] over <"ep_node", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4x8xf32>) -> tensor<1x16x8xf32>
  // CHECK-NEXT: moe.grouped_matmul [[R]]
  // CHECK:      [[B:%[a-z0-9_]+]] = moe.all_to_all {{.*}} over <"ep_node", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: [[C:%[a-z0-9_]+]] = moe.all_to_all [[B]] over <"ep_nodes", 2, 4> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: moe.combine [[C]]

  // CHUNKS-LABEL: func.func @layer(
  // CHUNKS: moe.all_to_all {{.*}} over <"ep_nodes", 2, 4> {{.*}}#moe.chunk<0 of 2>{{.*}} : (tensor<8x1x8xf32>) -> tensor<4x2x8xf32>
  // CHUNKS: moe.all_to_all {{.*}} over <"ep_nodes", 2, 4> {{.*}}#moe.chunk<1 of 2>{{.*}} : (tensor<8x1x8xf32>) -> tensor<4x2x8xf32>
  func.func @layer(%x: tensor<64x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, capacity_factor = 1.0 : f64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
