// RUN: moe-opt %s -split-input-file \
// RUN:   --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s1}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=S1 --implicit-check-not="= moe.all_" --implicit-check-not="= moe.slice" --implicit-check-not="= moe.dump" \
// RUN:   --implicit-check-not="= moe.local_reduce" --implicit-check-not="= moe.combine"
// RUN: moe-opt %s -split-input-file \
// RUN:   --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-pause-mp{schedule=s1}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=S1 --implicit-check-not="= moe.all_" --implicit-check-not="= moe.slice" --implicit-check-not="= moe.dump" \
// RUN:   --implicit-check-not="= moe.local_reduce" --implicit-check-not="= moe.combine"
// RUN: moe-opt %s -split-input-file \
// RUN:   --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=S2 --implicit-check-not="= moe.all_" --implicit-check-not="= moe.slice" --implicit-check-not="= moe.dump" \
// RUN:   --implicit-check-not="= moe.local_reduce" --implicit-check-not="= moe.combine"
// RUN: moe-opt %s -split-input-file \
// RUN:   --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=S2 --implicit-check-not="= moe.all_" --implicit-check-not="= moe.slice" --implicit-check-not="= moe.dump" \
// RUN:   --implicit-check-not="= moe.local_reduce" --implicit-check-not="= moe.combine"

// Parm's schedules of the baseline's layers, before and after canonicalisation the same, with the paper's shapes: of S rows
// a rank, T = k f S / E an expert, the experts get the rows of P = ep esp members, T / mp each.

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // S = 16, T = 2 * 1.0 * 16 / 4 = 8. S1 is MP-Split to 8 tokens, T1 = 4, dump, EP&ESP-AlltoAll, experts on P T1 = 16 rows,
  // EP&ESP-AlltoAll, local sum, combine, MP-AllGather of the output; the auxiliary loss is the members' mean.
  // S1-LABEL: func.func @capacity(
  // S1-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // S1-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // S1-SAME:   [[W1:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // S1-SAME:   [[W2:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}
  // S1-SAME:   ) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // S1-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[W2]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // S1-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[W1]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // S1-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[G]] over <"dp", 4, 2> : tensor<8x4xf32>
  // S1-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[TO_VARYING3]] over <"mp", 2, 1> : tensor<8x4xf32>
  // S1-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[X]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[SLICE]], [[TO_VARYING4]]
  // S1-SAME:   : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  // S1-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // S1-SAME:   moe.route [[MATMUL]] {capacity = 4 : i64}
  // S1-SAME:   : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x2xi32>, tensor<8x2xi32>, tensor<8x2xf32>,
  // S1-SAME:   tensor<1x4xi32>, tensor<f32>)
  // S1-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[SLICE]], [[SLOTS]]
  // S1-SAME:   : (tensor<8x8xf32>, tensor<8x2xi32>) -> tensor<4x4x8xf32>
  // S1-NEXT:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[DISPATCH]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S1-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
  // S1-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL]], [[TO_VARYING2]]
  // S1-SAME:   : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
  // S1-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] {kind = #moe<activation gelu>}
  // S1-SAME:   : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  // S1-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]]
  // S1-SAME:   : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
  // S1-NEXT:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[GROUPED_MATMUL2]] over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
  // S1-NEXT:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S1-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[LOCAL_REDUCE]], [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<4x4x8xf32>, tensor<8x2xi32>, tensor<8x2xf32>) -> tensor<8x8xf32>
  // S1-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[COMBINE]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 5.000000e-01 : f64} : tensor<f32>
  // S1-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"mp", 2, 1> : (tensor<f32>) -> tensor<f32>
  // S1-NEXT:   [[SCALE2:%[a-z0-9_]+]] = moe.scale [[ALL_REDUCE]] {factor = 2.500000e-01 : f64} : tensor<f32>
  // S1-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[SCALE2]] over <"dp", 4, 2>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1-NEXT:   return [[ALL_GATHER]], [[ALL_REDUCE2]] : tensor<16x8xf32>, tensor<f32>
  // S2-LABEL: func.func @capacity(
  // S2-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // S2-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // S2-SAME:   [[W1:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // S2-SAME:   [[W2:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}
  // S2-SAME:   ) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // S2-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[W2]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // S2-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[W1]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // S2-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[G]] over <"dp", 4, 2> : tensor<8x4xf32>
  // S2-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[TO_VARYING3]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  // S2-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // S2-SAME:   moe.route [[MATMUL]] {capacity = 8 : i64}
  // S2-SAME:   : (tensor<16x4xf32>)
  // S2-SAME:   -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>,
  // S2-SAME:   tensor<f32>)
  // S2-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[X]], [[SLOTS]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // S2-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[DISPATCH]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // S2-NEXT:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[SLICE]] {blocks = 2 : i64} : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S2-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
  // S2-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL]], [[TO_VARYING2]]
  // S2-SAME:   : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
  // S2-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] {kind = #moe<activation gelu>}
  // S2-SAME:   : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  // S2-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]]
  // S2-SAME:   : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
  // S2-NEXT:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[GROUPED_MATMUL2]] over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
  // S2-NEXT:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S2-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // S2-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // S2-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 2.500000e-01 : f64} : tensor<f32>
  // S2-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 4, 2> : (tensor<f32>) -> tensor<f32>
  // S2-NEXT:   return [[COMBINE]], [[ALL_REDUCE]] : tensor<16x8xf32>, tensor<f32>
  func.func @capacity(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Dropless: rows are packed, S k = 32. S1 sends its own 16, S2 its half of 32, whose counts it works out; the counts go the
  // same way, the dumps' copies to the two shards of each expert. The baseline's reservation, max_load times the mean of 64
  // rows, is shared out: 48.
  // S1-LABEL: func.func @dropless(
  // S1-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // S1-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // S1-SAME:   [[W1:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // S1-SAME:   [[W2:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}
  // S1-SAME:   ) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // S1-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[W2]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // S1-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[W1]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // S1-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[G]] over <"dp", 4, 2> : tensor<8x4xf32>
  // S1-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[TO_VARYING3]] over <"mp", 2, 1> : tensor<8x4xf32>
  // S1-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[X]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[SLICE]], [[TO_VARYING4]]
  // S1-SAME:   : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  // S1-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // S1-SAME:   moe.route [[MATMUL]]
  // S1-SAME:   : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x2xi32>, tensor<8x2xi32>, tensor<8x2xf32>,
  // S1-SAME:   tensor<1x4xi32>, tensor<f32>)
  // S1-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[SLICE]], [[SLOTS]]
  // S1-SAME:   : (tensor<8x8xf32>, tensor<8x2xi32>) -> tensor<16x8xf32>
  // S1-NEXT:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[COUNTS]] {blocks = 2 : i64, dim = 1 : i64}
  // S1-SAME:   : (tensor<1x4xi32>) -> tensor<1x8xi32>
  // S1-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<1x8xi32>) -> tensor<4x2xi32>
  // S1-NEXT:   [[DUMP2:%[a-z0-9_]+]] = moe.dump [[DISPATCH]] : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // S1-NEXT:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[DUMP2]], [[COUNTS]], [[ALL_TO_ALL]] over <"ep_esp",
  // S1-SAME:   4, 1> {copies = 2 : i64, direction = #moe<direction to_experts>}
  // S1-SAME:   : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<48x8xf32>
  // S1-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL_V]],
  // S1-SAME:   [[TO_VARYING2]] counts([[ALL_TO_ALL]])
  // S1-SAME:   : (tensor<48x8xf32>, tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<48x8xf32>
  // S1-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] counts([[ALL_TO_ALL]])
  // S1-SAME:   {kind = #moe<activation gelu>} : (tensor<48x8xf32>, tensor<4x2xi32>) -> tensor<48x8xf32>
  // S1-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]],
  // S1-SAME:   [[TO_VARYING]] counts([[ALL_TO_ALL]])
  // S1-SAME:   : (tensor<48x8xf32>, tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<48x8xf32>
  // S1-NEXT:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v [[GROUPED_MATMUL2]], [[COUNTS]],
  // S1-SAME:   [[ALL_TO_ALL]] over <"ep_esp", 4, 1> {copies = 2 : i64, direction = #moe<direction from_experts>}
  // S1-SAME:   : (tensor<48x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // S1-NEXT:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_V2]]
  // S1-SAME:   : (tensor<32x8xf32>) -> tensor<16x8xf32>
  // S1-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[LOCAL_REDUCE]], [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<16x8xf32>, tensor<8x2xi32>, tensor<8x2xf32>) -> tensor<8x8xf32>
  // S1-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[COMBINE]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 5.000000e-01 : f64} : tensor<f32>
  // S1-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"mp", 2, 1> : (tensor<f32>) -> tensor<f32>
  // S1-NEXT:   [[SCALE2:%[a-z0-9_]+]] = moe.scale [[ALL_REDUCE]] {factor = 2.500000e-01 : f64} : tensor<f32>
  // S1-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[SCALE2]] over <"dp", 4, 2>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1-NEXT:   return [[ALL_GATHER]], [[ALL_REDUCE2]] : tensor<16x8xf32>, tensor<f32>
  // S2-LABEL: func.func @dropless(
  // S2-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // S2-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // S2-SAME:   [[W1:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // S2-SAME:   [[W2:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}
  // S2-SAME:   ) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // S2-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[W2]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // S2-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[W1]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // S2-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[G]] over <"dp", 4, 2> : tensor<8x4xf32>
  // S2-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[TO_VARYING3]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  // S2-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // S2-SAME:   moe.route [[MATMUL]]
  // S2-SAME:   : (tensor<16x4xf32>)
  // S2-SAME:   -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>,
  // S2-SAME:   tensor<f32>)
  // S2-NEXT:   [[SLICE_COUNTS:%[a-z0-9_]+]] = moe.slice_counts [[COUNTS]] over <"mp", 2, 1> {rows = 32 : i64}
  // S2-SAME:   : tensor<1x4xi32>
  // S2-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[X]], [[SLOTS]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
  // S2-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[DISPATCH]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-SAME:   : (tensor<32x8xf32>) -> tensor<16x8xf32>
  // S2-NEXT:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[SLICE_COUNTS]] {blocks = 2 : i64, dim = 1 : i64}
  // S2-SAME:   : (tensor<1x4xi32>) -> tensor<1x8xi32>
  // S2-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<1x8xi32>) -> tensor<4x2xi32>
  // S2-NEXT:   [[DUMP2:%[a-z0-9_]+]] = moe.dump [[SLICE]] : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // S2-NEXT:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[DUMP2]], [[SLICE_COUNTS]],
  // S2-SAME:   [[ALL_TO_ALL]] over <"ep_esp", 4, 1> {copies = 2 : i64, direction = #moe<direction to_experts>}
  // S2-SAME:   : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<48x8xf32>
  // S2-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL_V]],
  // S2-SAME:   [[TO_VARYING2]] counts([[ALL_TO_ALL]])
  // S2-SAME:   : (tensor<48x8xf32>, tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<48x8xf32>
  // S2-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] counts([[ALL_TO_ALL]])
  // S2-SAME:   {kind = #moe<activation gelu>} : (tensor<48x8xf32>, tensor<4x2xi32>) -> tensor<48x8xf32>
  // S2-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]],
  // S2-SAME:   [[TO_VARYING]] counts([[ALL_TO_ALL]])
  // S2-SAME:   : (tensor<48x8xf32>, tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<48x8xf32>
  // S2-NEXT:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v [[GROUPED_MATMUL2]], [[SLICE_COUNTS]],
  // S2-SAME:   [[ALL_TO_ALL]] over <"ep_esp", 4, 1> {copies = 2 : i64, direction = #moe<direction from_experts>}
  // S2-SAME:   : (tensor<48x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // S2-NEXT:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_V2]]
  // S2-SAME:   : (tensor<32x8xf32>) -> tensor<16x8xf32>
  // S2-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-SAME:   : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // S2-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // S2-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[AUX]] {factor = 2.500000e-01 : f64} : tensor<f32>
  // S2-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[SCALE]] over <"dp", 4, 2> : (tensor<f32>) -> tensor<f32>
  // S2-NEXT:   return [[COMBINE]], [[ALL_REDUCE]] : tensor<16x8xf32>, tensor<f32>
  func.func @dropless(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>, max_load = 1.5 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Biases: the gate's is part of what S1 does on its share; the second layer's still counts once among the shards.
  // S1-LABEL: func.func @biases(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   [[BIAS_ADD:%[a-z0-9_]+]] = moe.bias_add {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}
  // S1-SAME:   : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  // S1:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route [[BIAS_ADD]] selection_bias({{%[a-z0-9_]+}})
  // S1-SAME:   {capacity = 4 : i64} : (tensor<8x4xf32>, tensor<4xf32>)
  // S1:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[SLICE]], [[SLOTS]]
  // S1-SAME:   : (tensor<8x8xf32>, tensor<8x2xi32>) -> tensor<4x4x8xf32>
  // S1:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[DISPATCH]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
  // S1:   [[BIAS_ADD2:%[a-z0-9_]+]] = moe.bias_add {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}
  // S1-SAME:   : (tensor<2x16x8xf32>, tensor<2x8xf32>) -> tensor<2x16x8xf32>
  // S1:   [[BIAS_ADD3:%[a-z0-9_]+]] = moe.bias_add {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}
  // S1-SAME:   {scale = 5.000000e-01 : f64} : (tensor<2x16x8xf32>, tensor<2x8xf32>) -> tensor<2x16x8xf32>
  // S1:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[BIAS_ADD3]] over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
  // S1:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S1:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[LOCAL_REDUCE]], [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<4x4x8xf32>, tensor<8x2xi32>, tensor<8x2xf32>) -> tensor<8x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[COMBINE]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 4, 2>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1:   return [[ALL_GATHER]], [[ALL_REDUCE2]] : tensor<16x8xf32>, tensor<f32>
  // S2-LABEL: func.func @biases(
  // S2:   [[BIAS_ADD:%[a-z0-9_]+]] = moe.bias_add {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}
  // S2-SAME:   : (tensor<16x4xf32>, tensor<4xf32>) -> tensor<16x4xf32>
  // S2:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route [[BIAS_ADD]] selection_bias({{%[a-z0-9_]+}})
  // S2-SAME:   {capacity = 8 : i64} : (tensor<16x4xf32>, tensor<4xf32>)
  // S2:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch {{%[a-z0-9_]+}}, [[SLOTS]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[DISPATCH]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[SLICE]] {blocks = 2 : i64} : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
  // S2:   [[BIAS_ADD2:%[a-z0-9_]+]] = moe.bias_add {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}
  // S2-SAME:   : (tensor<2x16x8xf32>, tensor<2x8xf32>) -> tensor<2x16x8xf32>
  // S2:   [[BIAS_ADD3:%[a-z0-9_]+]] = moe.bias_add {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}
  // S2-SAME:   {scale = 5.000000e-01 : f64} : (tensor<2x16x8xf32>, tensor<2x8xf32>) -> tensor<2x16x8xf32>
  // S2:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[BIAS_ADD3]] over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
  // S2:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // S2:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 4, 2>
  // S2-SAME:   : (tensor<f32>) -> tensor<f32>
  // S2:   return [[COMBINE]], [[ALL_REDUCE]] : tensor<16x8xf32>, tensor<f32>
  func.func @biases(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %gb: tensor<4xf32>, %sb: tensor<4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b1: tensor<4x16xf32>, %b2: tensor<4x8xf32>)
      -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "biases" %x gate(%g, %gb) selection_bias(%sb) experts(%w1, %w2, %b1, %b2)
      {top_k = 2 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>, tensor<4x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}

// -----

// N_MP = 1: no split and no gather, S1 and S2 are one (Eq. 2): two EP&ESP-AlltoAlls of all rows, T = 8 a member.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 2, esp = 2>} {
  // S1-LABEL: func.func @mp1(
  // S1:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 8 : i64}
  // S1-SAME:   : (tensor<16x4xf32>)
  // S1:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch {{%[a-z0-9_]+}}, [[SLOTS]]
  // S1-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // S1:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[DISPATCH]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<4x8x8xf32>) -> tensor<8x8x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"dp", 4, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x8x8xf32>) -> tensor<2x32x8xf32>
  // S1:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"dp", 4, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x32x8xf32>) -> tensor<8x8x8xf32>
  // S1:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<8x8x8xf32>) -> tensor<4x8x8xf32>
  // S1:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[LOCAL_REDUCE]], [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // S1:   return [[COMBINE]] : tensor<16x8xf32>
  // S2-LABEL: func.func @mp1(
  // S2:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 8 : i64}
  // S2-SAME:   : (tensor<16x4xf32>)
  // S2:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch {{%[a-z0-9_]+}}, [[SLOTS]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // S2:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[DISPATCH]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<8x8x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"dp", 4, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x8x8xf32>) -> tensor<2x32x8xf32>
  // S2:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"dp", 4, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x32x8xf32>) -> tensor<8x8x8xf32>
  // S2:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<8x8x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[LOCAL_REDUCE]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // S2:   return [[COMBINE]] : tensor<16x8xf32>
  func.func @mp1(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "mp1" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// N_ESP = 1: nothing to dump, nothing to sum up; the exchange is over ep alone.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 2, esp = 1>} {
  // S1-LABEL: func.func @esp1(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 4 : i64}
  // S1-SAME:   : (tensor<8x4xf32>)
  // S1:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[SLICE]], [[SLOTS]]
  // S1-SAME:   : (tensor<8x8xf32>, tensor<8x2xi32>) -> tensor<4x4x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DISPATCH]] over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4x8xf32>) -> tensor<2x8x8xf32>
  // S1:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x8x8xf32>) -> tensor<4x4x8xf32>
  // S1:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_TO_ALL2]], [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<4x4x8xf32>, tensor<8x2xi32>, tensor<8x2xf32>) -> tensor<8x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[COMBINE]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   return [[ALL_GATHER]] : tensor<16x8xf32>
  // S2-LABEL: func.func @esp1(
  // S2:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 8 : i64}
  // S2-SAME:   : (tensor<16x4xf32>)
  // S2:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch {{%[a-z0-9_]+}}, [[SLOTS]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[DISPATCH]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[SLICE]] over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4x8xf32>) -> tensor<2x8x8xf32>
  // S2:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL2]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // S2:   return [[COMBINE]] : tensor<16x8xf32>
  func.func @esp1(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "esp1" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}

// -----

// N_EP = 1: all experts on each member, the exchange is over esp, of one block.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 1, esp = 2>} {
  // S1-LABEL: func.func @ep1(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 4 : i64}
  // S1-SAME:   : (tensor<8x4xf32>)
  // S1:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[SLICE]], [[SLOTS]]
  // S1-SAME:   : (tensor<8x8xf32>, tensor<8x2xi32>) -> tensor<4x4x8xf32>
  // S1:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[DISPATCH]] : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<4x8x8xf32>
  // S1:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<8x4x8xf32>
  // S1:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]]
  // S1-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S1:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[LOCAL_REDUCE]], [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<4x4x8xf32>, tensor<8x2xi32>, tensor<8x2xf32>) -> tensor<8x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[COMBINE]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   return [[ALL_GATHER]] : tensor<16x8xf32>
  // S2-LABEL: func.func @ep1(
  // S2:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 8 : i64}
  // S2-SAME:   : (tensor<16x4xf32>)
  // S2:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch {{%[a-z0-9_]+}}, [[SLOTS]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[DISPATCH]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[SLICE]] : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<8x4x8xf32>
  // S2:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]]
  // S2-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // S2:   return [[COMBINE]] : tensor<16x8xf32>
  func.func @ep1(%x: tensor<16x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<16x8xf32> {
    %y, %aux = moe.layer "ep1" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    return %y : tensor<16x8xf32>
  }
}

// -----

// N_EP = N_ESP = 1: no exchange is left, but each member of mp does its share of the work and not all of it.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 1, esp = 1>} {
  // S1-LABEL: func.func @mp_only(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 4 : i64}
  // S1-SAME:   : (tensor<8x4xf32>)
  // S1:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[SLICE]], [[SLOTS]]
  // S1-SAME:   : (tensor<8x8xf32>, tensor<8x2xi32>) -> tensor<4x4x8xf32>
  // S1:   [[COMBINE:%[a-z0-9_]+]] = moe.combine {{%[a-z0-9_]+}}, [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<4x4x8xf32>, tensor<8x2xi32>, tensor<8x2xf32>) -> tensor<8x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[COMBINE]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   return [[ALL_GATHER]] : tensor<16x8xf32>
  // S2-LABEL: func.func @mp_only(
  // S2:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 8 : i64}
  // S2-SAME:   : (tensor<16x4xf32>)
  // S2:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch {{%[a-z0-9_]+}}, [[SLOTS]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[DISPATCH]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // S2:   return [[COMBINE]] : tensor<16x8xf32>
  func.func @mp_only(%x: tensor<16x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<16x8xf32> {
    %y, %aux = moe.layer "mp_only" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    return %y : tensor<16x8xf32>
  }
}

// -----

// N_MP = 4 > N_ESP = 2: shares of a quarter, T1 = 2, over the one group of P = 4, which is also the whole of mp.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 1, mp = 4, ep = 2, esp = 2>} {
  // S1-LABEL: func.func @mp_larger(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 4, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<4x8xf32>
  // S1:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 2 : i64}
  // S1-SAME:   : (tensor<4x4xf32>)
  // S1:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[SLICE]], [[SLOTS]]
  // S1-SAME:   : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<4x2x8xf32>
  // S1:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[DISPATCH]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<4x2x8xf32>) -> tensor<8x2x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"mp", 4, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x2x8xf32>) -> tensor<2x8x8xf32>
  // S1:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 4, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x8x8xf32>) -> tensor<8x2x8xf32>
  // S1:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<8x2x8xf32>) -> tensor<4x2x8xf32>
  // S1:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[LOCAL_REDUCE]], [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<4x2x8xf32>, tensor<4x2xi32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[COMBINE]] over <"mp", 4, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<4x8xf32>) -> tensor<16x8xf32>
  // S1:   return [[ALL_GATHER]] : tensor<16x8xf32>
  // S2-LABEL: func.func @mp_larger(
  // S2:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 8 : i64}
  // S2-SAME:   : (tensor<16x4xf32>)
  // S2:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch {{%[a-z0-9_]+}}, [[SLOTS]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[DISPATCH]] over <"mp", 4, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x2x8xf32>
  // S2:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[SLICE]] {blocks = 2 : i64} : (tensor<4x2x8xf32>) -> tensor<8x2x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"mp", 4, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x2x8xf32>) -> tensor<2x8x8xf32>
  // S2:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 4, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x8x8xf32>) -> tensor<8x2x8xf32>
  // S2:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<8x2x8xf32>) -> tensor<4x2x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 4, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x2x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // S2:   return [[COMBINE]] : tensor<16x8xf32>
  func.func @mp_larger(%x: tensor<16x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<16x8xf32> {
    %y, %aux = moe.layer "mp_larger" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    return %y : tensor<16x8xf32>
  }
}

// -----

// N_MP = 2 < N_ESP = 4: four copies of each half, T1 = 4, P = 8.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 4>} {
  // S1-LABEL: func.func @esp_larger(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 4 : i64}
  // S1-SAME:   : (tensor<8x4xf32>)
  // S1:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[SLICE]], [[SLOTS]]
  // S1-SAME:   : (tensor<8x8xf32>, tensor<8x2xi32>) -> tensor<4x4x8xf32>
  // S1:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[DISPATCH]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<4x4x8xf32>) -> tensor<16x4x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 8, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<16x4x8xf32>) -> tensor<2x32x8xf32>
  // S1:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x32x8xf32>) -> tensor<16x4x8xf32>
  // S1:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<16x4x8xf32>) -> tensor<4x4x8xf32>
  // S1:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[LOCAL_REDUCE]], [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<4x4x8xf32>, tensor<8x2xi32>, tensor<8x2xf32>) -> tensor<8x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[COMBINE]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   return [[ALL_GATHER]] : tensor<16x8xf32>
  // S2-LABEL: func.func @esp_larger(
  // S2:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 8 : i64}
  // S2-SAME:   : (tensor<16x4xf32>)
  // S2:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch {{%[a-z0-9_]+}}, [[SLOTS]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[DISPATCH]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[SLICE]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<16x4x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 8, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<16x4x8xf32>) -> tensor<2x32x8xf32>
  // S2:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x32x8xf32>) -> tensor<16x4x8xf32>
  // S2:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<16x4x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // S2:   return [[COMBINE]] : tensor<16x8xf32>
  func.func @esp_larger(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "esp_larger" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// N_MP = 4 > P = 2, dropless: a set of experts hears two of the four members only, which may send all that they have. So the
// baseline's reservation, max_load times the mean of 32, is not shared out: 16 for 2 members' 8 rows, and not a quarter of 32.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 1, mp = 4, ep = 2, esp = 1>} {
  // S1-LABEL: func.func @mp_over_sets(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 4, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<4x8xf32>
  // S1:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} : (tensor<4x4xf32>)
  // S1:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[SLICE]], [[SLOTS]]
  // S1-SAME:   : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[COUNTS]] over <"ep", 2, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<1x4xi32>) -> tensor<2x2xi32>
  // S1:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[DISPATCH]], [[COUNTS]], [[ALL_TO_ALL]] over <"ep",
  // S1-SAME:   2, 1> {direction = #moe<direction to_experts>}
  // S1-SAME:   : (tensor<8x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  // S1:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v
  // S1-SAME:   {{%[a-z0-9_]+}}, [[COUNTS]], [[ALL_TO_ALL]] over <"ep", 2, 1>
  // S1-SAME:   {direction = #moe<direction from_experts>}
  // S1-SAME:   : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<8x8xf32>
  // S1:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_TO_ALL_V2]], [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<8x8xf32>, tensor<4x2xi32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[COMBINE]] over <"mp", 4, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<4x8xf32>) -> tensor<16x8xf32>
  // S1:   return [[ALL_GATHER]] : tensor<16x8xf32>
  // S2-LABEL: func.func @mp_over_sets(
  // S2:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} : (tensor<16x4xf32>)
  // S2:   [[SLICE_COUNTS:%[a-z0-9_]+]] = moe.slice_counts [[COUNTS]] over <"mp", 4, 1> {rows = 32 : i64}
  // S2-SAME:   : tensor<1x4xi32>
  // S2:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch {{%[a-z0-9_]+}}, [[SLOTS]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[DISPATCH]] over <"mp", 4, 1> {dim = 0 : i64}
  // S2-SAME:   : (tensor<32x8xf32>) -> tensor<8x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[SLICE_COUNTS]] over <"ep", 2, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<1x4xi32>) -> tensor<2x2xi32>
  // S2:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[SLICE]], [[SLICE_COUNTS]],
  // S2-SAME:   [[ALL_TO_ALL]] over <"ep", 2, 1> {direction = #moe<direction to_experts>}
  // S2-SAME:   : (tensor<8x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  // S2:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v
  // S2-SAME:   {{%[a-z0-9_]+}}, [[SLICE_COUNTS]], [[ALL_TO_ALL]] over <"ep", 2, 1>
  // S2-SAME:   {direction = #moe<direction from_experts>}
  // S2-SAME:   : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<8x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL_V2]] over <"mp", 4, 1> {dim = 0 : i64}
  // S2-SAME:   : (tensor<8x8xf32>) -> tensor<32x8xf32>
  // S2:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // S2:   return [[COMBINE]] : tensor<16x8xf32>
  func.func @mp_over_sets(%x: tensor<16x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<16x8xf32> {
    %y, %aux = moe.layer "mp_over_sets" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>, max_load = 1.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    return %y : tensor<16x8xf32>
  }
}

// -----

// Two layers, each of its own schedule's ops; the second one's shared expert is as it was, over mp.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 2, esp = 1>} {
  // S1-LABEL: func.func @two_layers(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 4 : i64}
  // S1-SAME:   : (tensor<8x4xf32>)
  // S1:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[SLICE]], [[SLOTS]]
  // S1-SAME:   : (tensor<8x8xf32>, tensor<8x2xi32>) -> tensor<4x4x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DISPATCH]] over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4x8xf32>) -> tensor<2x8x8xf32>
  // S1:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x8x8xf32>) -> tensor<4x4x8xf32>
  // S1:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_TO_ALL2]], [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<4x4x8xf32>, tensor<8x2xi32>, tensor<8x2xf32>) -> tensor<8x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[COMBINE]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS2:%[a-z0-9_]+]], [[WEIGHTS2:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS2:%[a-z0-9_]+]], [[AUX2:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 4 : i64}
  // S1-SAME:   : (tensor<8x4xf32>)
  // S1:   [[DISPATCH2:%[a-z0-9_]+]] = moe.dispatch [[COMBINE]], [[SLOTS2]]
  // S1-SAME:   : (tensor<8x8xf32>, tensor<8x1xi32>) -> tensor<4x4x8xf32>
  // S1:   [[ALL_TO_ALL3:%[a-z0-9_]+]] = moe.all_to_all [[DISPATCH2]] over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4x8xf32>) -> tensor<2x8x8xf32>
  // S1:   [[ALL_TO_ALL4:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x8x8xf32>) -> tensor<4x4x8xf32>
  // S1:   [[COMBINE2:%[a-z0-9_]+]] = moe.combine [[ALL_TO_ALL4]], [[SLOTS2]] weights([[WEIGHTS2]])
  // S1-SAME:   : (tensor<4x4x8xf32>, tensor<8x1xi32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  // S1:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[COMBINE2]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<16x8xf32>
  // S1:   return {{%[a-z0-9_]+}} : tensor<16x8xf32>
  // S2-LABEL: func.func @two_layers(
  // S2:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 8 : i64}
  // S2-SAME:   : (tensor<16x4xf32>)
  // S2:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch {{%[a-z0-9_]+}}, [[SLOTS]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[DISPATCH]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[SLICE]] over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4x8xf32>) -> tensor<2x8x8xf32>
  // S2:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL2]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // S2:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS2:%[a-z0-9_]+]], [[WEIGHTS2:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS2:%[a-z0-9_]+]], [[AUX2:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 8 : i64}
  // S2-SAME:   : (tensor<16x4xf32>)
  // S2:   [[DISPATCH2:%[a-z0-9_]+]] = moe.dispatch [[COMBINE]], [[SLOTS2]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x1xi32>) -> tensor<4x8x8xf32>
  // S2:   [[SLICE2:%[a-z0-9_]+]] = moe.slice [[DISPATCH2]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_TO_ALL3:%[a-z0-9_]+]] = moe.all_to_all [[SLICE2]] over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4x8xf32>) -> tensor<2x8x8xf32>
  // S2:   [[ALL_TO_ALL4:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL4]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[COMBINE2:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER2]], [[SLOTS2]] weights([[WEIGHTS2]])
  // S2-SAME:   : (tensor<4x8x8xf32>, tensor<16x1xi32>, tensor<16x1xf32>) -> tensor<16x8xf32>
  // S2:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S2-SAME:   : (tensor<16x8xf32>) -> tensor<16x8xf32>
  // S2:   return {{%[a-z0-9_]+}} : tensor<16x8xf32>
  func.func @two_layers(%x: tensor<16x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %s1: tensor<8x8xf32>, %s2: tensor<8x8xf32>, %sg: tensor<8x1xf32>) -> tensor<16x8xf32> {
    %y, %aux = moe.layer "first" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    %z, %aux2 = moe.layer "second" %y gate(%g) experts(%w1, %w2) shared(%s1, %s2, %sg)
      {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 2.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x1xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    return %z : tensor<16x8xf32>
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 2, esp = 1>} {
  // A rank has 2 routing groups with T = 4 each. S1's members take one each, with all of its T. S2 divides the 8 rows.
  // S1-LABEL: func.func @groups(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}} {capacity = 4 : i64}
  // S1-SAME:   : (tensor<8x4xf32>)
  // S1:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[SLICE]], [[SLOTS]]
  // S1-SAME:   : (tensor<8x8xf32>, tensor<8x2xi32>) -> tensor<4x4x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DISPATCH]] over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4x8xf32>) -> tensor<2x8x8xf32>
  // S1:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x8x8xf32>) -> tensor<4x4x8xf32>
  // S1:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_TO_ALL2]], [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<4x4x8xf32>, tensor<8x2xi32>, tensor<8x2xf32>) -> tensor<8x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[COMBINE]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 2, 2>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1:   return [[ALL_GATHER]], [[ALL_REDUCE2]] : tensor<16x8xf32>, tensor<f32>
  // S2-LABEL: func.func @groups(
  // S2:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}}
  // S2-SAME:   {capacity = 4 : i64, groups = 2 : i64} : (tensor<16x4xf32>)
  // S2:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch {{%[a-z0-9_]+}}, [[SLOTS]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[DISPATCH]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[SLICE]] over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4x8xf32>) -> tensor<2x8x8xf32>
  // S2:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL2]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // S2:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 2, 2>
  // S2-SAME:   : (tensor<f32>) -> tensor<f32>
  // S2:   return [[COMBINE]], [[ALL_REDUCE]] : tensor<16x8xf32>, tensor<f32>
  func.func @groups(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<32x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "groups" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64, groups = 4 : i64}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y, %aux : tensor<32x8xf32>, tensor<f32>
  }

  // 3 groups of 8 tokens, T = 4, cannot be shared out by two: S1 makes 6 of 4 tokens, T1 = 2, three a member.
  // S1-LABEL: func.func @more_groups(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<24x8xf32>) -> tensor<12x8xf32>
  // S1:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}}
  // S1-SAME:   {capacity = 2 : i64, groups = 3 : i64} : (tensor<12x4xf32>)
  // S1:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[SLICE]], [[SLOTS]]
  // S1-SAME:   : (tensor<12x8xf32>, tensor<12x2xi32>) -> tensor<4x6x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DISPATCH]] over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x6x8xf32>) -> tensor<2x12x8xf32>
  // S1:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x12x8xf32>) -> tensor<4x6x8xf32>
  // S1:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_TO_ALL2]], [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<4x6x8xf32>, tensor<12x2xi32>, tensor<12x2xf32>) -> tensor<12x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[COMBINE]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<12x8xf32>) -> tensor<24x8xf32>
  // S1:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 2, 2>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1:   return [[ALL_GATHER]], [[ALL_REDUCE2]] : tensor<24x8xf32>, tensor<f32>
  // S2-LABEL: func.func @more_groups(
  // S2:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route {{%[a-z0-9_]+}}
  // S2-SAME:   {capacity = 4 : i64, groups = 3 : i64} : (tensor<24x4xf32>)
  // S2:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch {{%[a-z0-9_]+}}, [[SLOTS]]
  // S2-SAME:   : (tensor<24x8xf32>, tensor<24x2xi32>) -> tensor<4x12x8xf32>
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[DISPATCH]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x12x8xf32>) -> tensor<4x6x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[SLICE]] over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x6x8xf32>) -> tensor<2x12x8xf32>
  // S2:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x12x8xf32>) -> tensor<4x6x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL2]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x6x8xf32>) -> tensor<4x12x8xf32>
  // S2:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<4x12x8xf32>, tensor<24x2xi32>, tensor<24x2xf32>) -> tensor<24x8xf32>
  // S2:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 2, 2>
  // S2-SAME:   : (tensor<f32>) -> tensor<f32>
  // S2:   return [[COMBINE]], [[ALL_REDUCE]] : tensor<24x8xf32>, tensor<f32>
  func.func @more_groups(%x: tensor<48x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<48x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "more_groups" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64, groups = 6 : i64}
      : (tensor<48x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<48x8xf32>, tensor<f32>)
    return %y, %aux : tensor<48x8xf32>, tensor<f32>
  }

  // How a token chooses is the layer's, whoever routes it.
  // S1-LABEL: func.func @routing(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S1-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route
  // S1-SAME:   {{%[a-z0-9_]+}} selection_bias({{%[a-z0-9_]+}})
  // S1-SAME:   {capacity = 2 : i64, expert_groups = 4 : i64, group_score = #moe<group_score top2>, renormalize,
  // S1-SAME:   routing_scale = 2.500000e+00 : f64, score = #moe<score sigmoid>, top_groups = 2 : i64}
  // S1-SAME:   : (tensor<8x16xf32>, tensor<16xf32>)
  // S1:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[SLICE]], [[SLOTS]]
  // S1-SAME:   : (tensor<8x8xf32>, tensor<8x4xi32>) -> tensor<16x2x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DISPATCH]] over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<16x2x8xf32>) -> tensor<8x4x8xf32>
  // S1:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<8x4x8xf32>) -> tensor<16x2x8xf32>
  // S1:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_TO_ALL2]], [[SLOTS]] weights([[WEIGHTS]])
  // S1-SAME:   : (tensor<16x2x8xf32>, tensor<8x4xi32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[COMBINE]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   return [[ALL_GATHER]] : tensor<16x8xf32>
  // S2-LABEL: func.func @routing(
  // S2:   {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // S2-SAME:   [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route
  // S2-SAME:   {{%[a-z0-9_]+}} selection_bias({{%[a-z0-9_]+}})
  // S2-SAME:   {capacity = 4 : i64, expert_groups = 4 : i64, group_score = #moe<group_score top2>, renormalize,
  // S2-SAME:   routing_scale = 2.500000e+00 : f64, score = #moe<score sigmoid>, top_groups = 2 : i64}
  // S2-SAME:   : (tensor<16x16xf32>, tensor<16xf32>)
  // S2:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch {{%[a-z0-9_]+}}, [[SLOTS]]
  // S2-SAME:   : (tensor<16x8xf32>, tensor<16x4xi32>) -> tensor<16x4x8xf32>
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[DISPATCH]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<16x4x8xf32>) -> tensor<16x2x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[SLICE]] over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<16x2x8xf32>) -> tensor<8x4x8xf32>
  // S2:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<8x4x8xf32>) -> tensor<16x2x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL2]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<16x2x8xf32>) -> tensor<16x4x8xf32>
  // S2:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[ALL_GATHER]], [[SLOTS]] weights([[WEIGHTS]])
  // S2-SAME:   : (tensor<16x4x8xf32>, tensor<16x4xi32>, tensor<16x4xf32>) -> tensor<16x8xf32>
  // S2:   return [[COMBINE]] : tensor<16x8xf32>
  func.func @routing(%x: tensor<32x8xf32>, %g: tensor<8x16xf32>, %sb: tensor<16xf32>, %w1: tensor<16x8x16xf32>, %w2: tensor<16x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "routing" %x gate(%g) selection_bias(%sb) experts(%w1, %w2)
      {top_k = 4 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64, score = #moe<score sigmoid>,
       renormalize, routing_scale = 2.5 : f64, expert_groups = 4 : i64, top_groups = 2 : i64, group_score = #moe<group_score top2>}
      : (tensor<32x8xf32>, tensor<8x16xf32>, tensor<16xf32>, tensor<16x8x16xf32>, tensor<16x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}
