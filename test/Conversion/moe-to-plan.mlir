// RUN: moe-opt %s --convert-moe-to-plan -mlir-print-debuginfo=false | FileCheck %s

// One launch for each op, results behind the inputs, device buffers between.

// Inputs keep their places and attributes, results follow with theirs; the op's own buffer is the result.
// CHECK-LABEL: func.func @signature(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: memref<4x8xf32> {moe.layout = #moe.layout<[dp], []>, moe.name = "x"},
// CHECK-SAME:   [[W:%[a-z0-9_]+]]: memref<8x16xf32>,
// CHECK-SAME:   [[R0:%[a-z0-9_]+]]: memref<4x16xf32> {moe.name = "h"},
// CHECK-SAME:   [[R1:%[a-z0-9_]+]]: memref<4x16xf32> {moe.name = "y"}
// CHECK-NEXT:   plan.launch "matmul"([[X]], [[W]]) -> ([[R0]]) params [0, 0]
// CHECK-SAME:   {cost = #plan.cost<matrix, flops = 1.024e3, read = 640, written = 256, gemm = [1, 4, 16, 8]>}
// CHECK-SAME:   : (memref<4x8xf32>, memref<8x16xf32>) -> memref<4x16xf32>
// CHECK-NEXT:   [[BUFFER:%[a-z0-9_]+]] = plan.buffer : memref<4x16xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[R0]]) -> ([[BUFFER]]) params [2.000000e+00]
// CHECK-SAME:   {cost = #plan.cost<memory, flops = 6.4e1, read = 256, written = 256>, in_place = array<i64: 0>}
// CHECK-SAME:   : (memref<4x16xf32>) -> memref<4x16xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "add"([[R0]], [[BUFFER]]) -> ([[R1]])
// CHECK-SAME:   {cost = #plan.cost<memory, flops = 6.4e1, read = 512, written = 256>, in_place = array<i64: 0,
// CHECK-SAME:   1>} : (memref<4x16xf32>, memref<4x16xf32, #plan<space device>>) -> memref<4x16xf32>
// CHECK-NEXT:   return
func.func @signature(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[dp], []>, moe.name = "x"}, %w: tensor<8x16xf32>)
    -> (tensor<4x16xf32> {moe.name = "h"}, tensor<4x16xf32> {moe.name = "y"}) {
  %0 = moe.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = moe.scale %0 {factor = 2.000000e+00 : f64} : tensor<4x16xf32>
  %2 = moe.add %0, %1 : tensor<4x16xf32>
  return %0, %2 : tensor<4x16xf32>, tensor<4x16xf32>
}

// A cast is nothing at run time; a claim is checked on the memory of its operand, and writes nothing.
// CHECK-LABEL: func.func @aliases(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: memref<4x8xbf16>,
// CHECK-SAME:   [[R0:%[a-z0-9_]+]]: memref<4x8xbf16>
// CHECK-NEXT:   [[BUFFER:%[a-z0-9_]+]] = plan.buffer : memref<4x8xbf16, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[X]]) -> ([[BUFFER]]) params [2.000000e+00]
// CHECK-SAME:   {cost = #plan.cost<memory, flops = 3.2e1, read = 64, written = 64>, in_place = array<i64: 0>}
// CHECK-SAME:   : (memref<4x8xbf16>) -> memref<4x8xbf16, #plan<space device>>
// CHECK-NEXT:   plan.launch "assume_replicated"([[BUFFER]]) -> () collective over <"mp", 2, 1>
// CHECK-SAME:   {cost = #plan.cost<none>}
// CHECK-SAME:   : (memref<4x8xbf16, #plan<space device>>) -> ()
// CHECK-NEXT:   plan.launch "scale"([[BUFFER]]) -> ([[R0]]) params [3.000000e+00]
// CHECK-SAME:   {cost = #plan.cost<memory, flops = 3.2e1, read = 64, written = 64>, in_place = array<i64: 0>}
// CHECK-SAME:   : (memref<4x8xbf16, #plan<space device>>) -> memref<4x8xbf16>
// CHECK-NEXT:   return
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
// CHECK-SAME:   [[R:%[a-z0-9_]+]]: memref<2x4x8xf32>,
// CHECK-SAME:   [[W:%[a-z0-9_]+]]: memref<2x8x8xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: memref<2x8xf32>,
// CHECK-SAME:   [[S:%[a-z0-9_]+]]: memref<8x2xi32>,
// CHECK-SAME:   [[R0:%[a-z0-9_]+]]: memref<8x8xf32>
// CHECK-NEXT:   [[BUFFER:%[a-z0-9_]+]] = plan.buffer : memref<2x4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "grouped_matmul"([[R]], [[W]]) -> ([[BUFFER]]) params [0]
// CHECK-SAME:   {absent = array<i64: 2>, cost = #plan.cost<matrix, flops = 1.024e3, read = 768, written = 256, gemm = [2, 4, 8, 8]>}
// CHECK-SAME:   : (memref<2x4x8xf32>, memref<2x8x8xf32>) -> memref<2x4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER2:%[a-z0-9_]+]] = plan.buffer : memref<2x4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "bias_add"([[BUFFER]], [[B]]) -> ([[BUFFER2]]) params [5.000000e-01]
// CHECK-SAME:   {absent = array<i64: 2>, cost = #plan.cost<memory, flops = 6.4e1, read = 320, written = 256>,
// CHECK-SAME:   in_place = array<i64: 0>} : (memref<2x4x8xf32, #plan<space device>>, memref<2x8xf32>)
// CHECK-SAME:   -> memref<2x4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER3:%[a-z0-9_]+]] = plan.buffer : memref<2x4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "activation"([[BUFFER2]]) -> ([[BUFFER3]]) params [2]
// CHECK-SAME:   {absent = array<i64: 1>, cost = #plan.cost<memory, flops = 7.68e2, read = 256, written = 256>,
// CHECK-SAME:   in_place = array<i64: 0>} : (memref<2x4x8xf32, #plan<space device>>)
// CHECK-SAME:   -> memref<2x4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER4:%[a-z0-9_]+]] = plan.buffer : memref<2x4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "all_reduce"([[BUFFER3]]) -> ([[BUFFER4]]) collective over <"esp", 2, 1>
// CHECK-SAME:   {absent = array<i64: 1>, cost = #plan.cost<network, flops = 6.4e1, read = 256, written = 256, collective = all_reduce, payload = 256>,
// CHECK-SAME:   in_place = array<i64: 0>} : (memref<2x4x8xf32, #plan<space device>>)
// CHECK-SAME:   -> memref<2x4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "combine"([[BUFFER4]], [[S]]) -> ([[R0]])
// CHECK-SAME:   {absent = array<i64: 2>, cost = #plan.cost<memory, flops = 2.56e2, read = 320, written = 256>}
// CHECK-SAME:   : (memref<2x4x8xf32, #plan<space device>>, memref<8x2xi32>) -> memref<8x8xf32>
// CHECK-NEXT:   return
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
// CHECK-SAME:   [[L:%[a-z0-9_]+]]: memref<16x4xf32>,
// CHECK-SAME:   [[A:%[a-z0-9_]+]]: memref<f32>,
// CHECK-SAME:   [[R0:%[a-z0-9_]+]]: memref<16x2xi32>,
// CHECK-SAME:   [[R1:%[a-z0-9_]+]]: memref<16x4xf32>
// CHECK-NEXT:   [[BUFFER:%[a-z0-9_]+]] = plan.buffer : memref<16x4xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER2:%[a-z0-9_]+]] = plan.buffer : memref<16x2xi32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER3:%[a-z0-9_]+]] = plan.buffer : memref<16x2xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER4:%[a-z0-9_]+]] = plan.buffer : memref<1x4xi32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER5:%[a-z0-9_]+]] = plan.buffer : memref<f32, #plan<space device>>
// CHECK-NEXT:   plan.launch "route"([[L]])
// CHECK-SAME:   -> ([[BUFFER]], [[BUFFER2]], [[R0]], [[BUFFER3]], [[BUFFER4]], [[BUFFER5]]) params [0, 1, 1, 1, 0, 8, 1,
// CHECK-SAME:   2.500000e+00] {absent = array<i64: 1>, cost = #plan.cost<memory, flops = 1.28e3, read = 256, written = 660, routed = 4, choices = 32>} : (memref<16x4xf32>)
// CHECK-SAME:   -> (memref<16x4xf32, #plan<space device>>, memref<16x2xi32, #plan<space device>>, memref<16x2xi32>,
// CHECK-SAME:   memref<16x2xf32, #plan<space device>>, memref<1x4xi32, #plan<space device>>, memref<f32,
// CHECK-SAME:   #plan<space device>>)
// CHECK-NEXT:   plan.launch "route_grad"([[BUFFER]], [[BUFFER2]], [[A]]) -> ([[R1]]) params [0, 0, 1, 1.000000e+00]
// CHECK-SAME:   {absent = array<i64: 2>, cost = #plan.cost<memory, flops = 2.56e2, read = 388, written = 256>}
// CHECK-SAME:   : (memref<16x4xf32, #plan<space device>>, memref<16x2xi32, #plan<space device>>, memref<f32>)
// CHECK-SAME:   -> memref<16x4xf32>
// CHECK-NEXT:   return
func.func @route(%l: tensor<16x4xf32>, %a: tensor<f32>) -> (tensor<16x2xi32>, tensor<16x4xf32>) {
  %0:6 = moe.route %l {capacity = 8 : i64, renormalize, routing_scale = 2.500000e+00 : f64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  %1 = moe.route_grad %0#0, %0#1 aux(%a) : (tensor<16x4xf32>, tensor<16x2xi32>, tensor<f32>) -> tensor<16x4xf32>
  return %0#2, %1 : tensor<16x2xi32>, tensor<16x4xf32>
}

// Ragged launches are priced for all rows of their reservation, the exchange for its full block side.
// CHECK-LABEL: func.func @ragged(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: memref<16x8xf32>,
// CHECK-SAME:   [[W:%[a-z0-9_]+]]: memref<2x8x16xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: memref<1x4xi32>,
// CHECK-SAME:   [[E:%[a-z0-9_]+]]: memref<2x2xi32>,
// CHECK-SAME:   [[R0:%[a-z0-9_]+]]: memref<32x16xf32>
// CHECK-NEXT:   [[BUFFER:%[a-z0-9_]+]] = plan.buffer : memref<32x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "all_to_all_v"([[X]], [[B]], [[E]]) -> ([[BUFFER]]) params [0] collective over <"ep", 2, 1>
// CHECK-SAME:   {cost = #plan.cost<network, read = 512, written = 512, collective = all_to_all, payload = 512, rows = 16, counts = 1, peers = 1>}
// CHECK-SAME:   : (memref<16x8xf32>, memref<1x4xi32>, memref<2x2xi32>) -> memref<32x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "grouped_matmul"([[BUFFER]], [[W]], [[E]]) -> ([[R0]]) params [0]
// CHECK-SAME:   {cost = #plan.cost<matrix, flops = 8.192e3, read = 2064, written = 2048, gemm = [2, 16, 16, 8], rows = 32, counts = 2>}
// CHECK-SAME:   : (memref<32x8xf32, #plan<space device>>, memref<2x8x16xf32>, memref<2x2xi32>) -> memref<32x16xf32>
// CHECK-NEXT:   return
func.func @ragged(%x: tensor<16x8xf32>, %w: tensor<2x8x16xf32>, %b: tensor<1x4xi32>, %e: tensor<2x2xi32>) -> tensor<32x16xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 2, 1> {direction = #moe<direction to_experts>}
    : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
  %1 = moe.grouped_matmul %0, %w counts(%e) : (tensor<32x8xf32>, tensor<2x8x16xf32>, tensor<2x2xi32>) -> tensor<32x16xf32>
  return %1 : tensor<32x16xf32>
}

// An argument that is returned is copied.
// CHECK-LABEL: func.func @returned_argument(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: memref<4x8xf64>,
// CHECK-SAME:   [[R0:%[a-z0-9_]+]]: memref<4x8xf64>
// CHECK-NEXT:   plan.launch "copy"([[X]]) -> ([[R0]])
// CHECK-SAME:   {cost = #plan.cost<memory, read = 256, written = 256>}
// CHECK-SAME:   : (memref<4x8xf64>) -> memref<4x8xf64>
// CHECK-NEXT:   return
func.func @returned_argument(%x: tensor<4x8xf64>) -> tensor<4x8xf64> {
  return %x : tensor<4x8xf64>
}

// So is one behind a cast.
// CHECK-LABEL: func.func @returned_cast(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: memref<4x8xf64>,
// CHECK-SAME:   [[R0:%[a-z0-9_]+]]: memref<4x8xf64>
// CHECK-NEXT:   plan.launch "copy"([[X]]) -> ([[R0]])
// CHECK-SAME:   {cost = #plan.cost<memory, read = 256, written = 256>}
// CHECK-SAME:   : (memref<4x8xf64>) -> memref<4x8xf64>
// CHECK-NEXT:   return
func.func @returned_cast(%x: tensor<4x8xf64>) -> tensor<4x8xf64> {
  %0 = moe.to_varying %x over <"dp", 2, 1> : tensor<4x8xf64>
  return %0 : tensor<4x8xf64>
}

// A value that is returned twice, once behind an alias, is copied from its first place.
// CHECK-LABEL: func.func @returned_twice(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: memref<4x8xf32>,
// CHECK-SAME:   [[R0:%[a-z0-9_]+]]: memref<4x8xf32>,
// CHECK-SAME:   [[R1:%[a-z0-9_]+]]: memref<4x8xf32>,
// CHECK-SAME:   [[R2:%[a-z0-9_]+]]: memref<4x8xf32>
// CHECK-NEXT:   plan.launch "scale"([[X]]) -> ([[R0]]) params [2.000000e+00]
// CHECK-SAME:   {cost = #plan.cost<memory, flops = 3.2e1, read = 128, written = 128>, in_place = array<i64: 0>}
// CHECK-SAME:   : (memref<4x8xf32>) -> memref<4x8xf32>
// CHECK-NEXT:   plan.launch "copy"([[R0]]) -> ([[R1]])
// CHECK-SAME:   {cost = #plan.cost<memory, read = 128, written = 128>}
// CHECK-SAME:   : (memref<4x8xf32>) -> memref<4x8xf32>
// CHECK-NEXT:   plan.launch "copy"([[R0]]) -> ([[R2]])
// CHECK-SAME:   {cost = #plan.cost<memory, read = 128, written = 128>}
// CHECK-SAME:   : (memref<4x8xf32>) -> memref<4x8xf32>
// CHECK-NEXT:   return
func.func @returned_twice(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
  %1 = moe.to_varying %0 over <"dp", 2, 1> : tensor<4x8xf32>
  return %0, %1, %0 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// The location's name is the launch's label: which layer it belongs to.
// CHECK-LABEL: func.func @labels(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: memref<4x8xf32>,
// CHECK-SAME:   [[R0:%[a-z0-9_]+]]: memref<4x8xf32>
// CHECK-NEXT:   [[BUFFER:%[a-z0-9_]+]] = plan.buffer : memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[X]]) -> ([[BUFFER]]) params [2.000000e+00]
// CHECK-SAME:   {cost = #plan.cost<memory, flops = 3.2e1, read = 128, written = 128>, in_place = array<i64: 0>,
// CHECK-SAME:   label = "layer0"} : (memref<4x8xf32>) -> memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER2:%[a-z0-9_]+]] = plan.buffer : memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[BUFFER]]) -> ([[BUFFER2]]) params [2.000000e+00]
// CHECK-SAME:   {cost = #plan.cost<memory, flops = 3.2e1, read = 128, written = 128>, in_place = array<i64: 0>,
// CHECK-SAME:   label = "layer0.grad"} : (memref<4x8xf32, #plan<space device>>) -> memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[BUFFER2]]) -> ([[R0]]) params [2.000000e+00]
// CHECK-SAME:   {cost = #plan.cost<memory, flops = 3.2e1, read = 128, written = 128>, in_place = array<i64: 0>}
// CHECK-SAME:   : (memref<4x8xf32, #plan<space device>>) -> memref<4x8xf32>
// CHECK-NEXT:   return
func.func @labels(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64} : tensor<4x8xf32> loc("layer0")
  %1 = moe.scale %0 {factor = 2.000000e+00 : f64} : tensor<4x8xf32> loc("layer0.grad"("model.mlir":1:1))
  %2 = moe.scale %1 {factor = 2.000000e+00 : f64} : tensor<4x8xf32> loc("model.mlir":2:1)
  return %2 : tensor<4x8xf32>
}

// Every exchange: parameters, group, and the bytes sent to the other members, (size - 1) / size of the whole, twice for a sum.
// CHECK-LABEL: func.func @collectives(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: memref<4x8xf32>,
// CHECK-SAME:   [[R0:%[a-z0-9_]+]]: memref<4x8xf32>
// CHECK-NEXT:   [[BUFFER:%[a-z0-9_]+]] = plan.buffer : memref<16x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "all_gather"([[X]]) -> ([[BUFFER]]) params [0] collective over <"mp", 4, 1>
// CHECK-SAME:   {cost = #plan.cost<network, read = 128, written = 512, collective = all_gather, payload = 512>}
// CHECK-SAME:   : (memref<4x8xf32>) -> memref<16x8xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER2:%[a-z0-9_]+]] = plan.buffer : memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "reduce_scatter"([[BUFFER]]) -> ([[BUFFER2]]) params [0] collective over <"mp", 4, 1>
// CHECK-SAME:   {cost = #plan.cost<network, flops = 1.28e2, read = 512, written = 128, collective = reduce_scatter, payload = 512>}
// CHECK-SAME:   : (memref<16x8xf32, #plan<space device>>) -> memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER3:%[a-z0-9_]+]] = plan.buffer : memref<1x32xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "all_to_all"([[BUFFER2]]) -> ([[BUFFER3]]) params [0, 1] collective over <"mp", 4, 1>
// CHECK-SAME:   {cost = #plan.cost<network, read = 128, written = 128, collective = all_to_all, payload = 128>}
// CHECK-SAME:   : (memref<4x8xf32, #plan<space device>>) -> memref<1x32xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER4:%[a-z0-9_]+]] = plan.buffer : memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "all_to_all"([[BUFFER3]]) -> ([[BUFFER4]]) params [1, 0] collective over <"mp", 4, 1>
// CHECK-SAME:   {cost = #plan.cost<network, read = 128, written = 128, collective = all_to_all, payload = 128>}
// CHECK-SAME:   : (memref<1x32xf32, #plan<space device>>) -> memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER5:%[a-z0-9_]+]] = plan.buffer : memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "all_reduce"([[BUFFER4]]) -> ([[BUFFER5]]) collective over <"mp", 4, 1>
// CHECK-SAME:   {absent = array<i64: 1>, cost = #plan.cost<network, flops = 3.2e1, read = 128, written = 128, collective = all_reduce, payload = 128>,
// CHECK-SAME:   in_place = array<i64: 0>} : (memref<4x8xf32, #plan<space device>>) -> memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER6:%[a-z0-9_]+]] = plan.buffer : memref<1x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "slice"([[BUFFER5]]) -> ([[BUFFER6]]) params [0] over <"mp", 4, 1>
// CHECK-SAME:   {cost = #plan.cost<memory, read = 32, written = 32>}
// CHECK-SAME:   : (memref<4x8xf32, #plan<space device>>) -> memref<1x8xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER7:%[a-z0-9_]+]] = plan.buffer : memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "all_gather"([[BUFFER6]]) -> ([[BUFFER7]]) params [0] collective over <"mp", 4, 1>
// CHECK-SAME:   {cost = #plan.cost<network, read = 32, written = 128, collective = all_gather, payload = 128>}
// CHECK-SAME:   : (memref<1x8xf32, #plan<space device>>) -> memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER8:%[a-z0-9_]+]] = plan.buffer : memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "broadcast"([[BUFFER7]]) -> ([[BUFFER8]]) params [3] collective over <"mp", 4, 1>
// CHECK-SAME:   {cost = #plan.cost<network, read = 128, written = 128, collective = broadcast, payload = 128, root = 3>}
// CHECK-SAME:   : (memref<4x8xf32, #plan<space device>>) -> memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "reduce"([[BUFFER8]]) -> ([[R0]]) params [1] collective over <"mp", 4, 1>
// CHECK-SAME:   {cost = #plan.cost<network, flops = 3.2e1, read = 128, written = 128, collective = reduce, payload = 128, root = 1>}
// CHECK-SAME:   : (memref<4x8xf32, #plan<space device>>) -> memref<4x8xf32>
// CHECK-NEXT:   return
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
