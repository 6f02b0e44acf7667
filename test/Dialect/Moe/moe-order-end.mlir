// RUN: moe-opt %s --moe-order-micro-batches | FileCheck %s

// Two stages on one device. The sum over ranks of the second one's gradient runs beside the backward of the first one, which does not need it.
// An op that changes q waits for the backward that reads a view of q. Users of the sum wait for the sum.
// CHECK-LABEL: func.func @end
// CHECK:      moe.scale %arg0 {{.*}}moe.stage = #moe.stage<0>}
// CHECK-NEXT: moe.add %{{.+}}, %arg1 {{.*}}moe.stage = #moe.stage<1>}
// CHECK-NEXT: [[B:%.+]] = moe.scale {{.*}}moe.stage = #moe.stage<1, backward>}
// CHECK-NEXT: [[S:%.+]] = moe.all_reduce [[B]]
// CHECK-NEXT: [[Q:%.+]] = moe.to_varying %arg2
// CHECK-NEXT: moe.add [[B]], [[Q]] {{.*}}moe.stage = #moe.stage<0, backward>}
// CHECK-DAG:  moe.scale [[B]] {factor = 3
// CHECK-DAG:  moe.scale [[S]] {factor = 4
func.func @end(%x: tensor<4xf32>, %p: tensor<4xf32> {moe.name = "p"}, %q: tensor<4xf32> {moe.name = "q"})
    -> (tensor<4xf32> {moe.updates = "p"}, tensor<4xf32> {moe.updates = "q"}, tensor<4xf32>) {
  %f0 = moe.scale %x {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<0>} : tensor<4xf32>
  %f1 = moe.add %f0, %p {moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<1>} : tensor<4xf32>
  %b1 = moe.scale %f1 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %w = moe.to_varying %q over <"dp", 2, 1> : tensor<4xf32>
  %b0 = moe.add %b1, %w {moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<0, backward>} : tensor<4xf32>
  %s = moe.all_reduce %b1 over <"dp", 2, 1> : (tensor<4xf32>) -> tensor<4xf32>
  %u = moe.scale %s {factor = 4.0 : f64} : tensor<4xf32>
  %v = moe.scale %b1 {factor = 3.0 : f64} : tensor<4xf32>
  return %u, %v, %b0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Exchanges of a micro-batch are not to wait for the sum.
// CHECK-LABEL: func.func @same_lane
// CHECK:      moe.scale {{.*}}moe.stage = #moe.stage<1, backward>}
// CHECK-NEXT: moe.all_reduce {{.*}}moe.stage = #moe.stage<0, backward>}
// CHECK-NEXT: moe.all_reduce {{.*}} {
func.func @same_lane(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %f0 = moe.all_reduce %x over <"mp", 2, 1> {moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<0>} : (tensor<4xf32>) -> tensor<4xf32>
  %f1 = moe.scale %f0 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<1>} : tensor<4xf32>
  %b1 = moe.scale %f1 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<1, backward>} : tensor<4xf32>
  %b0 = moe.all_reduce %b1 over <"mp", 2, 1> {moe.micro_batch = #moe.chunk<0 of 1>, moe.stage = #moe.stage<0, backward>} : (tensor<4xf32>) -> tensor<4xf32>
  %s = moe.all_reduce %b1 over <"dp", 2, 2> {test} : (tensor<4xf32>) -> tensor<4xf32>
  return %s, %b0 : tensor<4xf32>, tensor<4xf32>
}
