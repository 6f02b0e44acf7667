// RUN: moe-opt %s --moe-partition -split-input-file | FileCheck %s

// Parm's baseline, with every kind of group larger than one: mp = esp = ep = edp = 2.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // Capacity form: gate and dispatch on both mp members, ESP-AllGather, EP-AlltoAll, expert shard, ESP-AllReduce,
  // EP-AlltoAll, ESP-Split, combine. T = ceil(2 * 1.0 * 16 / 4) = 8 for the 16 tokens of a shard.
  // CHECK-LABEL: func.func @capacity(
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
  // CHECK-SAME:   moe.route [[MATMUL]] {capacity = 8 : i64}
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
  func.func @capacity(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) ->
                      (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // A bias of the second product counts once among the esp shards' partial sums: scale = 1/esp.
  // CHECK-LABEL: func.func @biases(
  // CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // CHECK-SAME:   [[GB:%[a-z0-9_]+]]: tensor<4xf32> {moe.layout = #moe.layout<[]>},
  // CHECK-SAME:   [[SB:%[a-z0-9_]+]]: tensor<4xf32> {moe.layout = #moe.layout<[]>},
  // CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>},
  // CHECK-SAME:   [[B1:%[a-z0-9_]+]]: tensor<2x8xf32> {moe.layout = #moe.layout<[ep], [esp]>},
  // CHECK-SAME:   [[B2:%[a-z0-9_]+]]: tensor<2x8xf32> {moe.layout = #moe.layout<[ep], []>}
  // CHECK-SAME:   ) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[B2]] over <"mp", 2, 1> : tensor<2x8xf32>
  // CHECK-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[TO_VARYING]] over <"edp", 2, 4> : tensor<2x8xf32>
  // CHECK-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[W2]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[B1]] over <"edp", 2, 4> : tensor<2x8xf32>
  // CHECK-NEXT:   [[TO_VARYING5:%[a-z0-9_]+]] = moe.to_varying [[W1]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING6:%[a-z0-9_]+]] = moe.to_varying [[SB]] over <"dp", 4, 2> : tensor<4xf32>
  // CHECK-NEXT:   [[TO_VARYING7:%[a-z0-9_]+]] = moe.to_varying [[GB]] over <"dp", 4, 2> : tensor<4xf32>
  // CHECK-NEXT:   [[TO_VARYING8:%[a-z0-9_]+]] = moe.to_varying [[G]] over <"dp", 4, 2> : tensor<8x4xf32>
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[TO_VARYING8]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  // CHECK-NEXT:   [[BIAS_ADD:%[a-z0-9_]+]] = moe.bias_add [[MATMUL]], [[TO_VARYING7]]
  // CHECK-SAME:   : (tensor<16x4xf32>, tensor<4xf32>) -> tensor<16x4xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]],
  // CHECK-SAME:   [[WEIGHTS:%[a-z0-9_]+]], [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.route [[BIAS_ADD]] selection_bias([[TO_VARYING6]]) {capacity = 8 : i64}
  // CHECK-SAME:   : (tensor<16x4xf32>, tensor<4xf32>)
  // CHECK-SAME:   -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // CHECK-NEXT:   [[TO_VARYING9:%[a-z0-9_]+]] = moe.to_varying [[WEIGHTS]] over <"mp", 2, 1> : tensor<16x2xf32>
  // CHECK-NEXT:   [[TO_VARYING10:%[a-z0-9_]+]] = moe.to_varying [[SLOTS]] over <"mp", 2, 1> : tensor<16x2xi32>
  // CHECK-NEXT:   [[TO_VARYING11:%[a-z0-9_]+]] = moe.to_varying [[X]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING11]], [[TO_VARYING10]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[DISPATCH]] over <"esp", 2, 1> {dim = 1 : i64}
  // CHECK-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
  // CHECK-NEXT:   [[TO_VARYING12:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER]] over <"esp", 2, 1> : tensor<4x16x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[TO_VARYING12]] over <"ep", 2, 2>
  // CHECK-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL]], [[TO_VARYING5]]
  // CHECK-SAME:   : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[BIAS_ADD2:%[a-z0-9_]+]] = moe.bias_add [[GROUPED_MATMUL]], [[TO_VARYING4]]
  // CHECK-SAME:   : (tensor<2x32x8xf32>, tensor<2x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[BIAS_ADD2]] {kind = #moe<activation relu>}
  // CHECK-SAME:   : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING3]]
  // CHECK-SAME:   : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[BIAS_ADD3:%[a-z0-9_]+]] = moe.bias_add [[GROUPED_MATMUL2]], [[TO_VARYING2]] {scale = 5.000000e-01 : f64}
  // CHECK-SAME:   : (tensor<2x32x8xf32>, tensor<2x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[BIAS_ADD3]] over <"esp", 2, 1>
  // CHECK-SAME:   : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[ALL_REDUCE]] over <"ep", 2, 2>
  // CHECK-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
  // CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[ALL_TO_ALL2]] over <"esp", 2, 1> {dim = 1 : i64}
  // CHECK-SAME:   : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[SLICE]], [[TO_VARYING10]] weights([[TO_VARYING9]])
  // CHECK-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ASSUME_REPLICATED:%[a-z0-9_]+]] = moe.assume_replicated [[COMBINE]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 2.500000e-01 : f64} : tensor<f32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 4, 2> : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   return [[ASSUME_REPLICATED]], [[ALL_REDUCE2]] : tensor<16x8xf32>, tensor<f32>
  func.func @biases(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %gb: tensor<4xf32>, %sb: tensor<4xf32>, %w1:
                    tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b1: tensor<4x16xf32>, %b2: tensor<4x8xf32>) -> (tensor<64x8xf32>,
                    tensor<f32>) {
    %y, %aux = moe.layer "biases" %x gate(%g, %gb) selection_bias(%sb) experts(%w1, %w2, %b1, %b2)
      {top_k = 2 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>, tensor<4x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Dropless: counts travel with the rows, and R is the worst case, ep = 2 members' 64 rows.
  // CHECK-LABEL: func.func @dropless(
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
  // CHECK-SAME:   moe.route [[MATMUL]]
  // CHECK-SAME:   : (tensor<16x4xf32>)
  // CHECK-SAME:   -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // CHECK-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[WEIGHTS]] over <"mp", 2, 1> : tensor<16x2xf32>
  // CHECK-NEXT:   [[TO_VARYING5:%[a-z0-9_]+]] = moe.to_varying [[COUNTS]] over <"mp", 2, 1> : tensor<1x4xi32>
  // CHECK-NEXT:   [[TO_VARYING6:%[a-z0-9_]+]] = moe.to_varying [[SLOTS]] over <"mp", 2, 1> : tensor<16x2xi32>
  // CHECK-NEXT:   [[TO_VARYING7:%[a-z0-9_]+]] = moe.to_varying [[X]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING7]], [[TO_VARYING6]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[DISPATCH]] over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK-SAME:   : (tensor<32x8xf32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[TO_VARYING8:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER]] over <"esp", 2, 1> : tensor<64x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[TO_VARYING5]] over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK-SAME:   : (tensor<1x4xi32>) -> tensor<2x4xi32>
  // CHECK-NEXT:   [[TO_VARYING9:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER2]] over <"mp", 2, 1> : tensor<2x4xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[ALL_GATHER2]] over <"ep", 2, 2>
  // CHECK-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x4xi32>) -> tensor<4x2xi32>
  // CHECK-NEXT:   [[TO_VARYING10:%[a-z0-9_]+]] = moe.to_varying [[ALL_TO_ALL]] over <"mp", 2, 1> : tensor<4x2xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[TO_VARYING8]], [[TO_VARYING9]], [[TO_VARYING10]]
  // CHECK-SAME:   over <"ep", 2, 2> {direction = #moe<direction to_experts>}
  // CHECK-SAME:   : (tensor<64x8xf32>, tensor<2x4xi32>, tensor<4x2xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL_V]],
  // CHECK-SAME:   [[TO_VARYING2]] counts([[TO_VARYING10]])
  // CHECK-SAME:   : (tensor<128x8xf32>, tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] counts([[TO_VARYING10]])
  // CHECK-SAME:   {kind = #moe<activation gelu>} : (tensor<128x8xf32>, tensor<4x2xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]] counts([[TO_VARYING10]])
  // CHECK-SAME:   : (tensor<128x8xf32>, tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[GROUPED_MATMUL2]] counts([[ALL_TO_ALL]]) over <"esp", 2, 1>
  // CHECK-SAME:   : (tensor<128x8xf32>, tensor<4x2xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v [[ALL_REDUCE]], [[ALL_GATHER2]], [[ALL_TO_ALL]]
  // CHECK-SAME:   over <"ep", 2, 2> {direction = #moe<direction from_experts>}
  // CHECK-SAME:   : (tensor<128x8xf32>, tensor<2x4xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[ALL_TO_ALL_V2]] over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK-SAME:   : (tensor<64x8xf32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[SLICE]], [[TO_VARYING6]] weights([[TO_VARYING4]])
  // CHECK-SAME:   : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ASSUME_REPLICATED:%[a-z0-9_]+]] = moe.assume_replicated [[COMBINE]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 2.500000e-01 : f64} : tensor<f32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 4, 2> : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   return [[ASSUME_REPLICATED]], [[ALL_REDUCE2]] : tensor<16x8xf32>, tensor<f32>
  func.func @dropless(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) ->
                      (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Four choices among a rank's two experts: no token sends more than two rows to a member.
  // CHECK-LABEL: func.func @dropless_many_choices(
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
  // CHECK-SAME:   moe.route [[MATMUL]]
  // CHECK-SAME:   : (tensor<16x4xf32>)
  // CHECK-SAME:   -> (tensor<16x4xf32>, tensor<16x4xi32>, tensor<16x4xi32>, tensor<16x4xf32>, tensor<1x4xi32>, tensor<f32>)
  // CHECK-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[WEIGHTS]] over <"mp", 2, 1> : tensor<16x4xf32>
  // CHECK-NEXT:   [[TO_VARYING5:%[a-z0-9_]+]] = moe.to_varying [[COUNTS]] over <"mp", 2, 1> : tensor<1x4xi32>
  // CHECK-NEXT:   [[TO_VARYING6:%[a-z0-9_]+]] = moe.to_varying [[SLOTS]] over <"mp", 2, 1> : tensor<16x4xi32>
  // CHECK-NEXT:   [[TO_VARYING7:%[a-z0-9_]+]] = moe.to_varying [[X]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING7]], [[TO_VARYING6]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x4xi32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[DISPATCH]] over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK-SAME:   : (tensor<64x8xf32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[TO_VARYING8:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER]] over <"esp", 2, 1> : tensor<128x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[TO_VARYING5]] over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK-SAME:   : (tensor<1x4xi32>) -> tensor<2x4xi32>
  // CHECK-NEXT:   [[TO_VARYING9:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER2]] over <"mp", 2, 1> : tensor<2x4xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[ALL_GATHER2]] over <"ep", 2, 2>
  // CHECK-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x4xi32>) -> tensor<4x2xi32>
  // CHECK-NEXT:   [[TO_VARYING10:%[a-z0-9_]+]] = moe.to_varying [[ALL_TO_ALL]] over <"mp", 2, 1> : tensor<4x2xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[TO_VARYING8]], [[TO_VARYING9]], [[TO_VARYING10]]
  // CHECK-SAME:   over <"ep", 2, 2> {direction = #moe<direction to_experts>}
  // CHECK-SAME:   : (tensor<128x8xf32>, tensor<2x4xi32>, tensor<4x2xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL_V]],
  // CHECK-SAME:   [[TO_VARYING2]] counts([[TO_VARYING10]])
  // CHECK-SAME:   : (tensor<128x8xf32>, tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] counts([[TO_VARYING10]])
  // CHECK-SAME:   {kind = #moe<activation gelu>} : (tensor<128x8xf32>, tensor<4x2xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]] counts([[TO_VARYING10]])
  // CHECK-SAME:   : (tensor<128x8xf32>, tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[GROUPED_MATMUL2]] counts([[ALL_TO_ALL]]) over <"esp", 2, 1>
  // CHECK-SAME:   : (tensor<128x8xf32>, tensor<4x2xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v [[ALL_REDUCE]], [[ALL_GATHER2]], [[ALL_TO_ALL]]
  // CHECK-SAME:   over <"ep", 2, 2> {direction = #moe<direction from_experts>}
  // CHECK-SAME:   : (tensor<128x8xf32>, tensor<2x4xi32>, tensor<4x2xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[ALL_TO_ALL_V2]] over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK-SAME:   : (tensor<128x8xf32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[SLICE]], [[TO_VARYING6]] weights([[TO_VARYING4]])
  // CHECK-SAME:   : (tensor<64x8xf32>, tensor<16x4xi32>, tensor<16x4xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ASSUME_REPLICATED:%[a-z0-9_]+]] = moe.assume_replicated [[COMBINE]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 2.500000e-01 : f64} : tensor<f32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 4, 2> : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   return [[ASSUME_REPLICATED]], [[ALL_REDUCE2]] : tensor<16x8xf32>, tensor<f32>
  func.func @dropless_many_choices(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2:
                                   tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless_many_choices" %x gate(%g) experts(%w1, %w2)
      {top_k = 4 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // A bound on the load bounds R: 1.5 times the mean of 64 rows.
  // CHECK-LABEL: func.func @max_load(
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
  // CHECK-SAME:   moe.route [[MATMUL]]
  // CHECK-SAME:   : (tensor<16x4xf32>)
  // CHECK-SAME:   -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // CHECK-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[WEIGHTS]] over <"mp", 2, 1> : tensor<16x2xf32>
  // CHECK-NEXT:   [[TO_VARYING5:%[a-z0-9_]+]] = moe.to_varying [[COUNTS]] over <"mp", 2, 1> : tensor<1x4xi32>
  // CHECK-NEXT:   [[TO_VARYING6:%[a-z0-9_]+]] = moe.to_varying [[SLOTS]] over <"mp", 2, 1> : tensor<16x2xi32>
  // CHECK-NEXT:   [[TO_VARYING7:%[a-z0-9_]+]] = moe.to_varying [[X]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING7]], [[TO_VARYING6]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[DISPATCH]] over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK-SAME:   : (tensor<32x8xf32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[TO_VARYING8:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER]] over <"esp", 2, 1> : tensor<64x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[TO_VARYING5]] over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK-SAME:   : (tensor<1x4xi32>) -> tensor<2x4xi32>
  // CHECK-NEXT:   [[TO_VARYING9:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER2]] over <"mp", 2, 1> : tensor<2x4xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[ALL_GATHER2]] over <"ep", 2, 2>
  // CHECK-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x4xi32>) -> tensor<4x2xi32>
  // CHECK-NEXT:   [[TO_VARYING10:%[a-z0-9_]+]] = moe.to_varying [[ALL_TO_ALL]] over <"mp", 2, 1> : tensor<4x2xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[TO_VARYING8]], [[TO_VARYING9]], [[TO_VARYING10]]
  // CHECK-SAME:   over <"ep", 2, 2> {direction = #moe<direction to_experts>}
  // CHECK-SAME:   : (tensor<64x8xf32>, tensor<2x4xi32>, tensor<4x2xi32>) -> tensor<96x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL_V]],
  // CHECK-SAME:   [[TO_VARYING2]] counts([[TO_VARYING10]])
  // CHECK-SAME:   : (tensor<96x8xf32>, tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<96x8xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] counts([[TO_VARYING10]])
  // CHECK-SAME:   {kind = #moe<activation gelu>} : (tensor<96x8xf32>, tensor<4x2xi32>) -> tensor<96x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]] counts([[TO_VARYING10]])
  // CHECK-SAME:   : (tensor<96x8xf32>, tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<96x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[GROUPED_MATMUL2]] counts([[ALL_TO_ALL]]) over <"esp", 2, 1>
  // CHECK-SAME:   : (tensor<96x8xf32>, tensor<4x2xi32>) -> tensor<96x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v [[ALL_REDUCE]], [[ALL_GATHER2]], [[ALL_TO_ALL]]
  // CHECK-SAME:   over <"ep", 2, 2> {direction = #moe<direction from_experts>}
  // CHECK-SAME:   : (tensor<96x8xf32>, tensor<2x4xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[ALL_TO_ALL_V2]] over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK-SAME:   : (tensor<64x8xf32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[SLICE]], [[TO_VARYING6]] weights([[TO_VARYING4]])
  // CHECK-SAME:   : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ASSUME_REPLICATED:%[a-z0-9_]+]] = moe.assume_replicated [[COMBINE]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 2.500000e-01 : f64} : tensor<f32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 4, 2> : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   return [[ASSUME_REPLICATED]], [[ALL_REDUCE2]] : tensor<16x8xf32>, tensor<f32>
  func.func @max_load(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) ->
                      (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "max_load" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, max_load = 1.5 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // A shared expert is split over mp, inner columns then inner rows, its result summed; its gate is not split.
  // CHECK-LABEL: func.func @shared(
  // CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<2x8x16xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>},
  // CHECK-SAME:   [[S1:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>},
  // CHECK-SAME:   [[S2:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>},
  // CHECK-SAME:   [[SG:%[a-z0-9_]+]]: tensor<8x1xf32> {moe.layout = #moe.layout<[], []>}
  // CHECK-SAME:   ) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[SG]] over <"dp", 4, 2> : tensor<8x1xf32>
  // CHECK-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[S2]] over <"dp", 4, 2> : tensor<4x8xf32>
  // CHECK-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[S1]] over <"dp", 4, 2> : tensor<8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[W2]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING5:%[a-z0-9_]+]] = moe.to_varying [[W1]] over <"edp", 2, 4> : tensor<2x8x16xf32>
  // CHECK-NEXT:   [[TO_VARYING6:%[a-z0-9_]+]] = moe.to_varying [[G]] over <"dp", 4, 2> : tensor<8x4xf32>
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[TO_VARYING6]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]],
  // CHECK-SAME:   [[WEIGHTS:%[a-z0-9_]+]], [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.route [[MATMUL]] {capacity = 8 : i64}
  // CHECK-SAME:   : (tensor<16x4xf32>)
  // CHECK-SAME:   -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // CHECK-NEXT:   [[TO_VARYING7:%[a-z0-9_]+]] = moe.to_varying [[WEIGHTS]] over <"mp", 2, 1> : tensor<16x2xf32>
  // CHECK-NEXT:   [[TO_VARYING8:%[a-z0-9_]+]] = moe.to_varying [[SLOTS]] over <"mp", 2, 1> : tensor<16x2xi32>
  // CHECK-NEXT:   [[TO_VARYING9:%[a-z0-9_]+]] = moe.to_varying [[X]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING9]], [[TO_VARYING8]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[DISPATCH]] over <"esp", 2, 1> {dim = 1 : i64}
  // CHECK-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
  // CHECK-NEXT:   [[TO_VARYING10:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER]] over <"esp", 2, 1> : tensor<4x16x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[TO_VARYING10]] over <"ep", 2, 2>
  // CHECK-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL]], [[TO_VARYING5]]
  // CHECK-SAME:   : (tensor<2x32x8xf32>, tensor<2x8x16xf32>) -> tensor<2x32x16xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] {kind = #moe<activation swiglu>}
  // CHECK-SAME:   : (tensor<2x32x16xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING4]]
  // CHECK-SAME:   : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[GROUPED_MATMUL2]] over <"esp", 2, 1>
  // CHECK-SAME:   : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[ALL_REDUCE]] over <"ep", 2, 2>
  // CHECK-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
  // CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[ALL_TO_ALL2]] over <"esp", 2, 1> {dim = 1 : i64}
  // CHECK-SAME:   : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[SLICE]], [[TO_VARYING8]] weights([[TO_VARYING7]])
  // CHECK-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ASSUME_REPLICATED:%[a-z0-9_]+]] = moe.assume_replicated [[COMBINE]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[MATMUL2:%[a-z0-9_]+]] = moe.matmul [[TO_VARYING9]], [[TO_VARYING3]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ACTIVATION2:%[a-z0-9_]+]] = moe.activation [[MATMUL2]] {kind = #moe<activation swiglu>}
  // CHECK-SAME:   : (tensor<16x8xf32>) -> tensor<16x4xf32>
  // CHECK-NEXT:   [[MATMUL3:%[a-z0-9_]+]] = moe.matmul [[ACTIVATION2]], [[TO_VARYING2]]
  // CHECK-SAME:   : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[MATMUL3]] over <"mp", 2, 1>
  // CHECK-SAME:   : (tensor<16x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[MATMUL4:%[a-z0-9_]+]] = moe.matmul [[X]], [[TO_VARYING]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<8x1xf32>) -> tensor<16x1xf32>
  // CHECK-NEXT:   [[ACTIVATION3:%[a-z0-9_]+]] = moe.activation [[MATMUL4]] {kind = #moe<activation sigmoid>}
  // CHECK-SAME:   : (tensor<16x1xf32>) -> tensor<16x1xf32>
  // CHECK-NEXT:   [[ROW_SCALE:%[a-z0-9_]+]] = moe.row_scale [[ALL_REDUCE2]], [[ACTIVATION3]]
  // CHECK-SAME:   : tensor<16x8xf32>, tensor<16x1xf32>
  // CHECK-NEXT:   [[ADD:%[a-z0-9_]+]] = moe.add [[ASSUME_REPLICATED]], [[ROW_SCALE]] : tensor<16x8xf32>
  // CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 2.500000e-01 : f64} : tensor<f32>
  // CHECK-NEXT:   [[ALL_REDUCE3:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 4, 2> : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   return [[ADD]], [[ALL_REDUCE3]] : tensor<16x8xf32>, tensor<f32>
  func.func @shared(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x32xf32>, %w2: tensor<4x16x8xf32>, %s1:
                    tensor<8x16xf32>, %s2: tensor<8x8xf32>, %sg: tensor<8x1xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "shared" %x gate(%g) experts(%w1, %w2) shared(%s1, %s2, %sg)
      {top_k = 2 : i64, activation = #moe<activation swiglu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x32xf32>, tensor<4x16x8xf32>, tensor<8x16xf32>, tensor<8x8xf32>, tensor<8x1xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Eight groups of tokens are two for each of the four shards; T holds for a group.
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
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64, groups = 8 : i64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}
// -----

module attributes {moe.parallel = #moe.parallel<world = 4096, pp = 1, dp = 1024, mp = 4, ep = 512, esp = 8>} {
  // The program does not grow with the number of ranks.
  // CHECK-LABEL: func.func @large_world(
  // CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x512xf32> {moe.layout = #moe.layout<[], []>},
  // CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<1x8x1xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<1x1x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}
  // CHECK-SAME:   ) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[G]] over <"dp", 1024, 4> : tensor<8x512xf32>
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[TO_VARYING]]
  // CHECK-SAME:   : (tensor<8x8xf32>, tensor<8x512xf32>) -> tensor<8x512xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]],
  // CHECK-SAME:   [[WEIGHTS:%[a-z0-9_]+]], [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.route [[MATMUL]] {capacity = 1 : i64}
  // CHECK-SAME:   : (tensor<8x512xf32>)
  // CHECK-SAME:   -> (tensor<8x512xf32>, tensor<8x2xi32>, tensor<8x2xi32>, tensor<8x2xf32>, tensor<1x512xi32>, tensor<f32>)
  // CHECK-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[WEIGHTS]] over <"mp", 4, 1> : tensor<8x2xf32>
  // CHECK-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[SLOTS]] over <"mp", 4, 1> : tensor<8x2xi32>
  // CHECK-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[X]] over <"mp", 4, 1> : tensor<8x8xf32>
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING4]], [[TO_VARYING3]]
  // CHECK-SAME:   : (tensor<8x8xf32>, tensor<8x2xi32>) -> tensor<512x1x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[DISPATCH]] over <"esp", 8, 1> {dim = 1 : i64}
  // CHECK-SAME:   : (tensor<512x1x8xf32>) -> tensor<512x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING5:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER]] over <"esp", 8, 1> : tensor<512x8x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[TO_VARYING5]] over <"ep", 512, 8>
  // CHECK-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<512x8x8xf32>) -> tensor<1x4096x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL]], [[W1]]
  // CHECK-SAME:   : (tensor<1x4096x8xf32>, tensor<1x8x1xf32>) -> tensor<1x4096x1xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] {kind = #moe<activation gelu>}
  // CHECK-SAME:   : (tensor<1x4096x1xf32>) -> tensor<1x4096x1xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[W2]]
  // CHECK-SAME:   : (tensor<1x4096x1xf32>, tensor<1x1x8xf32>) -> tensor<1x4096x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[GROUPED_MATMUL2]] over <"esp", 8, 1>
  // CHECK-SAME:   : (tensor<1x4096x8xf32>) -> tensor<1x4096x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[ALL_REDUCE]] over <"ep", 512, 8>
  // CHECK-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<1x4096x8xf32>) -> tensor<512x8x8xf32>
  // CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[ALL_TO_ALL2]] over <"esp", 8, 1> {dim = 1 : i64}
  // CHECK-SAME:   : (tensor<512x8x8xf32>) -> tensor<512x1x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[SLICE]], [[TO_VARYING3]] weights([[TO_VARYING2]])
  // CHECK-SAME:   : (tensor<512x1x8xf32>, tensor<8x2xi32>, tensor<8x2xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT:   [[ASSUME_REPLICATED:%[a-z0-9_]+]] = moe.assume_replicated [[COMBINE]] over <"mp", 4, 1> : tensor<8x8xf32>
  // CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 9.765625E-4 : f64} : tensor<f32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 1024, 4> : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   return [[ASSUME_REPLICATED]], [[ALL_REDUCE2]] : tensor<8x8xf32>, tensor<f32>
  func.func @large_world(%x: tensor<8192x8xf32>, %g: tensor<8x512xf32>, %w1: tensor<512x8x8xf32>, %w2: tensor<512x8x8xf32>)
                         -> (tensor<8192x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "large_world" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<8192x8xf32>, tensor<8x512xf32>, tensor<512x8x8xf32>, tensor<512x8x8xf32>) -> (tensor<8192x8xf32>, tensor<f32>)
    return %y, %aux : tensor<8192x8xf32>, tensor<f32>
  }
}
// -----

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 8, esp = 1>} {
  // A chain of layers and sums keeps the tokens over dp. What comes of the logits of 16-bit tokens is f32.
  // CHECK-LABEL: func.func @chain(
  // CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xbf16> {moe.layout = #moe.layout<[dp], []>},
  // CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x8xbf16> {moe.layout = #moe.layout<[], []>},
  // CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<1x8x16xbf16> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<1x16x8xbf16> {moe.layout = #moe.layout<[ep], [esp], []>}
  // CHECK-SAME:   ) -> (tensor<16x8xbf16> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[G]] over <"dp", 4, 2> : tensor<8x8xbf16>
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[TO_VARYING]]
  // CHECK-SAME:   : (tensor<16x8xbf16>, tensor<8x8xbf16>) -> tensor<16x8xbf16>
  // CHECK-NEXT:   [[LOGITS:%[a-z0-9_]+]] = moe.cast [[MATMUL]] : (tensor<16x8xbf16>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]],
  // CHECK-SAME:   [[WEIGHTS:%[a-z0-9_]+]], [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.route [[LOGITS]]
  // CHECK-SAME:   : (tensor<16x8xf32>)
  // CHECK-SAME:   -> (tensor<16x8xf32>, tensor<16x1xi32>, tensor<16x1xi32>, tensor<16x1xf32>, tensor<1x8xi32>, tensor<f32>)
  // CHECK-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[WEIGHTS]] over <"mp", 2, 1> : tensor<16x1xf32>
  // CHECK-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[SLOTS]] over <"mp", 2, 1> : tensor<16x1xi32>
  // CHECK-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[X]] over <"mp", 2, 1> : tensor<16x8xbf16>
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING4]], [[TO_VARYING3]]
  // CHECK-SAME:   : (tensor<16x8xbf16>, tensor<16x1xi32>) -> tensor<16x8xbf16>
  // CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[DISPATCH]] over <"esp", 1, 1> {dim = 0 : i64}
  // CHECK-SAME:   : (tensor<16x8xbf16>) -> tensor<16x8xbf16>
  // CHECK-NEXT:   [[TO_VARYING5:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER]] over <"esp", 1, 1> : tensor<16x8xbf16>
  // CHECK-NEXT:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[COUNTS]] over <"esp", 1, 1> {dim = 0 : i64}
  // CHECK-SAME:   : (tensor<1x8xi32>) -> tensor<1x8xi32>
  // CHECK-NEXT:   [[TO_VARYING6:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER2]] over <"mp", 2, 1> : tensor<1x8xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[TO_VARYING6]] over <"ep", 8, 1>
  // CHECK-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<1x8xi32>) -> tensor<8x1xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[TO_VARYING5]], [[TO_VARYING6]], [[ALL_TO_ALL]]
  // CHECK-SAME:   over <"ep", 8, 1> {direction = #moe<direction to_experts>}
  // CHECK-SAME:   : (tensor<16x8xbf16>, tensor<1x8xi32>, tensor<8x1xi32>) -> tensor<128x8xbf16>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL_V]], [[W1]] counts([[ALL_TO_ALL]])
  // CHECK-SAME:   : (tensor<128x8xbf16>, tensor<1x8x16xbf16>, tensor<8x1xi32>) -> tensor<128x16xbf16>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] counts([[ALL_TO_ALL]])
  // CHECK-SAME:   {kind = #moe<activation silu>} : (tensor<128x16xbf16>, tensor<8x1xi32>) -> tensor<128x16xbf16>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[W2]] counts([[ALL_TO_ALL]])
  // CHECK-SAME:   : (tensor<128x16xbf16>, tensor<1x16x8xbf16>, tensor<8x1xi32>) -> tensor<128x8xbf16>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[GROUPED_MATMUL2]] counts([[ALL_TO_ALL]]) over <"esp", 1, 1>
  // CHECK-SAME:   : (tensor<128x8xbf16>, tensor<8x1xi32>) -> tensor<128x8xbf16>
  // CHECK-NEXT:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v [[ALL_REDUCE]], [[TO_VARYING6]], [[ALL_TO_ALL]]
  // CHECK-SAME:   over <"ep", 8, 1> {direction = #moe<direction from_experts>}
  // CHECK-SAME:   : (tensor<128x8xbf16>, tensor<1x8xi32>, tensor<8x1xi32>) -> tensor<16x8xbf16>
  // CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[ALL_TO_ALL_V2]] over <"esp", 1, 1> {dim = 0 : i64}
  // CHECK-SAME:   : (tensor<16x8xbf16>) -> tensor<16x8xbf16>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[SLICE]], [[TO_VARYING3]] weights([[TO_VARYING2]])
  // CHECK-SAME:   : (tensor<16x8xbf16>, tensor<16x1xi32>, tensor<16x1xf32>) -> tensor<16x8xbf16>
  // CHECK-NEXT:   [[ASSUME_REPLICATED:%[a-z0-9_]+]] = moe.assume_replicated [[COMBINE]] over <"mp", 2, 1> : tensor<16x8xbf16>
  // CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 2.500000e-01 : f64} : tensor<f32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 4, 2> : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   [[ADD:%[a-z0-9_]+]] = moe.add [[X]], [[ASSUME_REPLICATED]] : tensor<16x8xbf16>
  // CHECK-NEXT:   return [[ADD]], [[ALL_REDUCE2]] : tensor<16x8xbf16>, tensor<f32>
  func.func @chain(%x: tensor<64x8xbf16>, %g: tensor<8x8xbf16>, %w1: tensor<8x8x16xbf16>, %w2: tensor<8x16x8xbf16>)
      -> (tensor<64x8xbf16>, tensor<f32>) {
    %y, %aux = moe.layer "first" %x gate(%g) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation silu>}
      : (tensor<64x8xbf16>, tensor<8x8xbf16>, tensor<8x8x16xbf16>, tensor<8x16x8xbf16>) -> (tensor<64x8xbf16>, tensor<f32>)
    %h = moe.add %x, %y : tensor<64x8xbf16>
    return %h, %aux : tensor<64x8xbf16>, tensor<f32>
  }

  // Layouts that the arguments already have are kept, names and roles too.
  // CHECK-LABEL: func.func @given_layouts(
  // CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<1x16xf32>
  // CHECK-SAME:   {moe.layout = #moe.layout<[ep], [esp]>, moe.name = "a", moe.role = "input"},
  // CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<1x16xf32> {moe.layout = #moe.layout<[ep], [esp]>}
  // CHECK-SAME:   ) -> (tensor<1x16xf32> {moe.layout = #moe.layout<[ep], [esp]>, moe.name = "sum"})
  // CHECK-NEXT:   [[ADD:%[a-z0-9_]+]] = moe.add [[A]], [[B]] : tensor<1x16xf32>
  // CHECK-NEXT:   return [[ADD]] : tensor<1x16xf32>
  func.func @given_layouts(%a: tensor<8x16xf32> {moe.layout = #moe.layout<[ep], [esp]>, moe.name = "a", moe.role = "input"}, %b: tensor<8x16xf32>)
      -> (tensor<8x16xf32> {moe.layout = #moe.layout<[ep], [esp]>, moe.name = "sum"}) {
    %0 = moe.add %a, %b : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }

  // A tensor that no op has a wish for is replicated.
  // CHECK-LABEL: func.func @no_wish(
  // CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<7xf32> {moe.layout = #moe.layout<[]>}
  // CHECK-SAME:   ) -> (tensor<7xf32> {moe.layout = #moe.layout<[]>})
  // CHECK-NEXT:   return [[A]] : tensor<7xf32>
  func.func @no_wish(%a: tensor<7xf32>) -> tensor<7xf32> {
    return %a : tensor<7xf32>
  }
}
