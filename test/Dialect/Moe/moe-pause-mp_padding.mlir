// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s1}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   2>&1 | FileCheck %s --check-prefix=S1 --implicit-check-not=remark
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   2>&1 | FileCheck %s --check-prefix=S2 --implicit-check-not=remark

// A capacity that cannot be shared out evenly is padded; more room changes who is dropped, so it is said.

// T = 5 of 20 tokens: in S1 each of two members takes 3 of 10, in S2 the baseline's group 6.
// S1: moe-pause-mp_padding.mlir:[[#@LINE+7]]:{{[0-9]+}}: remark: moe-pause-mp: expected a capacity divisible by 2, the members of 'mp', but got 5; it is padded to 6
// S1: moe.route {{.*}} {capacity = 3 : i64} : (tensor<10x4xf32>)
// S2: moe-pause-mp_padding.mlir:[[#@LINE+5]]:{{[0-9]+}}: remark: moe-pause-mp: expected rows of an expert divisible by 2, the members of 'mp', but got 5; the capacity is padded to 6
// S2: moe.route {{.*}} {capacity = 6 : i64} : (tensor<20x4xf32>)
// S2: moe.dispatch {{.*}} -> tensor<4x6x8xf32>
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 2, esp = 1>} {
  func.func @odd(%x: tensor<20x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<20x8xf32>, tensor<f32>) { %y, %aux = moe.layer "odd" %x gate(%g) experts(%w1, %w2)
      {top_k = 1 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<20x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<20x8xf32>, tensor<f32>)
    return %y, %aux : tensor<20x8xf32>, tensor<f32>
  }
}
