// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-ppmoe),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --implicit-check-not="= moe.all_" --implicit-check-not="= moe.slice" --implicit-check-not="= moe.assume"
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-ppmoe),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --implicit-check-not="= moe.all_" --implicit-check-not="= moe.slice" --implicit-check-not="= moe.assume"

// PPMoE's schedule of the baseline's layers, before and after canonicalisation the same: each member dispatches the choices of its own
// experts, and one sum takes the place of all exchanges.

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 2, mp = 4, ep = 2, esp = 2>} {
  // S = 16 tokens, T = 2 * 1.0 * 16 / 4 = 8. Each member has E / ep = 2 experts, with half of their columns, and T rows of each. One sum of
  // [S, M] over the four members of mp, which are those of ep and esp; the auxiliary loss is the baseline's.
  // CHECK-LABEL: func.func @capacity(
  // CHECK:      %[[W2:.+]] = moe.to_varying %arg3 over <"dp", 2, 4> :
  // CHECK-NEXT: %[[W1:.+]] = moe.to_varying %arg2 over <"dp", 2, 4> :
  // CHECK:      %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], %[[COUNTS:counts[0-9_]*]], %[[AUX:aux[0-9_]*]] = moe.route %{{.+}} {capacity = 8 : i64}
  // CHECK-NEXT: %[[W:.+]] = moe.to_varying %[[WEIGHTS]] over <"mp", 4, 1> :
  // CHECK-NEXT: %[[X:.+]] = moe.to_varying %arg0 over <"mp", 4, 1> :
  // CHECK-NEXT: %[[OWN:.+]], %{{.+}} = moe.local_slots %[[SLOTS]], %[[COUNTS]] over <"mp", 4, 1> {capacity = 8 : i64, copies = 2 : i64}
  // CHECK-NEXT: %[[ROWS:.+]] = moe.dispatch %[[X]], %[[OWN]] : {{.*}} -> tensor<2x8x8xf32>
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[ROWS]], %[[W1]] :
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[H]]
  // CHECK-NEXT: %[[Y:.+]] = moe.grouped_matmul %[[A]], %[[W2]] :
  // CHECK-NEXT: %[[COMBINED:.+]] = moe.combine %[[Y]], %[[OWN]] weights(%[[W]]) :
  // CHECK-NEXT: %[[SUM:.+]] = moe.all_reduce %[[COMBINED]] over <"mp", 4, 1> :
  // CHECK-NEXT: %[[SHARE:.+]] = moe.scale %[[AUX]] {factor = 5.000000e-01 : f64}
  // CHECK-NEXT: %[[MEAN:.+]] = moe.all_reduce %[[SHARE]] over <"dp", 2, 4> :
  // CHECK-NEXT: return %[[SUM]], %[[MEAN]] :
  func.func @capacity(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<32x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y, %aux : tensor<32x8xf32>, tensor<f32>
  }

  // Dropless: packed rows. The baseline has room for 1.5 times the mean of S k esp = 64 rows that two members of ep send, 96; here
  // that is 1.5 S k / ep = 24. The experts' counts are those of the member's own experts.
  // CHECK-LABEL: func.func @dropless(
  // CHECK:      %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], %[[COUNTS:counts[0-9_]*]], {{.*}} = moe.route %{{.+}} : (
  // CHECK:      %[[OWN:.+]], %[[OWN_COUNTS:.+]] = moe.local_slots %[[SLOTS]], %[[COUNTS]] over <"mp", 4, 1> {copies = 2 : i64, room = 24 : i64}
  // CHECK-NEXT: %[[ROWS:.+]] = moe.dispatch %{{.+}}, %[[OWN]] : {{.*}} -> tensor<24x8xf32>
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[ROWS]], %{{.+}} counts(%[[OWN_COUNTS]]) :
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[H]] counts(%[[OWN_COUNTS]])
  // CHECK-NEXT: %[[Y:.+]] = moe.grouped_matmul %[[A]], %{{.+}} counts(%[[OWN_COUNTS]]) :
  // CHECK-NEXT: %[[COMBINED:.+]] = moe.combine %[[Y]], %[[OWN]] weights(
  // CHECK-NEXT: %[[SUM:.+]] = moe.all_reduce %[[COMBINED]] over <"mp", 4, 1> :
  // CHECK:      %[[MEAN:.+]] = moe.all_reduce %{{.+}} over <"dp", 2, 4> :
  // CHECK-NEXT: return %[[SUM]], %[[MEAN]] :
  func.func @dropless(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<32x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, max_load = 1.5 : f64}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y, %aux : tensor<32x8xf32>, tensor<f32>
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 2, mp = 4, ep = 2, esp = 1>} {
  // A group inside mp: two pairs of members compute the same. Nothing varies over the pairs, so that the experts' weights are cast, and
  // their gradients summed, over dp alone, and no claim is needed. At worst all S k = 32 choices are of one member's experts.
  // CHECK-LABEL: func.func @inside(
  // CHECK:      %[[W2:.+]] = moe.to_varying %arg3 over <"dp", 2, 4> :
  // CHECK-NEXT: %[[W1:.+]] = moe.to_varying %arg2 over <"dp", 2, 4> :
  // CHECK-NEXT: %[[X:.+]] = moe.to_varying %arg0 over <"ep", 2, 1> :
  // CHECK:      %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], %[[COUNTS:counts[0-9_]*]], {{.*}} = moe.route
  // CHECK-NEXT: %[[W:.+]] = moe.to_varying %[[WEIGHTS]] over <"ep", 2, 1> :
  // CHECK-NEXT: %[[OWN:.+]], %[[OWN_COUNTS:.+]] = moe.local_slots %[[SLOTS]], %[[COUNTS]] over <"ep", 2, 1> {room = 32 : i64}
  // CHECK-NEXT: %[[ROWS:.+]] = moe.dispatch %[[X]], %[[OWN]] : {{.*}} -> tensor<32x8xf32>
  // CHECK-NEXT: moe.grouped_matmul %[[ROWS]], %[[W1]] counts(%[[OWN_COUNTS]]) :
  // CHECK:      %[[Y:.+]] = moe.grouped_matmul %{{.+}}, %[[W2]] counts(%[[OWN_COUNTS]]) :
  // CHECK-NEXT: %[[COMBINED:.+]] = moe.combine %[[Y]], %[[OWN]] weights(%[[W]]) :
  // CHECK-NEXT: %[[SUM:.+]] = moe.all_reduce %[[COMBINED]] over <"ep", 2, 1> :
  // CHECK:      %[[MEAN:.+]] = moe.all_reduce %{{.+}} over <"dp", 2, 4> :
  // CHECK-NEXT: return %[[SUM]], %[[MEAN]] :
  func.func @inside(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<32x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "inside" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y, %aux : tensor<32x8xf32>, tensor<f32>
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 1, esp = 1>} {
  // All experts on every rank: nothing to select or to add up. The baseline's claim goes, and with it the sum of dx.
  // CHECK-LABEL: func.func @whole(
  // CHECK:      %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 8 : i64}
  // CHECK-NEXT: %[[ROWS:.+]] = moe.dispatch %arg0, %[[SLOTS]] : {{.*}} -> tensor<4x8x8xf32>
  // CHECK-NEXT: moe.grouped_matmul %[[ROWS]],
  // CHECK:      %[[Y:.+]] = moe.grouped_matmul
  // CHECK-NEXT: %[[OUT:.+]] = moe.combine %[[Y]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // CHECK:      %[[MEAN:.+]] = moe.all_reduce %{{.+}} over <"dp", 2, 2> :
  // CHECK-NEXT: return %[[OUT]], %[[MEAN]] :
  func.func @whole(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<32x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "whole" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y, %aux : tensor<32x8xf32>, tensor<f32>
  }
}
