// RUN: moe-opt %s --convert-moe-to-plan | FileCheck %s

// Parts are views, and what is put side by side is computed in its place; sums are made in one place; copies on the host are there.

// A part of a buffer, of an argument, and of a part.
// CHECK-LABEL: func.func @split(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: memref<8x8xf32>, [[ARG1:%[a-z0-9_]+]]: memref<4x8xf32>, [[ARG2:%[a-z0-9_]+]]:
// CHECK-SAME:   memref<2x8xf32>, [[ARG3:%[a-z0-9_]+]]: memref<4x8xf32>) attributes {plan.inputs = 1 : i64}
// CHECK-NEXT:   [[BUFFER:%[a-z0-9_]+]] = plan.buffer : memref<8x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[ARG0]]) -> ([[BUFFER]]) params [2.000000e+00] {cost = #plan.cost<memory, flops = 6.4e1,
// CHECK-SAME:     read = 256, written = 256>, in_place = array<i64: 0>} : (memref<8x8xf32>) -> memref<8x8xf32, #plan<space
// CHECK-SAME:     device>>
// CHECK-NEXT:   [[VIEW:%[a-z0-9_]+]] = plan.view [[BUFFER]] part 0 of 2 : memref<8x8xf32, #plan<space device>> ->
// CHECK-SAME:     memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[VIEW2:%[a-z0-9_]+]] = plan.view [[BUFFER]] part 1 of 2 : memref<8x8xf32, #plan<space device>> ->
// CHECK-SAME:     memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[VIEW]]) -> ([[ARG1]]) params [3.000000e+00] {cost = #plan.cost<memory, flops = 3.2e1, read
// CHECK-SAME:     = 128, written = 128>, in_place = array<i64: 0>} : (memref<4x8xf32, #plan<space device>>) -> memref<4x8xf32>
// CHECK-NEXT:   [[VIEW3:%[a-z0-9_]+]] = plan.view [[VIEW2]] part 0 of 2 : memref<4x8xf32, #plan<space device>> ->
// CHECK-SAME:     memref<2x8xf32, #plan<space device>>
// CHECK-NEXT:   [[VIEW4:%[a-z0-9_]+]] = plan.view [[VIEW2]] part 1 of 2 : memref<4x8xf32, #plan<space device>> ->
// CHECK-SAME:     memref<2x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[VIEW4]]) -> ([[ARG2]]) params [4.000000e+00] {cost = #plan.cost<memory, flops = 1.6e1,
// CHECK-SAME:     read = 64, written = 64>, in_place = array<i64: 0>} : (memref<2x8xf32, #plan<space device>>) -> memref<2x8xf32>
// CHECK-NEXT:   [[VIEW5:%[a-z0-9_]+]] = plan.view [[ARG0]] part 0 of 2 : memref<8x8xf32> -> memref<4x8xf32>
// CHECK-NEXT:   [[VIEW6:%[a-z0-9_]+]] = plan.view [[ARG0]] part 1 of 2 : memref<8x8xf32> -> memref<4x8xf32>
// CHECK-NEXT:   plan.launch "scale"([[VIEW6]]) -> ([[ARG3]]) params [5.000000e+00] {cost = #plan.cost<memory, flops = 3.2e1,
// CHECK-SAME:     read = 128, written = 128>, in_place = array<i64: 0>} : (memref<4x8xf32>) -> memref<4x8xf32>
// CHECK-NEXT:   return
func.func @split(%x: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<2x8xf32>, tensor<4x8xf32>) {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64} : tensor<8x8xf32>
  %1:2 = moe.split %0 : (tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  %2 = moe.scale %1#0 {factor = 3.000000e+00 : f64} : tensor<4x8xf32>
  %3:2 = moe.split %1#1 : (tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  %4 = moe.scale %3#1 {factor = 4.000000e+00 : f64} : tensor<2x8xf32>
  %5:2 = moe.split %x : (tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  %6 = moe.scale %5#1 {factor = 5.000000e+00 : f64} : tensor<4x8xf32>
  return %2, %4, %6 : tensor<4x8xf32>, tensor<2x8xf32>, tensor<4x8xf32>
}

// Each part of a result is computed in its place, a part of a part too.
// CHECK-LABEL: func.func @concat(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: memref<2x8xf32>, [[ARG1:%[a-z0-9_]+]]: memref<4x8xf32>, [[ARG2:%[a-z0-9_]+]]:
// CHECK-SAME:   memref<8x8xf32>) attributes {plan.inputs = 2 : i64}
// CHECK-NEXT:   [[VIEW:%[a-z0-9_]+]] = plan.view [[ARG2]] part 0 of 2 : memref<8x8xf32> -> memref<4x8xf32>
// CHECK-NEXT:   [[VIEW2:%[a-z0-9_]+]] = plan.view [[ARG2]] part 1 of 2 : memref<8x8xf32> -> memref<4x8xf32>
// CHECK-NEXT:   [[VIEW3:%[a-z0-9_]+]] = plan.view [[VIEW]] part 0 of 2 : memref<4x8xf32> -> memref<2x8xf32>
// CHECK-NEXT:   [[VIEW4:%[a-z0-9_]+]] = plan.view [[VIEW]] part 1 of 2 : memref<4x8xf32> -> memref<2x8xf32>
// CHECK-NEXT:   plan.launch "scale"([[ARG0]]) -> ([[VIEW3]]) params [2.000000e+00] {cost = #plan.cost<memory, flops = 1.6e1,
// CHECK-SAME:     read = 64, written = 64>, in_place = array<i64: 0>} : (memref<2x8xf32>) -> memref<2x8xf32>
// CHECK-NEXT:   plan.launch "scale"([[ARG0]]) -> ([[VIEW4]]) params [3.000000e+00] {cost = #plan.cost<memory, flops = 1.6e1,
// CHECK-SAME:     read = 64, written = 64>, in_place = array<i64: 0>} : (memref<2x8xf32>) -> memref<2x8xf32>
// CHECK-NEXT:   plan.launch "scale"([[ARG1]]) -> ([[VIEW2]]) params [4.000000e+00] {cost = #plan.cost<memory, flops = 3.2e1,
// CHECK-SAME:     read = 128, written = 128>, in_place = array<i64: 0>} : (memref<4x8xf32>) -> memref<4x8xf32>
// CHECK-NEXT:   return
func.func @concat(%x: tensor<2x8xf32>, %y: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64} : tensor<2x8xf32>
  %1 = moe.scale %x {factor = 3.000000e+00 : f64} : tensor<2x8xf32>
  %2 = moe.concat %0, %1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %3 = moe.scale %y {factor = 4.000000e+00 : f64} : tensor<4x8xf32>
  %4 = moe.concat %2, %3 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}

// Values in other places are copied as soon as possible: the second place of %0 before all other launches, an argument at the end.
// CHECK-LABEL: func.func @copied(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: memref<4x8xf32>, [[ARG1:%[a-z0-9_]+]]: memref<12x8xf32>) attributes {plan.inputs = 1 :
// CHECK-SAME:   i64}
// CHECK-NEXT:   [[VIEW:%[a-z0-9_]+]] = plan.view [[ARG1]] part 0 of 3 : memref<12x8xf32> -> memref<4x8xf32>
// CHECK-NEXT:   [[VIEW2:%[a-z0-9_]+]] = plan.view [[ARG1]] part 1 of 3 : memref<12x8xf32> -> memref<4x8xf32>
// CHECK-NEXT:   [[VIEW3:%[a-z0-9_]+]] = plan.view [[ARG1]] part 2 of 3 : memref<12x8xf32> -> memref<4x8xf32>
// CHECK-NEXT:   [[BUFFER:%[a-z0-9_]+]] = plan.buffer : memref<12x8xf32, #plan<space device>>
// CHECK-NEXT:   [[VIEW4:%[a-z0-9_]+]] = plan.view [[BUFFER]] part 0 of 3 : memref<12x8xf32, #plan<space device>> ->
// CHECK-SAME:     memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[VIEW5:%[a-z0-9_]+]] = plan.view [[BUFFER]] part 1 of 3 : memref<12x8xf32, #plan<space device>> ->
// CHECK-SAME:     memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[VIEW6:%[a-z0-9_]+]] = plan.view [[BUFFER]] part 2 of 3 : memref<12x8xf32, #plan<space device>> ->
// CHECK-SAME:     memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[ARG0]]) -> ([[VIEW4]]) params [2.000000e+00] {cost = #plan.cost<memory, flops = 3.2e1,
// CHECK-SAME:     read = 128, written = 128>, in_place = array<i64: 0>} : (memref<4x8xf32>) -> memref<4x8xf32, #plan<space
// CHECK-SAME:     device>>
// CHECK-NEXT:   plan.launch "copy"([[VIEW4]]) -> ([[VIEW6]]) {cost = #plan.cost<memory, read = 128, written = 128>} :
// CHECK-SAME:     (memref<4x8xf32, #plan<space device>>) -> memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER2:%[a-z0-9_]+]] = plan.buffer : memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[VIEW4]]) -> ([[BUFFER2]]) params [3.000000e+00] {cost = #plan.cost<memory, flops = 3.2e1,
// CHECK-SAME:     read = 128, written = 128>, in_place = array<i64: 0>} : (memref<4x8xf32, #plan<space device>>) ->
// CHECK-SAME:     memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[BUFFER2]]) -> ([[VIEW2]]) params [4.000000e+00] {cost = #plan.cost<memory, flops = 3.2e1,
// CHECK-SAME:     read = 128, written = 128>, in_place = array<i64: 0>} : (memref<4x8xf32, #plan<space device>>) ->
// CHECK-SAME:     memref<4x8xf32>
// CHECK-NEXT:   plan.launch "copy"([[ARG0]]) -> ([[VIEW5]]) {cost = #plan.cost<memory, read = 128, written = 128>} :
// CHECK-SAME:     (memref<4x8xf32>) -> memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[VIEW7:%[a-z0-9_]+]] = plan.view [[BUFFER]] part 0 of 3 : memref<12x8xf32, #plan<space device>> ->
// CHECK-SAME:     memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[VIEW8:%[a-z0-9_]+]] = plan.view [[BUFFER]] part 1 of 3 : memref<12x8xf32, #plan<space device>> ->
// CHECK-SAME:     memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[VIEW9:%[a-z0-9_]+]] = plan.view [[BUFFER]] part 2 of 3 : memref<12x8xf32, #plan<space device>> ->
// CHECK-SAME:     memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "copy"([[VIEW7]]) -> ([[VIEW3]]) {cost = #plan.cost<memory, read = 128, written = 128>} :
// CHECK-SAME:     (memref<4x8xf32, #plan<space device>>) -> memref<4x8xf32>
// CHECK-NEXT:   plan.launch "copy"([[VIEW8]]) -> ([[VIEW]]) {cost = #plan.cost<memory, read = 128, written = 128>} :
// CHECK-SAME:     (memref<4x8xf32, #plan<space device>>) -> memref<4x8xf32>
// CHECK-NEXT:   return
func.func @copied(%x: tensor<4x8xf32>) -> tensor<12x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
  %1 = moe.scale %0 {factor = 3.000000e+00 : f64} : tensor<4x8xf32>
  %2 = moe.scale %1 {factor = 4.000000e+00 : f64} : tensor<4x8xf32>
  %3 = moe.concat %0, %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<12x8xf32>
  %4:3 = moe.split %3 : (tensor<12x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  %5 = moe.concat %4#1, %2, %4#0 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<12x8xf32>
  return %5 : tensor<12x8xf32>
}

// A part of what depends on the rank is copied before it is divided.
// CHECK-LABEL: func.func @part_of_slice(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: memref<8x8xf32>, [[ARG1:%[a-z0-9_]+]]: memref<2x8xf32>) attributes {plan.inputs = 1 : i64}
// CHECK-NEXT:   [[VIEW:%[a-z0-9_]+]] = plan.view [[ARG0]] part 0 of 2 over <"mp", 2, 1> : memref<8x8xf32> -> memref<4x8xf32>
// CHECK-NEXT:   [[BUFFER:%[a-z0-9_]+]] = plan.buffer : memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "copy"([[VIEW]]) -> ([[BUFFER]]) {cost = #plan.cost<memory, read = 128, written = 128>} :
// CHECK-SAME:     (memref<4x8xf32>) -> memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[VIEW2:%[a-z0-9_]+]] = plan.view [[BUFFER]] part 0 of 2 : memref<4x8xf32, #plan<space device>> ->
// CHECK-SAME:     memref<2x8xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER2:%[a-z0-9_]+]] = plan.buffer : memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "copy"([[VIEW]]) -> ([[BUFFER2]]) {cost = #plan.cost<memory, read = 128, written = 128>} :
// CHECK-SAME:     (memref<4x8xf32>) -> memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[VIEW3:%[a-z0-9_]+]] = plan.view [[BUFFER2]] part 1 of 2 : memref<4x8xf32, #plan<space device>> ->
// CHECK-SAME:     memref<2x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[VIEW3]]) -> ([[ARG1]]) params [2.000000e+00] {cost = #plan.cost<memory, flops = 1.6e1,
// CHECK-SAME:     read = 64, written = 64>, in_place = array<i64: 0>} : (memref<2x8xf32, #plan<space device>>) -> memref<2x8xf32>
// CHECK-NEXT:   return
func.func @part_of_slice(%x: tensor<8x8xf32>) -> tensor<2x8xf32> {
  %0 = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %1:2 = moe.split %0 : (tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  %2 = moe.scale %1#1 {factor = 2.000000e+00 : f64} : tensor<2x8xf32>
  return %2 : tensor<2x8xf32>
}

// The gradients of all chunks are in the result's memory from the first on.
// CHECK-LABEL: func.func @accumulated_result(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: memref<2x4x8xf32>, [[ARG1:%[a-z0-9_]+]]: memref<2x4x16xf32>, [[ARG2:%[a-z0-9_]+]]:
// CHECK-SAME:   memref<2x8x16xf32>) attributes {plan.inputs = 2 : i64}
// CHECK-NEXT:   plan.launch "grouped_matmul_wgrad"([[ARG0]], [[ARG1]]) -> ([[ARG2]]) {absent = array<i64: 2, 3>, chunk =
// CHECK-SAME:     #moe.chunk<1 of 2>, cost = #plan.cost<matrix, flops = 2.048e3, read = 768, written = 1024, gemm = [2, 8, 16, 4],
// CHECK-SAME:     ragged_depth>} : (memref<2x4x8xf32>, memref<2x4x16xf32>) -> memref<2x8x16xf32>
// CHECK-NEXT:   plan.launch "grouped_matmul_wgrad"([[ARG0]], [[ARG1]], [[ARG2]]) -> ([[ARG2]]) {absent = array<i64: 2>, chunk =
// CHECK-SAME:     #moe.chunk<0 of 2>, cost = #plan.cost<matrix, flops = 2.048e3, read = 1792, written = 1024, gemm = [2, 8, 16,
// CHECK-SAME:     4], ragged_depth>, in_place = array<i64: 2>} : (memref<2x4x8xf32>, memref<2x4x16xf32>, memref<2x8x16xf32>) ->
// CHECK-SAME:     memref<2x8x16xf32>
// CHECK-NEXT:   return
func.func @accumulated_result(%r: tensor<2x4x8xf32>, %g: tensor<2x4x16xf32>) -> tensor<2x8x16xf32> {
  %0 = moe.grouped_matmul_wgrad %r, %g {moe.chunk = #moe.chunk<1 of 2>} : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
  %1 = moe.grouped_matmul_wgrad %r, %g addend(%0) {moe.chunk = #moe.chunk<0 of 2>} : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return %1 : tensor<2x8x16xf32>
}

// Sums that go into an exchange share one buffer.
// CHECK-LABEL: func.func @accumulated_buffer(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: memref<2x4x8xf32>, [[ARG1:%[a-z0-9_]+]]: memref<2x4x16xf32>, [[ARG2:%[a-z0-9_]+]]:
// CHECK-SAME:   memref<2x8x16xf32>, [[ARG3:%[a-z0-9_]+]]: memref<2x16xf32>) attributes {plan.inputs = 2 : i64}
// CHECK-NEXT:   [[BUFFER:%[a-z0-9_]+]] = plan.buffer : memref<2x8x16xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "grouped_matmul_wgrad"([[ARG0]], [[ARG1]]) -> ([[BUFFER]]) {absent = array<i64: 2, 3>, cost =
// CHECK-SAME:     #plan.cost<matrix, flops = 2.048e3, read = 768, written = 1024, gemm = [2, 8, 16, 4], ragged_depth>} :
// CHECK-SAME:     (memref<2x4x8xf32>, memref<2x4x16xf32>) -> memref<2x8x16xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "grouped_matmul_wgrad"([[ARG0]], [[ARG1]], [[BUFFER]]) -> ([[BUFFER]]) {absent = array<i64: 2>, cost
// CHECK-SAME:     = #plan.cost<matrix, flops = 2.048e3, read = 1792, written = 1024, gemm = [2, 8, 16, 4], ragged_depth>, in_place
// CHECK-SAME:     = array<i64: 2>} : (memref<2x4x8xf32>, memref<2x4x16xf32>, memref<2x8x16xf32, #plan<space device>>) ->
// CHECK-SAME:     memref<2x8x16xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "grouped_matmul_wgrad"([[ARG0]], [[ARG1]], [[BUFFER]]) -> ([[BUFFER]]) {absent = array<i64: 2>, cost
// CHECK-SAME:     = #plan.cost<matrix, flops = 2.048e3, read = 1792, written = 1024, gemm = [2, 8, 16, 4], ragged_depth>, in_place
// CHECK-SAME:     = array<i64: 2>} : (memref<2x4x8xf32>, memref<2x4x16xf32>, memref<2x8x16xf32, #plan<space device>>) ->
// CHECK-SAME:     memref<2x8x16xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "all_reduce"([[BUFFER]]) -> ([[ARG2]]) collective over <"edp", 2, 2> {absent = array<i64: 1>, cost =
// CHECK-SAME:     #plan.cost<network, flops = 2.56e2, read = 1024, written = 1024, collective = all_reduce, payload = 1024>,
// CHECK-SAME:     in_place = array<i64: 0>} : (memref<2x8x16xf32, #plan<space device>>) -> memref<2x8x16xf32>
// CHECK-NEXT:   plan.launch "bias_grad"([[ARG1]]) -> ([[ARG3]]) params [1.000000e+00] {absent = array<i64: 1, 2>, cost =
// CHECK-SAME:     #plan.cost<memory, flops = 1.28e2, read = 512, written = 128>} : (memref<2x4x16xf32>) -> memref<2x16xf32>
// CHECK-NEXT:   plan.launch "bias_grad"([[ARG1]], [[ARG3]]) -> ([[ARG3]]) params [1.000000e+00] {absent = array<i64: 1>, cost =
// CHECK-SAME:     #plan.cost<memory, flops = 1.28e2, read = 640, written = 128>, in_place = array<i64: 1>} : (memref<2x4x16xf32>,
// CHECK-SAME:     memref<2x16xf32>) -> memref<2x16xf32>
// CHECK-NEXT:   return
func.func @accumulated_buffer(%r: tensor<2x4x8xf32>, %g: tensor<2x4x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x16xf32>) {
  %0 = moe.grouped_matmul_wgrad %r, %g : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
  %1 = moe.grouped_matmul_wgrad %r, %g addend(%0) : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %2 = moe.grouped_matmul_wgrad %r, %g addend(%1) : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %3 = moe.all_reduce %2 over <"edp", 2, 2> : (tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %4 = moe.bias_grad %g : (tensor<2x4x16xf32>) -> tensor<2x16xf32>
  %5 = moe.bias_grad %g addend(%4) : (tensor<2x4x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  return %3, %5 : tensor<2x8x16xf32>, tensor<2x16xf32>
}

// A value that another op needs, too, and the caller's memory, are not overwritten.
// CHECK-LABEL: func.func @addend_kept(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: memref<2x4x8xf32>, [[ARG1:%[a-z0-9_]+]]: memref<2x4x16xf32>, [[ARG2:%[a-z0-9_]+]]:
// CHECK-SAME:   memref<2x8x16xf32>, [[ARG3:%[a-z0-9_]+]]: memref<2x8x16xf32>, [[ARG4:%[a-z0-9_]+]]: memref<2x8x16xf32>,
// CHECK-SAME:   [[ARG5:%[a-z0-9_]+]]: memref<2x8x16xf32>) attributes {plan.inputs = 3 : i64}
// CHECK-NEXT:   plan.launch "grouped_matmul_wgrad"([[ARG0]], [[ARG1]]) -> ([[ARG3]]) {absent = array<i64: 2, 3>, cost =
// CHECK-SAME:     #plan.cost<matrix, flops = 2.048e3, read = 768, written = 1024, gemm = [2, 8, 16, 4], ragged_depth>} :
// CHECK-SAME:     (memref<2x4x8xf32>, memref<2x4x16xf32>) -> memref<2x8x16xf32>
// CHECK-NEXT:   plan.launch "grouped_matmul_wgrad"([[ARG0]], [[ARG1]], [[ARG3]]) -> ([[ARG4]]) {absent = array<i64: 2>, cost =
// CHECK-SAME:     #plan.cost<matrix, flops = 2.048e3, read = 1792, written = 1024, gemm = [2, 8, 16, 4], ragged_depth>, in_place =
// CHECK-SAME:     array<i64: 2>} : (memref<2x4x8xf32>, memref<2x4x16xf32>, memref<2x8x16xf32>) -> memref<2x8x16xf32>
// CHECK-NEXT:   plan.launch "grouped_matmul_wgrad"([[ARG0]], [[ARG1]], [[ARG2]]) -> ([[ARG5]]) {absent = array<i64: 2>, cost =
// CHECK-SAME:     #plan.cost<matrix, flops = 2.048e3, read = 1792, written = 1024, gemm = [2, 8, 16, 4], ragged_depth>, in_place =
// CHECK-SAME:     array<i64: 2>} : (memref<2x4x8xf32>, memref<2x4x16xf32>, memref<2x8x16xf32>) -> memref<2x8x16xf32>
// CHECK-NEXT:   return
func.func @addend_kept(%r: tensor<2x4x8xf32>, %g: tensor<2x4x16xf32>, %w: tensor<2x8x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>) {
  %0 = moe.grouped_matmul_wgrad %r, %g : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
  %1 = moe.grouped_matmul_wgrad %r, %g addend(%0) : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %2 = moe.grouped_matmul_wgrad %r, %g addend(%w) : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return %0, %1, %2 : tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>
}

// Host memory, chunks and rings.
// CHECK-LABEL: func.func @host(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: memref<4x8xf32>, [[ARG1:%[a-z0-9_]+]]: memref<4x8xf32>) attributes {plan.inputs = 1 : i64}
// CHECK-NEXT:   [[BUFFER:%[a-z0-9_]+]] = plan.buffer {ring = #moe.ring<"a", 2>} : memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[ARG0]]) -> ([[BUFFER]]) params [2.000000e+00] {chunk = #moe.chunk<0 of 2>, cost =
// CHECK-SAME:     #plan.cost<memory, flops = 3.2e1, read = 128, written = 128>, in_place = array<i64: 0>} : (memref<4x8xf32>) ->
// CHECK-SAME:     memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER2:%[a-z0-9_]+]] = plan.buffer : memref<4x8xf32, #plan<space host_pinned>>
// CHECK-NEXT:   plan.launch "copy"([[BUFFER]]) -> ([[BUFFER2]]) {chunk = #moe.chunk<0 of 2>, cost = #plan.cost<host_link, read =
// CHECK-SAME:     128, written = 128>} : (memref<4x8xf32, #plan<space device>>) -> memref<4x8xf32, #plan<space host_pinned>>
// CHECK-NEXT:   [[BUFFER3:%[a-z0-9_]+]] = plan.buffer {ring = #moe.ring<"a.again", 2>} : memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "copy"([[BUFFER2]]) -> ([[BUFFER3]]) {chunk = #moe.chunk<0 of 2>, cost = #plan.cost<host_link, read
// CHECK-SAME:     = 128, written = 128>} : (memref<4x8xf32, #plan<space host_pinned>>) -> memref<4x8xf32, #plan<space device>>
// CHECK-NEXT:   plan.launch "scale"([[BUFFER3]]) -> ([[ARG1]]) params [2.000000e+00] {cost = #plan.cost<memory, flops = 3.2e1,
// CHECK-SAME:     read = 128, written = 128>, in_place = array<i64: 0>} : (memref<4x8xf32, #plan<space device>>) ->
// CHECK-SAME:     memref<4x8xf32>
// CHECK-NEXT:   return
func.func @host(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"a", 2>} : tensor<4x8xf32>
  %1 = moe.offload %0 {moe.chunk = #moe.chunk<0 of 2>} : tensor<4x8xf32>
  %2 = moe.fetch %1 {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"a.again", 2>} : tensor<4x8xf32>
  %3 = moe.scale %2 {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// A chunk's route.
// CHECK-LABEL: func.func @route(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: memref<16x4xf32>, [[ARG1:%[a-z0-9_]+]]: memref<16x2xi32>, [[ARG2:%[a-z0-9_]+]]:
// CHECK-SAME:   memref<1x4xi32>) attributes {plan.inputs = 1 : i64}
// CHECK-NEXT:   [[BUFFER:%[a-z0-9_]+]] = plan.buffer : memref<16x4xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER2:%[a-z0-9_]+]] = plan.buffer : memref<16x2xi32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER3:%[a-z0-9_]+]] = plan.buffer : memref<16x2xf32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER4:%[a-z0-9_]+]] = plan.buffer : memref<3x4xi32, #plan<space device>>
// CHECK-NEXT:   [[BUFFER5:%[a-z0-9_]+]] = plan.buffer : memref<f32, #plan<space device>>
// CHECK-NEXT:   plan.launch "route"([[ARG0]]) -> ([[BUFFER]], [[BUFFER2]], [[ARG1]], [[BUFFER3]], [[BUFFER4]], [[BUFFER5]])
// CHECK-SAME:     params [0, 0, 1, 1, 0, 0, 1, 3, 12, -1, 1, 1, 1, 1.000000e+00] {absent = array<i64: 1>, cost = #plan.cost<memory, flops =
// CHECK-SAME:     1.28e3, read = 256, written = 692>, counts = [#plan.counts<route, output = 4, tokens = 16, top_k = 2>]} : (memref<16x4xf32>) -> (memref<16x4xf32,
// CHECK-SAME:     #plan<space device>>, memref<16x2xi32, #plan<space device>>, memref<16x2xi32>, memref<16x2xf32, #plan<space
// CHECK-SAME:     device>>, memref<3x4xi32, #plan<space device>>, memref<f32, #plan<space device>>)
// CHECK-NEXT:   [[VIEW:%[a-z0-9_]+]] = plan.view [[BUFFER4]] part 0 of 3 : memref<3x4xi32, #plan<space device>> ->
// CHECK-SAME:     memref<1x4xi32, #plan<space device>>
// CHECK-NEXT:   [[VIEW2:%[a-z0-9_]+]] = plan.view [[BUFFER4]] part 1 of 3 : memref<3x4xi32, #plan<space device>> ->
// CHECK-SAME:     memref<1x4xi32, #plan<space device>>
// CHECK-NEXT:   [[VIEW3:%[a-z0-9_]+]] = plan.view [[BUFFER4]] part 2 of 3 : memref<3x4xi32, #plan<space device>> ->
// CHECK-SAME:     memref<1x4xi32, #plan<space device>>
// CHECK-NEXT:   plan.launch "copy"([[VIEW3]]) -> ([[ARG2]]) {cost = #plan.cost<memory, read = 16, written = 16>} :
// CHECK-SAME:     (memref<1x4xi32, #plan<space device>>) -> memref<1x4xi32>
// CHECK-NEXT:   return
func.func @route(%l: tensor<16x4xf32>) -> (tensor<16x2xi32>, tensor<1x4xi32>) {
  %0:6 = moe.route %l {chunks = 3 : i64, chunk_rows = 12 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<3x4xi32>, tensor<f32>)
  %1:3 = moe.split %0#4 : (tensor<3x4xi32>) -> (tensor<1x4xi32>, tensor<1x4xi32>, tensor<1x4xi32>)
  return %0#2, %1#2 : tensor<16x2xi32>, tensor<1x4xi32>
}
