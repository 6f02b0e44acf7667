// RUN: moe-opt %s --canonicalize --cse | FileCheck %s

// Two buffers of one type are two memories, so CSE keeps both; one that nobody uses goes.
// CHECK-LABEL: func.func @distinct
// CHECK-COUNT-2: plan.buffer
// CHECK-NOT: plan.buffer
func.func @distinct(%a: memref<4xf32>) {
  %0 = plan.buffer : memref<4xf32, #plan<space device>>
  %1 = plan.buffer : memref<4xf32, #plan<space device>>
  %2 = plan.buffer : memref<4xf32, #plan<space device>>
  plan.launch "copy"(%a) -> (%0) : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
  plan.launch "copy"(%a) -> (%1) : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
  return
}
