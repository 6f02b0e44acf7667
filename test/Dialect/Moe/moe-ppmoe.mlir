// RUN: moe-opt %s -split-input-file \
// RUN:   --pass-pipeline="builtin.module(moe-partition,func.func(moe-ppmoe),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --implicit-check-not="= moe.all_" --implicit-check-not="= moe.slice" --implicit-check-not="= moe.assume"
// RUN: moe-opt %s -split-input-file \
// RUN:   --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-ppmoe),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --implicit-check-not="= moe.all_" --implicit-check-not="= moe.slice" --implicit-check-not="= moe.assume"

// PPMoE's schedule of the baseline's layers, before and after canonicalisation the same: each member dispatches the choices of its own
// experts, and one sum takes the place of all exchanges.

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 2, mp = 4, ep = 2, esp = 2>} {
  // S = 16 tokens, T = 2 * 1.0 * 16 / 4 = 8. Each member has E / ep = 2 experts, with half of their columns, and T rows of each. One sum of
  // [S, M] over the four members of mp, which are those of ep and esp; the auxiliary loss is the baseline's.
  // CHECK-LABEL: func.func @capacity(
  // CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}
  // CHECK-SAME:   ) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[W2]] over <"dp", 2, 4> : tensor<2x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[W1]] over <"dp", 2, 4> : tensor<2x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[G]] over <"dp", 2, 4> : tensor<8x4xf32>
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[TO_VARYING3]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // CHECK-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.route [[MATMUL]] {capacity = 8 : i64}
  // CHECK-SAME:   : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>,
  // CHECK-SAME:   tensor<f32>)
  // CHECK-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[WEIGHTS]] over <"mp", 4, 1> : tensor<16x2xf32>
  // CHECK-NEXT:   [[TO_VARYING5:%[a-z0-9_]+]] = moe.to_varying [[X]] over <"mp", 4, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[SLOTS2:%[a-z0-9_]+]], [[COUNTS2:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.local_slots [[SLOTS]], [[COUNTS]] over <"mp", 4, 1> {capacity = 8 : i64, copies = 2 : i64}
  // CHECK-SAME:   : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>)
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING5]], [[SLOTS2]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<2x8x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[DISPATCH]], [[TO_VARYING2]]
  // CHECK-SAME:   : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] {kind = #moe<activation gelu>}
  // CHECK-SAME:   : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]]
  // CHECK-SAME:   : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[GROUPED_MATMUL2]], [[SLOTS2]] weights([[TO_VARYING4]])
  // CHECK-SAME:   : (tensor<2x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[COMBINE]] over <"mp", 4, 1>
  // CHECK-SAME:   : (tensor<16x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 5.000000e-01 : f64} : tensor<f32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 2, 4> : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   return [[ALL_REDUCE]], [[ALL_REDUCE2]] : tensor<16x8xf32>, tensor<f32>
  func.func @capacity(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<32x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y, %aux : tensor<32x8xf32>, tensor<f32>
  }

  // Dropless: packed rows. The baseline has room for 1.5 times the mean of S k esp = 64 rows that two members of ep send, 96; here
  // that is 1.5 S k / ep = 24. The experts' counts are those of the member's own experts.
  // CHECK-LABEL: func.func @dropless(
  // CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}
  // CHECK-SAME:   ) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[W2]] over <"dp", 2, 4> : tensor<2x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[W1]] over <"dp", 2, 4> : tensor<2x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[G]] over <"dp", 2, 4> : tensor<8x4xf32>
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[TO_VARYING3]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // CHECK-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.route [[MATMUL]]
  // CHECK-SAME:   : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>,
  // CHECK-SAME:   tensor<f32>)
  // CHECK-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[WEIGHTS]] over <"mp", 4, 1> : tensor<16x2xf32>
  // CHECK-NEXT:   [[TO_VARYING5:%[a-z0-9_]+]] = moe.to_varying [[X]] over <"mp", 4, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[SLOTS2:%[a-z0-9_]+]], [[COUNTS2:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.local_slots [[SLOTS]], [[COUNTS]] over <"mp", 4, 1> {copies = 2 : i64, room = 24 : i64}
  // CHECK-SAME:   : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>)
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING5]], [[SLOTS2]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<24x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[DISPATCH]], [[TO_VARYING2]] counts([[COUNTS2]])
  // CHECK-SAME:   : (tensor<24x8xf32>, tensor<2x8x8xf32>, tensor<1x2xi32>) -> tensor<24x8xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] counts([[COUNTS2]]) {kind = #moe<activation gelu>}
  // CHECK-SAME:   : (tensor<24x8xf32>, tensor<1x2xi32>) -> tensor<24x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]] counts([[COUNTS2]])
  // CHECK-SAME:   : (tensor<24x8xf32>, tensor<2x8x8xf32>, tensor<1x2xi32>) -> tensor<24x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[GROUPED_MATMUL2]], [[SLOTS2]] weights([[TO_VARYING4]])
  // CHECK-SAME:   : (tensor<24x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[COMBINE]] over <"mp", 4, 1>
  // CHECK-SAME:   : (tensor<16x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 5.000000e-01 : f64} : tensor<f32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 2, 4> : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   return [[ALL_REDUCE]], [[ALL_REDUCE2]] : tensor<16x8xf32>, tensor<f32>
  func.func @dropless(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<32x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, max_load = 1.5 : f64}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y, %aux : tensor<32x8xf32>, tensor<f32>
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 2, mp = 4, ep = 2, esp = 1>} {
  // A group inside mp: two pairs of members compute the same. Nothing varies over the pairs, so that the experts' weights are cast, and
  // their gradients summed, over dp alone, and no claim is needed. At worst all S k = 32 choices are of one member's experts.
  // CHECK-LABEL: func.func @inside(
  // CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<2x8x16xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<2x16x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}
  // CHECK-SAME:   ) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[W2]] over <"dp", 2, 4> : tensor<2x16x8xf32>
  // CHECK-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[W1]] over <"dp", 2, 4> : tensor<2x8x16xf32>
  // CHECK-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[X]] over <"ep", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[G]] over <"dp", 2, 4> : tensor<8x4xf32>
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[TO_VARYING4]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // CHECK-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.route [[MATMUL]]
  // CHECK-SAME:   : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>,
  // CHECK-SAME:   tensor<f32>)
  // CHECK-NEXT:   [[TO_VARYING5:%[a-z0-9_]+]] = moe.to_varying [[WEIGHTS]] over <"ep", 2, 1> : tensor<16x2xf32>
  // CHECK-NEXT:   [[SLOTS2:%[a-z0-9_]+]], [[COUNTS2:%[a-z0-9_]+]] = moe.local_slots [[SLOTS]], [[COUNTS]] over <"ep", 2, 1>
  // CHECK-SAME:   {room = 32 : i64}
  // CHECK-SAME:   : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>)
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING3]], [[SLOTS2]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[DISPATCH]], [[TO_VARYING2]] counts([[COUNTS2]])
  // CHECK-SAME:   : (tensor<32x8xf32>, tensor<2x8x16xf32>, tensor<1x2xi32>) -> tensor<32x16xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] counts([[COUNTS2]]) {kind = #moe<activation gelu>}
  // CHECK-SAME:   : (tensor<32x16xf32>, tensor<1x2xi32>) -> tensor<32x16xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]] counts([[COUNTS2]])
  // CHECK-SAME:   : (tensor<32x16xf32>, tensor<2x16x8xf32>, tensor<1x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[GROUPED_MATMUL2]], [[SLOTS2]] weights([[TO_VARYING5]])
  // CHECK-SAME:   : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[COMBINE]] over <"ep", 2, 1>
  // CHECK-SAME:   : (tensor<16x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 5.000000e-01 : f64} : tensor<f32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 2, 4> : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   return [[ALL_REDUCE]], [[ALL_REDUCE2]] : tensor<16x8xf32>, tensor<f32>
  func.func @inside(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<32x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "inside" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y, %aux : tensor<32x8xf32>, tensor<f32>
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 1, esp = 1>} {
  // All experts on every rank: nothing to select or to add up. The baseline's claim goes, and with it the sum of dx.
  // CHECK-LABEL: func.func @whole(
  // CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<4x8x16xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<4x16x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}
  // CHECK-SAME:   ) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[W2]] over <"dp", 2, 2> : tensor<4x16x8xf32>
  // CHECK-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[W1]] over <"dp", 2, 2> : tensor<4x8x16xf32>
  // CHECK-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[G]] over <"dp", 2, 2> : tensor<8x4xf32>
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[TO_VARYING3]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // CHECK-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.route [[MATMUL]] {capacity = 8 : i64}
  // CHECK-SAME:   : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>,
  // CHECK-SAME:   tensor<f32>)
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[X]], [[SLOTS]]
  // CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[DISPATCH]], [[TO_VARYING2]]
  // CHECK-SAME:   : (tensor<4x8x8xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] {kind = #moe<activation gelu>}
  // CHECK-SAME:   : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]]
  // CHECK-SAME:   : (tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[GROUPED_MATMUL2]], [[SLOTS]] weights([[WEIGHTS]])
  // CHECK-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 5.000000e-01 : f64} : tensor<f32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 2, 2> : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   return [[COMBINE]], [[ALL_REDUCE]] : tensor<16x8xf32>, tensor<f32>
  func.func @whole(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<32x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "whole" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y, %aux : tensor<32x8xf32>, tensor<f32>
  }
}
