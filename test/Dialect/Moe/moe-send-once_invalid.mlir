// RUN: moe-opt %s -split-input-file -verify-diagnostics --pass-pipeline="builtin.module(moe-partition,func.func(moe-send-once))" -o %t
// RUN: not moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-send-once{node-ranks=-1}))" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,canonicalize,func.func(moe-send-once{node-ranks=3}))" -o %t 2>&1 | FileCheck %s --check-prefix=NODES

// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,canonicalize,func.func(moe-send-once{chunks=5}))" -o %t 2>&1 | FileCheck %s --check-prefix=CHUNKS

// RANKS: error: expected node-ranks of at least 0 and at least one chunk but got -1 and 1
// CHUNKS: moe-send-once leaves this layer as it is: the 16 tokens of a rank are not divisible into 5 chunks

// Rows of a layer with a capacity are not repeated.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  func.func @capacity(%x: tensor<64x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<64x8xf32> {
    // expected-warning @+1 {{moe-send-once leaves this layer as it is: rows of a layer with a capacity are not repeated}}
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 4 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// All experts are on the rank.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 1, esp = 1>} {
  func.func @local(%x: tensor<64x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<64x8xf32> {
    // expected-warning @+1 {{moe-send-once leaves this layer as it is: every rank has all experts}}
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 4 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// Nodes of three ranks do not divide four.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // NODES: moe-send-once leaves this layer as it is: the ranks of its exchange are not several nodes of several ranks each
  func.func @nodes(%x: tensor<64x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 4 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
