// RUN: moe-opt %s --convert-plan-to-llvm | FileCheck %s
// RUN: moe-opt %s --convert-plan-to-llvm | FileCheck %s --check-prefix=META

// The variants of a plan of several shapes become functions of one module, with tables of their own, and share the calls.
// CHECK:      module {
// CHECK-NEXT:   llvm.func @moert_scale(
// CHECK-NOT:    llvm.func @moert_scale(
// CHECK-NOT:    module
// CHECK:        llvm.mlir.global internal constant @moeplan_v0_rank_buffers(
// CHECK:        llvm.func @moeplan_v0_rank(%{{.*}}: !llvm.ptr) -> i32
// CHECK:          llvm.mlir.addressof @moeplan_v0_rank_buffers
// CHECK:        llvm.func @moeplan_v0_reference(%{{.*}}: !llvm.ptr) -> i32
// CHECK:          llvm.mlir.addressof @moeplan_v0_reference_buffers
// CHECK:        llvm.func @moeplan_v1_rank(
// CHECK:        llvm.func @moeplan_v1_reference(
// CHECK:        llvm.func @moeplan_v2_rank(
// CHECK:        llvm.func @moeplan_v2_reference(

// The first variant is the best so far where the shape is its own and its seconds are less than infinity.
// CHECK-LABEL: llvm.func @moeplan_choose
// CHECK-SAME:  (%[[BATCH:.*]]: i64, %[[SEQUENCE:.*]]: i64) -> i64
// CHECK:       %[[PRODUCT:.*]] = llvm.mul %[[BATCH]], %[[SEQUENCE]] : i64
// CHECK:       %[[TOKENS:.*]] = llvm.sitofp %[[PRODUCT]] : i64 to f64
// CHECK:       %[[NONE:.*]] = llvm.mlir.constant(-1 : i64) : i64
// CHECK:       %[[INFINITY:.*]] = llvm.mlir.constant(0x7FF0000000000000 : f64) : f64
// CHECK-DAG:   %[[B0:.*]] = llvm.mlir.constant(2 : i64) : i64
// CHECK-DAG:   %[[IS_B0:.*]] = llvm.icmp "eq" %[[BATCH]], %[[B0]] : i64
// CHECK-DAG:   %[[L0:.*]] = llvm.mlir.constant(4 : i64) : i64
// CHECK-DAG:   %[[IS_L0:.*]] = llvm.icmp "eq" %[[SEQUENCE]], %[[L0]] : i64
// CHECK:       %[[MATCH0:.*]] = llvm.and %[[IS_B0]], %[[IS_L0]] : i1
// CHECK-DAG:   %[[BETA0:.*]] = llvm.mlir.constant(2.000000e-07 : f64) : f64
// CHECK-DAG:   %[[REST0:.*]] = llvm.fmul %[[BETA0]], %[[TOKENS]] : f64
// CHECK-DAG:   %[[ALPHA0:.*]] = llvm.mlir.constant(1.000000e-04 : f64) : f64
// CHECK-DAG:   %[[SUM0:.*]] = llvm.fadd %[[ALPHA0]], %[[REST0]] : f64
// CHECK:       %[[LESS0:.*]] = llvm.fcmp "olt" %[[SUM0]], %[[INFINITY]] : f64
// CHECK:       %[[BETTER0:.*]] = llvm.and %[[MATCH0]], %[[LESS0]] : i1
// CHECK:       %[[LEAST0:.*]] = llvm.select %[[BETTER0]], %[[SUM0]], %[[INFINITY]] : i1, f64
// CHECK:       %[[ZERO:.*]] = llvm.mlir.constant(0 : i64) : i64
// CHECK:       %[[BEST0:.*]] = llvm.select %[[BETTER0]], %[[ZERO]], %[[NONE]] : i1, i64

// The second has to be better than the first.
// CHECK:       %[[MATCH1:.*]] = llvm.and %{{.*}}, %{{.*}} : i1
// CHECK:       %[[LESS1:.*]] = llvm.fcmp "olt" %[[SUM1:.*]], %[[LEAST0]] : f64
// CHECK:       %[[BETTER1:.*]] = llvm.and %[[MATCH1]], %[[LESS1]] : i1
// CHECK:       llvm.select %[[BETTER1]], %[[SUM1]], %[[LEAST0]] : i1, f64
// CHECK:       %[[BEST1:.*]] = llvm.select %[[BETTER1]], %{{.*}}, %[[BEST0]] : i1, i64

// The third is the only one of its shape.
// CHECK:       %[[MATCH2:.*]] = llvm.and %{{.*}}, %{{.*}} : i1
// CHECK-NOT:   llvm.fcmp
// CHECK:       %[[BEST2:.*]] = llvm.select %[[MATCH2]], %{{.*}}, %[[BEST1]] : i1, i64
// CHECK-NEXT:  llvm.return %[[BEST2]] : i64

// META:      llvm.mlir.global external constant @moeplan_metadata("{\22moeplan\22:5,\22abi\22:9,\22compiler\22:\22{{[0-9.]+}}\22,\22variants\22:[
// META-SAME: {\22batch\22:2,\22sequence\22:4,\22world\22:2,
// META-SAME: \22schedule\22:\22s1\22
// META-SAME: \22programs\22:[{\22first_rank\22:0,\22ranks\22:2,\22symbol\22:\22moeplan_v0_rank\22
// META-SAME: \22shape\22:[16,4],\22local_shape\22:[8,4]
// META-SAME: \22reference\22:{\22symbol\22:\22moeplan_v0_reference\22
// META-SAME: {\22batch\22:2,\22sequence\22:4,\22world\22:2,
// META-SAME: \22schedule\22:\22s2\22
// META-SAME: \22programs\22:[{\22first_rank\22:0,\22ranks\22:2,\22symbol\22:\22moeplan_v1_rank\22
// META-SAME: {\22batch\22:4,\22sequence\22:4,\22world\22:2,
// META-SAME: \22schedule\22:\22s1\22
// META-SAME: \22programs\22:[{\22first_rank\22:0,\22ranks\22:2,\22symbol\22:\22moeplan_v2_rank\22
// META-SAME: \22shape\22:[32,4],\22local_shape\22:[16,4]
// META-SAME: \22reference\22:{\22symbol\22:\22moeplan_v2_reference\22
// META-SAME: }]}\00"
module {
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64,
                     plan.seconds = [1.0e-4, 2.0e-7], plan.schedule = "s1"} {
    func.func @rank(%x: memref<8x4xf32> {moe.name = "x", moe.layout = #moe.layout<[dp], []>}) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<8x4xf32>) -> memref<8x4xf32>
      return
    }
    func.func @reference(%x: memref<16x4xf32> {moe.name = "x"})
        attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<16x4xf32>) -> memref<16x4xf32>
      return
    }
  }
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64,
                     plan.seconds = [2.0e-4, 1.0e-7], plan.schedule = "s2"} {
    func.func @rank(%x: memref<8x4xf32> {moe.name = "x", moe.layout = #moe.layout<[dp], []>}) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<8x4xf32>) -> memref<8x4xf32>
      return
    }
    func.func @reference(%x: memref<16x4xf32> {moe.name = "x"})
        attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<16x4xf32>) -> memref<16x4xf32>
      return
    }
  }
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 4 : i64, plan.sequence = 4 : i64, plan.schedule = "s1"} {
    func.func @rank(%x: memref<16x4xf32> {moe.name = "x", moe.layout = #moe.layout<[dp], []>}) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<16x4xf32>) -> memref<16x4xf32>
      return
    }
    func.func @reference(%x: memref<32x4xf32> {moe.name = "x"})
        attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<32x4xf32>) -> memref<32x4xf32>
      return
    }
  }
}
