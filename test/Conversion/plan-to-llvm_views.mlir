// RUN: moe-opt %s --convert-plan-to-llvm | FileCheck %s

// A view is the place of what it is part of with its own shape, and parts, shift and stride: of the four members of a group of
// stride 2, two neighbours have one of two parts, so that the part changes with every 4 ranks.
// CHECK:      @moeplan_rank_buffer0()
// CHECK-DAG:    %[[SPACE:.*]] = llvm.mlir.constant(2 : i32) : i32
// CHECK-DAG:    %[[DIMS:.*]] = llvm.mlir.constant(dense<[4, 4, 0, 0]> : tensor<4xi64>)
// CHECK:        %[[PARTS:.*]] = llvm.mlir.constant(2 : i64) : i64
// CHECK:        %[[SHIFT:.*]] = llvm.mlir.constant(1 : i64) : i64
// CHECK:        %[[STRIDE:.*]] = llvm.mlir.constant(4 : i64) : i64
// CHECK:        llvm.insertvalue %[[SPACE]], %{{.*}}[0]
// CHECK:        llvm.insertvalue %[[DIMS]], %{{.*}}[4]
// CHECK-NEXT:   llvm.insertvalue %[[PARTS]], %{{.*}}[5]
// CHECK-NEXT:   llvm.insertvalue %[[SHIFT]], %{{.*}}[6]
// CHECK-NEXT:   llvm.insertvalue %[[STRIDE]], %{{.*}}[7]

// The buffer's offset, and not the part's: the runtime adds what depends on the rank.
// CHECK:      @moeplan_rank_buffer1()
// CHECK:        llvm.mlir.constant(512 : i64) : i64
// CHECK:        llvm.mlir.constant(dense<[4, 4, 0, 0]> : tensor<4xi64>)
// CHECK-NEXT:   %{{.*}} = llvm.mlir.constant(4 : i64) : i64
// CHECK-NEXT:   %{{.*}} = llvm.mlir.constant(0 : i64) : i64
// CHECK-NEXT:   %{{.*}} = llvm.mlir.constant(2 : i64) : i64

// The whole buffer is another value, two views that say the same are one.
// CHECK:      @moeplan_rank_buffer2()
// CHECK:        llvm.mlir.constant(dense<[16, 4, 0, 0]> : tensor<4xi64>)
// CHECK-NOT:  @moeplan_rank_buffer3
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
