// RUN: moe-opt %s --moe-partition -split-input-file | FileCheck %s

// Parm's baseline, with every kind of group larger than one: mp = esp = ep = edp = 2.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // Capacity form: gate and dispatch on both mp members, ESP-AllGather, EP-AlltoAll, expert shard, ESP-AllReduce,
  // EP-AlltoAll, ESP-Split, combine. T = ceil(2 * 1.0 * 16 / 4) = 8 for the 16 tokens of a shard.
  // CHECK-LABEL: func.func @capacity(
  // CHECK-SAME: %arg0: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %arg1: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // CHECK-SAME: %arg2: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %arg3: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}
  // CHECK-SAME: ) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // CHECK-NEXT: %[[W2:.+]] = moe.to_varying %arg3 over <"edp", 2, 4> :
  // CHECK-NEXT: %[[W1:.+]] = moe.to_varying %arg2 over <"edp", 2, 4> :
  // CHECK-NEXT: %[[G:.+]] = moe.to_varying %arg1 over <"dp", 4, 2> :
  // CHECK-NEXT: %[[LOGITS:.+]] = moe.matmul %arg0, %[[G]] :
  // CHECK-NEXT: %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}}, %[[AUX:aux[0-9_]*]] = moe.route %[[LOGITS]] {capacity = 8 : i64}
  // CHECK-NEXT: %[[W:.+]] = moe.to_varying %[[WEIGHTS]] over <"mp", 2, 1> :
  // CHECK-NEXT: %[[S:.+]] = moe.to_varying %[[SLOTS]] over <"mp", 2, 1> :
  // CHECK-NEXT: %[[X:.+]] = moe.to_varying %arg0 over <"mp", 2, 1> :
  // CHECK-NEXT: %[[ROWS:.+]] = moe.dispatch %[[X]], %[[S]] : {{.*}} -> tensor<4x8x8xf32>
  // CHECK-NEXT: %[[GATHERED:.+]] = moe.all_gather %[[ROWS]] over <"esp", 2, 1> {dim = 1 : i64}
  // CHECK-NEXT: %[[SHARDS:.+]] = moe.to_varying %[[GATHERED]] over <"esp", 2, 1> :
  // CHECK-NEXT: %[[RECEIVED:.+]] = moe.all_to_all %[[SHARDS]] over <"ep", 2, 2> {concat_dim = 1 : i64, split_dim = 0 : i64}
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[RECEIVED]], %[[W1]] :
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[H]] {kind = #moe<activation gelu>}
  // CHECK-NEXT: %[[Y:.+]] = moe.grouped_matmul %[[A]], %[[W2]] :
  // CHECK-NEXT: %[[SUM:.+]] = moe.all_reduce %[[Y]] over <"esp", 2, 1> :
  // CHECK-NEXT: %[[RETURNED:.+]] = moe.all_to_all %[[SUM]] over <"ep", 2, 2> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: %[[OWN:.+]] = moe.slice %[[RETURNED]] over <"esp", 2, 1> {dim = 1 : i64}
  // CHECK-NEXT: %[[COMBINED:.+]] = moe.combine %[[OWN]], %[[S]] weights(%[[W]]) :
  // CHECK-NEXT: %[[OUT:.+]] = moe.assume_replicated %[[COMBINED]] over <"mp", 2, 1> :
  // CHECK-NEXT: %[[SHARE:.+]] = moe.scale %[[AUX]] {factor = 2.500000e-01 : f64}
  // CHECK-NEXT: %[[MEAN:.+]] = moe.all_reduce %[[SHARE]] over <"dp", 4, 2> :
  // CHECK-NEXT: return %[[OUT]], %[[MEAN]] :
  func.func @capacity(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // A bias of the second product counts once among the esp shards' partial sums: scale = 1/esp.
  // CHECK-LABEL: func.func @biases(
  // CHECK-SAME: %arg6: tensor<2x8xf32> {moe.layout = #moe.layout<[ep], [esp]>}, %arg7: tensor<2x8xf32> {moe.layout = #moe.layout<[ep], []>}
  // CHECK:      %[[VARYING:.+]] = moe.to_varying %arg7 over <"mp", 2, 1> :
  // CHECK-NEXT: %[[B2:.+]] = moe.to_varying %[[VARYING]] over <"edp", 2, 4> :
  // CHECK:      %[[B1:.+]] = moe.to_varying %arg6 over <"edp", 2, 4> :
  // CHECK:      %[[SB:.+]] = moe.to_varying %arg3 over <"dp", 4, 2> :
  // CHECK-NEXT: %[[GB:.+]] = moe.to_varying %arg2 over <"dp", 4, 2> :
  // CHECK:      %[[LOGITS:.+]] = moe.bias_add %{{.+}}, %[[GB]] :
  // CHECK-NEXT: moe.route %[[LOGITS]] selection_bias(%[[SB]])
  // CHECK:      %[[H:.+]] = moe.grouped_matmul
  // CHECK-NEXT: %[[BIASED:.+]] = moe.bias_add %[[H]], %[[B1]] :
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[BIASED]]
  // CHECK-NEXT: %[[Y:.+]] = moe.grouped_matmul %[[A]],
  // CHECK-NEXT: %[[SHARE:.+]] = moe.bias_add %[[Y]], %[[B2]] {scale = 5.000000e-01 : f64}
  // CHECK-NEXT: moe.all_reduce %[[SHARE]] over <"esp", 2, 1> :
  func.func @biases(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %gb: tensor<4xf32>, %sb: tensor<4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b1: tensor<4x16xf32>, %b2: tensor<4x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "biases" %x gate(%g, %gb) selection_bias(%sb) experts(%w1, %w2, %b1, %b2)
      {top_k = 2 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>, tensor<4x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Dropless: counts travel with the rows, and R is the worst case, ep = 2 members' 64 rows.
  // CHECK-LABEL: func.func @dropless(
  // CHECK:      %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], %[[COUNTS:counts[0-9_]*]], %[[AUX:aux[0-9_]*]] = moe.route %{{.+}} : (
  // CHECK:      %[[C:.+]] = moe.to_varying %[[COUNTS]] over <"mp", 2, 1> :
  // CHECK:      %[[ROWS:.+]] = moe.dispatch {{.*}} -> tensor<32x8xf32>
  // CHECK-NEXT: %[[GATHERED:.+]] = moe.all_gather %[[ROWS]] over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK-NEXT: %[[SHARDS:.+]] = moe.to_varying %[[GATHERED]] over <"esp", 2, 1> :
  // CHECK-NEXT: %[[BLOCK:.+]] = moe.all_gather %[[C]] over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK-NEXT: %[[VARYING_BLOCK:.+]] = moe.to_varying %[[BLOCK]] over <"mp", 2, 1> :
  // CHECK-NEXT: %[[EXPERT:.+]] = moe.all_to_all %[[BLOCK]] over <"ep", 2, 2> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: %[[VARYING_EXPERT:.+]] = moe.to_varying %[[EXPERT]] over <"mp", 2, 1> :
  // CHECK-NEXT: %[[X:.+]] = moe.all_to_all_v %[[SHARDS]], %[[VARYING_BLOCK]], %[[VARYING_EXPERT]] over <"ep", 2, 2> {direction = #moe<direction to_experts>} : {{.*}} -> tensor<128x8xf32>
  // CHECK-NEXT: %[[H:.+]] = moe.grouped_matmul %[[X]], %{{.+}} counts(%[[VARYING_EXPERT]]) :
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[H]] counts(%[[VARYING_EXPERT]])
  // CHECK-NEXT: %[[Y:.+]] = moe.grouped_matmul %[[A]], %{{.+}} counts(%[[VARYING_EXPERT]]) :
  // CHECK-NEXT: %[[SUM:.+]] = moe.all_reduce %[[Y]] counts(%[[EXPERT]]) over <"esp", 2, 1> :
  // CHECK-NEXT: %[[RETURNED:.+]] = moe.all_to_all_v %[[SUM]], %[[BLOCK]], %[[EXPERT]] over <"ep", 2, 2> {direction = #moe<direction from_experts>}
  // CHECK-NEXT: moe.slice %[[RETURNED]] over <"esp", 2, 1> {dim = 0 : i64} : {{.*}} -> tensor<32x8xf32>
  func.func @dropless(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Four choices among a rank's two experts: no token sends more than two rows to a member.
  // CHECK-LABEL: func.func @dropless_many_choices(
  // CHECK: moe.all_to_all_v {{.*}} {direction = #moe<direction to_experts>} : (tensor<128x8xf32>, {{.*}} -> tensor<128x8xf32>
  func.func @dropless_many_choices(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless_many_choices" %x gate(%g) experts(%w1, %w2)
      {top_k = 4 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // A bound on the load bounds R: 1.5 times the mean of 64 rows.
  // CHECK-LABEL: func.func @max_load(
  // CHECK: moe.all_to_all_v {{.*}} {direction = #moe<direction to_experts>} : (tensor<64x8xf32>, {{.*}} -> tensor<96x8xf32>
  func.func @max_load(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "max_load" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, max_load = 1.5 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // A shared expert is split over mp, inner columns then inner rows, its result summed; its gate is not split.
  // CHECK-LABEL: func.func @shared(
  // CHECK-SAME: %arg4: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %arg5: tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>}, %arg6: tensor<8x1xf32> {moe.layout = #moe.layout<[], []>}
  // CHECK:      %[[SG:.+]] = moe.to_varying %arg6 over <"dp", 4, 2> :
  // CHECK-NEXT: %[[S2:.+]] = moe.to_varying %arg5 over <"dp", 4, 2> :
  // CHECK-NEXT: %[[S1:.+]] = moe.to_varying %arg4 over <"dp", 4, 2> :
  // CHECK:      %[[X:.+]] = moe.to_varying %arg0 over <"mp", 2, 1> :
  // CHECK:      %[[ROUTED:.+]] = moe.assume_replicated
  // CHECK-NEXT: %[[H:.+]] = moe.matmul %[[X]], %[[S1]] :
  // CHECK-NEXT: %[[A:.+]] = moe.activation %[[H]] {kind = #moe<activation swiglu>}
  // CHECK-NEXT: %[[Y:.+]] = moe.matmul %[[A]], %[[S2]] :
  // CHECK-NEXT: %[[SUM:.+]] = moe.all_reduce %[[Y]] over <"mp", 2, 1> :
  // CHECK-NEXT: %[[GATE:.+]] = moe.matmul %arg0, %[[SG]] :
  // CHECK-NEXT: %[[FACTOR:.+]] = moe.activation %[[GATE]] {kind = #moe<activation sigmoid>}
  // CHECK-NEXT: %[[SHARED:.+]] = moe.row_scale %[[SUM]], %[[FACTOR]] :
  // CHECK-NEXT: moe.add %[[ROUTED]], %[[SHARED]] :
  func.func @shared(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x32xf32>, %w2: tensor<4x16x8xf32>, %s1: tensor<8x16xf32>, %s2: tensor<8x8xf32>, %sg: tensor<8x1xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "shared" %x gate(%g) experts(%w1, %w2) shared(%s1, %s2, %sg)
      {top_k = 2 : i64, activation = #moe<activation swiglu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x32xf32>, tensor<4x16x8xf32>, tensor<8x16xf32>, tensor<8x8xf32>, tensor<8x1xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Eight groups of tokens are two for each of the four shards; T holds for a group.
  // CHECK-LABEL: func.func @groups(
  // CHECK: moe.route %{{.+}} {capacity = 4 : i64, groups = 2 : i64}
  // CHECK: moe.dispatch {{.*}} -> tensor<4x8x8xf32>
  func.func @groups(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "groups" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64, groups = 8 : i64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}
// -----

module attributes {moe.parallel = #moe.parallel<world = 4096, pp = 1, dp = 1024, mp = 4, ep = 512, esp = 8>} {
  // The program does not grow with the number of ranks.
  // CHECK-LABEL: func.func @large_world(
  // CHECK:      moe.route %{{.+}} {capacity = 1 : i64}
  // CHECK:      moe.dispatch {{.*}} -> tensor<512x1x8xf32>
  // CHECK-NEXT: %[[GATHERED:.+]] = moe.all_gather %{{.+}} over <"esp", 8, 1> {dim = 1 : i64}
  // CHECK-NEXT: %[[SHARDS:.+]] = moe.to_varying %[[GATHERED]] over <"esp", 8, 1> :
  // CHECK-NEXT: %[[RECEIVED:.+]] = moe.all_to_all %[[SHARDS]] over <"ep", 512, 8> {concat_dim = 1 : i64, split_dim = 0 : i64}
  // CHECK-NEXT: moe.grouped_matmul %[[RECEIVED]], %arg2 :
  // CHECK:      %[[Y:.+]] = moe.grouped_matmul %{{.+}}, %arg3 :
  // CHECK-NEXT: %[[SUM:.+]] = moe.all_reduce %[[Y]] over <"esp", 8, 1> :
  // CHECK-NEXT: %[[RETURNED:.+]] = moe.all_to_all %[[SUM]] over <"ep", 512, 8> {concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: moe.slice %[[RETURNED]] over <"esp", 8, 1> {dim = 1 : i64}
  // CHECK:      moe.assume_replicated %{{.+}} over <"mp", 4, 1> :
  // CHECK-NEXT: %[[SHARE:.+]] = moe.scale %{{.+}} {factor = 9.765625E-4 : f64}
  // CHECK-NEXT: moe.all_reduce %[[SHARE]] over <"dp", 1024, 4> :
  func.func @large_world(%x: tensor<8192x8xf32>, %g: tensor<8x512xf32>, %w1: tensor<512x8x8xf32>, %w2: tensor<512x8x8xf32>) -> (tensor<8192x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "large_world" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<8192x8xf32>, tensor<8x512xf32>, tensor<512x8x8xf32>, tensor<512x8x8xf32>) -> (tensor<8192x8xf32>, tensor<f32>)
    return %y, %aux : tensor<8192x8xf32>, tensor<f32>
  }
}
// -----

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 8, esp = 1>} {
  // A chain of layers and sums keeps the tokens over dp. What comes of the logits of 16-bit tokens is f32.
  // CHECK-LABEL: func.func @chain(
  // CHECK-SAME: ) -> (tensor<16x8xbf16> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // CHECK:      %[[PRODUCT:.+]] = moe.matmul %arg0,
  // CHECK-NEXT: %[[LOGITS:.+]] = moe.cast %[[PRODUCT]] : (tensor<16x8xbf16>) -> tensor<16x8xf32>
  // CHECK-NEXT: moe.route %[[LOGITS]] : {{.*}}, tensor<16x1xf32>, tensor<1x8xi32>, tensor<f32>)
  // CHECK:      %[[OUT:.+]] = moe.assume_replicated {{.*}} : tensor<16x8xbf16>
  // CHECK:      %[[ADD:.+]] = moe.add %arg0, %[[OUT]] : tensor<16x8xbf16>
  // CHECK-NEXT: return %[[ADD]],
  func.func @chain(%x: tensor<64x8xbf16>, %g: tensor<8x8xbf16>, %w1: tensor<8x8x16xbf16>, %w2: tensor<8x16x8xbf16>)
      -> (tensor<64x8xbf16>, tensor<f32>) {
    %y, %aux = moe.layer "first" %x gate(%g) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation silu>}
      : (tensor<64x8xbf16>, tensor<8x8xbf16>, tensor<8x8x16xbf16>, tensor<8x16x8xbf16>) -> (tensor<64x8xbf16>, tensor<f32>)
    %h = moe.add %x, %y : tensor<64x8xbf16>
    return %h, %aux : tensor<64x8xbf16>, tensor<f32>
  }

  // Layouts that the arguments already have are kept, names and roles too.
  // CHECK-LABEL: func.func @given_layouts(
  // CHECK-SAME: %arg0: tensor<1x16xf32> {moe.layout = #moe.layout<[ep], [esp]>, moe.name = "a", moe.role = "input"},
  // CHECK-SAME: %arg1: tensor<1x16xf32> {moe.layout = #moe.layout<[ep], [esp]>}
  // CHECK-SAME: ) -> (tensor<1x16xf32> {moe.layout = #moe.layout<[ep], [esp]>, moe.name = "sum"})
  func.func @given_layouts(%a: tensor<8x16xf32> {moe.layout = #moe.layout<[ep], [esp]>, moe.name = "a", moe.role = "input"}, %b: tensor<8x16xf32>)
      -> (tensor<8x16xf32> {moe.layout = #moe.layout<[ep], [esp]>, moe.name = "sum"}) {
    %0 = moe.add %a, %b : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }

  // A tensor that no op has a wish for is replicated.
  // CHECK-LABEL: func.func @no_wish(
  // CHECK-SAME: %arg0: tensor<7xf32> {moe.layout = #moe.layout<[]>}) -> (tensor<7xf32> {moe.layout = #moe.layout<[]>})
  func.func @no_wish(%a: tensor<7xf32>) -> tensor<7xf32> {
    return %a : tensor<7xf32>
  }
}
