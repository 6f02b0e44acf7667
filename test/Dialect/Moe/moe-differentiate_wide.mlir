// RUN: moe-opt %s --moe-differentiate=wide-gradients --canonicalize --cse | FileCheck %s

// A use for each micro-batch: the products add up in f32, and ranks too.
// CHECK-LABEL: func.func @matrix
// CHECK-SAME:    tensor<8x16xf32> {moe.name = "grad.w", moe.role = "gradient"})
// CHECK:         %[[FIRST:.*]] = moe.matmul_wgrad %{{.*}}, %{{.*}} : (tensor<4x8xbf16>, tensor<4x16xbf16>) -> tensor<8x16xf32>
// CHECK:         %[[SUM:.*]] = moe.matmul_wgrad %{{.*}}, %{{.*}} addend(%[[FIRST]])
// CHECK:         %[[ALL:.*]] = moe.all_reduce %[[SUM]] over <"dp", 2, 1> {{.*}}tensor<8x16xf32>
// CHECK:         return {{.*}}, %[[ALL]] : {{.*}}, tensor<4x8xbf16>, tensor<8x16xf32>
func.func @matrix(%a: tensor<4x8xbf16> {moe.role = "input"}, %b: tensor<4x8xbf16> {moe.role = "input"},
                  %w: tensor<8x16xbf16> {moe.role = "parameter", moe.name = "w"}) -> (tensor<4x16xbf16>, tensor<4x16xbf16>) {
  %0 = moe.to_varying %w over <"dp", 2, 1> : tensor<8x16xbf16>
  %1 = moe.matmul %a, %0 : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  %2 = moe.matmul %b, %0 : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  return %1, %2 : tensor<4x16xbf16>, tensor<4x16xbf16>
}

// Other types have no more bits, and gradients of inputs are values of the model.
// CHECK-LABEL: func.func @others
// CHECK-DAG:     moe.matmul_wgrad {{.*}} -> tensor<8x16xf32>
// CHECK-DAG:     moe.matmul_wgrad {{.*}} -> tensor<8x16xbf16>
// CHECK-NOT:     moe.cast
func.func @others(%a: tensor<4x8xf32> {moe.role = "input"}, %w: tensor<8x16xf32> {moe.role = "parameter"},
                  %b: tensor<4x8xbf16> {moe.role = "input"}, %c: tensor<8x16xbf16> {moe.role = "input"})
    -> (tensor<4x16xf32>, tensor<4x16xbf16>) {
  %0 = moe.matmul %a, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = moe.matmul %b, %c : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  return %0, %1 : tensor<4x16xf32>, tensor<4x16xbf16>
}

// Experts, biases, norms and embeddings give their sums. A transposed matrix has its own product.
// CHECK-LABEL: func.func @sums
// CHECK-DAG:     moe.grouped_matmul_wgrad {{.*}} -> tensor<2x8x16xf32>
// CHECK-DAG:     moe.bias_grad {{.*}} -> tensor<2x16xf32>
// CHECK-DAG:     moe.norm_wgrad {{.*}} -> tensor<8xf32>
// CHECK-DAG:     moe.embedding_grad {{.*}} -> tensor<32x8xf32>
// CHECK-DAG:     moe.matmul_wgrad {{.*}} (tensor<4x32xbf16>, tensor<4x8xbf16>) -> tensor<32x8xf32>
// CHECK-NOT:     moe.cast
func.func @sums(%r: tensor<2x4x8xbf16> {moe.role = "input"}, %ids: tensor<4xi32> {moe.role = "input"},
                %x: tensor<4x8xbf16> {moe.role = "input"}, %w: tensor<2x8x16xbf16> {moe.role = "parameter"},
                %bias: tensor<2x16xbf16> {moe.role = "parameter"}, %gamma: tensor<8xbf16> {moe.role = "parameter"},
                %table: tensor<32x8xbf16> {moe.role = "parameter"}, %head: tensor<32x8xbf16> {moe.role = "parameter"})
    -> (tensor<2x4x16xbf16>, tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x32xbf16>) {
  %0 = moe.grouped_matmul %r, %w : (tensor<2x4x8xbf16>, tensor<2x8x16xbf16>) -> tensor<2x4x16xbf16>
  %1 = moe.bias_add %0, %bias : (tensor<2x4x16xbf16>, tensor<2x16xbf16>) -> tensor<2x4x16xbf16>
  %2 = moe.norm %x, %gamma {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<4x8xbf16>, tensor<8xbf16>) -> tensor<4x8xbf16>
  %3 = moe.embedding %ids, %table : (tensor<4xi32>, tensor<32x8xbf16>) -> tensor<4x8xbf16>
  %4 = moe.matmul %x, %head {transpose_b} : (tensor<4x8xbf16>, tensor<32x8xbf16>) -> tensor<4x32xbf16>
  return %1, %2, %3, %4 : tensor<2x4x16xbf16>, tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x32xbf16>
}

// The gradients of shadows are those of parameters, and are summed over the ranks in f32.
// CHECK-LABEL: func.func @shadows
// CHECK:         %[[WIDE:.*]] = moe.grouped_matmul_wgrad {{.*}} -> tensor<3x8x16xf32>
// CHECK:         moe.reduce_experts %[[WIDE]], {{.*}} : (tensor<3x8x16xf32>, tensor<1x4xi32>) -> tensor<1x8x16xf32>
func.func @shadows(%r: tensor<3x4x8xbf16> {moe.role = "input"}, %chosen: tensor<1x4xi32> {moe.role = "input"},
                   %w: tensor<1x8x16xbf16> {moe.role = "parameter"}) -> tensor<3x4x16xbf16> {
  %0 = moe.broadcast_experts %w, %chosen over <"ep", 4, 1> : (tensor<1x8x16xbf16>, tensor<1x4xi32>) -> tensor<3x8x16xbf16>
  %1 = moe.grouped_matmul %r, %0 : (tensor<3x4x8xbf16>, tensor<3x8x16xbf16>) -> tensor<3x4x16xbf16>
  return %1 : tensor<3x4x16xbf16>
}

// Ops that cannot give a wide sum get a cast. Values of parameters alone have a gradient of f32, so the gate's cast needs none.
// CHECK-LABEL: func.func @casts
// CHECK-DAG:     %[[CAST:.*]] = moe.cast %{{.*}} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
// CHECK-DAG:     moe.matmul_wgrad %{{.*}} : (tensor<4x8xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
// CHECK:         return {{.*}} : tensor<4x8xbf16>, tensor<4x2xf32>, {{.*}}, tensor<4x8xf32>, tensor<8x2xf32>
func.func @casts(%x: tensor<4x8xbf16> {moe.role = "input"}, %y: tensor<4x8xf32> {moe.role = "input"},
                 %p: tensor<4x8xbf16> {moe.role = "parameter"}, %gate: tensor<8x2xbf16> {moe.role = "parameter"})
    -> (tensor<4x8xbf16>, tensor<4x2xf32>) {
  %0 = moe.add %x, %p : tensor<4x8xbf16>
  %1 = moe.cast %gate : (tensor<8x2xbf16>) -> tensor<8x2xf32>
  %2 = moe.matmul %y, %1 : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %0, %2 : tensor<4x8xbf16>, tensor<4x2xf32>
}
