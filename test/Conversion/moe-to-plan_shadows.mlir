// RUN: moe-opt %s --convert-moe-to-plan | FileCheck %s --implicit-check-not=plan.launch

// FasterMoE's calls: their parameters in the order of moert.h, what is absent, and sums that stay in one place.

// The policy's number, then what is in whole numbers, then times; chunks and their rows.
// CHECK-LABEL: func.func @choose(
// CHECK: plan.launch "choose_shadows"(%arg0) -> (%[[S:.+]]) params [1, 4, 2, 2, 24, 3, 3.125000e-02, 6.250000e-02, 1.250000e-01, 2.500000e-01, 5.000000e-01, 1.000000e+00] {cost = #plan.cost<memory, read = 128, written = 32>, counts = [#plan.counts<choose_shadows, output = 0, input = 0, policy = 1, workers = 4, node_workers = 2, most = 2, room = 24, phases = 3, row_compute = 3.125e-2, row_send = 6.25e-2, row_local = 1.25e-1, row_node = 2.5e-1, expert = 5.0e-1, start = 1.0>]}
// CHECK: plan.launch "divide_choices"(%arg1, %[[S]]) -> (%arg2, %arg3, %arg4, %arg5) params [2, 9] {cost = #plan.cost<memory, read = 96, written = 200>, counts = [#plan.counts<kept_choices, output = 1, choices = 0, shadows = 1>, #plan.counts<shadow_choices, output = 3, choices = 0, shadows = 1>]}
func.func @choose(%c: tensor<4x8xi32>, %e: tensor<8x2xi32>) -> (tensor<8x2xi32>, tensor<2x8xi32>, tensor<8x2xi32>, tensor<1x2xi32>) {
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy prefix>, workers = 4 : i64, node_workers = 2 : i64, most = 2 : i64,
                              room = 24 : i64, phases = 3 : i64, row_compute = 0.03125 : f64, row_send = 0.0625 : f64,
                              row_local = 0.125 : f64, row_node = 0.25 : f64, expert = 0.5 : f64, start = 1.0 : f64}
    : (tensor<4x8xi32>) -> tensor<1x8xi32>
  %1:4 = moe.divide_choices %e, %0 {chunks = 2 : i64, chunk_rows = 9 : i64}
    : (tensor<8x2xi32>, tensor<1x8xi32>) -> (tensor<8x2xi32>, tensor<2x8xi32>, tensor<8x2xi32>, tensor<1x2xi32>)
  return %1#0, %1#1, %1#2, %1#3 : tensor<8x2xi32>, tensor<2x8xi32>, tensor<8x2xi32>, tensor<1x2xi32>
}

// Three places of 128 bytes go one after the other, as far as the shadows' row, input 1, says. A sum without an addend, one in the
// addend's place, which is then the result's, and one whose addend is the caller's: it has a place of its own.
// CHECK-LABEL: func.func @exchange(
// CHECK: plan.launch "broadcast_experts"(%arg0, %arg1) -> (%[[V:.+]]) collective over <"ep", 4, 2> {cost = #plan.cost<network, read = 384, written = 384, collective = broadcast, payload = 384, rows = 3, counts = 1>}
// CHECK: plan.launch "reduce_experts"(%[[V]], %arg1) -> (%arg3) collective over <"ep", 4, 2> {absent = array<i64: 2>, cost = #plan.cost<network, flops = 9.6e1, read = 384, written = 384, collective = reduce, payload = 384, rows = 3, counts = 1>} :
// CHECK: plan.launch "reduce_experts"(%[[V]], %arg1, %arg3) -> (%arg3) collective over <"ep", 4, 2> {{.*}}in_place = array<i64: 2>}
// CHECK: plan.launch "reduce_experts"(%[[V]], %arg1, %arg2) -> (%arg4) collective over <"ep", 4, 2> {{.*}}in_place = array<i64: 2>}
func.func @exchange(%w: tensor<2x4x8xf32>, %s: tensor<1x8xi32>, %a: tensor<2x4x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x8xf32>) {
  %0 = moe.broadcast_experts %w, %s over <"ep", 4, 2> : (tensor<2x4x8xf32>, tensor<1x8xi32>) -> tensor<3x4x8xf32>
  %1 = moe.reduce_experts %0, %s over <"ep", 4, 2> : (tensor<3x4x8xf32>, tensor<1x8xi32>) -> tensor<2x4x8xf32>
  %2 = moe.reduce_experts %0, %s addend(%1) over <"ep", 4, 2> : (tensor<3x4x8xf32>, tensor<1x8xi32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %3 = moe.reduce_experts %0, %s addend(%a) over <"ep", 4, 2> : (tensor<3x4x8xf32>, tensor<1x8xi32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  return %2, %3 : tensor<2x4x8xf32>, tensor<2x4x8xf32>
}

// An addend that is needed later keeps its place.
// CHECK-LABEL: func.func @used_addend(
// CHECK: plan.launch "reduce_experts"(%arg0, %arg1) -> (%arg2)
// CHECK: plan.launch "reduce_experts"(%arg0, %arg1, %arg2) -> (%arg3) {{.*}}in_place = array<i64: 2>}
func.func @used_addend(%g: tensor<3x4xf32>, %s: tensor<1x8xi32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = moe.reduce_experts %g, %s over <"ep", 4, 2> : (tensor<3x4xf32>, tensor<1x8xi32>) -> tensor<2x4xf32>
  %1 = moe.reduce_experts %g, %s addend(%0) over <"ep", 4, 2> : (tensor<3x4xf32>, tensor<1x8xi32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<2x4xf32>
}

// The counts of a phase are a part of all counts, another on each block of members; what both phases bring is one buffer, half of
// whose 16 rows each is expected to bring. The parameters: direction, copies, copies in the rows' memory, phase and phases.
// CHECK-LABEL: func.func @phases(
// CHECK: %[[E0:.+]] = plan.view %arg2 part 0 of 2 over <"ep", 4, 1>
// CHECK: plan.launch "all_to_all_v"(%arg0, %arg1, %[[E0]]) -> (%[[Y:.+]]) params [1, 1, 1, 0, 2] collective over <"ep", 4, 1> {absent = array<i64: 3>, chunk = #moe.chunk<0 of 2>, cost = #plan.cost<network, read = 256, written = 256, collective = all_to_all, payload = 256, rows = 8, counts = 2, peers = 0, phase = [0, 2]>}
// CHECK: %[[E1:.+]] = plan.view %arg2 part 1 of 2 over <"ep", 4, 1>
// CHECK: plan.launch "all_to_all_v"(%arg0, %arg1, %[[E1]], %[[Y]]) -> (%[[Y]]) params [1, 1, 1, 1, 2] collective over <"ep", 4, 1> {chunk = #moe.chunk<1 of 2>, {{.*}}phase = [1, 2]>, in_place = array<i64: 3>}
// CHECK: plan.launch "scale"(%[[Y]]) -> (%arg3)
func.func @phases(%x: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<4x2xi32>) -> tensor<16x8xf32> {
  %e0 = moe.phase %e over <"ep", 4, 1> {phase = 0 : i64, phases = 2 : i64} : (tensor<4x2xi32>) -> tensor<2x2xi32>
  %y0 = moe.all_to_all_v %x, %b, %e0 over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 2 : i64, moe.chunk = #moe.chunk<0 of 2>}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  %e1 = moe.phase %e over <"ep", 4, 1> {phase = 1 : i64, phases = 2 : i64} : (tensor<4x2xi32>) -> tensor<2x2xi32>
  %y1 = moe.all_to_all_v %x, %b, %e1 addend(%y0) over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 2 : i64, moe.chunk = #moe.chunk<1 of 2>}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %0 = moe.scale %y1 {factor = 2.0 : f64} : tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// Copies for the holders of an expert are made on the way in a phase too.
// CHECK-LABEL: func.func @phase_of_copies(
// CHECK: plan.launch "all_to_all_v"(%arg0, %arg1, %arg2) -> (%arg3) params [0, 2, 1, 1, 2] collective over <"ep_esp", 4, 1> {absent = array<i64: 3>,
func.func @phase_of_copies(%x: tensor<16x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x4xi32>) -> tensor<24x8xf32> {
  %0 = moe.dump %x : (tensor<16x8xf32>) -> tensor<32x8xf32>
  %1 = moe.all_to_all_v %0, %b, %e over <"ep_esp", 4, 1> {direction = #moe<direction to_experts>, copies = 2 : i64, phase = 1 : i64, phases = 2 : i64}
    : (tensor<32x8xf32>, tensor<1x8xi32>, tensor<2x4xi32>) -> tensor<24x8xf32>
  return %1 : tensor<24x8xf32>
}

// The gate's limit, homes, ranks and groups of a home come before the scale.
// CHECK-LABEL: func.func @homes(
// CHECK: plan.launch "route"({{.*}} params [0, 0, 1, 1, 0, 0, 2, 1, 0, 3, 2, 4, 2, 1.000000e+00]
func.func @homes(%l: tensor<16x4xf32>) -> tensor<16x2xi32> {
  %0:6 = moe.route %l {groups = 2 : i64, leave = 3 : i64, homes = 2 : i64, home_stride = 4 : i64, home_span = 2 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return %0#2 : tensor<16x2xi32>
}
