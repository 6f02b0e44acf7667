// RUN: moe-opt %s -split-input-file -verify-diagnostics --plan-order

!a = memref<4x16xf32>
!t = memref<4x16xf32, #plan<space device>>

func.func @waits(%a: !a, %r: !a) {
  plan.launch "f"(%a) -> (%r) : (!a) -> !a
  // expected-error @below {{expected no waits before launches are put into order}}
  plan.record 0 on "compute"
  return
}

// -----

!a = memref<4x16xf32>
!t = memref<4x16xf32, #plan<space device>>

func.func @offset(%a: !a) {
  // expected-error @below {{expected no offset before launches are put into order}}
  %0 = plan.buffer {offset = 0 : i64} : !t
  plan.launch "f"(%a) -> (%0) : (!a) -> !t
  return
}

// -----

!a = memref<4x16xf32>

// expected-error @below {{expected one program for all ranks}}
func.func @some_ranks(%a: !a, %r: !a) attributes {plan.ranks = array<i64: 0, 2>} {
  plan.launch "f"(%a) -> (%r) : (!a) -> !a
  return
}

// -----

!a = memref<4x16xf32>

// expected-error @below {{expected a cluster: the search for an order needs its times}}
func.func @no_cluster(%a: !a, %r: !a, %s: !a) {
  plan.launch "f"(%a) -> (%r) : (!a) -> !a
  plan.launch "all_reduce"(%a) -> (%s) collective over <"ep", 2, 1> : (!a) -> !a
  return
}

// -----

!a = memref<4x16xf32>
!t = memref<4x16xf32, #plan<space device>>

// The second buffer is written from the first, which is read again after the second is.
// expected-error @below {{expected an order of the launches in which the buffers of each ring take turns, but there is none}}
func.func @impossible(%a: !a, %r: !a) {
  %0 = plan.buffer {ring = #moe.ring<"in", 1>} : !t
  %1 = plan.buffer {ring = #moe.ring<"in", 1>} : !t
  plan.launch "f"(%a) -> (%0) : (!a) -> !t
  plan.launch "f"(%0) -> (%1) : (!t) -> !t
  plan.launch "g"(%0, %1) -> (%r) : (!t, !t) -> !a
  return
}
