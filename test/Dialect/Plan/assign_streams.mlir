// RUN: moe-opt %s -split-input-file --plan-assign-streams | FileCheck %s
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 2>'},func.func(plan-assign-streams))" | FileCheck %s --check-prefix=NODE2

!t = memref<4xf32, #plan<space device>>

// A collective between two computations: one event each way.
// CHECK-LABEL: func.func @chain
// CHECK:      plan.launch "scale"{{.*}} on "compute"
// CHECK-NEXT: plan.record 0 on "compute"
// CHECK-NEXT: plan.wait 0 on "comm.intra"
// CHECK-NEXT: plan.launch "all_reduce"{{.*}} on "comm.intra"
// CHECK-NEXT: plan.record 1 on "comm.intra"
// CHECK-NEXT: plan.wait 1 on "compute"
// CHECK-NEXT: plan.launch "copy"{{.*}} on "compute"
// CHECK-NEXT: return
// NODE2-LABEL: func.func @chain
// NODE2: plan.launch "all_reduce"{{.*}} on "comm.inter"
func.func @chain(%a: memref<4xf32>, %r: memref<4xf32>) {
  %0 = plan.buffer : !t
  %1 = plan.buffer : !t
  plan.launch "scale"(%a) -> (%0) params [2.0] : (memref<4xf32>) -> !t
  plan.launch "all_reduce"(%0) -> (%1) collective over <"ep", 2, 4> : (!t) -> !t
  plan.launch "copy"(%1) -> (%r) : (!t) -> memref<4xf32>
  return
}

// A group across nodes and a slice, which meets nobody: comm.inter and compute. Blocks of 3 ranks do not fit nodes of 8.
// CHECK-LABEL: func.func @groups
// CHECK: plan.launch "slice"{{.*}} on "compute"
// CHECK: plan.launch "all_gather"{{.*}} on "comm.inter"
// CHECK: plan.launch "all_reduce"{{.*}} on "comm.inter"
// NODE2-LABEL: func.func @groups
// NODE2: plan.launch "slice"{{.*}} on "compute"
func.func @groups(%a: memref<4xf32>, %r: memref<4xf32>, %s: memref<4xf32>) {
  %0 = plan.buffer : memref<2xf32, #plan<space device>>
  plan.launch "slice"(%a) -> (%0) params [0] over <"dp", 2, 8>
    : (memref<4xf32>) -> memref<2xf32, #plan<space device>>
  plan.launch "all_gather"(%0) -> (%r) params [0] collective over <"dp", 2, 8>
    : (memref<2xf32, #plan<space device>>) -> memref<4xf32>
  plan.launch "all_reduce"(%a) -> (%s) collective over <"three", 3, 1> {absent = array<i64: 1>}
    : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

!t = memref<4xf32, #plan<space device>>

// A whole world inside one node: intra whatever the blocks are.
// CHECK-LABEL: func.func @one_node
// CHECK: plan.launch "all_reduce"{{.*}} on "comm.intra"
// NODE2-LABEL: func.func @one_node
// NODE2: plan.launch "all_reduce"{{.*}} on "comm.inter"
module attributes {moe.parallel = #moe.parallel<world = 6, pp = 1, dp = 6, mp = 1, ep = 3, esp = 1>} {
  func.func @one_node(%a: memref<4xf32>, %s: memref<4xf32>) {
    plan.launch "all_reduce"(%a) -> (%s) collective over <"ep", 3, 1> : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

!t = memref<4xf32, #plan<space device>>

// The second launch on the copy stream needs the first scale, which the wait for the later one implies; and a wait for two
// launches of one stream is a wait for the later one.
// CHECK-LABEL: func.func @implied
// CHECK:      plan.launch "scale"{{.*}} on "compute"
// CHECK-NEXT: plan.launch "scale"{{.*}} on "compute"
// CHECK-NEXT: plan.record 0 on "compute"
// CHECK-NEXT: plan.wait 0 on "copy"
// CHECK-NEXT: plan.launch "add"{{.*}} on "copy"
// CHECK-NEXT: plan.launch "copy"{{.*}} on "copy"
// CHECK-NEXT: return
// NODE2-LABEL: func.func @implied
func.func @implied(%a: memref<4xf32>, %r: memref<4xf32>, %s: memref<4xf32>) {
  %0 = plan.buffer : !t
  %1 = plan.buffer : !t
  plan.launch "scale"(%a) -> (%0) params [2.0] : (memref<4xf32>) -> !t
  plan.launch "scale"(%a) -> (%1) params [3.0] : (memref<4xf32>) -> !t
  plan.launch "add"(%0, %1) -> (%r) on "copy" : (!t, !t) -> memref<4xf32>
  plan.launch "copy"(%0) -> (%s) on "copy" : (!t) -> memref<4xf32>
  return
}

// Implied through a third stream: copy waits for comm, which has waited for compute.
// CHECK-LABEL: func.func @transitive
// CHECK-COUNT-2: plan.wait
// CHECK-NOT: plan.wait
// NODE2-LABEL: func.func @transitive
func.func @transitive(%a: memref<4xf32>, %r: memref<4xf32>) {
  %0 = plan.buffer : !t
  %1 = plan.buffer : !t
  plan.launch "scale"(%a) -> (%0) params [2.0] : (memref<4xf32>) -> !t
  plan.launch "all_reduce"(%0) -> (%1) collective over <"mp", 2, 1> : (!t) -> !t
  plan.launch "add"(%0, %1) -> (%r) on "copy" : (!t, !t) -> memref<4xf32>
  return
}

// Write after read and write after write, and a number that is in use is not given to another event.
// CHECK-LABEL: func.func @anti
// CHECK:      plan.record 4 on "copy"
// CHECK:      plan.launch "copy"{{.*}} on "copy"
// CHECK-NEXT: plan.record 5 on "copy"
// CHECK-NEXT: plan.wait 5 on "compute"
// CHECK-NEXT: plan.launch "scale"{{.*}} on "compute"
// CHECK-NEXT: plan.record 6 on "compute"
// CHECK-NEXT: plan.wait 6 on "copy"
// CHECK-NEXT: plan.launch "scale"{{.*}} on "copy"
// NODE2-LABEL: func.func @anti
func.func @anti(%a: memref<4xf32>, %r: memref<4xf32>) {
  %0 = plan.buffer : !t
  plan.launch "scale"(%a) -> (%0) params [2.0] on "copy" : (memref<4xf32>) -> !t
  plan.record 4 on "copy"
  plan.launch "copy"(%0) -> (%r) on "copy" : (!t) -> memref<4xf32>
  plan.launch "scale"(%a) -> (%0) params [3.0] : (memref<4xf32>) -> !t
  plan.launch "scale"(%a) -> (%0) params [4.0] on "copy" : (memref<4xf32>) -> !t
  return
}

// -----

!t = memref<8x4xf32, #plan<space device>>
!h = memref<4x4xf32, #plan<space device>>

// A write to a part is a write to the memory: a reader of the whole waits for the last part, and the next writer of a part waits
// for that reader.
// CHECK-LABEL: func.func @views
// CHECK:      plan.launch "all_to_all"{{.*}} on "comm.intra"
// CHECK-NEXT: plan.launch "all_to_all"{{.*}} on "comm.intra"
// CHECK-NEXT: plan.record 0 on "comm.intra"
// CHECK-NEXT: plan.wait 0 on "compute"
// CHECK-NEXT: plan.launch "add"{{.*}} on "compute"
// CHECK-NEXT: plan.record 1 on "compute"
// CHECK-NEXT: plan.wait 1 on "comm.intra"
// CHECK-NEXT: plan.launch "all_gather"{{.*}} on "comm.intra"
// CHECK-NEXT: return
// NODE2-LABEL: func.func @views
func.func @views(%a: memref<4x4xf32>, %b: memref<2x4xf32>, %r: memref<8x4xf32>, %s: memref<8x4xf32>) {
  %0 = plan.buffer : !t
  %1 = plan.view %0 part 0 of 2 over <"ep", 4, 1> : !t -> !h
  %2 = plan.view %0 part 1 of 2 over <"ep", 4, 1> : !t -> !h
  plan.launch "all_to_all"(%a) -> (%1) collective over <"ep", 4, 1> : (memref<4x4xf32>) -> !h
  plan.launch "all_to_all"(%a) -> (%2) collective over <"ep", 4, 1> : (memref<4x4xf32>) -> !h
  plan.launch "add"(%0) -> (%r) : (!t) -> memref<8x4xf32>
  plan.launch "all_gather"(%b) -> (%1) collective over <"mp", 2, 1> : (memref<2x4xf32>) -> !h
  return
}

// A read of a part waits for the write of all, also of an argument; two readers of parts wait for nobody.
// CHECK-LABEL: func.func @read_part
// CHECK:      plan.launch "scale"{{.*}} on "compute"
// CHECK-NEXT: plan.record 0 on "compute"
// CHECK-NEXT: plan.wait 0 on "comm.intra"
// CHECK-NEXT: plan.launch "all_reduce"{{.*}} on "comm.intra"
// CHECK-NEXT: plan.launch "copy"{{.*}} on "compute"
// CHECK-NEXT: return
// NODE2-LABEL: func.func @read_part
func.func @read_part(%x: memref<8x4xf32>, %r: memref<8x4xf32>, %s: memref<4x4xf32>, %u: memref<4x4xf32>) {
  %0 = plan.view %r part 0 of 2 over <"ep", 4, 1> : memref<8x4xf32> -> memref<4x4xf32>
  %1 = plan.view %r part 1 of 2 over <"ep", 4, 1> : memref<8x4xf32> -> memref<4x4xf32>
  plan.launch "scale"(%x) -> (%r) : (memref<8x4xf32>) -> memref<8x4xf32>
  plan.launch "all_reduce"(%0) -> (%s) collective over <"mp", 2, 1> : (memref<4x4xf32>) -> memref<4x4xf32>
  plan.launch "copy"(%1) -> (%u) : (memref<4x4xf32>) -> memref<4x4xf32>
  return
}

// -----

!t = memref<4xf32, #plan<space device>>

// Two values at most are under way to another stage, and two from it: computation behind the third send waits for the first one, and the
// third receive for the computation that was there before the first one.
// CHECK-LABEL: func.func @flow
// CHECK:      plan.launch "scale"{{.*}} on "compute"
// CHECK:      plan.launch "receive"{{.*}} on "comm.receive.0"
// CHECK:      plan.launch "send"{{.*}} on "comm.send.2"
// CHECK-NEXT: plan.record [[SENT:[0-9]+]] on "comm.send.2"
// CHECK:      plan.launch "receive"{{.*}} on "comm.receive.0"
// CHECK:      plan.launch "send"{{.*}} on "comm.send.2"
// CHECK:      plan.wait {{[0-9]+}} on "comm.receive.0"
// CHECK-NEXT: plan.launch "receive"{{.*}} on "comm.receive.0"
// CHECK:      plan.launch "send"{{.*}} on "comm.send.2"
// CHECK-DAG:  plan.wait [[SENT]] on "compute"
// CHECK:      plan.launch "scale"{{.*}} on "compute"
func.func @flow(%a: memref<4xf32>, %r: memref<4xf32>) {
  %0 = plan.buffer : !t
  %1 = plan.buffer : !t
  %2 = plan.buffer : !t
  %3 = plan.buffer : !t
  %4 = plan.buffer : !t
  %5 = plan.buffer : !t
  %6 = plan.buffer : !t
  plan.launch "scale"(%a) -> (%0) params [2.0] : (memref<4xf32>) -> !t
  plan.launch "receive"() -> (%1) collective over <"pp", 3, 1> with 0 : () -> !t
  plan.launch "scale"(%1) -> (%2) params [2.0] : (!t) -> !t
  plan.launch "send"(%2) -> () collective over <"pp", 3, 1> with 2 : (!t) -> ()
  plan.launch "receive"() -> (%3) collective over <"pp", 3, 1> with 0 : () -> !t
  plan.launch "scale"(%3) -> (%4) params [2.0] : (!t) -> !t
  plan.launch "send"(%4) -> () collective over <"pp", 3, 1> with 2 : (!t) -> ()
  plan.launch "receive"() -> (%5) collective over <"pp", 3, 1> with 0 : () -> !t
  plan.launch "scale"(%5) -> (%6) params [2.0] : (!t) -> !t
  plan.launch "send"(%6) -> () collective over <"pp", 3, 1> with 2 : (!t) -> ()
  plan.launch "scale"(%0) -> (%r) params [2.0] : (!t) -> memref<4xf32>
  return
}

// -----

!s = memref<2xf32>
!t = memref<4xf32, #plan<space device>>

// Gathers of arguments that are gathered again wait for the computation before the gathers of the block before, also those inside the
// block: the parameters of one block are gathered ahead.
// CHECK-LABEL: func.func @gather_ahead
// CHECK:      plan.launch "scale"
// CHECK-NEXT: plan.record [[START:[0-9]+]] on "compute"
// CHECK:      plan.launch "all_gather"{{.*}}"layer0.ffn"
// CHECK:      plan.launch "scale"
// CHECK-NEXT: plan.record [[FIRST:[0-9]+]] on "compute"
// CHECK-NEXT: plan.wait [[START]] on "comm.intra"
// CHECK-NEXT: plan.launch "all_gather"{{.*}}"layer1"
// CHECK:      plan.launch "scale"
// CHECK-NEXT: plan.launch "all_gather"{{.*}}"layer1.ffn"
// CHECK:      plan.launch "scale"
// CHECK-NEXT: plan.wait [[FIRST]] on "comm.intra"
// CHECK-NEXT: plan.launch "all_gather"{{.*}}"layer2"
func.func @gather_ahead(%a: !s, %b: !s, %r: memref<4xf32>) {
  %0 = plan.buffer : !t
  %1 = plan.buffer : !t
  %2 = plan.buffer : !t
  %3 = plan.buffer : !t
  %4 = plan.buffer : !t
  %5 = plan.buffer : !t
  %6 = plan.buffer : !t
  %7 = plan.buffer : !t
  %8 = plan.buffer : !t
  %9 = plan.buffer : !t
  plan.launch "scale"(%r) -> (%0) params [2.0] : (memref<4xf32>) -> !t
  plan.launch "all_gather"(%a) -> (%1) params [0] collective over <"dp", 2, 1>
    {label = "layer0", cost = #plan.cost<network, read = 8, written = 16, collective = all_gather, payload = 16>} : (!s) -> !t
  plan.launch "scale"(%1) -> (%2) params [2.0] : (!t) -> !t
  plan.launch "all_gather"(%b) -> (%3) params [0] collective over <"dp", 2, 1>
    {label = "layer0.ffn", cost = #plan.cost<network, read = 8, written = 16, collective = all_gather, payload = 16>} : (!s) -> !t
  plan.launch "scale"(%3) -> (%4) params [2.0] : (!t) -> !t
  plan.launch "all_gather"(%a) -> (%5) params [0] collective over <"dp", 2, 1>
    {label = "layer1", cost = #plan.cost<network, read = 8, written = 16, collective = all_gather, payload = 16>} : (!s) -> !t
  plan.launch "scale"(%5) -> (%6) params [2.0] : (!t) -> !t
  plan.launch "all_gather"(%b) -> (%7) params [0] collective over <"dp", 2, 1>
    {label = "layer1.ffn", cost = #plan.cost<network, read = 8, written = 16, collective = all_gather, payload = 16>} : (!s) -> !t
  plan.launch "scale"(%7) -> (%8) params [2.0] : (!t) -> !t
  plan.launch "all_gather"(%a) -> (%9) params [0] collective over <"dp", 2, 1>
    {label = "layer2", cost = #plan.cost<network, read = 8, written = 16, collective = all_gather, payload = 16>} : (!s) -> !t
  plan.launch "scale"(%9) -> (%r) params [2.0] : (!t) -> memref<4xf32>
  return
}
