// RUN: moe-opt %s --moe-split-backward --moe-order-micro-batches="devices=2 order=zb-h1" | FileCheck %s

// Two stages of one product each, in two micro-batches. The gradient of the input is awaited by the stage before, the
// gradient of the weights is not: device 1 postpones it by one micro-batch. The first stage sends nothing on, and its last
// op stands for that. Gradients of weights are sums, in the order of micro-batches.
// The backward of the first device stays whole, since nobody waits for it.
// CHECK-LABEL: func.func @step
// CHECK: factor = 2.{{.*}}<0 of 2>, moe.stage = #moe.stage<0>}
// CHECK-NEXT: factor = 2.{{.*}}<1 of 2>, moe.stage = #moe.stage<0>}
// CHECK-NEXT: factor = 2.{{.*}}<0 of 2>, moe.stage = #moe.stage<1>}
// CHECK-NEXT: factor = 3.{{.*}}<0 of 2>, moe.stage = #moe.stage<1, backward>}
// CHECK-NEXT: factor = 4.{{.*}}<0 of 2>, moe.stage = #moe.stage<0, weights>}
// CHECK-NEXT: factor = 3.{{.*}}<0 of 2>, moe.stage = #moe.stage<0, backward>}
// CHECK-NEXT: factor = 2.{{.*}}<1 of 2>, moe.stage = #moe.stage<1>}
// CHECK-NEXT: factor = 3.{{.*}}<1 of 2>, moe.stage = #moe.stage<1, backward>}
// CHECK-NEXT: factor = 4.{{.*}}<1 of 2>, moe.stage = #moe.stage<0, weights>}
// CHECK-NEXT: moe.add {{.*}}<1 of 2>, moe.stage = #moe.stage<0, weights>}
// CHECK-NEXT: factor = 3.{{.*}}<1 of 2>, moe.stage = #moe.stage<0, backward>}
// CHECK-NEXT: factor = 4.{{.*}}<0 of 2>, moe.stage = #moe.stage<1, weights>}
// CHECK-NEXT: factor = 4.{{.*}}<1 of 2>, moe.stage = #moe.stage<1, weights>}
// CHECK-NEXT: moe.add {{.*}}<1 of 2>, moe.stage = #moe.stage<1, weights>}
func.func @step(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %f00 = moe.scale %x {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0>} : tensor<4xf32>
  %f01 = moe.scale %f00 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<1>} : tensor<4xf32>
  %f10 = moe.scale %y {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0>} : tensor<4xf32>
  %f11 = moe.scale %f10 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<1>} : tensor<4xf32>
  %b01 = moe.scale %f01 {factor = 3.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %w01 = moe.scale %f01 {factor = 4.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %w00 = moe.scale %b01 {factor = 4.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0, backward>} : tensor<4xf32>
  %b00 = moe.scale %b01 {factor = 3.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0, backward>} : tensor<4xf32>
  %b11 = moe.scale %f11 {factor = 3.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %w11 = moe.scale %f11 {factor = 4.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %s1 = moe.add %w01, %w11 {moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %w10 = moe.scale %b11 {factor = 4.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0, backward>} : tensor<4xf32>
  %s0 = moe.add %w00, %w10 {moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0, backward>} : tensor<4xf32>
  %b10 = moe.scale %b11 {factor = 3.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0, backward>} : tensor<4xf32>
  %0 = moe.add %b00, %b10 : tensor<4xf32>
  return %s1, %s0, %0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
