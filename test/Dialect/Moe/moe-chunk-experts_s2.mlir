// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-chunk-experts{chunks=2 hidden-ring=0}),func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s

// Parm's S2 in two chunks: the split over mp, the fused exchanges and the sum are each chunk's own, the gather over mp too.

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // CHECK-LABEL: func.func @capacity(
  // CHECK:      %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 8 : i64, chunk_rows = 4 : i64, chunks = 2 : i64}
  // CHECK-NEXT: %[[ROWS:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // CHECK-NEXT: %[[CHUNKS:.+]]:2 = moe.split %[[ROWS]] :
  // CHECK-NEXT: %[[OWN:.+]] = moe.slice %[[CHUNKS]]#0 over <"mp", 2, 1> {{.*}}#moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.0", 2>}
  // CHECK-NEXT: %[[COPIES:.+]] = moe.dump %[[OWN]] {blocks = 2 : i64, moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.1", 2>}
  // CHECK-NEXT: %[[X:.+]] = moe.all_to_all %[[COPIES]] over <"ep_esp", 4, 1> {{.*}}#moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.2", 2>
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[X]], %{{.+}} {moe.chunk = #moe.chunk<0 of 2>}
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[H]] {kind = #moe<activation relu>, moe.chunk = #moe.chunk<0 of 2>}
  // CHECK-NEXT: %[[Y:.+]] = moe.grouped_matmul %[[A]], %{{.+}} {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.5", 2>}
  // CHECK-NEXT: %[[RETURNED:.+]] = moe.all_to_all %[[Y]] over <"ep_esp", 4, 1> {{.*}}#moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.6", 2>
  // CHECK-NEXT: %[[SUM:.+]] = moe.local_reduce %[[RETURNED]] {blocks = 2 : i64, moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.7", 2>}
  // CHECK-NEXT: %[[OUT0:.+]] = moe.all_gather %[[SUM]] over <"mp", 2, 1> {{.*}}#moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.8", 2>}
  // CHECK-NEXT: moe.slice %[[CHUNKS]]#1 over <"mp", 2, 1> {{.*}}#moe.chunk<1 of 2>, moe.ring = #moe.ring<"capacity.0.0", 2>}
  // CHECK-COUNT-2: moe.all_to_all %{{.+}} over <"ep_esp", 4, 1> {{.*}}#moe.chunk<1 of 2>
  // CHECK:      %[[OUT1:.+]] = moe.all_gather %{{.+}} over <"mp", 2, 1> {{.*}}#moe.chunk<1 of 2>, moe.ring = #moe.ring<"capacity.0.8", 2>}
  // CHECK-NEXT: %[[OUT:.+]] = moe.concat %[[OUT0]], %[[OUT1]] :
  // CHECK-NEXT: moe.combine %[[OUT]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  func.func @capacity(%x: tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }

  // CHECK-LABEL: func.func @dropless(
  // CHECK:      %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], %[[COUNTS:counts[0-9_]*]], {{.*}} = moe.route %{{.+}} {chunk_rows = 16 : i64, chunks = 2 : i64}
  // CHECK-NEXT: %[[ROWS:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // CHECK-NEXT: %[[CHUNKS:.+]]:2 = moe.split %[[ROWS]] :
  // CHECK-NEXT: %[[COUNTED:.+]]:2 = moe.split %[[COUNTS]] :
  // CHECK-NEXT: %[[BLOCK0:.+]] = moe.slice_counts %[[COUNTED]]#0 over <"mp", 2, 1> {moe.chunk = #moe.chunk<0 of 2>, rows = 16 : i64}
  // CHECK-NEXT: %[[OWN:.+]] = moe.slice %[[CHUNKS]]#0 over <"mp", 2, 1> {{.*}}#moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.1", 2>}
  // CHECK-NEXT: %[[COPIED:.+]] = moe.dump %[[BLOCK0]] {blocks = 2 : i64, dim = 1 : i64, moe.chunk = #moe.chunk<0 of 2>}
  // CHECK-NEXT: %[[EXPERT0:.+]] = moe.all_to_all %[[COPIED]] over <"ep_esp", 4, 1> {{.*}}#moe.chunk<0 of 2>,
  // CHECK-NEXT: %[[COPIES:.+]] = moe.dump %[[OWN]] {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.4", 2>}
  // CHECK-NEXT: moe.all_to_all_v %[[COPIES]], %[[BLOCK0]], %[[EXPERT0]] over <"ep_esp", 4, 1> {copies = 2 : i64, {{.*}}to_experts>, moe.chunk = #moe.chunk<0 of 2>,
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all_v %{{.+}}, %[[BLOCK0]], %[[EXPERT0]] {{.*}}from_experts>, moe.chunk = #moe.chunk<0 of 2>,
  // CHECK-NEXT: %[[SUM:.+]] = moe.local_reduce %[[RETURNED]] {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.10", 2>}
  // CHECK-NEXT: %[[OUT0:.+]] = moe.all_gather %[[SUM]] over <"mp", 2, 1> {{.*}}#moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.11", 2>}
  // CHECK-NEXT: moe.slice_counts %[[COUNTED]]#1 over <"mp", 2, 1> {moe.chunk = #moe.chunk<1 of 2>, rows = 16 : i64}
  // CHECK-NEXT: moe.slice %[[CHUNKS]]#1 over <"mp", 2, 1> {{.*}}#moe.chunk<1 of 2>, moe.ring = #moe.ring<"dropless.0.1", 2>}
  // CHECK-COUNT-2: moe.all_to_all_v %{{.+}} over <"ep_esp", 4, 1> {{.*}}#moe.chunk<1 of 2>
  // CHECK:      %[[OUT1:.+]] = moe.all_gather %{{.+}} over <"mp", 2, 1> {{.*}}#moe.chunk<1 of 2>, moe.ring = #moe.ring<"dropless.0.11", 2>}
  // CHECK-NEXT: %[[OUT:.+]] = moe.concat %[[OUT0]], %[[OUT1]] :
  // CHECK-NEXT: moe.combine %[[OUT]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  func.func @dropless(%x: tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
