// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-chunk-experts{chunks=2 exchanged-ring=0 hidden-ring=0},moe-smart-schedule{group-size=2},moe-verify-spmd))" \
// RUN:   | FileCheck %s
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-shadow-experts{shrink=false},moe-chunk-experts{chunks=2 exchanged-ring=0 hidden-ring=0},moe-smart-schedule{group-size=2},moe-verify-spmd),canonicalize,cse)" \
// RUN:   | FileCheck %s --check-prefix=SHADOWS

// Behind the pipeline and the shadows: each chunk of the tokens is exchanged in phases of its own, which are chunks 0 and 1 of four and
// 2 and 3. Phases add up within a chunk only.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // CHECK-LABEL: func.func @chunks(
  // CHECK:         [[X:%[a-z0-9_]+]]:2 = moe.split {{.*}} : (tensor<16x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  // CHECK-NEXT:    [[B:%[a-z0-9_]+]]:2 = moe.split {{.*}} : (tensor<2x8xi32>) -> (tensor<1x8xi32>, tensor<1x8xi32>)
  // The exchange of the counts is one for each of two chunks.
  // CHECK-NEXT:    [[E:%[a-z0-9_]+]] = moe.all_to_all [[B]]#0 {{.*}}#moe.chunk<0 of 2>
  // CHECK-NEXT:    [[E0:%[a-z0-9_]+]] = moe.phase [[E]] over <"ep", 4, 1> {phase = 0 : i64, phases = 2 : i64}
  // CHECK-NEXT:    moe.all_to_all_v [[X]]#0, [[B]]#0, [[E0]] {{.*}}#moe.chunk<0 of 4>, phases = 2 : i64} {{.*}} -> tensor<16x8xf32>
  // CHECK-NEXT:    moe.grouped_matmul {{.*}} counts([[E0]]) {moe.chunk = #moe.chunk<0 of 4>}
  // CHECK:         [[R0:%[a-z0-9_]+]] = moe.all_to_all_v {{.*}}, [[B]]#0, [[E0]] over {{.*}}#moe.chunk<0 of 4>, phases = 2 : i64}
  // CHECK-NEXT:    [[E1:%[a-z0-9_]+]] = moe.phase [[E]] over <"ep", 4, 1> {phase = 1 : i64, phases = 2 : i64}
  // CHECK:         [[R1:%[a-z0-9_]+]] = moe.all_to_all_v {{.*}}, [[B]]#0, [[E1]] addend([[R0]]) {{.*}}#moe.chunk<1 of 4>, phase = 1 : i64
  // CHECK-NEXT:    [[F:%[a-z0-9_]+]] = moe.all_to_all [[B]]#1 {{.*}}#moe.chunk<1 of 2>
  // CHECK-NEXT:    [[F0:%[a-z0-9_]+]] = moe.phase [[F]] over <"ep", 4, 1> {phase = 0 : i64, phases = 2 : i64}
  // CHECK-NEXT:    moe.all_to_all_v [[X]]#1, [[B]]#1, [[F0]] {{.*}}#moe.chunk<2 of 4>, phases = 2 : i64}
  // CHECK:         [[R2:%[a-z0-9_]+]] = moe.all_to_all_v {{.*}}, [[B]]#1, [[F0]] over {{.*}}#moe.chunk<2 of 4>, phases = 2 : i64}
  // CHECK:         [[R3:%[a-z0-9_]+]] = moe.all_to_all_v {{.*}}, [[B]]#1, {{.*}} addend([[R2]]) {{.*}}#moe.chunk<3 of 4>, phase = 1 : i64
  // CHECK-NEXT:    [[ALL:%[a-z0-9_]+]] = moe.concat [[R1]], [[R3]] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  // CHECK-NEXT:    moe.combine [[ALL]]

  // Shadows are chosen once for all chunks, and their choices are in no chunk.
  // SHADOWS-LABEL: func.func @chunks(
  // SHADOWS:       moe.choose_shadows
  // SHADOWS:       [[OWN:%[a-z0-9_]+]], [[OWN_COUNTS:%[a-z0-9_]+]], [[THEIRS:%[a-z0-9_]+]], [[THEIR_COUNTS:%[a-z0-9_]+]] = moe.divide_choices
  // SHADOWS-SAME:    {chunk_rows = 8 : i64, chunks = 2 : i64} : (tensor<8x2xi32>, tensor<1x8xi32>)
  // SHADOWS-SAME:    -> (tensor<8x2xi32>, tensor<2x8xi32>, tensor<8x2xi32>, tensor<1x2xi32>)
  // SHADOWS:       moe.split [[OWN_COUNTS]] : (tensor<2x8xi32>)
  // SHADOWS-COUNT-8: moe.all_to_all_v {{.*}} phases = 2 : i64}
  // SHADOWS:       moe.broadcast_experts
  // SHADOWS:       moe.dispatch {{.*}}, [[THEIRS]] : (tensor<8x8xf32>, tensor<8x2xi32>) -> tensor<16x8xf32>
  // SHADOWS-NEXT:  moe.grouped_matmul {{.*}} counts([[THEIR_COUNTS]]) :
  // SHADOWS-NOT:   moe.chunk
  // SHADOWS:       return
  func.func @chunks(%x: tensor<32x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x8xf32>, %w1: tensor<8x8x16xf32>, %w2: tensor<8x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "chunks" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8x16xf32>, tensor<8x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}
