// RUN: moe-opt %s --moe-split-backward | FileCheck %s --check-prefixes=CHECK,SPLIT
// RUN: moe-opt %s --moe-split-backward=whole-repeated | FileCheck %s --check-prefixes=CHECK,WHOLE

// Ops that need a recomputed value may stay in the backward. Otherwise the value would live until the weight gradients.
// CHECK-LABEL: func.func @step
// SPLIT: factor = 5.{{.*}}#moe.stage<1, weights>}
// SPLIT: factor = 6.{{.*}}#moe.stage<1, weights>}
// WHOLE: factor = 5.{{.*}}#moe.stage<1, backward>}
// WHOLE: factor = 6.{{.*}}#moe.stage<1, backward>}
// CHECK: factor = 7.{{.*}}#moe.stage<1, weights>}
func.func @step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %f0 = moe.scale %x {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<0>} : tensor<4xf32>
  %f1 = moe.scale %f0 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<1>} : tensor<4xf32>
  %b1 = moe.scale %f1 {factor = 3.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %again = moe.scale %f0 {factor = 5.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.repeated, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %w = moe.scale %again {factor = 6.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %v = moe.scale %f1 {factor = 7.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %b0 = moe.scale %b1 {factor = 3.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<0, backward>} : tensor<4xf32>
  return %w, %v, %b0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Another value takes the place of a ring's value: its users are not postponed.
// CHECK-LABEL: func.func @ring
// CHECK: factor = 6.{{.*}}#moe.stage<1, backward>}
func.func @ring(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %f0 = moe.scale %x {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<0>} : tensor<4xf32>
  %f1 = moe.scale %f0 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.ring = #moe.ring<"x", 1>, moe.stage = #moe.stage<1>} : tensor<4xf32>
  %b1 = moe.scale %f0 {factor = 3.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %w = moe.scale %f1 {factor = 6.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %b0 = moe.scale %b1 {factor = 3.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<0, backward>} : tensor<4xf32>
  return %w, %b0 : tensor<4xf32>, tensor<4xf32>
}
