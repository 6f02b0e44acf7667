// RUN: moe-opt %s --pass-pipeline="builtin.module(func.func(moe-pause-mp{schedule=s1}))" -split-input-file -verify-diagnostics
// RUN: moe-opt %s --pass-pipeline="builtin.module(func.func(moe-verify-spmd))" -split-input-file > %t.before
// RUN: moe-opt %s --pass-pipeline="builtin.module(func.func(moe-pause-mp{schedule=s1}))" -split-input-file 2>/dev/null \
// RUN:   | sed 's/ {moe.left = .*"]}//' | diff %t.before -

// A layer that is not the baseline's is named, with the reason, and left as it is; the program stays one that fits.

module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 2, esp = 2>} {
  // Slots that come from elsewhere: nothing says how the tokens were routed.
  func.func @slots_elsewhere(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x4xf32>, %s: tensor<16x2xi32> {moe.layout = #moe.layout<[dp], []>}, %q: tensor<16x2xf32> {moe.layout = #moe.layout<[dp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: the slots of its dispatch do not come from a moe.route}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %d, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Logits that come from elsewhere: part of the tokens could not be routed alone.
  func.func @logits_elsewhere(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %l: tensor<16x4xf32> {moe.layout = #moe.layout<[dp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: its logits are not a product, with or without a bias, of the tokens that it dispatches}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %d, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Logits of other tokens than those dispatched.
  func.func @other_tokens(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %z: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %z, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: its logits are not a product, with or without a bias, of the tokens that it dispatches}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %d, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Logits of transposed tokens, whose rows are no tokens.
  func.func @transposed_tokens(%x: tensor<16x16xf32> {moe.layout = #moe.layout<[], [dp]>}, %gate: tensor<16x4xf32>, %w: tensor<2x16x16xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x16x16xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x16xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<16x4xf32>
    %l = moe.matmul %x, %g {transpose_a} : (tensor<16x16xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x16xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: its logits are not a product, with or without a bias, of the tokens that it dispatches}}
    %d = moe.dispatch %xv, %sv : (tensor<16x16xf32>, tensor<16x2xi32>) -> tensor<4x8x16xf32>
    %7 = moe.combine %d, %sv weights(%qv) : (tensor<4x8x16xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x16xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x16xf32>
    return %y : tensor<16x16xf32>
  }

  // Logits with an activation: that it is row by row is nobody's claim.
  func.func @activated_logits(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>)
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %k = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %l = moe.activation %k {kind = #moe<activation relu>} : (tensor<16x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: its logits are not a product, with or without a bias, of the tokens that it dispatches}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %d, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Rows that are weighted on their way to the experts and on their way back.
  func.func @weighted_twice(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: its dispatch and its combine both have weights}}
    %d = moe.dispatch %xv, %sv weights(%qv) : (tensor<16x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %4 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
    %5 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
    %6 = moe.slice %5 over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %6, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Experts gathered, and not rows of each.
  func.func @gathered_experts(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<4x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<4x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: its dispatched rows are gathered in another way than in the baseline}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 0 : i64} : (tensor<4x8x8xf32>) -> tensor<8x8x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<8x8x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x8x8xf32>) -> tensor<4x16x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<4x16x8xf32>, tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<4x16x8xf32>, tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %4 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
    %5 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<4x16x8xf32>) -> tensor<8x8x8xf32>
    %6 = moe.slice %5 over <"esp", 2, 1> {dim = 0 : i64} : (tensor<8x8x8xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %6, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Experts divided, but their parts put side by side in the columns.
  func.func @columns_to_experts(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x16x16xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x16x16xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: its dispatched rows are exchanged along other dimensions than in the baseline}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 2 : i64} : (tensor<4x16x8xf32>) -> tensor<2x16x16xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x16x16xf32>, tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x16x16xf32>, tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
    %4 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
    %5 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 2 : i64, concat_dim = 0 : i64} : (tensor<2x16x16xf32>) -> tensor<4x16x8xf32>
    %6 = moe.slice %5 over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %6, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // There over one group and back over another.
  func.func @other_group_back(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: its exchanges are over different groups, 'ep' and 'mp'}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %8 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
    %4 = moe.to_varying %8 over <"mp", 2, 1> : tensor<2x32x8xf32>
    %5 = moe.all_to_all %4 over <"mp", 2, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
    %6 = moe.reduce_scatter %5 over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %6, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Gathered over one group and added up over another.
  func.func @other_group_of_sums(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w1: tensor<2x8x8xf32> {moe.layout = #moe.layout<[], [], [ep]>}, %v1: tensor<2x8x8xf32> {moe.layout = #moe.layout<[], [ep], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: its exchanges are over different groups, 'esp' and 'ep'}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %w = moe.to_varying %w1 over <"esp", 2, 1> : tensor<2x8x8xf32>
    %v = moe.to_varying %v1 over <"esp", 2, 1> : tensor<2x8x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %4 = moe.reduce_scatter %3 over <"ep", 2, 2> {dim = 1 : i64} : (tensor<2x32x8xf32>) -> tensor<2x16x8xf32>
    %6 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x16x8xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %6, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Rows that nobody computes on.
  func.func @no_experts(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: no experts follow its dispatch}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %d, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Rows that somebody else uses too.
  func.func @used_rows(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: no experts follow its dispatch}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %4 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
    %5 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
    %6 = moe.slice %5 over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    %9 = moe.add %6, %d : tensor<4x8x8xf32>
    %7 = moe.combine %9, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // The shards' sums divided by columns.
  func.func @sums_by_columns(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: the sums over its experts' shards are divided along another dimension than in the baseline}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %4 = moe.reduce_scatter %3 over <"esp", 2, 1> {dim = 2 : i64} : (tensor<2x32x8xf32>) -> tensor<2x32x4xf32>
    %5 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x32x4xf32>) -> tensor<4x16x4xf32>
    %6 = moe.all_to_all %5 over <"esp", 2, 1> {split_dim = 1 : i64, concat_dim = 2 : i64} : (tensor<4x16x4xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %6, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Rows that return side by side in the columns.
  func.func @columns_back(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x4xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x4x4xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: the experts' rows return along other dimensions than in the baseline}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x4xf32>) -> tensor<2x32x4xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x4xf32>, tensor<2x4x4xf32>) -> tensor<2x32x4xf32>
    %4 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<2x32x4xf32>) -> tensor<2x32x4xf32>
    %5 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 2 : i64} : (tensor<2x32x4xf32>) -> tensor<2x16x8xf32>
    %6 = moe.to_varying %5 over <"mp", 2, 1> : tensor<2x16x8xf32>
    %7 = moe.combine %6, %sv weights(%qv) : (tensor<2x16x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Returned rows of which each shard takes other experts.
  func.func @other_experts_back(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: the returned rows are divided along another dimension than in the baseline}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %4 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
    %5 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
    %6 = moe.slice %5 over <"esp", 2, 1> {dim = 0 : i64} : (tensor<4x16x8xf32>) -> tensor<2x16x8xf32>
    %7 = moe.combine %6, %sv weights(%qv) : (tensor<2x16x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Rows added up without weights.
  func.func @unweighted(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: the experts' rows do not return to a moe.combine of the same routing}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %4 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
    %5 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
    %6 = moe.slice %5 over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %6, %sv : (tensor<4x8x8xf32>, tensor<16x2xi32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Rows that return by other slots.
  func.func @other_slots(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}, %t: tensor<16x2xi32> {moe.layout = #moe.layout<[world], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: the experts' rows do not return to a moe.combine of the same routing}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %4 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
    %5 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
    %6 = moe.slice %5 over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %6, %t weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Rows weighted by something else.
  func.func @other_weights(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}, %t: tensor<16x2xf32> {moe.layout = #moe.layout<[world], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: the experts' rows do not return to a moe.combine of the same routing}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %4 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
    %5 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
    %6 = moe.slice %5 over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %6, %sv weights(%t) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Experts' rows that are changed behind the exchange.
  func.func @changed_rows(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: the experts' rows do not return to a moe.combine of the same routing}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %4 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
    %5 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
    %6 = moe.slice %5 over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    %9 = moe.scale %6 {factor = 2.0 : f64} : tensor<4x8x8xf32>
    %7 = moe.combine %9, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Tokens that are other tokens on each member of mp: a share of them would be lost.
  func.func @other_tokens_on_members(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[world], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"world", 4, 1> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: its tokens are not the same on all members of 'mp'}}
    %d = moe.dispatch %x, %s : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %4 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
    %5 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
    %6 = moe.slice %5 over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %6, %s weights(%q) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // Shards of an expert that are further apart than the experts.
  func.func @distant_shards(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[esp], [], [ep]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[esp], [ep], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: the ranks with the shards of an expert are not neighbours}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"ep", 2, 2> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"ep", 2, 2> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"esp", 2, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %4 = moe.all_reduce %3 over <"ep", 2, 2> : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
    %5 = moe.all_to_all %4 over <"esp", 2, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
    %6 = moe.slice %5 over <"ep", 2, 2> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %6, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }

  // A layer that was rewritten before, here to S2.
  func.func @rewritten_before(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: no experts follow its dispatch}}
    %d = moe.dispatch %x, %s : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.slice %d over <"mp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
    %1 = moe.dump %0 {blocks = 2 : i64} : (tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
    %2 = moe.all_to_all %1 over <"world", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
    %5 = moe.all_to_all %3 over <"world", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
    %4 = moe.local_reduce %5 {blocks = 2 : i64} : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
    %6 = moe.all_gather %4 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %6, %s weights(%q) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    return %7 : tensor<16x8xf32>
  }

  // An odd number of tokens cannot be shared out by two members.
  func.func @odd_tokens(%x: tensor<15x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<15x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<15x8xf32>, tensor<8x4xf32>) -> tensor<15x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<15x4xf32>) -> (tensor<15x4xf32>, tensor<15x2xi32>, tensor<15x2xi32>, tensor<15x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<15x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<15x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<15x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: expected the 15 tokens of a rank to be divisible by 2, the routing groups of all members of 'mp'; s2 has no such limit}}
    %d = moe.dispatch %xv, %sv : (tensor<15x8xf32>, tensor<15x2xi32>) -> tensor<4x8x8xf32>
    %0 = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
    %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x16x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<2x32x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x32x8xf32>, tensor<2x8x8xf32>) -> tensor<2x32x8xf32>
    %4 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
    %5 = moe.all_to_all %4 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x32x8xf32>) -> tensor<4x16x8xf32>
    %6 = moe.slice %5 over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %6, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<15x2xi32>, tensor<15x2xf32>) -> tensor<15x8xf32>
    %y = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<15x8xf32>
    return %y : tensor<15x8xf32>
  }

  // Shards whose sums are not of gathered rows: other experts than the baseline's.
  func.func @no_gather(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[world], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 2> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %xv = moe.to_varying %x over <"mp", 2, 1> : tensor<16x8xf32>
    %sv = moe.to_varying %s over <"mp", 2, 1> : tensor<16x2xi32>
    %qv = moe.to_varying %q over <"mp", 2, 1> : tensor<16x2xf32>
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: it does not gather, sum and divide over 'esp'}}
    %d = moe.dispatch %xv, %sv : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %2 = moe.all_to_all %d over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<2x16x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
    %4 = moe.all_reduce %3 over <"esp", 2, 1> : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
    %6 = moe.to_varying %4 over <"esp", 2, 1> : tensor<2x16x8xf32>
    %5 = moe.all_to_all %6 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x16x8xf32>) -> tensor<4x8x8xf32>
    %7 = moe.combine %5, %sv weights(%qv) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    return %7 : tensor<16x8xf32>
  }
}

// -----

// Rows that go to the experts and never return.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  func.func @f(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %gate: tensor<8x4xf32>, %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>}, %v: tensor<2x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>})
      -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %g = moe.to_varying %gate over <"dp", 2, 1> : tensor<8x4xf32>
    %l = moe.matmul %x, %g : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %p, %e, %s, %q, %c, %a = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    // expected-warning @+1 {{moe-pause-mp leaves this layer as it is: an exchange over 'ep' has no counterpart in the other direction}}
    %d = moe.dispatch %x, %s : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %2 = moe.all_to_all %d over <"ep", 2, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<2x16x8xf32>
    %h = moe.grouped_matmul %2, %w : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
    %3 = moe.grouped_matmul %h, %v : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
    %7 = moe.combine %3, %s weights(%q) : (tensor<2x16x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    return %7 : tensor<16x8xf32>
  }
}
