// RUN: moe-opt %s --moe-differentiate -verify-diagnostics -split-input-file

// The gradient ops have no adjoints: second derivatives are not asked for.
func.func @f(%h: tensor<4x8xf32>, %g: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'moe.activation_grad' op expected a differentiable op of an SPMD program: a gradient reaches it}}
  %0 = moe.activation_grad %h, %g {kind = #moe<activation gelu>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// moe.grouped_matmul_wgrad.
func.func @f(%r: tensor<2x4x8xf32>, %g: tensor<2x4x16xf32>) -> tensor<2x8x16xf32> {
  // expected-error @+1 {{'moe.grouped_matmul_wgrad' op expected a differentiable op of an SPMD program: a gradient reaches it}}
  %0 = moe.grouped_matmul_wgrad %r, %g : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
  return %0 : tensor<2x8x16xf32>
}

// -----

// moe.bias_grad.
func.func @f(%g: tensor<4x8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'moe.bias_grad' op expected a differentiable op of an SPMD program: a gradient reaches it}}
  %0 = moe.bias_grad %g : (tensor<4x8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// moe.route_grad.
func.func @f(%s: tensor<16x4xf32>, %e: tensor<16x2xi32>, %w: tensor<16x2xf32>) -> tensor<16x4xf32> {
  // expected-error @+1 {{'moe.route_grad' op expected a differentiable op of an SPMD program: a gradient reaches it}}
  %0 = moe.route_grad %s, %e weights(%w) : (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x4xf32>
  return %0 : tensor<16x4xf32>
}

// -----

// moe.slot_dot.
func.func @f(%x: tensor<16x8xf32>, %r: tensor<32x8xf32>, %s: tensor<16x2xi32>) -> tensor<16x2xf32> {
  // expected-error @+1 {{'moe.slot_dot' op expected a differentiable op of an SPMD program: a gradient reaches it}}
  %0 = moe.slot_dot %x, %r, %s : (tensor<16x8xf32>, tensor<32x8xf32>, tensor<16x2xi32>) -> tensor<16x2xf32>
  return %0 : tensor<16x2xf32>
}

// -----

// A model graph is partitioned first.
func.func @f(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x8xf32>, %w2: tensor<4x8x8xf32>) -> tensor<64x8xf32> {
  // expected-error @+1 {{'moe.layer' op expected a differentiable op of an SPMD program: a gradient reaches it}}
  %0, %a = moe.layer "l" %x gate(%g) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>} : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
  return %0 : tensor<64x8xf32>
}

// -----

// An op of another dialect.
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'arith.negf' op expected a differentiable op of an SPMD program: a gradient reaches it}}
  %0 = arith.negf %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A program is one block.
// expected-error @+1 {{expected a body of one block}}
func.func private @f(tensor<8xf32>)
