// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-serve-in-passes),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-serve-in-passes),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=S2
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-serve-in-passes),canonicalize,cse,func.func(moe-differentiate),canonicalize,cse,func.func(moe-verify-spmd),moe-outline-passes)" \
// RUN:   | FileCheck %s --check-prefix=GRAD

// The mean is 32 rows, and the reserve 40. The pass beyond comes first, and its sum last.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // CHECK-LABEL: func.func @layer(
  // CHECK:      [[SLOTS:%[a-z0-9_]+]], %{{[a-z0-9_]+}}, [[COUNTS:%[a-z0-9_]+]], %{{[a-z0-9_]+}} = moe.route
  // CHECK-NEXT: [[ALL:%[a-z0-9_]+]] = moe.all_gather [[COUNTS]] over <"dp", 4, 1> {dim = 0 : i64}
  // CHECK-NEXT: [[LEFT:%[a-z0-9_]+]], [[SLOTS0:%[a-z0-9_]+]], [[COUNTS0:%[a-z0-9_]+]] = moe.window [[SLOTS]], [[ALL]] over <"dp", 4, 1> {rows = 40 : i64, workers = 4 : i64}
  // CHECK-NEXT: %{{[a-z0-9_]+}}, [[SLOTS1:%[a-z0-9_]+]], [[COUNTS1:%[a-z0-9_]+]] = moe.window [[SLOTS]], [[ALL]] before([[LEFT]]) {{.*}}moe.pass = "pass0"
  // CHECK-NEXT: moe.dispatch %{{[a-z0-9_]+}}, [[SLOTS1]] {moe.pass = "pass0", moe.residual = #moe<residual recompute>}
  // CHECK:      moe.all_to_all [[COUNTS1]] {{.*}}moe.residual = #moe<residual recommunicate>
  // CHECK:      [[Y1:%[a-z0-9_]+]] = moe.combine %{{[a-z0-9_]+}}, [[SLOTS1]] weights
  // CHECK-NEXT: moe.dispatch %{{[a-z0-9_]+}}, [[SLOTS0]] :
  // CHECK-NEXT: moe.all_to_all [[COUNTS0]]
  // CHECK:      [[Y0:%[a-z0-9_]+]] = moe.combine %{{[a-z0-9_]+}}, [[SLOTS0]] weights
  // CHECK-NEXT: moe.add [[Y0]], [[Y1]] {moe.pass = "pass0"}

  // Each sum is computed in the place of what the first pass gives. All ranks run a pass equally often, at most 3 times.
  // GRAD-LABEL: func.func @layer(
  // GRAD:     [[LEFT:%[a-z0-9_]+]], {{.*}} = moe.window
  // GRAD:     [[Y0:%[a-z0-9_]+]] = moe.combine
  // GRAD-NEXT: [[Y:%[a-z0-9_]+]]:2 = moe.repeat @subprogram0 [[LEFT]] of 3 carried([[LEFT]], [[Y0]])
  // GRAD-NOT: moe.pass
  // GRAD:     moe.repeat @subprogram1 [[LEFT]] of 3 carried([[LEFT]],
  // GRAD:     func.func private @subprogram0({{.*}}moe.name = "carried0"{{.*}} -> ({{.*}}moe.updates = "carried0"
  // GRAD-SAME: plan.subprogram
  // GRAD:     func.func private @subprogram1(
  // GRAD:     moe.grouped_matmul_wgrad {{.*}} addend(%arg
  // GRAD-NOT: subprogram2
  func.func @layer(%x: tensor<64x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>, max_load = 1.25 : f64}
      : (tensor<64x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}

// -----

// There is room for all rows: those of two experts are at most one of each token.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // CHECK-LABEL: func.func @room(
  // CHECK-NOT: moe.window
  // CHECK: return
  // GRAD-LABEL: func.func @room(
  // GRAD-NOT: moe.repeat
  // GRAD: return
  func.func @room(%x: tensor<64x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>, max_load = 4.0 : f64}
      : (tensor<64x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}

// -----

// In S2 members of mp send parts of the same rows: only those of dp have rows of their own.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 4, esp = 1>} {
  // S2-LABEL: func.func @shared(
  // S2: [[ALL:%[a-z0-9_]+]] = moe.all_gather %counts over <"dp", 2, 2> {dim = 0 : i64}
  // S2: moe.window %slots, [[ALL]] over <"dp", 2, 2> {rows = 20 : i64, workers = 4 : i64}

  // A phase has the rows of the two members of mp, and half of the 20 rows; a chunk has half of these. The choices are those that are left
  // to experts that are no shadows, and the further pass has chunks and phases of its own, but no shadows.
  // CHUNKS-LABEL: func.func @shared(
  // CHUNKS: moe.divide_choices
  // CHUNKS: [[ALL:%[a-z0-9_]+]] = moe.all_gather [[COUNTS:%[a-z0-9_]+]] over <"dp", 2, 2> {dim = 0 : i64} : (tensor<2x8xi32>) -> tensor<4x8xi32>
  // CHUNKS: moe.window [[SLOTS:%[a-z0-9_]+]], [[ALL]] over <"dp", 2, 2> {chunk_rows = 16 : i64, phases = 2 : i64, rows = 5 : i64, workers = 4 : i64}
  // CHUNKS: moe.window [[SLOTS]], [[ALL]] before({{.*}}) over <"dp", 2, 2> {chunk_rows = 16 : i64, moe.pass = "pass0"
  // CHUNKS-COUNT-8: moe.all_to_all_v {{.*}}moe.pass = "pass0"
  // CHUNKS: moe.combine {{.*}}moe.pass = "pass0"
  // CHUNKS-NOT: moe.pass = "pass0"
  // CHUNKS: moe.broadcast_experts
  // CHUNKS: moe.add {{.*}}moe.pass = "pass0"
  func.func @shared(%x: tensor<32x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>, max_load = 1.25 : f64}
      : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y, %aux : tensor<32x8xf32>, tensor<f32>
  }
}
