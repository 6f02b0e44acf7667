// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-sequence-parallel),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --implicit-check-not="= moe.all_" --implicit-check-not="= moe.slice" --implicit-check-not="= moe.reduce"
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-sequence-parallel),canonicalize,cse,func.func(moe-differentiate),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=TRAIN --implicit-check-not="= moe.all_" --implicit-check-not="= moe.slice" --implicit-check-not="= moe.reduce"

// A block behind a column split and a row split: the sum becomes a reduce_scatter, what works row by row is done for the part, and a gather
// stands before the next product alone. The input, which all members have, is sliced. A token's dropout is that of its
// row in the whole: 4 parts of 2 by 2 ranks.

module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 1, esp = 1>} {
  // CHECK-LABEL: func.func @block(
  // CHECK-SAME:    [[X:%[a-z0-9_]+]]: tensor<8x8xf32>
  // CHECK:         [[N:%[a-z0-9_]+]] = moe.norm [[X]], {{.*}} -> tensor<8x8xf32>
  // CHECK:         [[P:%[a-z0-9_]+]] = moe.matmul {{.*}} -> tensor<8x8xf32>
  // CHECK:         [[Q:%[a-z0-9_]+]] = moe.matmul [[P]], {{.*}} -> tensor<8x8xf32>
  // CHECK-NEXT:    [[S:%[a-z0-9_]+]] = moe.reduce_scatter [[Q]] over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT:    [[B:%[a-z0-9_]+]] = moe.bias_add [[S]], {{.*}} -> tensor<4x8xf32>
  // CHECK-NEXT:    [[D:%[a-z0-9_]+]] = moe.dropout [[B]], {{.*}} row_parts = 4 : i64, seed = 7 : i64} : tensor<4x8xf32>, tensor<i32>
  // CHECK-NEXT:    [[O:%[a-z0-9_]+]] = moe.slice [[X]] over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT:    [[R:%[a-z0-9_]+]] = moe.add [[O]], [[D]] : tensor<4x8xf32>
  // CHECK-NEXT:    [[M:%[a-z0-9_]+]] = moe.norm [[R]], {{.*}} -> tensor<4x8xf32>
  // CHECK-NEXT:    [[G:%[a-z0-9_]+]] = moe.all_gather [[M]] over <"mp", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  // CHECK:         moe.matmul {{.*}} -> tensor<8x2xf32>

  // The backward's mirror: a reduce_scatter of what the column split's members found, gathers of what the row split and the input's
  // slice gave. The second gamma and the bias have a part of the tokens on each member of mp, the first gamma all of them.
  // TRAIN-LABEL: func.func @block(
  // TRAIN:         moe.reduce_scatter {{.*}} over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  // TRAIN:         moe.slice {{.*}} -> tensor<4x8xf32>
  // TRAIN:         moe.all_gather {{.*}} over <"mp", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  // TRAIN:         moe.reduce_scatter {{.*}} over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  // TRAIN-COUNT-2: moe.all_gather {{.*}} over <"mp", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  // TRAIN:         moe.all_reduce {{.*}} over <"mp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // TRAIN-NEXT:    moe.norm_grad
  // TRAIN-COUNT-3: moe.all_reduce {{.*}} over <"dp", 2, 2>
  // TRAIN:         [[B2:%[a-z0-9_]+]] = moe.all_reduce {{.*}} over <"mp", 2, 1> : (tensor<8xf32>) -> tensor<8xf32>
  // TRAIN-NEXT:    moe.all_reduce [[B2]] over <"dp", 2, 2>
  // TRAIN-NEXT:    [[G2:%[a-z0-9_]+]] = moe.all_reduce {{.*}} over <"mp", 2, 1> : (tensor<8xf32>) -> tensor<8xf32>
  // TRAIN-NEXT:    moe.all_reduce [[G2]] over <"dp", 2, 2>
  // TRAIN-NEXT:    moe.all_reduce {{.*}} over <"dp", 2, 2> : (tensor<8x2xf32>)
  func.func @block(%x: tensor<16x8xf32>, %step: tensor<i32>, %g: tensor<8xf32>, %w1: tensor<8x16xf32>, %w2: tensor<16x8xf32>,
                   %b: tensor<8xf32>, %g2: tensor<8xf32>, %w3: tensor<8x4xf32>) -> tensor<16x4xf32> {
    %n = moe.norm %x, %g {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<16x8xf32>, tensor<8xf32>) -> tensor<16x8xf32>
    %h = moe.linear %n, %w1 {column = 1 : i64} : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    %o = moe.linear %h, %w2, %b : (tensor<16x16xf32>, tensor<16x8xf32>, tensor<8xf32>) -> tensor<16x8xf32>
    %d = moe.dropout %o, %step {seed = 7 : i64, p = 1.0e-1 : f64} : tensor<16x8xf32>, tensor<i32>
    %r = moe.add %x, %d : tensor<16x8xf32>
    %m = moe.norm %r, %g2 {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<16x8xf32>, tensor<8xf32>) -> tensor<16x8xf32>
    %l = moe.linear %m, %w3 {column = 1 : i64} : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    return %l : tensor<16x4xf32>
  }
}
