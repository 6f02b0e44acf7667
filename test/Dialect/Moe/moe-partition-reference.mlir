// RUN: moe-opt %s --moe-partition=reference | FileCheck %s
// RUN: moe-opt %s --moe-partition="reference groups=8" | FileCheck %s --check-prefix=GROUPS

// The program of one rank for comparison, routed in the groups of tokens that the partitioned program routes: one for each
// of the four token shards, or as many as asked for. The function gets the world of one rank.
// GROUPS: moe.route {{.*}} {capacity = 4 : i64, groups = 8 : i64}
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // T holds for a group of 16 tokens, so that the same tokens are dropped.
  // CHECK-LABEL: func.func @reference(
  // CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<4x8x16xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<4x16x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}
  // CHECK-SAME:   ) -> (tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32>
  // CHECK-SAME:   {moe.layout = #moe.layout<>}) attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1,
  // CHECK-SAME:   ep = 1, esp = 1>}
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[G]] : (tensor<64x8xf32>, tensor<8x4xf32>) -> tensor<64x4xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]],
  // CHECK-SAME:   [[WEIGHTS:%[a-z0-9_]+]], [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.route [[MATMUL]] {capacity = 8 : i64, groups = 4 : i64}
  // CHECK-SAME:   : (tensor<64x4xf32>)
  // CHECK-SAME:   -> (tensor<64x4xf32>, tensor<64x2xi32>, tensor<64x2xi32>, tensor<64x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[X]] over <"mp", 1, 1> : tensor<64x8xf32>
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING]], [[SLOTS]]
  // CHECK-SAME:   : (tensor<64x8xf32>, tensor<64x2xi32>) -> tensor<4x32x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[DISPATCH]] over <"esp", 1, 1> {dim = 1 : i64}
  // CHECK-SAME:   : (tensor<4x32x8xf32>) -> tensor<4x32x8xf32>
  // CHECK-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER]] over <"esp", 1, 1> : tensor<4x32x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[TO_VARYING2]] over <"ep", 1, 1>
  // CHECK-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x32x8xf32>) -> tensor<4x32x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL]], [[W1]]
  // CHECK-SAME:   : (tensor<4x32x8xf32>, tensor<4x8x16xf32>) -> tensor<4x32x16xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] {kind = #moe<activation gelu>}
  // CHECK-SAME:   : (tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[W2]]
  // CHECK-SAME:   : (tensor<4x32x16xf32>, tensor<4x16x8xf32>) -> tensor<4x32x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[GROUPED_MATMUL2]] over <"esp", 1, 1>
  // CHECK-SAME:   : (tensor<4x32x8xf32>) -> tensor<4x32x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[ALL_REDUCE]] over <"ep", 1, 1>
  // CHECK-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<4x32x8xf32>) -> tensor<4x32x8xf32>
  // CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[ALL_TO_ALL2]] over <"esp", 1, 1> {dim = 1 : i64}
  // CHECK-SAME:   : (tensor<4x32x8xf32>) -> tensor<4x32x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[SLICE]], [[SLOTS]] weights([[WEIGHTS]])
  // CHECK-SAME:   : (tensor<4x32x8xf32>, tensor<64x2xi32>, tensor<64x2xf32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[ASSUME_REPLICATED:%[a-z0-9_]+]] = moe.assume_replicated [[COMBINE]] over <"mp", 1, 1> : tensor<64x8xf32>
  // CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 1.000000e+00 : f64} : tensor<f32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 1, 1> : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   return [[ASSUME_REPLICATED]], [[ALL_REDUCE2]] : tensor<64x8xf32>, tensor<f32>
  func.func @reference(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) ->
                       (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "reference" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}
