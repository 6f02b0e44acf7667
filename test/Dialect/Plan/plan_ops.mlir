// RUN: moe-opt %s | moe-opt | FileCheck %s
// RUN: moe-opt %s --mlir-print-op-generic | moe-opt | FileCheck %s

// A buffer before and after memory assignment, in each memory space.
// CHECK-LABEL: func.func @buffer
func.func @buffer() {
  // CHECK: plan.buffer : memref<4x8xbf16, #plan<space device>>
  %0 = plan.buffer : memref<4x8xbf16, #plan<space device>>
  // CHECK: plan.buffer {offset = 256 : i64} : memref<4x8xi32, #plan<space host_pinned>>
  %1 = plan.buffer {offset = 256 : i64} : memref<4x8xi32, #plan<space host_pinned>>
  return
}

// A launch with everything that it may have.
// CHECK-LABEL: func.func @launch
// CHECK-SAME: %[[A:.*]]: memref<4x8xf32>, %[[B:.*]]: memref<8x16xf32>
func.func @launch(%a: memref<4x8xf32>, %b: memref<8x16xf32>) {
  // CHECK: %[[C:.*]] = plan.buffer
  %0 = plan.buffer {offset = 0 : i64} : memref<4x16xf32, #plan<space device>>
  // CHECK: plan.launch "matmul"(%[[A]], %[[B]]) -> (%[[C]]) params [0, 0] on "compute"
  // CHECK-SAME: cost = #plan.cost<matrix, flops = 1.024e3, read = 640, written = 256, gemm = [1, 4, 16, 8]>
  // CHECK-SAME: label = "layer0"
  plan.launch "matmul"(%a, %b) -> (%0) params [0, 0] on "compute"
    {label = "layer0", cost = #plan.cost<matrix, gemm = [1, 4, 16, 8], flops = 1024.0, read = 640, written = 256>}
    : (memref<4x8xf32>, memref<8x16xf32>) -> memref<4x16xf32, #plan<space device>>
  // CHECK: plan.launch "all_reduce"(%[[C]]) -> (%[[C]]) collective over <"mp", 2, 1> on "comm.intra"
  // CHECK-SAME: absent = array<i64: 1>
  // CHECK-SAME: in_place = array<i64: 0>
  plan.launch "all_reduce"(%0) -> (%0) collective over <"mp", 2, 1> on "comm.intra"
    {absent = array<i64: 1>, in_place = array<i64: 0>}
    : (memref<4x16xf32, #plan<space device>>) -> memref<4x16xf32, #plan<space device>>
  return
}

// A group without a collective (each member takes its slice), no stream, a call without outputs.
// CHECK-LABEL: func.func @group
func.func @group(%a: memref<4x8xf32>, %b: memref<2x8xf32>) {
  // CHECK: plan.launch "slice"(%{{.*}}) -> (%{{.*}}) params [0] over <"mp", 2, 1> : (memref<4x8xf32>) -> memref<2x8xf32>
  plan.launch "slice"(%a) -> (%b) params [0] over <"mp", 2, 1> : (memref<4x8xf32>) -> memref<2x8xf32>
  // CHECK: plan.launch "assume_replicated"(%{{.*}}) -> () collective over <"mp", 2, 1> : (memref<4x8xf32>) -> ()
  plan.launch "assume_replicated"(%a) -> () collective over <"mp", 2, 1> : (memref<4x8xf32>) -> ()
  return
}

// An event between two streams.
// CHECK-LABEL: func.func @record_wait
func.func @record_wait() {
  // CHECK: plan.record 0 on "compute"
  plan.record 0 on "compute"
  // CHECK: plan.wait 0 on "comm.intra"
  plan.wait 0 on "comm.intra"
  return
}

// Costs print with as few digits as read back to the same number, in the form that the dialect's page shows.
// CHECK-LABEL: func.func @cost
func.func @cost() attributes {
  // CHECK: test.big = #plan.cost<memory, flops = 1.0e9, read = 4096, written = 4096>
  test.big = #plan.cost<memory, flops = 1.0e9, read = 4096, written = 4096>,
  // CHECK-SAME: test.exact = #plan.cost<matrix, flops = 1.234567890123456e15, ragged_depth, rows = 3, counts = 0>
  test.exact = #plan.cost<matrix, flops = 1234567890123456.0, ragged_depth, rows = 3, counts = 0>,
  // CHECK-SAME: test.exchange = #plan.cost<network, collective = broadcast, payload = 64, root = 3>
  test.exchange = #plan.cost<network, root = 3, payload = 64, collective = broadcast>,
  // CHECK-SAME: test.zero = #plan.cost<none>
  test.zero = #plan.cost<none, flops = 0.0, counts = -1>} {
  return
}

// Parts of a buffer and of an argument, in their memory spaces; all of one part is a part too.
// CHECK-LABEL: func.func @view
// CHECK-SAME: %[[X:[a-z0-9]+]]: memref<8x4xi32>
func.func @view(%x: memref<8x4xi32>) {
  // CHECK: %[[B:.*]] = plan.buffer {offset = 512 : i64} : memref<8x4x2xbf16, #plan<space host_pinned>>
  %0 = plan.buffer {offset = 512 : i64} : memref<8x4x2xbf16, #plan<space host_pinned>>
  // CHECK: plan.view %[[B]] part 3 of 4 over <"ep_esp", 8, 1> : memref<8x4x2xbf16, #plan<space host_pinned>> -> memref<2x4x2xbf16, #plan<space host_pinned>>
  %1 = plan.view %0 part 3 of 4 over <"ep_esp", 8, 1> : memref<8x4x2xbf16, #plan<space host_pinned>> -> memref<2x4x2xbf16, #plan<space host_pinned>>
  // CHECK: plan.view %[[X]] part 0 of 2 over <"mp", 2, 4> : memref<8x4xi32> -> memref<4x4xi32>
  %2 = plan.view %x part 0 of 2 over <"mp", 2, 4> : memref<8x4xi32> -> memref<4x4xi32>
  // CHECK: plan.view %[[X]] part 0 of 1 over <"mp", 2, 4> : memref<8x4xi32> -> memref<8x4xi32>
  %3 = plan.view %x part 0 of 1 over <"mp", 2, 4> : memref<8x4xi32> -> memref<8x4xi32>
  return
}

// Parts that are the same on all ranks, parts of parts, and one of those that depends on the rank.
// CHECK-LABEL: func.func @views_of_views
// CHECK-SAME: %[[X:.*]]: memref<16x4xf32>
func.func @views_of_views(%x: memref<16x4xf32>) {
  // CHECK: %[[A:.*]] = plan.view %[[X]] part 3 of 4 : memref<16x4xf32> -> memref<4x4xf32>
  %0 = plan.view %x part 3 of 4 : memref<16x4xf32> -> memref<4x4xf32>
  // CHECK: %[[B:.*]] = plan.view %[[A]] part 0 of 2 : memref<4x4xf32> -> memref<2x4xf32>
  %1 = plan.view %0 part 0 of 2 : memref<4x4xf32> -> memref<2x4xf32>
  // CHECK: plan.view %[[B]] part 1 of 2 over <"mp", 2, 1> : memref<2x4xf32> -> memref<1x4xf32>
  %2 = plan.view %1 part 1 of 2 over <"mp", 2, 1> : memref<2x4xf32> -> memref<1x4xf32>
  // One part is the whole.
  // CHECK: plan.view %[[X]] part 0 of 1 : memref<16x4xf32> -> memref<16x4xf32>
  %3 = plan.view %x part 0 of 1 : memref<16x4xf32> -> memref<16x4xf32>
  return
}

// Rings, chunks and seconds.
// CHECK-LABEL: func.func @chunks
func.func @chunks(%x: memref<4x8xf32>) {
  // CHECK: plan.buffer {ring = #moe.ring<"layer0.hidden", 2>} : memref<4x8xf32, #plan<space device>>
  %0 = plan.buffer {ring = #moe.ring<"layer0.hidden", 2>} : memref<4x8xf32, #plan<space device>>
  // CHECK: plan.launch "copy"{{.*}} on "copy" {chunk = #moe.chunk<1 of 2>, cost = #plan.cost<host_link, read = 128, written = 128>, seconds = 2.500000e-05 : f64}
  plan.launch "copy"(%x) -> (%0) on "copy" {chunk = #moe.chunk<1 of 2>, cost = #plan.cost<host_link, read = 128, written = 128>, seconds = 2.5e-5 : f64}
    : (memref<4x8xf32>) -> memref<4x8xf32, #plan<space device>>
  return
}

// Every rule for counts, with all of its fields.
// CHECK-LABEL: func.func @counts
func.func @counts() attributes {
  // CHECK: test.choose = #plan.counts<choose_shadows, output = 0, input = 0, policy = 1, workers = 4, node_workers = 2, most = 2, room = 0, phases = 1, row_compute = 2.5e-7, row_send = 0.0, row_local = 0.0, row_node = 0.0, expert = 1.0, start = 1.0e-5>
  test.choose = #plan.counts<choose_shadows, output = 0, input = 0, policy = 1, workers = 4, node_workers = 2, most = 2, room = 0, phases = 1, row_compute = 2.5e-7, row_send = 0.0, row_local = 0.0, row_node = 0.0, expert = 1.0, start = 1.0e-5>,
  // CHECK-SAME: test.exchange = #plan.counts<exchange, output = 0, input = 0, split = 1, concat = 0, copies = 2>
  test.exchange = #plan.counts<exchange, output = 0, input = 0, split = 1, concat = 0, copies = 2>,
  // CHECK-SAME: test.gather = #plan.counts<gather, output = 0, input = 0, dim = 0>
  test.gather = #plan.counts<gather, output = 0, input = 0, dim = 0>,
  // CHECK-SAME: test.home = #plan.counts<route_near_home, output = 4, tokens = 16, top_k = 2, groups = 1, leave = 3, homes = 2, home_stride = 2, home_span = 1>
  test.home = #plan.counts<route_near_home, output = 4, tokens = 16, top_k = 2, groups = 1, leave = 3, homes = 2, home_stride = 2, home_span = 1>,
  // CHECK-SAME: test.kept = #plan.counts<kept_choices, output = 1, choices = 0, shadows = 1>
  test.kept = #plan.counts<kept_choices, output = 1, choices = 0, shadows = 1>,
  // CHECK-SAME: test.own = #plan.counts<own_experts, output = 1, input = 1, holders = 2>
  test.own = #plan.counts<own_experts, output = 1, input = 1, holders = 2>,
  // CHECK-SAME: test.repeat = #plan.counts<repeat, output = 0, input = 0, dim = 1, blocks = 2>
  test.repeat = #plan.counts<repeat, output = 0, input = 0, dim = 1, blocks = 2>,
  // CHECK-SAME: test.route = #plan.counts<route, output = 4, tokens = 16, top_k = 2>
  test.route = #plan.counts<route, output = 4, tokens = 16, top_k = 2>,
  // CHECK-SAME: test.shadows = #plan.counts<shadow_choices, output = 3, choices = 0, shadows = 1>
  test.shadows = #plan.counts<shadow_choices, output = 3, choices = 0, shadows = 1>,
  // CHECK-SAME: test.slice = #plan.counts<slice_rows, output = 0, input = 0, rows = 32>
  test.slice = #plan.counts<slice_rows, output = 0, input = 0, rows = 32>} {
  return
}

// A loop, whose views move, and a view behind it.
// CHECK-LABEL: func.func @loop
func.func @loop(%x: memref<8x4xf32>) {
  // CHECK: %[[RING:.*]] = plan.buffer
  %ring = plan.buffer : memref<2x4xf32, #plan<space device>>
  // CHECK: plan.loop 8 attributes {micro_batches = 1 : i64} {
  plan.loop 8 attributes {micro_batches = 1 : i64} {
    // CHECK: plan.view %{{.*}} part 0 of 8 by 1 : memref<8x4xf32> -> memref<4xf32>
    %0 = plan.view %x part 0 of 8 by 1 : memref<8x4xf32> -> memref<4xf32>
    %1 = plan.view %ring part 1 of 2 by 1 : memref<2x4xf32, #plan<space device>> -> memref<4xf32, #plan<space device>>
    plan.launch "copy"(%0) -> (%1) on "compute" : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
  }
  // CHECK: plan.view %[[RING]] part 0 of 2 by 1
  %2 = plan.view %ring part 0 of 2 by 1 : memref<2x4xf32, #plan<space device>> -> memref<4xf32, #plan<space device>>
  plan.launch "scale"(%2) -> (%2) params [2.0] on "compute" : (memref<4xf32, #plan<space device>>) -> memref<4xf32, #plan<space device>>
  return
}
