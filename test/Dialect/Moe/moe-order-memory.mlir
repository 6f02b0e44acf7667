// RUN: moe-opt %s --moe-order-micro-batches="devices=2 order=search" | FileCheck %s --check-prefixes=CHECK,FREE
// RUN: moe-opt %s --moe-order-micro-batches="devices=2 order=search most-kept=32" | FileCheck %s --check-prefixes=CHECK,FREE
// RUN: moe-opt %s --moe-order-micro-batches="devices=2 order=search most-kept=16" | FileCheck %s --check-prefixes=CHECK,FULL
// RUN: not moe-opt %s --moe-order-micro-batches="devices=2 order=search most-kept=15" 2>&1 | FileCheck %s --check-prefix=LEAST
// RUN: not moe-opt %s --moe-order-micro-batches="devices=2 most-kept=31" 2>&1 | FileCheck %s --check-prefix=NAMED

// A device that may keep 16 bytes has the value of one micro-batch: the next forward of its stage comes after the backward.
// LEAST: error: expected a device to keep at most 15 bytes for gradients but in the order search it keeps 16
// NAMED: error: expected a device to keep at most 31 bytes for gradients but in the order 1f1b it keeps 32
// CHECK-LABEL: func.func @pipeline
// CHECK: moe.scale %{{.+}} {{{.*}}<0 of 2>, moe.stage = #moe.stage<0>}
// FREE: moe.scale %{{.+}} {{{.*}}<1 of 2>, moe.stage = #moe.stage<0>}
// CHECK: moe.add {{.*}}<0 of 2>, moe.stage = #moe.stage<0, backward>}
// FULL: moe.scale %{{.+}} {{{.*}}<1 of 2>, moe.stage = #moe.stage<0>}
// CHECK: moe.add {{.*}}<1 of 2>, moe.stage = #moe.stage<0, backward>}
func.func @pipeline(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %f00 = moe.scale %x {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0>} : tensor<4xf32>
  %f01 = moe.scale %f00 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<1>} : tensor<4xf32>
  %f10 = moe.scale %y {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0>} : tensor<4xf32>
  %f11 = moe.scale %f10 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<1>} : tensor<4xf32>
  %b01 = moe.scale %f01 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %b00 = moe.add %b01, %f00 {moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0, backward>} : tensor<4xf32>
  %b11 = moe.scale %f11 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %b10 = moe.add %b11, %f10 {moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0, backward>} : tensor<4xf32>
  %0 = moe.add %b00, %b10 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
