// RUN: moe-opt %s -split-input-file -verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(func.func(moe-set-residuals{dispatched=offload hidden=offload}))" | FileCheck %s --implicit-check-not=moe.residual

// Experts without an activation between products: the first product is offloaded. What is dispatched without an exchange is offloaded
// where it is made.
// CHECK-LABEL: func.func @products(
// CHECK:         moe.dispatch {{.*}} {moe.residual = #moe<residual offload>}
// CHECK:         moe.to_varying
// CHECK-NEXT:    moe.grouped_matmul {{.*}} {moe.residual = #moe<residual offload>}
// CHECK-NEXT:    moe.grouped_matmul
func.func @products(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>, %w: tensor<4x8x8xf32>) -> tensor<16x8xf32> {
  %0:6 = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  %2 = moe.to_varying %1 over <"esp", 2, 1> : tensor<4x8x8xf32>
  %3 = moe.grouped_matmul %2, %w : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %4 = moe.grouped_matmul %3, %w : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %5 = moe.combine %4, %0#2 weights(%0#3) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %5 : tensor<16x8xf32>
}

// -----

// A layer that is none is left as it is.
// CHECK-LABEL: func.func @no_route(
func.func @no_route(%x: tensor<16x8xf32>, %s: tensor<16x2xi32>) -> tensor<4x8x8xf32> {
  // expected-warning @+1 {{moe-set-residuals leaves this layer as it is: the slots of its dispatch do not come from a routing}}
  %0 = moe.dispatch %x, %s : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  return %0 : tensor<4x8x8xf32>
}
