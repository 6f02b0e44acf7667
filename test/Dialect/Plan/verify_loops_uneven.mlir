// RUN: moe-opt %s -split-input-file --plan-verify -verify-diagnostics

// Loops in which it matters how many iterations there are: plan-verify looks at all of them. In each, the first few iterations are without
// a fault.

!row = memref<1x4xf32, #plan<space device>>

// In iteration 3 the event that is recorded in turn is the one for which the reader waits.
func.func @events_overlap(%a: memref<8x4xf32>) attributes {plan.inputs = 1 : i64, plan.arenas = {device = 32 : i64, host_pinned = 0 : i64}} {
  %0 = plan.buffer {offset = 0 : i64} : !row
  %1 = plan.buffer {offset = 16 : i64} : !row
  plan.record 9 on "compute"
  plan.loop 4 {
    plan.wait 9 on "copy"
    // expected-note @+1 {{'write' on 'copy' is here}}
    plan.launch "write"(%a) -> (%0) on "copy" : (memref<8x4xf32>) -> !row
    plan.record 3 on "copy"
    plan.record 0 turn 0 of 4 on "comm.inter"
    plan.wait 3 on "compute"
    // expected-error @+1 {{race: 'read' on 'compute' reads bytes of the buffer of 16 bytes at offset 0 in device that 'write' on 'copy' writes}}
    plan.launch "read"(%0) -> (%1) on "compute" : (!row) -> !row
    plan.record 9 on "compute"
  }
  return
}

// -----

!row = memref<1x4xf32, #plan<space device>>

// Slots of 3 and slots of 4 have bytes in common: in iteration 8 the second write takes what the first has written.
func.func @rings_overlap(%a: memref<8x4xf32>) attributes {plan.inputs = 1 : i64, plan.arenas = {device = 96 : i64, host_pinned = 0 : i64}} {
  %three = plan.buffer {offset = 0 : i64} : memref<3x4xf32, #plan<space device>>
  %four = plan.buffer {offset = 32 : i64} : memref<4x4xf32, #plan<space device>>
  plan.loop 9 {
    %0 = plan.view %three part 0 of 3 by 1 : memref<3x4xf32, #plan<space device>> -> !row
    %1 = plan.view %four part 0 of 4 by 1 : memref<4x4xf32, #plan<space device>> -> !row
    plan.launch "write"(%a) -> (%0) on "compute" : (memref<8x4xf32>) -> !row
    // expected-note @+1 {{'write' on 'compute' is here}}
    plan.launch "write"(%a) -> (%1) on "compute" : (memref<8x4xf32>) -> !row
    // expected-error @+1 {{stale read: expected 'read' on 'compute' to read what was written to part 0 of 3}}
    plan.launch "read"(%0) -> () on "compute" : (!row) -> ()
  }
  return
}

// -----

!row = memref<1x4xf32, #plan<space device>>

// With an even number of iterations the slot behind the loop would be that of the event.
func.func @static_slot_behind(%a: memref<8x4xf32>) attributes {plan.inputs = 1 : i64, plan.arenas = {device = 32 : i64, host_pinned = 0 : i64}} {
  %ring = plan.buffer {offset = 0 : i64} : memref<2x4xf32, #plan<space device>>
  plan.record 1 on "copy"
  plan.loop 5 {
    %slot = plan.view %ring part 0 of 2 by 1 : memref<2x4xf32, #plan<space device>> -> !row
    // expected-note @+1 {{'write' on 'copy' is here}}
    plan.launch "write"(%a) -> (%slot) on "copy" : (memref<8x4xf32>) -> !row
    plan.record 0 turn 0 of 2 on "copy"
  }
  %slot = plan.view %ring part 0 of 2 : memref<2x4xf32, #plan<space device>> -> !row
  plan.wait 0 turn 0 of 2 on "compute"
  // expected-error @+1 {{race: 'read' on 'compute' reads bytes of part 0 of 2 of the buffer of 32 bytes}}
  plan.launch "read"(%slot) -> () on "compute" : (!row) -> ()
  return
}

// -----

!row = memref<1x4xf32, #plan<space device>>

// Behind a loop with iterations left out, another buffer takes a slot that nothing uses any more, and the ring is read after that. Which
// slot is read depends on the number of iterations.
func.func @taken_slot(%a: memref<8x4xf32>) attributes {plan.inputs = 1 : i64, plan.arenas = {device = 32 : i64, host_pinned = 0 : i64}} {
  %ring = plan.buffer {offset = 0 : i64} : memref<2x4xf32, #plan<space device>>
  %first = plan.buffer {offset = 0 : i64} : !row
  plan.loop 100 {
    %slot = plan.view %ring part 0 of 2 by 1 : memref<2x4xf32, #plan<space device>> -> !row
    plan.launch "write"(%a) -> (%slot) on "compute" : (memref<8x4xf32>) -> !row
  }
  %slot = plan.view %ring part 1 of 2 by 1 : memref<2x4xf32, #plan<space device>> -> !row
  plan.launch "take"(%a) -> (%first) on "compute" : (memref<8x4xf32>) -> !row
  // expected-error @+1 {{stale read: 'read' on 'compute' reads part 1 of 2 of the buffer of 32 bytes at offset 0 in device after something else has taken bytes of that buffer}}
  plan.launch "read"(%slot) -> () on "compute" : (!row) -> ()
  return
}
