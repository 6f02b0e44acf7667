// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s1},moe-differentiate,moe-verify-spmd),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefixes=CHECK,S1 --implicit-check-not="= moe.{{all_|reduce|slice %|dump|local_reduce}}"
// RUN: moe-opt %s -split-input-file --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2},moe-differentiate,moe-verify-spmd),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefixes=CHECK,S2 --implicit-check-not="= moe.{{all_|reduce|slice %|dump|local_reduce}}"

// The backward is what moe-differentiate makes of the forward, and as the paper has it: where the baseline's is AG_ESP(X) + 2 A2A_EP(X) +
// RS_ESP(X) (moe-differentiate-baseline.mlir), S1's and S2's is 2 A2A_EP&ESP(y) + AG_MP, of the sizes of their forward, dumps and local sums
// having changed places; what they slice needs no exchange. Then come the gradient sums, of the gate's and the experts' weights.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // y = 8x4x8 in all four AlltoAlls. S1 gathers tokens both ways, and the gate's gradient is of the member's own ones: summed over mp and dp.
  // In S2 all members of mp have all gradients of the gate: summed over dp alone. The experts' are summed over edp in both.
  // CHECK-LABEL: func.func @capacity(
  // S1:         = moe.slice %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S2:         %[[OWN:.+]] = moe.slice %{{.+}} over <"mp", 2, 1> {dim = 1 : i64}
  // S1:         %[[COPIES:.+]] = moe.dump %{{.+}} {blocks = 2 : i64} : (tensor<4x4x8xf32>)
  // S2-NEXT:    %[[COPIES:.+]] = moe.dump %[[OWN]] {blocks = 2 : i64} : (tensor<4x4x8xf32>)
  // CHECK-NEXT: = moe.all_to_all %[[COPIES]] over <"ep_esp", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64}
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all %{{.+}} over <"ep_esp", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK:      %[[SUM:.+]] = moe.local_reduce %[[RETURNED]] {blocks = 2 : i64}
  // S1:         %[[OUT:.+]] = moe.all_gather %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         = moe.all_reduce %{{.+}} over <"mp", 2, 1> :
  // S2:         = moe.all_gather %[[SUM]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK:      %[[LOSS:.+]] = moe.all_reduce %{{.+}} over <"dp", 4, 2> :
  // S1:         = moe.slice %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S2:         %[[OWN2:.+]] = moe.slice %{{.+}} over <"mp", 2, 1> {dim = 1 : i64}
  // S1:         %[[COPIES2:.+]] = moe.dump %{{.+}} {blocks = 2 : i64} : (tensor<4x4x8xf32>)
  // S2-NEXT:    %[[COPIES2:.+]] = moe.dump %[[OWN2]] {blocks = 2 : i64} : (tensor<4x4x8xf32>)
  // CHECK-NEXT: = moe.all_to_all %[[COPIES2]] over <"ep_esp", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64}
  // CHECK:      %[[RETURNED2:.+]] = moe.all_to_all %{{.+}} over <"ep_esp", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK:      %[[SUM2:.+]] = moe.local_reduce %[[RETURNED2]] {blocks = 2 : i64}
  // S1:         %[[DX:.+]] = moe.all_gather %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         %[[OWN_DG:.+]] = moe.all_reduce %{{.+}} over <"mp", 2, 1> :
  // S1:         %[[DG:.+]] = moe.all_reduce %[[OWN_DG]] over <"dp", 4, 2> :
  // S2:         = moe.all_gather %[[SUM2]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2:         %[[DG:.+]] = moe.all_reduce %{{.+}} over <"dp", 4, 2> :
  // CHECK:      %[[DW1:.+]] = moe.all_reduce %{{.+}} over <"edp", 2, 4> :
  // CHECK:      %[[DW2:.+]] = moe.all_reduce %{{.+}} over <"edp", 2, 4> :
  // S1:         return %[[OUT]], %[[LOSS]], %[[DX]], %[[DG]], %[[DW1]], %[[DW2]] :
  // S2:         return %{{[^,]+}}, %[[LOSS]], %{{[^,]+}}, %[[DG]], %[[DW1]], %[[DW2]] :
  func.func @capacity(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Dropless form: the same with ragged exchanges; the counts of the forward serve the backward, with as many copies.
  // CHECK-LABEL: func.func @dropless(
  // S1:         = moe.slice %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S2:         %[[OWN:.+]] = moe.slice %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // CHECK:      %[[COPIED:.+]] = moe.dump %{{.+}} {blocks = 2 : i64, dim = 1 : i64}
  // CHECK-NEXT: %[[EXPERT:.+]] = moe.all_to_all %[[COPIED]] over <"ep_esp", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // S1:         %[[COPIES:.+]] = moe.dump %{{.+}} : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // S2-NEXT:    %[[COPIES:.+]] = moe.dump %[[OWN]] : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // CHECK-NEXT: = moe.all_to_all_v %[[COPIES]], %{{.+}}, %[[EXPERT]] over <"ep_esp", 4, 1> {copies = 2 : i64, direction = #moe<direction to_experts>}
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all_v %{{.+}}, %{{.+}}, %[[EXPERT]] over <"ep_esp", 4, 1> {copies = 2 : i64, direction = #moe<direction from_experts>}
  // CHECK:      %[[SUM:.+]] = moe.local_reduce %[[RETURNED]] :
  // S1:         %[[OUT:.+]] = moe.all_gather %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         = moe.all_reduce %{{.+}} over <"mp", 2, 1> :
  // S2:         = moe.all_gather %[[SUM]] over <"mp", 2, 1> {dim = 0 : i64}
  // CHECK:      %[[LOSS:.+]] = moe.all_reduce %{{.+}} over <"dp", 4, 2> :
  // S1:         = moe.slice %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S2:         %[[OWN2:.+]] = moe.slice %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         %[[COPIES2:.+]] = moe.dump %{{.+}} : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // S2-NEXT:    %[[COPIES2:.+]] = moe.dump %[[OWN2]] : (tensor<16x8xf32>) -> tensor<32x8xf32>
  // CHECK-NEXT: = moe.all_to_all_v %[[COPIES2]], %{{.+}}, %[[EXPERT]] over <"ep_esp", 4, 1> {copies = 2 : i64, direction = #moe<direction to_experts>}
  // CHECK:      %[[RETURNED2:.+]] = moe.all_to_all_v %{{.+}}, %{{.+}}, %[[EXPERT]] over <"ep_esp", 4, 1> {copies = 2 : i64, direction = #moe<direction from_experts>}
  // CHECK:      %[[SUM2:.+]] = moe.local_reduce %[[RETURNED2]] :
  // S1:         %[[DX:.+]] = moe.all_gather %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         %[[OWN_DG:.+]] = moe.all_reduce %{{.+}} over <"mp", 2, 1> :
  // S1:         %[[DG:.+]] = moe.all_reduce %[[OWN_DG]] over <"dp", 4, 2> :
  // S2:         = moe.all_gather %[[SUM2]] over <"mp", 2, 1> {dim = 0 : i64}
  // S2:         %[[DG:.+]] = moe.all_reduce %{{.+}} over <"dp", 4, 2> :
  // CHECK:      %[[DW1:.+]] = moe.all_reduce %{{.+}} over <"edp", 2, 4> :
  // CHECK:      %[[DW2:.+]] = moe.all_reduce %{{.+}} over <"edp", 2, 4> :
  // S1:         return %[[OUT]], %[[LOSS]], %[[DX]], %[[DG]], %[[DW1]], %[[DW2]] :
  // S2:         return %{{[^,]+}}, %[[LOSS]], %{{[^,]+}}, %[[DG]], %[[DW1]], %[[DW2]] :
  func.func @dropless(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // The second bias is a share of esp's: its gradient is summed over edp and over the shards, which are mp's ranks here.
  // CHECK-LABEL: func.func @biases(
  // S1:         = moe.slice %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S2:         %[[OWN:.+]] = moe.slice %{{.+}} over <"mp", 2, 1> {dim = 1 : i64}
  // S1:         %[[COPIES:.+]] = moe.dump %{{.+}} {blocks = 2 : i64} : (tensor<4x4x8xf32>)
  // S2-NEXT:    %[[COPIES:.+]] = moe.dump %[[OWN]] {blocks = 2 : i64} : (tensor<4x4x8xf32>)
  // CHECK-NEXT: = moe.all_to_all %[[COPIES]] over <"ep_esp", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64}
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all %{{.+}} over <"ep_esp", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK:      %[[SUM:.+]] = moe.local_reduce %[[RETURNED]] {blocks = 2 : i64}
  // S1:         %[[OUT:.+]] = moe.all_gather %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         = moe.all_reduce %{{.+}} over <"mp", 2, 1> :
  // S2:         = moe.all_gather %[[SUM]] over <"mp", 2, 1> {dim = 1 : i64}
  // CHECK:      %[[LOSS:.+]] = moe.all_reduce %{{.+}} over <"dp", 4, 2> :
  // S1:         = moe.slice %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S2:         %[[OWN2:.+]] = moe.slice %{{.+}} over <"mp", 2, 1> {dim = 1 : i64}
  // S1:         %[[COPIES2:.+]] = moe.dump %{{.+}} {blocks = 2 : i64} : (tensor<4x4x8xf32>)
  // S2-NEXT:    %[[COPIES2:.+]] = moe.dump %[[OWN2]] {blocks = 2 : i64} : (tensor<4x4x8xf32>)
  // CHECK-NEXT: = moe.all_to_all %[[COPIES2]] over <"ep_esp", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64}
  // CHECK:      %[[RETURNED2:.+]] = moe.all_to_all %{{.+}} over <"ep_esp", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK:      %[[SUM2:.+]] = moe.local_reduce %[[RETURNED2]] {blocks = 2 : i64}
  // S1:         %[[DX:.+]] = moe.all_gather %{{.+}} over <"mp", 2, 1> {dim = 0 : i64}
  // S1:         %[[OWN_DG:.+]] = moe.all_reduce %{{.+}} over <"mp", 2, 1> :
  // S1:         %[[DG:.+]] = moe.all_reduce %[[OWN_DG]] over <"dp", 4, 2> :
  // S2:         = moe.all_gather %[[SUM2]] over <"mp", 2, 1> {dim = 1 : i64}
  // S2:         %[[DG:.+]] = moe.all_reduce %{{.+}} over <"dp", 4, 2> :
  // CHECK:      %[[DW1:.+]] = moe.all_reduce %{{.+}} over <"edp", 2, 4> :
  // CHECK:      %[[DB1:.+]] = moe.all_reduce %{{.+}} over <"edp", 2, 4> :
  // CHECK:      %[[DW2:.+]] = moe.all_reduce %{{.+}} over <"edp", 2, 4> :
  // CHECK:      %[[SHARE:.+]] = moe.all_reduce %{{.+}} over <"edp", 2, 4> :
  // CHECK:      %[[DB2:.+]] = moe.all_reduce %[[SHARE]] over <"mp", 2, 1> :
  // S1:         return %[[OUT]], %[[LOSS]], %[[DX]], %[[DG]], %[[DW1]], %[[DW2]], %[[DB1]], %[[DB2]] :
  // S2:         return %{{[^,]+}}, %[[LOSS]], %{{[^,]+}}, %[[DG]], %[[DW1]], %[[DW2]], %[[DB1]], %[[DB2]] :
  func.func @biases(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b1: tensor<4x16xf32>, %b2: tensor<4x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "biases" %x gate(%g) experts(%w1, %w2, %b1, %b2)
      {top_k = 2 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>, tensor<4x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}

// -----

// N_MP = 1: two AlltoAlls each way and nothing else but the gradient sum of the gate; every shard has one holder.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 2, esp = 2>} {
  // CHECK-LABEL: func.func @mp1(
  // CHECK:      %[[COPIES:.+]] = moe.dump %{{.+}} {blocks = 2 : i64}
  // CHECK-NEXT: = moe.all_to_all %[[COPIES]] over <"dp", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64}
  // CHECK:      %[[RETURNED:.+]] = moe.all_to_all %{{.+}} over <"dp", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK:      = moe.local_reduce %[[RETURNED]] {blocks = 2 : i64}
  // CHECK:      %[[COPIES2:.+]] = moe.dump %{{.+}} {blocks = 2 : i64}
  // CHECK-NEXT: = moe.all_to_all %[[COPIES2]] over <"dp", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64}
  // CHECK:      %[[RETURNED2:.+]] = moe.all_to_all %{{.+}} over <"dp", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK:      = moe.local_reduce %[[RETURNED2]] {blocks = 2 : i64}
  // CHECK:      %[[DG:.+]] = moe.all_reduce %{{.+}} over <"dp", 4, 1> :
  // CHECK:      return %{{[^,]+}}, %{{[^,]+}}, %[[DG]], %{{[^,]+}}, %{{[^,]+}} :
  func.func @mp1(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> tensor<64x8xf32> {
    %y, %aux = moe.layer "mp1" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
