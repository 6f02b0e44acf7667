// RUN: moe-opt %s -verify-diagnostics -split-input-file --moe-verify-spmd

// moe.choose_shadows (C1): counts has a number of rows for each worker.
func.func @invalid(%c: tensor<6x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected workers to divide both dimensions of 'tensor<6x8xi32>' but got 4}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64} : (tensor<6x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C1): and of columns.
func.func @invalid(%c: tensor<4x6xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected workers to divide both dimensions of 'tensor<4x6xi32>' but got 4}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64} : (tensor<4x6xi32>) -> tensor<1x6xi32>
  return
}

// -----

// moe.choose_shadows (C1): there is a worker.
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected workers to divide both dimensions of 'tensor<4x8xi32>' but got 0}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 0 : i64, most = 2 : i64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C1): the result is of as many experts.
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected shadows to be [1, 8] but got 'tensor<1x4xi32>'}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64} : (tensor<4x8xi32>) -> tensor<1x4xi32>
  return
}

// -----

// moe.choose_shadows (C1): and of all members together.
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected shadows to be [1, 8] but got 'tensor<4x8xi32>'}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64} : (tensor<4x8xi32>) -> tensor<4x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): node_workers divides workers.
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected node_workers to divide the 4 workers but got 3}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, node_workers = 3 : i64, most = 2 : i64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): node_workers is at least 1.
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected node_workers to divide the 4 workers but got 0}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, node_workers = 0 : i64, most = 2 : i64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): there may be a shadow.
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected most to be between 1 and 8 but got 0}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 0 : i64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): and no more than experts.
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected most to be between 1 and 8 but got 9}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 9 : i64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): room is not negative.
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected room of at least 0 and phases of at least 1 but got -1 and 1}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64, room = -1 : i64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): phases is at least 1.
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected room of at least 0 and phases of at least 1 but got 0 and 0}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64, phases = 0 : i64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): computing a row takes no negative time.
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected times of at least 0 but got -5.000000e-01}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64, row_compute = -0.5 : f64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): nor does sending it,
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected times of at least 0 but got -5.000000e-01}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64, row_send = -0.5 : f64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): over a worker's link,
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected times of at least 0 but got -5.000000e-01}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64, row_local = -0.5 : f64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): over a node's,
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected times of at least 0 but got -5.000000e-01}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64, row_node = -0.5 : f64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): broadcasting an expert,
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected times of at least 0 but got -5.000000e-01}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64, expert = -0.5 : f64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): or starting an exchange.
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected times of at least 0 but got -5.000000e-01}}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64, start = -0.5 : f64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): a time is a number.
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected times of at least 0 but got }}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64, start = 0x7FF8000000000000 : f64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.choose_shadows (C2): and finite.
func.func @invalid(%c: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.choose_shadows' op expected times of at least 0 but got }}
  %0 = moe.choose_shadows %c {policy = #moe<shadow_policy simulate>, workers = 4 : i64, most = 2 : i64, expert = 0x7FF0000000000000 : f64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
  return
}

// -----

// moe.divide_choices (C1): slots is [S, k].
func.func @invalid(%e: tensor<16x2xi32>, %s: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.divide_choices' op expected slots and shadow_slots to be 'tensor<16x2xi32>' but got 'tensor<16x1xi32>' and 'tensor<16x2xi32>'}}
  %0:4 = moe.divide_choices %e, %s
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x1xi32>, tensor<1x4xi32>, tensor<16x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.divide_choices (C1): shadow_slots is [S, k].
func.func @invalid(%e: tensor<16x2xi32>, %s: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.divide_choices' op expected slots and shadow_slots to be 'tensor<16x2xi32>' but got 'tensor<16x2xi32>' and 'tensor<8x2xi32>'}}
  %0:4 = moe.divide_choices %e, %s
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x4xi32>, tensor<8x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.divide_choices (C1): counts is [chunks, E].
func.func @invalid(%e: tensor<16x2xi32>, %s: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.divide_choices' op expected counts of 1 chunks but got 'tensor<2x4xi32>'}}
  %0:4 = moe.divide_choices %e, %s
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<2x4xi32>, tensor<16x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.divide_choices (C1): counts and shadows are of as many experts.
func.func @invalid(%e: tensor<16x2xi32>, %s: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.divide_choices' op expected shadows to be [1, 8] but got 'tensor<1x4xi32>'}}
  %0:4 = moe.divide_choices %e, %s
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x8xi32>, tensor<16x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.divide_choices (C1): shadows is one row.
func.func @invalid(%e: tensor<16x2xi32>, %s: tensor<2x4xi32>) {
  // expected-error @+1 {{'moe.divide_choices' op expected shadows to be [1, 4] but got 'tensor<2x4xi32>'}}
  %0:4 = moe.divide_choices %e, %s
    : (tensor<16x2xi32>, tensor<2x4xi32>) -> (tensor<16x2xi32>, tensor<1x4xi32>, tensor<16x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.divide_choices (C1): shadow_counts is [1, R].
func.func @invalid(%e: tensor<16x2xi32>, %s: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.divide_choices' op expected shadow_counts to be [1, R] but got 'tensor<4x2xi32>'}}
  %0:4 = moe.divide_choices %e, %s
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x4xi32>, tensor<16x2xi32>, tensor<4x2xi32>)
  return
}

// -----

// moe.divide_choices (C2): chunks is at least 1.
func.func @invalid(%e: tensor<16x2xi32>, %s: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.divide_choices' op expected counts of 0 chunks but got 'tensor<0x4xi32>'}}
  %0:4 = moe.divide_choices %e, %s {chunks = 0 : i64}
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<0x4xi32>, tensor<16x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.divide_choices (C2): three chunks of 16 tokens have up to 6 of them each.
func.func @invalid(%e: tensor<16x2xi32>, %s: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.divide_choices' op expected room for 12 rows in a chunk but got chunk_rows 11}}
  %0:4 = moe.divide_choices %e, %s {chunks = 3 : i64, chunk_rows = 11 : i64}
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<3x4xi32>, tensor<16x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.divide_choices (C2): room has to be given.
func.func @invalid(%e: tensor<16x2xi32>, %s: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.divide_choices' op expected room for 16 rows in a chunk but got chunk_rows 0}}
  %0:4 = moe.divide_choices %e, %s {chunks = 2 : i64}
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<2x4xi32>, tensor<16x2xi32>, tensor<1x2xi32>)
  return
}

// -----

// moe.broadcast_experts (C1): shadows is [1, n size].
func.func @invalid(%v: tensor<2x4x8xf32>, %s: tensor<1x4xi32>) {
  // expected-error @+1 {{'moe.broadcast_experts' op expected shadows to be [1, 8] but got 'tensor<1x4xi32>'}}
  %0 = moe.broadcast_experts %v, %s over <"ep", 4, 1> : (tensor<2x4x8xf32>, tensor<1x4xi32>) -> tensor<3x4x8xf32>
  return
}

// -----

// moe.broadcast_experts (C1): an expert's value keeps its shape.
func.func @invalid(%v: tensor<2x4x8xf32>, %s: tensor<1x8xi32>) {
  // expected-error @+1 {{'moe.broadcast_experts' op expected the shadows' values to have the experts' type 'tensor<2x4x8xf32>' except for dimension 0 but got 'tensor<3x8x4xf32>'}}
  %0 = moe.broadcast_experts %v, %s over <"ep", 4, 1> : (tensor<2x4x8xf32>, tensor<1x8xi32>) -> tensor<3x8x4xf32>
  return
}

// -----

// moe.broadcast_experts (C1): and its rank.
func.func @invalid(%v: tensor<2x4x8xf32>, %s: tensor<1x8xi32>) {
  // expected-error @+1 {{'moe.broadcast_experts' op expected the shadows' values to have the experts' type 'tensor<2x4x8xf32>' except for dimension 0 but got 'tensor<3x32xf32>'}}
  %0 = moe.broadcast_experts %v, %s over <"ep", 4, 1> : (tensor<2x4x8xf32>, tensor<1x8xi32>) -> tensor<3x32xf32>
  return
}

// -----

// moe.broadcast_experts (C1): and its elements.
func.func @invalid(%v: tensor<2x4x8xf32>, %s: tensor<1x8xi32>) {
  // expected-error @+1 {{'moe.broadcast_experts' op expected the shadows' values to have the experts' type 'tensor<2x4x8xf32>' except for dimension 0 but got 'tensor<3x4x8xf64>'}}
  %0 = moe.broadcast_experts %v, %s over <"ep", 4, 1> : (tensor<2x4x8xf32>, tensor<1x8xi32>) -> tensor<3x4x8xf64>
  return
}

// -----

// moe.reduce_experts (C1): a scalar is no expert's.
func.func @invalid(%v: tensor<f32>, %s: tensor<1x8xi32>) {
  // expected-error @+1 {{'moe.reduce_experts' op expected the shadows' values to have the experts' type 'tensor<f32>' except for dimension 0 but got 'tensor<f32>'}}
  %0 = moe.reduce_experts %v, %s over <"ep", 4, 1> : (tensor<f32>, tensor<1x8xi32>) -> tensor<f32>
  return
}

// -----

// moe.reduce_experts (C1): shadows is [1, n size].
func.func @invalid(%v: tensor<3x4x8xf32>, %s: tensor<1x12xi32>) {
  // expected-error @+1 {{'moe.reduce_experts' op expected shadows to be [1, 8] but got 'tensor<1x12xi32>'}}
  %0 = moe.reduce_experts %v, %s over <"ep", 4, 1> : (tensor<3x4x8xf32>, tensor<1x12xi32>) -> tensor<2x4x8xf32>
  return
}

// -----

// moe.reduce_experts (C1): addend and result have one type.
func.func @invalid(%v: tensor<3x4x8xf32>, %s: tensor<1x8xi32>, %a: tensor<3x4x8xf32>) {
  // expected-error @+1 {{'moe.reduce_experts' op expected an addend of type 'tensor<2x4x8xf32>' but got 'tensor<3x4x8xf32>'}}
  %0 = moe.reduce_experts %v, %s addend(%a) over <"ep", 4, 1> : (tensor<3x4x8xf32>, tensor<1x8xi32>, tensor<3x4x8xf32>) -> tensor<2x4x8xf32>
  return
}

// -----

// moe.broadcast_experts (C1): shadows are counts.
func.func @invalid(%v: tensor<2x4x8xf32>, %s: tensor<1x8xf32>) {
  // expected-error @+1 {{'moe.broadcast_experts' op operand #1 must be 2-D tensor of i32, but got 'tensor<1x8xf32>'}}
  %0 = moe.broadcast_experts %v, %s over <"ep", 4, 1> : (tensor<2x4x8xf32>, tensor<1x8xf32>) -> tensor<3x4x8xf32>
  return
}

// -----

// Members that decide differently would wait for each other.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%w: tensor<2x4xf32> {moe.layout = #moe.layout<[ep], []>}, %s: tensor<1x8xi32> {moe.layout = #moe.layout<[], [ep]>}) -> (tensor<3x4xf32> {moe.layout = #moe.layout<[ep], []>}) {
    // expected-error @+1 {{'moe.broadcast_experts' op expected shadows that are replicated over group 'ep' but they vary over 'dp'}}
    %0 = moe.broadcast_experts %w, %s over <"ep", 4, 2> : (tensor<2x4xf32>, tensor<1x8xi32>) -> tensor<3x4xf32>
    return %0 : tensor<3x4xf32>
  }
}

// -----

// In the reduction too, and where they vary over more than the group.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%w: tensor<3x4xf32> {moe.layout = #moe.layout<[ep], []>}, %s: tensor<1x8xi32> {moe.layout = #moe.layout<[], [world]>}) -> (tensor<2x4xf32> {moe.layout = #moe.layout<[world], []>}) {
    // expected-error @+1 {{'moe.reduce_experts' op expected shadows that are replicated over group 'ep' but they vary over 'ep_esp'}}
    %0 = moe.reduce_experts %w, %s over <"ep", 4, 2> : (tensor<3x4xf32>, tensor<1x8xi32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}

// -----

// An expert that all members have has no owner.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%w: tensor<2x4xf32>, %s: tensor<1x8xi32>) -> (tensor<3x4xf32> {moe.layout = #moe.layout<[ep], []>}) {
    // expected-error @+1 {{'moe.broadcast_experts' op expected operand #0 to vary over 'dp' but it varies over none}}
    %0 = moe.broadcast_experts %w, %s over <"ep", 4, 2> : (tensor<2x4xf32>, tensor<1x8xi32>) -> tensor<3x4xf32>
    return %0 : tensor<3x4xf32>
  }
}

// -----

// All members have the shadows' values, but each its own: their gradients are summed.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%w: tensor<2x4xf32> {moe.layout = #moe.layout<[ep], []>}, %s: tensor<1x8xi32>) -> (tensor<3x4xf32>) {
    // expected-note @+1 {{the operand is defined here}}
    %0 = moe.broadcast_experts %w, %s over <"ep", 4, 2> : (tensor<2x4xf32>, tensor<1x8xi32>) -> tensor<3x4xf32>
    // expected-error @+1 {{'func.return' op expected operand #0 to vary over none but it varies over 'dp'}}
    return %0 : tensor<3x4xf32>
  }
}

// -----

// The boundaries of a group and those of the world divide each other: 3 does not fit 2.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%w: tensor<2x4xf32> {moe.layout = #moe.layout<[ep], []>}, %s: tensor<1x8xi32>) -> (tensor<3x4xf32> {moe.layout = #moe.layout<[ep], []>}) {
    // expected-error @+1 {{'moe.broadcast_experts' op expected stride and stride * size of group #moe.group<"g", 4, 3> to divide, or be multiples of, those of the groups of the module's moe.parallel and of the program: 1, 2, 8; and not to exceed the last, but got 3 and 12}}
    %0 = moe.broadcast_experts %w, %s over <"g", 4, 3> : (tensor<2x4xf32>, tensor<1x8xi32>) -> tensor<3x4xf32>
    return %0 : tensor<3x4xf32>
  }
}
