// RUN: moe-opt %s --moe-insert-to-varying -split-input-file | FileCheck %s
// RUN: moe-opt %s --moe-insert-to-varying --moe-verify-spmd --moe-insert-to-varying -split-input-file | FileCheck %s

// dp = 2 with stride 4, mp = 4; ep = 4 with stride 2, esp = 2: the axes of ranks are esp, the rest of mp, and dp.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 2, mp = 4, ep = 4, esp = 2>} {
  // A replicated operand beside a varying one is cast, over the group that has a name.
  // CHECK-LABEL: func.func @mixed(
  // CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %arg1 over <"dp", 2, 4> :
  // CHECK-NEXT: %[[MATMUL:.+]] = moe.matmul %arg0, %[[TO_VARYING]] :
  // CHECK-NEXT: return %[[MATMUL]] :
  func.func @mixed(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[dp], []>}, %w: tensor<8x8xf32>)
      -> (tensor<4x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %0 = moe.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }

  // One cast serves all users.
  // CHECK-LABEL: func.func @shared_cast(
  // CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %arg1 over <"dp", 2, 4> :
  // CHECK-NEXT: %[[MATMUL:.+]] = moe.matmul %arg0, %[[TO_VARYING]] :
  // CHECK-NEXT: %[[MATMUL2:.+]] = moe.matmul %[[MATMUL]], %[[TO_VARYING]] :
  // CHECK-NEXT: return %[[MATMUL2]] :
  func.func @shared_cast(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}, %w: tensor<8x8xf32>)
      -> (tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %0 = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = moe.matmul %0, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }

  // Users that want other states get casts of their own.
  // CHECK-LABEL: func.func @two_states(
  // CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %arg2 over <"mp", 4, 1> :
  // CHECK-NEXT: %[[TO_VARYING2:.+]] = moe.to_varying %arg2 over <"dp", 2, 4> :
  // CHECK-NEXT: %[[ADD:.+]] = moe.add %arg0, %[[TO_VARYING2]] :
  // CHECK-NEXT: %[[ADD2:.+]] = moe.add %arg1, %[[TO_VARYING]] :
  // CHECK-NEXT: return %[[ADD]], %[[ADD2]] :
  func.func @two_states(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}, %s: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>},
                        %w: tensor<8x8xf32>)
      -> (tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) {
    %0 = moe.add %x, %w : tensor<8x8xf32>
    %1 = moe.add %s, %w : tensor<8x8xf32>
    return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
  }

  // Axes that are no neighbours are two groups.
  // CHECK-LABEL: func.func @two_groups(
  // CHECK-NEXT: %[[MATMUL:.+]] = moe.matmul %arg1, %arg1 {transpose_a}
  // CHECK-NEXT: %[[ALL_REDUCE:.+]] = moe.all_reduce %[[MATMUL]] over <"esp", 2, 1> :
  // CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %[[ALL_REDUCE]] over <"esp", 2, 1> :
  // CHECK-NEXT: %[[TO_VARYING2:.+]] = moe.to_varying %[[TO_VARYING]] over <"dp", 2, 4> :
  // CHECK-NEXT: %[[ADD:.+]] = moe.add %arg0, %[[TO_VARYING2]] :
  // CHECK-NEXT: return %[[ADD]] :
  func.func @two_groups(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[world], []>}, %v: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>})
      -> (tensor<8x8xf32> {moe.layout = #moe.layout<[world], []>}) {
    %p = moe.matmul %v, %v {transpose_a} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %0 = moe.all_reduce %p over <"esp", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = moe.add %x, %0 : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }

  // A group without a name is called by its stride.
  // CHECK-LABEL: func.func @unnamed_group(
  // CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %arg1 over <"stride2", 2, 2> :
  // CHECK-NEXT: %[[ADD:.+]] = moe.add %arg0, %[[TO_VARYING]] :
  // CHECK-NEXT: return %[[ADD]] :
  func.func @unnamed_group(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}, %v: tensor<8x8xf32> {moe.layout = #moe.layout<[esp], []>})
      -> (tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) {
    %0 = moe.add %x, %v : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }

  // A collective wants its operand to vary over its group.
  // CHECK-LABEL: func.func @collective(
  // CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %arg0 over <"mp", 4, 1> :
  // CHECK-NEXT: %[[BROADCAST:.+]] = moe.broadcast %[[TO_VARYING]] over <"mp", 4, 1> {root = 0 : i64}
  // CHECK-NEXT: return %[[BROADCAST]] :
  func.func @collective(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = moe.broadcast %x over <"mp", 4, 1> {root = 0 : i64} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }

  // The counts of a ragged sum may be in any state.
  // CHECK-LABEL: func.func @ragged_sum(
  // CHECK-NEXT: %[[MATMUL:.+]] = moe.matmul %arg0, %arg1
  // CHECK-NEXT: %[[ALL_REDUCE:.+]] = moe.all_reduce %[[MATMUL]] counts(%arg2) over <"mp", 4, 1> :
  // CHECK-NEXT: return %[[ALL_REDUCE]] :
  func.func @ragged_sum(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>},
                        %c: tensor<1x2xi32>) -> tensor<8x8xf32> {
    %p = moe.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %0 = moe.all_reduce %p counts(%c) over <"mp", 4, 1> : (tensor<8x8xf32>, tensor<1x2xi32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }

  // A result is cast to its layout.
  // CHECK-LABEL: func.func @result(
  // CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %arg0 over <"mp", 4, 1> :
  // CHECK-NEXT: return %[[TO_VARYING]] :
  func.func @result(%x: tensor<8x8xf32>) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) {
    return %x : tensor<8x8xf32>
  }

  // Integers are cast too.
  // CHECK-LABEL: func.func @slots(
  // CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %arg1 over <"dp", 2, 4> :
  // CHECK-NEXT: %[[DISPATCH:.+]] = moe.dispatch %arg0, %[[TO_VARYING]] :
  // CHECK-NEXT: return %[[DISPATCH]] :
  func.func @slots(%x: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}, %s: tensor<8x1xi32>)
      -> (tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %0 = moe.dispatch %x, %s : (tensor<8x8xf32>, tensor<8x1xi32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// The axes are those of the groups in use: here four ranks of dp's eight are a node.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 8, esp = 1>} {
  // CHECK-LABEL: func.func @between_nodes(
  // CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %arg1 over <"stride1", 4, 1> :
  // CHECK-NEXT: %[[GATHER:.+]] = moe.all_gather %arg0 over <"nodes", 2, 4>
  // CHECK-NEXT: %[[ADD:.+]] = moe.add %[[GATHER]], %[[TO_VARYING]]
  // CHECK-NEXT: %[[CAST:.+]] = moe.to_varying %[[ADD]] over <"nodes", 2, 4>
  // CHECK-NEXT: return %[[CAST]]
  func.func @between_nodes(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[dp], []>}, %w: tensor<8x8xf32>)
      -> (tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %0 = moe.all_gather %x over <"nodes", 2, 4> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
    %1 = moe.add %0, %w : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}
