// RUN: moe-opt %s --moe-insert-to-varying -verify-diagnostics -split-input-file

// Errors that no cast can mend are the same as those of moe-verify-spmd.

// A slice of a varying value would take a part of other tokens on each member.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>}) {
    // expected-error @+1 {{'moe.slice' op expected an operand replicated over group 'mp' but it varies over 'mp'}}
    %0 = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

// A varying value cannot be cast again.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) {
    // expected-error @+1 {{'moe.to_varying' op expected an operand replicated over group 'mp' but it varies over 'mp'}}
    %0 = moe.to_varying %x over <"mp", 2, 1> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// The boundaries of a group and those of the world divide each other: 3 does not fit 2.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<8x8xf32>) {
    // expected-error @+1 {{expected stride and stride * size of group #moe.group<"g", 3, 1> to divide, or be multiples of, those of the groups of the module's moe.parallel and of the program: 1, 2, 8; and not to exceed the last, but got 1 and 3}}
    %0 = moe.all_reduce %x over <"g", 3, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// An argument's layout names groups of the world.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  // expected-error @+1 {{expected the groups of #moe.layout<[tp], []> to be groups of the module's moe.parallel}}
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[tp], []>}) -> (tensor<8x8xf32>) {
    return %x : tensor<8x8xf32>
  }
}

// -----

// An op of a model graph has no states.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x8xf32>, %w2: tensor<4x8x8xf32>) -> (tensor<8x8xf32>) {
    // expected-error @+1 {{'moe.layer' op expected an op of an SPMD program; run moe-partition on a model graph first}}
    %y, %a = moe.layer "l" %x gate(%g) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>} : (tensor<8x8xf32>, tensor<8x4xf32>, tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> (tensor<8x8xf32>, tensor<f32>)
    return %y : tensor<8x8xf32>
  }
}
