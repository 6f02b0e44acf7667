// RUN: not moe-opt %s --plan-assign-memory=alignment=48 2>&1 | FileCheck %s

// An alignment that is no power of two.
// CHECK: error: expected alignment to be a power of two up to 1073741824 but got 48
func.func @f(%a: memref<4xf32>) {
  %0 = plan.buffer : memref<4xf32, #plan<space device>>
  plan.launch "copy"(%a) -> (%0) : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
  return
}
