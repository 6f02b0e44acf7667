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

  // An argument, as moert_buffer has it: space 2, f32, the argument's number, rank 2, its shape, and no part of anything.
  // CHECK:      llvm.mlir.global internal constant @moeplan_rank_buffer0()
  // CHECK-SAME: !llvm.struct<(i32, i32, i64, i64, array<4 x i64>, i64, i64, i64, i64)>
  // CHECK-DAG:  %[[SPACE:.*]] = llvm.mlir.constant(2 : i32) : i32
  // CHECK-DAG:  %[[DTYPE:.*]] = llvm.mlir.constant(0 : i32) : i32
  // CHECK-DAG:  %[[OFFSET:.*]] = llvm.mlir.constant(0 : i64) : i64
  // CHECK-DAG:  %[[RANK:.*]] = llvm.mlir.constant(2 : i64) : i64
  // CHECK:      %[[DIMS:.*]] = llvm.mlir.constant(dense<[4, 8, 0, 0]> : tensor<4xi64>)
  // CHECK:      %[[PARTS:.*]] = llvm.mlir.constant(0 : i64) : i64
  // CHECK:      %[[SHIFT:.*]] = llvm.mlir.constant(0 : i64) : i64
  // CHECK:      %[[STRIDE:.*]] = llvm.mlir.constant(1 : i64) : i64
  // CHECK:      %[[BEGIN:.*]] = llvm.mlir.constant(0 : i64) : i64
  // CHECK:      llvm.insertvalue %[[SPACE]], %{{.*}}[0]
  // CHECK-NEXT: llvm.insertvalue %[[DTYPE]], %{{.*}}[1]
  // CHECK-NEXT: llvm.insertvalue %[[OFFSET]], %{{.*}}[2]
  // CHECK-NEXT: llvm.insertvalue %[[RANK]], %{{.*}}[3]
  // CHECK-NEXT: llvm.insertvalue %[[DIMS]], %{{.*}}[4]
  // CHECK-NEXT: llvm.insertvalue %[[PARTS]], %{{.*}}[5]
  // CHECK-NEXT: llvm.insertvalue %[[SHIFT]], %{{.*}}[6]
  // CHECK-NEXT: llvm.insertvalue %[[STRIDE]], %{{.*}}[7]
  // CHECK-NEXT: llvm.insertvalue %[[BEGIN]], %{{.*}}[8]
  // CHECK:      @moeplan_rank_buffer1()
  // CHECK:      @moeplan_rank_buffer2()
  // CHECK:        llvm.mlir.constant(512 : i64)
  // CHECK:      @moeplan_rank_buffer3()
  // Buffers in one place with one type are one constant: there is no fifth.
  // CHECK-NOT:  @moeplan_rank_buffer4()

  // CHECK: llvm.mlir.global internal constant @moeplan_rank_group0("mp\00")
  // CHECK: llvm.mlir.global internal constant @moeplan_rank_groups() {{.*}} !llvm.array<1 x struct<(ptr, i64, i64)>>

  // CHECK-LABEL: llvm.func @moeplan_rank
  // CHECK-SAME:  %[[R:.*]]: !llvm.ptr) -> i32
  // CHECK-DAG:   %[[OP:.*]] = llvm.mlir.constant(0 : i64)
  // CHECK-DAG:   %[[X:.*]] = llvm.mlir.addressof @moeplan_rank_buffer0
  // CHECK-DAG:   %[[W:.*]] = llvm.mlir.addressof @moeplan_rank_buffer1
  // CHECK-DAG:   %[[H:.*]] = llvm.mlir.addressof @moeplan_rank_buffer2
  // CHECK:       %[[STATUS:.*]] = llvm.call @moert_matmul(%[[R]], %[[OP]], %[[X]], %[[W]], %[[H]], %{{.*}}, %{{.*}}, %{{.*}})
  // CHECK:       %[[FAILED:.*]] = llvm.icmp "ne" %[[STATUS]], %{{.*}} : i32
  // CHECK:       llvm.cond_br %[[FAILED]], ^[[EXIT:.*]](%[[STATUS]] : i32), ^[[NEXT:.*]]
  // CHECK:     ^[[NEXT]]:
  // CHECK:       llvm.call @moert_record(%[[R]]
  // CHECK:       llvm.call @moert_wait(%[[R]]
  // The index counts launches; the absent counts are null; the stream is the second to appear.
  // CHECK:       %[[OP1:.*]] = llvm.mlir.constant(1 : i64)
  // CHECK:       %[[H1:.*]] = llvm.mlir.addressof @moeplan_rank_buffer2
  // CHECK:       %[[NULL:.*]] = llvm.mlir.zero : !llvm.ptr
  // CHECK:       %[[H2:.*]] = llvm.mlir.addressof @moeplan_rank_buffer2
  // CHECK:       %[[GROUPS:.*]] = llvm.mlir.addressof @moeplan_rank_groups
  // CHECK:       %[[GROUP:.*]] = llvm.getelementptr %[[GROUPS]][0]
  // CHECK:       %[[STREAM:.*]] = llvm.mlir.constant(1 : i64)
  // CHECK:       llvm.call @moert_all_reduce(%[[R]], %[[OP1]], %[[H1]], %[[NULL]], %[[H2]], %[[GROUP]], %[[STREAM]])
  // CHECK:       llvm.call @moert_assume_replicated(%[[R]], %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}})
  // CHECK:       %[[FACTOR:.*]] = llvm.mlir.constant(2.000000e+00 : f64)
  // CHECK:       llvm.call @moert_scale(%[[R]], %{{.*}}, %{{.*}}, %{{.*}}, %[[FACTOR]], %{{.*}})
  // CHECK:       llvm.cond_br %{{.*}}, ^[[EXIT]](%{{.*}} : i32), ^[[LAST:.*]]
  // CHECK:     ^[[LAST]]:
  // CHECK-NEXT:  %[[OK:.*]] = llvm.mlir.constant(0 : i32)
  // CHECK-NEXT:  llvm.br ^[[EXIT]](%[[OK]] : i32)
  // CHECK:     ^[[EXIT]](%[[RESULT:.*]]: i32):
  // CHECK:       llvm.return %[[RESULT]] : i32
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

  // CHECK-LABEL: llvm.func @moeplan_reference
  // CHECK: llvm.call @moert_slice
  func.func @reference(%x: memref<16x8xf64> {moe.name = "x"}, %y: memref<16x8xf64> {moe.name = "y", moe.layout = #moe.layout<[dp], []>})
      attributes {plan.inputs = 1 : i64, moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
    plan.launch "slice"(%x) -> (%y) params [0] over <"mp", 1, 1> on "compute" : (memref<16x8xf64>) -> memref<16x8xf64>
    return
  }
}

// The metadata. Global shapes follow from layouts; a reference of one rank has no groups; keys are those of docs/Runtime.md.
// META:      llvm.mlir.global external constant @moeplan_metadata(
// META-SAME: {\22moeplan\22:3,\22abi\22:6,\22world\22:8
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
