// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s1}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefixes=CHECK,S1 --implicit-check-not="= moe.{{all_|slice|dump|local_reduce|combine}}"
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-pause-mp{schedule=s1}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefixes=CHECK,S1 --implicit-check-not="= moe.{{all_|slice|dump|local_reduce|combine}}"
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefixes=CHECK,S2 --implicit-check-not="= moe.{{all_|slice|dump|local_reduce|combine}}"
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefixes=CHECK,S2 --implicit-check-not="= moe.{{all_|slice|dump|local_reduce|combine}}"

// Parm's schedules of the baseline's layers, before and after canonicalisation the same, with the paper's shapes: of S rows
// a rank, T = k f S / E an expert, the experts get the rows of P = ep esp members, T / mp each.

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // S = 16, T = 2 * 1.0 * 16 / 4 = 8. S1 is MP-Split to 8 tokens, T1 = 4, dump, EP&ESP-AlltoAll, experts on P T1 = 16 rows,
  // EP&ESP-AlltoAll, local sum, combine, MP-AllGather of the output; the auxiliary loss is the members' mean.
  // CHECK-LABEL: func.func @capacity(
  // CHECK:      %[[W2:.+]] = moe.to_varying %arg3 over <"edp", 2, 4> :
  // CHECK-NEXT: %[[W1:.+]] = moe.to_varying %arg2 over <"edp", 2, 4> :
  // CHECK-NEXT: %[[G:.+]] = moe.to_varying %arg1 over <"dp", 4, 2> :
  // S1-NEXT:    %[[OWN_G:.+]] = moe.to_varying %[[G]] over <"mp", 2, 1> :
  // S1-NEXT:    %[[X:.+]] = moe.slice %arg0 over <"mp", 2, 1> {dim = 0 : i64}
  // S1-NEXT:    %[[LOGITS:.+]] = moe.matmul %[[X]], %[[OWN_G]] : {{.*}} -> tensor<8x4xf32>
  // S1-NEXT:    %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}}, %[[AUX:aux[0-9_]*]] = moe.route %[[LOGITS]] {capacity = 4 : i64}
  // S1-NEXT:    %[[ROWS:.+]] = moe.dispatch %[[X]], %[[SLOTS]] :
  // S2-NEXT:    %[[LOGITS:.+]] = moe.matmul %arg0, %[[G]] : {{.*}} -> tensor<16x4xf32>
  // S2-NEXT:    %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}}, %[[AUX:aux[0-9_]*]] = moe.route %[[LOGITS]] {capacity = 8 : i64}
  // S2-NEXT:    %[[ALL:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // S2-NEXT:    %[[ROWS:.+]] = moe.slice %[[ALL]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK-NEXT: %[[COPIES:.+]] = moe.dump %[[ROWS]] {blocks = 2 : i64} : (tensor<4x4x8xf32>)
  // CHECK-NEXT: %[[RECEIVED:.+]] = moe.all_to_all %[[COPIES]] over <"ep_esp", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : {{.*}} -> tensor<2x16x8xf32>
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[RECEIVED]], %[[W1]] :
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[H]] {kind = #moe<activation gelu>}
  // CHECK-NEXT: %[[Y:.+]] = moe.grouped_matmul %[[A]], %[[W2]] :
  // CHECK-NEXT: %[[RETURNED:.+]] = moe.all_to_all %[[Y]] over <"ep_esp", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: %[[SUM:.+]] = moe.local_reduce %[[RETURNED]] {blocks = 2 : i64}
  // S1-NEXT:    %[[OWN:.+]] = moe.combine %[[SUM]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1-NEXT:    %[[OUT:.+]] = moe.all_gather %[[OWN]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1-NEXT:    %[[OWN_SHARE:.+]] = moe.scale %[[AUX]] {factor = 5.000000e-01 : f64}
  // S1-NEXT:    %[[LOSS:.+]] = moe.all_reduce %[[OWN_SHARE]] over <"mp", 2, 1> :
  // S1-NEXT:    %[[SHARE:.+]] = moe.scale %[[LOSS]] {factor = 2.500000e-01 : f64}
  // S2-NEXT:    %[[GATHERED:.+]] = moe.all_gather %[[SUM]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-NEXT:    %[[OUT:.+]] = moe.combine %[[GATHERED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S2-NEXT:    %[[SHARE:.+]] = moe.scale %[[AUX]] {factor = 2.500000e-01 : f64}
  // CHECK-NEXT: %[[MEAN:.+]] = moe.all_reduce %[[SHARE]] over <"dp", 4, 2> :
  // CHECK-NEXT: return %[[OUT]], %[[MEAN]] :
  func.func @capacity(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Dropless: rows are packed, S k = 32. S1 sends its own 16, S2 its half of 32, whose counts it works out; the counts go the
  // same way, the dumps' copies to the two shards of each expert. The baseline's reservation, max_load times the mean of 64
  // rows, is shared out: 48.
  // CHECK-LABEL: func.func @dropless(
  // S1:         %[[X:.+]] = moe.slice %arg0 over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], %[[COUNTS:counts[0-9_]*]], {{.*}} = moe.route %{{.+}} : (tensor<8x4xf32>)
  // S1-NEXT:    %[[ROWS:.+]] = moe.dispatch %[[X]], %[[SLOTS]] : {{.*}} -> tensor<16x8xf32>
  // S1-NEXT:    %[[COPIED:.+]] = moe.dump %[[COUNTS]] {blocks = 2 : i64, dim = 1 : i64}
  // S2:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], %[[ALL_COUNTS:counts[0-9_]*]], {{.*}} = moe.route %{{.+}} : (tensor<16x4xf32>)
  // S2-NEXT:    %[[COUNTS:.+]] = moe.slice_counts %[[ALL_COUNTS]] over <"mp", 2, 1> {rows = 32 : i64}
  // S2-NEXT:    %[[ALL:.+]] = moe.dispatch %arg0, %[[SLOTS]] : {{.*}} -> tensor<32x8xf32>
  // S2-NEXT:    %[[ROWS:.+]] = moe.slice %[[ALL]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-NEXT:    %[[COPIED:.+]] = moe.dump %[[COUNTS]] {blocks = 2 : i64, dim = 1 : i64}
  // CHECK-NEXT: %[[EXPERT:.+]] = moe.all_to_all %[[COPIED]] over <"ep_esp", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64} : {{.*}} -> tensor<4x2xi32>
  // CHECK-NEXT: %[[COPIES:.+]] = moe.dump %[[ROWS]] : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // CHECK-NEXT: %[[RECEIVED:.+]] = moe.all_to_all_v %[[COPIES]], %[[COUNTS]], %[[EXPERT]] over <"ep_esp", 4, 1> {copies = 2 : i64, direction = #moe<direction to_experts>} : {{.*}} -> tensor<48x8xf32>
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[RECEIVED]], %{{.+}} counts(%[[EXPERT]]) :
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[H]] counts(%[[EXPERT]])
  // CHECK-NEXT: %[[Y:.+]] = moe.grouped_matmul %[[A]], %{{.+}} counts(%[[EXPERT]]) :
  // CHECK-NEXT: %[[RETURNED:.+]] = moe.all_to_all_v %[[Y]], %[[COUNTS]], %[[EXPERT]] over <"ep_esp", 4, 1> {copies = 2 : i64, direction = #moe<direction from_experts>}
  // CHECK-NEXT: %[[SUM:.+]] = moe.local_reduce %[[RETURNED]] :
  // S1-NEXT:    %[[OWN:.+]] = moe.combine %[[SUM]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1-NEXT:    %[[OUT:.+]] = moe.all_gather %[[OWN]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         = moe.all_reduce %{{.+}} over <"mp", 2, 1> :
  // S2-NEXT:    %[[GATHERED:.+]] = moe.all_gather %[[SUM]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-NEXT:    %[[OUT:.+]] = moe.combine %[[GATHERED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // CHECK:      %[[MEAN:.+]] = moe.all_reduce %{{.+}} over <"dp", 4, 2> :
  // CHECK-NEXT: return %[[OUT]], %[[MEAN]] :
  func.func @dropless(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>, max_load = 1.5 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Biases: the gate's is part of what S1 does on its share; the second layer's still counts once among the shards.
  // CHECK-LABEL: func.func @biases(
  // S1:         %[[X:.+]] = moe.slice %arg0 over <"mp", 2, 1> {dim = 0 : i64}
  // CHECK:      %[[LOGITS:.+]] = moe.bias_add
  // S1:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %[[LOGITS]] selection_bias(%{{.+}}) {capacity = 4 : i64} : (tensor<8x4xf32>,
  // S1-NEXT:    %[[ROWS:.+]] = moe.dispatch %[[X]], %[[SLOTS]] :
  // S2:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %[[LOGITS]] selection_bias(%{{.+}}) {capacity = 8 : i64} : (tensor<16x4xf32>,
  // S2-NEXT:    %[[ALL:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // S2-NEXT:    %[[ROWS:.+]] = moe.slice %[[ALL]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK-NEXT: %[[COPIES:.+]] = moe.dump %[[ROWS]] {blocks = 2 : i64}
  // CHECK-NEXT: %[[RECEIVED:.+]] = moe.all_to_all %[[COPIES]] over <"ep_esp", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64}
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[RECEIVED]],
  // CHECK-NEXT: %[[BIASED:.+]] = moe.bias_add %[[H]], %{{.+}} :
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[BIASED]]
  // CHECK-NEXT: %[[Y:.+]] = moe.grouped_matmul %[[A]],
  // CHECK-NEXT: %[[SHARE:.+]] = moe.bias_add %[[Y]], %{{.+}} {scale = 5.000000e-01 : f64}
  // CHECK-NEXT: %[[RETURNED:.+]] = moe.all_to_all %[[SHARE]] over <"ep_esp", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: %[[SUM:.+]] = moe.local_reduce %[[RETURNED]] {blocks = 2 : i64}
  // S1-NEXT:    %[[OWN:.+]] = moe.combine %[[SUM]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1-NEXT:    %[[OUT:.+]] = moe.all_gather %[[OWN]] over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         = moe.all_reduce %{{.+}} over <"mp", 2, 1> :
  // S2-NEXT:    %[[GATHERED:.+]] = moe.all_gather %[[SUM]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-NEXT:    %[[OUT:.+]] = moe.combine %[[GATHERED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // CHECK:      %[[MEAN:.+]] = moe.all_reduce %{{.+}} over <"dp", 4, 2> :
  // CHECK-NEXT: return %[[OUT]], %[[MEAN]] :
  func.func @biases(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %gb: tensor<4xf32>, %sb: tensor<4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b1: tensor<4x16xf32>, %b2: tensor<4x8xf32>)
      -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "biases" %x gate(%g, %gb) selection_bias(%sb) experts(%w1, %w2, %b1, %b2)
      {top_k = 2 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>, tensor<4x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}

// -----

// N_MP = 1: no split and no gather, S1 and S2 are one (Eq. 2): two EP&ESP-AlltoAlls of all rows, T = 8 a member.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 2, esp = 2>} {
  // CHECK-LABEL: func.func @mp1(
  // CHECK:      %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 8 : i64}
  // CHECK:      %[[ROWS:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // CHECK-NEXT: %[[COPIES:.+]] = moe.dump %[[ROWS]] {blocks = 2 : i64}
  // CHECK-NEXT: = moe.all_to_all %[[COPIES]] over <"dp", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x8x8xf32>) -> tensor<2x32x8xf32>
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all %{{.+}} over <"dp", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: %[[SUM:.+]] = moe.local_reduce %[[RETURNED]] {blocks = 2 : i64}
  // CHECK-NEXT: %[[OUT:.+]] = moe.combine %[[SUM]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // CHECK-NEXT: return %[[OUT]] :
  func.func @mp1(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "mp1" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// N_ESP = 1: nothing to dump, nothing to sum up; the exchange is over ep alone.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @esp1(
  // S1:         %[[X:.+]] = moe.slice %arg0 over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 4 : i64}
  // S1:         %[[ROWS:.+]] = moe.dispatch %[[X]], %[[SLOTS]] :
  // S2:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 8 : i64}
  // S2:         %[[ALL:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // S2-NEXT:    %[[ROWS:.+]] = moe.slice %[[ALL]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK-NEXT: = moe.all_to_all %[[ROWS]] over <"mp", 2, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4x8xf32>) -> tensor<2x8x8xf32>
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all %{{.+}} over <"mp", 2, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // S1-NEXT:    %[[OWN:.+]] = moe.combine %[[RETURNED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1-NEXT:    %[[OUT:.+]] = moe.all_gather %[[OWN]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-NEXT:    %[[GATHERED:.+]] = moe.all_gather %[[RETURNED]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-NEXT:    %[[OUT:.+]] = moe.combine %[[GATHERED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // CHECK-NEXT: return %[[OUT]] :
  func.func @esp1(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "esp1" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}

// -----

// N_EP = 1: all experts on each member, the exchange is over esp, of one block.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 1, esp = 2>} {
  // CHECK-LABEL: func.func @ep1(
  // S1:         %[[X:.+]] = moe.slice %arg0 over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 4 : i64}
  // S1:         %[[ROWS:.+]] = moe.dispatch %[[X]], %[[SLOTS]] :
  // S2:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 8 : i64}
  // S2:         %[[ALL:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // S2-NEXT:    %[[ROWS:.+]] = moe.slice %[[ALL]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK-NEXT: %[[COPIES:.+]] = moe.dump %[[ROWS]] : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
  // CHECK-NEXT: = moe.all_to_all %[[COPIES]] over <"mp", 2, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<4x8x8xf32>
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all %{{.+}} over <"mp", 2, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: %[[SUM:.+]] = moe.local_reduce %[[RETURNED]] :
  // S1-NEXT:    %[[OWN:.+]] = moe.combine %[[SUM]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1-NEXT:    %[[OUT:.+]] = moe.all_gather %[[OWN]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-NEXT:    %[[GATHERED:.+]] = moe.all_gather %[[SUM]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-NEXT:    %[[OUT:.+]] = moe.combine %[[GATHERED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // CHECK-NEXT: return %[[OUT]] :
  func.func @ep1(%x: tensor<16x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<16x8xf32> {
    %y, %aux = moe.layer "ep1" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    return %y : tensor<16x8xf32>
  }
}

// -----

// N_EP = N_ESP = 1: no exchange is left, but each member of mp does its share of the work and not all of it.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 1, esp = 1>} {
  // CHECK-LABEL: func.func @mp_only(
  // S1:         %[[X:.+]] = moe.slice %arg0 over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 4 : i64}
  // S1:         %[[ROWS:.+]] = moe.dispatch %[[X]], %[[SLOTS]] :
  // S2:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 8 : i64}
  // S2:         %[[ALL:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // S2-NEXT:    %[[ROWS:.+]] = moe.slice %[[ALL]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK:      %[[Y:.+]] = moe.grouped_matmul
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[Y]]
  // CHECK-NEXT: %[[OUT_ROWS:.+]] = moe.grouped_matmul %[[A]],
  // S1-NEXT:    %[[OWN:.+]] = moe.combine %[[OUT_ROWS]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1-NEXT:    %[[OUT:.+]] = moe.all_gather %[[OWN]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-NEXT:    %[[GATHERED:.+]] = moe.all_gather %[[OUT_ROWS]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-NEXT:    %[[OUT:.+]] = moe.combine %[[GATHERED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // CHECK-NEXT: return %[[OUT]] :
  func.func @mp_only(%x: tensor<16x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<16x8xf32> {
    %y, %aux = moe.layer "mp_only" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    return %y : tensor<16x8xf32>
  }
}

// -----

// N_MP = 4 > N_ESP = 2: shares of a quarter, T1 = 2, over the one group of P = 4, which is also the whole of mp.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 1, mp = 4, ep = 2, esp = 2>} {
  // CHECK-LABEL: func.func @mp_larger(
  // S1:         %[[X:.+]] = moe.slice %arg0 over <"mp", 4, 1> {dim = 0 : i64}
  // S1:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 2 : i64}
  // S1:         %[[ROWS:.+]] = moe.dispatch %[[X]], %[[SLOTS]] :
  // S2:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 8 : i64}
  // S2:         %[[ALL:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // S2-NEXT:    %[[ROWS:.+]] = moe.slice %[[ALL]] over <"mp", 4, 1> {dim = 1 : i64}
  // CHECK-NEXT: %[[COPIES:.+]] = moe.dump %[[ROWS]] {blocks = 2 : i64}
  // CHECK-NEXT: = moe.all_to_all %[[COPIES]] over <"mp", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x2x8xf32>) -> tensor<2x8x8xf32>
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all %{{.+}} over <"mp", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: %[[SUM:.+]] = moe.local_reduce %[[RETURNED]] {blocks = 2 : i64}
  // S1-NEXT:    %[[OWN:.+]] = moe.combine %[[SUM]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1-NEXT:    %[[OUT:.+]] = moe.all_gather %[[OWN]] over <"mp", 4, 1> {dim = 0 : i64}
  // S2-NEXT:    %[[GATHERED:.+]] = moe.all_gather %[[SUM]] over <"mp", 4, 1> {dim = 1 : i64}
  // S2-NEXT:    %[[OUT:.+]] = moe.combine %[[GATHERED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // CHECK-NEXT: return %[[OUT]] :
  func.func @mp_larger(%x: tensor<16x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<16x8xf32> {
    %y, %aux = moe.layer "mp_larger" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    return %y : tensor<16x8xf32>
  }
}

// -----

// N_MP = 2 < N_ESP = 4: four copies of each half, T1 = 4, P = 8.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 4>} {
  // CHECK-LABEL: func.func @esp_larger(
  // S1:         %[[X:.+]] = moe.slice %arg0 over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 4 : i64}
  // S1:         %[[ROWS:.+]] = moe.dispatch %[[X]], %[[SLOTS]] :
  // S2:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 8 : i64}
  // S2:         %[[ALL:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // S2-NEXT:    %[[ROWS:.+]] = moe.slice %[[ALL]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK-NEXT: %[[COPIES:.+]] = moe.dump %[[ROWS]] {blocks = 2 : i64}
  // CHECK-NEXT: = moe.all_to_all %[[COPIES]] over <"ep_esp", 8, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<16x4x8xf32>) -> tensor<2x32x8xf32>
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all %{{.+}} over <"ep_esp", 8, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: %[[SUM:.+]] = moe.local_reduce %[[RETURNED]] {blocks = 2 : i64}
  // S1-NEXT:    %[[OWN:.+]] = moe.combine %[[SUM]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1-NEXT:    %[[OUT:.+]] = moe.all_gather %[[OWN]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-NEXT:    %[[GATHERED:.+]] = moe.all_gather %[[SUM]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-NEXT:    %[[OUT:.+]] = moe.combine %[[GATHERED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // CHECK-NEXT: return %[[OUT]] :
  func.func @esp_larger(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "esp_larger" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

// -----

// N_MP = 4 > P = 2, dropless: a set of experts hears two of the four members only, which may send all that they have. So the
// baseline's reservation, max_load times the mean of 32, is not shared out: 16 for 2 members' 8 rows, and not a quarter of 32.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 1, mp = 4, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @mp_over_sets(
  // S1:         %[[X:.+]] = moe.slice %arg0 over <"mp", 4, 1> {dim = 0 : i64}
  // S1:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], %[[COUNTS:counts[0-9_]*]], {{.*}} = moe.route %{{.+}} : (tensor<4x4xf32>)
  // S1-NEXT:    %[[ROWS:.+]] = moe.dispatch %[[X]], %[[SLOTS]] :
  // S2:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], %[[ALL_COUNTS:counts[0-9_]*]], {{.*}} = moe.route %{{.+}} : (tensor<16x4xf32>)
  // S2-NEXT:    %[[COUNTS:.+]] = moe.slice_counts %[[ALL_COUNTS]] over <"mp", 4, 1> {rows = 32 : i64}
  // S2-NEXT:    %[[ALL:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // S2-NEXT:    %[[ROWS:.+]] = moe.slice %[[ALL]] over <"mp", 4, 1> {dim = 0 : i64}
  // CHECK-NEXT: %[[EXPERT:.+]] = moe.all_to_all %[[COUNTS]] over <"ep", 2, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: = moe.all_to_all_v %[[ROWS]], %[[COUNTS]], %[[EXPERT]] over <"ep", 2, 1> {direction = #moe<direction to_experts>} : (tensor<8x8xf32>, {{.*}} -> tensor<16x8xf32>
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all_v %{{.+}}, %[[COUNTS]], %[[EXPERT]] over <"ep", 2, 1> {direction = #moe<direction from_experts>}
  // S1-NEXT:    %[[OWN:.+]] = moe.combine %[[RETURNED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1-NEXT:    %[[OUT:.+]] = moe.all_gather %[[OWN]] over <"mp", 4, 1> {dim = 0 : i64}
  // S2-NEXT:    %[[GATHERED:.+]] = moe.all_gather %[[RETURNED]] over <"mp", 4, 1> {dim = 0 : i64}
  // S2-NEXT:    %[[OUT:.+]] = moe.combine %[[GATHERED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // CHECK-NEXT: return %[[OUT]] :
  func.func @mp_over_sets(%x: tensor<16x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<16x8xf32> {
    %y, %aux = moe.layer "mp_over_sets" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>, max_load = 1.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    return %y : tensor<16x8xf32>
  }
}

// -----

// Two layers, each of its own schedule's ops; the second one's shared expert is as it was, over mp.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @two_layers(
  // S1:      %[[X:.+]] = moe.slice %arg0 over <"mp", 2, 1> {dim = 0 : i64}
  // S1:      = moe.dispatch %[[X]],
  // S2:      %[[ALL:.+]] = moe.dispatch %arg0,
  // S2-NEXT: %[[ROWS:.+]] = moe.slice %[[ALL]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK:   = moe.all_to_all %{{.+}} over <"mp", 2, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4x8xf32>)
  // CHECK:   %[[RETURNED:.+]] = moe.all_to_all %{{.+}} over <"mp", 2, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // S1-NEXT: %[[FIRST:.+]] = moe.combine %[[RETURNED]],
  // S1-NEXT: = moe.all_gather %[[FIRST]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-NEXT: %[[GATHERED:.+]] = moe.all_gather %[[RETURNED]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-NEXT: %[[FIRST:.+]] = moe.combine %[[GATHERED]],
  // CHECK:   %[[DISPATCHED:.+]] = moe.dispatch %[[FIRST]],
  // S2-NEXT: = moe.slice %[[DISPATCHED]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK:   = moe.all_to_all %{{.+}} over <"mp", 2, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4x8xf32>)
  // CHECK:   %[[RETURNED2:.+]] = moe.all_to_all %{{.+}} over <"mp", 2, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // S1-NEXT: %[[SECOND:.+]] = moe.combine %[[RETURNED2]],
  // S1-NEXT: = moe.all_gather %[[SECOND]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-NEXT: %[[GATHERED2:.+]] = moe.all_gather %[[RETURNED2]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-NEXT: = moe.combine %[[GATHERED2]],
  // CHECK:   = moe.all_reduce %{{.+}} over <"mp", 2, 1> : (tensor<16x8xf32>)
  func.func @two_layers(%x: tensor<16x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %s1: tensor<8x8xf32>, %s2: tensor<8x8xf32>, %sg: tensor<8x1xf32>) -> tensor<16x8xf32> {
    %y, %aux = moe.layer "first" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    %z, %aux2 = moe.layer "second" %y gate(%g) experts(%w1, %w2) shared(%s1, %s2, %sg)
      {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 2.0 : f64}
      : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x1xf32>) -> (tensor<16x8xf32>, tensor<f32>)
    return %z : tensor<16x8xf32>
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 2, esp = 1>} {
  // A rank has 2 routing groups with T = 4 each. S1's members take one each, with all of its T. S2 divides the 8 rows.
  // CHECK-LABEL: func.func @groups(
  // S1:         %[[X:.+]] = moe.slice %arg0 over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 4 : i64} : (tensor<8x4xf32>)
  // S1:         %[[ROWS:.+]] = moe.dispatch %[[X]], %[[SLOTS]] :
  // S2:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 4 : i64, groups = 2 : i64} : (tensor<16x4xf32>)
  // S2:         %[[ALL:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // S2-NEXT:    %[[ROWS:.+]] = moe.slice %[[ALL]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK-NEXT: = moe.all_to_all %[[ROWS]] over <"mp", 2, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x4x8xf32>) -> tensor<2x8x8xf32>
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all %{{.+}} over <"mp", 2, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // S1-NEXT:    %[[OWN:.+]] = moe.combine %[[RETURNED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1-NEXT:    %[[OUT:.+]] = moe.all_gather %[[OWN]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-NEXT:    %[[GATHERED:.+]] = moe.all_gather %[[RETURNED]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-NEXT:    %[[OUT:.+]] = moe.combine %[[GATHERED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1:         = moe.all_reduce %{{.+}} over <"mp", 2, 1> :
  // CHECK:      %[[MEAN:.+]] = moe.all_reduce %{{.+}} over <"dp", 2, 2> :
  // CHECK-NEXT: return %[[OUT]], %[[MEAN]] :
  func.func @groups(%x: tensor<32x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<32x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "groups" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64, groups = 4 : i64}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y, %aux : tensor<32x8xf32>, tensor<f32>
  }

  // 3 groups of 8 tokens, T = 4, cannot be shared out by two: S1 makes 6 of 4 tokens, T1 = 2, three a member.
  // CHECK-LABEL: func.func @more_groups(
  // S1:         %[[X:.+]] = moe.slice %arg0 over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 2 : i64, groups = 3 : i64} : (tensor<12x4xf32>)
  // S1:         %[[ROWS:.+]] = moe.dispatch %[[X]], %[[SLOTS]] :
  // S2:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} {capacity = 4 : i64, groups = 3 : i64} : (tensor<24x4xf32>)
  // S2:         %[[ALL:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // S2-NEXT:    %[[ROWS:.+]] = moe.slice %[[ALL]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK-NEXT: = moe.all_to_all %[[ROWS]] over <"mp", 2, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x6x8xf32>) -> tensor<2x12x8xf32>
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all %{{.+}} over <"mp", 2, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // S1-NEXT:    %[[OWN:.+]] = moe.combine %[[RETURNED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1-NEXT:    %[[OUT:.+]] = moe.all_gather %[[OWN]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-NEXT:    %[[GATHERED:.+]] = moe.all_gather %[[RETURNED]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-NEXT:    %[[OUT:.+]] = moe.combine %[[GATHERED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1:         = moe.all_reduce %{{.+}} over <"mp", 2, 1> :
  // CHECK:      %[[MEAN:.+]] = moe.all_reduce %{{.+}} over <"dp", 2, 2> :
  // CHECK-NEXT: return %[[OUT]], %[[MEAN]] :
  func.func @more_groups(%x: tensor<48x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
      -> (tensor<48x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "more_groups" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64, groups = 6 : i64}
      : (tensor<48x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<48x8xf32>, tensor<f32>)
    return %y, %aux : tensor<48x8xf32>, tensor<f32>
  }

  // How a token chooses is the layer's, whoever routes it.
  // CHECK-LABEL: func.func @routing(
  // S1:         %[[X:.+]] = moe.slice %arg0 over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} selection_bias(%{{.+}}) {capacity = 2 : i64, expert_groups = 4 : i64, group_score = #moe<group_score top2>, renormalize, routing_scale = 2.500000e+00 : f64, score = #moe<score sigmoid>, top_groups = 2 : i64}
  // S1:         %[[ROWS:.+]] = moe.dispatch %[[X]], %[[SLOTS]] :
  // S2:         %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %{{.+}} selection_bias(%{{.+}}) {capacity = 4 : i64, expert_groups = 4 : i64, group_score = #moe<group_score top2>, renormalize, routing_scale = 2.500000e+00 : f64, score = #moe<score sigmoid>, top_groups = 2 : i64}
  // S2:         %[[ALL:.+]] = moe.dispatch %arg0, %[[SLOTS]] :
  // S2-NEXT:    %[[ROWS:.+]] = moe.slice %[[ALL]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK-NEXT: = moe.all_to_all %[[ROWS]] over <"mp", 2, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<16x2x8xf32>) -> tensor<8x4x8xf32>
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all %{{.+}} over <"mp", 2, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // S1-NEXT:    %[[OWN:.+]] = moe.combine %[[RETURNED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // S1-NEXT:    %[[OUT:.+]] = moe.all_gather %[[OWN]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2-NEXT:    %[[GATHERED:.+]] = moe.all_gather %[[RETURNED]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2-NEXT:    %[[OUT:.+]] = moe.combine %[[GATHERED]], %[[SLOTS]] weights(%[[WEIGHTS]]) :
  // CHECK-NEXT: return %[[OUT]] :
  func.func @routing(%x: tensor<32x8xf32>, %g: tensor<8x16xf32>, %sb: tensor<16xf32>, %w1: tensor<16x8x16xf32>, %w2: tensor<16x16x8xf32>) -> tensor<32x8xf32> {
    %y, %aux = moe.layer "routing" %x gate(%g) selection_bias(%sb) experts(%w1, %w2)
      {top_k = 4 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64, score = #moe<score sigmoid>,
       renormalize, routing_scale = 2.5 : f64, expert_groups = 4 : i64, top_groups = 2 : i64, group_score = #moe<group_score top2>}
      : (tensor<32x8xf32>, tensor<8x16xf32>, tensor<16xf32>, tensor<16x8x16xf32>, tensor<16x16x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}
