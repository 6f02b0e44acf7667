// RUN: moe-opt %s -verify-diagnostics -split-input-file

// (C1): there is a token.
func.func @invalid(%x: tensor<0x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected at least one token but got 'tensor<0x8xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>}
    : (tensor<0x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<0x8xf32>, tensor<f32>)
  return
}

// -----

// (C1): groups divides N.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected groups to divide the 64 tokens but got 3}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, groups = 3 : i64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C1): there is a group.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected groups to divide the 64 tokens but got 0}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, groups = 0 : i64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C2): at least one choice.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected top_k to be between 1 and 4, the number of experts, but got 0}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 0 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C2): no more choices than experts.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected top_k to be between 1 and 4, the number of experts, but got 5}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 5 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C2): at most 32 choices.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x64xf32>, %w1: tensor<64x8x16xf32>, %w2: tensor<64x16x8xf32>) {
  // expected-error @+1 {{expected top_k to be between 1 and 32, MoePlan's limit, but got 33}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 33 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x64xf32>, tensor<64x8x16xf32>, tensor<64x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C3): gate has M rows.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<16x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected gate to be 'tensor<8x4xf32>' but got 'tensor<16x4xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<16x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C3): gate_bias is [E].
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %gate_bias: tensor<8xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected gate_bias to be 'tensor<4xf32>' but got 'tensor<8xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %gate_bias, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C3): selection_bias is [E].
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %selection_bias: tensor<2xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected selection_bias to be 'tensor<4xf32>' but got 'tensor<2xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %selection_bias, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<2xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C4): w1 is [E, M, H].
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x16x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected w1 to be 'tensor<4x8x16xf32>' but got 'tensor<4x16x16xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x16x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C4): w1 has twice the columns for a gated activation.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected w1 to be 'tensor<4x8x32xf32>' but got 'tensor<4x8x16xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation swiglu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C4): w2 is [E, H, M].
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x4xf32>) {
  // expected-error @+1 {{expected w2 to be 'tensor<4x16x8xf32>' but got 'tensor<4x16x4xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x4xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C4): b1 is [E, H].
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b1: tensor<4x8xf32>, %b2: tensor<4x8xf32>) {
  // expected-error @+1 {{expected b1 to be 'tensor<4x16xf32>' but got 'tensor<4x8xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2, %b1, %b2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C4): b2 is [E, M].
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b1: tensor<4x16xf32>, %b2: tensor<4x16xf32>) {
  // expected-error @+1 {{expected b2 to be 'tensor<4x8xf32>' but got 'tensor<4x16xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2, %b1, %b2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>, tensor<4x16xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C4): b1 not without b2.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b1: tensor<4x16xf32>) {
  // expected-error @+1 {{expected b1 and b2 together}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2, %b1) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C4): b2 not without b1.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b2: tensor<4x8xf32>) {
  // expected-error @+1 {{expected b1 and b2 together}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2, %b2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C5): shared_w1 is [M, H'].
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %shared_w1: tensor<8x24xf32>, %shared_w2: tensor<12x8xf32>) {
  // expected-error @+1 {{expected shared_w1 to be 'tensor<8x12xf32>' but got 'tensor<8x24xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2, %shared_w1, %shared_w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<8x24xf32>, tensor<12x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C5): shared_w1 has twice the columns for a gated activation.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x32xf32>, %w2: tensor<4x16x8xf32>, %shared_w1: tensor<8x12xf32>, %shared_w2: tensor<12x8xf32>) {
  // expected-error @+1 {{expected shared_w1 to be 'tensor<8x24xf32>' but got 'tensor<8x12xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2, %shared_w1, %shared_w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation swiglu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x32xf32>, tensor<4x16x8xf32>, tensor<8x12xf32>, tensor<12x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C5): shared_w2 is [H', M].
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %shared_w1: tensor<8x12xf32>, %shared_w2: tensor<12x4xf32>) {
  // expected-error @+1 {{expected shared_w2 to be 'tensor<12x8xf32>' but got 'tensor<12x4xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2, %shared_w1, %shared_w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<8x12xf32>, tensor<12x4xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C5): shared_w1 not without shared_w2.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %shared_w1: tensor<8x12xf32>) {
  // expected-error @+1 {{expected shared_w1 and shared_w2 together, and shared_gate only with them}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2, %shared_w1) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 1, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<8x12xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C5): shared_w2 not without shared_w1.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %shared_w2: tensor<12x8xf32>) {
  // expected-error @+1 {{expected shared_w1 and shared_w2 together, and shared_gate only with them}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2, %shared_w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<12x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C5): shared_gate is [M, 1].
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %shared_w1: tensor<8x12xf32>, %shared_w2: tensor<12x8xf32>, %shared_gate: tensor<8x2xf32>) {
  // expected-error @+1 {{expected shared_gate to be 'tensor<8x1xf32>' but got 'tensor<8x2xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2, %shared_w1, %shared_w2, %shared_gate) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<8x12xf32>, tensor<12x8xf32>, tensor<8x2xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C5): shared_gate needs a shared expert.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %shared_gate: tensor<8x1xf32>) {
  // expected-error @+1 {{expected shared_w1 and shared_w2 together, and shared_gate only with them}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2, %shared_gate) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<8x1xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C6): expert_groups divides E.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected expert_groups to divide the 4 experts but got 3}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, expert_groups = 3 : i64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C6): there is a group of experts.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected expert_groups to divide the 4 experts but got 0}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, expert_groups = 0 : i64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C6): top_groups is at least one.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected top_groups to be at most 2 and to hold at least top_k = 2 experts but got 0 of 2 experts each}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, expert_groups = 2 : i64, top_groups = 0 : i64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C6): top_groups is at most expert_groups.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected top_groups to be at most 2 and to hold at least top_k = 2 experts but got 3 of 2 experts each}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, expert_groups = 2 : i64, top_groups = 3 : i64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C6): the best groups hold enough experts.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected top_groups to be at most 4 and to hold at least top_k = 2 experts but got 1 of 1 experts each}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, expert_groups = 4 : i64, top_groups = 1 : i64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C6): a group scored by top2 has two experts.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected at least two experts in a group scored by top2 but got one}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, expert_groups = 4 : i64, top_groups = 2 : i64, group_score = #moe<group_score top2>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C7): capacity_factor is positive.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected capacity_factor to be positive but got}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, capacity_factor = 0.0 : f64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C7): capacity_factor is a number.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected capacity_factor to be positive but got}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, capacity_factor = 0x7FF8000000000000 : f64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C7): expert_capacity is at least one.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected expert_capacity to be at least 1 but got 0}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, capacity_factor = 1.0 : f64, expert_capacity = 0 : i64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C7): max_load is at least one.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected max_load to be at least 1, and only in the dropless form}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, max_load = 0.5 : f64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C7): expert_capacity alone makes the capacity form too.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected max_load to be at least 1, and only in the dropless form}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, max_load = 2.0 : f64, expert_capacity = 8 : i64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C7): max_load only in the dropless form.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected max_load to be at least 1, and only in the dropless form}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>, max_load = 2.0 : f64, capacity_factor = 1.0 : f64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C8): the weights have x's elements.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf64>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected w1 to be 'tensor<4x8x16xf32>' but got 'tensor<4x8x16xf64>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf64>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f32>)
  return
}

// -----

// (C8): aux has x's elements.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected aux to be 'tensor<f32>' but got 'tensor<f64>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<64x8xf32>, tensor<f64>)
  return
}

// -----

// (C8): y has x's type.
func.func @invalid(%x: tensor<64x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) {
  // expected-error @+1 {{expected y to be 'tensor<64x8xf32>' but got 'tensor<32x8xf32>'}}
  %y, %a = "moe.layer"(%x, %gate, %w1, %w2) {layer_name = "l", top_k = 2 : i64,
    activation = #moe<activation relu>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
    -> (tensor<32x8xf32>, tensor<f32>)
  return
}

// -----

// moe.add: operands and result have one type.
func.func @invalid(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = "moe.add"(%a, %b) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}
