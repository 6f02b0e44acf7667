// RUN: moe-opt %s -split-input-file --plan-assign-streams | FileCheck %s
// RUN: moe-opt %s -split-input-file --plan-assign-streams --plan-assign-memory --plan-verify | FileCheck %s --check-prefix=MEMORY

!a = memref<4x16xf32>
!t = memref<4x16xf32, #plan<space device>>
!h = memref<2x16xf32, #plan<space device>>

// Two places: the third exchange waits for who reads the first one's buffer, and nobody else for anybody's place. All three
// buffers, of 256 bytes each, take two places.
// CHECK-LABEL: func.func @two
// CHECK: plan.launch "s"(%arg0
// CHECK-NEXT: plan.record 0 on "comm.intra"
// CHECK-NEXT: plan.launch "s"(%arg1
// CHECK-NEXT: plan.record 2 on "comm.intra"
// CHECK-NEXT: plan.wait 0 on "compute"
// CHECK-NEXT: plan.launch "c"
// CHECK-NEXT: plan.record 1 on "compute"
// CHECK-NEXT: plan.wait 1 on "comm.intra"
// CHECK-NEXT: plan.launch "s"(%arg2
// CHECK-NEXT: plan.record 3 on "comm.intra"
// CHECK-NEXT: plan.wait 2 on "compute"
// CHECK-NEXT: plan.launch "c"
// CHECK-NEXT: plan.wait 3 on "compute"
// CHECK-NEXT: plan.launch "c"
// CHECK-NEXT: return
// MEMORY-LABEL: func.func @two
// MEMORY-SAME: plan.arenas = {device = 512 : i64
func.func @two(%a: !a, %b: !a, %c: !a, %r: !a, %s: !a, %u: !a) attributes {plan.inputs = 3 : i64} {
  %0 = plan.buffer {ring = #moe.ring<"in", 2>} : !t
  %1 = plan.buffer {ring = #moe.ring<"in", 2>} : !t
  %2 = plan.buffer {ring = #moe.ring<"in", 2>} : !t
  plan.launch "s"(%a) -> (%0) collective over <"ep", 2, 1> : (!a) -> !t
  plan.launch "s"(%b) -> (%1) collective over <"ep", 2, 1> : (!a) -> !t
  plan.launch "c"(%0) -> (%r) : (!t) -> !a
  plan.launch "s"(%c) -> (%2) collective over <"ep", 2, 1> : (!a) -> !t
  plan.launch "c"(%1) -> (%s) : (!t) -> !a
  plan.launch "c"(%2) -> (%u) : (!t) -> !a
  return
}

// One place: every exchange waits for all readers of the buffer before, of parts of it too. The copy over the host's link
// has a stream of its own.
// CHECK-LABEL: func.func @one
// CHECK: plan.launch "s"(%arg0
// CHECK: plan.launch "c"{{.*}} on "compute"
// CHECK-NEXT: plan.record [[C:[0-9]+]] on "compute"
// CHECK: plan.launch "offload"{{.*}} on "copy"
// CHECK-NEXT: plan.record [[O:[0-9]+]] on "copy"
// CHECK-DAG: plan.wait [[C]] on "comm.intra"
// CHECK-DAG: plan.wait [[O]] on "comm.intra"
// CHECK: plan.launch "s"(%arg1
// MEMORY-LABEL: func.func @one
// MEMORY-SAME: plan.arenas = {device = 256 : i64
func.func @one(%a: !a, %b: !a, %r: memref<2x16xf32>, %s: !a, %u: !a) attributes {plan.inputs = 2 : i64} {
  %0 = plan.buffer {ring = #moe.ring<"in", 1>} : !t
  %1 = plan.buffer {ring = #moe.ring<"in", 1>} : !t
  %2 = plan.view %0 part 1 of 2 : !t -> !h
  plan.launch "s"(%a) -> (%0) collective over <"ep", 2, 1> : (!a) -> !t
  plan.launch "c"(%2) -> (%r) : (!h) -> memref<2x16xf32>
  plan.launch "offload"(%0) -> (%s) {cost = #plan.cost<host_link, read = 256>} : (!t) -> !a
  plan.launch "s"(%b) -> (%1) collective over <"ep", 2, 1> : (!a) -> !t
  plan.launch "c"(%1) -> (%u) : (!t) -> !a
  return
}

// -----

!a = memref<8x4xf32>
!h = memref<4x4xf32>
!q = memref<2x4xf32>
!t = memref<8x4xf32, #plan<space device>>
!u = memref<4x4xf32, #plan<space device>>
!v = memref<2x4xf32, #plan<space device>>

// Parts that are the same on all ranks and do not overlap have nothing to do with each other; a view of a view is where it
// is; a part that depends on the rank counts as all that it is part of, here the second half.
// CHECK-LABEL: func.func @parts
// CHECK: plan.launch "scale"{{.*}} on "compute"
// CHECK-NEXT: plan.launch "all_reduce"{{.*}} on "comm.intra"
// CHECK-NEXT: plan.record 0 on "comm.intra"
// CHECK-NEXT: plan.launch "scale"{{.*}} on "compute"
// CHECK-NEXT: plan.wait 0 on "compute"
// CHECK-NEXT: plan.launch "scale"{{.*}} on "compute"
// CHECK-NEXT: plan.launch "copy"{{.*}} on "compute"
// CHECK-NEXT: return
// MEMORY-LABEL: func.func @parts
func.func @parts(%a: !h, %b: !q, %r: !q, %s: !q, %x: !a) attributes {plan.inputs = 2 : i64} {
  %0 = plan.buffer : !t
  %1 = plan.view %0 part 0 of 2 : !t -> !u
  %2 = plan.view %0 part 1 of 2 : !t -> !u
  %3 = plan.view %1 part 1 of 2 : !u -> !v
  %4 = plan.view %2 part 0 of 2 over <"ep", 2, 1> : !u -> !v
  plan.launch "scale"(%a) -> (%1) : (!h) -> !u
  plan.launch "all_reduce"(%a) -> (%2) collective over <"mp", 2, 1> : (!h) -> !u
  plan.launch "scale"(%3) -> (%r) : (!v) -> !q
  plan.launch "scale"(%4) -> (%s) : (!v) -> !q
  plan.launch "copy"(%0) -> (%x) : (!t) -> !a
  return
}
