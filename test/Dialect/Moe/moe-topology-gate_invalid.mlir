// RUN: moe-opt %s -split-input-file -verify-diagnostics --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 2>'},func.func(moe-topology-gate))"

// Three ranks are no number of nodes of two.
module attributes {moe.parallel = #moe.parallel<world = 3, pp = 1, dp = 3, mp = 1, ep = 3, esp = 1>} {
  func.func @ranks(%l: tensor<8x6xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<8x2xi32> {moe.layout = #moe.layout<[dp], []>}) {
    // expected-error @+1 {{'moe.route' op expected for topology-gate that nodes of 2 ranks divide the 3 ranks that exchange, that mp = 1 and esp = 1 divide a node, and that the nodes divide the 6 experts equally}}
    %0:6 = moe.route %l : (tensor<8x6xf32>)
      -> (tensor<8x6xf32>, tensor<8x2xi32>, tensor<8x2xi32>, tensor<8x2xf32>, tensor<1x6xi32>, tensor<f32>)
    return %0#1 : tensor<8x2xi32>
  }
}

// -----

// The ranks of mp, which route alike, would be at home in two nodes.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 2, mp = 4, ep = 8, esp = 1>} {
  func.func @mp(%l: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<8x1xi32> {moe.layout = #moe.layout<[dp], []>}) {
    // expected-error @+1 {{'moe.route' op expected for topology-gate that nodes of 2 ranks divide the 8 ranks that exchange, that mp = 4 and esp = 1 divide a node, and that the nodes divide the 8 experts equally}}
    %0:6 = moe.route %l : (tensor<8x8xf32>)
      -> (tensor<8x8xf32>, tensor<8x1xi32>, tensor<8x1xi32>, tensor<8x1xf32>, tensor<1x8xi32>, tensor<f32>)
    return %0#1 : tensor<8x1xi32>
  }
}

// -----

// Five experts are not as many on each of two nodes.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  func.func @experts(%l: tensor<8x5xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<8x1xi32> {moe.layout = #moe.layout<[dp], []>}) {
    // expected-error @+1 {{'moe.route' op expected for topology-gate that nodes of 2 ranks divide the 4 ranks that exchange, that mp = 1 and esp = 1 divide a node, and that the nodes divide the 5 experts equally}}
    %0:6 = moe.route %l : (tensor<8x5xf32>)
      -> (tensor<8x5xf32>, tensor<8x1xi32>, tensor<8x1xi32>, tensor<8x1xf32>, tensor<1x5xi32>, tensor<f32>)
    return %0#1 : tensor<8x1xi32>
  }
}

// -----

// A token that stays would have three choices of two experts.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  func.func @choices(%l: tensor<8x4xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<8x3xi32> {moe.layout = #moe.layout<[dp], []>}) {
    // expected-error @+1 {{'moe.route' op expected for topology-gate a gate that chooses among all experts, and for each token at most the 2 experts of a node, but it chooses 3 of the best of 1 groups}}
    %0:6 = moe.route %l : (tensor<8x4xf32>)
      -> (tensor<8x4xf32>, tensor<8x3xi32>, tensor<8x3xi32>, tensor<8x3xf32>, tensor<1x4xi32>, tensor<f32>)
    return %0#1 : tensor<8x3xi32>
  }
}

// -----

// Groups of experts leave out experts in their own way.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  func.func @expert_groups(%l: tensor<8x4xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<8x1xi32> {moe.layout = #moe.layout<[dp], []>}) {
    // expected-error @+1 {{'moe.route' op expected for topology-gate a gate that chooses among all experts, and for each token at most the 2 experts of a node, but it chooses 1 of the best of 2 groups}}
    %0:6 = moe.route %l {expert_groups = 2 : i64} : (tensor<8x4xf32>)
      -> (tensor<8x4xf32>, tensor<8x1xi32>, tensor<8x1xi32>, tensor<8x1xf32>, tensor<1x4xi32>, tensor<f32>)
    return %0#1 : tensor<8x1xi32>
  }
}

// -----

// There has to be a world.
// expected-error @+1 {{expected a 'moe.parallel' attribute on the module}}
func.func @no_world(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  return %x : tensor<16x8xf32>
}
