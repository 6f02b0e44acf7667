// RUN: moe-opt %s --moe-partition --moe-accumulate=micro-batches=2 --canonicalize --cse --moe-differentiate --canonicalize \
// RUN:   --cse --moe-order-micro-batches --moe-verify-spmd | FileCheck %s
// RUN: moe-opt %s --moe-partition --moe-accumulate=micro-batches=2 --canonicalize --cse | FileCheck %s --check-prefix=COUNT

// The inputs of both micro-batches side by side. Gradients are added up over them and then, once, over dp.
// CHECK-LABEL: func.func @model
// CHECK-SAME: %[[TOKENS:[a-z0-9]+]]: tensor<2x4xi32> {moe.layout = #moe.layout<[], [dp]>
// CHECK-SAME: %[[LABELS:[a-z0-9]+]]: tensor<2x4xi32>
// CHECK-SAME: %[[STEP:[a-z0-9]+]]: tensor<i32>
// Labels are counted once, in both micro-batches, and each one divides by the mean of the counts: the loss is the mean over all
// labelled tokens.
// COUNT-LABEL: func.func @model
// COUNT-SAME: %[[LABELS:[a-z0-9]+]]: tensor<2x4xi32> {moe.layout = #moe.layout<[], [dp]>, moe.name = "labels"
// COUNT: %[[COUNT:.+]] = moe.label_count %[[LABELS]] : (tensor<2x4xi32>) -> tensor<f32>
// COUNT: %[[MEAN:.+]] = moe.scale %[[COUNT]] {factor = 5.000000e-01 : f64}
// COUNT: %[[ALL:.+]] = moe.all_reduce %[[MEAN]] over <"dp", 2, 1>
// COUNT-NOT: moe.label_count
// COUNT: moe.divide %{{.+}}, %[[ALL]] {moe.micro_batch = #moe.chunk<1 of 2>}
// COUNT: moe.divide %{{.+}}, %[[ALL]] {moe.micro_batch = #moe.chunk<0 of 2>}
// COUNT: return

// The first micro-batch, forward and backward, before the second one.
// CHECK-DAG: %[[FIRST:.+]] = moe.micro_batch %[[TOKENS]] {index = 0 : i64, moe.micro_batch = #moe.chunk<0 of 2>}
// CHECK-DAG: moe.index_affine %[[STEP]] {factor = 2 : i64, moe.micro_batch = #moe.chunk<0 of 2>, offset = 0 : i64}
// CHECK: moe.embedding %[[FIRST]]
// CHECK: %[[GRAD:.+]] = moe.embedding_grad %[[FIRST]], %{{[^ ]+}} {
// CHECK: %[[SECOND:.+]] = moe.micro_batch %[[TOKENS]] {index = 1
// CHECK: moe.embedding %[[SECOND]]
// CHECK: %[[SUM:.+]] = moe.embedding_grad %[[SECOND]], %{{[^ ]+}} addend(%[[GRAD]])
// CHECK: moe.all_reduce %[[SUM]] over <"dp", 2, 1>
// CHECK-NOT: moe.all_reduce {{.*}}tensor<16x4xf32>
// CHECK: return
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @model(%tokens: tensor<8xi32> {moe.name = "tokens", moe.role = "input"},
                   %labels: tensor<8xi32> {moe.name = "labels", moe.role = "input"},
                   %step: tensor<i32> {moe.name = "step", moe.role = "step"},
                   %table: tensor<16x4xf32> {moe.name = "embedding", moe.role = "parameter"})
      -> (tensor<f32> {moe.name = "loss", moe.role = "loss"}) {
    %x = moe.embedding %tokens, %table {vocabulary} : (tensor<8xi32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %d = moe.dropout %x, %step {seed = 0 : i64, p = 1.0e-1 : f64} : tensor<8x4xf32>, tensor<i32>
    %l = moe.cross_entropy %d, %labels : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
