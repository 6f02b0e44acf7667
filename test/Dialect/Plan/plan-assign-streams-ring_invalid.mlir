// RUN: moe-opt %s -split-input-file -verify-diagnostics --plan-assign-streams

!a = memref<4x16xf32>
!t = memref<4x16xf32, #plan<space device>>

func.func @too_early(%a: !a, %b: !a, %r: !a, %s: !a) {
  %0 = plan.buffer {ring = #moe.ring<"in", 1>} : !t
  %1 = plan.buffer {ring = #moe.ring<"in", 1>} : !t
  plan.launch "s"(%a) -> (%0) : (!a) -> !t
  // expected-error @below {{expected 's' (layer0) to come after 'c', which uses the earlier buffer at the same place of the ring}}
  plan.launch "s"(%b) -> (%1) {label = "layer0"} : (!a) -> !t
  // expected-note @below {{'c' is here}}
  plan.launch "c"(%0) -> (%r) : (!t) -> !a
  plan.launch "c"(%1) -> (%s) : (!t) -> !a
  return
}
