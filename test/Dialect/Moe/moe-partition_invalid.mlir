// RUN: moe-opt %s --moe-partition -verify-diagnostics -split-input-file

// There has to be a world.
// expected-error @+1 {{expected a 'moe.parallel' attribute on the module, e.g. #moe.parallel<world = 8}}
module {
  func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
    return %a : tensor<8xf32>
  }
}

// -----

// The tokens divide evenly over dp.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // expected-error @+1 {{expected dimension 0 of 'argument 0', 62, to be divisible by dp = 4}}
  func.func @f(%x: tensor<62x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<62x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "f" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<62x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<62x8xf32>, tensor<f32>)
    return %y, %aux : tensor<62x8xf32>, tensor<f32>
  }
}

// -----

// The experts divide evenly over ep.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 8, esp = 1>} {
  // expected-error @+1 {{expected dimension 0 of 'argument 2', 4, to be divisible by ep = 8}}
  func.func @f(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "f" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}

// -----

// Their inner columns divide evenly over esp.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 2, esp = 4>} {
  // expected-error @+1 {{expected dimension 2 of 'argument 2', 6, to be divisible by esp = 4}}
  func.func @f(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x6xf32>, %w2: tensor<4x6x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "f" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x6xf32>, tensor<4x6x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}

// -----

// The shared expert's inner columns divide evenly over mp.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // expected-error @+1 {{expected dimension 1 of 'argument 4', 7, to be divisible by mp = 2}}
  func.func @f(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %s1: tensor<8x7xf32>, %s2: tensor<7x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "f" %x gate(%g) experts(%w1, %w2) shared(%s1, %s2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<8x7xf32>, tensor<7x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}

// -----

// An argument with a name is called by it.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // expected-error @+1 {{expected dimension 0 of 'tokens', 62, to be divisible by dp = 4}}
  func.func @f(%x: tensor<62x8xf32> {moe.name = "tokens"}, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<62x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "f" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<62x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<62x8xf32>, tensor<f32>)
    return %y, %aux : tensor<62x8xf32>, tensor<f32>
  }
}

// -----

// Groups of tokens do not cross shards: there is a multiple of dp.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  func.func @f(%x: tensor<96x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<96x8xf32>, tensor<f32>) {
    // expected-error @+1 {{expected a multiple of dp = 4 routing groups but got 6}}
    %y, %aux = moe.layer "f" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, groups = 6 : i64}
      : (tensor<96x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<96x8xf32>, tensor<f32>)
    return %y, %aux : tensor<96x8xf32>, tensor<f32>
  }
}

// -----

// A layer's operands have one layout each.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  func.func @f(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32> {moe.layout = #moe.layout<[ep], [esp],
               []>}, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    // expected-error @+1 {{expected operand 2 to have the layout #moe.layout<[ep], [], [esp]> but got #moe.layout<[ep], [esp], []>}}
    %y, %aux = moe.layer "f" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}

// -----

// A sum needs one layout.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  func.func @f(%a: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}, %b: tensor<8x8xf32> {moe.layout = #moe.layout<[], [dp]>})
      -> tensor<8x8xf32> {
    // expected-error @+1 {{expected both operands to have one layout but got #moe.layout<[dp], []> and #moe.layout<[], [dp]>}}
    %0 = moe.add %a, %b : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// A result's given layout has to be the one that comes out.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // expected-error @+1 {{expected result 0 to have the layout #moe.layout<[dp], []> but got #moe.layout<[], [dp]>}}
  func.func @f(%a: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[], [dp]>}) {
    return %a : tensor<8x8xf32>
  }
}

// -----

// A layout names groups of the world.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // expected-error @+1 {{expected the layout of 'argument 0' to name groups among dp, mp, cp, dp_cp, ep, esp, edp, ep_esp, pp, world but got #moe.layout<[tp]>}}
  func.func @f(%a: tensor<8xf32> {moe.layout = #moe.layout<[tp]>}) -> tensor<8xf32> {
    return %a : tensor<8xf32>
  }
}

// -----

// Groups of a layout do not overlap: here a rank's dp member would choose its part of both dimensions.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 4, esp = 2>} {
  // expected-error @+1 {{expected the groups of the layout of 'argument 0' not to overlap but got #moe.layout<[dp], [esp]>}}
  func.func @f(%a: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], [esp]>}) -> tensor<8x8xf32> {
    return %a : tensor<8x8xf32>
  }
}

// -----

// An op of an SPMD program is not one of a model graph.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{'moe.to_varying' op expected an op of a model graph, e.g. moe.layer or moe.add}}
    %op = moe.to_varying %a over <"dp", 4, 2> : tensor<8xf32>
    return %op : tensor<8xf32>
  }
}

// -----

// Nor is one of another dialect.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{'arith.negf' op expected an op of a model graph, e.g. moe.layer or moe.add}}
    %op = arith.negf %a : tensor<8xf32>
    return %op : tensor<8xf32>
  }
}

// -----

// Arguments are tensors of static shape.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // expected-error @+1 {{expected 'argument 0' to be a tensor of static shape but got 'f32'}}
  func.func @f(%a: f32) {
    return
  }
}

// -----

// Static means every dimension.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // expected-error @+1 {{expected 'argument 0' to be a tensor of static shape but got 'tensor<?xf32>'}}
  func.func @f(%a: tensor<?xf32>) {
    return
  }
}

// -----

// A graph is one block.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // expected-error @+1 {{expected a model graph of one block}}
  func.func private @f(tensor<8xf32>)
}

// -----

// Heads to which columns are appended are whole.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 1, esp = 1>} {
  func.func @f(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %s: tensor<8x2xf32>) -> tensor<8x12xf32> {
    %0 = moe.linear %x, %w {column = 1 : i64} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    // expected-error @+1 {{'moe.append_to_heads' op expected whole heads on each rank of mp = 2 but got the columns of 3 heads over it}}
    %1 = moe.append_to_heads %0, %s : (tensor<8x6xf32>, tensor<8x2xf32>) -> tensor<8x12xf32>
    return %1 : tensor<8x12xf32>
  }
}
