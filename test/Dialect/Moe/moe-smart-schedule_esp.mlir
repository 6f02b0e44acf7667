// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-smart-schedule{group-size=1},moe-verify-spmd))" \
// RUN:   | FileCheck %s
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-smart-schedule{group-size=1},moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefix=S2

// Members of esp hold parts of the same experts. In the baseline the ranks of a group over ep are two apart, so that one of them
// is a group of more than one rank. In S2 the four ranks of mp send parts of the same rows, and are always in one group, which is half of
// the members.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 2, mp = 4, ep = 4, esp = 2>} {
  // The counts are used in two states, of which a phase has a part each: where the sum over esp and the way back want them replicated
  // over mp they are.
  // CHECK-LABEL: func.func @esp(
  // CHECK:         [[C:%[a-z0-9_]+]] = moe.all_to_all {{.*}} over <"ep", 4, 2> {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x4xi32>) -> tensor<8x1xi32>
  // CHECK-NEXT:    [[VC:%[a-z0-9_]+]] = moe.to_varying [[C]]
  // CHECK-NEXT:    [[V0:%[a-z0-9_]+]] = moe.phase [[VC]] over <"ep", 4, 2> {phase = 0 : i64, phases = 4 : i64} : (tensor<8x1xi32>) -> tensor<2x1xi32>
  // CHECK-NEXT:    [[C0:%[a-z0-9_]+]] = moe.phase [[C]] over <"ep", 4, 2> {phase = 0 : i64, phases = 4 : i64} : (tensor<8x1xi32>) -> tensor<2x1xi32>
  // CHECK-NEXT:    moe.all_to_all_v {{.*}}, [[V0]] over <"ep", 4, 2> {direction = #moe<direction to_experts>, moe.chunk = #moe.chunk<0 of 4>, phases = 4 : i64}
  // CHECK:         moe.grouped_matmul {{.*}} counts([[V0]]) {moe.chunk = #moe.chunk<0 of 4>}
  // CHECK:         moe.all_reduce {{.*}} counts([[C0]]) over <"esp", 2, 1> {moe.chunk = #moe.chunk<0 of 4>}
  // CHECK:         moe.all_to_all_v {{.*}}, [[C0]] over <"ep", 4, 2> {direction = #moe<direction from_experts>, moe.chunk = #moe.chunk<0 of 4>
  // CHECK:         moe.all_to_all_v {{.*}} addend({{.*}}moe.chunk = #moe.chunk<3 of 4>
  // CHECK-NEXT:    moe.slice {{.*}} over <"esp", 2, 1>

  // The tokens of a phase are those of four ranks. At most one choice of each of the 16 is for an expert.
  // S2-LABEL: func.func @esp(
  // S2:         [[C:%[a-z0-9_]+]] = moe.all_to_all {{.*}} over <"ep_esp", 8, 1>
  // S2:         [[C0:%[a-z0-9_]+]] = moe.phase [[C]] over <"ep_esp", 8, 1> {phase = 0 : i64, phases = 2 : i64} : (tensor<8x1xi32>) -> tensor<4x1xi32>
  // S2-NEXT:    moe.all_to_all_v {{.*}}, [[C0]] over <"ep_esp", 8, 1>
  // S2-SAME:      {copies = 2 : i64, direction = #moe<direction to_experts>, moe.chunk = #moe.chunk<0 of 2>, phases = 2 : i64}
  // S2-SAME:      : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<4x1xi32>) -> tensor<16x8xf32>
  // S2:         moe.all_to_all_v {{.*}} addend({{.*}}) over <"ep_esp", 8, 1> {copies = 2 : i64, direction = #moe<direction from_experts>, moe.chunk = #moe.chunk<1 of 2>, phase = 1 : i64, phases = 2 : i64}
  // S2-NEXT:    moe.local_reduce
  func.func @esp(%x: tensor<32x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "esp" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}
