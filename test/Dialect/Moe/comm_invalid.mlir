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

// moe.slice (C1): likewise, the whole is the group's size times the part along dim.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'moe.slice' op expected 'tensor<8x8xf32>' to be 'tensor<3x8xf32>' times 2 along dimension 0}}
  %0 = moe.slice %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<3x8xf32>
  return
}

// -----

// moe.reduce_scatter (C1): likewise, the whole is the group's size times the part along dim.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'moe.reduce_scatter' op expected 'tensor<8x8xf32>' to be 'tensor<3x8xf32>' times 2 along dimension 0}}
  %0 = moe.reduce_scatter %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<3x8xf32>
  return
}

// -----

// moe.all_gather: no tensors of other elements.
func.func @invalid(%x: tensor<4x8xi64>) {
  // expected-error @+1 {{operand #0 must be static tensor of f32, f64, bf16, f16 or i32}}
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
  // expected-error @+1 {{operand #0 must be static tensor of f32, f64, bf16 or f16}}
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

// moe.all_to_all_v (C1): copies divides size.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x4xi32>, %e: tensor<4x2xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected copies to divide the group's size 4 but got 3}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 4, 1> {direction = #moe<direction to_experts>, copies = 3 : i64}
    : (tensor<24x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C1): copies is at least 1.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x4xi32>, %e: tensor<4x2xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected copies to divide the group's size 4 but got 0}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 4, 1> {direction = #moe<direction to_experts>, copies = 0 : i64}
    : (tensor<24x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C1): with copies, a member has as many times the experts.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x4xi32>, %e: tensor<4x1xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected expert_counts to be [4 B, E / 2] for block_counts [B, E] 'tensor<1x4xi32>' but got 'tensor<4x1xi32>'}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 4, 1> {direction = #moe<direction to_experts>, copies = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x4xi32>, tensor<4x1xi32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C1): copies add no rows to expert_counts.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x4xi32>, %e: tensor<8x2xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected expert_counts to be [4 B, E / 2] for block_counts [B, E] 'tensor<1x4xi32>' but got 'tensor<8x2xi32>'}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 4, 1> {direction = #moe<direction to_experts>, copies = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x4xi32>, tensor<8x2xi32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C2): the block side, here the input, has a multiple of copies B rows.
func.func @invalid(%x: tensor<18x8xf32>, %b: tensor<2x4xi32>, %e: tensor<8x2xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected the block side to have a multiple of 4 rows but got 'tensor<18x8xf32>'}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 4, 1> {direction = #moe<direction to_experts>, copies = 2 : i64}
    : (tensor<18x8xf32>, tensor<2x4xi32>, tensor<8x2xi32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C2): the block side, here the result, has a multiple of copies B rows.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x4xi32>, %e: tensor<4x2xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected the block side to have a multiple of 2 rows but got 'tensor<17x8xf32>'}}
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 4, 1> {direction = #moe<direction from_experts>, copies = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<17x8xf32>
  return
}

// -----

// moe.all_to_all_v (C3): phases divides size.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected phases to divide 4, the group's size over copies, and phase to be one of them but got phase 0 of 3}}
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>, phases = 3 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C3): phases is at least 1.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected phases to divide 4, the group's size over copies, and phase to be one of them but got phase 0 of 0}}
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>, phases = 0 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C3): the holders of one expert are in one block of members.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected phases to divide 2, the group's size over copies, and phase to be one of them but got phase 0 of 4}}
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>, copies = 2 : i64, phases = 4 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C3): phase is one of them.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected phases to divide 4, the group's size over copies, and phase to be one of them but got phase 2 of 2}}
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>, phase = 2 : i64, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C3): phase is not negative.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected phases to divide 4, the group's size over copies, and phase to be one of them but got phase -1 of 2}}
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>, phase = -1 : i64, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C1): a phase has the counts of the members that it receives from, not of all.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<4x2xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected expert_counts to be [2 B, E / 4] for block_counts [B, E] 'tensor<1x8xi32>' but got 'tensor<4x2xi32>'}}
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<4x2xi32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C4): rows on the way to the experts are packed, and nothing is added.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected no addend with direction to_experts}}
  %0 = moe.all_to_all_v %x, %b, %e addend(%x) over <"ep", 4, 1> {direction = #moe<direction to_experts>, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>, tensor<24x8xf32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C4): addend and result have one type.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) {
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  // expected-error @+1 {{'moe.all_to_all_v' op expected an addend of type 'tensor<24x8xf32>' but got 'tensor<16x8xf32>'}}
  %1 = moe.all_to_all_v %x, %b, %e addend(%0) over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>, tensor<16x8xf32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C4): an addend is what phases bring, and no other value.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) {
  // expected-error @+1 {{'moe.all_to_all_v' op expected the addend to be the result of other phases of the same exchange from the experts}}
  %0 = moe.all_to_all_v %x, %b, %e addend(%x) over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>, tensor<24x8xf32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C4): the same phase twice would bring its rows twice.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) {
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<24x8xf32>
  // expected-error @+1 {{'moe.all_to_all_v' op expected the addend to be the result of other phases of the same exchange from the experts}}
  %1 = moe.all_to_all_v %x, %b, %e addend(%0) over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>, tensor<24x8xf32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C4): rows from the experts are not added to rows at the experts.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) {
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<24x8xf32>
  // expected-error @+1 {{'moe.all_to_all_v' op expected the addend to be the result of other phases of the same exchange from the experts}}
  %1 = moe.all_to_all_v %x, %b, %e addend(%0) over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>, tensor<24x8xf32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C4): phases over another group bring rows from others.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) {
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 2> {direction = #moe<direction from_experts>, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<24x8xf32>
  // expected-error @+1 {{'moe.all_to_all_v' op expected the addend to be the result of other phases of the same exchange from the experts}}
  %1 = moe.all_to_all_v %x, %b, %e addend(%0) over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>, tensor<24x8xf32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C4): those of other counts bring other rows.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %c: tensor<1x8xi32>, %e: tensor<2x2xi32>) {
  %0 = moe.all_to_all_v %x, %c, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<24x8xf32>
  // expected-error @+1 {{'moe.all_to_all_v' op expected the addend to be the result of other phases of the same exchange from the experts}}
  %1 = moe.all_to_all_v %x, %b, %e addend(%0) over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>, tensor<24x8xf32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C4): those of more phases too.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) {
  %f = moe.phase %e over <"ep", 4, 1> {phase = 0 : i64, phases = 2 : i64} : (tensor<2x2xi32>) -> tensor<1x2xi32>
  %0 = moe.all_to_all_v %x, %b, %f over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 4 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<1x2xi32>) -> tensor<24x8xf32>
  // expected-error @+1 {{'moe.all_to_all_v' op expected the addend to be the result of other phases of the same exchange from the experts}}
  %1 = moe.all_to_all_v %x, %b, %e addend(%0) over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>, tensor<24x8xf32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_v (C4): all that are in the addend are looked at.
func.func @invalid(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<1x2xi32>) {
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 4 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<1x2xi32>) -> tensor<24x8xf32>
  %1 = moe.all_to_all_v %x, %b, %e addend(%0) over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 4 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<1x2xi32>, tensor<24x8xf32>) -> tensor<24x8xf32>
  // expected-error @+1 {{'moe.all_to_all_v' op expected the addend to be the result of other phases of the same exchange from the experts}}
  %2 = moe.all_to_all_v %x, %b, %e addend(%1) over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 4 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<1x2xi32>, tensor<24x8xf32>) -> tensor<24x8xf32>
  return
}

// -----

// moe.all_to_all_phase (C1): phases divides the group's size.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'moe.all_to_all_phase' op expected phases to divide the group's size 4 and phase to be one of them but got phase 0 of 3}}
  %0 = moe.all_to_all_phase %x over <"g", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64, phase = 0 : i64, phases = 3 : i64}
    : (tensor<8x4xf32>) -> tensor<2x16xf32>
  return
}

// -----

// moe.all_to_all_phase (C1): phases is at least 1.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'moe.all_to_all_phase' op expected phases to divide the group's size 4 and phase to be one of them but got phase 0 of 0}}
  %0 = moe.all_to_all_phase %x over <"g", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64, phase = 0 : i64, phases = 0 : i64}
    : (tensor<8x4xf32>) -> tensor<2x16xf32>
  return
}

// -----

// moe.all_to_all_phase (C1): phase is one of them.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'moe.all_to_all_phase' op expected phases to divide the group's size 4 and phase to be one of them but got phase 2 of 2}}
  %0 = moe.all_to_all_phase %x over <"g", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64, phase = 2 : i64, phases = 2 : i64}
    : (tensor<8x4xf32>) -> tensor<2x8xf32>
  return
}

// -----

// moe.all_to_all_phase (C1): phase is not negative.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'moe.all_to_all_phase' op expected phases to divide the group's size 4 and phase to be one of them but got phase -1 of 2}}
  %0 = moe.all_to_all_phase %x over <"g", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64, phase = -1 : i64, phases = 2 : i64}
    : (tensor<8x4xf32>) -> tensor<2x8xf32>
  return
}

// -----

// moe.all_to_all_phase (C2): the group's size divides split_dim.
func.func @invalid(%x: tensor<6x4xf32>) {
  // expected-error @+1 {{'moe.all_to_all_phase' op expected split_dim and concat_dim to be dimensions of 'tensor<6x4xf32>', the first divisible by 4, but got 0 and 1}}
  %0 = moe.all_to_all_phase %x over <"g", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64, phase = 0 : i64, phases = 2 : i64}
    : (tensor<6x4xf32>) -> tensor<2x8xf32>
  return
}

// -----

// moe.all_to_all_phase (C2): split_dim is a dimension.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'moe.all_to_all_phase' op expected split_dim and concat_dim to be dimensions of 'tensor<8x4xf32>', the first divisible by 4, but got 2 and 1}}
  %0 = moe.all_to_all_phase %x over <"g", 4, 1> {split_dim = 2 : i64, concat_dim = 1 : i64, phase = 0 : i64, phases = 2 : i64}
    : (tensor<8x4xf32>) -> tensor<2x8xf32>
  return
}

// -----

// moe.all_to_all_phase (C2): concat_dim is a dimension.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'moe.all_to_all_phase' op expected split_dim and concat_dim to be dimensions of 'tensor<8x4xf32>', the first divisible by 4, but got 0 and -1}}
  %0 = moe.all_to_all_phase %x over <"g", 4, 1> {split_dim = 0 : i64, concat_dim = -1 : i64, phase = 0 : i64, phases = 2 : i64}
    : (tensor<8x4xf32>) -> tensor<2x8xf32>
  return
}

// -----

// moe.all_to_all_phase (C2): the result is a part, not the whole.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'moe.all_to_all_phase' op expected the result to be one of 2 parts of 'tensor<2x16xf32>' but got 'tensor<2x16xf32>'}}
  %0 = moe.all_to_all_phase %x over <"g", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64, phase = 0 : i64, phases = 2 : i64}
    : (tensor<8x4xf32>) -> tensor<2x16xf32>
  return
}

// -----

// moe.all_to_all_phase (C2): of the dimension concat_dim.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'moe.all_to_all_phase' op expected the result to be one of 2 parts of 'tensor<2x16xf32>' but got 'tensor<1x16xf32>'}}
  %0 = moe.all_to_all_phase %x over <"g", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64, phase = 0 : i64, phases = 2 : i64}
    : (tensor<8x4xf32>) -> tensor<1x16xf32>
  return
}

// -----

// moe.all_to_all_phase (C2): of the same elements.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'moe.all_to_all_phase' op expected the result to be one of 2 parts of 'tensor<2x16xf32>' but got 'tensor<2x8xf64>'}}
  %0 = moe.all_to_all_phase %x over <"g", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64, phase = 0 : i64, phases = 2 : i64}
    : (tensor<8x4xf32>) -> tensor<2x8xf64>
  return
}

// -----

// moe.join_phases (C1): the number of parts divides the group's size.
func.func @invalid(%a: tensor<2x8xf32>, %b: tensor<2x8xf32>, %c: tensor<2x8xf32>) {
  // expected-error @+1 {{'moe.join_phases' op expected the number of parts to divide the group's size 4 but got 3}}
  %0 = moe.join_phases %a, %b, %c over <"g", 4, 1> : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
  return
}

// -----

// moe.join_phases (C1): the parts have one type.
func.func @invalid(%a: tensor<2x8xf32>, %b: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.join_phases' op requires all operands to have the same type}}
  %0 = moe.join_phases %a, %b over <"g", 4, 1> : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  return
}

// -----

// moe.join_phases (C2): the result has dimension 0 multiplied.
func.func @invalid(%a: tensor<2x8xf32>, %b: tensor<2x8xf32>) {
  // expected-error @+1 {{'moe.join_phases' op expected the result to be 'tensor<2x8xf32>' with dimension 0 times 2 but got 'tensor<2x16xf32>'}}
  %0 = moe.join_phases %a, %b over <"g", 4, 1> : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x16xf32>
  return
}

// -----

// moe.join_phases (C2): by the number of parts, not the group's size.
func.func @invalid(%a: tensor<2x8xf32>, %b: tensor<2x8xf32>) {
  // expected-error @+1 {{'moe.join_phases' op expected the result to be 'tensor<2x8xf32>' with dimension 0 times 2 but got 'tensor<8x8xf32>'}}
  %0 = moe.join_phases %a, %b over <"g", 4, 1> : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

// moe.join_phases (C2): the result has the parts' elements.
func.func @invalid(%a: tensor<2x8xf32>, %b: tensor<2x8xf32>) {
  // expected-error @+1 {{'moe.join_phases' op expected the result to be 'tensor<2x8xf32>' with dimension 0 times 2 but got 'tensor<4x8xf64>'}}
  %0 = moe.join_phases %a, %b over <"g", 4, 1> : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf64>
  return
}

// -----

// moe.join_phases (C2): a scalar has no dimension 0.
func.func @invalid(%a: tensor<f32>, %b: tensor<f32>) {
  // expected-error @+1 {{'moe.join_phases' op expected the result to be 'tensor<f32>' with dimension 0 times 2 but got 'tensor<f32>'}}
  %0 = moe.join_phases %a, %b over <"g", 4, 1> : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return
}

// -----

// moe.phase (C1): phases divides the group's size.
func.func @invalid(%c: tensor<6x2xi32>) {
  // expected-error @+1 {{'moe.phase' op expected phases to divide the group's size 4 and phase to be one of them but got phase 0 of 3}}
  %0 = moe.phase %c over <"ep", 4, 1> {phase = 0 : i64, phases = 3 : i64} : (tensor<6x2xi32>) -> tensor<2x2xi32>
  return
}

// -----

// moe.phase (C1): phases is at least 1.
func.func @invalid(%c: tensor<4x2xi32>) {
  // expected-error @+1 {{'moe.phase' op expected phases to divide the group's size 4 and phase to be one of them but got phase 0 of 0}}
  %0 = moe.phase %c over <"ep", 4, 1> {phase = 0 : i64, phases = 0 : i64} : (tensor<4x2xi32>) -> tensor<2x2xi32>
  return
}

// -----

// moe.phase (C1): phase is one of them.
func.func @invalid(%c: tensor<4x2xi32>) {
  // expected-error @+1 {{'moe.phase' op expected phases to divide the group's size 4 and phase to be one of them but got phase 2 of 2}}
  %0 = moe.phase %c over <"ep", 4, 1> {phase = 2 : i64, phases = 2 : i64} : (tensor<4x2xi32>) -> tensor<2x2xi32>
  return
}

// -----

// moe.phase (C1): phase is not negative.
func.func @invalid(%c: tensor<4x2xi32>) {
  // expected-error @+1 {{'moe.phase' op expected phases to divide the group's size 4 and phase to be one of them but got phase -1 of 2}}
  %0 = moe.phase %c over <"ep", 4, 1> {phase = -1 : i64, phases = 2 : i64} : (tensor<4x2xi32>) -> tensor<2x2xi32>
  return
}

// -----

// moe.phase (C2): the input is that of all phases.
func.func @invalid(%c: tensor<2x2xi32>) {
  // expected-error @+1 {{'moe.phase' op expected the input to be 'tensor<2x2xi32>' with dimension 0 times 2 but got 'tensor<2x2xi32>'}}
  %0 = moe.phase %c over <"ep", 4, 1> {phase = 0 : i64, phases = 2 : i64} : (tensor<2x2xi32>) -> tensor<2x2xi32>
  return
}

// -----

// moe.phase (C2): not of all members.
func.func @invalid(%c: tensor<8x2xi32>) {
  // expected-error @+1 {{'moe.phase' op expected the input to be 'tensor<2x2xi32>' with dimension 0 times 2 but got 'tensor<8x2xi32>'}}
  %0 = moe.phase %c over <"ep", 4, 1> {phase = 0 : i64, phases = 2 : i64} : (tensor<8x2xi32>) -> tensor<2x2xi32>
  return
}

// -----

// moe.phase (C2): dimension 0 alone is divided.
func.func @invalid(%c: tensor<4x2xi32>) {
  // expected-error @+1 {{'moe.phase' op expected the input to be 'tensor<4x1xi32>' with dimension 0 times 2 but got 'tensor<4x2xi32>'}}
  %0 = moe.phase %c over <"ep", 4, 1> {phase = 0 : i64, phases = 2 : i64} : (tensor<4x2xi32>) -> tensor<4x1xi32>
  return
}

// -----

// moe.slice_counts (C1): the counts are of one block.
func.func @invalid(%c: tensor<2x4xi32>) {
  // expected-error @+1 {{'moe.slice_counts' op expected counts of one block but got 'tensor<2x4xi32>'}}
  %0 = moe.slice_counts %c over <"mp", 2, 1> {rows = 16 : i64} : tensor<2x4xi32>
  return
}

// -----

// moe.slice_counts (C1): the group's size divides rows.
func.func @invalid(%c: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.slice_counts' op expected rows to be divisible by the group's size 2 but got 15}}
  %0 = moe.slice_counts %c over <"mp", 2, 1> {rows = 15 : i64} : tensor<1x4xi32>
  return
}

// -----

// moe.slice_counts (C1): rows is not negative.
func.func @invalid(%c: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.slice_counts' op expected rows to be divisible by the group's size 2 but got -2}}
  %0 = moe.slice_counts %c over <"mp", 2, 1> {rows = -2 : i64} : tensor<1x4xi32>
  return
}

// -----

// moe.slice_counts (C1): counts are i32.
func.func @invalid(%c: tensor<1x4xf32>) {
  // expected-error @+1 {{'moe.slice_counts' op operand #0 must be 2-D tensor of i32, but got 'tensor<1x4xf32>'}}
  %0 = moe.slice_counts %c over <"mp", 2, 1> {rows = 16 : i64} : tensor<1x4xf32>
  return
}

// -----

// moe.local_slots (C1): as many members hold each expert.
func.func @invalid(%s: tensor<16x2xi32>, %c: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.local_slots' op expected copies to divide the group's size 4 but got 3}}
  %0, %1 = moe.local_slots %s, %c over <"ep_esp", 4, 1> {copies = 3 : i64}
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.local_slots (C1): and at least one.
func.func @invalid(%s: tensor<16x2xi32>, %c: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.local_slots' op expected copies to divide the group's size 4 but got 0}}
  %0, %1 = moe.local_slots %s, %c over <"ep_esp", 4, 1> {copies = 0 : i64}
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.local_slots (C1): the counts are of one block.
func.func @invalid(%s: tensor<16x2xi32>, %c: tensor<2x4xi32>) {
  // expected-error @+1 {{'moe.local_slots' op expected routed_counts [1, E] and counts [1, E / 2] but got 'tensor<2x4xi32>' and 'tensor<1x2xi32>'}}
  %0, %1 = moe.local_slots %s, %c over <"ep_esp", 4, 1> {copies = 2 : i64}
    : (tensor<16x2xi32>, tensor<2x4xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.local_slots (C1): and a member has those of its own experts.
func.func @invalid(%s: tensor<16x2xi32>, %c: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.local_slots' op expected routed_counts [1, E] and counts [1, E / 4] but got 'tensor<1x4xi32>' and 'tensor<1x2xi32>'}}
  %0, %1 = moe.local_slots %s, %c over <"ep_esp", 4, 1> {}
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.local_slots (C2): there is a capacity or room.
func.func @invalid(%s: tensor<16x2xi32>, %c: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.local_slots' op expected capacity and room of at least 0, one of them 0, but got 8 and 32}}
  %0, %1 = moe.local_slots %s, %c over <"ep_esp", 4, 1> {capacity = 8 : i64, copies = 2 : i64, room = 32 : i64}
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.local_slots (C2): neither is negative.
func.func @invalid(%s: tensor<16x2xi32>, %c: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.local_slots' op expected capacity and room of at least 0, one of them 0, but got 0 and -1}}
  %0, %1 = moe.local_slots %s, %c over <"ep_esp", 4, 1> {copies = 2 : i64, room = -1 : i64}
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.local_slots: each choice keeps its place.
func.func @invalid(%s: tensor<16x2xi32>, %c: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.local_slots' op failed to verify that all of {routed_slots, slots} have same type}}
  %0, %1 = moe.local_slots %s, %c over <"ep_esp", 4, 1> {copies = 2 : i64}
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x1xi32>, tensor<1x2xi32>)
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

// moe.join_phases (C1): there is at least one part.
func.func @invalid() {
  // expected-error @+1 {{'moe.join_phases' op expected the number of parts to divide the group's size 2 but got 0}}
  %0 = moe.join_phases over <"g", 2, 1> : () -> tensor<4x8xf32>
  return
}
