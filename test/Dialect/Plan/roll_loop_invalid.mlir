// RUN: moe-opt %s -split-input-file --plan-roll-loop -verify-diagnostics

!row = memref<64xf32, #plan<space device>>

// The micro-batches do not repeat.
// expected-error @+1 {{expected a step whose micro-batches repeat: of 3 micro-batches, no launches are those of the micro-batches before them}}
func.func @short(%x: memref<64xf32>, %y: memref<64xf32>) attributes {plan.inputs = 1 : i64} {
  plan.launch "scale"(%x) -> (%y) params [2.0] {moe.micro_batch = #moe.chunk<0 of 20>} : (memref<64xf32>) -> memref<64xf32>
  plan.launch "scale"(%x) -> (%y) params [3.0] {moe.micro_batch = #moe.chunk<1 of 20>} : (memref<64xf32>) -> memref<64xf32>
  plan.launch "scale"(%x) -> (%y) params [4.0] {moe.micro_batch = #moe.chunk<2 of 20>} : (memref<64xf32>) -> memref<64xf32>
  return
}

// -----

!row = memref<64xf32, #plan<space device>>

// Every micro-batch uses a value of the very first one at the end, which no slot keeps.
// expected-error @+1 {{expected a step whose micro-batches repeat: 'add' uses a value that an earlier micro-batch leaves}}
func.func @kept(%x: memref<64xf32>, %y: memref<64xf32>) attributes {plan.inputs = 1 : i64} {
  %a0 = plan.buffer : !row
  %a1 = plan.buffer : !row
  %a2 = plan.buffer : !row
  %a3 = plan.buffer : !row
  plan.launch "scale"(%x) -> (%a0) params [2.0] {moe.micro_batch = #moe.chunk<0 of 20>} : (memref<64xf32>) -> !row
  plan.launch "scale"(%x) -> (%a1) params [2.0] {moe.micro_batch = #moe.chunk<1 of 20>} : (memref<64xf32>) -> !row
  plan.launch "scale"(%x) -> (%a2) params [2.0] {moe.micro_batch = #moe.chunk<2 of 20>} : (memref<64xf32>) -> !row
  plan.launch "scale"(%x) -> (%a3) params [2.0] {moe.micro_batch = #moe.chunk<3 of 20>} : (memref<64xf32>) -> !row
  plan.launch "add"(%a1, %a2) -> (%y) : (!row, !row) -> memref<64xf32>
  return
}

// -----

!row = memref<64xf32, #plan<space device>>

// Chunks of a layer are in a ring already.
// expected-error @+1 {{expected a step whose micro-batches repeat: a layer's chunks already take turns in the ring 'hidden'}}
func.func @ring(%x: memref<64xf32>) attributes {plan.inputs = 1 : i64} {
  %0 = plan.buffer {ring = #moe.ring<"hidden", 2>} : !row
  plan.launch "scale"(%x) -> (%0) params [2.0] : (memref<64xf32>) -> !row
  return
}
