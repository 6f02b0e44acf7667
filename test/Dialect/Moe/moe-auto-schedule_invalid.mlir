// The cluster and the choices must be given, and must exist.

// RUN: split-file %s %t
// RUN: not moe-opt %t/layer.mlir --moe-auto-schedule 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: expected option 'cluster', on which schedules are compared
// RUN: not moe-opt %t/layer.mlir --moe-auto-schedule=cluster=nowhere 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: 'nowhere': expected a file or the name of one of the shared clusters, which are {{.*}}hgx-h100
// RUN: not moe-opt %t/groups.mlir --moe-auto-schedule=cluster=hgx-h100 2>&1 | FileCheck %s --check-prefix=GROUPS
// GROUPS: error: expected moe.parallel, which gives the groups
// RUN: not moe-opt %t/layer.mlir --moe-auto-schedule="cluster=hgx-h100 memory-limit=-1" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: expected memory-limit to be at least 0 but got -1
// RUN: not moe-opt %t/layer.mlir --moe-auto-schedule="cluster=hgx-h100 micro-batches=0" 2>&1 | FileCheck %s --check-prefix=BATCHES
// BATCHES: error: expected micro-batches to be from 1 to 65536 but got 0
// RUN: not moe-opt %t/two.mlir --moe-auto-schedule=cluster=hgx-h100 2>&1 | FileCheck %s --check-prefix=TWO
// TWO: error: expected a model graph of exactly one function but got 2

//--- layer.mlir
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  func.func @model(%x: tensor<64x8xf32> {moe.name = "x", moe.role = "input"}, %gate: tensor<8x2xf32> {moe.name = "gate", moe.role = "parameter"},
                   %w1: tensor<2x8x8xf32> {moe.name = "w1", moe.role = "parameter"}, %w2: tensor<2x8x8xf32> {moe.name = "w2", moe.role = "parameter"})
      -> (tensor<64x8xf32> {moe.name = "y", moe.role = "output"}) {
    %y, %aux = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>}
      : (tensor<64x8xf32>, tensor<8x2xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}

//--- groups.mlir
func.func @model(%x: tensor<64x8xf32>) -> tensor<64x8xf32> {
  return %x : tensor<64x8xf32>
}

//--- two.mlir
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  func.func @one(%x: tensor<64x8xf32>) -> tensor<64x8xf32> {
    return %x : tensor<64x8xf32>
  }
  func.func @two(%x: tensor<64x8xf32>) -> tensor<64x8xf32> {
    return %x : tensor<64x8xf32>
  }
}
