// RUN: moe-opt %s --moe-order-micro-batches="devices=1 order=1f1b-overlap" | FileCheck %s
// RUN: moe-opt %s --moe-order-micro-batches="devices=1 order=1f1b side-by-side=2" | FileCheck %s --check-prefix=SIDE
// RUN: not moe-opt %s --moe-order-micro-batches="devices=1 order=1f1b side-by-side=3" 2>&1 | FileCheck %s --check-prefix=DIVIDE

// DIVIDE: error: expected 'side-by-side' to divide the number of micro-batches, 2, but got 3

// Side by side, both forwards come before both backwards, and each exchange runs beside the other micro-batch. Each
// micro-batch has a ring of its own.
// SIDE-LABEL: func.func @step
// SIDE: factor = 2.{{.*}}<0 of 2>, moe.ring = #moe.ring<"r.0", 1>, moe.stage = #moe.stage<0>
// SIDE-NEXT: moe.all_to_all{{.*}}<0 of 2>, moe.stage = #moe.stage<0>
// SIDE-NEXT: factor = 2.{{.*}}<1 of 2>, moe.ring = #moe.ring<"r.1", 1>, moe.stage = #moe.stage<0>
// SIDE-NEXT: moe.all_to_all{{.*}}<1 of 2>, moe.stage = #moe.stage<0>
// SIDE-NEXT: factor = 3.{{.*}}<0 of 2>, moe.stage = #moe.stage<0>
// SIDE-NEXT: factor = 3.{{.*}}<1 of 2>, moe.stage = #moe.stage<0>
// SIDE-NEXT: factor = 4.{{.*}}<0 of 2>, moe.stage = #moe.stage<0, backward>
// SIDE-NEXT: moe.all_to_all{{.*}}<0 of 2>, moe.stage = #moe.stage<0, backward>
// SIDE-NEXT: factor = 6.{{.*}}<0 of 2>, moe.stage = #moe.stage<0, weights>
// SIDE-NEXT: factor = 4.{{.*}}<1 of 2>, moe.stage = #moe.stage<0, backward>
// SIDE-NEXT: factor = 6.{{.*}}<1 of 2>, moe.stage = #moe.stage<0, weights>
// SIDE-NEXT: moe.all_to_all{{.*}}<1 of 2>, moe.stage = #moe.stage<0, backward>
// SIDE-NEXT: factor = 5.{{.*}}<0 of 2>, moe.stage = #moe.stage<0, backward>
// SIDE-NEXT: factor = 5.{{.*}}<1 of 2>, moe.stage = #moe.stage<0, backward>

// One device and two micro-batches. The forward of the second one and the backward of the first one are a window: each
// exchange runs beside computation of the other micro-batch. Gradients of weights (factor = 6) come where neither can go
// on. In the backward that stands alone they come behind its exchange.
// CHECK-LABEL: func.func @step
// CHECK: factor = 2.{{.*}}<0 of 2>, moe.ring = #moe.ring<"r", 1>, moe.stage = #moe.stage<0>
// CHECK-NEXT: moe.all_to_all{{.*}}<0 of 2>, moe.stage = #moe.stage<0>
// CHECK-NEXT: factor = 3.{{.*}}<0 of 2>, moe.stage = #moe.stage<0>
// CHECK-NEXT: factor = 2.{{.*}}<1 of 2>, moe.ring = #moe.ring<"r", 1>, moe.stage = #moe.stage<0>
// CHECK-NEXT: moe.all_to_all{{.*}}<1 of 2>, moe.stage = #moe.stage<0>
// CHECK-NEXT: factor = 4.{{.*}}<0 of 2>, moe.stage = #moe.stage<0, backward>
// CHECK-NEXT: factor = 6.{{.*}}<0 of 2>, moe.stage = #moe.stage<0, weights>
// CHECK-NEXT: moe.all_to_all{{.*}}<0 of 2>, moe.stage = #moe.stage<0, backward>
// CHECK-NEXT: factor = 3.{{.*}}<1 of 2>, moe.stage = #moe.stage<0>
// CHECK-NEXT: factor = 5.{{.*}}<0 of 2>, moe.stage = #moe.stage<0, backward>
// CHECK-NEXT: factor = 4.{{.*}}<1 of 2>, moe.stage = #moe.stage<0, backward>
// CHECK-NEXT: moe.all_to_all{{.*}}<1 of 2>, moe.stage = #moe.stage<0, backward>
// CHECK-NEXT: factor = 6.{{.*}}<1 of 2>, moe.stage = #moe.stage<0, weights>
// CHECK-NEXT: factor = 5.{{.*}}<1 of 2>, moe.stage = #moe.stage<0, backward>
func.func @step(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
  %f0a = moe.scale %x {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"r", 1>, moe.stage = #moe.stage<0>} : tensor<1024x1024xf32>
  %f0b = moe.all_to_all %f0a over <"ep", 8, 1> {split_dim = 0 : i64, concat_dim = 0 : i64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0>} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %f0c = moe.scale %f0b {factor = 3.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0>} : tensor<1024x1024xf32>
  %f1a = moe.scale %y {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"r", 1>, moe.stage = #moe.stage<0>} : tensor<1024x1024xf32>
  %f1b = moe.all_to_all %f1a over <"ep", 8, 1> {split_dim = 0 : i64, concat_dim = 0 : i64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0>} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %f1c = moe.scale %f1b {factor = 3.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0>} : tensor<1024x1024xf32>
  %b0a = moe.scale %f0c {factor = 4.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0, backward>} : tensor<1024x1024xf32>
  %w0 = moe.scale %b0a {factor = 6.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0, weights>} : tensor<1024x1024xf32>
  %b0b = moe.all_to_all %b0a over <"ep", 8, 1> {split_dim = 0 : i64, concat_dim = 0 : i64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0, backward>} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %b0c = moe.scale %b0b {factor = 5.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0, backward>} : tensor<1024x1024xf32>
  %b1a = moe.scale %f1c {factor = 4.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0, backward>} : tensor<1024x1024xf32>
  %w1 = moe.scale %b1a {factor = 6.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0, weights>} : tensor<1024x1024xf32>
  %b1b = moe.all_to_all %b1a over <"ep", 8, 1> {split_dim = 0 : i64, concat_dim = 0 : i64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0, backward>} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %b1c = moe.scale %b1b {factor = 5.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0, backward>} : tensor<1024x1024xf32>
  return %b0c, %b1c, %w0, %w1 : tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>
}
