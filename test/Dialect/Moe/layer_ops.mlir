// RUN: moe-opt %s --verify-roundtrip | FileCheck %s

// The model graph: moe.layer with every choice of its optional parts, and moe.add.

// GShard: capacity form, two choices, biases, groups of tokens.
// CHECK-LABEL: func.func @gshard(
// CHECK-NEXT: moe.layer "gshard" %arg0 gate(%arg1, %arg2) experts(%arg3, %arg4, %arg5, %arg6) {activation = #moe<activation gelu>, capacity_factor = 1.250000e+00 : f64, groups = 4 : i64, renormalize, top_k = 2 : i64}
func.func @gshard(%x: tensor<64x8xf64>, %g: tensor<8x4xf64>, %gb: tensor<4xf64>, %w1: tensor<4x8x16xf64>,
                  %w2: tensor<4x16x8xf64>, %b1: tensor<4x16xf64>, %b2: tensor<4x8xf64>) -> (tensor<64x8xf64>, tensor<f64>) {
  %y, %aux = moe.layer "gshard" %x gate(%g, %gb) experts(%w1, %w2, %b1, %b2)
    {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.25 : f64, groups = 4 : i64, renormalize}
    : (tensor<64x8xf64>, tensor<8x4xf64>, tensor<4xf64>, tensor<4x8x16xf64>, tensor<4x16x8xf64>, tensor<4x16xf64>,
       tensor<4x8xf64>) -> (tensor<64x8xf64>, tensor<f64>)
  return %y, %aux : tensor<64x8xf64>, tensor<f64>
}

// Mixtral: dropless, gated activation, a bound on the load.
// CHECK-LABEL: func.func @mixtral(
// CHECK-NEXT: moe.layer "mixtral" %arg0 gate(%arg1) experts(%arg2, %arg3) {activation = #moe<activation swiglu>, max_load = 2.000000e+00 : f64, renormalize, top_k = 2 : i64}
func.func @mixtral(%x: tensor<64x8xbf16>, %g: tensor<8x4xbf16>, %w1: tensor<4x8x32xbf16>, %w2: tensor<4x16x8xbf16>)
    -> (tensor<64x8xbf16>, tensor<f32>) {
  %y, %aux = moe.layer "mixtral" %x gate(%g) experts(%w1, %w2)
    {top_k = 2 : i64, activation = #moe<activation swiglu>, max_load = 2.0 : f64, renormalize}
    : (tensor<64x8xbf16>, tensor<8x4xbf16>, tensor<4x8x32xbf16>, tensor<4x16x8xbf16>) -> (tensor<64x8xbf16>, tensor<f32>)
  return %y, %aux : tensor<64x8xbf16>, tensor<f32>
}

// DeepSeek-V3: sigmoid scores, a selection bias, groups of experts, a shared expert.
// CHECK-LABEL: func.func @deepseek(
// CHECK-NEXT: moe.layer "deepseek" %arg0 gate(%arg1) selection_bias(%arg2) experts(%arg3, %arg4) shared(%arg5, %arg6) {activation = #moe<activation swiglu>, expert_groups = 4 : i64, group_score = #moe<group_score top2>, renormalize, routing_scale = 2.500000e+00 : f64, score = #moe<score sigmoid>, top_groups = 2 : i64, top_k = 4 : i64}
func.func @deepseek(%x: tensor<64x8xf32>, %g: tensor<8x16xf32>, %sb: tensor<16xf32>, %w1: tensor<16x8x8xf32>,
                    %w2: tensor<16x4x8xf32>, %s1: tensor<8x12xf32>, %s2: tensor<6x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
  %y, %aux = moe.layer "deepseek" %x gate(%g) selection_bias(%sb) experts(%w1, %w2) shared(%s1, %s2)
    {top_k = 4 : i64, activation = #moe<activation swiglu>, score = #moe<score sigmoid>, renormalize,
     routing_scale = 2.5 : f64, expert_groups = 4 : i64, top_groups = 2 : i64, group_score = #moe<group_score top2>}
    : (tensor<64x8xf32>, tensor<8x16xf32>, tensor<16xf32>, tensor<16x8x8xf32>, tensor<16x4x8xf32>, tensor<8x12xf32>,
       tensor<6x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
  return %y, %aux : tensor<64x8xf32>, tensor<f32>
}

// Qwen2-MoE: a shared expert with a gate of its own.
// CHECK-LABEL: func.func @qwen(
// CHECK-NEXT: moe.layer "qwen" %arg0 gate(%arg1) experts(%arg2, %arg3) shared(%arg4, %arg5, %arg6) {activation = #moe<activation swiglu_clamped>, top_k = 2 : i64}
func.func @qwen(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x8x8xf32>,
                %s1: tensor<8x32xf32>, %s2: tensor<16x8xf32>, %sg: tensor<8x1xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
  %y, %aux = moe.layer "qwen" %x gate(%g) experts(%w1, %w2) shared(%s1, %s2, %sg)
    {top_k = 2 : i64, activation = #moe<activation swiglu_clamped>}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x8x8xf32>, tensor<8x32xf32>, tensor<16x8xf32>,
       tensor<8x1xf32>) -> (tensor<64x8xf32>, tensor<f32>)
  return %y, %aux : tensor<64x8xf32>, tensor<f32>
}

// The sum is of any shape.
// CHECK-LABEL: func.func @add(
// CHECK-NEXT: moe.add %arg0, %arg0 :
// CHECK-NEXT: moe.add %arg1, %arg1 :
func.func @add(%a: tensor<f32>, %b: tensor<2x3x4xbf16>) -> (tensor<f32>, tensor<2x3x4xbf16>) {
  %0 = moe.add %a, %a : tensor<f32>
  %1 = moe.add %b, %b : tensor<2x3x4xbf16>
  return %0, %1 : tensor<f32>, tensor<2x3x4xbf16>
}

// A capacity of its own, other than what the factor says.
// CHECK-LABEL: func.func @padded(
// CHECK-NEXT: moe.layer "padded" %arg0 gate(%arg1) experts(%arg2, %arg3) {activation = #moe<activation relu>, capacity_factor = 1.100000e+00 : f64, expert_capacity = 20 : i64, top_k = 1 : i64}
func.func @padded(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
  %y, %aux = moe.layer "padded" %x gate(%g) experts(%w1, %w2)
    {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 1.1 : f64, expert_capacity = 20 : i64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
  return %y : tensor<64x8xf32>
}

// With FasterMoE's gate, of two nodes that route two groups each.
// CHECK-LABEL: func.func @homes(
// CHECK: moe.layer "homes" {{.*}}, groups = 4 :
func.func @homes(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
  %y, %aux = moe.layer "homes" %x gate(%g) experts(%w1, %w2)
    {top_k = 1 : i64, activation = #moe<activation relu>, groups = 4 : i64, leave = 3 : i64, homes = 2 : i64, home_span = 2 : i64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
  return %y : tensor<64x8xf32>
}
