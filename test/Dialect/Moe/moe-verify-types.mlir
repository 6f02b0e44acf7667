// RUN: moe-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(func.func(moe-verify-types))"

// Accumulators have more bits. A value that is rounded may be computed with, and one that was computed in few bits may get more.
module attributes {moe.dtype = bf16, moe.grad_dtype = f32, moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @rounds(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>, %g: tensor<4x8xf32>) -> tensor<8x8xf32> {
    %0 = moe.cast %g : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %1 = moe.matmul %x, %0 {transpose_a} : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xbf16>
    %2 = moe.cast %1 : (tensor<8x8xbf16>) -> tensor<8x8xf32>
    %3 = moe.all_reduce %2 over <"dp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %3 : tensor<8x8xf32>
  }
}

// -----

module attributes {moe.dtype = bf16, moe.grad_dtype = f32, moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @sum(%g: tensor<8xf32>) -> tensor<8xf32> {
    %0 = moe.cast %g : (tensor<8xf32>) -> tensor<8xbf16>
    // expected-error @+1 {{'moe.all_reduce' op adds up values of 'bf16' over 'dp' in a program whose gradients are summed in 'f32'}}
    %1 = moe.all_reduce %0 over <"dp", 2, 1> : (tensor<8xbf16>) -> tensor<8xbf16>
    // expected-error @+1 {{'moe.cast' op gives values 'f32' again that were rounded to 'bf16' on their way: expected them to stay 'f32'}}
    %2 = moe.cast %1 : (tensor<8xbf16>) -> tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}

// -----

// Gradients of the program's type are summed in it.
module attributes {moe.dtype = bf16, moe.grad_dtype = bf16, moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @sum(%g: tensor<8xbf16>) -> tensor<8xbf16> {
    %0 = moe.all_reduce %g over <"dp", 2, 1> : (tensor<8xbf16>) -> tensor<8xbf16>
    return %0 : tensor<8xbf16>
  }
}

// -----

// Without moe.dtype the type is that of the arguments.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @shadow(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{'moe.cast' op has a result of 'bf16' in a program of 'f32'}}
    %0 = moe.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
    // expected-error @+1 {{'moe.cast' op gives values 'f32' again that were rounded to 'bf16' on their way: expected them to stay 'f32'}}
    %1 = moe.cast %0 : (tensor<8xbf16>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{expected 'moe.dtype' to be a floating-point type on a module}}
module attributes {moe.dtype = i32} {
}
