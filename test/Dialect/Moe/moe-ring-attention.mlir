// RUN: moe-opt %s --split-input-file --moe-ring-attention --canonicalize -verify-diagnostics | FileCheck %s
// RUN: moe-opt %s --split-input-file --moe-ring-attention --moe-expand-ring-attention --canonicalize --moe-verify-spmd | FileCheck %s --check-prefix=OUT
// RUN: moe-opt %s --split-input-file --moe-ring-attention --moe-differentiate --moe-expand-ring-attention --canonicalize --moe-verify-spmd \
// RUN:   | FileCheck %s --check-prefix=BACK

// The rank's own keys and values; what gathered them is gone.
// CHECK-LABEL: func.func @block
// CHECK-SAME: %[[Q:.+]]: tensor<8x4xf32> {{.*}}, %[[K:.+]]: tensor<8x4xf32> {{.*}}, %[[V:.+]]: tensor<8x4xf32>
// CHECK-NOT: moe.all_gather
// CHECK: moe.attention %[[Q]], %[[K]], %[[V]] {{.*}}k_length = 4 : i64, q_length = 4 : i64, ring

// A step on the own keys, and beside it the exchange of the others'. The sink counts once.
// OUT-LABEL: func.func @block
// OUT: %[[K1:.+]] = moe.all_to_all_phase %{{.+}} over <"cp", 2, 1> {{.*}}phase = 1 : i64, phases = 2 : i64
// OUT: %[[V1:.+]] = moe.all_to_all_phase
// OUT: %[[A:.+]], %[[LA:.+]] = moe.attention {{.*}} sinks({{.+}}) {{.*}}key_shift = 0 : i64
// OUT: %[[B:.+]], %[[LB:.+]] = moe.attention %{{.+}}, %[[K1]], %[[V1]] {{.*}}key_shift = 1 : i64
// OUT: %[[Y:.+]], %{{.+}} = moe.merge_attention %[[A]], %[[LA]], %[[B]], %[[LB]]
// OUT: return %[[Y]]

// Each step takes the final result. Gradients of the others' keys go back to them.
// BACK-LABEL: func.func @block
// BACK: %[[Y:.+]], %[[LSE:.+]] = moe.merge_attention
// BACK: moe.attention_grad {{.*}} of %[[Y]], %[[LSE]], {{.*}}key_shift = 0 : i64
// BACK: %{{.+}}, %[[DK:.+]], %{{.+}} = moe.attention_grad {{.*}} of %[[Y]], %[[LSE]], {{.*}}key_shift = 1 : i64
// BACK: %[[COPIES:.+]] = moe.dump %[[DK]]
// BACK: moe.all_to_all_phase %[[COPIES]] over <"cp", 2, 1> {{.*}}phase = 1 : i64, phases = 2 : i64
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1, cp = 2>} {
  func.func @block(%q: tensor<8x4xf32> {moe.name = "q", moe.role = "input", moe.layout = #moe.layout<[dp, cp], []>},
                   %k: tensor<8x4xf32> {moe.name = "k", moe.role = "input", moe.layout = #moe.layout<[dp, cp], []>},
                   %v: tensor<8x4xf32> {moe.name = "v", moe.role = "input", moe.layout = #moe.layout<[dp, cp], []>},
                   %s: tensor<1xf32> {moe.name = "s", moe.role = "parameter"}) -> (tensor<8x4xf32> {moe.name = "y", moe.layout = #moe.layout<[dp, cp], []>}) {
    %gk = moe.all_gather %k over <"cp", 2, 1> {dim = 0 : i64} : (tensor<8x4xf32>) -> tensor<16x4xf32>
    %tk = moe.to_varying %gk over <"cp", 2, 1> : tensor<16x4xf32>
    %jk = moe.join_sequences %tk {cut = #moe.cut<<"cp", 2, 1>, zigzag>, sequences = 2 : i64, length = 4 : i64} : tensor<16x4xf32>
    %gv = moe.all_gather %v over <"cp", 2, 1> {dim = 0 : i64} : (tensor<8x4xf32>) -> tensor<16x4xf32>
    %tv = moe.to_varying %gv over <"cp", 2, 1> : tensor<16x4xf32>
    %jv = moe.join_sequences %tv {cut = #moe.cut<<"cp", 2, 1>, zigzag>, sequences = 2 : i64, length = 4 : i64} : tensor<16x4xf32>
    %vs = moe.to_varying %s over <"cp", 2, 1> : tensor<1xf32>
    %y, %lse = moe.attention %q, %jk, %jv sinks(%vs)
      {q_length = 4 : i64, k_length = 8 : i64, heads = 1 : i64, k_heads = 1 : i64, causal, scale = 5.0e-1 : f64,
       cut = #moe.cut<<"cp", 2, 1>, zigzag>}
      : (tensor<8x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<1xf32>) -> (tensor<8x4xf32>, tensor<8x1xf32>)
    return %y : tensor<8x4xf32>
  }
}

// -----

// A bias is of whole sequences.
// CHECK-LABEL: func.func @biased
// CHECK: moe.all_gather
// CHECK-NOT: ring
// OUT-LABEL: func.func @biased
// BACK-LABEL: func.func @biased
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1, cp = 2>} {
  func.func @biased(%q: tensor<4x4xf32> {moe.name = "q", moe.role = "input", moe.layout = #moe.layout<[dp, cp], []>},
                    %b: tensor<1x8x8xf32> {moe.name = "b", moe.role = "input", moe.layout = #moe.layout<[], [], []>})
      -> (tensor<4x4xf32> {moe.name = "y", moe.layout = #moe.layout<[dp, cp], []>}) {
    %g = moe.all_gather %q over <"cp", 2, 1> {dim = 0 : i64} : (tensor<4x4xf32>) -> tensor<8x4xf32>
    %t = moe.to_varying %g over <"cp", 2, 1> : tensor<8x4xf32>
    %c = moe.to_varying %b over <"cp", 2, 1> : tensor<1x8x8xf32>
    // expected-remark @+1 {{expected attention without bias and dropout, of keys and values that are gathered; they stay gathered}}
    %y, %lse = moe.attention %q, %t, %t bias(%c)
      {q_length = 4 : i64, k_length = 8 : i64, heads = 1 : i64, k_heads = 1 : i64, scale = 5.0e-1 : f64, cut = #moe.cut<<"cp", 2, 1>>}
      : (tensor<4x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<1x8x8xf32>) -> (tensor<4x4xf32>, tensor<4x1xf32>)
    return %y : tensor<4x4xf32>
  }
}
