// RUN: moe-opt %s --moe-verify-spmd -verify-diagnostics -split-input-file

// A missing all_reduce: the partial sums of esp's shards are no replicated result.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[], [esp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[esp], []>}) -> (tensor<8x8xf32>) {
    // expected-note @+1 {{the operand is defined here}}
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{'func.return' op expected operand #0 to vary over none but it varies over 'mp'; a sum or gather over 'mp' is missing}}
    return %0 : tensor<8x8xf32>
  }
}

// -----

// A doubled sum: an all_reduce of a replicated value counts it once for each member.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    // expected-error @+1 {{'moe.all_reduce' op expected operand #0 to vary over 'mp' but it varies over none; it is replicated over 'mp', so that its copies would count more than once without moe.to_varying}}
    %0 = moe.all_reduce %x over <"mp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// So does a second all_reduce.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<8x8xf32>) {
    // expected-note @+1 {{the operand is defined here}}
    %0 = moe.all_reduce %x over <"mp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{'moe.all_reduce' op expected operand #0 to vary over 'mp' but it varies over none}}
    %1 = moe.all_reduce %0 over <"mp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// -----

// A slice of a varying value would take a part of other tokens on each member.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>}) {
    // expected-error @+1 {{'moe.slice' op expected an operand replicated over group 'mp' but it varies over 'mp'}}
    %0 = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

// Nor may it vary over a part of the group.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<1x8xf32> {moe.layout = #moe.layout<[ep_esp], []>}) {
    // expected-error @+1 {{'moe.slice' op expected an operand replicated over group 'ep_esp' but it varies over 'mp'}}
    %0 = moe.slice %x over <"ep_esp", 8, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<1x8xf32>
    return %0 : tensor<1x8xf32>
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

// 16 fits, but is beyond the world.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32>) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) {
    // expected-error @+1 {{1, 2, 8; and not to exceed the last, but got 1 and 16}}
    %0 = moe.to_varying %x over <"g", 16, 1> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// Nor do groups fit that each fit the world: nodes of two and of three ranks. The second is refused.
module attributes {moe.parallel = #moe.parallel<world = 12, pp = 1, dp = 12, mp = 1, ep = 12, esp = 1>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %0 = moe.all_reduce %x over <"two", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{expected stride and stride * size of group #moe.group<"three", 3, 1> to divide, or be multiples of, those of the groups of the module's moe.parallel and of the program: 1, 2, 12; and not to exceed the last, but got 1 and 3}}
    %1 = moe.all_reduce %0 over <"three", 3, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// -----

// A sum inside each node leaves the nodes' sums: here four ranks of dp's eight are a node.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 8, esp = 1>} {
  func.func @f(%x: tensor<8x4xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<4xf32>) {
    %0 = moe.bias_grad %x : (tensor<8x4xf32>) -> tensor<4xf32>
    // expected-note @+1 {{the operand is defined here}}
    %1 = moe.all_reduce %0 over <"node", 4, 1> : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{'func.return' op expected operand #0 to vary over none but it varies over 'stride4'; a sum or gather over 'stride4' is missing}}
    return %1 : tensor<4xf32>
  }
}

// -----

// And a sum over all ranks behind it counts each of them four times.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 8, esp = 1>} {
  func.func @f(%x: tensor<8x4xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<4xf32>) {
    %0 = moe.bias_grad %x : (tensor<8x4xf32>) -> tensor<4xf32>
    // expected-note @+1 {{the operand is defined here}}
    %1 = moe.all_reduce %0 over <"node", 4, 1> : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{'moe.all_reduce' op expected operand #0 to vary over 'dp' but it varies over 'stride4'; it is replicated over 'node'}}
    %2 = moe.all_reduce %1 over <"dp", 8, 1> : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}

// -----

// Each node's shards are no terms of one sum between the nodes.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 8, esp = 1>} {
  func.func @f(%x: tensor<8x4xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<32x4xf32>) {
    %0 = moe.all_gather %x over <"node", 4, 1> {dim = 0 : i64} : (tensor<8x4xf32>) -> tensor<32x4xf32>
    // expected-error @+1 {{'moe.all_reduce' op expected partial sums over 'nodes' but operand #0 holds parts of dimension 0, which are not terms of one sum}}
    %1 = moe.all_reduce %0 over <"nodes", 2, 4> : (tensor<32x4xf32>) -> tensor<32x4xf32>
    return %1 : tensor<32x4xf32>
  }
}

// -----

// A result that is replicated where its layout says sharded.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32>) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) {
    // expected-error @+1 {{'func.return' op expected operand #0 to vary over 'mp' but it varies over none; it is replicated over 'mp', so that its copies would count more than once without moe.to_varying}}
    return %x : tensor<8x8xf32>
  }
}

// -----

// A result sharded over another group than its layout says.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) {
    // expected-error @+1 {{'func.return' op expected operand #0 to vary over 'mp' but it varies over 'dp'; a sum or gather over 'dp' is missing}}
    return %x : tensor<8x8xf32>
  }
}

// -----

// An op on a sharded and a replicated operand needs to_varying, whose adjoint sums the gradient.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}, %w: tensor<8x8xf32>) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    // expected-error @+1 {{'moe.matmul' op expected operand #1 to vary over 'dp' but it varies over none; it is replicated over 'dp'}}
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// An op on operands of two shardings needs casts of both; the first is reported.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[world], []>}) {
    // expected-error @+1 {{'moe.add' op expected operand #0 to vary over 'ep_esp' but it varies over 'dp'; it is replicated over 'mp'}}
    %0 = moe.add %x, %w : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// An exchange of a replicated value.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32>) -> (tensor<4x16xf32> {moe.layout = #moe.layout<[mp], []>}) {
    // expected-error @+1 {{'moe.all_to_all' op expected operand #0 to vary over 'mp' but it varies over none}}
    %0 = moe.all_to_all %x over <"mp", 2, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x8xf32>) -> tensor<4x16xf32>
    return %0 : tensor<4x16xf32>
  }
}

// -----

// Parts of which one is the same on all members and the other is not: the result would be neither.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[dp], []>}, %y: tensor<4x8xf32>) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[world], []>}) {
    // expected-error @+1 {{'moe.join_phases' op expected operand #1 to vary over 'dp' but it varies over none; it is replicated over 'dp'}}
    %0 = moe.join_phases %x, %y over <"mp", 2, 1> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// Joined in another order on each member, replicas are none any more.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<8x8xf32>) {
    // expected-note @+1 {{the operand is defined here}}
    %0 = moe.join_phases %x, %y over <"mp", 2, 1> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{'func.return' op expected operand #0 to vary over none but it varies over 'mp'; a sum or gather over 'mp' is missing}}
    return %0 : tensor<8x8xf32>
  }
}

// -----

// The blocks of two phases of eight ranks are of four, which are no group of this world: all of dp counts as their order.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[world], []>}) {
    // expected-note @+1 {{the operand is defined here}}
    %0 = moe.join_phases %x, %y over <"world", 8, 1> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{expected operand #0 to vary over 'ep_esp' but it varies over 'dp'; it is replicated over 'mp'}}
    return %0 : tensor<8x8xf32>
  }
}

// -----

// The counts of rows that are other rows on each member are not those of parts of one.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%c: tensor<1x4xi32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<1x4xi32> {moe.layout = #moe.layout<[mp], []>}) {
    // expected-error @+1 {{'moe.slice_counts' op expected an operand replicated over group 'mp' but it varies over 'mp'}}
    %0 = moe.slice_counts %c over <"mp", 2, 1> {rows = 16 : i64} : tensor<1x4xi32>
    return %0 : tensor<1x4xi32>
  }
}

// -----

// A forgotten sum: a rank's own blocks added up are still its own.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<4x8xf32>) {
    // expected-note @+1 {{the operand is defined here}}
    %0 = moe.local_reduce %x : (tensor<8x8xf32>) -> tensor<4x8xf32>
    // expected-error @+1 {{'func.return' op expected operand #0 to vary over none but it varies over 'mp'; a sum or gather over 'mp' is missing}}
    return %0 : tensor<4x8xf32>
  }
}

// -----

// Tokens that all ranks route alike have other experts at home in each node: the axis of the nodes, here dp, is in the result.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%l: tensor<4x8xf32>) -> (tensor<4x2xi32>) {
    // expected-note @+2 {{the operand is defined here}}
    // expected-error @+1 {{'moe.route' op expected operand #0 to vary over 'dp' but it varies over none; it is replicated over 'dp'}}
    %0:6 = moe.route %l {leave = 1 : i64, homes = 2 : i64, home_stride = 4 : i64} : (tensor<4x8xf32>)
      -> (tensor<4x8xf32>, tensor<4x2xi32>, tensor<4x2xi32>, tensor<4x2xf32>, tensor<1x8xi32>, tensor<f32>)
    // expected-error @+1 {{'func.return' op expected operand #0 to vary over none but it varies over 'dp'; a sum or gather over 'dp' is missing}}
    return %0#1 : tensor<4x2xi32>
  }
}

// -----

// Ranks of mp in different nodes do not route alike.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%l: tensor<4x8xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<4x2xi32> {moe.layout = #moe.layout<[dp], []>}) {
    // expected-note @+2 {{the operand is defined here}}
    // expected-error @+1 {{'moe.route' op expected operand #0 to vary over 'ep_esp' but it varies over 'dp'; it is replicated over 'mp'}}
    %0:6 = moe.route %l {leave = 1 : i64, homes = 2 : i64, home_stride = 1 : i64} : (tensor<4x8xf32>)
      -> (tensor<4x8xf32>, tensor<4x2xi32>, tensor<4x2xi32>, tensor<4x2xf32>, tensor<1x8xi32>, tensor<f32>)
    // expected-error @+1 {{'func.return' op expected operand #0 to vary over 'dp' but it varies over 'ep_esp'; a sum or gather over 'mp' is missing}}
    return %0#1 : tensor<4x2xi32>
  }
}

// -----

// A phase of replicated counts.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%c: tensor<4x2xi32>) -> (tensor<2x2xi32> {moe.layout = #moe.layout<[ep], []>}) {
    // expected-error @+1 {{'moe.phase' op expected operand #0 to vary over 'dp' but it varies over none; it is replicated over 'dp'}}
    %0 = moe.phase %c over <"ep", 4, 2> {phase = 1 : i64, phases = 2 : i64} : (tensor<4x2xi32>) -> tensor<2x2xi32>
    return %0 : tensor<2x2xi32>
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

// So does a result's.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  // expected-error @+1 {{expected the groups of #moe.layout<[tp], []> to be groups of the module's moe.parallel}}
  func.func @f(%x: tensor<8x8xf32>) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[tp], []>}) {
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

// -----

// Nor has one of another dialect.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  func.func @f(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    // expected-error @+1 {{'arith.negf' op expected an op of an SPMD program}}
    %0 = arith.negf %x : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// There has to be a world.
// expected-error @+1 {{expected a 'moe.parallel' attribute on the module}}
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// And a body of one block.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  // expected-error @+1 {{expected a body of one block but got 0}}
  func.func private @f(tensor<8xf32>)
}

// -----

// Members that have counts of their own may run a pass differently often, and would wait for each other.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  func.func @f(%s: tensor<4x1xi32> {moe.layout = #moe.layout<[dp], []>}, %c: tensor<1x2xi32> {moe.layout = #moe.layout<[dp], []>},
               %x: tensor<4x8xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[], []>}) {
    %left, %slots, %counts = moe.window %s, %c over <"self", 1, 1> {rows = 2 : i64, workers = 2 : i64}
      : (tensor<4x1xi32>, tensor<1x2xi32>) -> (tensor<1xi32>, tensor<4x1xi32>, tensor<1x2xi32>)
    %left1, %slots1, %counts1 = moe.window %s, %c before(%left) over <"self", 1, 1> {moe.pass = "pass0", rows = 2 : i64, workers = 2 : i64}
      : (tensor<4x1xi32>, tensor<1x2xi32>, tensor<1xi32>) -> (tensor<1xi32>, tensor<4x1xi32>, tensor<1x2xi32>)
    %d = moe.dispatch %x, %slots1 {moe.pass = "pass0"} : (tensor<4x8xf32>, tensor<4x1xi32>) -> tensor<4x8xf32>
    // expected-error @+1 {{hang: expected the members of 'ep' to run pass 'pass0' equally often, but the number of passes varies over 'dp'}}
    %g = moe.all_gather %d over <"ep", 2, 1> {dim = 0 : i64, moe.pass = "pass0"} : (tensor<4x8xf32>) -> tensor<8x8xf32>
    return %g : tensor<8x8xf32>
  }
}
