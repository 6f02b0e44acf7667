// RUN: moe-opt %s -split-input-file --plan-assign-streams --plan-assign-memory --plan-verify | FileCheck %s

!row = memref<4xf32, #plan<space device>>
!ring = memref<2x4xf32, #plan<space device>>

// Each iteration receives a row, which computation scales. The ring has two slots, so that an iteration receives while the one before
// computes: it waits for the reader of the iteration before the last. Three events take turns. Before the loop, two of them stand for the
// iterations that are not there.
// CHECK-LABEL: func.func @receive
// CHECK:       plan.launch "fill"
// CHECK-DAG:   plan.record [[FIRST:[0-9]+]] on "compute"
// CHECK-DAG:   plan.record [[SECOND:[0-9]+]] on "compute"
// CHECK:       plan.loop 8
// CHECK:         plan.wait [[READ:[0-9]+]] turn 1 of 3 on "comm.intra"
// CHECK-NEXT:    plan.launch "all_gather"
// CHECK-NEXT:    plan.record [[RECEIVED:[0-9]+]] on "comm.intra"
// CHECK-NEXT:    plan.wait [[RECEIVED]] on "compute"
// CHECK-NEXT:    plan.launch "scale"
// CHECK-NEXT:    plan.record [[READ]] turn 0 of 3 on "compute"
// CHECK:       plan.launch "copy"
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  func.func @receive(%x: memref<2xf32>, %y: memref<4xf32>) attributes {plan.inputs = 1 : i64} {
    %ring = plan.buffer : !ring
    %sum = plan.buffer : !row
    plan.launch "fill"() -> (%sum) params [0.0] : () -> !row
    plan.loop 8 {
      %slot = plan.view %ring part 0 of 2 by 1 : !ring -> !row
      plan.launch "all_gather"(%x) -> (%slot) params [0] collective over <"dp", 2, 1> : (memref<2xf32>) -> !row
      plan.launch "scale"(%slot) -> (%sum) params [2.0] : (!row) -> !row
    }
    plan.launch "copy"(%sum) -> (%y) : (!row) -> memref<4xf32>
    return
  }
}

// -----

!row = memref<64xf32, #plan<space device>>

// Buffers of an iteration share memory where they take turns: %0 and %2 do, since %0 is free when %2 is written and %2 is free when the
// next iteration writes %0. %1 is used with both of them.
// CHECK-LABEL: func.func @turns
// CHECK-SAME:  plan.arenas = {device = 512 : i64, host_pinned = 0 : i64}
// CHECK:       plan.loop 4
// CHECK-NEXT:    plan.buffer {offset = [[FIRST:[0-9]+]] : i64}
// CHECK-NEXT:    plan.buffer {offset = [[SECOND:[0-9]+]] : i64}
// CHECK-NEXT:    plan.buffer {offset = [[FIRST]] : i64}
func.func @turns(%x: memref<64xf32>, %y: memref<64xf32>) attributes {plan.inputs = 1 : i64} {
  plan.loop 4 {
    %0 = plan.buffer : !row
    %1 = plan.buffer : !row
    %2 = plan.buffer : !row
    plan.launch "copy"(%x) -> (%0) on "compute" : (memref<64xf32>) -> !row
    plan.launch "copy"(%0) -> (%1) on "compute" : (!row) -> !row
    plan.launch "copy"(%1) -> (%2) on "compute" : (!row) -> !row
    plan.launch "copy"(%2) -> (%y) on "compute" : (!row) -> memref<64xf32>
  }
  return
}

// -----

!row = memref<1x4xf32, #plan<space device>>

// By 3, the one slot of an iteration is taken again four iterations later: the writer waits for its reader.
// CHECK-LABEL: func.func @far
// CHECK:       plan.loop 9
// CHECK:         plan.wait [[READ:[0-9]+]] turn 1 of 5 on "comm.intra"
// CHECK-NEXT:    plan.launch "all_gather"
// CHECK:         plan.launch "scale"
// CHECK-NEXT:    plan.record [[READ]] turn 0 of 5 on "compute"
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  func.func @far(%x: memref<2xf32>) attributes {plan.inputs = 1 : i64} {
    %ring = plan.buffer : memref<4x4xf32, #plan<space device>>
    %sum = plan.buffer : !row
    plan.loop 9 {
      %slot = plan.view %ring part 0 of 4 by 3 : memref<4x4xf32, #plan<space device>> -> !row
      plan.launch "all_gather"(%x) -> (%slot) params [0] collective over <"dp", 2, 1> : (memref<2xf32>) -> !row
      plan.launch "scale"(%slot) -> (%sum) params [2.0] : (!row) -> !row
    }
    return
  }
}

// -----

!row = memref<4xf32, #plan<space device>>

// Two streams of the loop wait for what was done before it, each once.
// CHECK-LABEL: func.func @before
// CHECK:       plan.launch "fill"
// CHECK-NEXT:  plan.record [[FILLED:[0-9]+]] on "compute"
// CHECK-DAG:   plan.wait [[FILLED]] on "copy"
// CHECK-DAG:   plan.wait [[FILLED]] on "comm.intra"
// CHECK:       plan.loop 4
// CHECK-NEXT:    plan.launch "keep"
// CHECK-NEXT:    plan.launch "send"
module {
  func.func @before() {
    %0 = plan.buffer : !row
    plan.launch "fill"() -> (%0) params [0.0] on "compute" : () -> !row
    plan.loop 4 {
      plan.launch "keep"(%0) -> () on "copy" : (!row) -> ()
      plan.launch "send"(%0) -> () on "comm.intra" : (!row) -> ()
    }
    return
  }
}
