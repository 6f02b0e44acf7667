// RUN: moe-opt %s --verify-roundtrip | FileCheck %s

// Every collective of the table of design section 2, in each element type and with each optional operand.

// The result is the group's size times as large along dim.
// CHECK-LABEL: func.func @all_gather(
// CHECK-NEXT: moe.all_gather %arg0 over <"mp", 2, 1> {dim = 1 : i64}
func.func @all_gather(%x: tensor<4x8xf64>) -> tensor<4x16xf64> {
  %0 = moe.all_gather %x over <"mp", 2, 1> {dim = 1 : i64} : (tensor<4x8xf64>) -> tensor<4x16xf64>
  return %0 : tensor<4x16xf64>
}

// Counts are i32, and are gathered too.
// CHECK-LABEL: func.func @all_gather_counts(
// CHECK-NEXT: moe.all_gather %arg0 over <"esp", 2, 1> {dim = 0 : i64}
func.func @all_gather_counts(%x: tensor<1x8xi32>) -> tensor<2x8xi32> {
  %0 = moe.all_gather %x over <"esp", 2, 1> {dim = 0 : i64} : (tensor<1x8xi32>) -> tensor<2x8xi32>
  return %0 : tensor<2x8xi32>
}

// The member's part along dim.
// CHECK-LABEL: func.func @slice(
// CHECK-NEXT: moe.slice %arg0 over <"esp", 2, 1> {dim = 1 : i64}
func.func @slice(%x: tensor<8x4x8xbf16>) -> tensor<8x2x8xbf16> {
  %0 = moe.slice %x over <"esp", 2, 1> {dim = 1 : i64} : (tensor<8x4x8xbf16>) -> tensor<8x2x8xbf16>
  return %0 : tensor<8x2x8xbf16>
}

// A sum of anything, also of a loss of rank 0.
// CHECK-LABEL: func.func @all_reduce(
// CHECK-NEXT: moe.all_reduce %arg0 over <"dp", 4, 2> :
func.func @all_reduce(%x: tensor<f32>) -> tensor<f32> {
  %0 = moe.all_reduce %x over <"dp", 4, 2> : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// The ragged form, of the rows that the counts say.
// CHECK-LABEL: func.func @all_reduce_ragged(
// CHECK-NEXT: moe.all_reduce %arg0 counts(%arg1) over <"esp", 2, 1> :
func.func @all_reduce_ragged(%x: tensor<32x8xbf16>, %c: tensor<4x2xi32>) -> tensor<32x8xbf16> {
  %0 = moe.all_reduce %x counts(%c) over <"esp", 2, 1> : (tensor<32x8xbf16>, tensor<4x2xi32>) -> tensor<32x8xbf16>
  return %0 : tensor<32x8xbf16>
}

// A cast takes any tensor, counts included.
// CHECK-LABEL: func.func @to_varying(
// CHECK-NEXT: moe.to_varying %arg0 over <"dp", 2, 1> :
func.func @to_varying(%x: tensor<1x8xi32>) -> tensor<1x8xi32> {
  %0 = moe.to_varying %x over <"dp", 2, 1> : tensor<1x8xi32>
  return %0 : tensor<1x8xi32>
}

// The member's part of the sum along dim.
// CHECK-LABEL: func.func @reduce_scatter(
// CHECK-NEXT: moe.reduce_scatter %arg0 over <"esp", 2, 1> {dim = 1 : i64}
func.func @reduce_scatter(%x: tensor<8x8xf64>) -> tensor<8x4xf64> {
  %0 = moe.reduce_scatter %x over <"esp", 2, 1> {dim = 1 : i64} : (tensor<8x8xf64>) -> tensor<8x4xf64>
  return %0 : tensor<8x4xf64>
}

// The exchange divides split_dim and multiplies concat_dim; they may be the same.
// CHECK-LABEL: func.func @all_to_all(
// CHECK-NEXT: %[[ALL_TO_ALL:.+]] = moe.all_to_all %arg0 over <"ep", 2, 2> {concat_dim = 1 : i64, split_dim = 0 : i64}
// CHECK-NEXT: moe.all_to_all %[[ALL_TO_ALL]] over <"ep", 2, 2> {concat_dim = 1 : i64, split_dim = 1 : i64}
func.func @all_to_all(%x: tensor<8x4x16xbf16>) -> tensor<4x8x16xbf16> {
  %0 = moe.all_to_all %x over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64}
    : (tensor<8x4x16xbf16>) -> tensor<4x8x16xbf16>
  %1 = moe.all_to_all %0 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 1 : i64}
    : (tensor<4x8x16xbf16>) -> tensor<4x8x16xbf16>
  return %1 : tensor<4x8x16xbf16>
}

// There and back, two blocks of rows a member.
// CHECK-LABEL: func.func @all_to_all_v(
// CHECK-NEXT: %[[ALL_TO_ALL_V:.+]] = moe.all_to_all_v %arg0, %arg1, %arg2 over <"ep", 2, 2> {direction = #moe<direction to_experts>}
// CHECK-NEXT: moe.all_to_all_v %[[ALL_TO_ALL_V]], %arg1, %arg2 over <"ep", 2, 2> {direction = #moe<direction from_experts>}
func.func @all_to_all_v(%x: tensor<16x8xf64>, %b: tensor<2x4xi32>, %e: tensor<4x2xi32>) -> tensor<16x8xf64> {
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 2, 2> {direction = #moe<direction to_experts>}
    : (tensor<16x8xf64>, tensor<2x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf64>
  %1 = moe.all_to_all_v %0, %b, %e over <"ep", 2, 2> {direction = #moe<direction from_experts>}
    : (tensor<32x8xf64>, tensor<2x4xi32>, tensor<4x2xi32>) -> tensor<16x8xf64>
  return %1 : tensor<16x8xf64>
}

// Each expert held by two neighbours: the block side twice as long, half of the experts on a member instead of a quarter.
// CHECK-LABEL: func.func @all_to_all_v_copies(
// CHECK-NEXT: %[[DUMP:.+]] = moe.dump %arg0 :
// CHECK-NEXT: %[[ALL_TO_ALL_V:.+]] = moe.all_to_all_v %[[DUMP]], %arg1, %arg2 over <"world", 4, 1> {copies = 2 : i64, direction = #moe<direction to_experts>}
// CHECK-NEXT: moe.all_to_all_v %[[ALL_TO_ALL_V]], %arg1, %arg2 over <"world", 4, 1> {copies = 2 : i64, direction = #moe<direction from_experts>}
func.func @all_to_all_v_copies(%x: tensor<16x8xbf16>, %b: tensor<2x4xi32>, %e: tensor<8x2xi32>) -> tensor<32x8xbf16> {
  %0 = moe.dump %x : (tensor<16x8xbf16>) -> tensor<32x8xbf16>
  %1 = moe.all_to_all_v %0, %b, %e over <"world", 4, 1> {direction = #moe<direction to_experts>, copies = 2 : i64}
    : (tensor<32x8xbf16>, tensor<2x4xi32>, tensor<8x2xi32>) -> tensor<40x8xbf16>
  %2 = moe.all_to_all_v %1, %b, %e over <"world", 4, 1> {direction = #moe<direction from_experts>, copies = 2 : i64}
    : (tensor<40x8xbf16>, tensor<2x4xi32>, tensor<8x2xi32>) -> tensor<32x8xbf16>
  return %2 : tensor<32x8xbf16>
}

// As many copies as members: all of them hold all experts. One copy is what is meant where none is named.
// CHECK-LABEL: func.func @all_to_all_v_all(
// CHECK-NEXT: moe.all_to_all_v %arg0, %arg1, %arg2 over <"g", 2, 1> {copies = 2 : i64, direction = #moe<direction to_experts>}
// CHECK-NEXT: moe.all_to_all_v %arg0, %arg1, %arg3 over <"g", 2, 1> {direction = #moe<direction to_experts>}
func.func @all_to_all_v_all(%x: tensor<8x8xf32>, %b: tensor<1x4xi32>, %e: tensor<2x4xi32>, %f: tensor<2x2xi32>)
    -> (tensor<16x8xf32>, tensor<16x8xf32>) {
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction to_experts>, copies = 2 : i64}
    : (tensor<8x8xf32>, tensor<1x4xi32>, tensor<2x4xi32>) -> tensor<16x8xf32>
  %1 = moe.all_to_all_v %x, %b, %f over <"g", 2, 1> {direction = #moe<direction to_experts>, copies = 1 : i64}
    : (tensor<8x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  return %0, %1 : tensor<16x8xf32>, tensor<16x8xf32>
}

// Counts of the member's part of packed rows.
// CHECK-LABEL: func.func @slice_counts(
// CHECK-NEXT: moe.slice_counts %arg0 over <"mp", 2, 1> {rows = 16 : i64}
func.func @slice_counts(%c: tensor<1x4xi32>) -> tensor<1x4xi32> {
  %0 = moe.slice_counts %c over <"mp", 2, 1> {rows = 16 : i64} : tensor<1x4xi32>
  return %0 : tensor<1x4xi32>
}

// The choices of a member's own experts, packed with two holders of each, and with a capacity.
// CHECK-LABEL: func.func @local_slots(
// CHECK-NEXT: moe.local_slots %arg0, %arg1 over <"ep_esp", 4, 1> {copies = 2 : i64, room = 32 : i64}
// CHECK-NEXT: moe.local_slots %arg0, %arg1 over <"ep", 4, 2> {capacity = 8 : i64}
func.func @local_slots(%s: tensor<16x2xi32>, %c: tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x1xi32>) {
  %0, %1 = moe.local_slots %s, %c over <"ep_esp", 4, 1> {copies = 2 : i64, room = 32 : i64}
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>)
  %2, %3 = moe.local_slots %s, %c over <"ep", 4, 2> {capacity = 8 : i64}
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x1xi32>)
  return %0, %3 : tensor<16x2xi32>, tensor<1x1xi32>
}

// An exchange in two phases and its parts in the order of the members; a whole exchange may be a phase, and one part a whole.
// CHECK-LABEL: func.func @phases(
// CHECK-NEXT: %[[ALL_TO_ALL_PHASE:.+]] = moe.all_to_all_phase %arg0 over <"world", 4, 1> {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
// CHECK-NEXT: %[[ALL_TO_ALL_PHASE2:.+]] = moe.all_to_all_phase %arg0 over <"world", 4, 1> {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
// CHECK-NEXT: moe.join_phases %[[ALL_TO_ALL_PHASE]], %[[ALL_TO_ALL_PHASE2]] over <"world", 4, 1> :
// CHECK-NEXT: %[[ALL_TO_ALL_PHASE3:.+]] = moe.all_to_all_phase %arg0 over <"world", 4, 1> {concat_dim = 0 : i64, phase = 0 : i64, phases = 1 : i64, split_dim = 1 : i64}
// CHECK-NEXT: moe.join_phases %[[ALL_TO_ALL_PHASE3]] over <"world", 4, 1> :
func.func @phases(%x: tensor<8x4x16xf64>) -> (tensor<32x1x16xf64>, tensor<32x1x16xf64>) {
  %0 = moe.all_to_all_phase %x over <"world", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64}
    : (tensor<8x4x16xf64>) -> tensor<16x1x16xf64>
  %1 = moe.all_to_all_phase %x over <"world", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64}
    : (tensor<8x4x16xf64>) -> tensor<16x1x16xf64>
  %2 = moe.join_phases %0, %1 over <"world", 4, 1> : (tensor<16x1x16xf64>, tensor<16x1x16xf64>) -> tensor<32x1x16xf64>
  %3 = moe.all_to_all_phase %x over <"world", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64, phase = 0 : i64, phases = 1 : i64}
    : (tensor<8x4x16xf64>) -> tensor<32x1x16xf64>
  %4 = moe.join_phases %3 over <"world", 4, 1> : (tensor<32x1x16xf64>) -> tensor<32x1x16xf64>
  return %2, %4 : tensor<32x1x16xf64>, tensor<32x1x16xf64>
}

// As many phases as members, of counts, along one dimension; the phases' parts are divided, not the input.
// CHECK-LABEL: func.func @phases_of_counts(
// CHECK-NEXT: %[[ALL_TO_ALL_PHASE:.+]] = moe.all_to_all_phase %arg0 over <"ep", 2, 2> {concat_dim = 1 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
// CHECK-NEXT: moe.join_phases %[[ALL_TO_ALL_PHASE]], %[[ALL_TO_ALL_PHASE]] over <"ep", 2, 2> :
func.func @phases_of_counts(%c: tensor<1x8xi32>) -> tensor<1x8xi32> {
  %0 = moe.all_to_all_phase %c over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 1 : i64, phase = 1 : i64, phases = 2 : i64}
    : (tensor<1x8xi32>) -> tensor<1x4xi32>
  %1 = moe.join_phases %0, %0 over <"ep", 2, 2> : (tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<2x4xi32>
  return %c : tensor<1x8xi32>
}

// Phases of a ragged exchange: each is with the counts of the members that it receives from, and brings its rows into what others
// brought. Phase 0 of one is the default.
// CHECK-LABEL: func.func @ragged_phases(
// CHECK-NEXT: %[[E0:.+]] = moe.phase %arg2 over <"ep", 4, 2> {phase = 0 : i64, phases = 2 : i64}
// CHECK-NEXT: %[[E1:.+]] = moe.phase %arg2 over <"ep", 4, 2> {phase = 1 : i64, phases = 2 : i64}
// CHECK-NEXT: %[[X0:.+]] = moe.all_to_all_v %arg0, %arg1, %[[E0]] over <"ep", 4, 2> {direction = #moe<direction to_experts>, phases = 2 : i64}
// CHECK-NEXT: %[[X1:.+]] = moe.all_to_all_v %arg0, %arg1, %[[E1]] over <"ep", 4, 2> {direction = #moe<direction to_experts>, phase = 1 : i64, phases = 2 : i64}
// CHECK-NEXT: %[[Y1:.+]] = moe.all_to_all_v %[[X1]], %arg1, %[[E1]] over <"ep", 4, 2> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 2 : i64}
// CHECK-NEXT: moe.all_to_all_v %[[X0]], %arg1, %[[E0]] addend(%[[Y1]]) over <"ep", 4, 2> {direction = #moe<direction from_experts>, phases = 2 : i64}
// CHECK-NEXT: moe.all_to_all_v %arg0, %arg1, %arg2 over <"ep", 4, 2> {direction = #moe<direction to_experts>}
func.func @ragged_phases(%x: tensor<16x8xf32>, %b: tensor<1x8xi32>, %e: tensor<4x2xi32>) -> tensor<16x8xf32> {
  %e0 = moe.phase %e over <"ep", 4, 2> {phase = 0 : i64, phases = 2 : i64} : (tensor<4x2xi32>) -> tensor<2x2xi32>
  %e1 = moe.phase %e over <"ep", 4, 2> {phase = 1 : i64, phases = 2 : i64} : (tensor<4x2xi32>) -> tensor<2x2xi32>
  %x0 = moe.all_to_all_v %x, %b, %e0 over <"ep", 4, 2> {direction = #moe<direction to_experts>, phase = 0 : i64, phases = 2 : i64}
    : (tensor<16x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<24x8xf32>
  %x1 = moe.all_to_all_v %x, %b, %e1 over <"ep", 4, 2> {direction = #moe<direction to_experts>, phase = 1 : i64, phases = 2 : i64}
    : (tensor<16x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<24x8xf32>
  %y1 = moe.all_to_all_v %x1, %b, %e1 over <"ep", 4, 2> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  %y0 = moe.all_to_all_v %x0, %b, %e0 addend(%y1) over <"ep", 4, 2> {direction = #moe<direction from_experts>, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %whole = moe.all_to_all_v %x, %b, %e over <"ep", 4, 2> {direction = #moe<direction to_experts>, phase = 0 : i64, phases = 1 : i64}
    : (tensor<16x8xf32>, tensor<1x8xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  return %y0 : tensor<16x8xf32>
}

// With two holders of each expert and two blocks of each member: of four members' eight blocks a phase brings four.
// CHECK-LABEL: func.func @ragged_phases_of_copies(
// CHECK:      moe.phase %{{.*}} over <"world", 4, 1> {phase = 1 : i64, phases = 2 : i64}
// CHECK-NEXT: moe.all_to_all_v %{{.*}} over <"world", 4, 1> {copies = 2 : i64, direction = #moe<direction to_experts>, phase = 1 : i64, phases = 2 : i64}
func.func @ragged_phases_of_copies(%x: tensor<16x8xf32>, %b: tensor<2x8xi32>, %e: tensor<8x4xi32>) -> tensor<16x8xf32> {
  %0 = moe.phase %e over <"world", 4, 1> {phase = 1 : i64, phases = 2 : i64} : (tensor<8x4xi32>) -> tensor<4x4xi32>
  %1 = moe.all_to_all_v %x, %b, %0 over <"world", 4, 1>
    {direction = #moe<direction to_experts>, copies = 2 : i64, phase = 1 : i64, phases = 2 : i64}
    : (tensor<16x8xf32>, tensor<2x8xi32>, tensor<4x4xi32>) -> tensor<16x8xf32>
  return %1 : tensor<16x8xf32>
}

// An owner's value, floating-point or counts, and the sum back to it.
// CHECK-LABEL: func.func @broadcast_reduce(
// CHECK-NEXT: %[[BROADCAST:.+]] = moe.broadcast %arg0 over <"ep", 4, 1> {root = 3 : i64}
// CHECK-NEXT: moe.broadcast %arg1 over <"ep", 4, 1> {root = 0 : i64}
// CHECK-NEXT: moe.reduce %[[BROADCAST]] over <"ep", 4, 1> {root = 3 : i64}
func.func @broadcast_reduce(%x: tensor<4x8xf64>, %c: tensor<1x4xi32>) -> (tensor<4x8xf64>, tensor<1x4xi32>) {
  %0 = moe.broadcast %x over <"ep", 4, 1> {root = 3 : i64} : tensor<4x8xf64>
  %1 = moe.broadcast %c over <"ep", 4, 1> {root = 0 : i64} : tensor<1x4xi32>
  %2 = moe.reduce %0 over <"ep", 4, 1> {root = 3 : i64} : tensor<4x8xf64>
  return %2, %1 : tensor<4x8xf64>, tensor<1x4xi32>
}

// A claim, not an exchange.
// CHECK-LABEL: func.func @assume_replicated(
// CHECK-NEXT: moe.assume_replicated %arg0 over <"mp", 2, 1> :
func.func @assume_replicated(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = moe.assume_replicated %x over <"mp", 2, 1> : tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}
