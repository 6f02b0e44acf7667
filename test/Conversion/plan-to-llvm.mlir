// RUN: moe-opt %s --convert-plan-to-llvm | FileCheck %s
// RUN: moe-opt %s --convert-plan-to-llvm | FileCheck %s --check-prefix=META

!x = memref<4x8xf32>
!w = memref<8x16xf32>
!t = memref<4x16xf32, #plan<space device>>

module attributes {
  moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>,
  plan.schedule = "s1", plan.mode = "forward"} {

  // The calls that the programs make, each declared once.
  // CHECK-DAG: llvm.func @moert_matmul(!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64, i64) -> i32
  // CHECK-DAG: llvm.func @moert_all_reduce(!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64) -> i32
  // CHECK-DAG: llvm.func @moert_scale(!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, f64, i64) -> i32
  // CHECK-DAG: llvm.func @moert_assume_replicated(!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i64) -> i32
  // CHECK-DAG: llvm.func @moert_record(!llvm.ptr, i64, i64) -> i32
  // CHECK-DAG: llvm.func @moert_wait(!llvm.ptr, i64, i64) -> i32

  // A row for each op: the kind of its call, and its buffers or its event. The copy of a buffer has the number of the first.
  // CHECK:      llvm.mlir.global internal constant @moeplan_rank_rows(
  // CHECK-SAME:   dense<[0, 0, 1, 2, 1, 6, 2, 6, 3, 2, 2, 4, 2, 5, 2, 3]>

  // Buffers, as moert_buffer has them: space and type, the argument's number or the offset, rank 2, the shape, and no part of anything.
  // CHECK:      llvm.mlir.global internal constant @moeplan_rank_buffers(
  // CHECK-SAME:   dense<{{\[\[}}2, 0, 2, 4, 8, 0, 0, 0, 0, 1, 0], [2, 1, 2, 8, 16, 0, 0, 0, 0, 1, 0], [0, 512, 2, 4, 16, 0, 0, 0, 0, 1, 0],
  // CHECK-SAME:   [2, 2, 2, 4, 16, 0, 0, 0, 0, 1, 0]]> : tensor<4x11xi64>

  // All rows run, once, as iteration 0; the first op is number 0.
  // CHECK-LABEL: llvm.func @moeplan_rank
  // CHECK-SAME:  %[[R:.*]]: !llvm.ptr) -> i32
  // CHECK:       %[[ROWS:.*]] = llvm.mlir.addressof @moeplan_rank_rows
  // CHECK:       %[[LENGTH:.*]] = llvm.mlir.constant(16 : i64)
  // CHECK:       %[[END:.*]] = llvm.getelementptr %[[ROWS]][%[[LENGTH]]]
  // CHECK:       %[[BUFFERS:.*]] = llvm.mlir.addressof @moeplan_rank_buffers
  // CHECK:       %[[STATUS:.*]] = llvm.call @moeplan_run(%[[R]], %{{[^,]*}}, %[[END]], %[[BUFFERS]], %{{[^,]*}}, %{{[^,]*}})
  // CHECK:       %[[FAILED:.*]] = llvm.icmp "ne" %[[STATUS]]
  // CHECK:       llvm.cond_br %[[FAILED]], ^{{.*}}(%[[STATUS]] : i32), ^
  func.func @rank(%x: !x {moe.name = "x", moe.role = "input", moe.layout = #moe.layout<[dp], []>},
                  %w: !w {moe.name = "w", moe.role = "parameter", moe.layout = #moe.layout<[], [ep, esp]>},
                  %y: memref<4x16xf32> {moe.name = "y", moe.role = "output", moe.layout = #moe.layout<[dp], []>})
      attributes {plan.inputs = 2 : i64, plan.arenas = {device = 768 : i64, host_pinned = 0 : i64}} {
    %0 = plan.buffer {offset = 512 : i64} : !t
    %1 = plan.buffer {offset = 512 : i64} : !t
    plan.launch "matmul"(%x, %w) -> (%0) params [0, 0] on "compute"
      {label = "layer0", cost = #plan.cost<matrix, flops = 1024.0, read = 640, written = 256, gemm = [1, 4, 16, 8]>} : (!x, !w) -> !t
    plan.record 6 on "compute"
    plan.wait 6 on "comm.intra"
    plan.launch "all_reduce"(%0) -> (%1) collective over <"mp", 2, 1> on "comm.intra"
      {absent = array<i64: 1>, cost = #plan.cost<network, read = 1, written = 2, collective = all_reduce, payload = 128, rows = 4, counts = 1>} : (!t) -> !t
    plan.launch "assume_replicated"(%1) -> () collective over <"mp", 2, 1> on "comm.intra" : (!t) -> ()
    plan.launch "scale"(%1) -> (%y) params [2.0] on "comm.intra" : (!t) -> memref<4x16xf32>
    return
  }

  // f64 is 1 in the upper half of the first number.
  // CHECK:       @moeplan_reference_rows(dense<[6, 0, 1]>
  // CHECK:       @moeplan_reference_buffers(dense<{{\[\[}}4294967298, 0, 2, 16, 8,
  // CHECK-LABEL: llvm.func @moeplan_reference
  // CHECK:         llvm.call @moeplan_run(
  func.func @reference(%x: memref<16x8xf64> {moe.name = "x"}, %y: memref<16x8xf64> {moe.name = "y", moe.layout = #moe.layout<[dp], []>})
      attributes {plan.inputs = 1 : i64, moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
    plan.launch "slice"(%x) -> (%y) params [0] over <"mp", 1, 1> on "compute" : (memref<16x8xf64>) -> memref<16x8xf64>
    return
  }
}

// CHECK: @moeplan_group_name0("mp\00")
// CHECK: @moeplan_group0()
// CHECK: @moeplan_group_name1("mp\00")

// A kind of call takes its buffers from the row; the rest is constant.
// CHECK:       llvm.func internal @moeplan_call0(%[[R:.*]]: !llvm.ptr, %[[OP:.*]]: i64, %[[ROW:.*]]: !llvm.ptr, %[[BUFFERS:.*]]: !llvm.ptr, %{{.*}}: i64) -> i32
// CHECK:         %[[AT:.*]] = llvm.getelementptr %[[ROW]][1]
// CHECK:         %[[LOADED:.*]] = llvm.load %[[AT]]
// CHECK:         %[[NUMBER:.*]] = llvm.zext %[[LOADED]]
// CHECK:         %[[X:.*]] = llvm.getelementptr %[[BUFFERS]][%[[NUMBER]]] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<11 x i64>
// CHECK:         %[[STATUS:.*]] = llvm.call @moert_matmul(%[[R]], %[[OP]], %[[X]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// CHECK:         llvm.return %[[STATUS]]
// CHECK:       llvm.func internal @moeplan_call1
// CHECK:         llvm.call @moert_record(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}})
// CHECK:       llvm.func internal @moeplan_call2
// CHECK:         llvm.call @moert_wait(

// The absent counts are null; the stream is the second to appear.
// CHECK:       llvm.func internal @moeplan_call3(%[[R:.*]]: !llvm.ptr, %[[OP:.*]]: i64,
// CHECK:         %[[NULL:.*]] = llvm.mlir.zero : !llvm.ptr
// CHECK:         %[[GROUP:.*]] = llvm.mlir.addressof @moeplan_group0
// CHECK:         %[[STREAM:.*]] = llvm.mlir.constant(1 : i64)
// CHECK:         llvm.call @moert_all_reduce(%[[R]], %[[OP]], %{{[^,]*}}, %[[NULL]], %{{[^,]*}}, %[[GROUP]], %[[STREAM]])
// CHECK:         llvm.call @moert_assume_replicated(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}})
// CHECK:         %[[FACTOR:.*]] = llvm.mlir.constant(2.000000e+00 : f64)
// CHECK:         llvm.call @moert_scale(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[FACTOR]], %{{[^,]*}})
// CHECK:         llvm.call @moert_slice(

// The table has a function for each kind of call, the length of its rows, and the number of its launches.
// CHECK:       llvm.mlir.global internal constant @moeplan_calls() {{.*}} !llvm.array<7 x struct<(ptr, i64, i64)>>
// CHECK-NEXT:    llvm.mlir.addressof @moeplan_call0
// CHECK-NEXT:    llvm.mlir.constant(4 : i64)
// CHECK-NEXT:    llvm.mlir.constant(1 : i64)
// CHECK:         llvm.mlir.addressof @moeplan_call1
// CHECK-NEXT:    llvm.mlir.constant(2 : i64)
// CHECK-NEXT:    llvm.mlir.constant(0 : i64)

// The loop over rows ends at the first call that fails. The op's number counts launches.
// CHECK-LABEL: llvm.func internal @moeplan_run(
// CHECK-SAME:  %[[R:.*]]: !llvm.ptr, %[[FIRST:.*]]: !llvm.ptr, %[[END:.*]]: !llvm.ptr, %[[BUFFERS:.*]]: !llvm.ptr, %[[OP0:.*]]: i64, %[[I:.*]]: i64) -> i32
// CHECK:       llvm.br ^[[HEAD:.*]](%[[FIRST]], %[[OP0]] : !llvm.ptr, i64)
// CHECK:     ^[[HEAD]](%[[ROW:.*]]: !llvm.ptr, %[[OP:.*]]: i64):
// CHECK:       %[[DONE:.*]] = llvm.icmp "eq" %[[ROW]], %[[END]]
// CHECK:       %[[OK:.*]] = llvm.mlir.constant(0 : i32)
// CHECK:       llvm.cond_br %[[DONE]], ^[[EXIT:.*]](%[[OK]] : i32), ^
// CHECK:       %[[STATUS:.*]] = llvm.call %{{.*}}(%[[R]], %[[OP]], %[[ROW]], %[[BUFFERS]], %[[I]])
// CHECK:       %[[FAILED:.*]] = llvm.icmp "ne" %[[STATUS]]
// CHECK:       llvm.cond_br %[[FAILED]], ^[[EXIT]](%[[STATUS]] : i32), ^
// CHECK:       llvm.br ^[[HEAD]](
// CHECK:     ^[[EXIT]](%[[RESULT:.*]]: i32):
// CHECK:       llvm.return %[[RESULT]]

// The metadata. Global shapes follow from layouts; a reference of one rank has no groups; keys are those of docs/PlanFormat.md.
// META:      llvm.mlir.global external constant @moeplan_metadata(
// META-SAME: {\22moeplan\22:5,\22abi\22:9,\22compiler\22:\22{{[0-9.]+}}\22,\22world\22:8
// META-SAME: \22parallel\22:{\22pp\22:1,\22dp\22:4,\22mp\22:2,\22ep\22:4,\22esp\22:2,\22edp\22:1}
// META-SAME: \22schedule\22:\22s1\22,\22mode\22:\22forward\22,\22dtype\22:\22f32\22
// META-SAME: {\22name\22:\22mp\22,\22size\22:2,\22stride\22:1}
// META-SAME: \22programs\22:[{\22first_rank\22:0,\22ranks\22:8,\22symbol\22:\22moeplan_rank\22
// META-SAME: {\22name\22:\22x\22,\22role\22:\22input\22,\22dtype\22:\22f32\22,\22shape\22:[16,8],\22local_shape\22:[4,8],\22layout\22:{{\[\[}}\22dp\22],[]]}
// META-SAME: {\22name\22:\22w\22,\22role\22:\22parameter\22,\22dtype\22:\22f32\22,\22shape\22:[8,128],\22local_shape\22:[8,16],\22layout\22:{{\[\[}}],[\22ep\22,\22esp\22]]}]
// META-SAME: \22results\22:[{\22name\22:\22y\22,\22role\22:\22output\22
// META-SAME: \22arenas\22:{\22device\22:768,\22host_pinned\22:0}
// META-SAME: \22streams\22:[\22compute\22,\22comm.intra\22],\22events\22:7
// META-SAME: \22ops\22:[{\22name\22:\22matmul\22,\22label\22:\22layer0\22,\22stream\22:\22compute\22,\22group\22:null,\22flops\22:1024,\22bytes\22:896,\22bytes_sent\22:0,\22rows\22:0}
// META-SAME: {\22name\22:\22all_reduce\22,\22label\22:\22\22,\22stream\22:\22comm.intra\22,\22group\22:\22mp\22,\22flops\22:0,\22bytes\22:3,\22bytes_sent\22:128,\22rows\22:4}
// META-SAME: \22reference\22:{\22symbol\22:\22moeplan_reference\22
// META-SAME: {\22name\22:\22x\22,\22role\22:\22input\22,\22dtype\22:\22f64\22,\22shape\22:[16,8],\22local_shape\22:[16,8],\22layout\22:{{\[\[}}],[]]}
// META-SAME: {\22name\22:\22y\22,\22role\22:\22output\22,\22dtype\22:\22f64\22,\22shape\22:[16,8],\22local_shape\22:[16,8],\22layout\22:{{\[\[}}],[]]}
// META-SAME: {\22name\22:\22slice\22,\22label\22:\22\22,\22stream\22:\22compute\22,\22group\22:null
// META-SAME: \00"
