// RUN: moe-opt %s --moe-differentiate | FileCheck %s

// A parameter that two stages take in each of two micro-batches: each stage adds up its own gradients, and the two sums are added once,
// as an op of no stage. Had the sum gone from one stage to the other and back, a micro-batch would wait for the other's backward.

// CHECK-LABEL: func.func @shared(
// CHECK:         [[A1:%[0-9]+]] = moe.matmul_wgrad {{.*}} {moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<1, backward>}
// CHECK:         [[B1:%[0-9]+]] = moe.matmul_wgrad {{.*}} {moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0, backward>}
// CHECK:         [[A0:%[0-9]+]] = moe.matmul_wgrad {{.*}} {moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<1, backward>}
// CHECK-NEXT:    [[A:%[0-9]+]] = moe.add [[A1]], [[A0]] {moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<1, backward>}
// CHECK:         [[B0:%[0-9]+]] = moe.matmul_wgrad {{.*}} {moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0, backward>}
// CHECK-NEXT:    [[B:%[0-9]+]] = moe.add [[B1]], [[B0]] {moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0, backward>}
// CHECK:         [[SUM:%[0-9]+]] = moe.add [[A]], [[B]] : tensor<8x8xf32>
// CHECK:         return {{.*}}, [[SUM]] :
func.func @shared(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = moe.matmul %x, %w {moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = moe.matmul %0, %w {moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<1>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = moe.matmul %y, %w {moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = moe.matmul %2, %w {moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<1>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %1, %3 : tensor<4x8xf32>, tensor<4x8xf32>
}
