// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-send-once),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-send-once{node-ranks=4}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-send-once),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=S2
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-send-once,moe-serve-in-passes),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=PASSES
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-send-once{node-ranks=2}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=NODES
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-send-once{chunks=2},moe-chunk-experts{chunks=2},moe-serve-in-passes),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=CHUNKS

// A rank gets at most one row of each of 16 tokens with 4 choices: 64 rows of 4 ranks, in place of 128 for its two experts.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // CHECK-LABEL: func.func @layer(
  // CHECK:      %{{[a-z0-9_]+}}, [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]], [[WEIGHTS:%[a-z0-9_]+]], %{{.*}} = moe.route
  // CHECK-NEXT: [[SLOTS1:%[a-z0-9_]+]], [[COUNTS1:%[a-z0-9_]+]], [[SENT:%[a-z0-9_]+]] = moe.merge_choices [[EXPERTS]] dropped([[SLOTS]]) over <"self", 1, 1> {experts = 8 : i64} : (tensor<16x4xi32>, tensor<16x4xi32>) -> (tensor<16x4xi32>, tensor<1x4xi32>, tensor<64x4xi32>)
  // CHECK-NEXT: [[D:%[a-z0-9_]+]] = moe.dispatch %arg0, [[SLOTS1]] used([[COUNTS1]]) : (tensor<16x8xf32>, tensor<16x4xi32>, tensor<1x4xi32>) -> tensor<64x8xf32>
  // CHECK-NEXT: [[DW:%[a-z0-9_]+]] = moe.dispatch [[WEIGHTS]], [[SLOTS1]] used([[COUNTS1]])
  // CHECK-NEXT: [[N:%[a-z0-9_]+]] = moe.all_to_all [[COUNTS1]] over <"ep", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<1x4xi32>) -> tensor<4x1xi32>
  // CHECK-NEXT: [[R:%[a-z0-9_]+]] = moe.all_to_all_v [[D]], [[COUNTS1]], [[N]] over <"ep", 4, 1> {direction = #moe<direction to_experts>}
  // CHECK-NEXT: [[C:%[a-z0-9_]+]] = moe.all_to_all_v [[SENT]], [[COUNTS1]], [[N]] over <"ep", 4, 1> {{.*}} -> tensor<64x4xi32>
  // CHECK-NEXT: [[W:%[a-z0-9_]+]] = moe.all_to_all_v [[DW]], [[COUNTS1]], [[N]] over <"ep", 4, 1> {{.*}} -> tensor<64x4xf32>
  // CHECK-NEXT: [[SLOTS2:%[a-z0-9_]+]], [[COUNTS2:%[a-z0-9_]+]], %{{.*}} = moe.merge_choices [[C]] used([[N]]) over <"ep", 4, 1> {experts = 8 : i64} {{.*}} -> (tensor<64x4xi32>, tensor<1x2xi32>, tensor<128x4xi32>)
  // CHECK-NEXT: [[X:%[a-z0-9_]+]] = moe.dispatch [[R]], [[SLOTS2]] used([[COUNTS2]]) : (tensor<64x8xf32>, tensor<64x4xi32>, tensor<1x2xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT: moe.grouped_matmul [[X]], %arg2 counts([[COUNTS2]])
  // CHECK:      [[Y:%[a-z0-9_]+]] = moe.grouped_matmul {{.*}} counts([[COUNTS2]])
  // CHECK-NEXT: [[P:%[a-z0-9_]+]] = moe.combine [[Y]], [[SLOTS2]] weights([[W]]) used([[COUNTS2]]) : {{.*}} -> tensor<64x8xf32>
  // CHECK-NEXT: [[B:%[a-z0-9_]+]] = moe.all_to_all_v [[P]], [[COUNTS1]], [[N]] over <"ep", 4, 1> {direction = #moe<direction from_experts>}
  // CHECK-NEXT: moe.combine [[B]], [[SLOTS1]] used([[COUNTS1]]) : (tensor<64x8xf32>, tensor<16x4xi32>, tensor<1x4xi32>) -> tensor<16x8xf32>

  // Chunks are halves of the tokens; moe-chunk-experts leaves them as they are.
  // CHUNKS-LABEL: func.func @layer(
  // CHUNKS: [[EXPERTS:%[a-z0-9_]+]], {{.*}} = moe.route {{.*}} {chunk_rows = 32 : i64, chunks = 2 : i64} {{.*}}tensor<2x8xi32>
  // CHUNKS: [[X:%[a-z0-9_]+]]:2 = moe.split %arg0 : (tensor<16x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  // CHUNKS: moe.merge_choices {{.*}} {experts = 8 : i64, moe.chunk = #moe.chunk<0 of 2>} : (tensor<8x4xi32>, tensor<8x4xi32>)
  // CHUNKS: moe.dispatch [[X]]#0
  // CHUNKS: [[Y0:%[a-z0-9_]+]] = moe.combine {{.*}}#moe.chunk<0 of 2>{{.*}} -> tensor<8x8xf32>
  // CHUNKS: moe.dispatch [[X]]#1
  // CHUNKS: [[Y1:%[a-z0-9_]+]] = moe.combine {{.*}}#moe.chunk<1 of 2>{{.*}} -> tensor<8x8xf32>
  // CHUNKS: moe.concat {{.*}} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>

  // Two nodes of two ranks. 32 rows go to the nodes; as many arrive at most, of which each goes to both ranks of the node at most.
  // NODES-LABEL: func.func @layer(
  // NODES: [[SLOTS1:%[a-z0-9_]+]], [[COUNTS1:%[a-z0-9_]+]], {{.*}} = moe.merge_choices {{.*}} over <"self", 1, 1> {experts = 8 : i64} : {{.*}} -> (tensor<16x4xi32>, tensor<1x2xi32>, tensor<32x4xi32>)
  // NODES: [[N1:%[a-z0-9_]+]] = moe.all_to_all [[COUNTS1]] over <"ep_nodes", 2, 2> {{.*}} : (tensor<1x2xi32>) -> tensor<2x1xi32>
  // NODES: [[C1:%[a-z0-9_]+]] = moe.all_to_all_v {{.*}} over <"ep_nodes", 2, 2> {{.*}} -> tensor<32x4xi32>
  // NODES: [[SLOTS2:%[a-z0-9_]+]], [[COUNTS2:%[a-z0-9_]+]], {{.*}} = moe.merge_choices [[C1]] used([[N1]]) over <"ep_nodes", 2, 2> {experts = 8 : i64} {{.*}} -> (tensor<32x4xi32>, tensor<1x2xi32>, tensor<64x4xi32>)
  // NODES: [[N2:%[a-z0-9_]+]] = moe.all_to_all [[COUNTS2]] over <"ep_node", 2, 1>
  // NODES: [[C2:%[a-z0-9_]+]] = moe.all_to_all_v {{.*}} over <"ep_node", 2, 1> {{.*}} -> tensor<64x4xi32>
  // NODES: moe.merge_choices [[C2]] used([[N2]]) over <"ep", 4, 1> {experts = 8 : i64}
  // NODES: moe.combine {{.*}} weights(
  // NODES: moe.all_to_all_v {{.*}} over <"ep_node", 2, 1> {direction = #moe<direction from_experts>}
  // NODES: moe.combine {{.*}}, [[SLOTS2]] used([[COUNTS2]]) : (tensor<64x8xf32>, tensor<32x4xi32>, tensor<1x2xi32>) -> tensor<32x8xf32>
  // NODES: moe.all_to_all_v {{.*}} over <"ep_nodes", 2, 2> {direction = #moe<direction from_experts>}
  // NODES: moe.combine {{.*}}, [[SLOTS1]] used([[COUNTS1]]) : (tensor<32x8xf32>, tensor<16x4xi32>, tensor<1x2xi32>) -> tensor<16x8xf32>
  func.func @layer(%x: tensor<64x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 4 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// In S2 a member of mp sends half of the rows, and of the choices and the weights. Both holders of an expert get a row.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 2, esp = 2>} {
  // S2-LABEL: func.func @shared(
  // S2: moe.merge_choices {{.*}} over <"self", 1, 1>
  // S2: moe.slice_counts {{.*}} over <"mp", 2, 1> {rows = 32 : i64} : tensor<1x2xi32>
  // S2: moe.slice {{.*}} over <"mp", 2, 1> {dim = 0 : i64} : (tensor<32x8xf32>) -> tensor<16x8xf32>
  // S2: moe.slice {{.*}} over <"mp", 2, 1> {dim = 0 : i64} : (tensor<32x4xi32>) -> tensor<16x4xi32>
  // S2: moe.slice {{.*}} over <"mp", 2, 1> {dim = 0 : i64} : (tensor<32x4xf32>) -> tensor<16x4xf32>
  // S2: moe.merge_choices {{.*}} over <"ep_esp", 4, 1> {copies = 2 : i64, experts = 8 : i64}
  // S2: moe.local_reduce
  // S2: moe.all_gather
  // S2: moe.combine
  func.func @shared(%x: tensor<32x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 4 : i64, activation = #moe<activation gelu>}
      : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}

// -----

// A rank has room for 80 rows of its experts: a pass serves so many choices, whatever rows they arrive in.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // PASSES-LABEL: func.func @bounded(
  // PASSES: %left, [[SLOTS0:%[a-z0-9_]+]], %{{.*}} = moe.window {{.*}} over <"dp", 4, 1> {rows = 80 : i64, workers = 4 : i64}
  // PASSES: %{{[a-z0-9_]+}}, [[SLOTS1:%[a-z0-9_]+]], %{{.*}} = moe.window {{.*}} before(%left) {{.*}}moe.pass = "pass0"
  // PASSES: moe.merge_choices {{.*}} dropped([[SLOTS1]]) {{.*}}moe.pass = "pass0"
  // PASSES: moe.merge_choices {{.*}} used({{.*}}moe.pass = "pass0"
  // A pass serves so many of each chunk, and what it adds is the output of both.
  // CHUNKS-LABEL: func.func @bounded(
  // CHUNKS: moe.window {{.*}} over <"dp", 4, 1> {chunk_rows = 32 : i64, rows = 40 : i64, workers = 4 : i64}
  // CHUNKS: [[SLOTS:%[a-z0-9_]+]], %{{[a-z0-9_]+}} = moe.window {{.*}} before({{.*}}moe.pass = "pass0"
  // CHUNKS: [[PARTS:%[a-z0-9_]+]]:2 = moe.split [[SLOTS]] {moe.pass = "pass0"
  // CHUNKS: moe.merge_choices {{.*}} dropped([[PARTS]]#0) {{.*}}moe.pass = "pass0"
  // CHUNKS: moe.merge_choices {{.*}} dropped([[PARTS]]#1) {{.*}}moe.pass = "pass0"
  // CHUNKS: [[FURTHER:%[a-z0-9_]+]] = moe.concat {{.*}}moe.pass = "pass0"
  // CHUNKS: moe.add {{.*}}[[FURTHER]] {moe.pass = "pass0"
  // PASSES: moe.merge_choices {{.*}} dropped([[SLOTS0]])
  // PASSES: moe.merge_choices {{.*}} used({{.*}} -> (tensor<64x4xi32>, tensor<1x2xi32>, tensor<80x4xi32>)
  func.func @bounded(%x: tensor<64x8xf32>, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 4 : i64, activation = #moe<activation gelu>, max_load = 1.25 : f64}
      : (tensor<64x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
