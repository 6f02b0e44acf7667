// RUN: moe-opt %s --verify-roundtrip | FileCheck %s

// The model graph: moe.layer with every choice of its optional parts, and moe.add.

// GShard: capacity form, two choices, biases, groups of tokens.
// CHECK-LABEL: func.func @gshard(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<64x8xf64>,
// CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf64>,
// CHECK-SAME:   [[GB:%[a-z0-9_]+]]: tensor<4xf64>,
// CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<4x8x16xf64>,
// CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<4x16x8xf64>,
// CHECK-SAME:   [[B1:%[a-z0-9_]+]]: tensor<4x16xf64>,
// CHECK-SAME:   [[B2:%[a-z0-9_]+]]: tensor<4x8xf64>
// CHECK-SAME:   ) -> (tensor<64x8xf64>, tensor<f64>)
// CHECK-NEXT:   [[Y:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
// CHECK-SAME:   moe.layer "gshard" [[X]] gate([[G]], [[GB]]) experts([[W1]], [[W2]], [[B1]], [[B2]])
// CHECK-SAME:   {activation = #moe<activation gelu>, capacity_factor = 1.250000e+00 : f64, groups = 4 : i64, renormalize,
// CHECK-SAME:   top_k = 2
// CHECK-SAME:   : i64} : (tensor<64x8xf64>, tensor<8x4xf64>, tensor<4xf64>, tensor<4x8x16xf64>, tensor<4x16x8xf64>,
// CHECK-SAME:   tensor<4x16xf64>, tensor<4x8xf64>) -> (tensor<64x8xf64>, tensor<f64>)
// CHECK-NEXT:   return [[Y]], [[AUX]] : tensor<64x8xf64>, tensor<f64>
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
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<64x8xbf16>,
// CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xbf16>,
// CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<4x8x32xbf16>,
// CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<4x16x8xbf16>
// CHECK-SAME:   ) -> (tensor<64x8xbf16>, tensor<f32>)
// CHECK-NEXT:   [[Y:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
// CHECK-SAME:   moe.layer "mixtral" [[X]] gate([[G]]) experts([[W1]], [[W2]])
// CHECK-SAME:   {activation = #moe<activation swiglu>, max_load = 2.000000e+00 : f64, renormalize, top_k = 2 : i64}
// CHECK-SAME:   : (tensor<64x8xbf16>, tensor<8x4xbf16>, tensor<4x8x32xbf16>, tensor<4x16x8xbf16>)
// CHECK-SAME:   -> (tensor<64x8xbf16>, tensor<f32>)
// CHECK-NEXT:   return [[Y]], [[AUX]] : tensor<64x8xbf16>, tensor<f32>
func.func @mixtral(%x: tensor<64x8xbf16>, %g: tensor<8x4xbf16>, %w1: tensor<4x8x32xbf16>, %w2: tensor<4x16x8xbf16>)
    -> (tensor<64x8xbf16>, tensor<f32>) {
  %y, %aux = moe.layer "mixtral" %x gate(%g) experts(%w1, %w2)
    {top_k = 2 : i64, activation = #moe<activation swiglu>, max_load = 2.0 : f64, renormalize}
    : (tensor<64x8xbf16>, tensor<8x4xbf16>, tensor<4x8x32xbf16>, tensor<4x16x8xbf16>) -> (tensor<64x8xbf16>, tensor<f32>)
  return %y, %aux : tensor<64x8xbf16>, tensor<f32>
}

// DeepSeek-V3: sigmoid scores, a selection bias, groups of experts, a shared expert.
// CHECK-LABEL: func.func @deepseek(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<64x8xf32>,
// CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x16xf32>,
// CHECK-SAME:   [[SB:%[a-z0-9_]+]]: tensor<16xf32>,
// CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<16x8x8xf32>,
// CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<16x4x8xf32>,
// CHECK-SAME:   [[S1:%[a-z0-9_]+]]: tensor<8x12xf32>,
// CHECK-SAME:   [[S2:%[a-z0-9_]+]]: tensor<6x8xf32>
// CHECK-SAME:   ) -> (tensor<64x8xf32>, tensor<f32>)
// CHECK-NEXT:   [[Y:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
// CHECK-SAME:   moe.layer "deepseek" [[X]] gate([[G]]) selection_bias([[SB]]) experts([[W1]], [[W2]]) shared([[S1]], [[S2]])
// CHECK-SAME:   {activation = #moe<activation swiglu>, expert_groups = 4 : i64, group_score = #moe<group_score top2>,
// CHECK-SAME:   renormalize, routing_scale = 2.500000e+00 : f64, score = #moe<score sigmoid>, top_groups = 2
// CHECK-SAME:   : i64, top_k = 4
// CHECK-SAME:   : i64} : (tensor<64x8xf32>, tensor<8x16xf32>, tensor<16xf32>, tensor<16x8x8xf32>, tensor<16x4x8xf32>,
// CHECK-SAME:   tensor<8x12xf32>, tensor<6x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
// CHECK-NEXT:   return [[Y]], [[AUX]] : tensor<64x8xf32>, tensor<f32>
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
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<64x8xf32>,
// CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32>,
// CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<4x8x16xf32>,
// CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<4x8x8xf32>,
// CHECK-SAME:   [[S1:%[a-z0-9_]+]]: tensor<8x32xf32>,
// CHECK-SAME:   [[S2:%[a-z0-9_]+]]: tensor<16x8xf32>,
// CHECK-SAME:   [[SG:%[a-z0-9_]+]]: tensor<8x1xf32>
// CHECK-SAME:   ) -> (tensor<64x8xf32>, tensor<f32>)
// CHECK-NEXT:   [[Y:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
// CHECK-SAME:   moe.layer "qwen" [[X]] gate([[G]]) experts([[W1]], [[W2]]) shared([[S1]], [[S2]], [[SG]])
// CHECK-SAME:   {activation = #moe<activation swiglu_clamped>, top_k = 2 : i64}
// CHECK-SAME:   : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x8x8xf32>, tensor<8x32xf32>,
// CHECK-SAME:   tensor<16x8xf32>, tensor<8x1xf32>) -> (tensor<64x8xf32>, tensor<f32>)
// CHECK-NEXT:   return [[Y]], [[AUX]] : tensor<64x8xf32>, tensor<f32>
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
// CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<f32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<2x3x4xbf16>
// CHECK-SAME:   ) -> (tensor<f32>, tensor<2x3x4xbf16>)
// CHECK-NEXT:   [[ADD:%[a-z0-9_]+]] = moe.add [[A]], [[A]] : tensor<f32>
// CHECK-NEXT:   [[ADD2:%[a-z0-9_]+]] = moe.add [[B]], [[B]] : tensor<2x3x4xbf16>
// CHECK-NEXT:   return [[ADD]], [[ADD2]] : tensor<f32>, tensor<2x3x4xbf16>
func.func @add(%a: tensor<f32>, %b: tensor<2x3x4xbf16>) -> (tensor<f32>, tensor<2x3x4xbf16>) {
  %0 = moe.add %a, %a : tensor<f32>
  %1 = moe.add %b, %b : tensor<2x3x4xbf16>
  return %0, %1 : tensor<f32>, tensor<2x3x4xbf16>
}

// A capacity of its own, other than what the factor says.
// CHECK-LABEL: func.func @padded(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<64x8xf32>,
// CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32>,
// CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<4x8x16xf32>,
// CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<4x16x8xf32>
// CHECK-SAME:   ) -> tensor<64x8xf32>
// CHECK-NEXT:   [[Y:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
// CHECK-SAME:   moe.layer "padded" [[X]] gate([[G]]) experts([[W1]], [[W2]])
// CHECK-SAME:   {activation = #moe<activation relu>, capacity_factor = 1.100000e+00 : f64, expert_capacity = 20 : i64,
// CHECK-SAME:   top_k = 1 : i64} : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>)
// CHECK-SAME:   -> (tensor<64x8xf32>, tensor<f32>)
// CHECK-NEXT:   return [[Y]] : tensor<64x8xf32>
func.func @padded(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
  %y, %aux = moe.layer "padded" %x gate(%g) experts(%w1, %w2)
    {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 1.1 : f64, expert_capacity = 20 : i64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
  return %y : tensor<64x8xf32>
}

// With FasterMoE's gate, of two nodes that route two groups each.
// CHECK-LABEL: func.func @homes(
// CHECK:        moe.layer "homes" {{.*}}, groups = 4 : i64, home_span = 2 : i64, homes = 2 : i64, leave = 3 : i64, top_k = 1 : i64}
func.func @homes(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
  %y, %aux = moe.layer "homes" %x gate(%g) experts(%w1, %w2)
    {top_k = 1 : i64, activation = #moe<activation relu>, groups = 4 : i64, leave = 3 : i64, homes = 2 : i64, home_span = 2 : i64}
    : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
  return %y : tensor<64x8xf32>
}
