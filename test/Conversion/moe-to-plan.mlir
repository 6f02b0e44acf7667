// RUN: moe-opt %s --convert-moe-to-plan -mlir-print-debuginfo=false | FileCheck %s --implicit-check-not=plan.launch
// RUN: moe-opt %s --convert-moe-to-plan --plan-assign-streams --plan-assign-memory --plan-verify -o /dev/null

// One launch for each op, results behind the inputs, device buffers between.

// Inputs keep their places and attributes, results follow with theirs; the op's own buffer is the result.
// CHECK-LABEL: func.func @signature(
// CHECK-SAME: %arg0: memref<4x8xf32> {moe.layout = #moe.layout<[dp], []>, moe.name = "x"}, %arg1: memref<8x16xf32>,
// CHECK-SAME: %arg2: memref<4x16xf32> {moe.name = "h"}, %arg3: memref<4x16xf32> {moe.name = "y"}
// CHECK: plan.launch "matmul"(%arg0, %arg1) -> (%arg2) params [0, 0] {cost = #plan.cost<matrix, flops = 1.024e3, read = 640, written = 256, gemm = [1, 4, 16, 8]>}
// CHECK: plan.launch "scale"(%arg2) -> (%[[BUFFER:.+]]) params [2.000000e+00] {cost = #plan.cost<memory, flops = 6.4e1, read = 256, written = 256>, in_place = array<i64: 0>}
// CHECK: plan.launch "add"(%arg2, %[[BUFFER]]) -> (%arg3) {cost = #plan.cost<memory, flops = 6.4e1, read = 512, written = 256>, in_place = array<i64: 0, 1>}
func.func @signature(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[dp], []>, moe.name = "x"}, %w: tensor<8x16xf32>)
    -> (tensor<4x16xf32> {moe.name = "h"}, tensor<4x16xf32> {moe.name = "y"}) {
  %0 = moe.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = moe.scale %0 {factor = 2.000000e+00 : f64} : tensor<4x16xf32>
  %2 = moe.add %0, %1 : tensor<4x16xf32>
  return %0, %2 : tensor<4x16xf32>, tensor<4x16xf32>
}

// A cast is nothing at run time; a claim is checked on the memory of its operand, and writes nothing.
// CHECK-LABEL: func.func @aliases(
// CHECK: plan.launch "scale"(%arg0) -> (%[[BUFFER:.+]]) params [2.000000e+00] {{.*}}in_place = array<i64: 0>
// CHECK: plan.launch "assume_replicated"(%[[BUFFER]]) -> () collective over <"mp", 2, 1>
// CHECK: plan.launch "scale"(%[[BUFFER]]) -> (%arg1) params [3.000000e+00] {{.*}}in_place = array<i64: 0>
func.func @aliases(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = moe.to_varying %x over <"dp", 2, 2> : tensor<4x8xbf16>
  %1 = moe.scale %0 {factor = 2.000000e+00 : f64} : tensor<4x8xbf16>
  %2 = moe.assume_replicated %1 over <"mp", 2, 1> : tensor<4x8xbf16>
  %3 = moe.scale %2 {factor = 3.000000e+00 : f64} : tensor<4x8xbf16>
  return %3 : tensor<4x8xbf16>
}

// Optional inputs that are absent are listed by their positions; numbers of inputs in whose memory the result may lie do not
// count them.
// CHECK-LABEL: func.func @absent(
// CHECK: plan.launch "grouped_matmul"(%arg0, %arg1) -> (%[[BUFFER:.+]]) params [0] {absent = array<i64: 2>, cost = #plan.cost<matrix, flops = 1.024e3, read = 768, written = 256, gemm = [2, 4, 8, 8]>}
// CHECK: plan.launch "bias_add"(%[[BUFFER]], %arg2) -> (%[[BUFFER2:.+]]) params [5.000000e-01] {absent = array<i64: 2>, cost = #plan.cost<memory, flops = 6.4e1, read = 320, written = 256>, in_place = array<i64: 0>}
// CHECK: plan.launch "activation"(%[[BUFFER2]]) -> (%[[BUFFER3:.+]]) params [2, 1.702000e+00, 7.000000e+00] {absent = array<i64: 1>, cost = #plan.cost<memory, flops = 7.68e2, read = 256, written = 256>, in_place = array<i64: 0>}
// CHECK: plan.launch "all_reduce"(%[[BUFFER3]]) -> (%[[BUFFER4:.+]]) collective over <"esp", 2, 1> {absent = array<i64: 1>, cost = #plan.cost<network, flops = 6.4e1, read = 256, written = 256, collective = all_reduce, payload = 256>, in_place = array<i64: 0>}
// CHECK: plan.launch "combine"(%[[BUFFER4]], %arg3) -> (%arg4) {absent = array<i64: 2, 3>, cost = #plan.cost<memory, flops = 2.56e2, read = 320, written = 256>}
func.func @absent(%r: tensor<2x4x8xf32>, %w: tensor<2x8x8xf32>, %b: tensor<2x8xf32>, %s: tensor<8x2xi32>) -> tensor<8x8xf32> {
  %0 = moe.grouped_matmul %r, %w : (tensor<2x4x8xf32>, tensor<2x8x8xf32>) -> tensor<2x4x8xf32>
  %1 = moe.bias_add %0, %b {scale = 5.000000e-01 : f64} : (tensor<2x4x8xf32>, tensor<2x8xf32>) -> tensor<2x4x8xf32>
  %2 = moe.activation %1 {kind = #moe<activation silu>} : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %3 = moe.all_reduce %2 over <"esp", 2, 1> : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %4 = moe.combine %3, %s : (tensor<2x4x8xf32>, tensor<8x2xi32>) -> tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}

// Several results are several outputs, and an absent input may lie between present ones.
// CHECK-LABEL: func.func @route(
// CHECK: plan.launch "route"(%arg0) -> (%[[BUFFER:.+]], %[[BUFFER2:.+]], %arg2, %[[BUFFER3:.+]], %[[BUFFER4:.+]], %[[BUFFER5:.+]]) params [0, 1, 1, 1, 0, 8, 1, 1, 0, -1, 1, 1, 1, 2.500000e+00] {absent = array<i64: 1>, cost = #plan.cost<memory, flops = 1.28e3, read = 256, written = 660>, counts = [#plan.counts<route, output = 4, tokens = 16, top_k = 2>]}
// CHECK: plan.launch "route_grad"(%[[BUFFER]], %[[BUFFER2]], %arg1) -> (%arg3) params [0, 0, 1, 1.000000e+00] {absent = array<i64: 2>, cost = #plan.cost<memory, flops = 2.56e2, read = 388, written = 256>}
func.func @route(%l: tensor<16x4xf32>, %a: tensor<f32>) -> (tensor<16x2xi32>, tensor<16x4xf32>) {
  %0:6 = moe.route %l {capacity = 8 : i64, renormalize, routing_scale = 2.500000e+00 : f64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  %1 = moe.route_grad %0#0, %0#1 aux(%a) : (tensor<16x4xf32>, tensor<16x2xi32>, tensor<f32>) -> tensor<16x4xf32>
  return %0#2, %1 : tensor<16x2xi32>, tensor<16x4xf32>
}

// Ragged launches are priced for all rows of their reservation, the exchange for its full block side.
// CHECK-LABEL: func.func @ragged(
// CHECK: plan.launch "all_to_all_v"(%arg0, %arg2, %arg3) -> (%[[BUFFER:.+]]) params [0, 1, 1, 0, 1] collective over <"ep", 2, 1> {absent = array<i64: 3>, cost = #plan.cost<network, read = 512, written = 512, collective = all_to_all, payload = 512, rows = 16, counts = 1, peers = 1>}
// CHECK: plan.launch "grouped_matmul"(%[[BUFFER]], %arg1, %arg3) -> (%arg4) params [0] {cost = #plan.cost<matrix, flops = 8.192e3, read = 2064, written = 2048, gemm = [2, 16, 16, 8], rows = 32, counts = 2>}
func.func @ragged(%x: tensor<16x8xf32>, %w: tensor<2x8x16xf32>, %b: tensor<1x4xi32>, %e: tensor<2x2xi32>) -> tensor<32x16xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 2, 1> {direction = #moe<direction to_experts>}
    : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
  %1 = moe.grouped_matmul %0, %w counts(%e) : (tensor<32x8xf32>, tensor<2x8x16xf32>, tensor<2x2xi32>) -> tensor<32x16xf32>
  return %1 : tensor<32x16xf32>
}

// An argument that is returned is copied.
// CHECK-LABEL: func.func @returned_argument(
// CHECK: plan.launch "copy"(%arg0) -> (%arg1)
func.func @returned_argument(%x: tensor<4x8xf64>) -> tensor<4x8xf64> {
  return %x : tensor<4x8xf64>
}

// So is one behind a cast.
// CHECK-LABEL: func.func @returned_cast(
// CHECK: plan.launch "copy"(%arg0) -> (%arg1)
func.func @returned_cast(%x: tensor<4x8xf64>) -> tensor<4x8xf64> {
  %0 = moe.to_varying %x over <"dp", 2, 1> : tensor<4x8xf64>
  return %0 : tensor<4x8xf64>
}

// A value that is returned twice, once behind an alias, is copied from its first place.
// CHECK-LABEL: func.func @returned_twice(
// CHECK: plan.launch "scale"(%arg0) -> (%arg1) params [2.000000e+00]
// CHECK: plan.launch "copy"(%arg1) -> (%arg2)
// CHECK: plan.launch "copy"(%arg1) -> (%arg3)
func.func @returned_twice(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
  %1 = moe.to_varying %0 over <"dp", 2, 1> : tensor<4x8xf32>
  return %0, %1, %0 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// The location's name is the launch's label: which layer it belongs to.
// CHECK-LABEL: func.func @labels(
// CHECK: plan.launch "scale"(%arg0) -> (%[[BUFFER:.+]]) params [2.000000e+00] {{.*}}label = "layer0"
// CHECK: plan.launch "scale"(%[[BUFFER]]) -> (%[[BUFFER2:.+]]) params [2.000000e+00] {{.*}}label = "layer0.grad"
// CHECK: plan.launch "scale"(%[[BUFFER2]]) -> (%arg1) params [2.000000e+00]
func.func @labels(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64} : tensor<4x8xf32> loc("layer0")
  %1 = moe.scale %0 {factor = 2.000000e+00 : f64} : tensor<4x8xf32> loc("layer0.grad"("model.mlir":1:1))
  %2 = moe.scale %1 {factor = 2.000000e+00 : f64} : tensor<4x8xf32> loc("model.mlir":2:1)
  return %2 : tensor<4x8xf32>
}

// Every exchange: parameters, group, and the bytes sent to the other members, (size - 1) / size of the whole, twice for a sum.
// CHECK-LABEL: func.func @collectives(
// CHECK: plan.launch "all_gather"(%arg0) -> (%[[BUFFER:.+]]) params [0] collective over <"mp", 4, 1> {cost = #plan.cost<network, read = 128, written = 512, collective = all_gather, payload = 512>}
// CHECK: plan.launch "reduce_scatter"(%[[BUFFER]]) -> (%[[BUFFER2:.+]]) params [0] collective over <"mp", 4, 1> {cost = #plan.cost<network, flops = 1.28e2, read = 512, written = 128, collective = reduce_scatter, payload = 512>}
// CHECK: plan.launch "all_to_all"(%[[BUFFER2]]) -> (%[[BUFFER3:.+]]) params [0, 1, 1, 0, 1] collective over <"mp", 4, 1> {cost = #plan.cost<network, read = 128, written = 128, collective = all_to_all, payload = 128>}
// CHECK: plan.launch "all_to_all"(%[[BUFFER3]]) -> (%[[BUFFER4:.+]]) params [1, 0, 1, 0, 1] collective over <"mp", 4, 1> {cost = #plan.cost<network, read = 128, written = 128, collective = all_to_all, payload = 128>}
// CHECK: plan.launch "all_reduce"(%[[BUFFER4]]) -> (%[[BUFFER5:.+]]) collective over <"mp", 4, 1> {absent = array<i64: 1>, cost = #plan.cost<network, flops = 3.2e1, read = 128, written = 128, collective = all_reduce, payload = 128>, in_place = array<i64: 0>}
// CHECK: %[[VIEW:.+]] = plan.view %[[BUFFER5]] part 0 of 4 over <"mp", 4, 1>
// CHECK: plan.launch "all_gather"(%[[VIEW]]) -> (%[[BUFFER6:.+]]) params [0] collective over <"mp", 4, 1> {cost = #plan.cost<network, read = 32, written = 128, collective = all_gather, payload = 128>}
// CHECK: plan.launch "broadcast"(%[[BUFFER6]]) -> (%[[BUFFER7:.+]]) params [3] collective over <"mp", 4, 1> {cost = #plan.cost<network, read = 128, written = 128, collective = broadcast, payload = 128, root = 3>}
// CHECK: plan.launch "reduce"(%[[BUFFER7]]) -> (%arg1) params [1] collective over <"mp", 4, 1> {cost = #plan.cost<network, flops = 3.2e1, read = 128, written = 128, collective = reduce, payload = 128, root = 1>}
func.func @collectives(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.all_gather %x over <"mp", 4, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<16x8xf32>
  %1 = moe.reduce_scatter %0 over <"mp", 4, 1> {dim = 0 : i64} : (tensor<16x8xf32>) -> tensor<4x8xf32>
  %2 = moe.all_to_all %1 over <"mp", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<1x32xf32>
  %3 = moe.all_to_all %2 over <"mp", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<1x32xf32>) -> tensor<4x8xf32>
  %4 = moe.all_reduce %3 over <"mp", 4, 1> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = moe.slice %4 over <"mp", 4, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %6 = moe.all_gather %5 over <"mp", 4, 1> {dim = 0 : i64} : (tensor<1x8xf32>) -> tensor<4x8xf32>
  %7 = moe.broadcast %6 over <"mp", 4, 1> {root = 3 : i64} : tensor<4x8xf32>
  %8 = moe.reduce %7 over <"mp", 4, 1> {root = 1 : i64} : tensor<4x8xf32>
  return %8 : tensor<4x8xf32>
}

// A slice along dimension 0 is a view of what it is a part of, an argument here; where a view is returned it is copied.
// CHECK-LABEL: func.func @slice_view(
// CHECK: %[[VIEW:.+]] = plan.view %arg0 part 0 of 2 over <"mp", 2, 1>
// CHECK: plan.launch "scale"(%[[VIEW]]) -> (%arg1) params [2.000000e+00]
// CHECK: plan.launch "copy"(%[[VIEW]]) -> (%arg2)
func.func @slice_view(%x: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = moe.scale %0 {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
  return %1, %0 : tensor<4x8xf32>, tensor<4x8xf32>
}

// The value that a view is part of may be a result: then the view is of the result's argument, and in no arena.
// CHECK-LABEL: func.func @slice_of_result(
// CHECK: plan.launch "scale"(%arg0) -> (%arg1) params [2.000000e+00]
// CHECK: %[[VIEW:.+]] = plan.view %arg1 part 0 of 2 over <"mp", 2, 4>
// CHECK: plan.launch "scale"(%[[VIEW]]) -> (%arg2) params [2.000000e+00]
func.func @slice_of_result(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<4x8xf32>) {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64} : tensor<8x8xf32>
  %1 = moe.slice %0 over <"mp", 2, 4> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = moe.scale %1 {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
  return %0, %2 : tensor<8x8xf32>, tensor<4x8xf32>
}

// Along any other dimension the parts are no pieces of memory: a launch.
// CHECK-LABEL: func.func @slice_columns(
// CHECK: plan.launch "slice"(%arg0) -> (%arg1) params [1] over <"mp", 2, 1>
func.func @slice_columns(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = moe.slice %x over <"mp", 2, 1> {dim = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// A part of a part would depend on the rank in two ways: the first is copied.
// CHECK-LABEL: func.func @view_of_view(
// CHECK: %[[VIEW:.+]] = plan.view %arg0 part 0 of 2 over <"mp", 2, 1>
// CHECK: plan.launch "copy"(%[[VIEW]]) -> (%[[BUFFER:[^)]+]])
// CHECK: %[[VIEW2:.+]] = plan.view %[[BUFFER]] part 0 of 2 over <"dp", 2, 2>
// CHECK: plan.launch "scale"(%[[VIEW2]]) -> (%arg1) params [2.000000e+00]
func.func @view_of_view(%x: tensor<8x8xf32>) -> tensor<2x8xf32> {
  %0 = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = moe.slice %0 over <"dp", 2, 2> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<2x8xf32>
  %2 = moe.scale %1 {factor = 2.000000e+00 : f64} : tensor<2x8xf32>
  return %2 : tensor<2x8xf32>
}

// A dump before an exchange is neither a launch nor a buffer: the exchange sends from the one copy, two copies of each part (its third
// parameter), phase 0 of 1.
// CHECK-LABEL: func.func @virtual_dump(
// CHECK: plan.launch "scale"(%arg0) -> (%[[BUFFER:.+]]) params [2.000000e+00] {cost = #plan.cost<memory, flops = 3.2e1, read = 128, written = 128>, in_place = array<i64: 0>}
// CHECK: plan.launch "all_to_all"(%[[BUFFER]]) -> (%[[BUFFER2:.+]]) params [0, 1, 2, 0, 1] collective over <"ep_esp", 4, 1> {cost = #plan.cost<network, read = 128, written = 256, collective = all_to_all, payload = 256>}
// CHECK: plan.launch "local_reduce"(%[[BUFFER2]]) -> (%arg1) params [1, 1] {cost = #plan.cost<memory, flops = 6.4e1, read = 256, written = 128>}
func.func @virtual_dump(%x: tensor<4x8xf32>) -> tensor<2x16xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
  %1 = moe.dump %0 {blocks = 2 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %2 = moe.all_to_all %1 over <"ep_esp", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x8xf32>) -> tensor<2x32xf32>
  %3 = moe.local_reduce %2 {dim = 1 : i64} : (tensor<2x32xf32>) -> tensor<2x16xf32>
  return %3 : tensor<2x16xf32>
}

// So does a ragged one, which is told how many copies there are and how many are in memory: 2 and 1 there, 2 and 2 back.
// CHECK-LABEL: func.func @virtual_rows(
// CHECK: plan.launch "all_to_all_v"(%arg0, %arg1, %arg2) -> (%[[BUFFER:.+]]) params [0, 2, 1, 0, 1] collective over <"ep_esp", 4, 1> {absent = array<i64: 3>, cost = #plan.cost<network, read = 512, written = 512, collective = all_to_all, payload = 512, rows = 16, counts = 1, peers = 1, copies = 2>}
// CHECK: plan.launch "all_to_all_v"(%[[BUFFER]], %arg1, %arg2) -> (%[[BUFFER2:.+]]) params [1, 2, 2, 0, 1] collective over <"ep_esp", 4, 1> {absent = array<i64: 3>, cost = #plan.cost<network, read = 512, written = 512, collective = all_to_all, payload = 512, rows = 16, counts = 2, peers = 0, copies = 2>}
// CHECK: plan.launch "local_reduce"(%[[BUFFER2]]) -> (%arg3) params [0, 1] {cost = #plan.cost<memory, flops = 1.28e2, read = 512, written = 256>}
func.func @virtual_rows(%x: tensor<8x8xf32>, %b: tensor<1x4xi32>, %e: tensor<4x2xi32>) -> tensor<8x8xf32> {
  %0 = moe.dump %x : (tensor<8x8xf32>) -> tensor<16x8xf32>
  %1 = moe.all_to_all_v %0, %b, %e over <"ep_esp", 4, 1> {direction = #moe<direction to_experts>, copies = 2 : i64}
    : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  %2 = moe.all_to_all_v %1, %b, %e over <"ep_esp", 4, 1> {direction = #moe<direction from_experts>, copies = 2 : i64}
    : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<16x8xf32>
  %3 = moe.local_reduce %2 : (tensor<16x8xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

// Copies are made if another op needs them. The exchange still sends from the single value.
// CHECK-LABEL: func.func @used_dump(
// CHECK: plan.launch "dump"(%arg0) -> (%[[BUFFER:.+]]) params [0, 2] {cost = #plan.cost<memory, read = 128, written = 256>}
// CHECK: plan.launch "all_to_all"(%arg0) -> (%arg1) params [0, 1, 2, 0, 1] collective over <"ep_esp", 4, 1> {cost = #plan.cost<network, read = 128, written = 256, collective = all_to_all, payload = 256>}
// CHECK: plan.launch "scale"(%[[BUFFER]]) -> (%arg2) params [2.000000e+00] {cost = #plan.cost<memory, flops = 6.4e1, read = 256, written = 256>, in_place = array<i64: 0>}
func.func @used_dump(%x: tensor<4x8xf32>) -> (tensor<2x32xf32>, tensor<8x8xf32>) {
  %0 = moe.dump %x {blocks = 2 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = moe.all_to_all %0 over <"ep_esp", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x8xf32>) -> tensor<2x32xf32>
  %2 = moe.scale %0 {factor = 2.000000e+00 : f64} : tensor<8x8xf32>
  return %1, %2 : tensor<2x32xf32>, tensor<8x8xf32>
}

// Copies that do not go to neighbouring members, because they are of other blocks or along another dimension, are made.
// CHECK-LABEL: func.func @other_blocks(
// CHECK: plan.launch "dump"(%arg0) -> (%[[BUFFER:.+]]) params [0, 1]
// CHECK: plan.launch "all_to_all"(%[[BUFFER]]) -> (%arg1) params [0, 1, 1, 0, 1] collective over <"ep_esp", 4, 1>
// CHECK: plan.launch "dump"(%arg0) -> (%[[BUFFER2:.+]]) params [0, 2]
// CHECK: plan.launch "all_to_all"(%[[BUFFER2]]) -> (%arg2) params [1, 0, 1, 0, 1] collective over <"ep_esp", 4, 1>
func.func @other_blocks(%x: tensor<4x8xf32>) -> (tensor<2x32xf32>, tensor<32x2xf32>) {
  %0 = moe.dump %x : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = moe.all_to_all %0 over <"ep_esp", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x8xf32>) -> tensor<2x32xf32>
  %2 = moe.dump %x {blocks = 2 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %3 = moe.all_to_all %2 over <"ep_esp", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<32x2xf32>
  return %1, %3 : tensor<2x32xf32>, tensor<32x2xf32>
}

// Phases' parts are computed in their places of the joined value: views of one buffer, and no copies.
// CHECK-LABEL: func.func @joined_phases(
// CHECK: %[[VIEW:.+]] = plan.view %[[BUFFER:.+]] part 0 of 2 over <"ep_esp", 4, 1>
// CHECK: %[[VIEW2:.+]] = plan.view %[[BUFFER]] part 1 of 2 over <"ep_esp", 4, 1>
// CHECK: plan.launch "all_to_all"(%arg0) -> (%[[BUFFER2:.+]]) params [1, 0, 1, 0, 2] collective over <"ep_esp", 4, 1>
// CHECK: plan.launch "all_gather"(%[[BUFFER2]]) -> (%[[VIEW]]) params [1] collective over <"mp", 2, 1>
// CHECK: plan.launch "all_to_all"(%arg0) -> (%[[BUFFER3:.+]]) params [1, 0, 1, 1, 2] collective over <"ep_esp", 4, 1>
// CHECK: plan.launch "all_gather"(%[[BUFFER3]]) -> (%[[VIEW2]]) params [1] collective over <"mp", 2, 1>
// CHECK: plan.launch "scale"(%[[BUFFER]]) -> (%arg1) params [2.000000e+00]
func.func @joined_phases(%x: tensor<2x8x4xf32>) -> tensor<8x4x4xf32> {
  %0 = moe.all_to_all_phase %x over <"ep_esp", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64} : (tensor<2x8x4xf32>) -> tensor<4x2x4xf32>
  %1 = moe.all_gather %0 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<4x2x4xf32>) -> tensor<4x4x4xf32>
  %2 = moe.all_to_all_phase %x over <"ep_esp", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64} : (tensor<2x8x4xf32>) -> tensor<4x2x4xf32>
  %3 = moe.all_gather %2 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<4x2x4xf32>) -> tensor<4x4x4xf32>
  %4 = moe.join_phases %1, %3 over <"ep_esp", 4, 1> : (tensor<4x4x4xf32>, tensor<4x4x4xf32>) -> tensor<8x4x4xf32>
  %5 = moe.scale %4 {factor = 2.000000e+00 : f64} : tensor<8x4x4xf32>
  return %5 : tensor<8x4x4xf32>
}

// So they are where the joined value is a result.
// CHECK-LABEL: func.func @joined_result(
// CHECK: %[[VIEW:.+]] = plan.view %arg1 part 0 of 2 over <"mp", 2, 1>
// CHECK: %[[VIEW2:.+]] = plan.view %arg1 part 1 of 2 over <"mp", 2, 1>
// CHECK: plan.launch "scale"(%arg0) -> (%[[VIEW]]) params [2.000000e+00]
// CHECK: plan.launch "scale"(%arg0) -> (%[[VIEW2]]) params [3.000000e+00]
func.func @joined_result(%x: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
  %1 = moe.scale %x {factor = 3.000000e+00 : f64} : tensor<4x8xf32>
  %2 = moe.join_phases %0, %1 over <"mp", 2, 1> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// A part that is an argument, that is one already, or that is another name of one is copied: as soon as it is there.
// CHECK-LABEL: func.func @copied_parts(
// CHECK: %[[VIEW:.+]] = plan.view %[[BUFFER:.+]] part 0 of 4 over <"ep_esp", 4, 1>
// CHECK: %[[VIEW2:.+]] = plan.view %[[BUFFER]] part 1 of 4 over <"ep_esp", 4, 1>
// CHECK: %[[VIEW3:.+]] = plan.view %[[BUFFER]] part 2 of 4 over <"ep_esp", 4, 1>
// CHECK: %[[VIEW4:.+]] = plan.view %[[BUFFER]] part 3 of 4 over <"ep_esp", 4, 1>
// CHECK: plan.launch "scale"(%arg0) -> (%[[VIEW2]]) params [2.000000e+00]
// CHECK: plan.launch "copy"(%[[VIEW2]]) -> (%[[VIEW3]])
// CHECK: plan.launch "copy"(%[[VIEW2]]) -> (%[[VIEW4]])
// CHECK: plan.launch "copy"(%arg0) -> (%[[VIEW]])
// CHECK: plan.launch "scale"(%[[BUFFER]]) -> (%arg1) params [2.000000e+00]
func.func @copied_parts(%x: tensor<4x8xf32>) -> tensor<16x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
  %1 = moe.to_varying %0 over <"dp", 2, 4> : tensor<4x8xf32>
  %2 = moe.join_phases %x, %0, %0, %1 over <"ep_esp", 4, 1> : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %3 = moe.scale %2 {factor = 2.000000e+00 : f64} : tensor<16x8xf32>
  return %3 : tensor<16x8xf32>
}

// Operands of the join that are joined values have their own places already, so they are copied.
// CHECK-LABEL: func.func @joined_join(
// CHECK: %[[VIEW:.+]] = plan.view %arg1 part 0 of 2 over <"ep", 2, 2>
// CHECK: %[[VIEW2:.+]] = plan.view %arg1 part 1 of 2 over <"ep", 2, 2>
// CHECK: %[[VIEW3:.+]] = plan.view %[[BUFFER:.+]] part 0 of 2 over <"mp", 2, 1>
// CHECK: %[[VIEW4:.+]] = plan.view %[[BUFFER]] part 1 of 2 over <"mp", 2, 1>
// CHECK: plan.launch "scale"(%arg0) -> (%[[VIEW3]]) params [2.000000e+00]
// CHECK: plan.launch "scale"(%arg0) -> (%[[VIEW4]]) params [3.000000e+00]
// CHECK: plan.launch "copy"(%[[BUFFER]]) -> (%[[VIEW]])
// CHECK: plan.launch "copy"(%[[BUFFER]]) -> (%[[VIEW2]])
func.func @joined_join(%x: tensor<4x8xf32>) -> tensor<16x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
  %1 = moe.scale %x {factor = 3.000000e+00 : f64} : tensor<4x8xf32>
  %2 = moe.join_phases %0, %1 over <"mp", 2, 1> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %3 = moe.join_phases %2, %2 over <"ep", 2, 2> : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  return %3 : tensor<16x8xf32>
}

// Counts of a member's part: the number of rows, and the group that is not met.
// CHECK-LABEL: func.func @slice_counts(
// CHECK: plan.launch "slice_counts"(%arg0) -> (%arg1) params [16] over <"mp", 2, 1> {cost = #plan.cost<memory, read = 16, written = 16>, counts = [#plan.counts<slice_rows, output = 0, input = 0, rows = 16>]}
func.func @slice_counts(%c: tensor<1x4xi32>) -> tensor<1x4xi32> {
  %0 = moe.slice_counts %c over <"mp", 2, 1> {rows = 16 : i64} : tensor<1x4xi32>
  return %0 : tensor<1x4xi32>
}

// A part that is a result as well is copied to it from its place.
// CHECK-LABEL: func.func @returned_part(
// CHECK: %[[VIEW:.+]] = plan.view %arg2 part 0 of 2 over <"mp", 2, 1>
// CHECK: %[[VIEW2:.+]] = plan.view %arg2 part 1 of 2 over <"mp", 2, 1>
// CHECK: plan.launch "scale"(%arg0) -> (%[[VIEW]]) params [2.000000e+00]
// CHECK: plan.launch "copy"(%arg0) -> (%[[VIEW2]])
// CHECK: plan.launch "copy"(%[[VIEW]]) -> (%arg1)
func.func @returned_part(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>) {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
  %2 = moe.join_phases %0, %x over <"mp", 2, 1> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %0, %2 : tensor<4x8xf32>, tensor<8x8xf32>
}

// An op that updates an argument comes after all ops that read it, in any order of the program.
// CHECK-LABEL: func.func @updated(
// CHECK: plan.launch "add"(%arg0, %arg1)
// CHECK: plan.launch "scale"(%arg1) -> (%arg1) params [3
func.func @updated(%x: tensor<8xf32>, %step: tensor<8xf32> {moe.name = "step"}) -> (tensor<8xf32> {moe.updates = "step"}, tensor<8xf32>) {
  %0 = moe.scale %step {factor = 3.0 : f64} : tensor<8xf32>
  %1 = moe.add %x, %step : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
