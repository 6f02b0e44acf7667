// RUN: not moe-sim %s --cluster=%S/Inputs/toy.json 2>&1 | FileCheck %s

// The error for a value that the profile lacks names the value.
// CHECK: moe-sim: error: {{.*}}cluster 'toy' has no rate for dtype 'f64'
module attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%a: memref<10x50xf64>, %b: memref<50x10xf64>, %c: memref<10x10xf64>) attributes {plan.inputs = 2 : i64} {
    plan.launch "matmul"(%a, %b) -> (%c) params [0, 0] on "compute"
      {label = "first", cost = #plan.cost<matrix, flops = 1.0e4, read = 4000, written = 400, gemm = [1, 10, 10, 50]>}
      : (memref<10x50xf64>, memref<50x10xf64>) -> memref<10x10xf64>
    return
  }
}
