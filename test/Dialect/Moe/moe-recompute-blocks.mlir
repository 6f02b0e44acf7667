// RUN: moe-opt %s --moe-recompute-blocks | FileCheck %s
// RUN: moe-opt %s --moe-recompute-blocks=selective | FileCheck %s --check-prefix=SELECTIVE

// RUN: moe-opt %s --moe-recompute-blocks=keep-from=4 | FileCheck %s --check-prefix=COSTLY

// The exchange takes longer for its bytes than the product before it.
// COSTLY-LABEL: func.func @blocks
// COSTLY: moe.matmul %arg0, %arg1 {moe.residual = #moe<residual recompute>}
// COSTLY: moe.matmul %{{.+}}, %arg1 {moe.residual = #moe<residual recompute>}
// COSTLY: moe.all_reduce
// COSTLY-NOT: moe.residual
// COSTLY-LABEL: func.func @plateau

// Selective recomputation keeps products and exchanges, and computes again what only moves memory.
// SELECTIVE-LABEL: func.func @blocks
// SELECTIVE-NOT: moe.residual
// SELECTIVE-LABEL: func.func @plateau
// SELECTIVE: moe.matmul
// SELECTIVE-NOT: moe.residual
// SELECTIVE-COUNT-4: moe.norm {{.*}}moe.residual = #moe<residual recompute>
// SELECTIVE: moe.matmul
// SELECTIVE-NOT: moe.residual
// SELECTIVE: moe.add

// Values between blocks are kept, and so is the whole last block, the head.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<8x8xf32> {moe.role = "input"}, %a: tensor<8x16xf32> {moe.role = "parameter"},
                  %b: tensor<16x8xf32> {moe.role = "parameter"}, %c: tensor<8x4xf32> {moe.role = "parameter"}) -> tensor<8x4xf32> {
  // CHECK: moe.matmul %arg0, %arg1 {moe.residual = #moe<residual recompute>}
  %0 = moe.matmul %x, %a : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: moe.matmul %{{.+}}, %arg2 :
  %1 = moe.matmul %0, %b : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  // CHECK: moe.matmul %{{.+}}, %arg1 {moe.residual = #moe<residual recompute>}
  %2 = moe.matmul %1, %a : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: moe.all_reduce %{{.+}} over <"mp", 2, 1> {moe.residual = #moe<residual recommunicate>}
  %3 = moe.all_reduce %2 over <"mp", 2, 1> : (tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: moe.matmul %{{.+}}, %arg2 :
  %4 = moe.matmul %3, %b : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  // CHECK: moe.matmul %{{.+}}, %arg3 :
  %5 = moe.matmul %4, %c : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %5 : tensor<8x4xf32>
}

// x and as much more are handed over from one norm to the next, but less behind them: no block ends between these.
// CHECK-LABEL: func.func @plateau
func.func @plateau(%in: tensor<8x8xf32> {moe.role = "input"}, %a: tensor<8x16xf32> {moe.role = "parameter"},
                   %b: tensor<16x8xf32> {moe.role = "parameter"}, %g: tensor<16xf32> {moe.role = "parameter"}) -> tensor<8x8xf32> {
  %x = moe.scale %in {factor = 2.0} : tensor<8x8xf32>
  // CHECK: moe.matmul {{.*}}moe.residual = #moe<residual recompute>
  // CHECK-COUNT-4: moe.norm {{.*}}moe.residual = #moe<residual recompute>
  // CHECK: moe.matmul {{.*}}moe.residual = #moe<residual recompute>
  // CHECK: moe.add
  // CHECK-NOT: moe.residual
  // CHECK: moe.matmul {{.*}}moe.residual = #moe<residual recompute>
  // CHECK-COUNT-4: moe.norm {{.*}}moe.residual = #moe<residual recompute>
  // CHECK: moe.matmul {{.*}}moe.residual = #moe<residual recompute>
  // CHECK: moe.add
  // CHECK-NOT: moe.residual
  // CHECK: return
  %q0 = moe.matmul %x, %a : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %q1 = moe.norm %q0, %g {kind = #moe<norm rms>, eps = 1.0e-6} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %q2 = moe.norm %q1, %g {kind = #moe<norm rms>, eps = 1.0e-6} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %q3 = moe.norm %q2, %g {kind = #moe<norm rms>, eps = 1.0e-6} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %q4 = moe.norm %q3, %g {kind = #moe<norm rms>, eps = 1.0e-6} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %q = moe.matmul %q4, %b : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %y = moe.add %x, %q : tensor<8x8xf32>
  %r0 = moe.matmul %y, %a : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %r1 = moe.norm %r0, %g {kind = #moe<norm rms>, eps = 1.0e-6} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %r2 = moe.norm %r1, %g {kind = #moe<norm rms>, eps = 1.0e-6} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %r3 = moe.norm %r2, %g {kind = #moe<norm rms>, eps = 1.0e-6} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %r4 = moe.norm %r3, %g {kind = #moe<norm rms>, eps = 1.0e-6} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %r = moe.matmul %r4, %b : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %z = moe.add %y, %r : tensor<8x8xf32>
  %end = moe.scale %z {factor = 0.5} : tensor<8x8xf32>
  return %end : tensor<8x8xf32>
}

// In each block as much is handed over from one norm to the next, and more around them. Such places count once: blocks end where the least is
// handed over, behind the sums.
// CHECK-LABEL: func.func @narrow
// CHECK-COUNT-2: moe.matmul {{.*}}moe.residual = #moe<residual recompute>
// CHECK-COUNT-3: moe.norm {{.*}}moe.residual = #moe<residual recompute>
// CHECK-COUNT-2: moe.matmul {{.*}}moe.residual = #moe<residual recompute>
// CHECK: moe.add %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} : tensor<8x8xf32>
// CHECK-COUNT-2: moe.matmul {{.*}}moe.residual = #moe<residual recompute>
// CHECK-COUNT-3: moe.norm {{.*}}moe.residual = #moe<residual recompute>
// CHECK-COUNT-2: moe.matmul {{.*}}moe.residual = #moe<residual recompute>
// CHECK: moe.add %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} : tensor<8x8xf32>
func.func @narrow(%in: tensor<8x8xf32> {moe.role = "input"}, %a: tensor<8x64xf32> {moe.role = "parameter"},
                  %b: tensor<64x16xf32> {moe.role = "parameter"}, %c: tensor<16x64xf32> {moe.role = "parameter"},
                  %d: tensor<64x8xf32> {moe.role = "parameter"}, %g: tensor<16xf32> {moe.role = "parameter"},
                  %h: tensor<8x64xf32> {moe.role = "parameter"}) -> tensor<8x64xf32> {
  %x = moe.scale %in {factor = 2.0} : tensor<8x8xf32>
  %0 = moe.matmul %x, %a : (tensor<8x8xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = moe.matmul %0, %b : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %2 = moe.norm %1, %g {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %3 = moe.norm %2, %g {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %4 = moe.norm %3, %g {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %5 = moe.matmul %4, %c : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %6 = moe.matmul %5, %d : (tensor<8x64xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
  %7 = moe.add %x, %6 : tensor<8x8xf32>
  %8 = moe.matmul %7, %a : (tensor<8x8xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %9 = moe.matmul %8, %b : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %10 = moe.norm %9, %g {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %11 = moe.norm %10, %g {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %12 = moe.norm %11, %g {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %13 = moe.matmul %12, %c : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %14 = moe.matmul %13, %d : (tensor<8x64xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
  %15 = moe.add %7, %14 : tensor<8x8xf32>
  %16 = moe.matmul %15, %h : (tensor<8x8xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %16 : tensor<8x64xf32>
}
