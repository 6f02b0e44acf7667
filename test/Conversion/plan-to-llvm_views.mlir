// RUN: moe-opt %s --convert-plan-to-llvm | FileCheck %s

// A view is the place of what it is part of with its own shape, and parts, shift and stride: of the four members of a group of
// stride 2, two neighbours have one of two parts, so that the part changes with every 4 ranks.
// CHECK:      @moeplan_rank_buffers(dense<[
// CHECK-SAME: [2, 0, 2, 4, 4, 0, 0, 2, 1, 4, 0],

// The buffer's offset, and not the part's: the runtime adds what depends on the rank.
// CHECK-SAME: [0, 512, 2, 4, 4, 0, 0, 4, 0, 2, 0],

// The whole buffer is another value, two views that say the same are one.
// CHECK-SAME: [0, 512, 2, 16, 4, 0, 0, 0, 0, 1, 0]]> : tensor<3x11xi64>
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 8, esp = 1>} {
  func.func @rank(%x: memref<8x4xf32>) {
    %0 = plan.buffer {offset = 512 : i64} : memref<16x4xf32, #plan<space device>>
    %1 = plan.view %x part 1 of 2 over <"half", 4, 2> : memref<8x4xf32> -> memref<4x4xf32>
    %2 = plan.view %0 part 0 of 4 over <"half", 4, 2> : memref<16x4xf32, #plan<space device>> -> memref<4x4xf32, #plan<space device>>
    %3 = plan.view %0 part 0 of 4 over <"half", 4, 2> : memref<16x4xf32, #plan<space device>> -> memref<4x4xf32, #plan<space device>>
    plan.launch "copy"(%1) -> (%2) on "compute" : (memref<4x4xf32>) -> memref<4x4xf32, #plan<space device>>
    plan.launch "add"(%2, %1) -> (%3) on "compute" : (memref<4x4xf32, #plan<space device>>, memref<4x4xf32>) -> memref<4x4xf32, #plan<space device>>
    plan.launch "scale"(%0) -> (%0) params [2.0] on "compute" : (memref<16x4xf32, #plan<space device>>) -> memref<16x4xf32, #plan<space device>>
    return
  }
}
