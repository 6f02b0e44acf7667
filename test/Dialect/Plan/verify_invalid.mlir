// RUN: moe-opt %s -split-input-file --plan-verify -verify-diagnostics

// Hang: one communicator under two names on two streams that nothing orders.
func.func @hang_streams(%a: memref<4xf32>, %b: memref<4xf32>) {
  // expected-note @+1 {{'all_reduce' (layer0) over 'mp' on 'comm.intra' is here}}
  plan.launch "all_reduce"(%a) -> (%a) collective over <"mp", 2, 1> on "comm.intra" {label = "layer0"}
    : (memref<4xf32>) -> memref<4xf32>
  // expected-error @+1 {{hang: expected 'all_reduce' (layer1) over 'esp' on 'comm.inter' to be ordered after 'all_reduce' (layer0) over 'mp' on 'comm.intra', a collective of the same communicator}}
  plan.launch "all_reduce"(%b) -> (%b) collective over <"esp", 2, 1> on "comm.inter" {label = "layer1"}
    : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// Hang: an assumption is a meeting too, under verification.
func.func @hang_assume(%a: memref<4xf32>, %b: memref<4xf32>) {
  // expected-note @+1 {{'assume_replicated' over 'mp' on 'compute' is here}}
  plan.launch "assume_replicated"(%a) -> () collective over <"mp", 2, 1> on "compute" : (memref<4xf32>) -> ()
  // expected-error @+1 {{hang: expected 'all_reduce' over 'mp' on 'comm.intra' to be ordered after 'assume_replicated' over 'mp' on 'compute'}}
  plan.launch "all_reduce"(%b) -> (%b) collective over <"mp", 2, 1> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// Hang: two programs whose second collective over ep differs in kind.
func.func @first(%a: memref<4xf32>, %b: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 2>} {
  plan.launch "all_reduce"(%a) -> (%a) collective over <"ep", 4, 1> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  // expected-note @+1 {{'all_reduce' over 'ep' on 'comm.intra' of 'first' is here}}
  plan.launch "all_reduce"(%b) -> (%b) collective over <"ep", 4, 1> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  return
}
func.func @second(%a: memref<4xf32>, %b: memref<4xf32>) attributes {plan.ranks = array<i64: 2, 2>} {
  plan.launch "all_reduce"(%a) -> (%a) collective over <"ep", 4, 1> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  // expected-error @+1 {{hang: expected collective 1 over 'ep' to be that of 'first', 'all_reduce' but got 'broadcast' in 'broadcast' over 'ep' on 'comm.intra'}}
  plan.launch "broadcast"(%b) -> (%b) params [0] collective over <"ep", 4, 1> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// Hang: sizes differ, in a world of ranks 0 and 2, 1 and 3 per instance.
func.func @first(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 2>} {
  // expected-note @+1 {{'all_reduce' over 'dp' on 'comm.intra' of 'first' is here}}
  plan.launch "all_reduce"(%a) -> (%a) collective over <"dp", 2, 2> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  return
}
func.func @second(%a: memref<8xf32>) attributes {plan.ranks = array<i64: 2, 2>} {
  // expected-error @+1 {{with inputs (memref<4xf32>) but got (memref<8xf32>) in 'all_reduce' over 'dp' on 'comm.intra'}}
  plan.launch "all_reduce"(%a) -> (%a) collective over <"dp", 2, 2> on "comm.intra" : (memref<8xf32>) -> memref<8xf32>
  return
}

// -----

// Hang: params differ.
func.func @first(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 2>} {
  // expected-note @+1 {{of 'first' is here}}
  plan.launch "broadcast"(%a) -> (%a) params [0] collective over <"dp", 2, 2> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  return
}
func.func @second(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 2, 2>} {
  // expected-error @+1 {{with the same params and absent inputs but got others in 'broadcast' over 'dp' on 'comm.intra'}}
  plan.launch "broadcast"(%a) -> (%a) params [1] collective over <"dp", 2, 2> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// Hang: one program issues one more.
func.func @first(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 2>} {
  // expected-note @+1 {{'all_reduce' over 'dp' on 'comm.intra' is the last one of 'first'}}
  plan.launch "all_reduce"(%a) -> (%a) collective over <"dp", 2, 2> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  return
}
func.func @second(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 2, 2>} {
  plan.launch "all_reduce"(%a) -> (%a) collective over <"dp", 2, 2> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  // expected-error @+1 {{'all_gather' over 'dp' on 'comm.intra' has no partner in 'first', which ends after 1}}
  plan.launch "all_gather"(%a) -> (%a) collective over <"dp", 2, 2> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// Hang: one program issues none.
// expected-note @+1 {{'first' is here}}
func.func @first(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 2>} {
  plan.launch "scale"(%a) -> (%a) on "compute" : (memref<4xf32>) -> memref<4xf32>
  return
}
func.func @second(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 2, 2>} {
  // expected-error @+1 {{'all_reduce' over 'dp' on 'comm.intra' has no partner in 'first', which ends after 0}}
  plan.launch "all_reduce"(%a) -> (%a) collective over <"dp", 2, 2> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// Hang: each communicator sees one sequence, but the programs meet over dp and world in opposite orders.
func.func @first(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 2>} {
  plan.launch "all_reduce"(%a) -> (%a) collective over <"dp", 2, 2> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  // expected-note @+1 {{'all_reduce' over 'world' on 'comm.intra' comes after 'all_reduce' over 'dp' on 'comm.intra' in 'first'}}
  plan.launch "all_reduce"(%a) -> (%a) collective over <"world", 4, 1> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  return
}
func.func @second(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 2, 2>} {
  plan.launch "all_reduce"(%a) -> (%a) collective over <"world", 4, 1> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  // expected-error @+2 {{hang: expected all programs to order their collectives alike, but 'all_reduce' over 'dp' on 'comm.intra' waits for itself}}
  // expected-note @+1 {{'all_reduce' over 'dp' on 'comm.intra' comes after 'all_reduce' over 'world' on 'comm.intra' in 'second'}}
  plan.launch "all_reduce"(%a) -> (%a) collective over <"dp", 2, 2> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// A group that does not fit the world.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 1, esp = 1>} {
  func.func @group(%a: memref<4xf32>) {
    // expected-error @+1 {{expected group 'odd' of 'all_reduce' over 'odd' on 'comm.intra' to divide the world of 8 ranks but its size * stride is 3 * 1 = 3}}
    plan.launch "all_reduce"(%a) -> (%a) collective over <"odd", 3, 1> on "comm.intra" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

// A group larger than the world.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 1, esp = 1>} {
  func.func @group(%a: memref<4xf32>, %b: memref<4xf32>) {
    // expected-error @+1 {{to divide the world of 8 ranks but its size * stride is 4 * 4 = 16}}
    plan.launch "slice"(%a) -> (%b) over <"big", 4, 4> on "compute" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

// Ranks that two programs claim.
func.func @first(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 3>} {
  plan.launch "scale"(%a) -> (%a) on "compute" : (memref<4xf32>) -> memref<4xf32>
  return
}
// expected-error @+1 {{expected each rank to have one program but 'second' starts at rank 2 and the programs before it end at 3}}
func.func @second(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 2, 2>} {
  plan.launch "scale"(%a) -> (%a) on "compute" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// Ranks without a program.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 1, esp = 1>} {
  // expected-error @+1 {{expected rank programs for 8 ranks but got 3}}
  func.func @first(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 3>} {
    plan.launch "scale"(%a) -> (%a) on "compute" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

// Ranks that are not two numbers.
// expected-error @+1 {{expected 'plan.ranks' to be array<i64: FIRST, NUMBER> with ranks up to 4096}}
func.func @ranks(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0>} {
  plan.launch "scale"(%a) -> (%a) on "compute" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

!t = memref<4xf32, #plan<space device>>

// Race: the reader does not wait for the writer.
func.func @race_read(%a: memref<4xf32>, %r: memref<4xf32>) attributes {plan.arenas = {device = 16 : i64, host_pinned = 0 : i64}} {
  %0 = plan.buffer {offset = 0 : i64} : !t
  // expected-note @+1 {{'scale' (layer0) on 'compute' is here}}
  plan.launch "scale"(%a) -> (%0) on "compute" {label = "layer0"} : (memref<4xf32>) -> !t
  // expected-error @+1 {{race: 'copy' on 'copy' reads bytes of the buffer of 16 bytes at offset 0 in device that 'scale' (layer0) on 'compute' writes, and no plan.record and plan.wait order the two}}
  plan.launch "copy"(%0) -> (%r) on "copy" : (!t) -> memref<4xf32>
  return
}

// -----

// Race: the last bytes of one buffer are the first of another, which an unordered launch writes.
func.func @race_write(%a: memref<4xf32>, %r: memref<4xf32>) attributes {plan.arenas = {device = 28 : i64, host_pinned = 0 : i64}} {
  %0 = plan.buffer {offset = 0 : i64} : memref<4xf32, #plan<space device>>
  %1 = plan.buffer {offset = 12 : i64} : memref<4xf32, #plan<space device>>
  // expected-note @+1 {{'scale' on 'compute' is here}}
  plan.launch "scale"(%a) -> (%0) on "compute" : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
  // expected-error @+1 {{race: 'copy' on 'copy' writes bytes of the buffer of 16 bytes at offset 12 in device that 'scale' on 'compute' writes}}
  plan.launch "copy"(%a) -> (%1) on "copy" : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
  return
}

// -----

!t = memref<4xf32, #plan<space device>>

// Race: the bytes are given away while the copy stream still reads them. The wait for the first reader does not cover the second.
func.func @race_reader(%a: memref<4xf32>, %r: memref<4xf32>, %s: memref<4xf32>)
    attributes {plan.inputs = 1 : i64, plan.arenas = {device = 16 : i64, host_pinned = 0 : i64}} {
  %0 = plan.buffer {offset = 0 : i64} : !t
  %1 = plan.buffer {offset = 0 : i64} : !t
  plan.launch "scale"(%a) -> (%0) on "compute" : (memref<4xf32>) -> !t
  plan.record 0 on "compute"
  plan.wait 0 on "copy"
  plan.launch "copy"(%0) -> (%r) on "copy" : (!t) -> memref<4xf32>
  plan.record 1 on "copy"
  // expected-note @+1 {{'copy' (second) on 'copy' is here}}
  plan.launch "copy"(%0) -> (%s) on "copy" {label = "second"} : (!t) -> memref<4xf32>
  plan.wait 1 on "compute"
  // expected-error @+1 {{race: 'scale' on 'compute' writes bytes of the buffer of 16 bytes at offset 0 in device that 'copy' (second) on 'copy' reads}}
  plan.launch "scale"(%a) -> (%1) on "compute" : (memref<4xf32>) -> !t
  return
}

// -----

// Race: an argument is memory like any other.
func.func @race_argument(%a: memref<4xf32>, %r: memref<4xf32>) attributes {plan.inputs = 1 : i64} {
  // expected-note @+1 {{'scale' on 'compute' is here}}
  plan.launch "scale"(%a) -> (%r) on "compute" : (memref<4xf32>) -> memref<4xf32>
  // expected-error @+1 {{race: 'scale' on 'copy' writes bytes of argument 1 that 'scale' on 'compute' writes}}
  plan.launch "scale"(%a) -> (%r) on "copy" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

!t = memref<4xf32, #plan<space device>>

// A launch that writes over what it reads, though it may not.
func.func @overlap(%a: memref<4xf32>) attributes {plan.arenas = {device = 16 : i64, host_pinned = 0 : i64}} {
  %0 = plan.buffer {offset = 0 : i64} : !t
  %1 = plan.buffer {offset = 0 : i64} : !t
  plan.launch "scale"(%a) -> (%0) on "compute" : (memref<4xf32>) -> !t
  // expected-error @+1 {{expected 'matmul' on 'compute' to write other bytes than it reads but output 0 overlaps input 1 at the buffer of 16 bytes at offset 0 in device}}
  plan.launch "matmul"(%a, %0) -> (%1) on "compute" {in_place = array<i64: 0>} : (memref<4xf32>, !t) -> !t
  return
}

// -----

!t = memref<4xf32, #plan<space device>>

// A launch with two outputs in one place.
func.func @outputs(%a: memref<4xf32>) attributes {plan.arenas = {device = 24 : i64, host_pinned = 0 : i64}} {
  %0 = plan.buffer {offset = 0 : i64} : !t
  %1 = plan.buffer {offset = 8 : i64} : !t
  // expected-error @+1 {{expected the outputs of 'route' on 'compute' not to overlap but 0 and 1 do at the buffer of 16 bytes at offset 8 in device}}
  plan.launch "route"(%a) -> (%0, %1) on "compute" : (memref<4xf32>) -> (!t, !t)
  return
}

// -----

!t = memref<4xf32, #plan<space device>>

// Stale read: another buffer has been put there.
func.func @stale(%a: memref<4xf32>, %r: memref<4xf32>) attributes {plan.arenas = {device = 24 : i64, host_pinned = 0 : i64}} {
  %0 = plan.buffer {offset = 0 : i64} : !t
  %1 = plan.buffer {offset = 8 : i64} : !t
  plan.launch "scale"(%a) -> (%0) on "compute" {label = "a"} : (memref<4xf32>) -> !t
  // expected-note @+1 {{'scale' (b) on 'compute' is here}}
  plan.launch "scale"(%a) -> (%1) on "compute" {label = "b"} : (memref<4xf32>) -> !t
  // expected-error @+1 {{stale read: expected 'add' on 'compute' to read what was written to the buffer of 16 bytes at offset 0 in device but 'scale' (b) on 'compute' has put the buffer of 16 bytes at offset 8 in device there}}
  plan.launch "add"(%1, %0) -> (%r) on "compute" : (!t, !t) -> memref<4xf32>
  return
}

// -----

!t = memref<4xf32, #plan<space device>>

// Stale read: nothing has been written there, in an arena or in a result.
func.func @unwritten(%r: memref<4xf32>) attributes {plan.inputs = 0 : i64, plan.arenas = {device = 16 : i64, host_pinned = 0 : i64}} {
  %0 = plan.buffer {offset = 0 : i64} : !t
  // expected-error @+1 {{stale read: 'scale' on 'compute' reads the buffer of 16 bytes at offset 0 in device before anything is written there}}
  plan.launch "scale"(%0) -> (%r) on "compute" : (!t) -> memref<4xf32>
  return
}
func.func @unwritten_result(%r: memref<4xf32>, %s: memref<4xf32>) attributes {plan.inputs = 0 : i64} {
  // expected-error @+1 {{stale read: 'scale' on 'compute' reads argument 0 before anything is written there}}
  plan.launch "scale"(%r) -> (%s) on "compute" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

!t = memref<4xf32, #plan<space device>>

// Stale read: the smaller buffer that was written there covers a part only.
func.func @partly(%a: memref<4xf32>, %r: memref<4xf32>) attributes {plan.arenas = {device = 16 : i64, host_pinned = 0 : i64}} {
  %0 = plan.buffer {offset = 0 : i64} : memref<2xf32, #plan<space device>>
  %1 = plan.buffer {offset = 0 : i64} : !t
  plan.launch "scale"(%a) -> (%1) on "compute" : (memref<4xf32>) -> !t
  // expected-note @+1 {{'slice' on 'compute' is here}}
  plan.launch "slice"(%a) -> (%0) on "compute" : (memref<4xf32>) -> memref<2xf32, #plan<space device>>
  // expected-error @+1 {{stale read: expected 'scale' on 'compute' to read what was written to the buffer of 16 bytes at offset 0 in device but 'slice' on 'compute' has put the buffer of 8 bytes at offset 0 in device there}}
  plan.launch "scale"(%1) -> (%r) on "compute" : (!t) -> memref<4xf32>
  return
}

// -----

// Dangling wait: the event comes later.
func.func @dangling() {
  // expected-error @+1 {{dangling wait: expected a plan.record of event 3 before the wait on 'compute'}}
  plan.wait 3 on "compute"
  // expected-note @+1 {{the event is recorded here, after it}}
  plan.record 3 on "comm.intra"
  return
}

// -----

// Dangling wait: there is no such event.
func.func @no_event() {
  plan.record 2 on "comm.intra"
  // expected-error @+1 {{dangling wait: expected a plan.record of event 3 before the wait on 'compute'}}
  plan.wait 3 on "compute"
  return
}

// -----

// Bounds: a buffer that ends behind its arena.
func.func @bounds(%a: memref<4xf32>) attributes {plan.arenas = {device = 271 : i64, host_pinned = 0 : i64}} {
  // expected-error @+1 {{out of bounds: expected the buffer to lie in the 271 bytes of 'device' but it has 16 bytes at offset 256}}
  %0 = plan.buffer {offset = 256 : i64} : memref<4xf32, #plan<space device>>
  plan.launch "scale"(%a) -> (%0) on "compute" : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
  return
}

// -----

// Bounds: an end that no integer holds.
func.func @overflow() attributes {plan.arenas = {device = 271 : i64, host_pinned = 0 : i64}} {
  // expected-error @+1 {{out of bounds}}
  %0 = plan.buffer {offset = 4611686018427387904 : i64} : memref<4xf32, #plan<space device>>
  return
}

// -----

// Bounds: arenas of no size.
// expected-error @+1 {{expected 'plan.arenas' to give the bytes of 'device'}}
func.func @no_arenas() {
  %0 = plan.buffer {offset = 256 : i64} : memref<4xf32, #plan<space device>>
  return
}

// -----

// A launch that is on no stream yet.
func.func @no_stream(%a: memref<4xf32>) {
  // expected-error @+1 {{expected 'scale' to have a stream; run plan-assign-streams first}}
  plan.launch "scale"(%a) -> (%a) : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// Race: the same part twice.
func.func @same_part(%a: memref<4xf32>, %r: memref<8xf32>) attributes {plan.inputs = 1 : i64} {
  %0 = plan.view %r part 1 of 2 over <"ep", 4, 1> : memref<8xf32> -> memref<4xf32>
  %1 = plan.view %r part 1 of 2 over <"ep", 4, 1> : memref<8xf32> -> memref<4xf32>
  // expected-note @+1 {{'scale' on 'compute' is here}}
  plan.launch "scale"(%a) -> (%0) on "compute" : (memref<4xf32>) -> memref<4xf32>
  // expected-error @+1 {{race: 'copy' on 'copy' writes bytes of part 1 of 2 of argument 1 that 'scale' on 'compute' writes, and no plan.record and plan.wait order the two}}
  plan.launch "copy"(%a) -> (%1) on "copy" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// Race on some ranks only: parts by mp and by ep, with different shifts, lie apart on ranks 0 and 3 but not on ranks 1 and 2.
func.func @some_ranks(%a: memref<4xf32>, %b: memref<2xf32>, %r: memref<8xf32>) attributes {plan.inputs = 2 : i64} {
  %0 = plan.view %r part 0 of 2 over <"mp", 2, 1> : memref<8xf32> -> memref<4xf32>
  %1 = plan.view %r part 1 of 2 over <"ep", 2, 2> : memref<8xf32> -> memref<4xf32>
  // expected-note @+1 {{'scale' on 'compute' is here}}
  plan.launch "scale"(%a) -> (%0) on "compute" : (memref<4xf32>) -> memref<4xf32>
  // expected-error @+1 {{race: 'copy' on 'copy' writes bytes of part 1 of 2 of argument 2 that 'scale' on 'compute' writes, and no plan.record and plan.wait order the two}}
  plan.launch "copy"(%a) -> (%1) on "copy" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// Race: all of a value is read while a part of it is still written.
func.func @whole_and_part(%a: memref<4xf32>, %r: memref<8xf32>, %s: memref<8xf32>) attributes {plan.inputs = 1 : i64} {
  %0 = plan.view %r part 0 of 2 over <"mp", 2, 1> : memref<8xf32> -> memref<4xf32>
  %1 = plan.view %r part 1 of 2 over <"mp", 2, 1> : memref<8xf32> -> memref<4xf32>
  plan.launch "scale"(%a) -> (%0) on "compute" : (memref<4xf32>) -> memref<4xf32>
  // expected-note @+1 {{'copy' on 'copy' is here}}
  plan.launch "copy"(%a) -> (%1) on "copy" : (memref<4xf32>) -> memref<4xf32>
  // expected-error @+1 {{race: 'scale' on 'compute' reads bytes of argument 1 that 'copy' on 'copy' writes, and no plan.record and plan.wait order the two}}
  plan.launch "scale"(%r) -> (%s) on "compute" : (memref<8xf32>) -> memref<8xf32>
  return
}

// -----

// Stale read: all of a value is read before all of its parts are written.
func.func @unwritten_part(%a: memref<4xf32>, %r: memref<8xf32>, %s: memref<8xf32>) attributes {plan.inputs = 1 : i64} {
  %0 = plan.view %r part 0 of 2 over <"mp", 2, 1> : memref<8xf32> -> memref<4xf32>
  %1 = plan.view %r part 1 of 2 over <"mp", 2, 1> : memref<8xf32> -> memref<4xf32>
  plan.launch "scale"(%a) -> (%0) on "compute" : (memref<4xf32>) -> memref<4xf32>
  // expected-error @+1 {{stale read: 'scale' on 'compute' reads argument 1 before anything is written there}}
  plan.launch "scale"(%r) -> (%s) on "compute" : (memref<8xf32>) -> memref<8xf32>
  plan.launch "scale"(%a) -> (%1) on "compute" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

// Stale read: a part of a buffer whose bytes another one has by then, on the odd ranks.
func.func @reused(%a: memref<8xf32>, %r: memref<4xf32>)
    attributes {plan.inputs = 1 : i64, plan.arenas = {device = 32 : i64, host_pinned = 0 : i64}} {
  %0 = plan.buffer {offset = 0 : i64} : memref<8xf32, #plan<space device>>
  %1 = plan.view %0 part 0 of 2 over <"mp", 2, 1> : memref<8xf32, #plan<space device>> -> memref<4xf32, #plan<space device>>
  %2 = plan.buffer {offset = 16 : i64} : memref<4xf32, #plan<space device>>
  plan.launch "scale"(%a) -> (%0) on "compute" : (memref<8xf32>) -> memref<8xf32, #plan<space device>>
  // expected-note @+1 {{'fill' on 'compute' is here}}
  plan.launch "fill"() -> (%2) on "compute" : () -> memref<4xf32, #plan<space device>>
  // expected-error @+1 {{stale read: expected 'scale' on 'compute' to read what was written to part 0 of 2 of the buffer of 32 bytes at offset 0 in device but 'fill' on 'compute' has put the buffer of 16 bytes at offset 16 in device there}}
  plan.launch "scale"(%1) -> (%r) on "compute" : (memref<4xf32, #plan<space device>>) -> memref<4xf32>
  return
}

// -----

// Parts of two kinds lie alike again after twelve ranks only: on rank 7 they overlap.
func.func @other_period(%a: memref<3x4xf32>, %b: memref<2x4xf32>, %r: memref<12x4xf32>) attributes {plan.inputs = 2 : i64} {
  %0 = plan.view %r part 1 of 4 over <"a", 4, 1> : memref<12x4xf32> -> memref<3x4xf32>
  %1 = plan.view %r part 0 of 6 over <"b", 6, 1> : memref<12x4xf32> -> memref<2x4xf32>
  // expected-note @+1 {{'copy' on 'compute' is here}}
  plan.launch "copy"(%a) -> (%0) on "compute" : (memref<3x4xf32>) -> memref<3x4xf32>
  // expected-error @+1 {{race: 'copy' on 'copy' writes bytes of part 0 of 6 of argument 2 that 'copy' on 'compute' writes, and no plan.record and plan.wait order the two}}
  plan.launch "copy"(%b) -> (%1) on "copy" : (memref<2x4xf32>) -> memref<2x4xf32>
  return
}

// -----

// Race: part 1 of 2 of part 1 of 2 is part 3 of 4.
func.func @chain_race(%a: memref<2xf32>, %r: memref<8xf32>) attributes {plan.inputs = 1 : i64} {
  %0 = plan.view %r part 1 of 2 : memref<8xf32> -> memref<4xf32>
  %1 = plan.view %0 part 1 of 2 : memref<4xf32> -> memref<2xf32>
  %2 = plan.view %r part 3 of 4 : memref<8xf32> -> memref<2xf32>
  // expected-note @+1 {{'copy' on 'compute' is here}}
  plan.launch "copy"(%a) -> (%1) on "compute" : (memref<2xf32>) -> memref<2xf32>
  // expected-error @+1 {{race: 'copy' on 'copy' writes bytes of part 3 of 4 of argument 1 that 'copy' on 'compute' writes}}
  plan.launch "copy"(%a) -> (%2) on "copy" : (memref<2xf32>) -> memref<2xf32>
  return
}

// -----

// Stale read: of a buffer in parts, one is not written.
func.func @chain_unwritten(%a: memref<2xf32>, %r: memref<2xf32>)
    attributes {plan.inputs = 1 : i64, plan.arenas = {device = 32 : i64, host_pinned = 0 : i64}} {
  %0 = plan.buffer {offset = 0 : i64} : memref<8xf32, #plan<space device>>
  %1 = plan.view %0 part 0 of 2 : memref<8xf32, #plan<space device>> -> memref<4xf32, #plan<space device>>
  %2 = plan.view %1 part 0 of 2 : memref<4xf32, #plan<space device>> -> memref<2xf32, #plan<space device>>
  %3 = plan.view %1 part 1 of 2 : memref<4xf32, #plan<space device>> -> memref<2xf32, #plan<space device>>
  plan.launch "copy"(%a) -> (%2) on "compute" : (memref<2xf32>) -> memref<2xf32, #plan<space device>>
  // expected-error @+1 {{stale read: 'copy' on 'compute' reads}}
  plan.launch "copy"(%3) -> (%r) on "compute" : (memref<2xf32, #plan<space device>>) -> memref<2xf32>
  return
}

// -----

// Race: on odd ranks the member's half of the second half is where part 3 of 4 is.
func.func @chain_group(%a: memref<2xf32>, %r: memref<8xf32>) attributes {plan.inputs = 1 : i64} {
  %0 = plan.view %r part 1 of 2 : memref<8xf32> -> memref<4xf32>
  %1 = plan.view %0 part 0 of 2 over <"mp", 2, 1> : memref<4xf32> -> memref<2xf32>
  %2 = plan.view %r part 3 of 4 : memref<8xf32> -> memref<2xf32>
  // expected-note @+1 {{'copy' on 'compute' is here}}
  plan.launch "copy"(%a) -> (%1) on "compute" : (memref<2xf32>) -> memref<2xf32>
  // expected-error @+1 {{race: 'copy' on 'copy' writes bytes of part 3 of 4 of argument 1 that 'copy' on 'compute' writes}}
  plan.launch "copy"(%a) -> (%2) on "copy" : (memref<2xf32>) -> memref<2xf32>
  return
}
