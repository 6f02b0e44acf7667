// RUN: moe-opt %s -split-input-file -verify-diagnostics --pass-pipeline="builtin.module(moe-partition,canonicalize,func.func(moe-exchange-by-node{node-ranks=4}))" -o %t
// RUN: not moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-exchange-by-node))" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,func.func(moe-exchange-by-node{node-ranks=4}))" -o %t 2>&1 | FileCheck %s --check-prefix=SLICES

// RANKS: error: expected node-ranks of at least 1 but got 0

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 8, esp = 1>} {
  func.func @dropless(%x: tensor<64x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<64x8xf32> {
    // expected-warning @+1 {{moe-exchange-by-node leaves this layer as it is: its rows are not as many for each rank; 'once:node' sends rows of such layers by node}}
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// All ranks of the exchange are in one node.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 4, esp = 1>} {
  func.func @node(%x: tensor<64x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<64x8xf32> {
    // expected-warning @+1 {{moe-exchange-by-node leaves this layer as it is: the ranks of its exchange are not several nodes of several ranks each}}
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, capacity_factor = 1.0 : f64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// Nobody exchanges anything.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 1, esp = 1>} {
  func.func @local(%x: tensor<64x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<64x8xf32> {
    // expected-warning @+1 {{moe-exchange-by-node leaves this layer as it is: its rows do not go to its experts and back in one exchange each}}
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, capacity_factor = 1.0 : f64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// The baseline gathers the rows of all slices first. S2 sends them to each.
// SLICES: moe-exchange-by-node leaves this layer as it is: its experts are cut into slices, to each of which its rows are sent
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @slices(%x: tensor<64x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, capacity_factor = 1.0 : f64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
