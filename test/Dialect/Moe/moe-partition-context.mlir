// RUN: moe-opt %s --split-input-file --moe-partition --moe-verify-spmd | FileCheck %s
// RUN: moe-opt %s --split-input-file --moe-partition --canonicalize --cse --moe-differentiate --canonicalize --cse --moe-verify-spmd \
// RUN:   | FileCheck %s --check-prefix=BACK
// RUN: moe-opt %s --split-input-file --moe-partition=reference | FileCheck %s --check-prefix=ONE

// Sequences of 8 tokens on two ranks: each has 4 rows of each of its 2 sequences, the chunks r and 3 - r of 4. Keys are rotated
// before they are gathered. The cast and the order of the rows come behind that.
// CHECK-LABEL: func.func @block
// CHECK-SAME: tensor<8xi32> {moe.layout = #moe.layout<[dp, cp], sequence = 8, chunks = 4>, moe.name = "tokens"
// CHECK: %[[POSITIONS:.+]] = moe.positions {cut = #moe.cut<<"cp", 2, 1>, zigzag>, period = 4 : i64} : tensor<8xi32>
// CHECK: moe.to_varying %[[POSITIONS]] over <"dp_cp", 4, 1>
// CHECK: %[[K:.+]] = moe.rotary %{{.+}} {{.*}}cut = #moe.cut<<"cp", 2, 1>, zigzag>{{.*}}period = 4 : i64
// CHECK: %[[ALL:.+]] = moe.all_gather %[[K]] over <"cp", 2, 1> {dim = 0 : i64} : (tensor<8x4xf32>) -> tensor<16x4xf32>
// CHECK: %[[CAST:.+]] = moe.to_varying %[[ALL]] over <"cp", 2, 1>
// CHECK: %[[JOINED:.+]] = moe.join_sequences %[[CAST]] {cut = #moe.cut<<"cp", 2, 1>, zigzag>, length = 4 : i64, sequences = 2 : i64}
// CHECK: moe.attention %{{.+}}, %[[JOINED]], %{{.+}} {causal, cut = #moe.cut<<"cp", 2, 1>, zigzag>{{.*}}k_length = 8 : i64{{.*}}q_length = 4 : i64
// CHECK: moe.all_reduce %{{.+}} over <"dp_cp", 4, 1> : (tensor<f32>)

// Gradients of keys and values are reduce-scattered, those of weights added up over all ranks with other tokens.
// BACK-LABEL: func.func @block
// BACK: %{{.+}}, %[[DK:.+]], %[[DV:.+]] = moe.attention_grad
// BACK-DAG: %[[CUT:.+]] = moe.join_sequences %[[DK]] {{.*}}inverse
// BACK-DAG: moe.reduce_scatter %[[CUT]] over <"cp", 2, 1> {dim = 0 : i64}
// BACK: moe.all_reduce %{{.+}} over <"dp_cp", 4, 1> : (tensor<4x4xf32>)

// The model for one rank does not know of it.
// ONE-LABEL: func.func @block
// ONE-NOT: cut
// ONE: return
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1, cp = 2>} {
  func.func @block(%tokens: tensor<32xi32> {moe.name = "tokens", moe.role = "input"},
                   %labels: tensor<32xi32> {moe.name = "labels", moe.role = "input"},
                   %table: tensor<16x4xf32> {moe.name = "table", moe.role = "parameter"},
                   %places: tensor<8x4xf32> {moe.name = "places", moe.role = "parameter"},
                   %w: tensor<4x4xf32> {moe.name = "w", moe.role = "parameter"})
      -> (tensor<f32> {moe.name = "loss", moe.role = "loss"}) {
    %e = moe.embedding %tokens, %table {vocabulary} : (tensor<32xi32>, tensor<16x4xf32>) -> tensor<32x4xf32>
    %ids = moe.positions {period = 8 : i64} : tensor<32xi32>
    %p = moe.embedding %ids, %places : (tensor<32xi32>, tensor<8x4xf32>) -> tensor<32x4xf32>
    %x = moe.add %e, %p : tensor<32x4xf32>
    %v = moe.linear %x, %w : (tensor<32x4xf32>, tensor<4x4xf32>) -> tensor<32x4xf32>
    %k = moe.rotary %v {period = 8 : i64, head_dim = 4 : i64, rotary_dim = 4 : i64, base = 1.0e4 : f64} : tensor<32x4xf32>
    %y, %lse = moe.attention %x, %k, %v
      {q_length = 8 : i64, k_length = 8 : i64, heads = 1 : i64, k_heads = 1 : i64, causal, scale = 5.0e-1 : f64}
      : (tensor<32x4xf32>, tensor<32x4xf32>, tensor<32x4xf32>) -> (tensor<32x4xf32>, tensor<32x1xf32>)
    %h = moe.linear %y, %table {transpose_weights, column = 1 : i64} : (tensor<32x4xf32>, tensor<16x4xf32>) -> tensor<32x16xf32>
    %l = moe.cross_entropy %h, %labels : (tensor<32x16xf32>, tensor<32xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1, cp = 2>} {
  // Attention that is not causal has consecutive rows. One sequence is then in order when it is gathered. A bias is of whole
  // sequences. Dropout knows the place of its rows.
  // CHECK-LABEL: func.func @encoder
  // CHECK-SAME: #moe.layout<[dp, cp], [], sequence = 8, chunks = 2>
  // CHECK: moe.dropout {{.*}}cut = #moe.cut<<"cp", 2, 1>>, length = 4 : i64{{.*}}row_parts = 2 : i64
  // CHECK-NOT: moe.join_sequences
  // CHECK: moe.attention {{.*}} bias({{.+}}) {cut = #moe.cut<<"cp", 2, 1>>
  // CHECK-SAME: tensor<1x8x8xf32>
  func.func @encoder(%x: tensor<8x4xf32>, %step: tensor<i32>, %b: tensor<1x8x8xf32>) -> tensor<8x4xf32> {
    %d = moe.dropout %x, %step {seed = 7 : i64, p = 1.0e-1 : f64} : tensor<8x4xf32>, tensor<i32>
    %y, %lse = moe.attention %d, %d, %d bias(%b)
      {q_length = 8 : i64, k_length = 8 : i64, heads = 1 : i64, k_heads = 1 : i64, scale = 5.0e-1 : f64}
      : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<1x8x8xf32>) -> (tensor<8x4xf32>, tensor<8x1xf32>)
    return %y : tensor<8x4xf32>
  }

  // Latent attention: the compressed vector and the shared columns are gathered, and every rank makes all keys and values.
  // CHECK-LABEL: func.func @latent
  // CHECK: %[[SHORT:.+]] = moe.matmul %{{.+}} : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  // CHECK: moe.all_gather %[[SHORT]] over <"cp", 2, 1>
  // CHECK: moe.join_sequences
  // CHECK: moe.matmul %{{.+}} : (tensor<16x2xf32>, tensor<2x512xf32>) -> tensor<16x512xf32>
  // CHECK: moe.append_to_heads %{{.+}} : (tensor<16x512xf32>, tensor<16x2xf32>) -> tensor<16x520xf32>
  // CHECK: moe.attention
  // BACK-LABEL: func.func @latent
  func.func @latent(%x: tensor<16x4xf32> {moe.name = "x", moe.role = "input"},
                    %q: tensor<16x520xf32> {moe.name = "q", moe.role = "input"},
                    %a: tensor<4x2xf32> {moe.name = "a", moe.role = "parameter"},
                    %s: tensor<4x2xf32> {moe.name = "s", moe.role = "parameter"},
                    %w: tensor<2x512xf32> {moe.name = "w", moe.role = "parameter"}) -> (tensor<16x512xf32> {moe.name = "y"}) {
    %c = moe.linear %x, %a : (tensor<16x4xf32>, tensor<4x2xf32>) -> tensor<16x2xf32>
    %own = moe.linear %c, %w : (tensor<16x2xf32>, tensor<2x512xf32>) -> tensor<16x512xf32>
    %v = moe.linear %c, %w : (tensor<16x2xf32>, tensor<2x512xf32>) -> tensor<16x512xf32>
    %shared = moe.linear %x, %s : (tensor<16x4xf32>, tensor<4x2xf32>) -> tensor<16x2xf32>
    %k = moe.append_to_heads %own, %shared : (tensor<16x512xf32>, tensor<16x2xf32>) -> tensor<16x520xf32>
    %y, %lse = moe.attention %q, %k, %v
      {q_length = 8 : i64, k_length = 8 : i64, heads = 4 : i64, k_heads = 4 : i64, causal, scale = 5.0e-1 : f64}
      : (tensor<16x520xf32>, tensor<16x520xf32>, tensor<16x512xf32>) -> (tensor<16x512xf32>, tensor<16x4xf32>)
    return %y : tensor<16x512xf32>
  }

  // Pieces of 2 tokens are whole on a rank, whose consecutive rows are 2. Pieces of 4 are not: each query sees its own block.
  // CHECK-LABEL: func.func @pieces
  // CHECK-NOT: moe.all_gather
  // CHECK: moe.attention {{.*}}{causal, heads
  // CHECK: moe.all_gather
  // CHECK: moe.attention {{.*}}{block = 4 : i64, causal, cut = #moe.cut<<"cp", 2, 1>, zigzag>{{.*}}k_length = 8 : i64{{.*}}q_length = 4 : i64
  func.func @pieces(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>) {
    %r = moe.rotary %x {period = 8 : i64, head_dim = 4 : i64, rotary_dim = 4 : i64, base = 1.0e4 : f64} : tensor<8x4xf32>
    %y, %lse = moe.attention %r, %r, %r
      {q_length = 2 : i64, k_length = 2 : i64, heads = 1 : i64, k_heads = 1 : i64, causal, scale = 5.0e-1 : f64}
      : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x1xf32>)
    %z, %lz = moe.attention %y, %y, %y
      {q_length = 4 : i64, k_length = 4 : i64, heads = 1 : i64, k_heads = 1 : i64, causal, scale = 5.0e-1 : f64}
      : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x1xf32>)
    return %z : tensor<8x4xf32>
  }
}
