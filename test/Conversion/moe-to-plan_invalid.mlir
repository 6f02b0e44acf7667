// RUN: moe-opt %s --convert-moe-to-plan -verify-diagnostics -split-input-file

// An op of a model graph names no runtime call.
func.func @f(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x8xf32>, %w2: tensor<4x8x8xf32>) -> tensor<64x8xf32> {
  // expected-error @+1 {{'moe.layer' op expected an op of a rank program, for which the runtime has a call}}
  %0, %a = moe.layer "l" %x gate(%g) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>} : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
  return %0 : tensor<64x8xf32>
}

// -----

// Nor does an op of another dialect.
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'arith.negf' op expected an op of a rank program, for which the runtime has a call}}
  %0 = arith.negf %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A program is one block.
// expected-error @+1 {{expected a body of one block}}
func.func private @f(tensor<8xf32>)

// -----

// Memory is that of tensors.
// expected-error @+1 {{expected arguments and results to be tensors of static shape but got 'memref<8xf32>'}}
func.func @f(%x: memref<8xf32>) {
  return
}

// -----

// expected-error @+1 {{expected arguments and results to be tensors of static shape but got 'tensor<?xf32>'}}
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// expected-error @+1 {{expected arguments and results to be tensors of static shape but got 'i32'}}
func.func @f(%x: tensor<8xf32>) -> i32 {
  %0 = arith.constant 1 : i32
  return %0 : i32
}

// -----

// A result in the memory of an argument comes behind all that read it, views too. This one is used before.
func.func @f(%x: tensor<8xf32>, %p: tensor<8xf32> {moe.name = "p"}) -> (tensor<8xf32> {moe.updates = "p"}, tensor<8xf32>) {
  %v = moe.to_varying %p over <"dp", 2, 1> : tensor<8xf32>
  %0 = moe.add %x, %v : tensor<8xf32>
  // expected-error @+1 {{expected to read argument 'p' before the result that takes its memory is used}}
  %1 = moe.add %0, %v : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
