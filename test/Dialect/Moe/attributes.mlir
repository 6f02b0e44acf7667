// RUN: moe-opt %s --verify-roundtrip -split-input-file | FileCheck %s

// Groups, worlds, layouts, enumerations, and the discardable attributes in their places.

// Every number of a world, also where all its groups are one rank.
// CHECK: module attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>}
module attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
}

// -----

// The fields may stand in any order.
// CHECK: module attributes {moe.parallel = #moe.parallel<world = 4096, pp = 2, dp = 512, mp = 4, ep = 256, esp = 8>}
module attributes {moe.parallel = #moe.parallel<esp = 8, ep = 256, mp = 4, dp = 512, pp = 2, world = 4096>} {
}

// -----

// Any chain of divisors, powers of two or not: 1, 3, 6, 12.
// CHECK: #moe.parallel<world = 12, pp = 1, dp = 4, mp = 3, ep = 2, esp = 6>
module attributes {moe.parallel = #moe.parallel<world = 12, pp = 1, dp = 4, mp = 3, ep = 2, esp = 6>} {
}

// -----

// Context parallelism is said where there is some.
// CHECK: #moe.parallel<world = 16, pp = 1, dp = 2, mp = 2, ep = 8, esp = 1, cp = 4>
module attributes {moe.parallel = #moe.parallel<world = 16, pp = 1, dp = 2, mp = 2, ep = 8, esp = 1, cp = 4>} {
  // Rows of sequences on a rank.
  // CHECK: %{{.+}}: tensor<8xi32> {moe.layout = #moe.layout<[dp, cp], sequence = 8, chunks = 8>}
  func.func @rows(%ids: tensor<8xi32> {moe.layout = #moe.layout<[dp, cp], sequence = 8, chunks = 8>}) -> (tensor<8xi32>, tensor<8xi32>) {
    // CHECK: cut = #moe.cut<<"cp", 4, 2>>
    %0 = moe.positions {period = 2 : i64, cut = #moe.cut<<"cp", 4, 2>>} : tensor<8xi32>
    // CHECK: cut = #moe.cut<<"cp", 4, 2>, zigzag>
    %1 = moe.positions {period = 2 : i64, cut = #moe.cut<<"cp", 4, 2>, zigzag>} : tensor<8xi32>
    return %0, %1 : tensor<8xi32>, tensor<8xi32>
  }
}

// -----

// A function may have a world of its own, as the one-rank reference has.
// CHECK-LABEL: func.func @own_world(
// CHECK-SAME: attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 1, esp = 1>}
func.func @own_world(%x: tensor<4xf32>) -> tensor<4xf32>
    attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 1, mp = 2, ep = 1, esp = 1>} {
  return %x : tensor<4xf32>
}

// Layouts of each rank, several groups on one dimension, on tensors and memrefs.
// CHECK-LABEL: func.func @layouts(
// CHECK-SAME: tensor<f32> {moe.layout = #moe.layout<>}
// CHECK-SAME: tensor<8xf32> {moe.layout = #moe.layout<[dp, mp]>}
// CHECK-SAME: memref<4x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>, moe.name = "w1", moe.role = "parameter"}
// CHECK-SAME: -> (tensor<8xf32> {moe.layout = #moe.layout<[dp, mp]>, moe.name = "y", moe.role = "output"})
func.func @layouts(%a: tensor<f32> {moe.layout = #moe.layout<>}, %b: tensor<8xf32> {moe.layout = #moe.layout<[dp, mp]>},
                   %c: memref<4x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>, moe.name = "w1", moe.role = "parameter"})
    -> (tensor<8xf32> {moe.layout = #moe.layout<[dp, mp]>, moe.name = "y", moe.role = "output"}) {
  return %b : tensor<8xf32>
}

// The attributes stand for themselves too.
// CHECK-LABEL: func.func @values(
// CHECK-SAME: test.chunks = [#moe.chunk<0 of 1>, #moe.chunk<7 of 8>]
// CHECK-SAME: test.enums = [#moe<activation relu>, #moe<score sigmoid>, #moe<group_score top2>, #moe<direction from_experts>,
// CHECK-SAME: #moe<residual keep>, #moe<residual recompute>, #moe<residual recommunicate>, #moe<residual offload>]
// CHECK-SAME: test.group = #moe.group<"a group, with a comma", 4, 2>, test.ring = #moe.ring<"layer0.hidden, of all", 2>
func.func @values() attributes {
    test.group = #moe.group<"a group, with a comma", 4, 2>,
    test.chunks = [#moe.chunk<0 of 1>, #moe.chunk<7 of 8>], test.ring = #moe.ring<"layer0.hidden, of all", 2>,
    test.enums = [#moe<activation relu>, #moe<score sigmoid>, #moe<group_score top2>, #moe<direction from_experts>,
                  #moe<residual keep>, #moe<residual recompute>, #moe<residual recommunicate>, #moe<residual offload>]} {
  return
}
