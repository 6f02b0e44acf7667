// RUN: moe-opt %s --moe-split-stages | FileCheck %s

// A value that other stages need is sent once and received, in the order of the whole program. The parameter %a, used
// by both stages like a tied head, is updated in the stage that adds up its gradients, and returns to the other one. The step
// is counted in every stage that uses it.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 2, dp = 2, mp = 1, ep = 1, esp = 1>} {
  // CHECK: func.func @stage0(%[[X:.+]]: tensor<4x8xf32> {moe.name = "x", moe.role = "input"}, %[[A:.+]]: tensor<8x8xf32> {moe.name = "a", moe.role = "parameter"}) ->
  // CHECK-SAME: (tensor<8x8xf32> {moe.name = "a", moe.role = "update", moe.updates = "a"}) attributes {moe.ranks = array<i64: 0, 2>}
  // CHECK: %[[Y:.+]] = moe.matmul %[[X]], %[[A]]
  // CHECK: moe.send %[[Y]] to 1 over <"pp", 2, 2>
  // CHECK: %[[D:.+]] = moe.receive from 1 over <"pp", 2, 2>
  // CHECK: %[[G:.+]] = moe.matmul %[[X]], %[[D]]
  // CHECK: moe.send %[[G]] to 1
  // CHECK: %[[NEW:.+]] = moe.receive from 1
  // CHECK: return %[[NEW]]
  // CHECK: func.func @stage1(%[[A:.+]]: tensor<8x8xf32> {moe.name = "a", moe.role = "parameter"}, %[[STEP:.+]]: tensor<i32>
  // CHECK-SAME: attributes {moe.ranks = array<i64: 2, 2>}
  // CHECK: %[[Y:.+]] = moe.receive from 0
  // CHECK: %[[OUT:.+]] = moe.matmul %[[Y]], %[[A]]
  // CHECK: %[[D:.+]] = moe.matmul %[[OUT]], %[[A]] {{.*}}transpose_b
  // CHECK: moe.send %[[D]] to 0
  // CHECK: %[[G1:.+]] = moe.matmul %[[Y]], %[[OUT]]
  // CHECK: %[[G0:.+]] = moe.receive from 0
  // CHECK: %[[G:.+]] = moe.add %[[G1]], %[[G0]]
  // CHECK: moe.send %[[G]] to 0
  // CHECK: %[[NEXT:.+]] = moe.index_affine %[[STEP]]
  // CHECK: return %[[OUT]], %[[G]], %[[NEXT]]
  func.func @rank(%x: tensor<4x8xf32> {moe.name = "x", moe.role = "input"},
                  %a: tensor<8x8xf32> {moe.name = "a", moe.role = "parameter"},
                  %step: tensor<i32> {moe.name = "step", moe.role = "step"}) ->
      (tensor<4x8xf32> {moe.name = "y", moe.role = "output"}, tensor<8x8xf32> {moe.name = "a", moe.role = "update", moe.updates = "a"},
       tensor<i32> {moe.name = "step", moe.role = "update", moe.updates = "step"}) {
    %0 = moe.matmul %x, %a {moe.stage = #moe.stage<0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = moe.matmul %0, %a {moe.stage = #moe.stage<1>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %2 = moe.matmul %1, %a {transpose_b, moe.stage = #moe.stage<1, backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %3 = moe.matmul %0, %1 {transpose_a, moe.stage = #moe.stage<1, backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %4 = moe.matmul %x, %2 {transpose_a, moe.stage = #moe.stage<0, backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %5 = moe.add %3, %4 : tensor<8x8xf32>
    %6 = moe.index_affine %step {factor = 1 : i64, offset = 1 : i64} : tensor<i32>
    return %1, %5, %6 : tensor<4x8xf32>, tensor<8x8xf32>, tensor<i32>
  }
}
