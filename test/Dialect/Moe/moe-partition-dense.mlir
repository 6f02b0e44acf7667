// RUN: moe-opt %s --moe-partition --moe-verify-spmd | FileCheck %s
// RUN: moe-opt %s --moe-partition --canonicalize --cse --moe-differentiate --canonicalize --cse --moe-verify-spmd \
// RUN:   | FileCheck %s --check-prefix=BACK

module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 1, esp = 1>} {
  // Megatron's splits: queries and the FFN's first product by columns, the outputs' by rows, and a sum over mp behind each. mp
  // does not divide the one key head, so that all members have it and parts = 2 says whose queries these are.
  // CHECK-LABEL: func.func @block
  // CHECK-SAME: tensor<8x4xf32> {moe.layout = #moe.layout<[mp], []>, moe.name = "table"
  // CHECK-SAME: tensor<4x8xf32> {moe.layout = #moe.layout<[], [mp]>, moe.name = "q"
  // CHECK-SAME: tensor<4x4xf32> {moe.layout = #moe.layout<[], []>, moe.name = "k"
  // CHECK-SAME: tensor<8x4xf32> {moe.layout = #moe.layout<[mp], []>, moe.name = "o"
  // CHECK: %[[FOUND:.+]] = moe.embedding %{{.+}}, %{{.+}} {parts = 2 : i64, vocabulary}
  // CHECK: %[[X:.+]] = moe.all_reduce %[[FOUND]] over <"mp", 2, 1>
  // CHECK: moe.rotary %{{.+}} : tensor<8x8xf32>
  // CHECK: %[[Y:.+]], %{{.+}} = moe.attention
  // CHECK-SAME: heads = 2 : i64, k_heads = 1 : i64, k_length = 4 : i64, parts = 2 : i64
  // CHECK: %[[PART:.+]] = moe.matmul %[[Y]],
  // CHECK: moe.all_reduce %[[PART]] over <"mp", 2, 1>
  // The vocabulary is over mp: a number for each token is exchanged, not logits.
  // CHECK: %[[LOGITS:.+]] = moe.matmul {{.*}}transpose_b{{.*}} -> tensor<8x8xf32>
  // CHECK: %[[TARGET:.+]] = moe.pick %[[LOGITS]], %{{.+}} {parts = 2 : i64}
  // CHECK: %[[LSE:.+]] = moe.row_logsumexp %[[LOGITS]]
  // CHECK: moe.all_gather %[[LSE]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK: moe.all_reduce %[[TARGET]] over <"mp", 2, 1>

  // f and g: the gradients of what a column split reads are added up over mp, once for q, k and v together.
  // BACK-LABEL: func.func @block
  // BACK: moe.row_logsumexp_grad
  // BACK: moe.pick_grad {{.*}} addend(
  // BACK: moe.attention_grad
  // BACK: moe.rotary {{.*}}inverse
  // BACK: moe.norm_grad
  // BACK: moe.embedding_grad
  func.func @block(%tokens: tensor<16xi32> {moe.name = "tokens", moe.role = "input"},
                   %labels: tensor<16xi32> {moe.name = "labels", moe.role = "input"},
                   %table: tensor<16x4xf32> {moe.name = "table", moe.role = "parameter"},
                   %g: tensor<4xf32> {moe.name = "g", moe.role = "parameter"},
                   %q: tensor<4x16xf32> {moe.name = "q", moe.role = "parameter"},
                   %k: tensor<4x4xf32> {moe.name = "k", moe.role = "parameter"},
                   %v: tensor<4x4xf32> {moe.name = "v", moe.role = "parameter"},
                   %o: tensor<16x4xf32> {moe.name = "o", moe.role = "parameter"})
      -> (tensor<f32> {moe.name = "loss", moe.role = "loss"}) {
    %x = moe.embedding %tokens, %table {vocabulary} : (tensor<16xi32>, tensor<16x4xf32>) -> tensor<16x4xf32>
    %n = moe.norm %x, %g {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<16x4xf32>, tensor<4xf32>) -> tensor<16x4xf32>
    %qs = moe.linear %n, %q {column = 4 : i64} : (tensor<16x4xf32>, tensor<4x16xf32>) -> tensor<16x16xf32>
    %ks = moe.linear %n, %k {column = 4 : i64} : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
    %vs = moe.linear %n, %v {column = 4 : i64} : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
    %qr = moe.rotary %qs {period = 4 : i64, head_dim = 4 : i64, rotary_dim = 4 : i64, base = 1.0e4 : f64} : tensor<16x16xf32>
    %y, %lse = moe.attention %qr, %ks, %vs
      {q_length = 4 : i64, k_length = 4 : i64, heads = 4 : i64, k_heads = 1 : i64, causal, scale = 5.0e-1 : f64}
      : (tensor<16x16xf32>, tensor<16x4xf32>, tensor<16x4xf32>) -> (tensor<16x16xf32>, tensor<16x4xf32>)
    %a = moe.linear %y, %o : (tensor<16x16xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
    %z = moe.add %x, %a : tensor<16x4xf32>
    %h = moe.linear %z, %table {transpose_weights, column = 1 : i64} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x16xf32>
    %l = moe.cross_entropy %h, %labels : (tensor<16x16xf32>, tensor<16xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }

  // Multi-head latent attention: the short vector is made on every member, what is made of it is over mp by heads, and so are keys,
  // to which every member appends the same columns.
  // CHECK-LABEL: func.func @latent
  // CHECK-SAME: tensor<4x3xf32> {moe.layout = #moe.layout<[], []>, moe.name = "kv_a"
  // CHECK-SAME: tensor<3x4xf32> {moe.layout = #moe.layout<[], [mp]>, moe.name = "k"
  // CHECK-SAME: tensor<4x2xf32> {moe.layout = #moe.layout<[], []>, moe.name = "k_shared"
  // CHECK: %[[WHOLE:.+]] = moe.matmul %{{.+}} -> tensor<8x3xf32>
  // CHECK: %[[C:.+]] = moe.to_varying %[[WHOLE]] over <"mp", 2, 1>
  // CHECK: %[[K:.+]] = moe.matmul %[[C]], %{{.+}} -> tensor<8x4xf32>
  // CHECK: %[[SAME:.+]] = moe.matmul %{{.+}} -> tensor<8x2xf32>
  // CHECK: %[[SHARED:.+]] = moe.to_varying %[[SAME]] over <"mp", 2, 1>
  // CHECK: moe.append_to_heads %[[K]], %[[SHARED]] : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<8x8xf32>

  // Each member has the sum over its own heads: the shared columns' gradient is added up over mp.
  // BACK-LABEL: func.func @latent
  // BACK: moe.append_to_heads %{{.+}}, %{{.+}}
  // BACK: %{{.+}}, %[[SUM:.+]] = moe.append_to_heads_grad %{{.+}} : (tensor<8x8xf32>) -> (tensor<8x4xf32>, tensor<8x2xf32>)
  // BACK: moe.all_reduce %[[SUM]] over <"mp", 2, 1>
  func.func @latent(%x: tensor<16x4xf32> {moe.name = "x", moe.role = "input"},
                    %kv: tensor<4x3xf32> {moe.name = "kv_a", moe.role = "parameter"},
                    %k: tensor<3x8xf32> {moe.name = "k", moe.role = "parameter"},
                    %s: tensor<4x2xf32> {moe.name = "k_shared", moe.role = "parameter"},
                    %o: tensor<16x4xf32> {moe.name = "o", moe.role = "parameter"})
      -> (tensor<16x4xf32> {moe.name = "y", moe.role = "output"}) {
    %c = moe.linear %x, %kv : (tensor<16x4xf32>, tensor<4x3xf32>) -> tensor<16x3xf32>
    %own = moe.linear %c, %k {column = 2 : i64} : (tensor<16x3xf32>, tensor<3x8xf32>) -> tensor<16x8xf32>
    %shared = moe.linear %x, %s : (tensor<16x4xf32>, tensor<4x2xf32>) -> tensor<16x2xf32>
    %keys = moe.append_to_heads %own, %shared : (tensor<16x8xf32>, tensor<16x2xf32>) -> tensor<16x16xf32>
    %y = moe.linear %keys, %o : (tensor<16x16xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
    return %y : tensor<16x4xf32>
  }

  // A norm without weights: every member has the ones, which nothing has a gradient of. Llama 4's queries in a block without
  // positions: what is not rotated is its own adjoint.
  // CHECK-LABEL: func.func @plain_norm
  // CHECK: %[[ONE:.+]] = moe.fill {value = 1.000000e+00 : f64} : tensor<4xf32>
  // CHECK: moe.norm %{{.+}} {eps = 1.000000e-05 : f64, kind = #moe<norm rms>} : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  // CHECK: moe.clamp %{{.+}} {limit = 8.000000e+00 : f64} : tensor<8x4xf32>
  // CHECK: moe.rotary %{{.+}} {base = 1.000000e+00 : f64, head_dim = 4 : i64, period = 4 : i64, rotary_dim = 4 : i64, span = 2.000000e+00 : f64, temperature = 1.000000e-01 : f64, unrotated} : tensor<8x4xf32>
  // BACK-LABEL: func.func @plain_norm
  // BACK: moe.rotary {{.*}}inverse{{.*}}unrotated
  // BACK: moe.clamp_grad %{{.+}}, %{{.+}} {limit = 8.000000e+00 : f64} : tensor<8x4xf32>
  // BACK: moe.norm_grad
  // BACK-NOT: moe.norm_wgrad
  // BACK: return
  func.func @plain_norm(%x: tensor<16x4xf32> {moe.name = "x", moe.role = "input"},
                        %w: tensor<4x8xf32> {moe.name = "w", moe.role = "parameter"},
                        %o: tensor<8x4xf32> {moe.name = "o", moe.role = "parameter"})
      -> (tensor<16x4xf32> {moe.name = "y", moe.role = "output"}) {
    %q = moe.linear %x, %w {column = 4 : i64} : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %one = moe.fill {value = 1.0 : f64} : tensor<4xf32>
    %n = moe.norm %q, %one {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<16x8xf32>, tensor<4xf32>) -> tensor<16x8xf32>
    %c = moe.clamp %n {limit = 8.0 : f64} : tensor<16x8xf32>
    %t = moe.rotary %c {period = 4 : i64, head_dim = 4 : i64, rotary_dim = 4 : i64, base = 1.0 : f64, temperature = 0.1 : f64,
                        span = 2.0 : f64, unrotated} : tensor<16x8xf32>
    %y = moe.linear %t, %o : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    return %y : tensor<16x4xf32>
  }

  // Factors of heads are where the heads are. Their gradients are inner products of the heads.
  // CHECK-LABEL: func.func @gates
  // CHECK-SAME: tensor<4x1xf32> {moe.layout = #moe.layout<[], [mp]>, moe.name = "g"
  // CHECK: moe.row_scale %{{.+}}, %{{.+}} {head_dim = 4 : i64} : tensor<8x4xf32>, tensor<8x1xf32>
  // CHECK: moe.row_scale %{{.+}}, %{{.+}} : tensor<8x4xf32>, tensor<8x1xf32>
  // BACK-LABEL: func.func @gates
  // BACK: moe.row_dot %{{.+}}, %{{.+}} {head_dim = 4 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x1xf32>
  // BACK: return
  func.func @gates(%x: tensor<16x4xf32> {moe.name = "x", moe.role = "input"},
                   %w: tensor<4x8xf32> {moe.name = "w", moe.role = "parameter"},
                   %g: tensor<4x2xf32> {moe.name = "g", moe.role = "parameter"},
                   %o: tensor<8x4xf32> {moe.name = "o", moe.role = "parameter"},
                   %f: tensor<4x1xf32> {moe.name = "f", moe.role = "parameter"})
      -> (tensor<16x4xf32> {moe.name = "y", moe.role = "output"}) {
    %q = moe.linear %x, %w {column = 4 : i64} : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %h = moe.linear %x, %g {column = 1 : i64} : (tensor<16x4xf32>, tensor<4x2xf32>) -> tensor<16x2xf32>
    %s = moe.activation %h {kind = #moe<activation softplus>} : (tensor<16x2xf32>) -> tensor<16x2xf32>
    %r = moe.row_scale %q, %s {head_dim = 4 : i64} : tensor<16x8xf32>, tensor<16x2xf32>
    %z = moe.linear %r, %o : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %a = moe.linear %x, %f : (tensor<16x4xf32>, tensor<4x1xf32>) -> tensor<16x1xf32>
    %y = moe.row_scale %z, %a : tensor<16x4xf32>, tensor<16x1xf32>
    return %y : tensor<16x4xf32>
  }
}
