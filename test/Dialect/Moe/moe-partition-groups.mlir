// RUN: moe-opt %s --moe-partition=groups=8 | FileCheck %s

// More routing groups than token shards: each shard routes two groups of eight tokens.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // T = ceil(2 * 1.0 * 8 / 4) = 4 for each group.
  // CHECK-LABEL: func.func @groups(
  // CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}
  // CHECK-SAME:   ) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[W2]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[W1]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[G]] over <"dp", 4, 2> : tensor<8x4xf32>
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[TO_VARYING3]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]],
  // CHECK-SAME:   [[WEIGHTS:%[a-z0-9_]+]], [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.route [[MATMUL]] {capacity = 4 : i64, groups = 2 : i64}
  // CHECK-SAME:   : (tensor<16x4xf32>)
  // CHECK-SAME:   -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // CHECK-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[WEIGHTS]] over <"mp", 2, 1> : tensor<16x2xf32>
  // CHECK-NEXT:   [[TO_VARYING5:%[a-z0-9_]+]] = moe.to_varying [[SLOTS]] over <"mp", 2, 1> : tensor<16x2xi32>
  // CHECK-NEXT:   [[TO_VARYING6:%[a-z0-9_]+]] = moe.to_varying [[X]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING6]], [[TO_VARYING5]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[DISPATCH]] over <"esp", 2, 1> {dim = 1 : i64}
  // CHECK-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
  // CHECK-NEXT:   [[TO_VARYING7:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER]] over <"esp", 2, 1> : tensor<4x16x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[TO_VARYING7]] over <"ep", 2, 2>
  // CHECK-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL]], [[TO_VARYING2]]
  // CHECK-SAME:   : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] {kind = #moe<activation gelu>}
  // CHECK-SAME:   : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]]
  // CHECK-SAME:   : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[GROUPED_MATMUL2]] over <"esp", 2, 1>
  // CHECK-SAME:   : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[ALL_REDUCE]] over <"ep", 2, 2>
  // CHECK-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
  // CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[ALL_TO_ALL2]] over <"esp", 2, 1> {dim = 1 : i64}
  // CHECK-SAME:   : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[SLICE]], [[TO_VARYING5]] weights([[TO_VARYING4]])
  // CHECK-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ASSUME_REPLICATED:%[a-z0-9_]+]] = moe.assume_replicated [[COMBINE]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 2.500000e-01 : f64} : tensor<f32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 4, 2> : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   return [[ASSUME_REPLICATED]], [[ALL_REDUCE2]] : tensor<16x8xf32>, tensor<f32>
  func.func @groups(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) ->
                    (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "groups" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}
