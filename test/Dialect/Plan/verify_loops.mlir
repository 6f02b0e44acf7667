// RUN: moe-opt %s -split-input-file --plan-verify -verify-diagnostics

!row = memref<4xf32, #plan<space device>>
!ring = memref<2x4xf32, #plan<space device>>

// Two slots: the copy of an iteration waits for the reader of the iteration before the last alone, which is not enough, since no event
// says so.
func.func @race(%x: memref<4xf32>, %y: memref<4xf32>) attributes {plan.inputs = 1 : i64, plan.arenas = {device = 32 : i64, host_pinned = 0 : i64}} {
  %ring = plan.buffer {offset = 0 : i64} : !ring
  plan.loop 8 {
    %slot = plan.view %ring part 0 of 2 by 1 : !ring -> !row
    // expected-error @+1 {{race: 'copy' on 'copy' writes bytes of part 0 of 2 of the buffer of 32 bytes at offset 0 in device that 'scale' on 'compute' reads}}
    plan.launch "copy"(%x) -> (%slot) on "copy" : (memref<4xf32>) -> !row
    plan.record 0 on "copy"
    plan.wait 0 on "compute"
    // expected-note @+1 {{'scale' on 'compute' is here}}
    plan.launch "scale"(%slot) -> (%y) params [2.0] on "compute" : (!row) -> memref<4xf32>
  }
  return
}

// The first iteration waits for what only the iteration before records.
func.func @dangling(%x: memref<4xf32>, %y: memref<4xf32>) attributes {plan.inputs = 1 : i64, plan.arenas = {device = 16 : i64, host_pinned = 0 : i64}} {
  plan.loop 8 {
    %0 = plan.buffer {offset = 0 : i64} : !row
    // expected-error @+1 {{dangling wait: expected a plan.record of event 1 before the wait on 'copy'}}
    plan.wait 1 on "copy"
    plan.launch "copy"(%x) -> (%0) on "copy" : (memref<4xf32>) -> !row
    plan.record 0 on "copy"
    plan.wait 0 on "compute"
    plan.launch "scale"(%0) -> (%y) params [2.0] on "compute" : (!row) -> memref<4xf32>
    // expected-note @+1 {{the event is recorded here, after it}}
    plan.record 1 on "compute"
  }
  return
}

// -----

!row = memref<4xf32, #plan<space device>>
!ring = memref<3x4xf32, #plan<space device>>

// Behind 7 iterations, slot 1 of 3 holds the row of iteration 5: iterations 1 and 4 have written it before, and nobody has written slot 1
// of a ring that a loop of one iteration fills.
func.func @behind(%x: memref<4xf32>, %y: memref<4xf32>) attributes {plan.inputs = 1 : i64, plan.arenas = {device = 96 : i64, host_pinned = 0 : i64}} {
  %ring = plan.buffer {offset = 0 : i64} : !ring
  %other = plan.buffer {offset = 48 : i64} : !ring
  plan.loop 7 {
    %slot = plan.view %ring part 0 of 3 by 1 : !ring -> !row
    plan.launch "copy"(%x) -> (%slot) on "compute" : (memref<4xf32>) -> !row
  }
  %0 = plan.view %ring part 1 of 3 by 1 : !ring -> !row
  plan.launch "copy"(%0) -> (%y) on "compute" : (!row) -> memref<4xf32>
  plan.loop 1 {
    %slot = plan.view %other part 0 of 3 by 1 : !ring -> !row
    plan.launch "copy"(%x) -> (%slot) on "compute" : (memref<4xf32>) -> !row
  }
  %1 = plan.view %other part 0 of 3 by 1 : !ring -> !row
  // expected-error @+1 {{stale read: 'copy' on 'compute' reads part 0 of 3 of the buffer of 48 bytes at offset 48 in device before anything is written there}}
  plan.launch "copy"(%1) -> (%y) on "compute" : (!row) -> memref<4xf32>
  return
}
