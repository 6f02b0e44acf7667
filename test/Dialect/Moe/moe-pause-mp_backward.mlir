// RUN: moe-opt %s -split-input-file \
// RUN:     --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s1},moe-differentiate,moe-verify-spmd),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=S1 --implicit-check-not="= moe.all_" \
// RUN:       --implicit-check-not="= moe.reduce" --implicit-check-not="= moe.slice %" --implicit-check-not="= moe.dump" --implicit-check-not="= moe.local_reduce"
// RUN: moe-opt %s -split-input-file \
// RUN:     --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2},moe-differentiate,moe-verify-spmd),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=S2 --implicit-check-not="= moe.all_" \
// RUN:       --implicit-check-not="= moe.reduce" --implicit-check-not="= moe.slice %" --implicit-check-not="= moe.dump" --implicit-check-not="= moe.local_reduce"

// The backward is what moe-differentiate makes of the forward, and as the paper has it: where the baseline's is AG_ESP(X) + 2 A2A_EP(X) +
// RS_ESP(X) (moe-differentiate-baseline.mlir), S1's and S2's is 2 A2A_EP&ESP(y) + AG_MP, of the sizes of their forward, dumps and local sums
// having changed places; what they slice needs no exchange. Then come the gradient sums, of the gate's and the experts' weights.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // y = 8x4x8 in all four AlltoAlls. S1 gathers tokens both ways, and the gate's gradient is of the member's own ones: summed over mp and dp.
  // In S2 all members of mp have all gradients of the gate: summed over dp alone. The experts' are summed over edp in both.
  // S1-LABEL: func.func @capacity(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   [[DUMP:%[a-z0-9_]+]] = moe.dump {{%[a-z0-9_]+}} {blocks = 2 : i64}
  // S1-SAME:   : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
  // S1:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
  // S1:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 4, 2>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1:   [[SLICE2:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   [[DUMP2:%[a-z0-9_]+]] = moe.dump {{%[a-z0-9_]+}} {blocks = 2 : i64}
  // S1-SAME:   : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S1:   [[ALL_TO_ALL3:%[a-z0-9_]+]] = moe.all_to_all [[DUMP2]] over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
  // S1:   [[ALL_TO_ALL4:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
  // S1:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL4]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S1:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   [[ALL_REDUCE3:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // S1:   [[ALL_REDUCE4:%[a-z0-9_]+]] = moe.all_reduce [[ALL_REDUCE3]] over <"dp", 4, 2>
  // S1-SAME:   : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // S1:   [[ALL_REDUCE5:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S1-SAME:   : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // S1:   [[ALL_REDUCE6:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S1-SAME:   : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // S1:   return [[ALL_GATHER]], [[ALL_REDUCE2]], [[ALL_GATHER2]], [[ALL_REDUCE4]], [[ALL_REDUCE5]],
  // S1-SAME:   [[ALL_REDUCE6]] : tensor<16x8xf32>, tensor<f32>, tensor<16x8xf32>, tensor<8x4xf32>,
  // S1-SAME:   tensor<2x8x8xf32>, tensor<2x8x8xf32>
  // S2-LABEL: func.func @capacity(
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[SLICE]] {blocks = 2 : i64} : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
  // S2:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
  // S2:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 4, 2>
  // S2-SAME:   : (tensor<f32>) -> tensor<f32>
  // S2:   [[SLICE2:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[DUMP2:%[a-z0-9_]+]] = moe.dump [[SLICE2]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S2:   [[ALL_TO_ALL3:%[a-z0-9_]+]] = moe.all_to_all [[DUMP2]] over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
  // S2:   [[ALL_TO_ALL4:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
  // S2:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL4]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE2]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 4, 2>
  // S2-SAME:   : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // S2:   [[ALL_REDUCE3:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S2-SAME:   : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // S2:   [[ALL_REDUCE4:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S2-SAME:   : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // S2:   return {{%[a-z0-9_]+}}, [[ALL_REDUCE]],
  // S2-SAME:   {{%[a-z0-9_]+}}, [[ALL_REDUCE2]], [[ALL_REDUCE3]], [[ALL_REDUCE4]]
  // S2-SAME:   : tensor<16x8xf32>, tensor<f32>, tensor<16x8xf32>, tensor<8x4xf32>, tensor<2x8x8xf32>,
  // S2-SAME:   tensor<2x8x8xf32>
  func.func @capacity(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) ->
                      (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Dropless form: the same with ragged exchanges; the counts of the forward serve the backward, with as many copies.
  // S1-LABEL: func.func @dropless(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   [[DUMP:%[a-z0-9_]+]] = moe.dump {{%[a-z0-9_]+}} {blocks = 2 : i64, dim = 1 : i64}
  // S1-SAME:   : (tensor<1x4xi32>) -> tensor<1x8xi32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<1x8xi32>) -> tensor<4x2xi32>
  // S1:   [[DUMP2:%[a-z0-9_]+]] = moe.dump {{%[a-z0-9_]+}} : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // S1:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[DUMP2]],
  // S1-SAME:   {{%[a-z0-9_]+}}, [[ALL_TO_ALL]] over <"ep_esp", 4, 1>
  // S1-SAME:   {copies = 2 : i64, direction = #moe<direction to_experts>}
  // S1-SAME:   : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // S1:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v {{%[a-z0-9_]+}},
  // S1-SAME:   {{%[a-z0-9_]+}}, [[ALL_TO_ALL]] over <"ep_esp", 4, 1>
  // S1-SAME:   {copies = 2 : i64, direction = #moe<direction from_experts>}
  // S1-SAME:   : (tensor<64x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // S1:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_V2]]
  // S1-SAME:   : (tensor<32x8xf32>) -> tensor<16x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 4, 2>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1:   [[SLICE2:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   [[DUMP3:%[a-z0-9_]+]] = moe.dump {{%[a-z0-9_]+}} : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // S1:   [[ALL_TO_ALL_V3:%[a-z0-9_]+]] = moe.all_to_all_v [[DUMP3]],
  // S1-SAME:   {{%[a-z0-9_]+}}, [[ALL_TO_ALL]] over <"ep_esp", 4, 1>
  // S1-SAME:   {copies = 2 : i64, direction = #moe<direction to_experts>}
  // S1-SAME:   : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // S1:   [[ALL_TO_ALL_V4:%[a-z0-9_]+]] = moe.all_to_all_v {{%[a-z0-9_]+}},
  // S1-SAME:   {{%[a-z0-9_]+}}, [[ALL_TO_ALL]] over <"ep_esp", 4, 1>
  // S1-SAME:   {copies = 2 : i64, direction = #moe<direction from_experts>}
  // S1-SAME:   : (tensor<64x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // S1:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_V4]]
  // S1-SAME:   : (tensor<32x8xf32>) -> tensor<16x8xf32>
  // S1:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   [[ALL_REDUCE3:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // S1:   [[ALL_REDUCE4:%[a-z0-9_]+]] = moe.all_reduce [[ALL_REDUCE3]] over <"dp", 4, 2>
  // S1-SAME:   : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // S1:   [[ALL_REDUCE5:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S1-SAME:   : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // S1:   [[ALL_REDUCE6:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S1-SAME:   : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // S1:   return [[ALL_GATHER]], [[ALL_REDUCE2]], [[ALL_GATHER2]], [[ALL_REDUCE4]], [[ALL_REDUCE5]],
  // S1-SAME:   [[ALL_REDUCE6]] : tensor<16x8xf32>, tensor<f32>, tensor<16x8xf32>, tensor<8x4xf32>,
  // S1-SAME:   tensor<2x8x8xf32>, tensor<2x8x8xf32>
  // S2-LABEL: func.func @dropless(
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S2-SAME:   : (tensor<32x8xf32>) -> tensor<16x8xf32>
  // S2:   [[DUMP:%[a-z0-9_]+]] = moe.dump {{%[a-z0-9_]+}} {blocks = 2 : i64, dim = 1 : i64}
  // S2-SAME:   : (tensor<1x4xi32>) -> tensor<1x8xi32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<1x8xi32>) -> tensor<4x2xi32>
  // S2:   [[DUMP2:%[a-z0-9_]+]] = moe.dump [[SLICE]] : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // S2:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[DUMP2]],
  // S2-SAME:   {{%[a-z0-9_]+}}, [[ALL_TO_ALL]] over <"ep_esp", 4, 1>
  // S2-SAME:   {copies = 2 : i64, direction = #moe<direction to_experts>}
  // S2-SAME:   : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // S2:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v {{%[a-z0-9_]+}},
  // S2-SAME:   {{%[a-z0-9_]+}}, [[ALL_TO_ALL]] over <"ep_esp", 4, 1>
  // S2-SAME:   {copies = 2 : i64, direction = #moe<direction from_experts>}
  // S2-SAME:   : (tensor<64x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // S2:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_V2]]
  // S2-SAME:   : (tensor<32x8xf32>) -> tensor<16x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-SAME:   : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // S2:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 4, 2>
  // S2-SAME:   : (tensor<f32>) -> tensor<f32>
  // S2:   [[SLICE2:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S2-SAME:   : (tensor<32x8xf32>) -> tensor<16x8xf32>
  // S2:   [[DUMP3:%[a-z0-9_]+]] = moe.dump [[SLICE2]] : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // S2:   [[ALL_TO_ALL_V3:%[a-z0-9_]+]] = moe.all_to_all_v [[DUMP3]],
  // S2-SAME:   {{%[a-z0-9_]+}}, [[ALL_TO_ALL]] over <"ep_esp", 4, 1>
  // S2-SAME:   {copies = 2 : i64, direction = #moe<direction to_experts>}
  // S2-SAME:   : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  // S2:   [[ALL_TO_ALL_V4:%[a-z0-9_]+]] = moe.all_to_all_v {{%[a-z0-9_]+}},
  // S2-SAME:   {{%[a-z0-9_]+}}, [[ALL_TO_ALL]] over <"ep_esp", 4, 1>
  // S2-SAME:   {copies = 2 : i64, direction = #moe<direction from_experts>}
  // S2-SAME:   : (tensor<64x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  // S2:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_V4]]
  // S2-SAME:   : (tensor<32x8xf32>) -> tensor<16x8xf32>
  // S2:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE2]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-SAME:   : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // S2:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 4, 2>
  // S2-SAME:   : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // S2:   [[ALL_REDUCE3:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S2-SAME:   : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // S2:   [[ALL_REDUCE4:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S2-SAME:   : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // S2:   return {{%[a-z0-9_]+}}, [[ALL_REDUCE]],
  // S2-SAME:   {{%[a-z0-9_]+}}, [[ALL_REDUCE2]], [[ALL_REDUCE3]], [[ALL_REDUCE4]]
  // S2-SAME:   : tensor<16x8xf32>, tensor<f32>, tensor<16x8xf32>, tensor<8x4xf32>, tensor<2x8x8xf32>,
  // S2-SAME:   tensor<2x8x8xf32>
  func.func @dropless(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) ->
                      (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // The second bias is a share of esp's: its gradient is summed over edp and over the shards, which are mp's ranks here.
  // S1-LABEL: func.func @biases(
  // S1:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   [[DUMP:%[a-z0-9_]+]] = moe.dump {{%[a-z0-9_]+}} {blocks = 2 : i64}
  // S1-SAME:   : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
  // S1:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
  // S1:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S1:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 4, 2>
  // S1-SAME:   : (tensor<f32>) -> tensor<f32>
  // S1:   [[SLICE2:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<16x8xf32>) -> tensor<8x8xf32>
  // S1:   [[DUMP2:%[a-z0-9_]+]] = moe.dump {{%[a-z0-9_]+}} {blocks = 2 : i64}
  // S1-SAME:   : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S1:   [[ALL_TO_ALL3:%[a-z0-9_]+]] = moe.all_to_all [[DUMP2]] over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
  // S1:   [[ALL_TO_ALL4:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
  // S1:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL4]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S1:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1-SAME:   : (tensor<8x8xf32>) -> tensor<16x8xf32>
  // S1:   [[ALL_REDUCE3:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"mp", 2, 1>
  // S1-SAME:   : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // S1:   [[ALL_REDUCE4:%[a-z0-9_]+]] = moe.all_reduce [[ALL_REDUCE3]] over <"dp", 4, 2>
  // S1-SAME:   : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // S1:   [[ALL_REDUCE5:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S1-SAME:   : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // S1:   [[ALL_REDUCE6:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S1-SAME:   : (tensor<2x8xf32>) -> tensor<2x8xf32>
  // S1:   [[ALL_REDUCE7:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S1-SAME:   : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // S1:   [[ALL_REDUCE8:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S1-SAME:   : (tensor<2x8xf32>) -> tensor<2x8xf32>
  // S1:   [[ALL_REDUCE9:%[a-z0-9_]+]] = moe.all_reduce [[ALL_REDUCE8]] over <"mp", 2, 1>
  // S1-SAME:   : (tensor<2x8xf32>) -> tensor<2x8xf32>
  // S1:   return [[ALL_GATHER]], [[ALL_REDUCE2]], [[ALL_GATHER2]], [[ALL_REDUCE4]], [[ALL_REDUCE5]],
  // S1-SAME:   [[ALL_REDUCE7]], [[ALL_REDUCE6]], [[ALL_REDUCE9]]
  // S1-SAME:   : tensor<16x8xf32>, tensor<f32>, tensor<16x8xf32>, tensor<8x4xf32>, tensor<2x8x8xf32>,
  // S1-SAME:   tensor<2x8x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
  // S2-LABEL: func.func @biases(
  // S2:   [[SLICE:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[SLICE]] {blocks = 2 : i64} : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
  // S2:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
  // S2:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 4, 2>
  // S2-SAME:   : (tensor<f32>) -> tensor<f32>
  // S2:   [[SLICE2:%[a-z0-9_]+]] = moe.slice {{%[a-z0-9_]+}} over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[DUMP2:%[a-z0-9_]+]] = moe.dump [[SLICE2]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // S2:   [[ALL_TO_ALL3:%[a-z0-9_]+]] = moe.all_to_all [[DUMP2]] over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
  // S2:   [[ALL_TO_ALL4:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
  // S2:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL4]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
  // S2:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE2]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-SAME:   : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 4, 2>
  // S2-SAME:   : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // S2:   [[ALL_REDUCE3:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S2-SAME:   : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // S2:   [[ALL_REDUCE4:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S2-SAME:   : (tensor<2x8xf32>) -> tensor<2x8xf32>
  // S2:   [[ALL_REDUCE5:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S2-SAME:   : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // S2:   [[ALL_REDUCE6:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"edp", 2, 4>
  // S2-SAME:   : (tensor<2x8xf32>) -> tensor<2x8xf32>
  // S2:   [[ALL_REDUCE7:%[a-z0-9_]+]] = moe.all_reduce [[ALL_REDUCE6]] over <"mp", 2, 1>
  // S2-SAME:   : (tensor<2x8xf32>) -> tensor<2x8xf32>
  // S2:   return {{%[a-z0-9_]+}}, [[ALL_REDUCE]],
  // S2-SAME:   {{%[a-z0-9_]+}}, [[ALL_REDUCE2]], [[ALL_REDUCE3]], [[ALL_REDUCE5]], [[ALL_REDUCE4]], [[ALL_REDUCE7]]
  // S2-SAME:   : tensor<16x8xf32>, tensor<f32>, tensor<16x8xf32>, tensor<8x4xf32>, tensor<2x8x8xf32>,
  // S2-SAME:   tensor<2x8x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
  func.func @biases(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b1:
                    tensor<4x16xf32>, %b2: tensor<4x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "biases" %x gate(%g) experts(%w1, %w2, %b1, %b2)
      {top_k = 2 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>, tensor<4x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}

// -----

// N_MP = 1: two AlltoAlls each way and nothing else but the gradient sum of the gate; every shard has one holder.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 2, esp = 2>} {
  // S1-LABEL: func.func @mp1(
  // S1:   [[DUMP:%[a-z0-9_]+]] = moe.dump {{%[a-z0-9_]+}} {blocks = 2 : i64}
  // S1-SAME:   : (tensor<4x8x8xf32>) -> tensor<8x8x8xf32>
  // S1:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"dp", 4, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x8x8xf32>) -> tensor<2x32x8xf32>
  // S1:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"dp", 4, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x32x8xf32>) -> tensor<8x8x8xf32>
  // S1:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<8x8x8xf32>) -> tensor<4x8x8xf32>
  // S1:   [[DUMP2:%[a-z0-9_]+]] = moe.dump {{%[a-z0-9_]+}} {blocks = 2 : i64}
  // S1-SAME:   : (tensor<4x8x8xf32>) -> tensor<8x8x8xf32>
  // S1:   [[ALL_TO_ALL3:%[a-z0-9_]+]] = moe.all_to_all [[DUMP2]] over <"dp", 4, 1>
  // S1-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x8x8xf32>) -> tensor<2x32x8xf32>
  // S1:   [[ALL_TO_ALL4:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"dp", 4, 1>
  // S1-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x32x8xf32>) -> tensor<8x8x8xf32>
  // S1:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL4]] {blocks = 2 : i64}
  // S1-SAME:   : (tensor<8x8x8xf32>) -> tensor<4x8x8xf32>
  // S1:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 4, 1>
  // S1-SAME:   : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // S1:   return {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[ALL_REDUCE]], {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}
  // S1-SAME:   : tensor<16x8xf32>, tensor<16x8xf32>, tensor<8x4xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>
  // S2-LABEL: func.func @mp1(
  // S2:   [[DUMP:%[a-z0-9_]+]] = moe.dump {{%[a-z0-9_]+}} {blocks = 2 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<8x8x8xf32>
  // S2:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[DUMP]] over <"dp", 4, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x8x8xf32>) -> tensor<2x32x8xf32>
  // S2:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"dp", 4, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x32x8xf32>) -> tensor<8x8x8xf32>
  // S2:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL2]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<8x8x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[DUMP2:%[a-z0-9_]+]] = moe.dump {{%[a-z0-9_]+}} {blocks = 2 : i64}
  // S2-SAME:   : (tensor<4x8x8xf32>) -> tensor<8x8x8xf32>
  // S2:   [[ALL_TO_ALL3:%[a-z0-9_]+]] = moe.all_to_all [[DUMP2]] over <"dp", 4, 1>
  // S2-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x8x8xf32>) -> tensor<2x32x8xf32>
  // S2:   [[ALL_TO_ALL4:%[a-z0-9_]+]] = moe.all_to_all {{%[a-z0-9_]+}} over <"dp", 4, 1>
  // S2-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x32x8xf32>) -> tensor<8x8x8xf32>
  // S2:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL4]] {blocks = 2 : i64}
  // S2-SAME:   : (tensor<8x8x8xf32>) -> tensor<4x8x8xf32>
  // S2:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce {{%[a-z0-9_]+}} over <"dp", 4, 1>
  // S2-SAME:   : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // S2:   return {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}, [[ALL_REDUCE]], {{%[a-z0-9_]+}}, {{%[a-z0-9_]+}}
  // S2-SAME:   : tensor<16x8xf32>, tensor<16x8xf32>, tensor<8x4xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>
  func.func @mp1(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "mp1" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
