// RUN: moe-opt %s --moe-partition --canonicalize --cse --moe-differentiate --canonicalize --cse --moe-verify-spmd | FileCheck %s
// RUN: moe-opt %s --moe-partition --moe-pause-mp=schedule=s1 --canonicalize --cse --moe-verify-spmd \
// RUN:   | FileCheck %s --check-prefix=S1

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 2, esp = 1>} {
  // Routing and the shared expert's factor are f32 from a cast of a product on; the adjoint of the cast is the one back, where the
  // gradients of products begin.
  // CHECK-LABEL: func.func @layer(
  // CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x8xbf16>
  // CHECK-SAME: %[[GATE:[a-z0-9]+]]: tensor<8x4xbf16>
  // CHECK: %[[PRODUCT:.+]] = moe.matmul %[[X]], %[[GATE]]
  // CHECK-NEXT: %[[LOGITS:.+]] = moe.cast %[[PRODUCT]] : (tensor<16x4xbf16>) -> tensor<16x4xf32>
  // CHECK-NEXT: %[[SCORES:.+]], %{{.+}}, %{{.+}}, %[[WEIGHTS:.+]], %{{.+}}, %[[AUX:.+]] = moe.route %[[LOGITS]]
  // CHECK: moe.combine {{.*}} -> tensor<16x8xbf16>
  // CHECK: %[[FACTOR_PRODUCT:.+]] = moe.matmul {{.*}} -> tensor<16x1xbf16>
  // CHECK-NEXT: %[[FACTOR_LOGIT:.+]] = moe.cast %[[FACTOR_PRODUCT]] : (tensor<16x1xbf16>) -> tensor<16x1xf32>
  // CHECK-NEXT: %[[FACTOR:.+]] = moe.activation %[[FACTOR_LOGIT]]
  // CHECK: moe.row_scale %{{.+}}, %[[FACTOR]] : tensor<16x8xbf16>, tensor<16x1xf32>
  // CHECK: %[[DOT:.+]] = moe.row_dot {{.*}} -> tensor<16x1xf32>
  // CHECK: %[[DLOGIT:.+]] = moe.activation_grad %[[FACTOR_LOGIT]], %[[DOT]]
  // CHECK-NEXT: %[[DFACTOR:.+]] = moe.cast %[[DLOGIT]] : (tensor<16x1xf32>) -> tensor<16x1xbf16>
  // CHECK-NEXT: moe.matmul %[[DFACTOR]],
  // CHECK: %[[DWEIGHTS:.+]] = moe.slot_dot {{.*}} -> tensor<16x2xf32>
  // CHECK: moe.all_reduce {{.*}} : (tensor<16x2xf32>) -> tensor<16x2xf32>
  // CHECK: %[[DSCORES:.+]] = moe.route_grad %[[SCORES]], {{.*}} -> tensor<16x4xf32>
  // CHECK-NEXT: %[[DLOGITS:.+]] = moe.cast %[[DSCORES]] : (tensor<16x4xf32>) -> tensor<16x4xbf16>
  // CHECK-NEXT: moe.matmul %[[DLOGITS]], %[[GATE]] {transpose_b}
  // CHECK-NEXT: moe.matmul_wgrad %[[X]], %[[DLOGITS]]

  // S1 takes the cast along with the gate's product.
  // S1-LABEL: func.func @layer(
  // S1: %[[PRODUCT:.+]] = moe.matmul {{.*}} -> tensor<8x4xbf16>
  // S1-NEXT: %[[LOGITS:.+]] = moe.cast %[[PRODUCT]] : (tensor<8x4xbf16>) -> tensor<8x4xf32>
  // S1-NEXT: moe.route %[[LOGITS]]
  func.func @layer(%x: tensor<16x8xbf16>, %g: tensor<8x4xbf16>, %w1: tensor<4x8x16xbf16>, %w2: tensor<4x16x8xbf16>,
                   %s1: tensor<8x16xbf16>, %s2: tensor<16x8xbf16>, %sg: tensor<8x1xbf16>)
      -> (tensor<16x8xbf16>, tensor<f32>) {
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) shared(%s1, %s2, %sg)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<16x8xbf16>, tensor<8x4xbf16>, tensor<4x8x16xbf16>, tensor<4x16x8xbf16>, tensor<8x16xbf16>,
         tensor<16x8xbf16>, tensor<8x1xbf16>) -> (tensor<16x8xbf16>, tensor<f32>)
    return %y, %aux : tensor<16x8xbf16>, tensor<f32>
  }

  // A loss is f32 from what is taken of the logits on, and its gradient again f16 where it is as wide as they.
  // CHECK-LABEL: func.func @loss(
  // CHECK: moe.pick {{.*}} : (tensor<8x16xf16>, tensor<8xi32>) -> tensor<8x1xf32>
  // CHECK: moe.row_logsumexp {{.*}} : (tensor<8x16xf16>) -> tensor<8x1xf32>
  // CHECK: moe.label_sum {{.*}} -> tensor<f32>
  // CHECK: moe.fill {value = 1.000000e+00 : f64} : tensor<f32>
  // CHECK: moe.label_sum_grad {{.*}} -> tensor<8x1xf32>
  // CHECK: moe.row_logsumexp_grad {{.*}} : (tensor<8x16xf16>, tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x16xf16>
  // CHECK: moe.pick_grad {{.*}} -> tensor<8x16xf16>
  // CHECK-NOT: moe.cast
  // CHECK: return
  func.func @loss(%x: tensor<8x4xf16>, %w: tensor<4x16xf16>, %labels: tensor<8xi32>)
      -> (tensor<f32> {moe.role = "loss"}) {
    %logits = moe.linear %x, %w : (tensor<8x4xf16>, tensor<4x16xf16>) -> tensor<8x16xf16>
    %loss = moe.cross_entropy %logits, %labels : (tensor<8x16xf16>, tensor<8xi32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
