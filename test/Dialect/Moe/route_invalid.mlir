// RUN: moe-opt %s -verify-diagnostics -split-input-file

// moe.route (C1): scores is [S, E].
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected scores to be 'tensor<16x4xf32>' but got 'tensor<16x8xf32>'}}
  %0:6 = moe.route %l
    : (tensor<16x4xf32>)
    -> (tensor<16x8xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C1): experts is [S, k].
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected experts to be [16, 2] but got 'tensor<8x2xi32>'}}
  %0:6 = moe.route %l
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<8x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C1): slots is [S, k].
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected slots to be [16, 2] but got 'tensor<16x1xi32>'}}
  %0:6 = moe.route %l
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x1xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C1): weights is [S, k].
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected weights to be 'tensor<16x2xf32>' but got 'tensor<16x4xf32>'}}
  %0:6 = moe.route %l
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x4xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C1): counts is [1, E].
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected counts to be [1, 4] but got 'tensor<2x4xi32>'}}
  %0:6 = moe.route %l
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<2x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C1): aux is 0-D.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{must be 0-D tensor}}
  %0:6 = moe.route %l
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<1xf32>)
  return
}

// -----

// moe.route (C1): no more choices than experts.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected between 1 and 4 choices, the number of experts, but got 5}}
  %0:6 = moe.route %l
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x5xi32>, tensor<16x5xi32>, tensor<16x5xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C1): at most 32 choices.
func.func @invalid(%l: tensor<16x64xf32>) {
  // expected-error @+1 {{expected between 1 and 32 choices, MoePlan's limit, but got 33}}
  %0:6 = moe.route %l
    : (tensor<16x64xf32>)
    -> (tensor<16x64xf32>, tensor<16x33xi32>, tensor<16x33xi32>, tensor<16x33xf32>, tensor<1x64xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C1): at least one choice.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected between 1 and 4 choices, the number of experts, but got 0}}
  %0:6 = moe.route %l
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x0xi32>, tensor<16x0xi32>, tensor<16x0xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C1): scores, weights and aux have the logits' elements.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected weights to be 'tensor<16x2xf32>' but got 'tensor<16x2xf64>'}}
  %0:6 = moe.route %l
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf64>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C2): groups divides S.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected groups to divide the 16 tokens but got 3}}
  %0:6 = moe.route %l {groups = 3 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C2): there is a group.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected groups to divide the 16 tokens but got 0}}
  %0:6 = moe.route %l {groups = 0 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C2): selection_bias is [E].
func.func @invalid(%l: tensor<16x4xf32>, %b: tensor<16xf32>) {
  // expected-error @+1 {{expected selection_bias to be 'tensor<4xf32>' but got 'tensor<16xf32>'}}
  %0:6 = moe.route %l selection_bias(%b)
    : (tensor<16x4xf32>, tensor<16xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route: a capacity is not negative.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected a capacity of at least 0 but got -1}}
  %0:6 = moe.route %l {capacity = -1 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route_grad (C1): the result is [S, E] as scores is.
func.func @invalid(%s: tensor<16x4xf32>, %e: tensor<16x2xi32>, %w: tensor<16x2xf32>) {
  // expected-error @+1 {{failed to verify that all of {scores, result} have same type}}
  %0 = moe.route_grad %s, %e weights(%w)
    : (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x2xf32>
  return
}

// -----

// moe.route_grad (C1): experts has S rows.
func.func @invalid(%s: tensor<16x4xf32>, %e: tensor<8x2xi32>, %w: tensor<8x2xf32>) {
  // expected-error @+1 {{expected experts of 16 tokens but got 'tensor<8x2xi32>'}}
  %0 = moe.route_grad %s, %e weights(%w)
    : (tensor<16x4xf32>, tensor<8x2xi32>, tensor<8x2xf32>) -> tensor<16x4xf32>
  return
}

// -----

// moe.route_grad (C1): grad_weights has the shape of experts.
func.func @invalid(%s: tensor<16x4xf32>, %e: tensor<16x2xi32>, %w: tensor<16x4xf32>) {
  // expected-error @+1 {{expected grad_weights to be 'tensor<16x2xf32>' but got 'tensor<16x4xf32>'}}
  %0 = moe.route_grad %s, %e weights(%w)
    : (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  return
}

// -----

// moe.route_grad (C1): grad_aux is 0-D.
func.func @invalid(%s: tensor<16x4xf32>, %e: tensor<16x2xi32>, %w: tensor<16x2xf32>, %a: tensor<1xf32>) {
  // expected-error @+1 {{must be 0-D tensor}}
  %0 = moe.route_grad %s, %e weights(%w) aux(%a)
    : (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1xf32>) -> tensor<16x4xf32>
  return
}

// -----

// moe.route_grad (C1): grad_aux has the scores' elements.
func.func @invalid(%s: tensor<16x4xf32>, %e: tensor<16x2xi32>, %w: tensor<16x2xf32>, %a: tensor<f64>) {
  // expected-error @+1 {{expected grad_aux to be 'tensor<f32>' but got 'tensor<f64>'}}
  %0 = moe.route_grad %s, %e weights(%w) aux(%a)
    : (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<f64>) -> tensor<16x4xf32>
  return
}

// -----

// moe.route_grad: groups divides S.
func.func @invalid(%s: tensor<16x4xf32>, %e: tensor<16x2xi32>, %w: tensor<16x2xf32>) {
  // expected-error @+1 {{expected groups to divide the 16 tokens but got -1}}
  %0 = moe.route_grad %s, %e weights(%w) {groups = -1 : i64}
    : (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x4xf32>
  return
}

// -----

// moe.dispatch (C1): slots has a row for each token.
func.func @invalid(%x: tensor<16x8xf32>, %s: tensor<8x2xi32>) {
  // expected-error @+1 {{expected slots of 16 tokens but got 'tensor<8x2xi32>'}}
  %0 = moe.dispatch %x, %s : (tensor<16x8xf32>, tensor<8x2xi32>) -> tensor<4x8x8xf32>
  return
}

// -----

// moe.dispatch (C1): the rows have M columns.
func.func @invalid(%x: tensor<16x8xf32>, %s: tensor<16x2xi32>) {
  // expected-error @+1 {{expected rows with the columns and elements of the tokens 'tensor<16x8xf32>' but got 'tensor<4x8x4xf32>'}}
  %0 = moe.dispatch %x, %s : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x4xf32>
  return
}

// -----

// moe.dispatch (C1): so they have in the ragged form.
func.func @invalid(%x: tensor<16x8xf32>, %s: tensor<16x2xi32>) {
  // expected-error @+1 {{expected rows with the columns and elements of the tokens 'tensor<16x8xf32>' but got 'tensor<32x4xf32>'}}
  %0 = moe.dispatch %x, %s : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x4xf32>
  return
}

// -----

// moe.dispatch (C1): the rows have the tokens' elements.
func.func @invalid(%x: tensor<16x8xf32>, %s: tensor<16x2xi32>) {
  // expected-error @+1 {{expected rows with the columns and elements of the tokens}}
  %0 = moe.dispatch %x, %s : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf64>
  return
}

// -----

// moe.dispatch (C1): weights has the shape of slots.
func.func @invalid(%x: tensor<16x8xf32>, %s: tensor<16x2xi32>, %w: tensor<16x1xf32>) {
  // expected-error @+1 {{expected weights to be 'tensor<16x2xf32>' but got 'tensor<16x1xf32>'}}
  %0 = moe.dispatch %x, %s weights(%w) : (tensor<16x8xf32>, tensor<16x2xi32>, tensor<16x1xf32>) -> tensor<32x8xf32>
  return
}

// -----

// moe.combine (C1): slots has a row for each token of the result.
func.func @invalid(%x: tensor<4x8x8xf32>, %s: tensor<8x2xi32>) {
  // expected-error @+1 {{expected slots of 16 tokens but got 'tensor<8x2xi32>'}}
  %0 = moe.combine %x, %s : (tensor<4x8x8xf32>, tensor<8x2xi32>) -> tensor<16x8xf32>
  return
}

// -----

// moe.combine (C1): the result has M columns.
func.func @invalid(%x: tensor<4x8x8xf32>, %s: tensor<16x2xi32>) {
  // expected-error @+1 {{expected rows with the columns and elements of the tokens 'tensor<16x4xf32>' but got 'tensor<4x8x8xf32>'}}
  %0 = moe.combine %x, %s : (tensor<4x8x8xf32>, tensor<16x2xi32>) -> tensor<16x4xf32>
  return
}

// -----

// moe.combine (C1): weights has the shape of slots.
func.func @invalid(%x: tensor<32x8xf32>, %s: tensor<16x2xi32>, %w: tensor<8x2xf32>) {
  // expected-error @+1 {{expected weights to be 'tensor<16x2xf32>' but got 'tensor<8x2xf32>'}}
  %0 = moe.combine %x, %s weights(%w) : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<8x2xf32>) -> tensor<16x8xf32>
  return
}

// -----

// moe.combine (C2): weights has the accumulator type of the rows, which is theirs.
func.func @invalid(%x: tensor<32x8xf32>, %s: tensor<16x2xi32>, %w: tensor<16x2xf64>) {
  // expected-error @+1 {{expected weights to be 'tensor<16x2xf32>' but got 'tensor<16x2xf64>'}}
  %0 = moe.combine %x, %s weights(%w) : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf64>) -> tensor<16x8xf32>
  return
}

// -----

// moe.slot_dot (C1): slots has a row for each token.
func.func @invalid(%x: tensor<16x8xf32>, %r: tensor<32x8xf32>, %s: tensor<8x2xi32>) {
  // expected-error @+1 {{expected slots of 16 tokens but got 'tensor<8x2xi32>'}}
  %0 = moe.slot_dot %x, %r, %s : (tensor<16x8xf32>, tensor<32x8xf32>, tensor<8x2xi32>) -> tensor<8x2xf32>
  return
}

// -----

// moe.slot_dot (C1): rows have M columns.
func.func @invalid(%x: tensor<16x8xf32>, %r: tensor<4x8x4xf32>, %s: tensor<16x2xi32>) {
  // expected-error @+1 {{expected rows with the columns and elements of the tokens}}
  %0 = moe.slot_dot %x, %r, %s : (tensor<16x8xf32>, tensor<4x8x4xf32>, tensor<16x2xi32>) -> tensor<16x2xf32>
  return
}

// -----

// moe.slot_dot (C1): the result has the shape of slots.
func.func @invalid(%x: tensor<16x8xf32>, %r: tensor<32x8xf32>, %s: tensor<16x2xi32>) {
  // expected-error @+1 {{expected the result to be 'tensor<16x2xf32>' but got 'tensor<16x1xf32>'}}
  %0 = moe.slot_dot %x, %r, %s : (tensor<16x8xf32>, tensor<32x8xf32>, tensor<16x2xi32>) -> tensor<16x1xf32>
  return
}

// -----

// (C3) the groups of experts divide the experts.
func.func @expert_groups(%l: tensor<16x4xf32>) {
  // expected-error @below {{expected expert_groups to divide the 4 experts but got 3}}
  %scores, %experts, %slots, %weights, %counts, %aux = moe.route %l {expert_groups = 3 : i64}
    : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// (C3) the chosen groups hold enough experts.
func.func @top_groups(%l: tensor<16x4xf32>) {
  // expected-error @below {{expected top_groups to be at most 4 and to hold at least top_k = 2 experts but got 1 of 1 experts each}}
  %scores, %experts, %slots, %weights, %counts, %aux = moe.route %l {expert_groups = 4 : i64, top_groups = 1 : i64}
    : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C5): homes divides E.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{'moe.route' op expected homes to divide the 4 experts and home_stride and home_span of at least 1 but got 3, 1 and 1}}
  %0:6 = moe.route %l {leave = 2 : i64, homes = 3 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C5): there is a home, whether or not it matters.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{'moe.route' op expected homes to divide the 4 experts and home_stride and home_span of at least 1 but got 0, 1 and 1}}
  %0:6 = moe.route %l {homes = 0 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C5): a home is of a number of ranks.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{'moe.route' op expected homes to divide the 4 experts and home_stride and home_span of at least 1 but got 2, 0 and 1}}
  %0:6 = moe.route %l {leave = 2 : i64, homes = 2 : i64, home_stride = 0 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C5): and of a number of routing groups.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{'moe.route' op expected homes to divide the 4 experts and home_stride and home_span of at least 1 but got 2, 1 and -1}}
  %0:6 = moe.route %l {leave = 2 : i64, homes = 2 : i64, home_span = -1 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C5): with leave there is one way to leave out experts.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{'moe.route' op expected with leave that expert_groups is 1 and that at least 2 experts, a token's choices, are at home, but got 2 and 2}}
  %0:6 = moe.route %l {leave = 2 : i64, homes = 2 : i64, expert_groups = 2 : i64, top_groups = 2 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C5): a token that stays at home finds all its experts there.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{'moe.route' op expected with leave that expert_groups is 1 and that at least 2 experts, a token's choices, are at home, but got 1 and 1}}
  %0:6 = moe.route %l {leave = 0 : i64, homes = 4 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.window (C1): the counts of all members.
func.func @window_c1_gathered(%s: tensor<16x2xi32>, %g: tensor<2x8xi32>) {
  // expected-error @+1 {{expected gathered to be [4, 8] but got 'tensor<2x8xi32>'}}
  %left, %slots, %counts = moe.window %s, %g over <"ep", 4, 1> {rows = 40 : i64, workers = 4 : i64}
    : (tensor<16x2xi32>, tensor<2x8xi32>) -> (tensor<1xi32>, tensor<16x2xi32>, tensor<1x8xi32>)
  return
}

// -----

// moe.window (C1): slots like those of the routing.
func.func @window_c1_slots(%s: tensor<16x2xi32>, %g: tensor<4x8xi32>) {
  // expected-error @+1 {{expected slots to be 'tensor<16x2xi32>' but got 'tensor<16x1xi32>'}}
  %left, %slots, %counts = moe.window %s, %g over <"ep", 4, 1> {rows = 40 : i64, workers = 4 : i64}
    : (tensor<16x2xi32>, tensor<4x8xi32>) -> (tensor<1xi32>, tensor<16x1xi32>, tensor<1x8xi32>)
  return
}

// -----

// moe.window (C1): one number of passes.
func.func @window_c1_left(%s: tensor<16x2xi32>, %g: tensor<4x8xi32>) {
  // expected-error @+1 {{expected left to be [1] but got 'tensor<2xi32>'}}
  %left, %slots, %counts = moe.window %s, %g over <"ep", 4, 1> {rows = 40 : i64, workers = 4 : i64}
    : (tensor<16x2xi32>, tensor<4x8xi32>) -> (tensor<2xi32>, tensor<16x2xi32>, tensor<1x8xi32>)
  return
}

// -----

// moe.window (C2): equally many experts for each worker.
func.func @window_c2_workers(%s: tensor<16x2xi32>, %g: tensor<4x8xi32>) {
  // expected-error @+1 {{expected workers to divide the 8 experts but got 3}}
  %left, %slots, %counts = moe.window %s, %g over <"ep", 4, 1> {rows = 40 : i64, workers = 3 : i64}
    : (tensor<16x2xi32>, tensor<4x8xi32>) -> (tensor<1xi32>, tensor<16x2xi32>, tensor<1x8xi32>)
  return
}

// -----

// moe.window (C2): a pass serves rows.
func.func @window_c2_rows(%s: tensor<16x2xi32>, %g: tensor<4x8xi32>) {
  // expected-error @+1 {{expected rows of at least 1 but got 0}}
  %left, %slots, %counts = moe.window %s, %g over <"ep", 4, 1> {rows = 0 : i64, workers = 4 : i64}
    : (tensor<16x2xi32>, tensor<4x8xi32>) -> (tensor<1xi32>, tensor<16x2xi32>, tensor<1x8xi32>)
  return
}

// -----

// moe.window (C2): equally many members in each phase.
func.func @window_c2_phases(%s: tensor<16x2xi32>, %g: tensor<4x8xi32>) {
  // expected-error @+1 {{expected phases to divide the 4 members but got 3}}
  %left, %slots, %counts = moe.window %s, %g over <"ep", 4, 1> {phases = 3 : i64, rows = 40 : i64, workers = 4 : i64}
    : (tensor<16x2xi32>, tensor<4x8xi32>) -> (tensor<1xi32>, tensor<16x2xi32>, tensor<1x8xi32>)
  return
}

// -----

// moe.window (C3): a chunk has room for the choices of its tokens.
func.func @window_c3(%s: tensor<16x2xi32>, %g: tensor<8x8xi32>) {
  // expected-error @+1 {{expected chunk_rows of at least 16 but got 15}}
  %left, %slots, %counts = moe.window %s, %g over <"ep", 4, 1> {chunk_rows = 15 : i64, rows = 40 : i64, workers = 4 : i64}
    : (tensor<16x2xi32>, tensor<8x8xi32>) -> (tensor<1xi32>, tensor<16x2xi32>, tensor<2x8xi32>)
  return
}

// -----

// moe.merge_choices (C1): slots for the same choices.
func.func @merge_c1_slots(%e: tensor<16x2xi32>) {
  // expected-error @+1 {{expected all slots to be 'tensor<16x2xi32>' but got 'tensor<16x1xi32>'}}
  %slots, %counts, %sent = moe.merge_choices %e over <"self", 1, 1> {experts = 8 : i64}
    : (tensor<16x2xi32>) -> (tensor<16x1xi32>, tensor<1x4xi32>, tensor<32x2xi32>)
  return
}

// -----

// moe.merge_choices (C1): all choices of a row.
func.func @merge_c1_sent(%e: tensor<16x2xi32>) {
  // expected-error @+1 {{expected counts [1, H] and sent [R, 2] but got 'tensor<1x4xi32>' and 'tensor<32x1xi32>'}}
  %slots, %counts, %sent = moe.merge_choices %e over <"self", 1, 1> {experts = 8 : i64}
    : (tensor<16x2xi32>) -> (tensor<16x2xi32>, tensor<1x4xi32>, tensor<32x1xi32>)
  return
}

// -----

// moe.merge_choices (C2): as many holders of each expert.
func.func @merge_c2_copies(%e: tensor<16x2xi32>) {
  // expected-error @+1 {{expected copies to divide the group's size 4 but got 3}}
  %slots, %counts, %sent = moe.merge_choices %e over <"ep", 4, 1> {copies = 3 : i64, experts = 8 : i64}
    : (tensor<16x2xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>, tensor<32x2xi32>)
  return
}

// -----

// moe.merge_choices (C2): as many experts for each holder.
func.func @merge_c2_experts(%e: tensor<16x2xi32>) {
  // expected-error @+1 {{expected experts to be a multiple of 12, all holders, but got 8}}
  %slots, %counts, %sent = moe.merge_choices %e over <"ep", 4, 1> {experts = 8 : i64}
    : (tensor<16x2xi32>) -> (tensor<16x2xi32>, tensor<1x3xi32>, tensor<32x2xi32>)
  return
}
