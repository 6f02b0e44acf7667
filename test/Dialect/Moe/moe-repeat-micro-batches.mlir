// Three micro-batches are written and then repeated: the same program as if all five had been written from the start.
// RUN: moe-opt %s --moe-partition --moe-accumulate=micro-batches=5 --canonicalize --cse --moe-differentiate --canonicalize --cse \
// RUN:   --moe-order-micro-batches > %t.written
// RUN: moe-opt %s --moe-partition "--moe-accumulate=micro-batches=5 written=3" --canonicalize --cse --moe-differentiate --canonicalize \
// RUN:   --cse --moe-repeat-micro-batches=micro-batches=5 --moe-order-micro-batches --moe-verify-spmd > %t.repeated
// RUN: diff %t.written %t.repeated
// RUN: FileCheck %s < %t.repeated

// Each takes its own part of the inputs, the number after that of the one before, and adds to its sums.
// CHECK: moe.index_affine %arg2 {factor = 5 : i64, moe.micro_batch = #moe.chunk<0 of 5>, offset = 0 : i64}
// CHECK: %[[SECOND:.*]] = moe.index_affine %{{.*}} {factor = 1 : i64, moe.micro_batch = #moe.chunk<1 of 5>, offset = 1 : i64}
// CHECK: %[[SUM:.*]] = moe.add %{{.*}}, %{{.*}} {moe.micro_batch = #moe.chunk<1 of 5>} : tensor<f32>
// CHECK-DAG: moe.micro_batch %arg0 {index = 2 : i64
// CHECK-DAG: moe.index_affine %[[SECOND]] {factor = 1 : i64, moe.micro_batch = #moe.chunk<2 of 5>, offset = 1 : i64}
// CHECK: moe.add %[[SUM]], %{{.*}} {moe.micro_batch = #moe.chunk<2 of 5>} : tensor<f32>
// CHECK: moe.micro_batch %arg0 {index = 4 : i64
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
