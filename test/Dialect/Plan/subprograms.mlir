// RUN: moe-opt %s --pass-pipeline="builtin.module(plan-assign-subprograms,func.func(plan-assign-streams),func.func(plan-assign-memory),plan-verify)" \
// RUN:   | FileCheck %s
// RUN: moe-opt %s --pass-pipeline="builtin.module(plan-assign-subprograms,func.func(plan-assign-streams),func.func(plan-assign-memory),plan-verify)" \
// RUN:   | moe-opt --convert-plan-to-llvm | FileCheck %s --check-prefix=LLVM

// A subprogram has streams and memory of its own. Its streams begin behind `compute`, which ends behind them. The launch has memory for its
// arena, which other values may share before and behind it.
// CHECK-LABEL: func.func @rank(
// CHECK-SAME:  plan.arenas = {device = 260 : i64
// CHECK:       [[TIMES:%[0-9]+]] = plan.buffer {offset = 256 : i64} : memref<1xi32
// CHECK:       [[ARENA:%[0-9]+]] = plan.buffer {offset = 0 : i64} : memref<16xi32
// CHECK:       plan.launch "repeat"([[TIMES]], %arg1) -> (%arg1, [[ARENA]]) params [3] on "compute"
// CHECK-LABEL: func.func private @twice(
// CHECK-SAME:  plan.arenas = {device = 64 : i64
// CHECK-NEXT:  plan.record [[BEGIN:[0-9]+]] on "compute"
// CHECK-NEXT:  plan.wait [[BEGIN]] on "comm.intra"
// CHECK:       plan.launch "all_reduce"
// CHECK:       plan.launch "add"
// CHECK-NEXT:  plan.record [[END:[0-9]+]] on "comm.intra"
// CHECK-NEXT:  plan.wait [[END]] on "compute"
// CHECK-NEXT:  return

// LLVM-NOT: @twice
// LLVM: llvm.func @moert_repeat(!llvm.ptr, !llvm.ptr, i64, i64, !llvm.ptr) -> i32
// LLVM-LABEL: llvm.func @moeplan_rank(
// LLVM: llvm.call @moert_repeat
// LLVM: llvm.call @moert_iteration
// LLVM: llvm.call @moeplan_run
// LLVM: llvm.call @moert_iteration
module attributes {moe.cluster = #moe.cluster<node_ranks = 8>, moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  func.func @rank(%n: memref<1xi32>, %x: memref<16xf32>) attributes {plan.inputs = 2 : i64} {
    %0 = plan.buffer : memref<1xi32, #plan<space device>>
    plan.launch "copy"(%n) -> (%0) {cost = #plan.cost<memory>} : (memref<1xi32>) -> memref<1xi32, #plan<space device>>
    plan.launch "repeat"(%0, %x) -> (%x) params [3] {cost = #plan.cost<none>, plan.program = @twice}
      : (memref<1xi32, #plan<space device>>, memref<16xf32>) -> memref<16xf32>
    return
  }
  func.func private @twice(%x: memref<16xf32>) attributes {plan.inputs = 1 : i64, plan.subprogram} {
    %0 = plan.buffer : memref<16xf32, #plan<space device>>
    plan.launch "all_reduce"(%x) -> (%0) collective over <"ep", 2, 1> {absent = array<i64: 1>, cost = #plan.cost<network, collective = all_reduce, payload = 64>}
      : (memref<16xf32>) -> memref<16xf32, #plan<space device>>
    plan.launch "add"(%x, %0) -> (%x) {cost = #plan.cost<memory>, in_place = array<i64: 0, 1>}
      : (memref<16xf32>, memref<16xf32, #plan<space device>>) -> memref<16xf32>
    return
  }
}
