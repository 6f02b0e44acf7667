// RUN: moe-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(func.func(plan-verify-types))"

// A gradient of logits that were cast may be rounded, also after a sum; so may parameters. A part of a bucket keeps what the others are.
module attributes {moe.dtype = bf16, moe.grad_dtype = f32} {
  func.func @fits(%x: memref<4x8xbf16>, %scores: memref<4x2xf32>, %experts: memref<4x1xi32>, %g: memref<4x1xf32>, %p: memref<64xf32>,
                  %v: memref<64xf32>, %rate: memref<f32>, %grad: memref<64xf32>, %out: memref<64xbf16>, %w: memref<8x2xf32>) {
    %0 = plan.buffer : memref<4x2xf32, #plan<space device>>
    plan.launch "route_grad"(%scores, %experts, %g) -> (%0) params [0, 0, 1, 1.0] {absent = array<i64: 3>}
      : (memref<4x2xf32>, memref<4x1xi32>, memref<4x1xf32>) -> memref<4x2xf32, #plan<space device>>
    %1 = plan.buffer : memref<4x2xf32, #plan<space device>>
    plan.launch "add"(%0, %0) -> (%1)
      : (memref<4x2xf32, #plan<space device>>, memref<4x2xf32, #plan<space device>>) -> memref<4x2xf32, #plan<space device>>
    %2 = plan.buffer : memref<4x2xbf16, #plan<space device>>
    plan.launch "cast"(%1) -> (%2) : (memref<4x2xf32, #plan<space device>>) -> memref<4x2xbf16, #plan<space device>>
    plan.launch "matmul_wgrad"(%x, %2) -> (%w) {absent = array<i64: 2>} : (memref<4x8xbf16>, memref<4x2xbf16, #plan<space device>>) -> memref<8x2xf32>
    plan.launch "sgd"(%p, %grad, %v, %rate) -> (%p, %v) params [0.0, 0.0] {absent = array<i64: 4>}
      : (memref<64xf32>, memref<64xf32>, memref<64xf32>, memref<f32>) -> (memref<64xf32>, memref<64xf32>)
    %3 = plan.view %p at 0 : memref<64xf32> -> memref<32xf32>
    %4 = plan.view %out at 0 : memref<64xbf16> -> memref<32xbf16>
    plan.launch "cast"(%3) -> (%4) : (memref<32xf32>) -> memref<32xbf16>
    return
  }
}

// -----

// A program of its own may cast parameters, and compute with them.
module attributes {moe.dtype = bf16, moe.grad_dtype = bf16} {
  func.func @computes(%x: memref<4x8xbf16>, %gate: memref<8x2xbf16>, %g: memref<4x2xf32>, %wide: memref<4x8xf32>, %w: memref<8x2xf32>,
                      %out: memref<8x2xbf16>, %wide_g: memref<4x2xf32>, %narrow: memref<4x2xbf16>) {
    plan.launch "cast"(%x) -> (%wide) : (memref<4x8xbf16>) -> memref<4x8xf32>
    plan.launch "cast"(%narrow) -> (%wide_g) : (memref<4x2xbf16>) -> memref<4x2xf32>
    plan.launch "matmul_wgrad"(%wide, %wide_g) -> (%w) {absent = array<i64: 2>} : (memref<4x8xf32>, memref<4x2xf32>) -> memref<8x2xf32>
    plan.launch "cast"(%w) -> (%out) : (memref<8x2xf32>) -> memref<8x2xbf16>
    return
  }
}

// -----

// A wide gradient of values of 16 bits is what moe.grad_dtype asks for.
module attributes {moe.dtype = bf16, moe.grad_dtype = f32} {
  func.func @gradient(%x: memref<4x8xbf16>, %g: memref<4x2xbf16>, %w: memref<8x2xf32>, %out: memref<8x2xbf16>) {
    plan.launch "matmul_wgrad"(%x, %g) -> (%w) {absent = array<i64: 2>} : (memref<4x8xbf16>, memref<4x2xbf16>) -> memref<8x2xf32>
    // expected-error @+1 {{rounds values of 'f32' to 'bf16'}}
    plan.launch "cast"(%w) -> (%out) : (memref<8x2xf32>) -> memref<8x2xbf16>
    return
  }
}

// -----

// The same sum in 16 bits is what moe.grad_dtype asks for.
module attributes {moe.dtype = bf16, moe.grad_dtype = bf16} {
  func.func @sum(%x: memref<4x8xbf16>, %g: memref<4x2xbf16>, %w: memref<8x2xbf16>, %wide: memref<8x2xf32>) {
    plan.launch "matmul_wgrad"(%x, %g) -> (%w) {absent = array<i64: 2>} : (memref<4x8xbf16>, memref<4x2xbf16>) -> memref<8x2xbf16>
    plan.launch "all_reduce"(%w) -> (%w) collective over <"dp", 2, 1> {absent = array<i64: 1>} : (memref<8x2xbf16>) -> memref<8x2xbf16>
    plan.launch "cast"(%w) -> (%wide) : (memref<8x2xbf16>) -> memref<8x2xf32>
    return
  }
}

// -----

module attributes {moe.dtype = bf16, moe.grad_dtype = f32} {
  func.func @sums(%x: memref<4x8xbf16>, %g: memref<4x2xbf16>, %w: memref<8x2xbf16>, %wide: memref<8x2xf32>) {
    // expected-error @+1 {{expected the gradient 'out' to be 'f32', in which the plan sums gradients, but got 'bf16'}}
    plan.launch "matmul_wgrad"(%x, %g) -> (%w) {absent = array<i64: 2>} : (memref<4x8xbf16>, memref<4x2xbf16>) -> memref<8x2xbf16>
    // expected-error @+1 {{adds up values of 'bf16' over 'dp_cp' in a plan whose gradients are summed in 'f32'}}
    plan.launch "all_reduce"(%w) -> (%w) collective over <"dp_cp", 2, 1> {absent = array<i64: 1>} : (memref<8x2xbf16>) -> memref<8x2xbf16>
    // expected-error @+1 {{gives sums 'f32' that were added up in 'bf16': expected gradients to be summed in 'f32'}}
    plan.launch "cast"(%w) -> (%wide) : (memref<8x2xbf16>) -> memref<8x2xf32>
    return
  }
}

// -----

// Weights of choices are rounded, and computed with.
module attributes {moe.dtype = bf16} {
  func.func @rounded(%logits: memref<4x2xf32>, %scores: memref<4x2xf32>, %experts: memref<4x1xi32>, %slots: memref<4x1xi32>,
                     %weights: memref<4x1xf32>, %counts: memref<1x2xi32>, %aux: memref<f32>, %rows: memref<4x8xbf16>, %out: memref<4x8xbf16>) {
    plan.launch "route"(%logits) -> (%scores, %experts, %slots, %weights, %counts, %aux)
      params [0, 1, 1, 0, 0, 1, 1, 0, 1, 0, 1.0] {absent = array<i64: 1>}
      : (memref<4x2xf32>) -> (memref<4x2xf32>, memref<4x1xi32>, memref<4x1xi32>, memref<4x1xf32>, memref<1x2xi32>, memref<f32>)
    %0 = plan.buffer : memref<4x1xbf16, #plan<space device>>
    // expected-error @+1 {{rounds values of 'f32' to 'bf16': expected parameters, values that were cast to 'f32', or their gradients}}
    plan.launch "cast"(%weights) -> (%0) : (memref<4x1xf32>) -> memref<4x1xbf16, #plan<space device>>
    // expected-error @+1 {{expected the accumulator 'weights' to be 'f32' in a plan of 'bf16' but got 'bf16'}}
    plan.launch "combine"(%rows, %slots, %0) -> (%out) {absent = array<i64: 3>}
      : (memref<4x8xbf16>, memref<4x1xi32>, memref<4x1xbf16, #plan<space device>>) -> memref<4x8xbf16>
    return
  }
}

// -----

// A parameter that is rounded and summed over ranks stays rounded, whatever lies in the other part of the buffer.
module attributes {moe.dtype = bf16} {
  func.func @again(%p: memref<8xf32>, %v: memref<8xf32>, %rate: memref<f32>, %grad: memref<8xf32>, %wide: memref<16xf32>) {
    plan.launch "sgd"(%p, %grad, %v, %rate) -> (%p, %v) params [0.0, 0.0] {absent = array<i64: 4>}
      : (memref<8xf32>, memref<8xf32>, memref<8xf32>, memref<f32>) -> (memref<8xf32>, memref<8xf32>)
    %0 = plan.buffer : memref<16xbf16, #plan<space device>>
    %1 = plan.view %0 at 0 : memref<16xbf16, #plan<space device>> -> memref<8xbf16, #plan<space device>>
    %2 = plan.view %0 at 8 : memref<16xbf16, #plan<space device>> -> memref<8xbf16, #plan<space device>>
    plan.launch "cast"(%p) -> (%1) : (memref<8xf32>) -> memref<8xbf16, #plan<space device>>
    plan.launch "fill"() -> (%2) params [0.0] : () -> memref<8xbf16, #plan<space device>>
    plan.launch "all_reduce"(%0) -> (%0) collective over <"mp", 2, 1> {absent = array<i64: 1>}
      : (memref<16xbf16, #plan<space device>>) -> memref<16xbf16, #plan<space device>>
    // expected-error @+1 {{gives values 'f32' again that were rounded to 'bf16' on their way: expected them to stay 'f32'}}
    plan.launch "cast"(%0) -> (%wide) : (memref<16xbf16, #plan<space device>>) -> memref<16xf32>
    return
  }
}

// -----

// A master copy is rounded, whatever is computed in between.
module attributes {moe.dtype = bf16} {
  func.func @master(%p: memref<8xf32>, %v: memref<8xf32>, %rate: memref<f32>, %grad: memref<8xf32>, %narrow: memref<8xbf16>, %twice: memref<8xbf16>) {
    plan.launch "sgd"(%p, %grad, %v, %rate) -> (%p, %v) params [0.0, 0.0] {absent = array<i64: 4>}
      : (memref<8xf32>, memref<8xf32>, memref<8xf32>, memref<f32>) -> (memref<8xf32>, memref<8xf32>)
    plan.launch "cast"(%p) -> (%narrow) : (memref<8xf32>) -> memref<8xbf16>
    plan.launch "scale"(%narrow) -> (%twice) params [2.0] : (memref<8xbf16>) -> memref<8xbf16>
    // expected-error @+1 {{gives values 'f32' again that were rounded to 'bf16' on their way}}
    plan.launch "cast"(%twice) -> (%p) : (memref<8xbf16>) -> memref<8xf32>
    return
  }
}

// -----

// A sum over ranks, and a product, have the type of their operands.
module attributes {moe.dtype = bf16} {
  func.func @unlike(%sum: memref<8xf32>, %narrow: memref<8xbf16>, %x: memref<4x8xbf16>, %w: memref<8x2xf32>, %out: memref<4x2xbf16>) {
    // expected-error @+1 {{expected 'out' to be 'f32', as 'in' is, but got 'bf16'}}
    plan.launch "all_reduce"(%sum) -> (%narrow) collective over <"mp", 2, 1> {absent = array<i64: 1>} : (memref<8xf32>) -> memref<8xbf16>
    // expected-error @+1 {{expected 'b' to be 'bf16', as 'a' is, but got 'f32'}}
    plan.launch "matmul"(%x, %w) -> (%out) params [0, 0] : (memref<4x8xbf16>, memref<8x2xf32>) -> memref<4x2xbf16>
    return
  }
}

// -----

// Without moe.dtype the type is that of the arguments.
module {
  func.func @shadow(%x: memref<8xf32>) {
    %0 = plan.buffer : memref<8xbf16, #plan<space device>>
    // expected-error @+2 {{has 'out' of 'bf16' in a plan of 'f32'}}
    // expected-error @+1 {{rounds values of 'f32' to 'bf16'}}
    plan.launch "cast"(%x) -> (%0) : (memref<8xf32>) -> memref<8xbf16, #plan<space device>>
    return
  }
}
