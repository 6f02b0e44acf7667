// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s1}),canonicalize,cse,func.func(moe-verify-spmd))" -split-input-file \
// RUN:   2> %t.err | FileCheck %s --check-prefix=S1
// RUN: FileCheck %s --check-prefix=S1-SAYS --implicit-check-not="remark: " --implicit-check-not="warning: " < %t.err
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-verify-spmd))" -split-input-file \
// RUN:   2> %t.err | FileCheck %s --check-prefix=S2
// RUN: FileCheck %s --check-prefix=S2-SAYS --implicit-check-not="remark: " --implicit-check-not="warning: " < %t.err

// A capacity that cannot be shared out evenly. S1's parts take more, which changes who is dropped, so it is said. S2 pads the buffer:
// the capacity stays, and who is dropped too.

// T = 20 / 4 = 5: in S1 each of two members takes 3 of its 10 tokens, in S2 the group takes 5 in 6 rows and each member sends 3.
// S1-SAYS: remark: moe-pause-mp: expected a capacity divisible by 2, the members of 'mp', but got 5; each member takes 3
// S1: func.func @odd(
// S1: moe.route {{.*}} {capacity = 3 : i64} : (tensor<10x4xf32>)
// S1: moe.dispatch {{.*}} -> tensor<4x3x8xf32>
// S2-SAYS: remark: moe-pause-mp: expected rows of an expert divisible by 2, the members of 'mp', but got 5; the buffer is padded to 6
// S2: func.func @odd(
// S2: moe.route {{.*}} {capacity = 5 : i64, chunk_rows = 6 : i64} : (tensor<20x4xf32>)
// S2: moe.slice {{.*}} {dim = 1 : i64} : (tensor<4x6x8xf32>) -> tensor<4x3x8xf32>
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 2, esp = 1>} {
  func.func @odd(%x: tensor<20x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<20x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "odd" %x gate(%g) experts(%w1, %w2)
      {top_k = 1 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<20x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<20x8xf32>, tensor<f32>)
    return %y, %aux : tensor<20x8xf32>, tensor<f32>
  }
}

// -----

// T = 20 / 4 = 5 in each of two groups. S1's four members route twice as many groups each as the baseline's two: 8, T1 = 2. In S2
// the 10 rows have to be divisible by four: 12 are.
// S1-SAYS: remark: moe-pause-mp: expected a capacity divisible by 4, the members of 'mp', but got 5; each member takes 2
// S1: func.func @groups(
// S1: moe.route {{.*}} {capacity = 2 : i64, groups = 2 : i64} : (tensor<10x4xf32>)
// S1: moe.dispatch {{.*}} -> tensor<4x4x8xf32>
// S2-SAYS: remark: moe-pause-mp: expected rows of an expert divisible by 4, the members of 'mp', but got 10; the buffer is padded to 12
// S2: func.func @groups(
// S2: moe.route {{.*}} {capacity = 5 : i64, chunk_rows = 12 : i64, groups = 2 : i64} : (tensor<40x4xf32>)
// S2: moe.slice {{.*}} {dim = 1 : i64} : (tensor<4x12x8xf32>) -> tensor<4x3x8xf32>
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 1, mp = 4, ep = 2, esp = 1>} {
  func.func @groups(%x: tensor<40x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<40x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "groups" %x gate(%g) experts(%w1, %w2)
      {top_k = 1 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64, groups = 2 : i64}
      : (tensor<40x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<40x8xf32>, tensor<f32>)
    return %y, %aux : tensor<40x8xf32>, tensor<f32>
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 2, esp = 1>} {
  // T = 5 in each of two groups, one for each member: nothing to pad in S1; in S2 10 rows are divisible by two.
  // S1: func.func @whole_groups(
  // S1: moe.route {{.*}} {capacity = 5 : i64} : (tensor<20x4xf32>)
  // S2: func.func @whole_groups(
  // S2: moe.route {{.*}} {capacity = 5 : i64, groups = 2 : i64} : (tensor<40x4xf32>)
  // S2: moe.slice {{.*}} {dim = 1 : i64} : (tensor<4x10x8xf32>) -> tensor<4x5x8xf32>
  func.func @whole_groups(%x: tensor<40x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<40x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "whole_groups" %x gate(%g) experts(%w1, %w2)
      {top_k = 1 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64, groups = 2 : i64}
      : (tensor<40x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<40x8xf32>, tensor<f32>)
    return %y, %aux : tensor<40x8xf32>, tensor<f32>
  }

  // Without a capacity nothing is dropped. 5 choices of 5 tokens are sent in 6 rows, one of which is empty; S1 cannot share out 5 tokens.
  // S1-SAYS: warning: moe-pause-mp leaves this layer as it is: expected the 5 tokens of a rank to be divisible by 2, the routing groups of all members of 'mp'; s2 has no such limit
  // S1: func.func @dropless(
  // S1: moe.route {{.*}} : (tensor<5x4xf32>)
  // S2: func.func @dropless(
  // S2: moe.slice_counts {{.*}} over <"mp", 2, 1> {rows = 6 : i64}
  // S2: moe.slice {{.*}} {dim = 0 : i64} : (tensor<6x8xf32>) -> tensor<3x8xf32>
  // S2: moe.combine {{.*}} : (tensor<6x8xf32>, tensor<5x1xi32>, tensor<5x1xf32>) -> tensor<5x8xf32>
  func.func @dropless(%x: tensor<5x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<5x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2)
      {top_k = 1 : i64, activation = #moe<activation gelu>}
      : (tensor<5x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<5x8xf32>, tensor<f32>)
    return %y, %aux : tensor<5x8xf32>, tensor<f32>
  }

  // Three groups of 3 tokens are of two members each: 9 tokens, which 6 groups cannot have.
  // S1-SAYS: warning: moe-pause-mp leaves this layer as it is: expected the 9 tokens of a rank to be divisible by 6, the routing groups of all members of 'mp'; s2 has no such limit
  // S1: func.func @three_groups(
  // S1: moe.route {{.*}} {capacity = 1 : i64, groups = 3 : i64} : (tensor<9x4xf32>)
  // S2-SAYS: remark: moe-pause-mp: expected rows of an expert divisible by 2, the members of 'mp', but got 3; the buffer is padded to 4
  // S2: func.func @three_groups(
  // S2: moe.route {{.*}} {capacity = 1 : i64, chunk_rows = 4 : i64, groups = 3 : i64} : (tensor<9x4xf32>)
  func.func @three_groups(%x: tensor<9x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<9x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "three_groups" %x gate(%g) experts(%w1, %w2)
      {top_k = 1 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64, groups = 3 : i64}
      : (tensor<9x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<9x8xf32>, tensor<f32>)
    return %y, %aux : tensor<9x8xf32>, tensor<f32>
  }
}
