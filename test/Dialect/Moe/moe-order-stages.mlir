// RUN: moe-opt %s --moe-order-micro-batches=devices=2 --split-input-file -verify-diagnostics | FileCheck %s

// 1F1B of two stages and two micro-batches: the second stage does each backward as soon as it can.
// CHECK-LABEL: func.func @pipeline
// CHECK: moe.scale %{{.+}} {{{.*}}<0 of 2>, moe.stage = #moe.stage<0>}
// CHECK: moe.scale %{{.+}} {{{.*}}<1 of 2>, moe.stage = #moe.stage<0>}
// CHECK: moe.scale %{{.+}} {{{.*}}<0 of 2>, moe.stage = #moe.stage<1>}
// CHECK: moe.scale %{{.+}} {{{.*}}<0 of 2>, moe.stage = #moe.stage<1, backward>}
// CHECK: moe.scale %{{.+}} {{{.*}}<0 of 2>, moe.stage = #moe.stage<0, backward>}
// CHECK: moe.scale %{{.+}} {{{.*}}<1 of 2>, moe.stage = #moe.stage<1>}
// CHECK: moe.scale %{{.+}} {{{.*}}<1 of 2>, moe.stage = #moe.stage<1, backward>}
// CHECK: moe.scale %{{.+}} {{{.*}}<1 of 2>, moe.stage = #moe.stage<0, backward>}
// CHECK: moe.add
func.func @pipeline(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %f00 = moe.scale %x {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0>} : tensor<4xf32>
  %f01 = moe.scale %f00 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<1>} : tensor<4xf32>
  %f10 = moe.scale %y {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0>} : tensor<4xf32>
  %f11 = moe.scale %f10 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<1>} : tensor<4xf32>
  %b01 = moe.scale %f01 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %b00 = moe.scale %b01 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0, backward>} : tensor<4xf32>
  %b11 = moe.scale %f11 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %b10 = moe.scale %b11 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0, backward>} : tensor<4xf32>
  %0 = moe.add %b00, %b10 : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{expected stages to be a multiple of 2 devices but got 3 stages}}
func.func @three(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = moe.scale %x {factor = 2.0 : f64, moe.stage = #moe.stage<0>} : tensor<4xf32>
  %1 = moe.scale %0 {factor = 2.0 : f64, moe.stage = #moe.stage<2>} : tensor<4xf32>
  return %1 : tensor<4xf32>
}
