// RUN: moe-opt %s -split-input-file --plan-verify | FileCheck %s

!t = memref<4xf32, #plan<space device>>

// One program of all ranks: three streams, events, reuse of bytes and a launch in place.
// CHECK-LABEL: func.func @rank
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @rank(%a: memref<4xf32>, %r: memref<4xf32>)
      attributes {plan.inputs = 1 : i64, plan.arenas = {device = 272 : i64, host_pinned = 0 : i64}} {
    %0 = plan.buffer {offset = 0 : i64} : !t
    %1 = plan.buffer {offset = 0 : i64} : !t
    %2 = plan.buffer {offset = 256 : i64} : !t
    %3 = plan.buffer {offset = 0 : i64} : !t
    plan.launch "scale"(%a) -> (%0) on "compute" : (memref<4xf32>) -> !t
    plan.launch "scale"(%0) -> (%1) on "compute" {in_place = array<i64: 0>} : (!t) -> !t
    plan.record 0 on "compute"
    plan.wait 0 on "comm.intra"
    plan.launch "all_reduce"(%1) -> (%1) collective over <"mp", 2, 1> on "comm.intra" : (!t) -> !t
    plan.record 1 on "comm.intra"
    plan.wait 1 on "comm.inter"
    plan.launch "all_reduce"(%1) -> (%2) collective over <"dp", 4, 2> on "comm.inter" : (!t) -> !t
    plan.record 2 on "comm.inter"
    plan.wait 2 on "compute"
    plan.launch "scale"(%a) -> (%3) on "compute" : (memref<4xf32>) -> !t
    plan.launch "add"(%2, %3) -> (%r) on "compute" : (!t, !t) -> memref<4xf32>
    return
  }

  // The reference has one rank, whatever the module's world is; before memory assignment buffers are apart.
  // CHECK: func.func @reference
  func.func @reference(%a: memref<4xf32>, %r: memref<4xf32>)
      attributes {plan.inputs = 1 : i64, moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
    %0 = plan.buffer : !t
    %1 = plan.buffer : !t
    plan.launch "scale"(%a) -> (%0) on "compute" : (memref<4xf32>) -> !t
    plan.launch "scale"(%a) -> (%1) on "copy" : (memref<4xf32>) -> !t
    plan.record 0 on "copy"
    plan.wait 0 on "compute"
    plan.launch "add"(%0, %1) -> (%r) on "compute" : (!t, !t) -> memref<4xf32>
    return
  }
}

// -----

// One communicator on two streams, ordered by an event; a group of one rank meets nobody and needs no order.
// CHECK-LABEL: func.func @two_streams
func.func @two_streams(%a: memref<4xf32>, %b: memref<4xf32>) attributes {plan.inputs = 2 : i64} {
  plan.launch "assume_replicated"(%a) -> () collective over <"mp", 2, 1> on "comm.intra" : (memref<4xf32>) -> ()
  plan.launch "assume_replicated"(%a) -> () collective over <"pp", 1, 8> on "comm.intra" : (memref<4xf32>) -> ()
  plan.record 0 on "comm.intra"
  plan.wait 0 on "comm.inter"
  plan.launch "assume_replicated"(%b) -> () collective over <"esp", 2, 1> on "comm.inter" : (memref<4xf32>) -> ()
  plan.launch "assume_replicated"(%b) -> () collective over <"pp", 1, 8> on "copy" : (memref<4xf32>) -> ()
  return
}

// -----

// Two stages of a pipeline: different collectives over mp, of which they share no instance, the same ones over pp.
// CHECK-LABEL: func.func @stage0
// CHECK-LABEL: func.func @stage1
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 2, dp = 1, mp = 2, ep = 1, esp = 1>} {
  func.func @stage0(%a: memref<4xf32>, %r: memref<4xf32>) attributes {plan.inputs = 1 : i64, plan.ranks = array<i64: 0, 2>} {
    plan.launch "all_reduce"(%a) -> (%r) collective over <"mp", 2, 1> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
    plan.launch "broadcast"(%r) -> (%r) collective over <"pp", 2, 2> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
    return
  }
  func.func @stage1(%a: memref<4xf32>, %r: memref<4xf32>) attributes {plan.inputs = 1 : i64, plan.ranks = array<i64: 2, 2>} {
    plan.launch "broadcast"(%a) -> (%r) collective over <"pp", 2, 2> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

// No communication at all on the ranks of one stage.
// CHECK-LABEL: func.func @busy
// CHECK-LABEL: func.func @idle
func.func @busy(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 2>} {
  plan.launch "assume_replicated"(%a) -> () collective over <"mp", 2, 1> on "comm.intra" : (memref<4xf32>) -> ()
  return
}
func.func @idle(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 2, 2>} {
  plan.launch "scale"(%a) -> (%a) on "compute" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  // Two parts with different shifts lie apart on every rank: nothing has to order their writers, only the reader of both.
  // CHECK-LABEL: func.func @parts
  func.func @parts(%a: memref<4xf32>, %r: memref<8xf32>, %s: memref<8xf32>) attributes {plan.inputs = 1 : i64} {
    %0 = plan.view %r part 0 of 2 over <"ep_esp", 8, 1> : memref<8xf32> -> memref<4xf32>
    %1 = plan.view %r part 1 of 2 over <"ep_esp", 8, 1> : memref<8xf32> -> memref<4xf32>
    plan.launch "scale"(%a) -> (%0) on "compute" : (memref<4xf32>) -> memref<4xf32>
    plan.launch "scale"(%a) -> (%1) on "copy" : (memref<4xf32>) -> memref<4xf32>
    plan.record 0 on "copy"
    plan.wait 0 on "compute"
    plan.launch "scale"(%r) -> (%s) on "compute" : (memref<8xf32>) -> memref<8xf32>
    return
  }

  // Groups that name the same halves of the ranks otherwise give the same parts: these lie apart on every rank, too.
  // CHECK-LABEL: func.func @halves
  func.func @halves(%a: memref<4xf32>, %r: memref<8xf32>) attributes {plan.inputs = 1 : i64} {
    %0 = plan.view %r part 0 of 2 over <"ep_esp", 8, 1> : memref<8xf32> -> memref<4xf32>
    %1 = plan.view %r part 1 of 2 over <"half", 2, 4> : memref<8xf32> -> memref<4xf32>
    plan.launch "scale"(%a) -> (%0) on "compute" : (memref<4xf32>) -> memref<4xf32>
    plan.launch "scale"(%a) -> (%1) on "copy" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

// Parts of one another are the same memory: what is written to all is read in parts, and what is written in parts as a whole.
// CHECK-LABEL: func.func @whole_and_parts
func.func @whole_and_parts(%a: memref<8xf32>, %r: memref<4xf32>, %s: memref<8xf32>)
    attributes {plan.inputs = 1 : i64, plan.arenas = {device = 32 : i64, host_pinned = 0 : i64}} {
  %0 = plan.buffer {offset = 0 : i64} : memref<8xf32, #plan<space device>>
  %1 = plan.view %0 part 0 of 2 over <"mp", 2, 1> : memref<8xf32, #plan<space device>> -> memref<4xf32, #plan<space device>>
  plan.launch "scale"(%a) -> (%0) on "compute" : (memref<8xf32>) -> memref<8xf32, #plan<space device>>
  plan.launch "scale"(%1) -> (%1) on "compute" {in_place = array<i64: 0>} : (memref<4xf32, #plan<space device>>) -> memref<4xf32, #plan<space device>>
  plan.launch "scale"(%1) -> (%r) on "compute" : (memref<4xf32, #plan<space device>>) -> memref<4xf32>
  plan.launch "scale"(%0) -> (%s) on "compute" : (memref<8xf32, #plan<space device>>) -> memref<8xf32>
  return
}

// A chain of views is where all its parts say: bytes 40 to 47 of 64 are part 1 of 2 of part 2 of 4, and both streams write others.
// CHECK-LABEL: func.func @chain
func.func @chain(%a: memref<2xf32>, %b: memref<4xf32>, %r: memref<16xf32>) attributes {plan.inputs = 2 : i64} {
  %0 = plan.view %r part 2 of 4 : memref<16xf32> -> memref<4xf32>
  %1 = plan.view %0 part 0 of 2 : memref<4xf32> -> memref<2xf32>
  %2 = plan.view %0 part 1 of 2 : memref<4xf32> -> memref<2xf32>
  %3 = plan.view %r part 3 of 4 : memref<16xf32> -> memref<4xf32>
  %4 = plan.view %r part 0 of 2 : memref<16xf32> -> memref<8xf32>
  %5 = plan.view %4 part 0 of 2 : memref<8xf32> -> memref<4xf32>
  %6 = plan.view %4 part 1 of 2 : memref<8xf32> -> memref<4xf32>
  plan.launch "copy"(%a) -> (%1) on "compute" : (memref<2xf32>) -> memref<2xf32>
  plan.launch "copy"(%a) -> (%2) on "copy" : (memref<2xf32>) -> memref<2xf32>
  plan.launch "copy"(%b) -> (%3) on "copy" : (memref<4xf32>) -> memref<4xf32>
  plan.launch "copy"(%b) -> (%5) on "compute" : (memref<4xf32>) -> memref<4xf32>
  plan.launch "copy"(%b) -> (%6) on "copy" : (memref<4xf32>) -> memref<4xf32>
  return
}

// Values written through one chain are read through another one of the same bytes, also in a buffer, and a part of a part that depends on the rank.
// CHECK-LABEL: func.func @same_bytes
func.func @same_bytes(%a: memref<4xf32>, %r: memref<2xf32>, %s: memref<2xf32>)
    attributes {plan.inputs = 1 : i64, plan.arenas = {device = 32 : i64, host_pinned = 0 : i64}} {
  %0 = plan.buffer {offset = 0 : i64} : memref<8xf32, #plan<space device>>
  %1 = plan.view %0 part 1 of 2 : memref<8xf32, #plan<space device>> -> memref<4xf32, #plan<space device>>
  %2 = plan.view %1 part 1 of 2 : memref<4xf32, #plan<space device>> -> memref<2xf32, #plan<space device>>
  %3 = plan.view %0 part 3 of 4 : memref<8xf32, #plan<space device>> -> memref<2xf32, #plan<space device>>
  %4 = plan.view %1 part 0 of 2 over <"mp", 2, 1> : memref<4xf32, #plan<space device>> -> memref<2xf32, #plan<space device>>
  plan.launch "copy"(%a) -> (%1) on "compute" : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
  plan.launch "scale"(%2) -> (%2) on "compute" {in_place = array<i64: 0>} : (memref<2xf32, #plan<space device>>) -> memref<2xf32, #plan<space device>>
  plan.launch "copy"(%3) -> (%r) on "compute" : (memref<2xf32, #plan<space device>>) -> memref<2xf32>
  plan.launch "copy"(%4) -> (%s) on "compute" : (memref<2xf32, #plan<space device>>) -> memref<2xf32>
  return
}
