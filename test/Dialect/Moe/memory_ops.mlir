// RUN: moe-opt %s --verify-roundtrip | FileCheck %s

// Parts of values and copies on the host; gradients that add another.

// Rows of experts, ragged rows, counts.
// CHECK-LABEL: func.func @parts(
// CHECK-NEXT: %[[SPLIT:.+]]:4 = moe.split %arg0 :
// CHECK-NEXT: moe.concat %[[SPLIT]]#3, %[[SPLIT]]#1, %[[SPLIT]]#2, %[[SPLIT]]#0 :
// CHECK-NEXT: %[[SPLIT2:.+]]:3 = moe.split %arg1 :
// CHECK-NEXT: moe.concat %[[SPLIT2]]#0, %[[SPLIT2]]#0, %[[SPLIT2]]#0 :
// CHECK-NEXT: %[[SPLIT3:.+]]:3 = moe.split %arg2 :
// CHECK-NEXT: moe.concat %[[SPLIT3]]#2, %[[SPLIT3]]#1, %[[SPLIT3]]#0 :
func.func @parts(%x: tensor<8x4x16xbf16>, %r: tensor<6x16xf64>, %c: tensor<3x4xi32>)
    -> (tensor<8x4x16xbf16>, tensor<6x16xf64>, tensor<3x4xi32>) {
  %0:4 = moe.split %x : (tensor<8x4x16xbf16>) -> (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>)
  %1 = moe.concat %0#3, %0#1, %0#2, %0#0 : (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>, tensor<2x4x16xbf16>) -> tensor<8x4x16xbf16>
  %2:3 = moe.split %r : (tensor<6x16xf64>) -> (tensor<2x16xf64>, tensor<2x16xf64>, tensor<2x16xf64>)
  %3 = moe.concat %2#0, %2#0, %2#0 : (tensor<2x16xf64>, tensor<2x16xf64>, tensor<2x16xf64>) -> tensor<6x16xf64>
  %4:3 = moe.split %c : (tensor<3x4xi32>) -> (tensor<1x4xi32>, tensor<1x4xi32>, tensor<1x4xi32>)
  %5 = moe.concat %4#2, %4#1, %4#0 : (tensor<1x4xi32>, tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<3x4xi32>
  return %1, %3, %5 : tensor<8x4x16xbf16>, tensor<6x16xf64>, tensor<3x4xi32>
}

// One part is the whole.
// CHECK-LABEL: func.func @one_part(
// CHECK-NEXT: %[[SPLIT:.+]] = moe.split %arg0 :
// CHECK-NEXT: moe.concat %[[SPLIT]] :
func.func @one_part(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = moe.split %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = moe.concat %0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// To the host and back, with what passes say of ops.
// CHECK-LABEL: func.func @host(
// CHECK-NEXT: %[[SCALE:.+]] = moe.scale %arg0 {factor = 2.000000e+00 : f64, moe.chunk = #moe.chunk<1 of 2>, moe.residual = #moe<residual offload>, moe.ring = #moe.ring<"layer0.hidden", 2>}
// CHECK-NEXT: %[[OFFLOAD:.+]] = moe.offload %[[SCALE]] {moe.chunk = #moe.chunk<1 of 2>}
// CHECK-NEXT: %[[FETCH:.+]] = moe.fetch %[[OFFLOAD]] {moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"layer0.hidden.again", 2>}
// CHECK-NEXT: moe.scale %[[FETCH]] {factor = 2.000000e+00 : f64, moe.repeated}
func.func @host(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.chunk = #moe.chunk<1 of 2>, moe.residual = #moe<residual offload>, moe.ring = #moe.ring<"layer0.hidden", 2>} : tensor<8x4xf32>
  %1 = moe.offload %0 {moe.chunk = #moe.chunk<1 of 2>} : tensor<8x4xf32>
  %2 = moe.fetch %1 {moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"layer0.hidden.again", 2>} : tensor<8x4xf32>
  %3 = moe.scale %2 {factor = 2.000000e+00 : f64, moe.repeated} : tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}

// The addend is after the counts.
// CHECK-LABEL: func.func @addend(
// CHECK-NEXT: moe.grouped_matmul_wgrad %arg0, %arg1 addend(%arg2) :
// CHECK-NEXT: moe.bias_grad %arg1 addend(%arg3) {scale = 5.000000e-01 : f64}
func.func @addend(%r: tensor<2x4x8xf32>, %g: tensor<2x4x16xf32>, %w: tensor<2x8x16xf32>, %b: tensor<2x16xf32>)
    -> (tensor<2x8x16xf32>, tensor<2x16xf32>) {
  %0 = moe.grouped_matmul_wgrad %r, %g addend(%w) : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %1 = moe.bias_grad %g addend(%b) {scale = 5.000000e-01 : f64} : (tensor<2x4x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  return %0, %1 : tensor<2x8x16xf32>, tensor<2x16xf32>
}

// So it does with counts, and where rows are dense.
// CHECK-LABEL: func.func @addend_ragged(
// CHECK-NEXT: moe.grouped_matmul_wgrad %arg0, %arg1 counts(%arg2) addend(%arg3) :
// CHECK-NEXT: moe.bias_grad %arg1 counts(%arg2) addend(%arg4) :
// CHECK-NEXT: moe.bias_grad %arg1 addend(%arg5) :
func.func @addend_ragged(%r: tensor<8x8xf64>, %g: tensor<8x16xf64>, %c: tensor<4x2xi32>, %w: tensor<2x8x16xf64>, %b: tensor<2x16xf64>, %d: tensor<16xf64>)
    -> (tensor<2x8x16xf64>, tensor<2x16xf64>, tensor<16xf64>) {
  %0 = moe.grouped_matmul_wgrad %r, %g counts(%c) addend(%w) : (tensor<8x8xf64>, tensor<8x16xf64>, tensor<4x2xi32>, tensor<2x8x16xf64>) -> tensor<2x8x16xf64>
  %1 = moe.bias_grad %g counts(%c) addend(%b) : (tensor<8x16xf64>, tensor<4x2xi32>, tensor<2x16xf64>) -> tensor<2x16xf64>
  %2 = moe.bias_grad %g addend(%d) : (tensor<8x16xf64>, tensor<16xf64>) -> tensor<16xf64>
  return %0, %1, %2 : tensor<2x8x16xf64>, tensor<2x16xf64>, tensor<16xf64>
}
