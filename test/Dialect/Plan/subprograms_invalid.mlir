// RUN: moe-opt %s -split-input-file -verify-diagnostics --plan-verify

func.func @rank(%n: memref<1xi32>, %x: memref<16xf32>) attributes {plan.inputs = 2 : i64} {
  // expected-error @+1 {{expected memory for the 64 bytes of 'twice' as last output}}
  plan.launch "repeat"(%n, %x) -> (%x) params [3] on "compute" {plan.program = @twice} : (memref<1xi32>, memref<16xf32>) -> memref<16xf32>
  return
}
func.func private @twice(%x: memref<16xf32>) attributes {plan.arenas = {device = 64 : i64, host_pinned = 0 : i64}, plan.inputs = 1 : i64, plan.subprogram} {
  plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" {in_place = array<i64: 0>} : (memref<16xf32>) -> memref<16xf32>
  return
}

// -----

func.func @rank(%n: memref<1xi32>, %x: memref<16xf32>) attributes {plan.arenas = {device = 64 : i64, host_pinned = 0 : i64}, plan.inputs = 2 : i64} {
  %0 = plan.buffer {offset = 0 : i64} : memref<16xi32, #plan<space device>>
  // expected-error @+1 {{expected input 1, which 'twice' writes, to be an output}}
  plan.launch "repeat"(%n, %x) -> (%0) params [3] on "compute" {plan.program = @twice} : (memref<1xi32>, memref<16xf32>) -> memref<16xi32, #plan<space device>>
  return
}
func.func private @twice(%x: memref<16xf32>) attributes {plan.arenas = {device = 64 : i64, host_pinned = 0 : i64}, plan.inputs = 1 : i64, plan.subprogram} {
  plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" {in_place = array<i64: 0>} : (memref<16xf32>) -> memref<16xf32>
  return
}

// -----

// The exchange may run beside what was there before the subprogram.
func.func @rank() {
  return
}
func.func private @early(%x: memref<16xf32>) attributes {plan.arenas = {device = 0 : i64, host_pinned = 0 : i64}, plan.inputs = 1 : i64, plan.subprogram} {
  // expected-error @+1 {{race: expected 'all_reduce' over 'ep' on 'comm.intra' in a subprogram to come after what 'compute' did before}}
  plan.launch "all_reduce"(%x) -> (%x) collective over <"ep", 2, 1> on "comm.intra" {absent = array<i64: 1>, in_place = array<i64: 0>} : (memref<16xf32>) -> memref<16xf32>
  plan.record 0 on "comm.intra"
  plan.wait 0 on "compute"
  return
}

// -----

// Launches after the subprogram may run beside the exchange.
func.func @rank() {
  return
}
// expected-error @+1 {{race: expected 'compute' to wait for 'comm.intra' at the end of a subprogram}}
func.func private @late(%x: memref<16xf32>) attributes {plan.arenas = {device = 0 : i64, host_pinned = 0 : i64}, plan.inputs = 1 : i64, plan.subprogram} {
  plan.record 0 on "compute"
  plan.wait 0 on "comm.intra"
  plan.record 1 on "comm.intra"
  plan.launch "all_reduce"(%x) -> (%x) collective over <"ep", 2, 1> on "comm.intra" {absent = array<i64: 1>, in_place = array<i64: 0>} : (memref<16xf32>) -> memref<16xf32>
  plan.wait 1 on "compute"
  return
}
