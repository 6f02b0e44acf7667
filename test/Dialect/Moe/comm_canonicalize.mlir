// RUN: moe-opt %s --canonicalize | FileCheck %s

// Over one rank every collective is the identity.
// CHECK-LABEL: func.func @single_rank(
// CHECK-NEXT: return %arg0 :
func.func @single_rank(%x: tensor<4x8xf32>, %c: tensor<1x2xi32>) -> tensor<4x8xf32> {
  %0 = moe.all_gather %x over <"g", 1, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = moe.slice %0 over <"h", 1, 4> {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = moe.all_reduce %1 counts(%c) over <"g", 1, 1> : (tensor<4x8xf32>, tensor<1x2xi32>) -> tensor<4x8xf32>
  %3 = moe.to_varying %2 over <"g", 1, 1> : tensor<4x8xf32>
  %4 = moe.reduce_scatter %3 over <"g", 1, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = moe.all_to_all %4 over <"g", 1, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = moe.broadcast %5 over <"g", 1, 1> {root = 0 : i64} : tensor<4x8xf32>
  %7 = moe.reduce %6 over <"g", 1, 1> {root = 0 : i64} : tensor<4x8xf32>
  %8 = moe.assume_replicated %7 over <"g", 1, 1> : tensor<4x8xf32>
  return %8 : tensor<4x8xf32>
}

// The part of a single member is all rows.
// CHECK-LABEL: func.func @single_rank_slice_counts(
// CHECK-NEXT: return %arg0 :
func.func @single_rank_slice_counts(%c: tensor<1x4xi32>) -> tensor<1x4xi32> {
  %0 = moe.slice_counts %c over <"mp", 1, 1> {rows = 16 : i64} : tensor<1x4xi32>
  return %0 : tensor<1x4xi32>
}

// The part of one of two members must be computed, even without rows.
// CHECK-LABEL: func.func @slice_counts(
// CHECK-NEXT: moe.slice_counts %arg0 over <"mp", 2, 1> {rows = 0 : i64}
func.func @slice_counts(%c: tensor<1x4xi32>) -> tensor<1x4xi32> {
  %0 = moe.slice_counts %c over <"mp", 2, 1> {rows = 0 : i64} : tensor<1x4xi32>
  return %0 : tensor<1x4xi32>
}

// Phases that nobody joins are not exchanged.
// CHECK-LABEL: func.func @phases(
// CHECK-NEXT: return %arg0 :
func.func @phases(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.all_to_all_phase %x over <"g", 2, 1> {split_dim = 1 : i64, concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64}
    : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %1 = moe.all_to_all_phase %x over <"g", 2, 1> {split_dim = 1 : i64, concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64}
    : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %2 = moe.join_phases %0, %1 over <"g", 2, 1> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %x : tensor<4x8xf32>
}

// Copies are still to be sent where rows and result are of one type.
// CHECK-LABEL: func.func @all_to_all_v_copies(
// CHECK-NEXT: moe.all_to_all_v %arg0, %arg1, %arg2 over <"g", 2, 1> {copies = 2 : i64, direction = #moe<direction to_experts>}
func.func @all_to_all_v_copies(%x: tensor<8x4xf32>, %b: tensor<1x4xi32>, %e: tensor<2x4xi32>) -> tensor<8x4xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction to_experts>, copies = 2 : i64}
    : (tensor<8x4xf32>, tensor<1x4xi32>, tensor<2x4xi32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// One block of one rank is already sorted by expert, in both directions.
// CHECK-LABEL: func.func @single_rank_all_to_all_v(
// CHECK-NEXT: return %arg0 :
func.func @single_rank_all_to_all_v(%x: tensor<8x4xf32>, %b: tensor<1x4xi32>) -> tensor<8x4xf32> {
  %0 = moe.all_to_all_v %x, %b, %b over <"ep", 1, 1> {direction = #moe<direction to_experts>}
    : (tensor<8x4xf32>, tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<8x4xf32>
  %1 = moe.all_to_all_v %0, %b, %b over <"ep", 1, 1> {direction = #moe<direction from_experts>}
    : (tensor<8x4xf32>, tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// Two blocks still have to be merged.
// CHECK-LABEL: func.func @two_blocks(
// CHECK-NEXT: moe.all_to_all_v %arg0, %arg1, %arg1 over <"ep", 1, 1> {direction = #moe<direction to_experts>}
func.func @two_blocks(%x: tensor<8x4xf32>, %b: tensor<2x4xi32>) -> tensor<8x4xf32> {
  %0 = moe.all_to_all_v %x, %b, %b over <"ep", 1, 1> {direction = #moe<direction to_experts>}
    : (tensor<8x4xf32>, tensor<2x4xi32>, tensor<2x4xi32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// A reservation other than the rows themselves keeps the exchange, which copies.
// CHECK-LABEL: func.func @other_reservation(
// CHECK-NEXT: moe.all_to_all_v %arg0, %arg1, %arg1 over <"ep", 1, 1> {direction = #moe<direction to_experts>}
func.func @other_reservation(%x: tensor<8x4xf32>, %b: tensor<1x4xi32>) -> tensor<16x4xf32> {
  %0 = moe.all_to_all_v %x, %b, %b over <"ep", 1, 1> {direction = #moe<direction to_experts>}
    : (tensor<8x4xf32>, tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<16x4xf32>
  return %0 : tensor<16x4xf32>
}

// A member's part of the whole that the members have just gathered is its own; names of groups do not matter.
// CHECK-LABEL: func.func @slice_of_all_gather(
// CHECK-NEXT: return %arg0 :
func.func @slice_of_all_gather(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.all_gather %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = moe.slice %0 over <"esp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// Gathering the parts of a replicated value gives it back.
// CHECK-LABEL: func.func @all_gather_of_slice(
// CHECK-NEXT: return %arg0 :
func.func @all_gather_of_slice(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.slice %x over <"esp", 2, 1> {dim = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  %1 = moe.all_gather %0 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// Another dimension is another part.
// CHECK-LABEL: func.func @slice_of_other_dim(
// CHECK-NEXT: %[[ALL_GATHER:.+]] = moe.all_gather %arg0 over <"mp", 2, 1> {dim = 0 : i64}
// CHECK-NEXT: moe.slice %[[ALL_GATHER]] over <"mp", 2, 1> {dim = 1 : i64}
func.func @slice_of_other_dim(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = moe.all_gather %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = moe.slice %0 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// A group of the same name and size but another stride holds other ranks.
// CHECK-LABEL: func.func @slice_of_other_stride(
// CHECK-NEXT: %[[ALL_GATHER:.+]] = moe.all_gather %arg0 over <"mp", 2, 1> {dim = 0 : i64}
// CHECK-NEXT: moe.slice %[[ALL_GATHER]] over <"mp", 2, 2> {dim = 0 : i64}
func.func @slice_of_other_stride(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.all_gather %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = moe.slice %0 over <"mp", 2, 2> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// Gathering over one group what was split over another is neither's identity.
// CHECK-LABEL: func.func @all_gather_of_other_slice(
// CHECK-NEXT: %[[SLICE:.+]] = moe.slice %arg0 over <"mp", 2, 1> {dim = 0 : i64}
// CHECK-NEXT: moe.all_gather %[[SLICE]] over <"ep", 2, 2> {dim = 0 : i64}
func.func @all_gather_of_other_slice(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = moe.all_gather %0 over <"ep", 2, 2> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// A sum of which each member keeps its part is a reduce_scatter.
// CHECK-LABEL: func.func @slice_of_all_reduce(
// CHECK-NEXT: moe.reduce_scatter %arg0 over <"mp", 2, 1> {dim = 1 : i64}
func.func @slice_of_all_reduce(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = moe.all_reduce %x over <"esp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = moe.slice %0 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// Not where the whole sum is needed too.
// CHECK-LABEL: func.func @slice_of_used_all_reduce(
// CHECK-NEXT: %[[ALL_REDUCE:.+]] = moe.all_reduce %arg0 over <"esp", 2, 1> :
// CHECK-NEXT: %[[SLICE:.+]] = moe.slice %[[ALL_REDUCE]] over <"esp", 2, 1> {dim = 1 : i64}
// CHECK-NEXT: return %[[SLICE]], %[[ALL_REDUCE]] :
func.func @slice_of_used_all_reduce(%x: tensor<8x8xf32>) -> (tensor<8x4xf32>, tensor<8x8xf32>) {
  %0 = moe.all_reduce %x over <"esp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = moe.slice %0 over <"esp", 2, 1> {dim = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %1, %0 : tensor<8x4xf32>, tensor<8x8xf32>
}

// Not over another group.
// CHECK-LABEL: func.func @slice_of_other_all_reduce(
// CHECK-NEXT: %[[ALL_REDUCE:.+]] = moe.all_reduce %arg0 over <"esp", 2, 1> :
// CHECK-NEXT: moe.slice %[[ALL_REDUCE]] over <"ep", 2, 2> {dim = 1 : i64}
func.func @slice_of_other_all_reduce(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = moe.all_reduce %x over <"esp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = moe.slice %0 over <"ep", 2, 2> {dim = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// Not of a ragged sum, which has no even parts.
// CHECK-LABEL: func.func @slice_of_ragged_all_reduce(
// CHECK-NEXT: %[[ALL_REDUCE:.+]] = moe.all_reduce %arg0 counts(%arg1) over <"esp", 2, 1> :
// CHECK-NEXT: moe.slice %[[ALL_REDUCE]] over <"esp", 2, 1> {dim = 0 : i64}
func.func @slice_of_ragged_all_reduce(%x: tensor<8x8xf32>, %c: tensor<1x2xi32>) -> tensor<4x8xf32> {
  %0 = moe.all_reduce %x counts(%c) over <"esp", 2, 1> : (tensor<8x8xf32>, tensor<1x2xi32>) -> tensor<8x8xf32>
  %1 = moe.slice %0 over <"esp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// It stands in for the slice: in the same stage, chunk and ring. Without them a step's order, and its rings, would not know it.
// CHECK-LABEL: func.func @slice_of_all_reduce_in_a_stage(
// CHECK: moe.reduce_scatter %{{.*}} over <"mp", 2, 1> {dim = 1 : i64, moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"layer0.0.0", 1>, moe.stage = #moe.stage<1, backward>}
func.func @slice_of_all_reduce_in_a_stage(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = moe.all_reduce %x over <"mp", 2, 1> {moe.stage = #moe.stage<1, backward>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = moe.slice %0 over <"mp", 2, 1> {dim = 1 : i64, moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"layer0.0.0", 1>, moe.stage = #moe.stage<1, backward>} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// A reduce of the members' equal shares of a sum is the sum at the owner.
// CHECK-LABEL: func.func @reduce_of_average(
// CHECK-NEXT: moe.reduce %arg0 over <"ep", 4, 1> {root = 2 : i64}
func.func @reduce_of_average(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.all_reduce %x over <"ep", 4, 1> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = moe.scale %0 {factor = 2.5e-01 : f64} : tensor<4x8xf32>
  %2 = moe.to_varying %1 over <"dp", 4, 1> : tensor<4x8xf32>
  %3 = moe.reduce %2 over <"ep", 4, 1> {root = 2 : i64} : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @reduce_of_average_in_a_stage(
// CHECK-NEXT: moe.reduce %{{.*}} over <"ep", 4, 1> {moe.stage = #moe.stage<1>, root = 2 : i64}
func.func @reduce_of_average_in_a_stage(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.all_reduce %x over <"ep", 4, 1> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = moe.scale %0 {factor = 2.5e-01 : f64} : tensor<4x8xf32>
  %2 = moe.to_varying %1 over <"dp", 4, 1> : tensor<4x8xf32>
  %3 = moe.reduce %2 over <"ep", 4, 1> {moe.stage = #moe.stage<1>, root = 2 : i64} : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// Any other factor has a meaning of its own.
// CHECK-LABEL: func.func @reduce_of_other_share(
// CHECK-NEXT: %[[ALL_REDUCE:.+]] = moe.all_reduce %arg0 over <"ep", 4, 1> :
// CHECK-NEXT: %[[SCALE:.+]] = moe.scale %[[ALL_REDUCE]] {factor = 5.000000e-01 : f64}
// CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %[[SCALE]] over <"ep", 4, 1> :
// CHECK-NEXT: moe.reduce %[[TO_VARYING]] over <"ep", 4, 1> {root = 2 : i64}
func.func @reduce_of_other_share(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.all_reduce %x over <"ep", 4, 1> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = moe.scale %0 {factor = 5.0e-01 : f64} : tensor<4x8xf32>
  %2 = moe.to_varying %1 over <"ep", 4, 1> : tensor<4x8xf32>
  %3 = moe.reduce %2 over <"ep", 4, 1> {root = 2 : i64} : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// So has a sum over another group.
// CHECK-LABEL: func.func @reduce_of_other_average(
// CHECK-NEXT: %[[ALL_REDUCE:.+]] = moe.all_reduce %arg0 over <"ep", 4, 2> :
// CHECK-NEXT: %[[SCALE:.+]] = moe.scale %[[ALL_REDUCE]] {factor = 2.500000e-01 : f64}
// CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %[[SCALE]] over <"ep", 4, 1> :
// CHECK-NEXT: moe.reduce %[[TO_VARYING]] over <"ep", 4, 1> {root = 2 : i64}
func.func @reduce_of_other_average(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.all_reduce %x over <"ep", 4, 2> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = moe.scale %0 {factor = 2.5e-01 : f64} : tensor<4x8xf32>
  %2 = moe.to_varying %1 over <"ep", 4, 1> : tensor<4x8xf32>
  %3 = moe.reduce %2 over <"ep", 4, 1> {root = 2 : i64} : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// The counts of one phase are those of all members, and its exchange is the whole one.
// CHECK-LABEL: func.func @one_phase(
// CHECK-NEXT: moe.all_to_all_v %arg0, %arg1, %arg2 over <"ep", 4, 1> {direction = #moe<direction to_experts>}
func.func @one_phase(%x: tensor<16x8xf32>, %b: tensor<1x8xi32>, %e: tensor<4x2xi32>) -> tensor<64x8xf32> {
  %0 = moe.phase %e over <"ep", 4, 1> {phase = 0 : i64, phases = 1 : i64} : (tensor<4x2xi32>) -> tensor<4x2xi32>
  %1 = moe.all_to_all_v %x, %b, %0 over <"ep", 4, 1> {direction = #moe<direction to_experts>, phases = 1 : i64}
    : (tensor<16x8xf32>, tensor<1x8xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  return %1 : tensor<64x8xf32>
}

// A part of two phases depends on the member.
// CHECK-LABEL: func.func @two_phases(
// CHECK-NEXT: moe.phase %arg0 over <"ep", 4, 1> {phase = 0 : i64, phases = 2 : i64}
func.func @two_phases(%c: tensor<4x2xi32>) -> tensor<2x2xi32> {
  %0 = moe.phase %c over <"ep", 4, 1> {phase = 0 : i64, phases = 2 : i64} : (tensor<4x2xi32>) -> tensor<2x2xi32>
  return %0 : tensor<2x2xi32>
}

// The sum of what the phases of one exchange bring is one buffer, in the order of the exchanges; names of groups do not matter.
// CHECK-LABEL: func.func @sum_of_phases(
// CHECK-NEXT: %[[P2:.+]] = moe.all_to_all_v %arg0, %arg1, %arg2 over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 2 : i64, phases = 4 : i64}
// CHECK-NEXT: %[[P0:.+]] = moe.all_to_all_v %arg0, %arg1, %arg2 addend(%[[P2]]) over <"world", 4, 1> {direction = #moe<direction from_experts>, phases = 4 : i64}
// CHECK-NEXT: moe.all_to_all_v %arg0, %arg1, %arg2 addend(%[[P0]]) over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 3 : i64, phases = 4 : i64}
func.func @sum_of_phases(%x: tensor<8x8xf32>, %b: tensor<1x8xi32>, %e: tensor<1x2xi32>) -> tensor<16x8xf32> {
  %2 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 2 : i64, phases = 4 : i64}
    : (tensor<8x8xf32>, tensor<1x8xi32>, tensor<1x2xi32>) -> tensor<16x8xf32>
  %0 = moe.all_to_all_v %x, %b, %e over <"world", 4, 1> {direction = #moe<direction from_experts>, phases = 4 : i64}
    : (tensor<8x8xf32>, tensor<1x8xi32>, tensor<1x2xi32>) -> tensor<16x8xf32>
  %3 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 3 : i64, phases = 4 : i64}
    : (tensor<8x8xf32>, tensor<1x8xi32>, tensor<1x2xi32>) -> tensor<16x8xf32>
  %4 = moe.add %0, %2 : tensor<16x8xf32>
  %5 = moe.add %3, %4 : tensor<16x8xf32>
  return %5 : tensor<16x8xf32>
}

// Anything else is added by itself: another value, the same phase, and a whole exchange, whose rows all are its own.
// CHECK-LABEL: func.func @sums_with_phases(
// CHECK-NOT:  addend
// CHECK:      %[[P0:.+]] = moe.all_to_all_v {{.*}} {direction = #moe<direction from_experts>, phases = 2 : i64}
// CHECK-NEXT: %[[P1:.+]] = moe.all_to_all_v {{.*}} {direction = #moe<direction from_experts>, phases = 2 : i64}
// CHECK-NEXT: %[[W:.+]] = moe.all_to_all_v {{.*}} {direction = #moe<direction from_experts>}
// CHECK-NEXT: %[[V:.+]] = moe.all_to_all_v {{.*}} {direction = #moe<direction from_experts>}
// CHECK-NEXT: %[[A:.+]] = moe.add %[[P0]], %arg1 :
// CHECK-NEXT: %[[B:.+]] = moe.add %[[A]], %[[P1]] :
// CHECK-NEXT: %[[C:.+]] = moe.add %[[W]], %[[V]] :
// CHECK-NEXT: return %[[B]], %[[C]] :
func.func @sums_with_phases(%x: tensor<8x8xf32>, %z: tensor<16x8xf32>, %b: tensor<1x8xi32>, %e: tensor<4x2xi32>, %f: tensor<2x2xi32>)
    -> (tensor<16x8xf32>, tensor<16x8xf32>) {
  %p0 = moe.all_to_all_v %x, %b, %f over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 2 : i64}
    : (tensor<8x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  %p1 = moe.all_to_all_v %x, %b, %f over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 2 : i64}
    : (tensor<8x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  %w = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>}
    : (tensor<8x8xf32>, tensor<1x8xi32>, tensor<4x2xi32>) -> tensor<16x8xf32>
  %v = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>}
    : (tensor<8x8xf32>, tensor<1x8xi32>, tensor<4x2xi32>) -> tensor<16x8xf32>
  %0 = moe.add %p0, %z : tensor<16x8xf32>
  %1 = moe.add %0, %p1 : tensor<16x8xf32>
  %2 = moe.add %w, %v : tensor<16x8xf32>
  return %1, %2 : tensor<16x8xf32>, tensor<16x8xf32>
}

// So is what somebody else needs as it is.
// CHECK-LABEL: func.func @sum_of_used_phases(
// CHECK:      %[[P0:.+]] = moe.all_to_all_v
// CHECK-NEXT: %[[P1:.+]] = moe.all_to_all_v
// CHECK-NEXT: %[[SUM:.+]] = moe.add %[[P0]], %[[P1]] :
// CHECK-NEXT: return %[[SUM]], %[[P1]] :
func.func @sum_of_used_phases(%x: tensor<8x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) -> (tensor<16x8xf32>, tensor<16x8xf32>) {
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 2 : i64}
    : (tensor<8x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  %1 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 2 : i64}
    : (tensor<8x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  %2 = moe.add %0, %1 : tensor<16x8xf32>
  return %2, %1 : tensor<16x8xf32>, tensor<16x8xf32>
}

// On the way to the experts phases bring different rows to the same places.
// CHECK-LABEL: func.func @sum_at_experts(
// CHECK:      moe.add
func.func @sum_at_experts(%x: tensor<16x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) -> tensor<32x8xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>, phases = 2 : i64}
    : (tensor<16x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
  %1 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>, phase = 1 : i64, phases = 2 : i64}
    : (tensor<16x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
  %2 = moe.add %0, %1 : tensor<32x8xf32>
  return %2 : tensor<32x8xf32>
}

// A reduction of shadows adds whatever is there before it, on either side.
// CHECK-LABEL: func.func @sum_with_reduce_experts(
// CHECK-NEXT: %[[R0:.+]] = moe.reduce_experts %arg0, %arg1 addend(%arg2) over <"ep", 4, 1> :
// CHECK-NEXT: moe.reduce_experts %arg0, %arg1 addend(%[[R0]]) over <"ep", 4, 1>
func.func @sum_with_reduce_experts(%g: tensor<3x4xf32>, %s: tensor<1x8xi32>, %a: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = moe.reduce_experts %g, %s over <"ep", 4, 1> : (tensor<3x4xf32>, tensor<1x8xi32>) -> tensor<2x4xf32>
  %1 = moe.reduce_experts %g, %s over <"ep", 4, 1> : (tensor<3x4xf32>, tensor<1x8xi32>) -> tensor<2x4xf32>
  %2 = moe.add %a, %0 : tensor<2x4xf32>
  %3 = moe.add %1, %2 : tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// Ops after the reduction are added after it, and so are those that a second sum needs.
// CHECK-LABEL: func.func @sum_behind_reduce_experts(
// CHECK-NEXT: %[[R:.+]] = moe.reduce_experts %arg0, %arg1 over <"ep", 4, 1> :
// CHECK-NEXT: %[[SCALE:.+]] = moe.scale %arg2
// CHECK-NEXT: %[[SUM:.+]] = moe.add %[[R]], %[[SCALE]] :
// CHECK-NEXT: %[[FULL:.+]] = moe.reduce_experts %arg0, %arg1 addend(%[[SUM]])
// CHECK-NEXT: moe.add %[[FULL]], %arg2 :
func.func @sum_behind_reduce_experts(%g: tensor<3x4xf32>, %s: tensor<1x8xi32>, %a: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = moe.reduce_experts %g, %s over <"ep", 4, 1> : (tensor<3x4xf32>, tensor<1x8xi32>) -> tensor<2x4xf32>
  %1 = moe.scale %a {factor = 2.0 : f64} : tensor<2x4xf32>
  %2 = moe.add %0, %1 : tensor<2x4xf32>
  %3 = moe.reduce_experts %g, %s addend(%2) over <"ep", 4, 1> : (tensor<3x4xf32>, tensor<1x8xi32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = moe.add %3, %a : tensor<2x4xf32>
  return %4 : tensor<2x4xf32>
}
