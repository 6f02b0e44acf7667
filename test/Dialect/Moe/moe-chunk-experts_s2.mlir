// RUN: moe-opt %s \
// RUN:   --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-chunk-experts{chunks=2 hidden-ring=0}),func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s

// Parm's S2 in two chunks: the split over mp, the fused exchanges and the sum are each chunk's own, the gather over mp too.

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // CHECK-LABEL: func.func @capacity(
  // CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, [[ARG1:%[a-z0-9_]+]]:
  // CHECK-SAME:   tensor<8x4xf32> {moe.layout = #moe.layout<[], []>}, [[ARG2:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout =
  // CHECK-SAME:   #moe.layout<[ep], [], [esp]>}, [[ARG3:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp],
  // CHECK-SAME:   []>}) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>})
  // CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[ARG3]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[ARG2]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[ARG1]] over <"dp", 4, 2> : tensor<8x4xf32>
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[ARG0]], [[TO_VARYING3]] : (tensor<16x8xf32>, tensor<8x4xf32>) ->
  // CHECK-SAME:     tensor<16x4xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // CHECK-SAME:     [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route [[MATMUL]] {capacity = 8 : i64, chunk_rows = 4 : i64, chunks = 2 : i64} :
  // CHECK-SAME:     (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<2x4xi32>,
  // CHECK-SAME:     tensor<f32>)
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[ARG0]], [[SLOTS]] : (tensor<16x8xf32>, tensor<16x2xi32>) ->
  // CHECK-SAME:     tensor<8x4x8xf32>
  // CHECK-NEXT:   [[SPLIT:%[a-z0-9_]+]]:2 = moe.split [[DISPATCH]] : (tensor<8x4x8xf32>) -> (tensor<4x4x8xf32>, tensor<4x4x8xf32>)
  // CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[SPLIT]]#0 over <"mp", 2, 1> {dim = 1 : i64, moe.chunk = #moe.chunk<0 of 2>,
  // CHECK-SAME:     moe.ring = #moe.ring<"capacity.0.0", 2>} : (tensor<4x4x8xf32>) -> tensor<4x2x8xf32>
  // CHECK-NEXT:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[SLICE]] {blocks = 2 : i64, moe.chunk = #moe.chunk<0 of 2>, moe.ring =
  // CHECK-SAME:     #moe.ring<"capacity.0.1", 2>} : (tensor<4x2x8xf32>) -> tensor<8x2x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1> {concat_dim = 1 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.2", 2>, split_dim = 0 : i64} : (tensor<8x2x8xf32>) ->
  // CHECK-SAME:     tensor<2x8x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL]], [[TO_VARYING2]] {moe.chunk = #moe.chunk<0 of
  // CHECK-SAME:     2>} : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] {kind = #moe<activation relu>, moe.chunk =
  // CHECK-SAME:     #moe.chunk<0 of 2>} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]] {moe.chunk = #moe.chunk<0 of
  // CHECK-SAME:     2>, moe.ring = #moe.ring<"capacity.0.5", 2>} : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[GROUPED_MATMUL2]] over <"ep_esp", 4, 1> {concat_dim = 0 : i64,
  // CHECK-SAME:     moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.6", 2>, split_dim = 1 : i64} :
  // CHECK-SAME:     (tensor<2x8x8xf32>) -> tensor<8x2x8xf32>
  // CHECK-NEXT:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64, moe.chunk = #moe.chunk<0 of
  // CHECK-SAME:     2>, moe.ring = #moe.ring<"capacity.0.7", 2>} : (tensor<8x2x8xf32>) -> tensor<4x2x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 1 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.8", 2>} : (tensor<4x2x8xf32>) -> tensor<4x4x8xf32>
  // CHECK-NEXT:   [[SLICE2:%[a-z0-9_]+]] = moe.slice [[SPLIT]]#1 over <"mp", 2, 1> {dim = 1 : i64, moe.chunk = #moe.chunk<1 of 2>,
  // CHECK-SAME:     moe.ring = #moe.ring<"capacity.0.0", 2>} : (tensor<4x4x8xf32>) -> tensor<4x2x8xf32>
  // CHECK-NEXT:   [[DUMP2:%[a-z0-9_]+]] = moe.dump [[SLICE2]] {blocks = 2 : i64, moe.chunk = #moe.chunk<1 of 2>, moe.ring =
  // CHECK-SAME:     #moe.ring<"capacity.0.1", 2>} : (tensor<4x2x8xf32>) -> tensor<8x2x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL3:%[a-z0-9_]+]] = moe.all_to_all [[DUMP2]] over <"ep_esp", 4, 1> {concat_dim = 1 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<1 of 2>, moe.ring = #moe.ring<"capacity.0.2", 2>, split_dim = 0 : i64} : (tensor<8x2x8xf32>) ->
  // CHECK-SAME:     tensor<2x8x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL3:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL3]], [[TO_VARYING2]] {moe.chunk = #moe.chunk<1
  // CHECK-SAME:     of 2>} : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // CHECK-NEXT:   [[ACTIVATION2:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL3]] {kind = #moe<activation relu>, moe.chunk =
  // CHECK-SAME:     #moe.chunk<1 of 2>} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL4:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION2]], [[TO_VARYING]] {moe.chunk = #moe.chunk<1
  // CHECK-SAME:     of 2>, moe.ring = #moe.ring<"capacity.0.5", 2>} : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL4:%[a-z0-9_]+]] = moe.all_to_all [[GROUPED_MATMUL4]] over <"ep_esp", 4, 1> {concat_dim = 0 : i64,
  // CHECK-SAME:     moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"capacity.0.6", 2>, split_dim = 1 : i64} :
  // CHECK-SAME:     (tensor<2x8x8xf32>) -> tensor<8x2x8xf32>
  // CHECK-NEXT:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL4]] {blocks = 2 : i64, moe.chunk = #moe.chunk<1 of
  // CHECK-SAME:     2>, moe.ring = #moe.ring<"capacity.0.7", 2>} : (tensor<8x2x8xf32>) -> tensor<4x2x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE2]] over <"mp", 2, 1> {dim = 1 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<1 of 2>, moe.ring = #moe.ring<"capacity.0.8", 2>} : (tensor<4x2x8xf32>) -> tensor<4x4x8xf32>
  // CHECK-NEXT:   [[CONCAT:%[a-z0-9_]+]] = moe.concat [[ALL_GATHER]], [[ALL_GATHER2]] : (tensor<4x4x8xf32>, tensor<4x4x8xf32>) ->
  // CHECK-SAME:     tensor<8x4x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[CONCAT]], [[SLOTS]] weights([[WEIGHTS]]) : (tensor<8x4x8xf32>,
  // CHECK-SAME:     tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   return [[COMBINE]] : tensor<16x8xf32>
  func.func @capacity(%x: tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }

  // CHECK-LABEL: func.func @dropless(
  // CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, [[ARG1:%[a-z0-9_]+]]:
  // CHECK-SAME:   tensor<8x4xf32> {moe.layout = #moe.layout<[], []>}, [[ARG2:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout =
  // CHECK-SAME:   #moe.layout<[ep], [], [esp]>}, [[ARG3:%[a-z0-9_]+]]: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp],
  // CHECK-SAME:   []>}) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>})
  // CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[ARG3]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[ARG2]] over <"edp", 2, 4> : tensor<2x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[ARG1]] over <"dp", 4, 2> : tensor<8x4xf32>
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[ARG0]], [[TO_VARYING3]] : (tensor<16x8xf32>, tensor<8x4xf32>) ->
  // CHECK-SAME:     tensor<16x4xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]],
  // CHECK-SAME:     [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] = moe.route [[MATMUL]] {chunk_rows = 16 : i64, chunks = 2 : i64} :
  // CHECK-SAME:     (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<2x4xi32>,
  // CHECK-SAME:     tensor<f32>)
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[ARG0]], [[SLOTS]] : (tensor<16x8xf32>, tensor<16x2xi32>) ->
  // CHECK-SAME:     tensor<32x8xf32>
  // CHECK-NEXT:   [[SPLIT:%[a-z0-9_]+]]:2 = moe.split [[DISPATCH]] : (tensor<32x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>)
  // CHECK-NEXT:   [[SPLIT2:%[a-z0-9_]+]]:2 = moe.split [[COUNTS]] : (tensor<2x4xi32>) -> (tensor<1x4xi32>, tensor<1x4xi32>)
  // CHECK-NEXT:   [[SLICE_COUNTS:%[a-z0-9_]+]] = moe.slice_counts [[SPLIT2]]#0 over <"mp", 2, 1> {moe.chunk = #moe.chunk<0 of 2>,
  // CHECK-SAME:     rows = 16 : i64} : tensor<1x4xi32>
  // CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[SPLIT]]#0 over <"mp", 2, 1> {dim = 0 : i64, moe.chunk = #moe.chunk<0 of 2>,
  // CHECK-SAME:     moe.ring = #moe.ring<"dropless.0.1", 2>} : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[SLICE_COUNTS]] {blocks = 2 : i64, dim = 1 : i64, moe.chunk = #moe.chunk<0 of
  // CHECK-SAME:     2>} : (tensor<1x4xi32>) -> tensor<1x8xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1> {concat_dim = 0 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<0 of 2>, split_dim = 1 : i64} : (tensor<1x8xi32>) -> tensor<4x2xi32>
  // CHECK-NEXT:   [[DUMP2:%[a-z0-9_]+]] = moe.dump [[SLICE]] {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.4",
  // CHECK-SAME:     2>} : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[DUMP2]], [[SLICE_COUNTS]], [[ALL_TO_ALL]] over <"ep_esp", 4,
  // CHECK-SAME:     1> {copies = 2 : i64, direction = #moe<direction to_experts>, moe.chunk = #moe.chunk<0 of 2>, moe.ring =
  // CHECK-SAME:     #moe.ring<"dropless.0.5", 2>} : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL_V]], [[TO_VARYING2]] counts([[ALL_TO_ALL]])
  // CHECK-SAME:     {moe.chunk = #moe.chunk<0 of 2>} : (tensor<32x8xf32>, tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] counts([[ALL_TO_ALL]]) {kind = #moe<activation
  // CHECK-SAME:     relu>, moe.chunk = #moe.chunk<0 of 2>} : (tensor<32x8xf32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]] counts([[ALL_TO_ALL]])
  // CHECK-SAME:     {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.8", 2>} : (tensor<32x8xf32>,
  // CHECK-SAME:     tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v [[GROUPED_MATMUL2]], [[SLICE_COUNTS]], [[ALL_TO_ALL]] over
  // CHECK-SAME:     <"ep_esp", 4, 1> {copies = 2 : i64, direction = #moe<direction from_experts>, moe.chunk = #moe.chunk<0 of 2>,
  // CHECK-SAME:     moe.ring = #moe.ring<"dropless.0.9", 2>} : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) ->
  // CHECK-SAME:     tensor<16x8xf32>
  // CHECK-NEXT:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_V2]] {moe.chunk = #moe.chunk<0 of 2>, moe.ring =
  // CHECK-SAME:     #moe.ring<"dropless.0.10", 2>} : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 0 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.11", 2>} : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[SLICE_COUNTS2:%[a-z0-9_]+]] = moe.slice_counts [[SPLIT2]]#1 over <"mp", 2, 1> {moe.chunk = #moe.chunk<1 of 2>,
  // CHECK-SAME:     rows = 16 : i64} : tensor<1x4xi32>
  // CHECK-NEXT:   [[SLICE2:%[a-z0-9_]+]] = moe.slice [[SPLIT]]#1 over <"mp", 2, 1> {dim = 0 : i64, moe.chunk = #moe.chunk<1 of 2>,
  // CHECK-SAME:     moe.ring = #moe.ring<"dropless.0.1", 2>} : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT:   [[DUMP3:%[a-z0-9_]+]] = moe.dump [[SLICE_COUNTS2]] {blocks = 2 : i64, dim = 1 : i64, moe.chunk = #moe.chunk<1 of
  // CHECK-SAME:     2>} : (tensor<1x4xi32>) -> tensor<1x8xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[DUMP3]] over <"ep_esp", 4, 1> {concat_dim = 0 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<1 of 2>, split_dim = 1 : i64} : (tensor<1x8xi32>) -> tensor<4x2xi32>
  // CHECK-NEXT:   [[DUMP4:%[a-z0-9_]+]] = moe.dump [[SLICE2]] {moe.chunk = #moe.chunk<1 of 2>, moe.ring =
  // CHECK-SAME:     #moe.ring<"dropless.0.4", 2>} : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V3:%[a-z0-9_]+]] = moe.all_to_all_v [[DUMP4]], [[SLICE_COUNTS2]], [[ALL_TO_ALL2]] over <"ep_esp",
  // CHECK-SAME:     4, 1> {copies = 2 : i64, direction = #moe<direction to_experts>, moe.chunk = #moe.chunk<1 of 2>, moe.ring =
  // CHECK-SAME:     #moe.ring<"dropless.0.5", 2>} : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL3:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL_V3]], [[TO_VARYING2]] counts([[ALL_TO_ALL2]])
  // CHECK-SAME:     {moe.chunk = #moe.chunk<1 of 2>} : (tensor<32x8xf32>, tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[ACTIVATION2:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL3]] counts([[ALL_TO_ALL2]]) {kind = #moe<activation
  // CHECK-SAME:     relu>, moe.chunk = #moe.chunk<1 of 2>} : (tensor<32x8xf32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL4:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION2]], [[TO_VARYING]] counts([[ALL_TO_ALL2]])
  // CHECK-SAME:     {moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"dropless.0.8", 2>} : (tensor<32x8xf32>,
  // CHECK-SAME:     tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V4:%[a-z0-9_]+]] = moe.all_to_all_v [[GROUPED_MATMUL4]], [[SLICE_COUNTS2]], [[ALL_TO_ALL2]] over
  // CHECK-SAME:     <"ep_esp", 4, 1> {copies = 2 : i64, direction = #moe<direction from_experts>, moe.chunk = #moe.chunk<1 of 2>,
  // CHECK-SAME:     moe.ring = #moe.ring<"dropless.0.9", 2>} : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) ->
  // CHECK-SAME:     tensor<16x8xf32>
  // CHECK-NEXT:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_V4]] {moe.chunk = #moe.chunk<1 of 2>, moe.ring =
  // CHECK-SAME:     #moe.ring<"dropless.0.10", 2>} : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE2]] over <"mp", 2, 1> {dim = 0 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<1 of 2>, moe.ring = #moe.ring<"dropless.0.11", 2>} : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[CONCAT:%[a-z0-9_]+]] = moe.concat [[ALL_GATHER]], [[ALL_GATHER2]] : (tensor<16x8xf32>, tensor<16x8xf32>) ->
  // CHECK-SAME:     tensor<32x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[CONCAT]], [[SLOTS]] weights([[WEIGHTS]]) : (tensor<32x8xf32>,
  // CHECK-SAME:     tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   return [[COMBINE]] : tensor<16x8xf32>
  func.func @dropless(%x: tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
