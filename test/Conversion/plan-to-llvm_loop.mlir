// RUN: moe-opt %s --convert-plan-to-llvm | FileCheck %s

// A view that moves is one of as many buffers as it has places: the 4 parts of the input, and two slots. The slots are in the table twice
// but for the last, so that the first iteration may begin with any of them: here with the second one. The view behind the loop is at one
// place: behind 4 iterations, slot 0 + 4 mod 2.
// CHECK:      @moeplan_rank_rows(dense<[0, 0, 4, 5, 2, 1, 7, 8]>
// CHECK:      @moeplan_rank_buffers({{.*}} tensor<9x11xi64>

// The rows of the loop run 4 times, with the number of the iteration; the number of its op stays.
// CHECK:      llvm.func @moeplan_rank(%[[R:.*]]: !llvm.ptr) -> i32
// CHECK:      ^[[LOOP:.*]](%[[I:.*]]: i64):
// CHECK:        %[[FIRST:.*]] = llvm.mlir.constant(0 : i64)
// CHECK:        llvm.call @moeplan_run(%[[R]], %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[I]])
// CHECK:        %[[ONE:.*]] = llvm.mlir.constant(1 : i64)
// CHECK:        %[[NEXT:.*]] = llvm.add %[[I]], %[[ONE]]
// CHECK:        %[[COUNT:.*]] = llvm.mlir.constant(4 : i64)
// CHECK:        %[[MORE:.*]] = llvm.icmp "ne" %[[NEXT]], %[[COUNT]]
// CHECK:        llvm.cond_br %[[MORE]], ^[[LOOP]](%[[NEXT]] : i64), ^
// CHECK:        llvm.call @moeplan_run(

// Buffers that move follow from the iteration.
// CHECK:      llvm.func internal @moeplan_call0(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %[[I:.*]]: i64)
// CHECK:        %[[MOVED:.*]] = llvm.urem %[[I]], %{{.*}} : i64
// CHECK:        llvm.add %{{.*}}, %[[MOVED]] : i64
module attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: memref<4x4xf32>, %y: memref<4xf32>) attributes {plan.inputs = 1 : i64} {
    %ring = plan.buffer {offset = 0 : i64} : memref<2x4xf32, #plan<space device>>
    plan.loop 4 {
      %0 = plan.view %x part 0 of 4 by 1 : memref<4x4xf32> -> memref<4xf32>
      %1 = plan.view %ring part 1 of 2 by 1 : memref<2x4xf32, #plan<space device>> -> memref<4xf32, #plan<space device>>
      plan.launch "copy"(%0) -> (%1) on "compute" : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
    }
    %2 = plan.view %ring part 0 of 2 by 1 : memref<2x4xf32, #plan<space device>> -> memref<4xf32, #plan<space device>>
    plan.launch "copy"(%2) -> (%y) on "compute" : (memref<4xf32, #plan<space device>>) -> memref<4xf32>
    return
  }
}
