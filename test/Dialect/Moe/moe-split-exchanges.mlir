// RUN: moe-opt %s -split-input-file \
// RUN:     --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2},moe-differentiate),canonicalize,cse,func.func(moe-split-exchanges,moe-verify-spmd))" \
// RUN:   2> %t.err | FileCheck %s --check-prefix=ALL --implicit-check-not="= moe.all_to_all_phase" --implicit-check-not="= moe.join_phases"
// RUN: moe-opt %s -split-input-file \
// RUN:     --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2},moe-differentiate),canonicalize,cse,func.func(moe-split-exchanges{phases=2},moe-verify-spmd))" \
// RUN:   2> %t.err | FileCheck %s --check-prefix=TWO --implicit-check-not="= moe.all_to_all_phase" --implicit-check-not="= moe.join_phases"
// RUN: moe-opt %s -split-input-file \
// RUN:     --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2},moe-differentiate),canonicalize,cse,func.func(moe-split-exchanges{phases=3},moe-verify-spmd))" \
// RUN:   2> %t.err | FileCheck %s --check-prefix=TWO --implicit-check-not="= moe.all_to_all_phase" --implicit-check-not="= moe.join_phases"
// RUN: moe-opt %s -split-input-file \
// RUN:     --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2},moe-differentiate),canonicalize,cse,func.func(moe-split-exchanges{phases=1},moe-verify-spmd))" \
// RUN:   2> %t.err | FileCheck %s --check-prefix=ONE --implicit-check-not="= moe.all_to_all_phase" --implicit-check-not="= moe.join_phases"
// RUN: moe-opt %s -split-input-file \
// RUN:     --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s1},moe-differentiate),canonicalize,cse,func.func(moe-split-exchanges,moe-verify-spmd))" \
// RUN:   2> %t.err | FileCheck %s --check-prefix=ONE --implicit-check-not="= moe.all_to_all_phase" --implicit-check-not="= moe.join_phases"

// S2's second AlltoAll and its gather, forward, and what the backward has of the first ones: each in phases, with all that is
// between them. S1 gathers tokens and not rows of experts, so that nothing of it can be split; nor is one phase a phase.

// mp = esp = 2, ep = 2: a phase is an exchange with one ESP group, so that there are ep = 2.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // ONE-LABEL: func.func @esp_groups(
  // ALL-LABEL: func.func @esp_groups(
  // ALL:   [[ALL_TO_ALL_PHASE:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x16x8xf32>) -> tensor<4x4x8xf32>
  // ALL:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE]]
  // ALL-SAME:   : (tensor<4x4x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE2:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x16x8xf32>) -> tensor<4x4x8xf32>
  // ALL:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE2]]
  // ALL-SAME:   : (tensor<4x4x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE2]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // ALL:   [[JOIN_PHASES:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER]], [[ALL_GATHER2]] over <"ep_esp", 4, 1>
  // ALL-SAME:   : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE3:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x16x8xf32>) -> tensor<4x4x8xf32>
  // ALL:   [[LOCAL_REDUCE3:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE3]]
  // ALL-SAME:   : (tensor<4x4x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[ALL_GATHER3:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE3]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE4:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x16x8xf32>) -> tensor<4x4x8xf32>
  // ALL:   [[LOCAL_REDUCE4:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE4]]
  // ALL-SAME:   : (tensor<4x4x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[ALL_GATHER4:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE4]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // ALL:   [[JOIN_PHASES2:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER3]], [[ALL_GATHER4]] over <"ep_esp", 4,
  // ALL-SAME:   1> : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  // TWO-LABEL: func.func @esp_groups(
  // TWO:   [[ALL_TO_ALL_PHASE:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x16x8xf32>) -> tensor<4x4x8xf32>
  // TWO:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE]]
  // TWO-SAME:   : (tensor<4x4x8xf32>) -> tensor<2x4x8xf32>
  // TWO:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[ALL_TO_ALL_PHASE2:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x16x8xf32>) -> tensor<4x4x8xf32>
  // TWO:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE2]]
  // TWO-SAME:   : (tensor<4x4x8xf32>) -> tensor<2x4x8xf32>
  // TWO:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE2]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[JOIN_PHASES:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER]], [[ALL_GATHER2]] over <"ep_esp", 4, 1>
  // TWO-SAME:   : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  // TWO:   [[ALL_TO_ALL_PHASE3:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x16x8xf32>) -> tensor<4x4x8xf32>
  // TWO:   [[LOCAL_REDUCE3:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE3]]
  // TWO-SAME:   : (tensor<4x4x8xf32>) -> tensor<2x4x8xf32>
  // TWO:   [[ALL_GATHER3:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE3]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[ALL_TO_ALL_PHASE4:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 4, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x16x8xf32>) -> tensor<4x4x8xf32>
  // TWO:   [[LOCAL_REDUCE4:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE4]]
  // TWO-SAME:   : (tensor<4x4x8xf32>) -> tensor<2x4x8xf32>
  // TWO:   [[ALL_GATHER4:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE4]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[JOIN_PHASES2:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER3]], [[ALL_GATHER4]] over <"ep_esp", 4,
  // TWO-SAME:   1> : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  func.func @esp_groups(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "esp_groups" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// ep = 4: four phases, or two of two ESP groups each; three at most are two, as three do not divide eight members.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  // ONE-LABEL: func.func @four_groups(
  // ALL-LABEL: func.func @four_groups(
  // ALL:   [[ALL_TO_ALL_PHASE:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 4 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x32x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE]]
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<1x4x8xf32>
  // ALL:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x4x8xf32>) -> tensor<1x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE2:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 4 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x32x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE2]]
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<1x4x8xf32>
  // ALL:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE2]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x4x8xf32>) -> tensor<1x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE3:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 2 : i64, phases = 4 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x32x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[LOCAL_REDUCE3:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE3]]
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<1x4x8xf32>
  // ALL:   [[ALL_GATHER3:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE3]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x4x8xf32>) -> tensor<1x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE4:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 3 : i64, phases = 4 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x32x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[LOCAL_REDUCE4:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE4]]
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<1x4x8xf32>
  // ALL:   [[ALL_GATHER4:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE4]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x4x8xf32>) -> tensor<1x8x8xf32>
  // ALL:   [[JOIN_PHASES:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER]], [[ALL_GATHER2]], [[ALL_GATHER3]],
  // ALL-SAME:   [[ALL_GATHER4]] over <"ep_esp", 8, 1>
  // ALL-SAME:   : (tensor<1x8x8xf32>, tensor<1x8x8xf32>, tensor<1x8x8xf32>, tensor<1x8x8xf32>) -> tensor<4x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE5:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 4 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x32x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[LOCAL_REDUCE5:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE5]]
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<1x4x8xf32>
  // ALL:   [[ALL_GATHER5:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE5]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x4x8xf32>) -> tensor<1x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE6:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 4 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x32x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[LOCAL_REDUCE6:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE6]]
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<1x4x8xf32>
  // ALL:   [[ALL_GATHER6:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE6]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x4x8xf32>) -> tensor<1x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE7:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 2 : i64, phases = 4 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x32x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[LOCAL_REDUCE7:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE7]]
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<1x4x8xf32>
  // ALL:   [[ALL_GATHER7:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE7]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x4x8xf32>) -> tensor<1x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE8:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 3 : i64, phases = 4 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x32x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[LOCAL_REDUCE8:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE8]]
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<1x4x8xf32>
  // ALL:   [[ALL_GATHER8:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE8]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x4x8xf32>) -> tensor<1x8x8xf32>
  // ALL:   [[JOIN_PHASES2:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER5]], [[ALL_GATHER6]], [[ALL_GATHER7]],
  // ALL-SAME:   [[ALL_GATHER8]] over <"ep_esp", 8, 1>
  // ALL-SAME:   : (tensor<1x8x8xf32>, tensor<1x8x8xf32>, tensor<1x8x8xf32>, tensor<1x8x8xf32>) -> tensor<4x8x8xf32>
  // TWO-LABEL: func.func @four_groups(
  // TWO:   [[ALL_TO_ALL_PHASE:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<1x32x8xf32>) -> tensor<4x4x8xf32>
  // TWO:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE]] {blocks = 2 : i64}
  // TWO-SAME:   : (tensor<4x4x8xf32>) -> tensor<2x4x8xf32>
  // TWO:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[ALL_TO_ALL_PHASE2:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<1x32x8xf32>) -> tensor<4x4x8xf32>
  // TWO:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE2]] {blocks = 2 : i64}
  // TWO-SAME:   : (tensor<4x4x8xf32>) -> tensor<2x4x8xf32>
  // TWO:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE2]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[JOIN_PHASES:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER]], [[ALL_GATHER2]] over <"ep_esp", 8, 1>
  // TWO-SAME:   : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  // TWO:   [[ALL_TO_ALL_PHASE3:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<1x32x8xf32>) -> tensor<4x4x8xf32>
  // TWO:   [[LOCAL_REDUCE3:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE3]] {blocks = 2 : i64}
  // TWO-SAME:   : (tensor<4x4x8xf32>) -> tensor<2x4x8xf32>
  // TWO:   [[ALL_GATHER3:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE3]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[ALL_TO_ALL_PHASE4:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<1x32x8xf32>) -> tensor<4x4x8xf32>
  // TWO:   [[LOCAL_REDUCE4:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE4]] {blocks = 2 : i64}
  // TWO-SAME:   : (tensor<4x4x8xf32>) -> tensor<2x4x8xf32>
  // TWO:   [[ALL_GATHER4:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE4]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[JOIN_PHASES2:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER3]], [[ALL_GATHER4]] over <"ep_esp", 8,
  // TWO-SAME:   1> : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  func.func @four_groups(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "four_groups" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// mp = 4 > esp = 2: all members of mp have to have the same block to gather it, so that a phase is of four members: two of eight.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 2, mp = 4, ep = 4, esp = 2>} {
  // ONE-LABEL: func.func @mp_groups(
  // ALL-LABEL: func.func @mp_groups(
  // ALL:   [[ALL_TO_ALL_PHASE:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x16x8xf32>) -> tensor<4x2x8xf32>
  // ALL:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE]] {blocks = 2 : i64}
  // ALL-SAME:   : (tensor<4x2x8xf32>) -> tensor<2x2x8xf32>
  // ALL:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 4, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x2x8xf32>) -> tensor<2x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE2:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x16x8xf32>) -> tensor<4x2x8xf32>
  // ALL:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE2]] {blocks = 2 : i64}
  // ALL-SAME:   : (tensor<4x2x8xf32>) -> tensor<2x2x8xf32>
  // ALL:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE2]] over <"mp", 4, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x2x8xf32>) -> tensor<2x8x8xf32>
  // ALL:   [[JOIN_PHASES:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER]], [[ALL_GATHER2]] over <"ep_esp", 8, 1>
  // ALL-SAME:   : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE3:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x16x8xf32>) -> tensor<4x2x8xf32>
  // ALL:   [[LOCAL_REDUCE3:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE3]] {blocks = 2 : i64}
  // ALL-SAME:   : (tensor<4x2x8xf32>) -> tensor<2x2x8xf32>
  // ALL:   [[ALL_GATHER3:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE3]] over <"mp", 4, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x2x8xf32>) -> tensor<2x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE4:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x16x8xf32>) -> tensor<4x2x8xf32>
  // ALL:   [[LOCAL_REDUCE4:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE4]] {blocks = 2 : i64}
  // ALL-SAME:   : (tensor<4x2x8xf32>) -> tensor<2x2x8xf32>
  // ALL:   [[ALL_GATHER4:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE4]] over <"mp", 4, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x2x8xf32>) -> tensor<2x8x8xf32>
  // ALL:   [[JOIN_PHASES2:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER3]], [[ALL_GATHER4]] over <"ep_esp", 8,
  // ALL-SAME:   1> : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  // TWO-LABEL: func.func @mp_groups(
  // TWO:   [[ALL_TO_ALL_PHASE:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<1x16x8xf32>) -> tensor<4x2x8xf32>
  // TWO:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE]] {blocks = 2 : i64}
  // TWO-SAME:   : (tensor<4x2x8xf32>) -> tensor<2x2x8xf32>
  // TWO:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE]] over <"mp", 4, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x2x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[ALL_TO_ALL_PHASE2:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<1x16x8xf32>) -> tensor<4x2x8xf32>
  // TWO:   [[LOCAL_REDUCE2:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE2]] {blocks = 2 : i64}
  // TWO-SAME:   : (tensor<4x2x8xf32>) -> tensor<2x2x8xf32>
  // TWO:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE2]] over <"mp", 4, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x2x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[JOIN_PHASES:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER]], [[ALL_GATHER2]] over <"ep_esp", 8, 1>
  // TWO-SAME:   : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  // TWO:   [[ALL_TO_ALL_PHASE3:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<1x16x8xf32>) -> tensor<4x2x8xf32>
  // TWO:   [[LOCAL_REDUCE3:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE3]] {blocks = 2 : i64}
  // TWO-SAME:   : (tensor<4x2x8xf32>) -> tensor<2x2x8xf32>
  // TWO:   [[ALL_GATHER3:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE3]] over <"mp", 4, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x2x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[ALL_TO_ALL_PHASE4:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep_esp", 8, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<1x16x8xf32>) -> tensor<4x2x8xf32>
  // TWO:   [[LOCAL_REDUCE4:%[a-z0-9_]+]] = moe.local_reduce [[ALL_TO_ALL_PHASE4]] {blocks = 2 : i64}
  // TWO-SAME:   : (tensor<4x2x8xf32>) -> tensor<2x2x8xf32>
  // TWO:   [[ALL_GATHER4:%[a-z0-9_]+]] = moe.all_gather [[LOCAL_REDUCE4]] over <"mp", 4, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x2x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[JOIN_PHASES2:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER3]], [[ALL_GATHER4]] over <"ep_esp", 8,
  // TWO-SAME:   1> : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  func.func @mp_groups(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "mp_groups" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}

// -----

// mp = 4 = ep esp: one phase would be all of it.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 1, mp = 4, ep = 2, esp = 2>} {
  // ALL-LABEL: func.func @one_phase(
  // TWO-LABEL: func.func @one_phase(
  // ONE-LABEL: func.func @one_phase(
  func.func @one_phase(%x: tensor<16x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<16x8xf32> {
    %y, %aux = moe.layer "one_phase" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    return %y : tensor<16x8xf32>
  }
}

// -----

// mp = 4 > ep esp = 2: no block of the exchange has all members of mp.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 1, mp = 4, ep = 2, esp = 1>} {
  // ALL-LABEL: func.func @no_phase(
  // TWO-LABEL: func.func @no_phase(
  // ONE-LABEL: func.func @no_phase(
  func.func @no_phase(%x: tensor<16x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<16x8xf32> {
    %y, %aux = moe.layer "no_phase" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    return %y : tensor<16x8xf32>
  }
}

// -----

// esp = 1: nothing is summed up on the way, so that blocks are members of ep, and of mp where these are more: ep = 4 in two phases of mp = 2.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 4, esp = 1>} {
  // ONE-LABEL: func.func @no_sum(
  // ALL-LABEL: func.func @no_sum(
  // ALL:   [[ALL_TO_ALL_PHASE:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep", 4, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x16x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL_PHASE]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE2:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep", 4, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x16x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL_PHASE2]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // ALL:   [[JOIN_PHASES:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER]], [[ALL_GATHER2]] over <"ep", 4, 1>
  // ALL-SAME:   : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE3:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep", 4, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x16x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[ALL_GATHER3:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL_PHASE3]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // ALL:   [[ALL_TO_ALL_PHASE4:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep", 4, 1>
  // ALL-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // ALL-SAME:   : (tensor<1x16x8xf32>) -> tensor<2x4x8xf32>
  // ALL:   [[ALL_GATHER4:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL_PHASE4]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // ALL:   [[JOIN_PHASES2:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER3]], [[ALL_GATHER4]] over <"ep", 4, 1>
  // ALL-SAME:   : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  // TWO-LABEL: func.func @no_sum(
  // TWO:   [[ALL_TO_ALL_PHASE:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep", 4, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<1x16x8xf32>) -> tensor<2x4x8xf32>
  // TWO:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL_PHASE]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[ALL_TO_ALL_PHASE2:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep", 4, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<1x16x8xf32>) -> tensor<2x4x8xf32>
  // TWO:   [[ALL_GATHER2:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL_PHASE2]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[JOIN_PHASES:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER]], [[ALL_GATHER2]] over <"ep", 4, 1>
  // TWO-SAME:   : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  // TWO:   [[ALL_TO_ALL_PHASE3:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep", 4, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<1x16x8xf32>) -> tensor<2x4x8xf32>
  // TWO:   [[ALL_GATHER3:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL_PHASE3]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[ALL_TO_ALL_PHASE4:%[a-z0-9_]+]] = moe.all_to_all_phase {{%[a-z0-9_]+}} over <"ep", 4, 1>
  // TWO-SAME:   {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-SAME:   : (tensor<1x16x8xf32>) -> tensor<2x4x8xf32>
  // TWO:   [[ALL_GATHER4:%[a-z0-9_]+]] = moe.all_gather [[ALL_TO_ALL_PHASE4]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO-SAME:   : (tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  // TWO:   [[JOIN_PHASES2:%[a-z0-9_]+]] = moe.join_phases [[ALL_GATHER3]], [[ALL_GATHER4]] over <"ep", 4, 1>
  // TWO-SAME:   : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<4x8x8xf32>
  func.func @no_sum(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "no_sum" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}

// -----

// Dropless: all_to_all_v is not split, nor is the exchange of the counts, which ends in no other one.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // ALL-LABEL: func.func @dropless(
  // TWO-LABEL: func.func @dropless(
  // ONE-LABEL: func.func @dropless(
  func.func @dropless(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// N_MP = 1: nothing is gathered.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 2, esp = 2>} {
  // ALL-LABEL: func.func @no_gather(
  // TWO-LABEL: func.func @no_gather(
  // ONE-LABEL: func.func @no_gather(
  func.func @no_gather(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "no_gather" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
