// RUN: moe-opt %s --convert-moe-to-plan | FileCheck %s --implicit-check-not=plan.launch

// Parts are views, and what is put side by side is computed in its place; sums are made in one place; copies on the host are there.

// A part of a buffer, of an argument, and of a part.
// CHECK-LABEL: func.func @split(
// CHECK: plan.launch "scale"(%arg0) -> (%[[BUFFER:.+]]) params [2.000000e+00]
// CHECK: %[[VIEW:.+]] = plan.view %[[BUFFER]] part 0 of 2
// CHECK: %[[VIEW2:.+]] = plan.view %[[BUFFER]] part 1 of 2
// CHECK: plan.launch "scale"(%[[VIEW]]) -> (%arg1) params [3.000000e+00]
// CHECK: %[[VIEW3:.+]] = plan.view %[[VIEW2]] part 1 of 2
// CHECK: plan.launch "scale"(%[[VIEW3]]) -> (%arg2) params [4.000000e+00]
// CHECK: %[[VIEW4:.+]] = plan.view %arg0 part 1 of 2
// CHECK: plan.launch "scale"(%[[VIEW4]]) -> (%arg3) params [5.000000e+00]
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
// CHECK: %[[VIEW:.+]] = plan.view %arg2 part 0 of 2
// CHECK: %[[VIEW2:.+]] = plan.view %arg2 part 1 of 2
// CHECK: %[[VIEW3:.+]] = plan.view %[[VIEW]] part 0 of 2
// CHECK: %[[VIEW4:.+]] = plan.view %[[VIEW]] part 1 of 2
// CHECK: plan.launch "scale"(%arg0) -> (%[[VIEW3]]) params [2.000000e+00]
// CHECK: plan.launch "scale"(%arg0) -> (%[[VIEW4]]) params [3.000000e+00]
// CHECK: plan.launch "scale"(%arg1) -> (%[[VIEW2]]) params [4.000000e+00]
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
// CHECK: %[[VIEW:.+]] = plan.view %arg1 part 0 of 3
// CHECK: %[[VIEW2:.+]] = plan.view %arg1 part 1 of 3
// CHECK: %[[VIEW3:.+]] = plan.view %arg1 part 2 of 3
// CHECK: %[[VIEW4:.+]] = plan.view %[[BUFFER:.+]] part 0 of 3
// CHECK: %[[VIEW5:.+]] = plan.view %[[BUFFER]] part 1 of 3
// CHECK: %[[VIEW6:.+]] = plan.view %[[BUFFER]] part 2 of 3
// CHECK: plan.launch "scale"(%arg0) -> (%[[VIEW4]]) params [2.000000e+00]
// CHECK: plan.launch "copy"(%[[VIEW4]]) -> (%[[VIEW6]])
// CHECK: plan.launch "scale"(%[[VIEW4]]) -> (%[[BUFFER2:.+]]) params [3.000000e+00]
// CHECK: plan.launch "scale"(%[[BUFFER2]]) -> (%[[VIEW2]]) params [4.000000e+00]
// CHECK: plan.launch "copy"(%arg0) -> (%[[VIEW5]])
// CHECK: %[[VIEW7:.+]] = plan.view %[[BUFFER]] part 0 of 3
// CHECK: %[[VIEW8:.+]] = plan.view %[[BUFFER]] part 1 of 3
// CHECK: plan.launch "copy"(%[[VIEW7]]) -> (%[[VIEW3]])
// CHECK: plan.launch "copy"(%[[VIEW8]]) -> (%[[VIEW]])
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
// CHECK: %[[VIEW:.+]] = plan.view %arg0 part 0 of 2 over <"mp", 2, 1>
// CHECK: plan.launch "copy"(%[[VIEW]]) -> (%[[BUFFER:[^)]+]])
// CHECK: plan.launch "copy"(%[[VIEW]]) -> (%[[BUFFER2:[^)]+]])
// CHECK: %[[VIEW2:.+]] = plan.view %[[BUFFER2]] part 1 of 2
// CHECK: plan.launch "scale"(%[[VIEW2]]) -> (%arg1) params [2.000000e+00]
func.func @part_of_slice(%x: tensor<8x8xf32>) -> tensor<2x8xf32> {
  %0 = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %1:2 = moe.split %0 : (tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  %2 = moe.scale %1#1 {factor = 2.000000e+00 : f64} : tensor<2x8xf32>
  return %2 : tensor<2x8xf32>
}

// The gradients of all chunks are in the result's memory from the first on.
// CHECK-LABEL: func.func @accumulated_result(
// CHECK: plan.launch "grouped_matmul_wgrad"(%arg0, %arg1) -> (%arg2) {{.*}}chunk = #moe.chunk<1 of 2>
// CHECK: plan.launch "grouped_matmul_wgrad"(%arg0, %arg1, %arg2) -> (%arg2) {{.*}}chunk = #moe.chunk<0 of 2>,{{.*}} in_place = array<i64: 2>
func.func @accumulated_result(%r: tensor<2x4x8xf32>, %g: tensor<2x4x16xf32>) -> tensor<2x8x16xf32> {
  %0 = moe.grouped_matmul_wgrad %r, %g {moe.chunk = #moe.chunk<1 of 2>} : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
  %1 = moe.grouped_matmul_wgrad %r, %g addend(%0) {moe.chunk = #moe.chunk<0 of 2>} : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return %1 : tensor<2x8x16xf32>
}

// Sums that go into an exchange share one buffer.
// CHECK-LABEL: func.func @accumulated_buffer(
// CHECK: plan.launch "grouped_matmul_wgrad"(%arg0, %arg1) -> (%[[BUFFER:[^)]+]])
// CHECK: plan.launch "grouped_matmul_wgrad"(%arg0, %arg1, %[[BUFFER]]) -> (%[[BUFFER]]) {{.*}}in_place = array<i64: 2>
// CHECK: plan.launch "grouped_matmul_wgrad"(%arg0, %arg1, %[[BUFFER]]) -> (%[[BUFFER]]) {{.*}}in_place = array<i64: 2>
// CHECK: plan.launch "all_reduce"(%[[BUFFER]]) -> (%arg2) collective over <"edp", 2, 2> {{.*}}in_place = array<i64: 0>
// CHECK: plan.launch "bias_grad"(%arg1) -> (%arg3) params [1.000000e+00]
// CHECK: plan.launch "bias_grad"(%arg1, %arg3) -> (%arg3) params [1.000000e+00] {{.*}}in_place = array<i64: 1>
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
// CHECK: plan.launch "grouped_matmul_wgrad"(%arg0, %arg1) -> (%arg3)
// CHECK: plan.launch "grouped_matmul_wgrad"(%arg0, %arg1, %arg3) -> (%arg4) {{.*}}in_place = array<i64: 2>
// CHECK: plan.launch "grouped_matmul_wgrad"(%arg0, %arg1, %arg2) -> (%arg5) {{.*}}in_place = array<i64: 2>
func.func @addend_kept(%r: tensor<2x4x8xf32>, %g: tensor<2x4x16xf32>, %w: tensor<2x8x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>) {
  %0 = moe.grouped_matmul_wgrad %r, %g : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
  %1 = moe.grouped_matmul_wgrad %r, %g addend(%0) : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %2 = moe.grouped_matmul_wgrad %r, %g addend(%w) : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return %0, %1, %2 : tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>
}

// Host memory, chunks and rings.
// CHECK-LABEL: func.func @host(
// CHECK: %[[BUFFER:.+]] = plan.buffer {ring = #moe.ring<"a", 2>}
// CHECK: plan.launch "scale"(%arg0) -> (%[[BUFFER]]) params [2.000000e+00] {chunk = #moe.chunk<0 of 2>
// CHECK: plan.launch "copy"(%[[BUFFER]]) -> (%[[BUFFER2:[^)]+]]) {chunk = #moe.chunk<0 of 2>, cost = #plan.cost<host_link, read = 128, written = 128>} : {{.*}} -> memref<4x8xf32, #plan<space host_pinned>>
// CHECK: %[[BUFFER3:.+]] = plan.buffer {ring = #moe.ring<"a.again", 2>}
// CHECK: plan.launch "copy"(%[[BUFFER2]]) -> (%[[BUFFER3]]) {chunk = #moe.chunk<0 of 2>, cost = #plan.cost<host_link, read = 128, written = 128>}
// CHECK: plan.launch "scale"(%[[BUFFER3]]) -> (%arg1) params [2.000000e+00]
func.func @host(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"a", 2>} : tensor<4x8xf32>
  %1 = moe.offload %0 {moe.chunk = #moe.chunk<0 of 2>} : tensor<4x8xf32>
  %2 = moe.fetch %1 {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"a.again", 2>} : tensor<4x8xf32>
  %3 = moe.scale %2 {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// A chunk's route.
// CHECK-LABEL: func.func @route(
// CHECK: plan.launch "route"(%arg0) -> (%[[BUFFER:.+]], %[[BUFFER2:.+]], %arg1, %[[BUFFER3:.+]], %[[BUFFER4:.+]], %[[BUFFER5:.+]]) params [0, 0, 1, 1, 0, 0, 1, 3, 12, -1, 1, 1, 1, 1.000000e+00] {absent = array<i64: 1>, cost = #plan.cost<memory, flops = 1.28e3, read = 256, written = 692>, counts = [#plan.counts<route, output = 4, tokens = 16, top_k = 2>]}
// CHECK: %[[VIEW:.+]] = plan.view %[[BUFFER4]] part 2 of 3
// CHECK: plan.launch "copy"(%[[VIEW]]) -> (%arg2) {cost = #plan.cost<memory, read = 16, written = 16>}
func.func @route(%l: tensor<16x4xf32>) -> (tensor<16x2xi32>, tensor<1x4xi32>) {
  %0:6 = moe.route %l {chunks = 3 : i64, chunk_rows = 12 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<3x4xi32>, tensor<f32>)
  %1:3 = moe.split %0#4 : (tensor<3x4xi32>) -> (tensor<1x4xi32>, tensor<1x4xi32>, tensor<1x4xi32>)
  return %0#2, %1#2 : tensor<16x2xi32>, tensor<1x4xi32>
}
