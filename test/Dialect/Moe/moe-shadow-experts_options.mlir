// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 1>'},moe-partition,canonicalize,func.func(moe-shadow-experts{max=1}))" -split-input-file \
// RUN:   | FileCheck %s --check-prefix=ONE
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 1>'},moe-partition,canonicalize,func.func(moe-shadow-experts{max=2}))" -split-input-file \
// RUN:   | FileCheck %s --check-prefix=TWO
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 1>'},moe-partition,canonicalize,func.func(moe-shadow-experts))" -split-input-file \
// RUN:   | FileCheck %s --check-prefix=MANY
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 1>'},moe-partition,canonicalize,func.func(moe-shadow-experts{max=1000 shrink=false}))" -split-input-file \
// RUN:   | FileCheck %s --check-prefix=ALL
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 4, expert_flops = 1024.0, expert_bytes = 128.0, link_bytes = 64.0, node_link_bytes = 256.0, broadcast_bytes = 4096.0, expert_start = 0.5>'},moe-partition,canonicalize,func.func(moe-shadow-experts{policy=algorithm1 phases=2}))" -split-input-file \
// RUN:   | FileCheck %s --check-prefix=FIGURES
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 3>'},moe-partition,canonicalize,func.func(moe-shadow-experts{policy=prefix}))" -split-input-file \
// RUN:   | FileCheck %s --check-prefix=ODD

// How many shadows there may be, the room that is left to reserve, and what a row and an expert take.

// Sixteen workers of two experts with 16 rows each, of which there are 256. One shadow: a worker with all of them in one expert
// keeps none, one with them in two keeps 128. Two: three workers of a third each, two of which give one away, leave 85.
// A quarter of 32 experts: four times the mean of 16, as less would be needed.
module attributes {moe.parallel = #moe.parallel<world = 16, pp = 1, dp = 16, mp = 1, ep = 16, esp = 1>} {
  // ONE-LABEL: func.func @pairs(
  // ONE:         moe.choose_shadows {{.*}}most = 1 : i64, policy = #moe<shadow_policy simulate>, room = 128 : i64, workers = 16 : i64}
  // ONE:         moe.all_to_all_v {{.*}}to_experts>} : (tensor<16x8xf32>, tensor<1x32xi32>, tensor<16x2xi32>) -> tensor<128x8xf32>
  // ONE:         moe.grouped_matmul {{.*}} -> tensor<128x16xf32>
  // ONE:         moe.activation {{.*}} -> tensor<128x16xf32>
  // ONE:         moe.grouped_matmul {{.*}} -> tensor<128x8xf32>
  // ONE:         moe.all_to_all_v {{.*}}from_experts>} : (tensor<128x8xf32>, tensor<1x32xi32>, tensor<16x2xi32>) -> tensor<16x8xf32>
  // TWO-LABEL: func.func @pairs(
  // TWO:         moe.choose_shadows {{.*}}most = 2 : i64, {{.*}}room = 85 : i64
  // TWO:         moe.all_to_all_v {{.*}}to_experts>} : {{.*}} -> tensor<85x8xf32>
  // MANY-LABEL: func.func @pairs(
  // MANY:        moe.choose_shadows {{.*}}most = 8 : i64, {{.*}}room = 64 : i64
  // MANY:        moe.all_to_all_v {{.*}}to_experts>} : {{.*}} -> tensor<64x8xf32>
  // MANY:        moe.broadcast_experts {{.*}} -> tensor<8x8x16xf32>
  // Without shrinking the room is that of the whole layer, and no more experts are shadows than there are.
  // ALL-LABEL: func.func @pairs(
  // ALL:         moe.choose_shadows {{.*}}most = 32 : i64, {{.*}}room = 256 : i64
  // ALL:         moe.all_to_all_v {{.*}}to_experts>} : {{.*}} -> tensor<256x8xf32>
  // ALL:         moe.broadcast_experts {{.*}} -> tensor<32x8x16xf32>
  // A row is 32 bytes and 512 FLOPs, an expert 1024 bytes.
  // FIGURES-LABEL: func.func @pairs(
  // FIGURES:     moe.choose_shadows
  // FIGURES-SAME:  {expert = 2.500000e-01 : f64, most = 8 : i64, node_workers = 4 : i64, phases = 2 : i64, policy = #moe<shadow_policy algorithm1>,
  // FIGURES-SAME:  room = 64 : i64, row_compute = 5.000000e-01 : f64, row_local = 5.000000e-01 : f64, row_node = 1.250000e-01 : f64,
  // FIGURES-SAME:  row_send = 2.500000e-01 : f64, start = 5.000000e-01 : f64, workers = 16 : i64}
  // If nodes do not divide the workers, each worker counts as one.
  // ODD-LABEL: func.func @pairs(
  // ODD:         moe.choose_shadows {{.*}} {most = 8 : i64, policy = #moe<shadow_policy prefix>, room = 64 : i64, workers = 16 : i64}
  func.func @pairs(%x: tensor<128x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x32xf32>, %w1: tensor<32x8x16xf32>, %w2: tensor<32x16x8xf32>) -> tensor<128x8xf32> {
    %y, %aux = moe.layer "pairs" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<128x8xf32>, tensor<8x32xf32>, tensor<32x8x16xf32>, tensor<32x16x8xf32>) -> (tensor<128x8xf32>, tensor<f32>)
    return %y : tensor<128x8xf32>
  }
}

// -----

// Eight workers of four experts, 128 rows. All of them may be one worker's, which keeps three quarters behind one shadow and a
// half, which is four times the mean, behind two.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 8, esp = 1>} {
  // ONE-LABEL: func.func @fours(
  // ONE:         moe.choose_shadows {{.*}}most = 1 : i64, {{.*}}room = 96 : i64
  // TWO-LABEL: func.func @fours(
  // TWO:         moe.choose_shadows {{.*}}most = 2 : i64, {{.*}}room = 64 : i64
  // MANY-LABEL: func.func @fours(
  // MANY:        moe.choose_shadows {{.*}}most = 8 : i64, {{.*}}room = 64 : i64
  // ALL-LABEL: func.func @fours(
  // ALL:         moe.choose_shadows {{.*}}most = 32 : i64, {{.*}}room = 128 : i64
  func.func @fours(%x: tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x32xf32>, %w1: tensor<32x8x16xf32>, %w2: tensor<32x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "fours" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<64x8xf32>, tensor<8x32xf32>, tensor<32x8x16xf32>, tensor<32x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// A bound on the load that is less than that stays.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 8, esp = 1>} {
  // ONE-LABEL: func.func @bounded(
  // ONE:         moe.choose_shadows {{.*}}most = 1 : i64, {{.*}}room = 24 : i64
  // ONE:         moe.all_to_all_v {{.*}}to_experts>} : {{.*}} -> tensor<24x8xf32>
  // ALL-LABEL: func.func @bounded(
  // ALL:         moe.choose_shadows {{.*}}most = 32 : i64, {{.*}}room = 24 : i64
  func.func @bounded(%x: tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x32xf32>, %w1: tensor<32x8x16xf32>, %w2: tensor<32x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "bounded" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>, max_load = 1.5 : f64}
      : (tensor<64x8xf32>, tensor<8x32xf32>, tensor<32x8x16xf32>, tensor<32x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
