// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-chunk-experts{chunks=2}),func.func(moe-verify-spmd))" \
// RUN:   -split-input-file | FileCheck %s

// The baseline's layers in two chunks, each with the gather over esp and the exchanges over ep of its own. What is exchanged
// is in rings of two places, what is inside the experts in rings of one.

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // An expert takes T = 2 * 16 / 4 = 8 rows for 16 tokens, and a chunk 4 of them, those of expert e in chunk c at c E + e.
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
  // CHECK-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[WEIGHTS]] over <"mp", 2, 1> : tensor<16x2xf32>
  // CHECK-NEXT:   [[TO_VARYING5:%[a-z0-9_]+]] = moe.to_varying [[SLOTS]] over <"mp", 2, 1> : tensor<16x2xi32>
  // CHECK-NEXT:   [[TO_VARYING6:%[a-z0-9_]+]] = moe.to_varying [[ARG0]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING6]], [[TO_VARYING5]] : (tensor<16x8xf32>, tensor<16x2xi32>)
  // CHECK-SAME:     -> tensor<8x4x8xf32>
  // CHECK-NEXT:   [[SPLIT:%[a-z0-9_]+]]:2 = moe.split [[DISPATCH]] : (tensor<8x4x8xf32>) -> (tensor<4x4x8xf32>, tensor<4x4x8xf32>)
  // CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[SPLIT]]#0 over <"esp", 2, 1> {dim = 1 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.0", 2>} : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING7:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER]] over <"esp", 2, 1> {moe.chunk = #moe.chunk<0 of 2>,
  // CHECK-SAME:     moe.ring = #moe.ring<"capacity.0.1", 2>} : tensor<4x8x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[TO_VARYING7]] over <"ep", 2, 2> {concat_dim = 1 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.2", 2>, split_dim = 0 : i64} : (tensor<4x8x8xf32>) ->
  // CHECK-SAME:     tensor<2x16x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL]], [[TO_VARYING2]] {moe.chunk = #moe.chunk<0 of
  // CHECK-SAME:     2>, moe.ring = #moe.ring<"capacity.0.3", 1>} : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] {kind = #moe<activation relu>, moe.chunk =
  // CHECK-SAME:     #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.4", 1>} : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]] {moe.chunk = #moe.chunk<0 of
  // CHECK-SAME:     2>, moe.ring = #moe.ring<"capacity.0.5", 2>} : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[GROUPED_MATMUL2]] over <"esp", 2, 1> {moe.chunk = #moe.chunk<0 of
  // CHECK-SAME:     2>, moe.ring = #moe.ring<"capacity.0.6", 2>} : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[ALL_REDUCE]] over <"ep", 2, 2> {concat_dim = 0 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.7", 2>, split_dim = 1 : i64} : (tensor<2x16x8xf32>) ->
  // CHECK-SAME:     tensor<4x8x8xf32>
  // CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[ALL_TO_ALL2]] over <"esp", 2, 1> {dim = 1 : i64, moe.chunk = #moe.chunk<0 of
  // CHECK-SAME:     2>, moe.ring = #moe.ring<"capacity.0.8", 1>} : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[SPLIT]]#1 over <"esp", 2, 1> {dim = 1 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<1 of 2>, moe.ring = #moe.ring<"capacity.0.0", 2>} : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // CHECK-NEXT:   [[TO_VARYING8:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER2]] over <"esp", 2, 1> {moe.chunk = #moe.chunk<1 of 2>,
  // CHECK-SAME:     moe.ring = #moe.ring<"capacity.0.1", 2>} : tensor<4x8x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL3:%[a-z0-9_]+]] = moe.all_to_all [[TO_VARYING8]] over <"ep", 2, 2> {concat_dim = 1 : i64, moe.chunk
  // CHECK-SAME:     = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"capacity.0.2", 2>, split_dim = 0 : i64} : (tensor<4x8x8xf32>) ->
  // CHECK-SAME:     tensor<2x16x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL3:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL3]], [[TO_VARYING2]] {moe.chunk = #moe.chunk<1
  // CHECK-SAME:     of 2>, moe.ring = #moe.ring<"capacity.0.3", 1>} : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
  // CHECK-NEXT:   [[ACTIVATION2:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL3]] {kind = #moe<activation relu>, moe.chunk =
  // CHECK-SAME:     #moe.chunk<1 of 2>, moe.ring = #moe.ring<"capacity.0.4", 1>} : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL4:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION2]], [[TO_VARYING]] {moe.chunk = #moe.chunk<1
  // CHECK-SAME:     of 2>, moe.ring = #moe.ring<"capacity.0.5", 2>} : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[GROUPED_MATMUL4]] over <"esp", 2, 1> {moe.chunk = #moe.chunk<1 of
  // CHECK-SAME:     2>, moe.ring = #moe.ring<"capacity.0.6", 2>} : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL4:%[a-z0-9_]+]] = moe.all_to_all [[ALL_REDUCE2]] over <"ep", 2, 2> {concat_dim = 0 : i64, moe.chunk
  // CHECK-SAME:     = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"capacity.0.7", 2>, split_dim = 1 : i64} : (tensor<2x16x8xf32>) ->
  // CHECK-SAME:     tensor<4x8x8xf32>
  // CHECK-NEXT:   [[SLICE2:%[a-z0-9_]+]] = moe.slice [[ALL_TO_ALL4]] over <"esp", 2, 1> {dim = 1 : i64, moe.chunk = #moe.chunk<1
  // CHECK-SAME:     of 2>, moe.ring = #moe.ring<"capacity.0.8", 1>} : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // CHECK-NEXT:   [[CONCAT:%[a-z0-9_]+]] = moe.concat [[SLICE]], [[SLICE2]] : (tensor<4x4x8xf32>, tensor<4x4x8xf32>) ->
  // CHECK-SAME:     tensor<8x4x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[CONCAT]], [[TO_VARYING5]] weights([[TO_VARYING4]]) : (tensor<8x4x8xf32>,
  // CHECK-SAME:     tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ASSUME_REPLICATED:%[a-z0-9_]+]] = moe.assume_replicated [[COMBINE]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   return [[ASSUME_REPLICATED]] : tensor<16x8xf32>
  func.func @capacity(%x: tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }

  // A chunk is 8 of 16 tokens with room for their 16 choices; it counts its rows by itself.
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
  // CHECK-NEXT:   [[TO_VARYING4:%[a-z0-9_]+]] = moe.to_varying [[WEIGHTS]] over <"mp", 2, 1> : tensor<16x2xf32>
  // CHECK-NEXT:   [[TO_VARYING5:%[a-z0-9_]+]] = moe.to_varying [[SLOTS]] over <"mp", 2, 1> : tensor<16x2xi32>
  // CHECK-NEXT:   [[TO_VARYING6:%[a-z0-9_]+]] = moe.to_varying [[ARG0]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[TO_VARYING6]], [[TO_VARYING5]] : (tensor<16x8xf32>, tensor<16x2xi32>)
  // CHECK-SAME:     -> tensor<32x8xf32>
  // CHECK-NEXT:   [[SPLIT:%[a-z0-9_]+]]:2 = moe.split [[DISPATCH]] : (tensor<32x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>)
  // CHECK-NEXT:   [[SPLIT2:%[a-z0-9_]+]]:2 = moe.split [[COUNTS]] : (tensor<2x4xi32>) -> (tensor<1x4xi32>, tensor<1x4xi32>)
  // CHECK-NEXT:   [[TO_VARYING7:%[a-z0-9_]+]] = moe.to_varying [[SPLIT2]]#0 over <"mp", 2, 1> {moe.chunk = #moe.chunk<0 of 2>} :
  // CHECK-SAME:     tensor<1x4xi32>
  // CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[SPLIT]]#0 over <"esp", 2, 1> {dim = 0 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.1", 2>} : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[TO_VARYING8:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER]] over <"esp", 2, 1> {moe.chunk = #moe.chunk<0 of 2>,
  // CHECK-SAME:     moe.ring = #moe.ring<"dropless.0.2", 2>} : tensor<32x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[TO_VARYING7]] over <"esp", 2, 1> {dim = 0 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<0 of 2>} : (tensor<1x4xi32>) -> tensor<2x4xi32>
  // CHECK-NEXT:   [[TO_VARYING9:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER2]] over <"mp", 2, 1> {moe.chunk = #moe.chunk<0 of 2>}
  // CHECK-SAME:     : tensor<2x4xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[ALL_GATHER2]] over <"ep", 2, 2> {concat_dim = 0 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<0 of 2>, split_dim = 1 : i64} : (tensor<2x4xi32>) -> tensor<4x2xi32>
  // CHECK-NEXT:   [[TO_VARYING10:%[a-z0-9_]+]] = moe.to_varying [[ALL_TO_ALL]] over <"mp", 2, 1> {moe.chunk = #moe.chunk<0 of 2>}
  // CHECK-SAME:     : tensor<4x2xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[TO_VARYING8]], [[TO_VARYING9]], [[TO_VARYING10]] over <"ep",
  // CHECK-SAME:     2, 2> {direction = #moe<direction to_experts>, moe.chunk = #moe.chunk<0 of 2>, moe.ring =
  // CHECK-SAME:     #moe.ring<"dropless.0.7", 2>} : (tensor<32x8xf32>, tensor<2x4xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL_V]], [[TO_VARYING2]] counts([[TO_VARYING10]])
  // CHECK-SAME:     {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.8", 1>} : (tensor<64x8xf32>,
  // CHECK-SAME:     tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] counts([[TO_VARYING10]]) {kind = #moe<activation
  // CHECK-SAME:     relu>, moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.9", 1>} : (tensor<64x8xf32>,
  // CHECK-SAME:     tensor<4x2xi32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[TO_VARYING]] counts([[TO_VARYING10]])
  // CHECK-SAME:     {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.10", 2>} : (tensor<64x8xf32>,
  // CHECK-SAME:     tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[GROUPED_MATMUL2]] counts([[ALL_TO_ALL]]) over <"esp", 2, 1>
  // CHECK-SAME:     {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.11", 2>} : (tensor<64x8xf32>, tensor<4x2xi32>)
  // CHECK-SAME:     -> tensor<64x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v [[ALL_REDUCE]], [[ALL_GATHER2]], [[ALL_TO_ALL]] over <"ep", 2,
  // CHECK-SAME:     2> {direction = #moe<direction from_experts>, moe.chunk = #moe.chunk<0 of 2>, moe.ring =
  // CHECK-SAME:     #moe.ring<"dropless.0.12", 2>} : (tensor<64x8xf32>, tensor<2x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[ALL_TO_ALL_V2]] over <"esp", 2, 1> {dim = 0 : i64, moe.chunk = #moe.chunk<0
  // CHECK-SAME:     of 2>, moe.ring = #moe.ring<"dropless.0.13", 1>} : (tensor<32x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[TO_VARYING11:%[a-z0-9_]+]] = moe.to_varying [[SPLIT2]]#1 over <"mp", 2, 1> {moe.chunk = #moe.chunk<1 of 2>} :
  // CHECK-SAME:     tensor<1x4xi32>
  // CHECK-NEXT:   [[ALL_GATHER3:%[a-z0-9_]+]] = moe.all_gather [[SPLIT]]#1 over <"esp", 2, 1> {dim = 0 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<1 of 2>, moe.ring = #moe.ring<"dropless.0.1", 2>} : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[TO_VARYING12:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER3]] over <"esp", 2, 1> {moe.chunk = #moe.chunk<1 of
  // CHECK-SAME:     2>, moe.ring = #moe.ring<"dropless.0.2", 2>} : tensor<32x8xf32>
  // CHECK-NEXT:   [[ALL_GATHER4:%[a-z0-9_]+]] = moe.all_gather [[TO_VARYING11]] over <"esp", 2, 1> {dim = 0 : i64, moe.chunk =
  // CHECK-SAME:     #moe.chunk<1 of 2>} : (tensor<1x4xi32>) -> tensor<2x4xi32>
  // CHECK-NEXT:   [[TO_VARYING13:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER4]] over <"mp", 2, 1> {moe.chunk = #moe.chunk<1 of 2>}
  // CHECK-SAME:     : tensor<2x4xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[ALL_GATHER4]] over <"ep", 2, 2> {concat_dim = 0 : i64, moe.chunk
  // CHECK-SAME:     = #moe.chunk<1 of 2>, split_dim = 1 : i64} : (tensor<2x4xi32>) -> tensor<4x2xi32>
  // CHECK-NEXT:   [[TO_VARYING14:%[a-z0-9_]+]] = moe.to_varying [[ALL_TO_ALL2]] over <"mp", 2, 1> {moe.chunk = #moe.chunk<1 of 2>}
  // CHECK-SAME:     : tensor<4x2xi32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V3:%[a-z0-9_]+]] = moe.all_to_all_v [[TO_VARYING12]], [[TO_VARYING13]], [[TO_VARYING14]] over
  // CHECK-SAME:     <"ep", 2, 2> {direction = #moe<direction to_experts>, moe.chunk = #moe.chunk<1 of 2>, moe.ring =
  // CHECK-SAME:     #moe.ring<"dropless.0.7", 2>} : (tensor<32x8xf32>, tensor<2x4xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL3:%[a-z0-9_]+]] = moe.grouped_matmul [[ALL_TO_ALL_V3]], [[TO_VARYING2]] counts([[TO_VARYING14]])
  // CHECK-SAME:     {moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"dropless.0.8", 1>} : (tensor<64x8xf32>,
  // CHECK-SAME:     tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[ACTIVATION2:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL3]] counts([[TO_VARYING14]]) {kind =
  // CHECK-SAME:     #moe<activation relu>, moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"dropless.0.9", 1>} :
  // CHECK-SAME:     (tensor<64x8xf32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL4:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION2]], [[TO_VARYING]] counts([[TO_VARYING14]])
  // CHECK-SAME:     {moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"dropless.0.10", 2>} : (tensor<64x8xf32>,
  // CHECK-SAME:     tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[GROUPED_MATMUL4]] counts([[ALL_TO_ALL2]]) over <"esp", 2, 1>
  // CHECK-SAME:     {moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"dropless.0.11", 2>} : (tensor<64x8xf32>, tensor<4x2xi32>)
  // CHECK-SAME:     -> tensor<64x8xf32>
  // CHECK-NEXT:   [[ALL_TO_ALL_V4:%[a-z0-9_]+]] = moe.all_to_all_v [[ALL_REDUCE2]], [[ALL_GATHER4]], [[ALL_TO_ALL2]] over <"ep",
  // CHECK-SAME:     2, 2> {direction = #moe<direction from_experts>, moe.chunk = #moe.chunk<1 of 2>, moe.ring =
  // CHECK-SAME:     #moe.ring<"dropless.0.12", 2>} : (tensor<64x8xf32>, tensor<2x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // CHECK-NEXT:   [[SLICE2:%[a-z0-9_]+]] = moe.slice [[ALL_TO_ALL_V4]] over <"esp", 2, 1> {dim = 0 : i64, moe.chunk = #moe.chunk<1
  // CHECK-SAME:     of 2>, moe.ring = #moe.ring<"dropless.0.13", 1>} : (tensor<32x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[CONCAT:%[a-z0-9_]+]] = moe.concat [[SLICE]], [[SLICE2]] : (tensor<16x8xf32>, tensor<16x8xf32>) ->
  // CHECK-SAME:     tensor<32x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[CONCAT]], [[TO_VARYING5]] weights([[TO_VARYING4]]) : (tensor<32x8xf32>,
  // CHECK-SAME:     tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:   [[ASSUME_REPLICATED:%[a-z0-9_]+]] = moe.assume_replicated [[COMBINE]] over <"mp", 2, 1> : tensor<16x8xf32>
  // CHECK-NEXT:   return [[ASSUME_REPLICATED]] : tensor<16x8xf32>
  func.func @dropless(%x: tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
