// moe-reduce removes everything that a failure does not need: here all but one all_reduce.
// RUN: moe-reduce %s -reduction-tree='traversal-mode=0 test=%S/Inputs/has-all-reduce.sh' | FileCheck %s

// CHECK-NOT: @unrelated
// CHECK-LABEL: func.func @culprit
// CHECK: moe.all_reduce
func.func @unrelated(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %a {factor = 2.0 : f64} : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

func.func @culprit(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.all_reduce %a over <"mp", 2, 1> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
