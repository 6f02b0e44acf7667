// RUN: moe-opt %s -split-input-file --plan-assign-memory --plan-verify | FileCheck %s
// RUN: moe-opt %s -split-input-file --plan-assign-memory=alignment=64 --plan-verify | FileCheck %s --check-prefix=ALIGN

!t = memref<16x4xf32, #plan<space device>>
!h = memref<8x4xf32, #plan<space device>>

// On one stream a dead buffer's bytes are used again: 0 and 2 share, 1 lies beside both.
// CHECK-LABEL: func.func @reuse
// CHECK-SAME: plan.arenas = {device = 512 : i64, host_pinned = 0 : i64}
// CHECK-NEXT: plan.buffer {offset = 0 : i64}
// CHECK-NEXT: plan.buffer {offset = 256 : i64}
// CHECK-NEXT: plan.buffer {offset = 0 : i64}
// ALIGN-LABEL: func.func @reuse
func.func @reuse(%a: memref<16x4xf32>, %r: memref<16x4xf32>) attributes {plan.inputs = 1 : i64} {
  %0 = plan.buffer : !t
  %1 = plan.buffer : !t
  %2 = plan.buffer : !t
  plan.launch "f"(%a) -> (%0) on "compute" : (memref<16x4xf32>) -> !t
  plan.launch "f"(%0) -> (%1) on "compute" : (!t) -> !t
  plan.launch "f"(%1) -> (%2) on "compute" : (!t) -> !t
  plan.launch "f"(%2) -> (%r) on "compute" : (!t) -> memref<16x4xf32>
  return
}

// The same dead buffer on another stream: nothing says that copy is done when compute starts to write %1.
// CHECK-LABEL: func.func @unordered
// CHECK-SAME: plan.arenas = {device = 512 : i64, host_pinned = 0 : i64}
// CHECK-NEXT: plan.buffer {offset = 0 : i64}
// CHECK-NEXT: plan.buffer {offset = 256 : i64}
// ALIGN-LABEL: func.func @unordered
func.func @unordered(%a: memref<16x4xf32>, %r: memref<16x4xf32>, %s: memref<16x4xf32>) attributes {plan.inputs = 1 : i64} {
  %0 = plan.buffer : !t
  %1 = plan.buffer : !t
  plan.launch "f"(%a) -> (%0) on "copy" : (memref<16x4xf32>) -> !t
  plan.launch "f"(%0) -> (%r) on "copy" : (!t) -> memref<16x4xf32>
  plan.launch "f"(%a) -> (%1) on "compute" : (memref<16x4xf32>) -> !t
  plan.launch "f"(%1) -> (%s) on "compute" : (!t) -> memref<16x4xf32>
  return
}

// With an event between the two streams they share.
// CHECK-LABEL: func.func @ordered
// CHECK-SAME: plan.arenas = {device = 256 : i64, host_pinned = 0 : i64}
// CHECK-NEXT: plan.buffer {offset = 0 : i64}
// CHECK-NEXT: plan.buffer {offset = 0 : i64}
// ALIGN-LABEL: func.func @ordered
func.func @ordered(%a: memref<16x4xf32>, %r: memref<16x4xf32>, %s: memref<16x4xf32>) attributes {plan.inputs = 1 : i64} {
  %0 = plan.buffer : !t
  %1 = plan.buffer : !t
  plan.launch "f"(%a) -> (%0) on "copy" : (memref<16x4xf32>) -> !t
  plan.launch "f"(%0) -> (%r) on "copy" : (!t) -> memref<16x4xf32>
  plan.record 0 on "copy"
  plan.wait 0 on "compute"
  plan.launch "f"(%a) -> (%1) on "compute" : (memref<16x4xf32>) -> !t
  plan.launch "f"(%1) -> (%s) on "compute" : (!t) -> memref<16x4xf32>
  return
}

// A chain in place: each output takes the memory of the input that dies in its launch, the smaller one too.
// CHECK-LABEL: func.func @in_place
// CHECK-SAME: plan.arenas = {device = 256 : i64, host_pinned = 0 : i64}
// CHECK-COUNT-3: plan.buffer {offset = 0 : i64}
// ALIGN-LABEL: func.func @in_place
func.func @in_place(%a: memref<16x4xf32>, %r: memref<8x4xf32>) attributes {plan.inputs = 1 : i64} {
  %0 = plan.buffer : !t
  %1 = plan.buffer : !t
  %2 = plan.buffer : !h
  plan.launch "f"(%a) -> (%0) on "compute" : (memref<16x4xf32>) -> !t
  plan.launch "f"(%0) -> (%1) on "compute" {in_place = array<i64: 0>} : (!t) -> !t
  plan.launch "f"(%1) -> (%2) on "compute" {in_place = array<i64: 0>} : (!t) -> !h
  plan.launch "f"(%2) -> (%r) on "compute" : (!h) -> memref<8x4xf32>
  return
}

// These values cannot be in place: an input with a later use, an argument, one that is too small, one that is also read elsewhere.
// CHECK-LABEL: func.func @not_in_place
// CHECK-SAME: plan.arenas = {device = 640 : i64, host_pinned = 0 : i64}
// CHECK-NEXT: plan.buffer {offset = 0 : i64}
// CHECK-NEXT: plan.buffer {offset = 256 : i64}
// CHECK-NEXT: plan.buffer {offset = 512 : i64}
// CHECK-NEXT: plan.buffer {offset = 0 : i64}
// CHECK-NEXT: plan.buffer {offset = 256 : i64}
// ALIGN-LABEL: func.func @not_in_place
func.func @not_in_place(%a: memref<16x4xf32>, %r: memref<16x4xf32>) attributes {plan.inputs = 1 : i64} {
  %0 = plan.buffer : !t
  %1 = plan.buffer : !t
  %2 = plan.buffer : !h
  %3 = plan.buffer : !t
  %4 = plan.buffer : !t
  plan.launch "argument"(%a) -> (%0) on "compute" {in_place = array<i64: 0>} : (memref<16x4xf32>) -> !t
  plan.launch "later"(%0) -> (%1) on "compute" {in_place = array<i64: 0>} : (!t) -> !t
  plan.launch "narrow"(%0, %1) -> (%2) on "compute" : (!t, !t) -> !h
  plan.launch "small"(%2) -> (%3) on "compute" {in_place = array<i64: 0>} : (!h) -> !t
  plan.launch "elsewhere"(%3, %3) -> (%4) on "compute" {in_place = array<i64: 0>} : (!t, !t) -> !t
  plan.launch "last"(%4) -> (%r) on "compute" : (!t) -> memref<16x4xf32>
  return
}

// In place across streams: the input's other reader on copy may still run, so it stays; once waited for, it may go.
// CHECK-LABEL: func.func @in_place_streams
// CHECK-NEXT: %{{.*}} = plan.buffer {offset = 0 : i64}
// CHECK-NEXT: %{{.*}} = plan.buffer {offset = 256 : i64}
// CHECK-NEXT: %{{.*}} = plan.buffer {offset = 256 : i64}
// ALIGN-LABEL: func.func @in_place_streams
func.func @in_place_streams(%a: memref<16x4xf32>, %r: memref<16x4xf32>, %s: memref<16x4xf32>)
    attributes {plan.inputs = 1 : i64} {
  %0 = plan.buffer : !t
  %1 = plan.buffer : !t
  %2 = plan.buffer : !t
  plan.launch "f"(%a) -> (%0) on "compute" : (memref<16x4xf32>) -> !t
  plan.record 0 on "compute"
  plan.wait 0 on "copy"
  plan.launch "f"(%0) -> (%r) on "copy" : (!t) -> memref<16x4xf32>
  plan.launch "f"(%0) -> (%1) on "compute" {in_place = array<i64: 0>} : (!t) -> !t
  plan.launch "f"(%1) -> (%2) on "compute" {in_place = array<i64: 0>} : (!t) -> !t
  plan.launch "f"(%2) -> (%s) on "compute" : (!t) -> memref<16x4xf32>
  return
}

// Largest first, each at the lowest aligned gap, each memory space by itself.
// CHECK-LABEL: func.func @first_fit
// CHECK-SAME: plan.arenas = {device = 1540 : i64, host_pinned = 16 : i64}
// CHECK-NEXT: plan.buffer {offset = 1280 : i64} : memref<1xf32
// CHECK-NEXT: plan.buffer {offset = 0 : i64} : memref<257xf32
// CHECK-NEXT: plan.buffer {offset = 1536 : i64} : memref<1xi32
// CHECK-NEXT: plan.buffer {offset = 0 : i64} : memref<2xf64
// ALIGN-LABEL: func.func @first_fit
// ALIGN-SAME: plan.arenas = {device = 1156 : i64, host_pinned = 16 : i64}
// ALIGN-NEXT: plan.buffer {offset = 1088 : i64} : memref<1xf32
// ALIGN-NEXT: plan.buffer {offset = 0 : i64} : memref<257xf32
// ALIGN-NEXT: plan.buffer {offset = 1152 : i64} : memref<1xi32
// ALIGN-NEXT: plan.buffer {offset = 0 : i64} : memref<2xf64
func.func @first_fit() {
  %0 = plan.buffer : memref<1xf32, #plan<space device>>
  %1 = plan.buffer : memref<257xf32, #plan<space device>>
  %2 = plan.buffer : memref<1xi32, #plan<space device>>
  %3 = plan.buffer : memref<2xf64, #plan<space host_pinned>>
  plan.launch "f"() -> (%0, %1, %2, %3) on "compute"
    : () -> (memref<1xf32, #plan<space device>>, memref<257xf32, #plan<space device>>, memref<1xi32, #plan<space device>>,
             memref<2xf64, #plan<space host_pinned>>)
  return
}

// -----

!t = memref<8x4xf32, #plan<space device>>
!h = memref<4x4xf32, #plan<space device>>

// A buffer lives as long as what is part of it: from the first write of a part to the last read of one. %3, between them, cannot
// have its bytes; %4, behind them, has.
// CHECK-LABEL: func.func @views
// CHECK-SAME: plan.arenas = {device = 384 : i64, host_pinned = 0 : i64}
// CHECK-NEXT: %[[B:.*]] = plan.buffer {offset = 0 : i64} : memref<8x4xf32
// CHECK-NEXT: plan.view %[[B]] part 0 of 2
// CHECK-NEXT: plan.view %[[B]] part 1 of 2
// CHECK-NEXT: plan.buffer {offset = 256 : i64} : memref<8x4xf32
// CHECK-NEXT: plan.buffer {offset = 0 : i64} : memref<8x4xf32
// ALIGN-LABEL: func.func @views
func.func @views(%a: memref<4x4xf32>, %b: memref<8x4xf32>, %r: memref<4x4xf32>, %s: memref<8x4xf32>) attributes {plan.inputs = 2 : i64} {
  %0 = plan.buffer : !t
  %1 = plan.view %0 part 0 of 2 over <"mp", 2, 1> : !t -> !h
  %2 = plan.view %0 part 1 of 2 over <"mp", 2, 1> : !t -> !h
  %3 = plan.buffer : !t
  %4 = plan.buffer : !t
  plan.launch "f"(%a) -> (%1) on "compute" : (memref<4x4xf32>) -> !h
  plan.launch "f"(%b) -> (%3) on "compute" : (memref<8x4xf32>) -> !t
  plan.launch "f"(%a) -> (%2) on "compute" : (memref<4x4xf32>) -> !h
  plan.launch "f"(%1, %2) -> (%r) on "compute" : (!h, !h) -> memref<4x4xf32>
  plan.launch "f"(%3) -> (%4) on "compute" : (!t) -> !t
  plan.launch "f"(%4) -> (%s) on "compute" : (!t) -> memref<8x4xf32>
  return
}

// In place of a part: what it is part of is more, and still read, so that the output gets other bytes. In place of all of
// a buffer it can, once nobody reads a part of it any more.
// CHECK-LABEL: func.func @views_in_place
// CHECK-SAME: plan.arenas = {device = 320 : i64, host_pinned = 0 : i64}
// CHECK:      %[[B:.*]] = plan.buffer {offset = 0 : i64} : memref<8x4xf32
// CHECK-NEXT: plan.view %[[B]]
// CHECK-NEXT: plan.buffer {offset = 256 : i64} : memref<4x4xf32
// CHECK-NEXT: plan.buffer {offset = 0 : i64} : memref<8x4xf32
// ALIGN-LABEL: func.func @views_in_place
func.func @views_in_place(%a: memref<8x4xf32>, %r: memref<4x4xf32>, %s: memref<8x4xf32>) attributes {plan.inputs = 1 : i64} {
  %0 = plan.buffer : !t
  %1 = plan.view %0 part 0 of 2 over <"mp", 2, 1> : !t -> !h
  %2 = plan.buffer : !h
  %3 = plan.buffer : !t
  plan.launch "f"(%a) -> (%0) on "compute" : (memref<8x4xf32>) -> !t
  plan.launch "f"(%1) -> (%2) on "compute" {in_place = array<i64: 0>} : (!h) -> !h
  plan.launch "f"(%2) -> (%r) on "compute" : (!h) -> memref<4x4xf32>
  plan.launch "f"(%0) -> (%3) on "compute" {in_place = array<i64: 0>} : (!t) -> !t
  plan.launch "f"(%3) -> (%s) on "compute" : (!t) -> memref<8x4xf32>
  return
}
