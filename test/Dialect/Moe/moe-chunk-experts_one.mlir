// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize)" -o %t.before
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,func.func(moe-chunk-experts{chunks=1}))" -o %t.after
// RUN: diff %t.before %t.after
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,func.func(moe-chunk-experts{chunks=2 exchanged-ring=0 hidden-ring=0}))" \
// RUN:   | FileCheck %s --implicit-check-not=moe.ring
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,func.func(moe-chunk-experts{chunks=2 exchanged-ring=3 hidden-ring=4}))" \
// RUN:   | FileCheck %s --check-prefix=RINGS

// One chunk is the identity; rings are as deep as they are said to be, and none where that is 0.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @one(
  // CHECK-COUNT-2: moe.grouped_matmul {{.*}} {moe.chunk = #moe.chunk<0 of 2>}
  // CHECK-COUNT-2: moe.grouped_matmul {{.*}} {moe.chunk = #moe.chunk<1 of 2>}
  // RINGS-LABEL: func.func @one(
  // RINGS:       moe.all_to_all {{.*}}moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"one.0.[[#]]", 3>
  // RINGS:       moe.grouped_matmul {{.*}}moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"one.0.[[#]]", 4>
  // RINGS:       moe.activation {{.*}}moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"one.0.[[#]]", 4>
  // RINGS:       moe.grouped_matmul {{.*}}moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"one.0.[[#]]", 3>
  func.func @one(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "one" %x gate(%g) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
