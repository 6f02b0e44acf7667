// RUN: moe-opt %s -verify-diagnostics -split-input-file

// moe.all_gather (C1): the whole is the group's size times the part along dim.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.all_gather' op expected 'tensor<6x8xf32>' to be 'tensor<4x8xf32>' times 2 along dimension 0}}
  %0 = moe.all_gather %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<6x8xf32>
  return
}

// -----

// moe.all_gather (C1): the other dimensions agree.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.all_gather' op expected 'tensor<8x16xf32>' to be 'tensor<4x8xf32>' times 2 along dimension 0}}
  %0 = moe.all_gather %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x16xf32>
  return
}

// -----

// moe.all_gather (C1): so do the ranks.
func.func @invalid(%x: tensor<4xf32>) {
  // expected-error @+1 {{to be 'tensor<4xf32>' times 2 along dimension 0}}
  %0 = moe.all_gather %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<4xf32>) -> tensor<8x8xf32>
  return
}

// -----

// moe.all_gather (C1): so do the element types.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.all_gather' op expected}}
  %0 = moe.all_gather %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf64>
  return
}

// -----

// moe.all_gather (C1): dim is a dimension.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.all_gather' op expected dim to be between 0 and 1 but got 2}}
  %0 = moe.all_gather %x over <"g", 2, 1> {dim = 2 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

// moe.all_gather (C1): dim is a dimension.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.all_gather' op expected dim to be between 0 and 1 but got -1}}
  %0 = moe.all_gather %x over <"g", 2, 1> {dim = -1 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

// moe.slice (C1): the whole is the group's size times the part along dim.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'moe.slice' op expected 'tensor<8x8xf32>' to be 'tensor<3x8xf32>' times 2 along dimension 0}}
  %0 = moe.slice %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<3x8xf32>
  return
}

// -----

// moe.slice (C1): the other dimensions agree.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'moe.slice' op expected 'tensor<8x8xf32>' to be 'tensor<4x4xf32>' times 2 along dimension 0}}
  %0 = moe.slice %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

// moe.slice (C1): so do the ranks.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{to be 'tensor<4xf32>' times 2 along dimension 0}}
  %0 = moe.slice %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4xf32>
  return
}

// -----

// moe.slice (C1): so do the element types.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'moe.slice' op expected}}
  %0 = moe.slice %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf64>
  return
}

// -----

// moe.slice (C1): dim is a dimension.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'moe.slice' op expected dim to be between 0 and 1 but got 2}}
  %0 = moe.slice %x over <"g", 2, 1> {dim = 2 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// moe.slice (C1): dim is a dimension.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'moe.slice' op expected dim to be between 0 and 1 but got -1}}
  %0 = moe.slice %x over <"g", 2, 1> {dim = -1 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// moe.reduce_scatter (C1): the whole is the group's size times the part along dim.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'moe.reduce_scatter' op expected 'tensor<8x8xf32>' to be 'tensor<3x8xf32>' times 2 along dimension 0}}
  %0 = moe.reduce_scatter %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<3x8xf32>
  return
}

// -----

// moe.reduce_scatter (C1): the other dimensions agree.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'moe.reduce_scatter' op expected 'tensor<8x8xf32>' to be 'tensor<4x4xf32>' times 2 along dimension 0}}
  %0 = moe.reduce_scatter %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

// moe.reduce_scatter (C1): so do the ranks.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{to be 'tensor<4xf32>' times 2 along dimension 0}}
  %0 = moe.reduce_scatter %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4xf32>
  return
}

// -----

// moe.reduce_scatter (C1): so do the element types.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'moe.reduce_scatter' op expected}}
  %0 = moe.reduce_scatter %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf64>
  return
}

// -----

// moe.reduce_scatter (C1): dim is a dimension.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'moe.reduce_scatter' op expected dim to be between 0 and 1 but got 2}}
  %0 = moe.reduce_scatter %x over <"g", 2, 1> {dim = 2 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// moe.reduce_scatter (C1): dim is a dimension.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'moe.reduce_scatter' op expected dim to be between 0 and 1 but got -1}}
  %0 = moe.reduce_scatter %x over <"g", 2, 1> {dim = -1 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// moe.all_gather: no tensors of other elements.
func.func @invalid(%x: tensor<4x8xi64>) {
  // expected-error @+1 {{operand #0 must be static tensor of f32, f64, bf16 or i32}}
  %0 = moe.all_gather %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<4x8xi64>) -> tensor<8x8xi64>
  return
}

// -----

// moe.all_gather: shapes are static.
func.func @invalid(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{operand #0 must be static tensor}}
  %0 = moe.all_gather %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return
}

// -----

// moe.reduce_scatter: counts are not summed.
func.func @invalid(%x: tensor<4x8xi32>) {
  // expected-error @+1 {{operand #0 must be static tensor of f32, f64 or bf16}}
  %0 = moe.reduce_scatter %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<4x8xi32>) -> tensor<2x8xi32>
  return
}

// -----

// moe.all_reduce (C1): input and result have one type.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{failed to verify that all of {input, result} have same type}}
  %0 = moe.all_reduce %x over <"g", 2, 1> : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

// moe.all_reduce (C1): counts needs 2-D rows.
func.func @invalid(%x: tensor<2x4x8xf32>, %c: tensor<1x2xi32>) {
  // expected-error @+1 {{'moe.all_reduce' op expected 2-D rows with counts but got 'tensor<2x4x8xf32>'}}
  %0 = moe.all_reduce %x counts(%c) over <"g", 2, 1> : (tensor<2x4x8xf32>, tensor<1x2xi32>) -> tensor<2x4x8xf32>
  return
}

// -----

// moe.to_varying (C1): input and result have one type.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{failed to verify that all of {input, result} have same type}}
  %0 = "moe.to_varying"(%x) {group = #moe.group<"g", 2, 1>} : (tensor<4x8xf32>) -> tensor<4x8xf64>
  return
}

// -----

// moe.assume_replicated (C1): input and result have one type.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{failed to verify that all of {input, result} have same type}}
  %0 = "moe.assume_replicated"(%x) {group = #moe.group<"g", 2, 1>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

// moe.all_to_all (C1): the group's size divides split_dim.
func.func @invalid(%x: tensor<7x4xf32>) {
  // expected-error @+1 {{expected split_dim and concat_dim to be dimensions of 'tensor<7x4xf32>', the first divisible by 2, but got 0 and 1}}
  %0 = moe.all_to_all %x over <"g", 2, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<7x4xf32>) -> tensor<3x8xf32>
  return
}

// -----

// moe.all_to_all (C1): split_dim is a dimension.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{the first divisible by 2, but got -1 and 1}}
  %0 = moe.all_to_all %x over <"g", 2, 1> {split_dim = -1 : i64, concat_dim = 1 : i64} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

// moe.all_to_all (C1): concat_dim is a dimension.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{the first divisible by 2, but got 0 and 2}}
  %0 = moe.all_to_all %x over <"g", 2, 1> {split_dim = 0 : i64, concat_dim = 2 : i64} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

// moe.all_to_all (C1): the result has split_dim divided and concat_dim multiplied.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{expected the result to be 'tensor<4x8xf32>' but got 'tensor<8x4xf32>'}}
  %0 = moe.all_to_all %x over <"g", 2, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// moe.all_to_all_v (C1): expert_counts has a row for each block of each member.
func.func @invalid(%x: tensor<16x8xf32>, %b: tensor<1x4xi32>, %e: tensor<1x2xi32>) {
  // expected-error @+1 {{expected expert_counts to be [2 B, E / 2] for block_counts [B, E] 'tensor<1x4xi32>' but got 'tensor<1x2xi32>'}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction to_experts>}
    : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<1x2xi32>) -> tensor<32x8xf32>
  return
}

// -----

// moe.all_to_all_v (C1): expert_counts has a column for each of the rank's experts.
func.func @invalid(%x: tensor<16x8xf32>, %b: tensor<1x4xi32>, %e: tensor<2x4xi32>) {
  // expected-error @+1 {{expected expert_counts to be [2 B, E / 2] for block_counts [B, E] 'tensor<1x4xi32>' but got 'tensor<2x4xi32>'}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction to_experts>}
    : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x4xi32>) -> tensor<32x8xf32>
  return
}

// -----

// moe.all_to_all_v (C1): the members share the experts evenly.
func.func @invalid(%x: tensor<16x8xf32>, %b: tensor<1x5xi32>, %e: tensor<2x2xi32>) {
  // expected-error @+1 {{expected expert_counts to be [2 B, E / 2] for block_counts [B, E] 'tensor<1x5xi32>'}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction to_experts>}
    : (tensor<16x8xf32>, tensor<1x5xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
  return
}

// -----

// moe.all_to_all_v (C1): there is a block.
func.func @invalid(%x: tensor<16x8xf32>, %b: tensor<0x4xi32>, %e: tensor<0x2xi32>) {
  // expected-error @+1 {{expected at least one block but got block_counts 'tensor<0x4xi32>'}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction to_experts>}
    : (tensor<16x8xf32>, tensor<0x4xi32>, tensor<0x2xi32>) -> tensor<32x8xf32>
  return
}

// -----

// moe.all_to_all_v (C2): the block side, here the input, has a multiple of B rows.
func.func @invalid(%x: tensor<16x8xf32>, %b: tensor<3x4xi32>, %e: tensor<6x2xi32>) {
  // expected-error @+1 {{expected the block side to have a multiple of 3 rows but got 'tensor<16x8xf32>'}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction to_experts>}
    : (tensor<16x8xf32>, tensor<3x4xi32>, tensor<6x2xi32>) -> tensor<33x8xf32>
  return
}

// -----

// moe.all_to_all_v (C2): the block side, here the result, has a multiple of B rows.
func.func @invalid(%x: tensor<33x8xf32>, %b: tensor<3x4xi32>, %e: tensor<6x2xi32>) {
  // expected-error @+1 {{expected the block side to have a multiple of 3 rows but got 'tensor<16x8xf32>'}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction from_experts>}
    : (tensor<33x8xf32>, tensor<3x4xi32>, tensor<6x2xi32>) -> tensor<16x8xf32>
  return
}

// -----

// moe.all_to_all_v (C2): both sides have M columns.
func.func @invalid(%x: tensor<16x8xf32>, %b: tensor<1x4xi32>, %e: tensor<2x2xi32>) {
  // expected-error @+1 {{expected rows and result to have the same columns but got 'tensor<16x8xf32>' and 'tensor<32x4xf32>'}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction to_experts>}
    : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<32x4xf32>
  return
}

// -----

// moe.all_to_all_v (C2): both sides have one element type.
func.func @invalid(%x: tensor<16x8xf32>, %b: tensor<1x4xi32>, %e: tensor<2x2xi32>) {
  // expected-error @+1 {{expected rows and result to have the same columns but got 'tensor<16x8xf32>' and 'tensor<32x8xbf16>'}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction to_experts>}
    : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<32x8xbf16>
  return
}

// -----

// moe.broadcast (C1): the root is a member.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.broadcast' op expected root to be between 0 and 1 but got 2}}
  %0 = moe.broadcast %x over <"g", 2, 1> {root = 2 : i64} : tensor<4x8xf32>
  return
}

// -----

// moe.broadcast (C1): the root is a member.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.broadcast' op expected root to be between 0 and 1 but got -1}}
  %0 = moe.broadcast %x over <"g", 2, 1> {root = -1 : i64} : tensor<4x8xf32>
  return
}

// -----

// moe.reduce (C1): the root is a member.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.reduce' op expected root to be between 0 and 1 but got 2}}
  %0 = moe.reduce %x over <"g", 2, 1> {root = 2 : i64} : tensor<4x8xf32>
  return
}

// -----

// moe.reduce (C1): the root is a member.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.reduce' op expected root to be between 0 and 1 but got -1}}
  %0 = moe.reduce %x over <"g", 2, 1> {root = -1 : i64} : tensor<4x8xf32>
  return
}
