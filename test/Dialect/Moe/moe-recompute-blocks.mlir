// RUN: moe-opt %s --moe-recompute-blocks | FileCheck %s

// What blocks hand over is kept, and the last one, the head, as a whole.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<8x8xf32> {moe.role = "input"}, %a: tensor<8x16xf32> {moe.role = "parameter"},
                  %b: tensor<16x8xf32> {moe.role = "parameter"}, %c: tensor<8x4xf32> {moe.role = "parameter"}) -> tensor<8x4xf32> {
  // CHECK: moe.matmul %arg0, %arg1 {moe.residual = #moe<residual recompute>}
  %0 = moe.matmul %x, %a : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: moe.matmul %{{.+}}, %arg2 :
  %1 = moe.matmul %0, %b : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  // CHECK: moe.matmul %{{.+}}, %arg1 {moe.residual = #moe<residual recompute>}
  %2 = moe.matmul %1, %a : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: moe.all_reduce %{{.+}} over <"mp", 2, 1> {moe.residual = #moe<residual recommunicate>}
  %3 = moe.all_reduce %2 over <"mp", 2, 1> : (tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: moe.matmul %{{.+}}, %arg2 :
  %4 = moe.matmul %3, %b : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  // CHECK: moe.matmul %{{.+}}, %arg3 :
  %5 = moe.matmul %4, %c : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %5 : tensor<8x4xf32>
}
