// RUN: moe-opt %s --split-input-file --moe-partition -verify-diagnostics

// cp divides each sequence.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1, cp = 4>} {
  // expected-error @+1 {{expected sequences that cp = 4 divides but got 6 tokens; choose another cp, or another length with --seq}}
  func.func @length(%x: tensor<12x4xf32>) -> tensor<12x4xf32> {
    %r = moe.rotary %x {period = 6 : i64, head_dim = 4 : i64, rotary_dim = 4 : i64, base = 1.0e4 : f64} : tensor<12x4xf32>
    return %r : tensor<12x4xf32>
  }
}

// -----

// dp divides the sequences.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 1, ep = 1, esp = 1, cp = 2>} {
  // expected-error @+1 {{expected sequences in a multiple of dp = 4 but got 2}}
  func.func @sequences(%x: tensor<16x4xf32>) -> tensor<16x4xf32> {
    %r = moe.rotary %x {period = 8 : i64, head_dim = 4 : i64, rotary_dim = 4 : i64, base = 1.0e4 : f64} : tensor<16x4xf32>
    return %r : tensor<16x4xf32>
  }
}

// -----

// If 2 cp does not divide the sequences, the ranks have different work.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1, cp = 2>} {
  // expected-warning @+1 {{expected sequences that 2 cp = 4 divides, so that all ranks of cp have the same work in attention; the last of them now has the most}}
  func.func @balance(%x: tensor<6x4xf32>) -> tensor<6x4xf32> {
    %y, %lse = moe.attention %x, %x, %x
      {q_length = 6 : i64, k_length = 6 : i64, heads = 1 : i64, k_heads = 1 : i64, causal, scale = 5.0e-1 : f64}
      : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x1xf32>)
    return %y : tensor<6x4xf32>
  }
}

// -----

// Positions of pieces that no rank has whole.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1, cp = 2>} {
  func.func @pieces(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %r = moe.rotary %x {period = 8 : i64, head_dim = 4 : i64, rotary_dim = 4 : i64, base = 1.0e4 : f64} : tensor<8x4xf32>
    // expected-error @+1 {{expected sequences of 8 rows, as other ops have, or pieces that divide 2, the consecutive rows of a rank, but got 4}}
    %s = moe.rotary %r {period = 4 : i64, head_dim = 4 : i64, rotary_dim = 4 : i64, base = 1.0e4 : f64} : tensor<8x4xf32>
    return %s : tensor<8x4xf32>
  }
}
