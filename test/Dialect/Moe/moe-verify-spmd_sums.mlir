// RUN: moe-opt %s --moe-verify-spmd -verify-diagnostics -split-input-file

// Each member has a shard, a copy or a term of a sum. An op that takes one for another is an error.

// A doubled gradient: the sum is cast and summed again.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<8x8xf32>) {
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = moe.all_reduce %0 over <"mp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = moe.to_varying %1 over <"mp", 2, 1> : tensor<8x8xf32>
    // expected-error @+1 {{'moe.all_reduce' op expected partial sums over 'mp' but operand #0 holds equal copies, which would count once for each member}}
    %3 = moe.all_reduce %2 over <"mp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %3 : tensor<8x8xf32>
  }
}

// -----

// One member's term in place of the sum.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<8x8xf32>) {
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{'moe.broadcast' op expected whole values but operand #0 holds partial sums; a sum over 'mp' is missing}}
    %1 = moe.broadcast %0 over <"mp", 2, 1> {root = 0 : i64} : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// -----

// Each member's own term in place of the sum.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<8x8xf32>) {
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{'moe.assume_replicated' op expected whole values but operand #0 holds partial sums; a sum over 'mp' is missing}}
    %1 = moe.assume_replicated %0 over <"mp", 2, 1> : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// -----

// The gradient of a weight whose tokens are divided over dp is a sum over dp.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<8x8xf32>) {
    %0 = moe.matmul %x, %g {transpose_a} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{a sum over 'dp' is missing}}
    %1 = moe.assume_replicated %0 over <"dp", 4, 2> : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// -----

// Parts of the rows are no terms of a sum.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<8x8xf32>) {
    // expected-error @+1 {{expected partial sums over 'mp' but operand #0 holds parts of dimension 0, which are not terms of one sum}}
    %0 = moe.all_reduce %x over <"mp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// The activation of a term is not a term of the activation.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<8x8xf32>) {
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{expected whole values but operand #0 holds partial sums, and the op is not linear in it; a sum over 'mp' is missing}}
    %1 = moe.activation %0 {kind = #moe<activation relu>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = moe.all_reduce %1 over <"mp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// -----

// A bias that every member adds counts twice in the sum.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}, %b: tensor<8xf32>) -> (tensor<8x8xf32>) {
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %b0 = moe.to_varying %b over <"mp", 2, 1> : tensor<8xf32>
    // expected-error @+1 {{operand #1, equal copies, is added to partial sums}}
    %1 = moe.bias_add %0, %b0 : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
    %2 = moe.all_reduce %1 over <"mp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// -----

// A product of two sums is not the sum of the products.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<8x8xf32>) {
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{two operands that are multiplied hold partial sums}}
    %1 = moe.matmul %0, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = moe.all_reduce %1 over <"mp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// -----

// A term in place of a part: the layout says that the result's rows are divided.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) {
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{expected whole values but operand #0 holds partial sums; a sum over 'mp' is missing}}
    return %0 : tensor<8x8xf32>
  }
}

// -----

// Neighbours that have the same experts make the same choices: their results are copies, and no terms of a sum.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<4x8xf32>, %s: tensor<4x2xi32>, %c: tensor<1x4xi32>, %w: tensor<1x8x8xf32> {moe.layout = #moe.layout<[ep], [], []>}) -> tensor<4x8xf32> {
    %0, %1 = moe.local_slots %s, %c over <"world", 8, 1> {capacity = 8 : i64, copies = 2 : i64} : (tensor<4x2xi32>, tensor<1x4xi32>) -> (tensor<4x2xi32>, tensor<1x1xi32>)
    %2 = moe.to_varying %x over <"world", 8, 1> : tensor<4x8xf32>
    %v = moe.to_varying %w over <"esp", 2, 1> : tensor<1x8x8xf32>
    %3 = moe.dispatch %2, %0 : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<1x8x8xf32>
    %4 = moe.grouped_matmul %3, %v : (tensor<1x8x8xf32>, tensor<1x8x8xf32>) -> tensor<1x8x8xf32>
    %5 = moe.combine %4, %0 : (tensor<1x8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
    // expected-error @+1 {{expected partial sums over 'mp' but operand #0 holds equal copies}}
    %6 = moe.all_reduce %5 over <"world", 8, 1> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %6 : tensor<4x8xf32>
  }
}

// -----

// Parm's S1: members route their own parts of the tokens, so that the gradient of the gate is a sum over them.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32>, %w: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = moe.to_varying %w over <"mp", 2, 1> : tensor<8x4xf32>
    %2 = moe.matmul %0, %1 : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %3 = moe.matmul %0, %2 {transpose_a} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    // expected-error @+1 {{expected whole values but operand #0 holds partial sums; a sum over 'mp' is missing}}
    %4 = moe.assume_replicated %3 over <"mp", 2, 1> : tensor<8x4xf32>
    return %4 : tensor<8x4xf32>
  }
}

// -----

// A slice over other members keeps the terms that it has.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<2x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = moe.slice %0 over <"dp", 4, 2> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<2x8xf32>
    // expected-error @+1 {{holds partial sums; a sum over 'mp' is missing}}
    %2 = moe.assume_replicated %1 over <"mp", 2, 1> : tensor<2x8xf32>
    return %2 : tensor<2x8xf32>
  }
}

// -----

// A reduce_scatter leaves a part of the sum: there is nothing more to add up.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> tensor<4x8xf32> {
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = moe.reduce_scatter %0 over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    // expected-error @+1 {{expected partial sums over 'mp' but operand #0 holds parts of dimension 0, which are not terms of one sum}}
    %2 = moe.all_reduce %1 over <"mp", 2, 1> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
}

// -----

// Terms side by side in place of their sum.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> tensor<16x8xf32> {
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{'moe.all_gather' op expected whole values but operand #0 holds partial sums; a sum over 'mp' is missing}}
    %1 = moe.all_gather %0 over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<16x8xf32>
    return %1 : tensor<16x8xf32>
  }
}

// -----

// Equal copies of blocks are terms where the blocks are.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> tensor<16x8xf32> {
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = moe.dump %0 : (tensor<8x8xf32>) -> tensor<16x8xf32>
    // expected-error @+1 {{holds partial sums; a sum over 'mp' is missing}}
    %2 = moe.assume_replicated %1 over <"mp", 2, 1> : tensor<16x8xf32>
    return %2 : tensor<16x8xf32>
  }
}

// -----

// Dumped rows of all members of esp are on each of them: with whole experts the results are copies, and the sum over esp has
// each as often as esp has members.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<4x6x8xf32> {moe.layout = #moe.layout<[], [world], []>}, %w: tensor<1x8x8xf32> {moe.layout = #moe.layout<[ep], [], []>}) -> (tensor<1x48x8xf32> {moe.layout = #moe.layout<[ep], [], []>}) {
    %0 = moe.dump %x {blocks = 4 : i64} : (tensor<4x6x8xf32>) -> tensor<8x6x8xf32>
    %1 = moe.all_to_all %0 over <"world", 8, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x6x8xf32>) -> tensor<1x48x8xf32>
    %v = moe.to_varying %w over <"esp", 2, 1> : tensor<1x8x8xf32>
    %2 = moe.grouped_matmul %1, %v : (tensor<1x48x8xf32>, tensor<1x8x8xf32>) -> tensor<1x48x8xf32>
    // expected-error @+1 {{expected partial sums over 'mp' but operand #0 holds equal copies}}
    %3 = moe.all_reduce %2 over <"esp", 2, 1> : (tensor<1x48x8xf32>) -> tensor<1x48x8xf32>
    return %3 : tensor<1x48x8xf32>
  }
}

// -----

// The same in the dropless form: what comes back are the terms of all of esp, which a sum in place adds up, and no other.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[world], []>}, %b: tensor<1x4xi32> {moe.layout = #moe.layout<[world], []>}, %e: tensor<8x1xi32> {moe.layout = #moe.layout<[world], []>}, %w: tensor<1x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
               %v: tensor<1x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}) -> tensor<8x8xf32> {
    %0 = moe.dump %x : (tensor<8x8xf32>) -> tensor<16x8xf32>
    %1 = moe.all_to_all_v %0, %b, %e over <"world", 8, 1> {direction = #moe<direction to_experts>, copies = 2 : i64} : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<8x1xi32>) -> tensor<64x8xf32>
    %2 = moe.grouped_matmul %1, %w counts(%e) : (tensor<64x8xf32>, tensor<1x8x8xf32>, tensor<8x1xi32>) -> tensor<64x8xf32>
    %3 = moe.grouped_matmul %2, %v counts(%e) : (tensor<64x8xf32>, tensor<1x8x8xf32>, tensor<8x1xi32>) -> tensor<64x8xf32>
    %4 = moe.all_to_all_v %3, %b, %e over <"world", 8, 1> {direction = #moe<direction from_experts>, copies = 2 : i64} : (tensor<64x8xf32>, tensor<1x4xi32>, tensor<8x1xi32>) -> tensor<16x8xf32>
    %5 = moe.local_reduce %4 : (tensor<16x8xf32>) -> tensor<8x8xf32>
    // expected-error @+2 {{expected partial sums over 'mp' but operand #0 holds parts by token}}
    // expected-error @+1 {{expected partial sums over 'dp' but operand #0 holds parts by token}}
    %6 = moe.all_reduce %5 over <"world", 8, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %6 : tensor<8x8xf32>
  }
}

// -----

// Terms of all of esp that nobody adds up.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[world], []>}, %b: tensor<1x4xi32> {moe.layout = #moe.layout<[world], []>}, %e: tensor<8x1xi32> {moe.layout = #moe.layout<[world], []>}, %w: tensor<1x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
               %v: tensor<1x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}) -> tensor<16x8xf32> {
    %0 = moe.dump %x : (tensor<8x8xf32>) -> tensor<16x8xf32>
    %1 = moe.all_to_all_v %0, %b, %e over <"world", 8, 1> {direction = #moe<direction to_experts>, copies = 2 : i64} : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<8x1xi32>) -> tensor<64x8xf32>
    %2 = moe.grouped_matmul %1, %w counts(%e) : (tensor<64x8xf32>, tensor<1x8x8xf32>, tensor<8x1xi32>) -> tensor<64x8xf32>
    %3 = moe.grouped_matmul %2, %v counts(%e) : (tensor<64x8xf32>, tensor<1x8x8xf32>, tensor<8x1xi32>) -> tensor<64x8xf32>
    %4 = moe.all_to_all_v %3, %b, %e over <"world", 8, 1> {direction = #moe<direction from_experts>, copies = 2 : i64} : (tensor<64x8xf32>, tensor<1x4xi32>, tensor<8x1xi32>) -> tensor<16x8xf32>
    // expected-error @+1 {{expected whole values but operand #0 holds terms of sums, side by side; a sum over 'mp' is missing}}
    %6 = moe.assume_replicated %4 over <"world", 8, 1> : tensor<16x8xf32>
    return %6 : tensor<16x8xf32>
  }
}

// -----

// Phases of an exchange divide rows as the whole does: experts whose rows are of other tokens have gradients that are whole.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[ep], []>}, %b: tensor<1x4xi32> {moe.layout = #moe.layout<[ep], []>}, %e: tensor<2x1xi32> {moe.layout = #moe.layout<[ep], []>}) -> tensor<1x8x8xf32> {
    %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 2> {direction = #moe<direction to_experts>, phase = 1 : i64, phases = 2 : i64} : (tensor<8x8xf32>, tensor<1x4xi32>, tensor<2x1xi32>) -> tensor<16x8xf32>
    %1 = moe.grouped_matmul_wgrad %0, %0 counts(%e) : (tensor<16x8xf32>, tensor<16x8xf32>, tensor<2x1xi32>) -> tensor<1x8x8xf32>
    // expected-error @+1 {{expected partial sums over 'dp' but operand #0 holds parts of dimension 0}}
    %2 = moe.all_reduce %1 over <"ep", 4, 2> : (tensor<1x8x8xf32>) -> tensor<1x8x8xf32>
    return %2 : tensor<1x8x8xf32>
  }
}

// -----

// Phases and what they are joined to have parts, as the whole exchange has.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[dp], []>}) -> tensor<16x2xf32> {
    %0 = moe.all_to_all_phase %x over <"dp", 4, 2> {split_dim = 1 : i64, concat_dim = 0 : i64, phase = 0 : i64, phases = 2 : i64} : (tensor<4x8xf32>) -> tensor<8x2xf32>
    %1 = moe.all_to_all_phase %x over <"dp", 4, 2> {split_dim = 1 : i64, concat_dim = 0 : i64, phase = 1 : i64, phases = 2 : i64} : (tensor<4x8xf32>) -> tensor<8x2xf32>
    %2 = moe.join_phases %0, %1 over <"dp", 4, 2> : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<16x2xf32>
    // expected-error @+1 {{expected partial sums over 'dp' but operand #0 holds parts of dimension 1}}
    %3 = moe.all_reduce %2 over <"dp", 4, 2> : (tensor<16x2xf32>) -> tensor<16x2xf32>
    return %3 : tensor<16x2xf32>
  }
}

// -----

// Each member has all shadows, of which it computes its own tokens: a sum over the owners would have each as often as there are
// members.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%w: tensor<2x4xf32> {moe.layout = #moe.layout<[ep], []>}, %s: tensor<1x8xi32>) -> (tensor<2x4xf32> {moe.layout = #moe.layout<[ep], []>}) {
    %0 = moe.broadcast_experts %w, %s over <"ep", 4, 2> : (tensor<2x4xf32>, tensor<1x8xi32>) -> tensor<3x4xf32>
    // expected-error @+1 {{'moe.reduce_experts' op expected partial sums over 'dp' but operand #0 holds equal copies}}
    %1 = moe.reduce_experts %0, %s over <"ep", 4, 2> : (tensor<3x4xf32>, tensor<1x8xi32>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
}

// -----

// A shadow's gradient is a sum over the members' tokens, and whole at its owner.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[ep], []>}, %e: tensor<4x2xi32> {moe.layout = #moe.layout<[ep], []>}, %s: tensor<1x8xi32>) -> tensor<2x8x8xf32> {
    %v = moe.to_varying %s over <"ep", 4, 2> : tensor<1x8xi32>
    %0, %1, %2, %3 = moe.divide_choices %e, %v : (tensor<4x2xi32>, tensor<1x8xi32>) -> (tensor<4x2xi32>, tensor<1x8xi32>, tensor<4x2xi32>, tensor<1x2xi32>)
    %4 = moe.dispatch %x, %2 : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
    %5 = moe.grouped_matmul_wgrad %4, %4 counts(%3) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<1x2xi32>) -> tensor<2x8x8xf32>
    %6 = moe.reduce_experts %5, %s over <"ep", 4, 2> : (tensor<2x8x8xf32>, tensor<1x8xi32>) -> tensor<2x8x8xf32>
    // expected-error @+1 {{expected partial sums over 'dp' but operand #0 holds parts of dimension 0}}
    %7 = moe.all_reduce %6 over <"ep", 4, 2> : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
    return %7 : tensor<2x8x8xf32>
  }
}

// -----

// Words that are divided over mp have a column of logarithms each; in place of their gather nothing is a sum.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[], [mp]>}) -> tensor<4x1xf32> {
    %0 = moe.row_logsumexp %x : (tensor<4x8xf32>) -> tensor<4x1xf32>
    // expected-error @+1 {{expected partial sums over 'mp' but operand #0 holds parts of dimension 1}}
    %1 = moe.all_reduce %0 over <"mp", 2, 1> : (tensor<4x1xf32>) -> tensor<4x1xf32>
    return %1 : tensor<4x1xf32>
  }
}

// -----

// Means of groups of tokens, which are divided as the tokens are.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[dp], []>}) -> tensor<2x8xf32> {
    %0, %1, %2 = moe.router_means %x {top_k = 1 : i64} : (tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x1xf32>)
    // expected-error @+1 {{expected partial sums over 'dp' but operand #0 holds parts of dimension 0}}
    %3 = moe.all_reduce %1 over <"dp", 4, 2> : (tensor<2x8xf32>) -> tensor<2x8xf32>
    return %3 : tensor<2x8xf32>
  }
}

// -----

// Heads of a norm are divided over mp, one for each member: the gradient of the gamma that they share is a sum.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %g: tensor<8xf32>) -> tensor<8xf32> {
    %0 = moe.to_varying %g over <"mp", 2, 1> : tensor<8xf32>
    %1 = moe.norm %x, %0 {eps = 1.0e-05 : f64, kind = #moe<norm rms>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %2 = moe.norm_wgrad %x, %1 {eps = 1.0e-05 : f64, kind = #moe<norm rms>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{a sum over 'mp' is missing}}
    %3 = moe.assume_replicated %2 over <"mp", 2, 1> : tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}
