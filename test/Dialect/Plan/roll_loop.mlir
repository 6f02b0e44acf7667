// RUN: moe-opt %s -split-input-file --plan-roll-loop --plan-assign-streams --plan-assign-memory --plan-verify | FileCheck %s

!row = memref<64xf32, #plan<space device>>

// The program has four of 20 micro-batches, one forward ahead of the backward. A micro-batch keeps %h until its backward, so two are alive.
// %t lives in one iteration, and the sum is one buffer. Inputs and slots move with the micro-batch.
// CHECK-LABEL: func.func @rank
// CHECK:       %[[RING:.*]] = plan.buffer {{.*}} : memref<128xf32, #plan<space device>>
// CHECK:       %[[BEFORE:.*]] = plan.view %[[RING]] part 0 of 2 : memref<128xf32
// CHECK:       plan.launch "scale"(%{{.*}}) -> (%[[BEFORE]]){{.*}} #moe.chunk<0 of 20>
// The loop begins where least lives from one iteration to the next: with the forward.
// CHECK:       plan.loop 18 attributes {micro_batches = 1 : i64} {
// CHECK:         plan.buffer
// CHECK:         %[[X:.*]] = plan.view %arg0 part 2 of 20 by 1
// CHECK:         %[[OWN:.*]] = plan.view %[[RING]] part 0 of 2 by 1
// CHECK:         plan.launch "scale"(%[[X]]) -> (%[[OWN]]){{.*}} #moe.chunk<2 of 20>
// CHECK:         %[[OTHER:.*]] = plan.view %[[RING]] part 1 of 2 by 1
// CHECK:         plan.launch "scale"(%[[OTHER]]) -> (%[[T:.*]]) params [3.0{{.*}} #moe.chunk<1 of 20>
// CHECK:         plan.launch "add"(%[[SUM:.*]], %[[T]]) -> (%[[SUM]])
// CHECK:       }
// The last micro-batch: the number behind the loop goes on with it.
// CHECK:       %[[LAST:.*]] = plan.view %[[RING]] part 1 of 2 by 1
// CHECK:       plan.launch "scale"(%[[LAST]]){{.*}} #moe.chunk<19 of 20>
// CHECK:       plan.launch "copy"(%[[SUM]]) -> (%arg1)
func.func @rank(%x: memref<20x64xf32>, %y: memref<64xf32>) attributes {plan.inputs = 1 : i64} {
  %x0 = plan.view %x part 0 of 20 : memref<20x64xf32> -> memref<64xf32>
  %x1 = plan.view %x part 1 of 20 : memref<20x64xf32> -> memref<64xf32>
  %x2 = plan.view %x part 2 of 20 : memref<20x64xf32> -> memref<64xf32>
  %x3 = plan.view %x part 3 of 20 : memref<20x64xf32> -> memref<64xf32>
  %h0 = plan.buffer : !row
  %h1 = plan.buffer : !row
  %h2 = plan.buffer : !row
  %h3 = plan.buffer : !row
  %sum = plan.buffer : !row
  %t1 = plan.buffer : !row
  %t2 = plan.buffer : !row
  %t3 = plan.buffer : !row
  plan.launch "scale"(%x0) -> (%h0) params [2.0] {moe.micro_batch = #moe.chunk<0 of 20>} : (memref<64xf32>) -> !row
  plan.launch "scale"(%x1) -> (%h1) params [2.0] {moe.micro_batch = #moe.chunk<1 of 20>} : (memref<64xf32>) -> !row
  plan.launch "scale"(%h0) -> (%sum) params [3.0] {moe.micro_batch = #moe.chunk<0 of 20>} : (!row) -> !row
  plan.launch "scale"(%x2) -> (%h2) params [2.0] {moe.micro_batch = #moe.chunk<2 of 20>} : (memref<64xf32>) -> !row
  plan.launch "scale"(%h1) -> (%t1) params [3.0] {moe.micro_batch = #moe.chunk<1 of 20>} : (!row) -> !row
  plan.launch "add"(%sum, %t1) -> (%sum) {in_place = array<i64: 0>, moe.micro_batch = #moe.chunk<1 of 20>} : (!row, !row) -> !row
  plan.launch "scale"(%x3) -> (%h3) params [2.0] {moe.micro_batch = #moe.chunk<3 of 20>} : (memref<64xf32>) -> !row
  plan.launch "scale"(%h2) -> (%t2) params [3.0] {moe.micro_batch = #moe.chunk<2 of 20>} : (!row) -> !row
  plan.launch "add"(%sum, %t2) -> (%sum) {in_place = array<i64: 0>, moe.micro_batch = #moe.chunk<2 of 20>} : (!row, !row) -> !row
  plan.launch "scale"(%h3) -> (%t3) params [3.0] {moe.micro_batch = #moe.chunk<3 of 20>} : (!row) -> !row
  plan.launch "add"(%sum, %t3) -> (%sum) {in_place = array<i64: 0>, moe.micro_batch = #moe.chunk<3 of 20>} : (!row, !row) -> !row
  plan.launch "copy"(%sum) -> (%y) : (!row) -> memref<64xf32>
  return
}
