// RUN: moe-opt %s -split-input-file -verify-diagnostics

// plan.buffer (C1): the element type.
func.func @buffer_c1_dtype() {
  // expected-error @+1 {{expected a dense row-major memref of f32, f64, bf16, f16 or i32 with rank 4 and 2^48 bytes at most but got 'memref<4xi8, #plan<space device>>'}}
  %0 = plan.buffer : memref<4xi8, #plan<space device>>
  return
}

// -----

// plan.buffer (C1): the rank.
func.func @buffer_c1_rank() {
  // expected-error @+1 {{with rank 4 and 2^48 bytes at most}}
  %0 = plan.buffer : memref<1x1x1x1x1xf32, #plan<space device>>
  return
}

// -----

// plan.buffer (C1): the layout.
func.func @buffer_c1_layout() {
  // expected-error @+1 {{expected a dense row-major memref}}
  %0 = plan.buffer : memref<4x4xf32, strided<[8, 1]>, #plan<space device>>
  return
}

// -----

// plan.buffer (C1): static shapes.
func.func @buffer_c1_static() {
  // expected-error @+1 {{must be statically shaped memref}}
  %0 = plan.buffer : memref<?xf32, #plan<space device>>
  return
}

// -----

// plan.buffer (C1): the memory space.
func.func @buffer_c1_space() {
  // expected-error @+1 {{expected the memory space to be #plan<space device> or #plan<space host_pinned> but got 'memref<4xf32>'}}
  %0 = plan.buffer : memref<4xf32>
  return
}

// -----

// plan.buffer (C2): the offset.
func.func @buffer_c2() {
  // expected-error @+1 {{attribute 'offset' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  %0 = plan.buffer {offset = -256 : i64} : memref<4xf32, #plan<space device>>
  return
}

// -----

// plan.launch (C1): params.
func.func @launch_c1(%a: memref<4xf32>) {
  // expected-error @+1 {{expected params of i64 or f64 but got 1 : i32}}
  plan.launch "scale"(%a) -> (%a) params [1 : i32] : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// plan.launch (C2): a collective has a group.
func.func @launch_c2(%a: memref<4xf32>) {
  // expected-error @+1 {{expected a collective to have a group}}
  plan.launch "all_reduce"(%a) -> (%a) collective : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// plan.launch (C3): absent positions within the call's inputs.
func.func @launch_c3_range(%a: memref<4xf32>) {
  // expected-error @+1 {{expected absent positions to rise strictly and be less than 2, the number of the call's inputs, but got [2]}}
  plan.launch "all_reduce"(%a) -> (%a) {absent = array<i64: 2>} : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// plan.launch (C3): absent positions rise.
func.func @launch_c3_order(%a: memref<4xf32>) {
  // expected-error @+1 {{expected absent positions to rise strictly and be less than 3, the number of the call's inputs, but got [1, 1]}}
  plan.launch "f"(%a) -> (%a) {absent = array<i64: 1, 1>} : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// plan.launch (C3): in_place names an input.
func.func @launch_c3_in_place(%a: memref<4xf32>) {
  // expected-error @+1 {{expected in_place to name one of 1 inputs but got 1}}
  plan.launch "f"(%a) -> (%a) {in_place = array<i64: 1>} : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// plan.record (C1): the event.
func.func @record_c1() {
  // expected-error @+1 {{attribute 'event' failed to satisfy constraint}}
  plan.record -1 on "compute"
  return
}

// -----

// plan.record (C1): the largest event.
func.func @record_c1_large() {
  // expected-error @+1 {{attribute 'event' failed to satisfy constraint}}
  plan.record 16777216 on "compute"
  return
}

// -----

// plan.wait (C1): the event.
func.func @wait_c1() {
  // expected-error @+1 {{attribute 'event' failed to satisfy constraint}}
  plan.wait -1 on "compute"
  return
}

// -----

// plan.launch (C4): an exchange needs members.
func.func @launch_c4(%a: memref<4xf32>) {
  // expected-error @+1 {{expected a launch whose cost has an exchange to be collective}}
  plan.launch "copy"(%a) -> (%a) {cost = #plan.cost<network, collective = broadcast, payload = 16>}
    : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// A cost is never negative.
// expected-error @+1 {{expected costs to be finite and not negative}}
func.func @cost() attributes {test.cost = #plan.cost<memory, read = -1>} {
  return
}

// -----

// A cost names what is kept busy.
// expected-error @+1 {{expected a resource but got 'wires'}}
func.func @cost_resource() attributes {test.cost = #plan.cost<wires>} {
  return
}

// -----

// An exchange is one of those that the cost models know.
// expected-error @+1 {{expected a collective but got 'gossip'}}
func.func @cost_collective() attributes {test.cost = #plan.cost<network, collective = gossip>} {
  return
}

// -----

// An exchange keeps the network busy, and nothing else does.
// expected-error @+1 {{expected a collective with the resource network, and only with it}}
func.func @cost_network() attributes {test.cost = #plan.cost<memory, collective = reduce>} {
  return
}

// -----

// A product has four sizes.
// expected-error @+1 {{expected gemm = [groups, rows, columns, depth]}}
func.func @cost_gemm() attributes {test.cost = #plan.cost<matrix, gemm = [1, 2, 3]>} {
  return
}

// -----

// Attention has both of its sizes.
// expected-error @+1 {{expected attention = [columns of a head, products], both positive}}
func.func @cost_attention() attributes {test.cost = #plan.cost<matrix, attention = [32, 0]>} {
  return
}

// -----

// The rows of a ragged launch are in some input of the call.
// expected-error @+1 {{expected rows and counts together}}
func.func @cost_ragged() attributes {test.cost = #plan.cost<memory, rows = 4>} {
  return
}

// -----

// Parts for the members are rows or columns of the counts.
// expected-error @+1 {{expected peers to be 0 or 1 but got 2}}
func.func @cost_peers() attributes {test.cost = #plan.cost<memory, rows = 4, counts = 0, peers = 2>} {
  return
}

// -----

// No other parts.
// expected-error @+1 {{expected a part of a cost but got 'sent'}}
func.func @cost_part() attributes {test.cost = #plan.cost<memory, sent = 4>} {
  return
}

// -----

// plan.view (C1): no view of a part that depends on the rank.
func.func @view_c1_view(%x: memref<8x4xf32>) {
  %0 = plan.view %x part 0 of 2 over <"mp", 2, 1> : memref<8x4xf32> -> memref<4x4xf32>
  // expected-error @+1 {{'plan.view' op expected a view of a plan.buffer, an argument or a view without a group}}
  %1 = plan.view %0 part 0 of 2 over <"mp", 2, 1> : memref<4x4xf32> -> memref<2x4xf32>
  return
}

// -----

// plan.view (C2): parts divides the group's size.
func.func @view_c2_divide(%x: memref<8x4xf32>) {
  // expected-error @+1 {{expected parts to divide the group's size 4 but got 3}}
  %0 = plan.view %x part 0 of 3 over <"ep", 4, 1> : memref<8x4xf32> -> memref<2x4xf32>
  return
}

// -----

// plan.view (C2): there is a part.
func.func @view_c2_none(%x: memref<8x4xf32>) {
  // expected-error @+1 {{expected a part below 0, the number of parts, but got part 0}}
  %0 = plan.view %x part 0 of 0 over <"ep", 4, 1> : memref<8x4xf32> -> memref<8x4xf32>
  return
}

// -----

// plan.view (C2): the part is one of them.
func.func @view_c2_beyond(%x: memref<8x4xf32>) {
  // expected-error @+1 {{expected a part below 2, the number of parts, but got part 2}}
  %0 = plan.view %x part 2 of 2 over <"ep", 4, 1> : memref<8x4xf32> -> memref<4x4xf32>
  return
}

// -----

// plan.view (C2): the part is not negative.
func.func @view_c2_negative(%x: memref<8x4xf32>) {
  // expected-error @+1 {{expected a part below 2, the number of parts, but got part -1}}
  %0 = plan.view %x part -1 of 2 over <"ep", 4, 1> : memref<8x4xf32> -> memref<4x4xf32>
  return
}

// -----

// plan.view (C3): parts divides dimension 0.
func.func @view_c3_divide(%x: memref<6x4xf32>) {
  // expected-error @+1 {{expected a source with a dimension 0 divisible by 4 but got 'memref<6x4xf32>'}}
  %0 = plan.view %x part 0 of 4 over <"ep", 4, 1> : memref<6x4xf32> -> memref<1x4xf32>
  return
}

// -----

// plan.view (C3): there is a dimension 0.
func.func @view_c3_scalar(%x: memref<f32>) {
  // expected-error @+1 {{expected a source with a dimension 0 divisible by 2 but got 'memref<f32>'}}
  %0 = plan.view %x part 0 of 2 over <"ep", 4, 1> : memref<f32> -> memref<f32>
  return
}

// -----

// plan.view (C3): the source is what a buffer may be.
func.func @view_c3_source(%x: memref<8x4xi8>) {
  // expected-error @+1 {{expected a source with a dimension 0 divisible by 2 but got 'memref<8x4xi8>'}}
  %0 = plan.view %x part 0 of 2 over <"ep", 4, 1> : memref<8x4xi8> -> memref<4x4xi8>
  return
}

// -----

// plan.view (C3): dimension 0 is divided.
func.func @view_c3_shape(%x: memref<8x4xf32>) {
  // expected-error @+1 {{expected the result to be 'memref<4x4xf32>' but got 'memref<8x2xf32>'}}
  %0 = plan.view %x part 0 of 2 over <"ep", 4, 1> : memref<8x4xf32> -> memref<8x2xf32>
  return
}

// -----

// plan.view (C3): by the parts, not the members.
func.func @view_c3_whole(%x: memref<8x4xf32>) {
  // expected-error @+1 {{expected the result to be 'memref<4x4xf32>' but got 'memref<2x4xf32>'}}
  %0 = plan.view %x part 0 of 2 over <"ep", 4, 1> : memref<8x4xf32> -> memref<2x4xf32>
  return
}

// -----

// plan.view (C3): the elements stay.
func.func @view_c3_type(%x: memref<8x4xf32>) {
  // expected-error @+1 {{expected the result to be 'memref<4x4xf32>' but got 'memref<4x4xi32>'}}
  %0 = plan.view %x part 0 of 2 over <"ep", 4, 1> : memref<8x4xf32> -> memref<4x4xi32>
  return
}

// -----

// plan.view (C3): the memory space stays.
func.func @view_c3_space(%x: memref<8x4xf32>) {
  // expected-error @+1 {{expected the result to be 'memref<4x4xf32>' but got 'memref<4x4xf32, #plan<space device>>'}}
  %0 = plan.view %x part 0 of 2 over <"ep", 4, 1> : memref<8x4xf32> -> memref<4x4xf32, #plan<space device>>
  return
}

// -----

// plan.view (C1): nor one that is the same on all ranks of a part that depends on the rank.
func.func @view_c1_same(%x: memref<8x4xf32>) {
  %0 = plan.view %x part 0 of 2 over <"mp", 2, 1> : memref<8x4xf32> -> memref<4x4xf32>
  // expected-error @+1 {{'plan.view' op expected a view of a plan.buffer, an argument or a view without a group}}
  %1 = plan.view %0 part 0 of 2 : memref<4x4xf32> -> memref<2x4xf32>
  return
}

// -----

// plan.view (C3): parts divides dimension 0 of a part.
func.func @view_c3_part(%x: memref<8x4xf32>) {
  %0 = plan.view %x part 0 of 2 : memref<8x4xf32> -> memref<4x4xf32>
  // expected-error @+1 {{expected a source with a dimension 0 divisible by 3 but got 'memref<4x4xf32>'}}
  %1 = plan.view %0 part 0 of 3 : memref<4x4xf32> -> memref<1x4xf32>
  return
}

// -----

// plan.buffer (C1): a size that 64 bits would take for a small one.
func.func @buffer_c1_size() {
  // expected-error @+1 {{with rank 4 and 2^48 bytes at most but got 'memref<4294967296x4294967296xf32, #plan<space device>>'}}
  %0 = plan.buffer {offset = 0 : i64} : memref<4294967296x4294967296xf32, #plan<space device>>
  return
}

// -----

// plan.buffer (C2): an end that 64 bits would take for a negative one.
func.func @buffer_c2_end() {
  // expected-error @+1 {{expected an offset of at most 2^62 but got 9223372036854775800}}
  %0 = plan.buffer {offset = 9223372036854775800 : i64} : memref<4xf32, #plan<space device>>
  return
}

// -----

// expected-error @+1 {{expected a rule for counts, one of route, route_in_groups, route_near_home, gather, exchange, slice_rows, own_experts, window, repeat, choose_shadows, kept_choices, shadow_choices, merged_rows, sent_choices, arrived_choices, but got 'guess'}}
func.func @unknown_rule() attributes {test.counts = #plan.counts<guess, output = 0>} {
  return
}

// -----

// expected-error @+1 {{expected ', dim = ..' in a rule for counts}}
func.func @missing_field() attributes {test.counts = #plan.counts<gather, output = 0, input = 0>} {
  return
}

// -----

// expected-error @+1 {{expected dim to be at most 1 but got 2}}
func.func @no_such_dim() attributes {test.counts = #plan.counts<gather, output = 0, input = 0, dim = 2>} {
  return
}

// -----

// expected-error @+1 {{expected start to be finite and not negative}}
func.func @negative_time() attributes {test.counts = #plan.counts<choose_shadows, output = 0, input = 0, policy = 1, workers = 4, node_workers = 2, most = 2, room = 0, phases = 1, row_compute = 0.0, row_send = 0.0, row_local = 0.0, row_node = 0.0, expert = 1.0, start = -1.0>} {
  return
}

// -----

func.func @counts_of_no_output(%a: memref<1x4xi32>, %b: memref<1x4xi32>) {
  // expected-error @+1 {{expected counts of different outputs among 1 but got 1}}
  plan.launch "dump"(%a) -> (%b) params [1, 1] {counts = [#plan.counts<repeat, output = 1, input = 0, dim = 1, blocks = 1>]}
    : (memref<1x4xi32>) -> memref<1x4xi32>
  return
}

// -----

func.func @counts_that_are_none(%a: memref<1x4xf32>, %b: memref<1x4xf32>) {
  // expected-error @+1 {{expected an i32 matrix for counts but got 'memref<1x4xf32>'}}
  plan.launch "dump"(%a) -> (%b) params [1, 1] {counts = [#plan.counts<repeat, output = 0, input = 0, dim = 1, blocks = 1>]}
    : (memref<1x4xf32>) -> memref<1x4xf32>
  return
}

// -----

func.func @counts_from_no_input(%a: memref<1x4xi32>, %b: memref<1x4xi32>) {
  // expected-error @+1 {{expected counts from one of the inputs but got input 1}}
  plan.launch "dump"(%a) -> (%b) params [1, 1] {counts = [#plan.counts<repeat, output = 0, input = 1, dim = 1, blocks = 1>]}
    : (memref<1x4xi32>) -> memref<1x4xi32>
  return
}

// -----

func.func @counts_of_members_without_a_group(%a: memref<1x4xi32>, %b: memref<1x4xi32>) {
  // expected-error @+1 {{expected a group for counts by rule 'slice_rows'}}
  plan.launch "slice_counts"(%a) -> (%b) params [8] {counts = [#plan.counts<slice_rows, output = 0, input = 0, rows = 8>]}
    : (memref<1x4xi32>) -> memref<1x4xi32>
  return
}

// -----

func.func @counts_that_nobody_exchanges(%a: memref<1x4xi32>, %b: memref<2x4xi32>) {
  // expected-error @+1 {{expected a collective for counts that members exchange, and only for them, but got rule 'gather'}}
  plan.launch "all_gather"(%a) -> (%b) params [0] over <"ep", 2, 1> {counts = [#plan.counts<gather, output = 0, input = 0, dim = 0>]}
    : (memref<1x4xi32>) -> memref<2x4xi32>
  return
}

// -----

// plan.view (C4): a view that moves has no group.
func.func @view_c4_group(%x: memref<8x4xf32>) {
  // expected-error @+1 {{expected a view that moves to have no group, and not to go backwards}}
  %0 = "plan.view"(%x) {shift = 0 : i64, parts = 2 : i64, group = #moe.group<"mp", 2, 1>, step = 1 : i64} : (memref<8x4xf32>) -> memref<4x4xf32>
  return
}

// -----

// plan.view (C4): a view does not move backwards.
func.func @view_c4_step(%x: memref<8x4xf32>) {
  // expected-error @+1 {{expected a view that moves to have no group, and not to go backwards}}
  %0 = "plan.view"(%x) {shift = 0 : i64, parts = 2 : i64, step = -1 : i64} : (memref<8x4xf32>) -> memref<4x4xf32>
  return
}

// -----

// plan.loop (C1): at least one iteration.
func.func @loop_c1() {
  // expected-error @+1 {{expected at least one iteration}}
  plan.loop 0 {
  }
  return
}

// -----

// plan.loop (C2): no loop in a loop.
func.func @loop_c2_nested() {
  plan.loop 2 {
    // expected-error @+1 {{expected only plan ops other than loops in a plan.loop}}
    plan.loop 2 {
    }
  }
  return
}

// -----

// plan.loop (C2): plan ops only.
func.func @loop_c2_ops() {
  plan.loop 2 {
    // expected-error @+1 {{expected only plan ops other than loops in a plan.loop}}
    func.call @loop_c2_ops() : () -> ()
  }
  return
}

// -----

// plan.loop (C2): no loop in a loop whose iterations the run decides.
func.func @loop_c2_times(%n: memref<1xi32>) {
  plan.loop 2 times(%n : memref<1xi32>) {
    // expected-error @+1 {{expected only plan ops other than loops in a plan.loop}}
    plan.loop 2 times(%n : memref<1xi32>) {
    }
  }
  return
}
