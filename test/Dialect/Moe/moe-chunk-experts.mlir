// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-chunk-experts{chunks=2}),func.func(moe-verify-spmd))" \
// RUN:   -split-input-file | FileCheck %s

// The baseline's layers in two chunks, each with the gather over esp and the exchanges over ep of its own. What is exchanged
// is in rings of two places, what is inside the experts in rings of one.

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // An expert takes T = 2 * 16 / 4 = 8 rows for 16 tokens, and a chunk 4 of them, those of expert e in chunk c at c E + e.
  // CHECK-LABEL: func.func @capacity(
  // CHECK:      %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 8 : i64, chunk_rows = 4 : i64, chunks = 2 : i64}
  // CHECK:      %[[ROWS:.+]] = moe.dispatch %{{.+}} -> tensor<8x4x8xf32>
  // CHECK-NEXT: %[[CHUNKS:.+]]:2 = moe.split %[[ROWS]] :
  // CHECK-NEXT: %[[GATHERED:.+]] = moe.all_gather %[[CHUNKS]]#0 over <"esp", 2, 1> {dim = 1 : i64, moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.0", 2>}
  // CHECK-NEXT: %[[SHARDS:.+]] = moe.to_varying %[[GATHERED]] over <"esp", 2, 1> {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.1", 2>}
  // CHECK-NEXT: %[[X:.+]] = moe.all_to_all %[[SHARDS]] over <"ep", 2, 2> {{.*}}#moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.2", 2>
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[X]], %{{.+}} {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.3", 1>}
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[H]] {{.*}}#moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.4", 1>}
  // CHECK-NEXT: %[[Y:.+]] = moe.grouped_matmul %[[A]], %{{.+}} {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.5", 2>}
  // CHECK-NEXT: %[[SUM:.+]] = moe.all_reduce %[[Y]] over <"esp", 2, 1> {moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.6", 2>}
  // CHECK-NEXT: %[[RETURNED:.+]] = moe.all_to_all %[[SUM]] over <"ep", 2, 2> {{.*}}#moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.7", 2>
  // CHECK-NEXT: %[[OUT0:.+]] = moe.slice %[[RETURNED]] over <"esp", 2, 1> {{.*}}#moe.chunk<0 of 2>, moe.ring = #moe.ring<"capacity.0.8", 1>}
  // CHECK-NEXT: moe.all_gather %[[CHUNKS]]#1 over <"esp", 2, 1> {dim = 1 : i64, moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"capacity.0.0", 2>}
  // CHECK-COUNT-2: moe.all_to_all %{{.+}} over <"ep", 2, 2> {{.*}}#moe.chunk<1 of 2>,
  // CHECK:      %[[OUT1:.+]] = moe.slice %{{.+}} over <"esp", 2, 1> {{.*}}#moe.chunk<1 of 2>, moe.ring = #moe.ring<"capacity.0.8", 1>}
  // CHECK-NEXT: %[[OUT:.+]] = moe.concat %[[OUT0]], %[[OUT1]] :
  // CHECK-NEXT: moe.combine %[[OUT]], %{{.+}} weights(
  func.func @capacity(%x: tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }

  // A chunk is 8 of 16 tokens with room for their 16 choices; it counts its rows by itself.
  // CHECK-LABEL: func.func @dropless(
  // CHECK:      %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], %[[COUNTS:counts[0-9_]*]], {{.*}} = moe.route %{{.+}} {chunk_rows = 16 : i64, chunks = 2 : i64}
  // CHECK:      %[[ROWS:.+]] = moe.dispatch %{{.+}} -> tensor<32x8xf32>
  // CHECK-NEXT: %[[CHUNKS:.+]]:2 = moe.split %[[ROWS]] :
  // CHECK-NEXT: %[[COUNTED:.+]]:2 = moe.split %[[COUNTS]] :
  // CHECK-NEXT: %[[C0:.+]] = moe.to_varying %[[COUNTED]]#0 over <"mp", 2, 1> {moe.chunk = #moe.chunk<0 of 2>}
  // CHECK-NEXT: moe.all_gather %[[CHUNKS]]#0 over <"esp", 2, 1> {dim = 0 : i64, moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.1", 2>}
  // CHECK:      %[[BLOCK0:.+]] = moe.all_gather %[[C0]] over <"esp", 2, 1> {dim = 0 : i64, moe.chunk = #moe.chunk<0 of 2>}
  // CHECK:      %[[EXPERT0:.+]] = moe.all_to_all %[[BLOCK0]] over <"ep", 2, 2> {{.*}}moe.chunk = #moe.chunk<0 of 2>,
  // CHECK:      moe.all_to_all_v {{.*}}to_experts>, moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.7", 2>}
  // CHECK:      moe.all_to_all_v %{{.+}}, %[[BLOCK0]], %[[EXPERT0]] {{.*}}from_experts>, moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.12", 2>}
  // CHECK-NEXT: %[[OUT0:.+]] = moe.slice {{.*}}moe.chunk = #moe.chunk<0 of 2>, moe.ring = #moe.ring<"dropless.0.13", 1>}
  // CHECK-NEXT: %[[C1:.+]] = moe.to_varying %[[COUNTED]]#1 over <"mp", 2, 1> {moe.chunk = #moe.chunk<1 of 2>}
  // CHECK-NEXT: moe.all_gather %[[CHUNKS]]#1 over <"esp", 2, 1> {dim = 0 : i64, moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"dropless.0.1", 2>}
  // CHECK:      %[[BLOCK1:.+]] = moe.all_gather %[[C1]] over <"esp", 2, 1> {dim = 0 : i64, moe.chunk = #moe.chunk<1 of 2>}
  // CHECK:      %[[EXPERT1:.+]] = moe.all_to_all %[[BLOCK1]] over <"ep", 2, 2> {{.*}}moe.chunk = #moe.chunk<1 of 2>,
  // CHECK:      moe.all_to_all_v {{.*}}to_experts>, moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"dropless.0.7", 2>}
  // CHECK:      moe.all_to_all_v %{{.+}}, %[[BLOCK1]], %[[EXPERT1]] {{.*}}from_experts>, moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"dropless.0.12", 2>}
  // CHECK-NEXT: %[[OUT1:.+]] = moe.slice
  // CHECK-NEXT: %[[OUT:.+]] = moe.concat %[[OUT0]], %[[OUT1]] :
  // CHECK-NEXT: moe.combine %[[OUT]], %{{.+}} weights(
  func.func @dropless(%x: tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
