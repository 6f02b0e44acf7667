// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2},moe-differentiate),canonicalize,cse,func.func(moe-split-exchanges,moe-verify-spmd))" \
// RUN:   2> %t.err | FileCheck %s --check-prefixes=CHECK,SPLIT,ALL --implicit-check-not="= moe.{{all_to_all_phase|join_phases}}"
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2},moe-differentiate),canonicalize,cse,func.func(moe-split-exchanges{phases=2},moe-verify-spmd))" \
// RUN:   2> %t.err | FileCheck %s --check-prefixes=CHECK,SPLIT,TWO --implicit-check-not="= moe.{{all_to_all_phase|join_phases}}"
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2},moe-differentiate),canonicalize,cse,func.func(moe-split-exchanges{phases=3},moe-verify-spmd))" \
// RUN:   2> %t.err | FileCheck %s --check-prefixes=CHECK,SPLIT,TWO --implicit-check-not="= moe.{{all_to_all_phase|join_phases}}"
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2},moe-differentiate),canonicalize,cse,func.func(moe-split-exchanges{phases=1},moe-verify-spmd))" \
// RUN:   2> %t.err | FileCheck %s --implicit-check-not="= moe.{{all_to_all_phase|join_phases}}"
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s1},moe-differentiate),canonicalize,cse,func.func(moe-split-exchanges,moe-verify-spmd))" \
// RUN:   2> %t.err | FileCheck %s --implicit-check-not="= moe.{{all_to_all_phase|join_phases}}"

// S2's second AlltoAll and its gather, forward, and what the backward has of the first ones: each in phases, with all that is
// between them. S1 gathers tokens and not rows of experts, so that nothing of it can be split; nor is one phase a phase.

// mp = esp = 2, ep = 2: a phase is an exchange with one ESP group, so that there are ep = 2.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // CHECK-LABEL: func.func @esp_groups(
  // SPLIT:      %[[P0:.+]] = moe.all_to_all_phase %{{.+}} over <"ep_esp", 4, 1> {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // SPLIT-NEXT: %[[R0:.+]] = moe.local_reduce %[[P0]] :
  // SPLIT-NEXT: %[[G0:.+]] = moe.all_gather %[[R0]] over <"mp", 2, 1> {dim = 1 : i64}
  // SPLIT:      %[[P1:.+]] = moe.all_to_all_phase %{{.+}} over <"ep_esp", 4, 1> {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // SPLIT-NEXT: %[[R1:.+]] = moe.local_reduce %[[P1]] :
  // SPLIT-NEXT: %[[G1:.+]] = moe.all_gather %[[R1]] over <"mp", 2, 1> {dim = 1 : i64}
  // SPLIT-NEXT: = moe.join_phases %[[G0]], %[[G1]] over <"ep_esp", 4, 1> :
  // SPLIT:      %[[DP0:.+]] = moe.all_to_all_phase %{{.+}} over <"ep_esp", 4, 1> {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // SPLIT-NEXT: %[[DR0:.+]] = moe.local_reduce %[[DP0]] :
  // SPLIT-NEXT: %[[DG0:.+]] = moe.all_gather %[[DR0]] over <"mp", 2, 1> {dim = 1 : i64}
  // SPLIT:      %[[DP1:.+]] = moe.all_to_all_phase %{{.+}} over <"ep_esp", 4, 1> {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // SPLIT-NEXT: %[[DR1:.+]] = moe.local_reduce %[[DP1]] :
  // SPLIT-NEXT: %[[DG1:.+]] = moe.all_gather %[[DR1]] over <"mp", 2, 1> {dim = 1 : i64}
  // SPLIT-NEXT: = moe.join_phases %[[DG0]], %[[DG1]] over <"ep_esp", 4, 1> :
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
  // CHECK-LABEL: func.func @four_groups(
  // ALL:         %[[P0:.+]] = moe.all_to_all_phase %{{.+}} over <"ep_esp", 8, 1> {concat_dim = 0 : i64, phase = 0 : i64, phases = 4 : i64, split_dim = 1 : i64}
  // ALL-NEXT:    %[[R0:.+]] = moe.local_reduce %[[P0]] :
  // ALL-NEXT:    %[[G0:.+]] = moe.all_gather %[[R0]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL:         %[[P1:.+]] = moe.all_to_all_phase %{{.+}} over <"ep_esp", 8, 1> {concat_dim = 0 : i64, phase = 1 : i64, phases = 4 : i64, split_dim = 1 : i64}
  // ALL-NEXT:    %[[R1:.+]] = moe.local_reduce %[[P1]] :
  // ALL-NEXT:    %[[G1:.+]] = moe.all_gather %[[R1]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL:         %[[P2:.+]] = moe.all_to_all_phase %{{.+}} over <"ep_esp", 8, 1> {concat_dim = 0 : i64, phase = 2 : i64, phases = 4 : i64, split_dim = 1 : i64}
  // ALL-NEXT:    %[[R2:.+]] = moe.local_reduce %[[P2]] :
  // ALL-NEXT:    %[[G2:.+]] = moe.all_gather %[[R2]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL:         %[[P3:.+]] = moe.all_to_all_phase %{{.+}} over <"ep_esp", 8, 1> {concat_dim = 0 : i64, phase = 3 : i64, phases = 4 : i64, split_dim = 1 : i64}
  // ALL-NEXT:    %[[R3:.+]] = moe.local_reduce %[[P3]] :
  // ALL-NEXT:    %[[G3:.+]] = moe.all_gather %[[R3]] over <"mp", 2, 1> {dim = 1 : i64}
  // ALL-NEXT:    = moe.join_phases %[[G0]], %[[G1]], %[[G2]], %[[G3]] over <"ep_esp", 8, 1> :
  // ALL-COUNT-4: = moe.all_to_all_phase %{{.+}} over <"ep_esp", 8, 1>
  // ALL:         = moe.join_phases %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} over <"ep_esp", 8, 1> :
  // TWO:         %[[P0:.+]] = moe.all_to_all_phase %{{.+}} over <"ep_esp", 8, 1> {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-NEXT:    %[[R0:.+]] = moe.local_reduce %[[P0]] {blocks = 2 : i64}
  // TWO-NEXT:    %[[G0:.+]] = moe.all_gather %[[R0]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO:         %[[P1:.+]] = moe.all_to_all_phase %{{.+}} over <"ep_esp", 8, 1> {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // TWO-NEXT:    %[[R1:.+]] = moe.local_reduce %[[P1]] {blocks = 2 : i64}
  // TWO-NEXT:    %[[G1:.+]] = moe.all_gather %[[R1]] over <"mp", 2, 1> {dim = 1 : i64}
  // TWO-NEXT:    = moe.join_phases %[[G0]], %[[G1]] over <"ep_esp", 8, 1> :
  // TWO-COUNT-2: = moe.all_to_all_phase %{{.+}} over <"ep_esp", 8, 1>
  // TWO:         = moe.join_phases %{{.+}}, %{{.+}} over <"ep_esp", 8, 1> :
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
  // CHECK-LABEL: func.func @mp_groups(
  // SPLIT:         %[[P0:.+]] = moe.all_to_all_phase %{{.+}} over <"ep_esp", 8, 1> {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // SPLIT-NEXT:    %[[R0:.+]] = moe.local_reduce %[[P0]] {blocks = 2 : i64}
  // SPLIT-NEXT:    %[[G0:.+]] = moe.all_gather %[[R0]] over <"mp", 4, 1> {dim = 1 : i64}
  // SPLIT:         %[[P1:.+]] = moe.all_to_all_phase %{{.+}} over <"ep_esp", 8, 1> {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // SPLIT-NEXT:    %[[R1:.+]] = moe.local_reduce %[[P1]] {blocks = 2 : i64}
  // SPLIT-NEXT:    %[[G1:.+]] = moe.all_gather %[[R1]] over <"mp", 4, 1> {dim = 1 : i64}
  // SPLIT-NEXT:    = moe.join_phases %[[G0]], %[[G1]] over <"ep_esp", 8, 1> :
  // SPLIT-COUNT-2: = moe.all_to_all_phase %{{.+}} over <"ep_esp", 8, 1>
  // SPLIT:         = moe.join_phases %{{.+}}, %{{.+}} over <"ep_esp", 8, 1> :
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
  // CHECK-LABEL: func.func @one_phase(
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
  // CHECK-LABEL: func.func @no_phase(
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
  // CHECK-LABEL: func.func @no_sum(
  // SPLIT:         %[[P0:.+]] = moe.all_to_all_phase %{{.+}} over <"ep", 4, 1> {concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // SPLIT-NEXT:    %[[G0:.+]] = moe.all_gather %[[P0]] over <"mp", 2, 1> {dim = 1 : i64}
  // SPLIT:         %[[P1:.+]] = moe.all_to_all_phase %{{.+}} over <"ep", 4, 1> {concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64, split_dim = 1 : i64}
  // SPLIT-NEXT:    %[[G1:.+]] = moe.all_gather %[[P1]] over <"mp", 2, 1> {dim = 1 : i64}
  // SPLIT-NEXT:    = moe.join_phases %[[G0]], %[[G1]] over <"ep", 4, 1> :
  // SPLIT-COUNT-2: = moe.all_to_all_phase %{{.+}} over <"ep", 4, 1>
  // SPLIT:         = moe.join_phases %{{.+}}, %{{.+}} over <"ep", 4, 1> :
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
  // CHECK-LABEL: func.func @dropless(
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
  // CHECK-LABEL: func.func @no_gather(
  func.func @no_gather(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "no_gather" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
