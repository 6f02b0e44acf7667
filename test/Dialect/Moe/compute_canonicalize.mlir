// RUN: moe-opt %s --canonicalize | FileCheck %s

// A factor of one is nothing, as the share of one rank is.
// CHECK-LABEL: func.func @scale_by_one(
// CHECK-NEXT: return %arg0 :
func.func @scale_by_one(%a: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = moe.scale %a {factor = 1.000000e+00 : f64} : tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}

// Any other factor stays.
// CHECK-LABEL: func.func @scale_by_other(
// CHECK-NEXT: %[[SCALE:.+]] = moe.scale %arg0 {factor = -1.000000e+00 : f64}
// CHECK-NEXT: moe.scale %[[SCALE]] {factor = 0.000000e+00 : f64}
func.func @scale_by_other(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %a {factor = -1.000000e+00 : f64} : tensor<4x8xf32>
  %1 = moe.scale %0 {factor = 0.000000e+00 : f64} : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// One copy of each block is the block, and the sum of one is it.
// CHECK-LABEL: func.func @one_copy(
// CHECK-NEXT: return %arg0 :
func.func @one_copy(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.dump %a {blocks = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = moe.local_reduce %0 {dim = 1 : i64, blocks = 4 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// Two are not, and their sum is twice what was copied.
// CHECK-LABEL: func.func @two_copies(
// CHECK-NEXT: %[[DUMP:.+]] = moe.dump %arg0 :
// CHECK-NEXT: moe.local_reduce %[[DUMP]] :
func.func @two_copies(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.dump %a : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = moe.local_reduce %0 : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// An op without uses is pure, and goes.
// CHECK-LABEL: func.func @unused(
// CHECK-NEXT: return
func.func @unused(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>) {
  %0 = moe.matmul %a, %b : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = moe.activation %0 {kind = #moe<activation gelu>} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  return
}

