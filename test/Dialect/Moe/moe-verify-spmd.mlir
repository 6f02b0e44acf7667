// RUN: moe-opt %s --moe-verify-spmd -split-input-file | FileCheck %s
// RUN: moe-opt %S/moe-partition.mlir --moe-partition --moe-verify-spmd --moe-differentiate --moe-verify-spmd \
// RUN:   --canonicalize --cse --moe-verify-spmd -split-input-file -o /dev/null
// RUN: moe-opt %S/moe-insert-to-varying.mlir --moe-insert-to-varying --moe-verify-spmd -split-input-file -o /dev/null

// Programs whose states fit are left as they are; so are those that moe-partition, moe-differentiate and the canonicaliser make.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>} {
  // Each collective in the states of the table of design section 2.
  // CHECK-LABEL: func.func @table(
  // CHECK-COUNT-10: over <"mp", 2, 1>
  func.func @table(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[dp], []>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}) -> (tensor<4x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %0 = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<2x8xf32>
    %1 = moe.all_gather %0 over <"mp", 2, 1> {dim = 0 : i64} : (tensor<2x8xf32>) -> tensor<4x8xf32>
    %2 = moe.to_varying %1 over <"mp", 2, 1> : tensor<4x8xf32>
    %3 = moe.all_to_all %2 over <"mp", 2, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<2x16xf32>
    %4 = moe.reduce_scatter %3 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<2x16xf32>) -> tensor<2x8xf32>
    %v = moe.to_varying %w over <"dp", 4, 2> : tensor<8x8xf32>
    %l = moe.matmul %4, %v : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
    %5 = moe.reduce %l over <"mp", 2, 1> {root = 0 : i64} : tensor<2x8xf32>
    %6 = moe.broadcast %5 over <"mp", 2, 1> {root = 0 : i64} : tensor<2x8xf32>
    %7 = moe.to_varying %6 over <"mp", 2, 1> : tensor<2x8xf32>
    %8 = moe.assume_replicated %7 over <"mp", 2, 1> : tensor<2x8xf32>
    %9 = moe.to_varying %8 over <"mp", 2, 1> : tensor<2x8xf32>
    %10 = moe.dump %9 : (tensor<2x8xf32>) -> tensor<4x8xf32>
    %11 = moe.all_reduce %l over <"mp", 2, 1> : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %12 = moe.matmul %x, %11 {transpose_b} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
    %13 = moe.matmul %12, %11 : (tensor<4x2xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
    return %13 : tensor<4x8xf32>
  }

  // A group is its ranks, whatever its name, and may be any run of axes.
  // CHECK-LABEL: func.func @other_names(
  func.func @other_names(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[dp], [mp]>}) -> (tensor<8xf32> {moe.layout = #moe.layout<[mp]>}) {
    %p = moe.bias_grad %x : (tensor<4x8xf32>) -> tensor<8xf32>
    %0 = moe.all_reduce %p over <"my ranks", 4, 2> : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }

  // Counts of a ragged sum may be in any state.
  // CHECK-LABEL: func.func @counts(
  func.func @counts(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[], [mp]>}, %w: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}, %c: tensor<1x2xi32> {moe.layout = #moe.layout<[dp], []>}) -> tensor<4x8xf32> {
    %l = moe.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %0 = moe.all_reduce %l counts(%c) over <"mp", 2, 1> : (tensor<4x8xf32>, tensor<1x2xi32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }

  // A group of one rank changes no state.
  // CHECK-LABEL: func.func @single(
  func.func @single(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = moe.to_varying %x over <"one", 1, 1> : tensor<4x8xf32>
    %1 = moe.all_reduce %0 over <"one", 1, 2> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
  // The phases of an exchange vary as it does: what one brings is gathered over mp, and all of them over dp's ranks make a whole.
  // CHECK-LABEL: func.func @phases(
  // CHECK-COUNT-2: moe.all_to_all_phase
  // CHECK: moe.join_phases
  func.func @phases(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[world], []>}) -> (tensor<32x2xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %0 = moe.all_to_all_phase %x over <"world", 8, 1> {split_dim = 1 : i64, concat_dim = 0 : i64, phase = 0 : i64, phases = 4 : i64} : (tensor<4x8xf32>) -> tensor<8x1xf32>
    %1 = moe.all_to_all_phase %x over <"world", 8, 1> {split_dim = 1 : i64, concat_dim = 0 : i64, phase = 1 : i64, phases = 4 : i64} : (tensor<4x8xf32>) -> tensor<8x1xf32>
    %2 = moe.all_gather %0 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<8x1xf32>) -> tensor<8x2xf32>
    %3 = moe.all_gather %1 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<8x1xf32>) -> tensor<8x2xf32>
    %4 = moe.join_phases %2, %3, %2, %3 over <"world", 8, 1> : (tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<32x2xf32>
    return %4 : tensor<32x2xf32>
  }

  // Equal parts are joined in another order on each block of members; with one part there is one order.
  // CHECK-LABEL: func.func @joined_replicas(
  // CHECK-COUNT-2: moe.join_phases
  func.func @joined_replicas(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}, tensor<4x8xf32>) {
    %0 = moe.join_phases %x, %y over <"mp", 2, 1> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %1 = moe.join_phases %x over <"mp", 2, 1> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0, %1 : tensor<8x8xf32>, tensor<4x8xf32>
  }

  // The counts of each member's part of the rows are its own.
  // CHECK-LABEL: func.func @slice_counts(
  // CHECK: moe.slice_counts
  func.func @slice_counts(%c: tensor<1x4xi32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<1x4xi32> {moe.layout = #moe.layout<[world], []>}) {
    %0 = moe.slice_counts %c over <"mp", 2, 1> {rows = 16 : i64} : tensor<1x4xi32>
    return %0 : tensor<1x4xi32>
  }

  // Shadows are the same on all that exchange them, and may be others on others: here they are chosen by each of mp.
  // CHECK-LABEL: func.func @shadows(
  // CHECK: moe.broadcast_experts
  // CHECK: moe.reduce_experts
  func.func @shadows(%w: tensor<2x4xf32> {moe.layout = #moe.layout<[ep_esp], []>}, %c: tensor<4x8xi32> {moe.layout = #moe.layout<[], [mp]>},
                     %x: tensor<8x2xf32> {moe.layout = #moe.layout<[ep], [mp]>}, %g: tensor<8x4xf32> {moe.layout = #moe.layout<[ep], []>})
      -> (tensor<2x4xf32> {moe.layout = #moe.layout<[ep_esp], []>}, tensor<2x4xf32> {moe.layout = #moe.layout<[ep_esp], []>}) {
    %0 = moe.choose_shadows %c {policy = #moe<shadow_policy prefix>, workers = 4 : i64, most = 2 : i64} : (tensor<4x8xi32>) -> tensor<1x8xi32>
    %1 = moe.broadcast_experts %w, %0 over <"ep", 4, 2> : (tensor<2x4xf32>, tensor<1x8xi32>) -> tensor<2x4xf32>
    %v = moe.to_varying %g over <"mp", 2, 1> : tensor<8x4xf32>
    %s = moe.matmul %x, %v {transpose_a} : (tensor<8x2xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
    %2 = moe.reduce_experts %s, %0 addend(%w) over <"ep", 4, 2> : (tensor<2x4xf32>, tensor<1x8xi32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    return %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>
  }

  // The counts of a phase are of other members on each block, even where the members have the same counts.
  // CHECK-LABEL: func.func @phase(
  // CHECK: moe.phase
  func.func @phase(%c: tensor<4x2xi32> {moe.layout = #moe.layout<[ep], []>}) -> (tensor<2x2xi32> {moe.layout = #moe.layout<[ep], []>}) {
    %0 = moe.phase %c over <"ep", 4, 2> {phase = 1 : i64, phases = 2 : i64} : (tensor<4x2xi32>) -> tensor<2x2xi32>
    return %0 : tensor<2x2xi32>
  }

  // Tokens that choose experts of their node are routed apart from those of other nodes. Without a limit, homes have no effect.
  // CHECK-LABEL: func.func @homes(
  // CHECK-COUNT-2: moe.route
  func.func @homes(%l: tensor<4x8xf32> {moe.layout = #moe.layout<[dp], []>}, %r: tensor<4x8xf32>)
      -> (tensor<4x2xi32> {moe.layout = #moe.layout<[dp], []>}, tensor<4x2xi32>) {
    %0:6 = moe.route %l {leave = 1 : i64, homes = 2 : i64, home_stride = 4 : i64} : (tensor<4x8xf32>)
      -> (tensor<4x8xf32>, tensor<4x2xi32>, tensor<4x2xi32>, tensor<4x2xf32>, tensor<1x8xi32>, tensor<f32>)
    %1:6 = moe.route %r {homes = 2 : i64, home_stride = 4 : i64} : (tensor<4x8xf32>)
      -> (tensor<4x8xf32>, tensor<4x2xi32>, tensor<4x2xi32>, tensor<4x2xf32>, tensor<1x8xi32>, tensor<f32>)
    return %0#1, %1#1 : tensor<4x2xi32>, tensor<4x2xi32>
  }

  // Copies and their sums are of the rank alone; an exchange with copies varies as one without.
  // CHECK-LABEL: func.func @copies(
  // CHECK: moe.all_to_all_v
  func.func @copies(%x: tensor<8x8xf32>, %r: tensor<8x8xf32> {moe.layout = #moe.layout<[world], []>}, %b: tensor<1x4xi32> {moe.layout = #moe.layout<[world], []>}, %e: tensor<8x1xi32> {moe.layout = #moe.layout<[world], []>})
      -> (tensor<8x8xf32>, tensor<64x8xf32> {moe.layout = #moe.layout<[world], []>}) {
    %0 = moe.dump %x {blocks = 2 : i64} : (tensor<8x8xf32>) -> tensor<16x8xf32>
    %1 = moe.local_reduce %0 {blocks = 2 : i64} : (tensor<16x8xf32>) -> tensor<8x8xf32>
    %2 = moe.dump %r : (tensor<8x8xf32>) -> tensor<16x8xf32>
    %3 = moe.all_to_all_v %2, %b, %e over <"world", 8, 1> {direction = #moe<direction to_experts>, copies = 2 : i64} : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<8x1xi32>) -> tensor<64x8xf32>
    return %1, %3 : tensor<8x8xf32>, tensor<64x8xf32>
  }

  // Duplicated tokens lie side by side behind the gather (the baseline where mp has esp in it): what a slice has of their
  // gradients are terms, and what a gather has of their shares is no missing sum.
  // CHECK-LABEL: func.func @duplicates(
  // CHECK: moe.all_reduce
  func.func @duplicates(%x: tensor<4x8xf32>, %g: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>) {
    %v = moe.to_varying %x over <"mp", 2, 1> : tensor<4x8xf32>
    %0 = moe.all_gather %v over <"mp", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
    %1 = moe.slice %0 over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    %2 = moe.all_reduce %1 over <"mp", 2, 1> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %h = moe.scale %g {factor = 5.0e-01 : f64} : tensor<4x8xf32>
    %s = moe.to_varying %h over <"mp", 2, 1> {shares} : tensor<4x8xf32>
    %3 = moe.all_gather %s over <"mp", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
    return %2, %3 : tensor<4x8xf32>, tensor<8x8xf32>
  }

  // EP&ESP-AlltoAll: each member's tokens go to all of esp, and what esp's shards of an expert give comes back as terms that are
  // added up in place.
  // CHECK-LABEL: func.func @dumped(
  // CHECK: moe.local_reduce
  func.func @dumped(%x: tensor<4x6x8xf32> {moe.layout = #moe.layout<[], [world], []>}, %w: tensor<1x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
                    %v: tensor<1x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}) -> (tensor<4x48x8xf32>, tensor<4x6x8xf32> {moe.layout = #moe.layout<[], [world], []>}) {
    %0 = moe.dump %x {blocks = 4 : i64} : (tensor<4x6x8xf32>) -> tensor<8x6x8xf32>
    %1 = moe.all_to_all %0 over <"world", 8, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x6x8xf32>) -> tensor<1x48x8xf32>
    %2 = moe.grouped_matmul %1, %w : (tensor<1x48x8xf32>, tensor<1x8x8xf32>) -> tensor<1x48x8xf32>
    %3 = moe.grouped_matmul %2, %v : (tensor<1x48x8xf32>, tensor<1x8x8xf32>) -> tensor<1x48x8xf32>
    %4 = moe.all_to_all %3 over <"world", 8, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<1x48x8xf32>) -> tensor<8x6x8xf32>
    %5 = moe.local_reduce %4 {blocks = 4 : i64} : (tensor<8x6x8xf32>) -> tensor<4x6x8xf32>
    %6 = moe.all_gather %5 over <"world", 8, 1> {dim = 1 : i64} : (tensor<4x6x8xf32>) -> tensor<4x48x8xf32>
    return %6, %5 : tensor<4x48x8xf32>, tensor<4x6x8xf32>
  }

  // A dump for the members of esp, sent between the halves of the world, gives nobody copies of what another one gets.
  // CHECK-LABEL: func.func @dumped_for_others(
  // CHECK: moe.all_reduce
  func.func @dumped_for_others(%x: tensor<4x6x8xf32> {moe.layout = #moe.layout<[], [world], []>}) -> tensor<4x8xf32> {
    %0 = moe.dump %x {blocks = 4 : i64} : (tensor<4x6x8xf32>) -> tensor<8x6x8xf32>
    %1 = moe.all_to_all %0 over <"halves", 2, 4> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x6x8xf32>) -> tensor<4x12x8xf32>
    %2 = moe.bias_grad %1 : (tensor<4x12x8xf32>) -> tensor<4x8xf32>
    %3 = moe.all_reduce %2 over <"world", 8, 1> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %3 : tensor<4x8xf32>
  }

  // Members of esp have the same experts, and so the same choices; of ep, others.
  // CHECK-LABEL: func.func @local_slots(
  // CHECK: moe.local_slots
  func.func @local_slots(%x: tensor<4x8xf32>, %s: tensor<4x2xi32>, %c: tensor<1x4xi32>, %w: tensor<1x8x8xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
                         %v: tensor<1x8x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}) -> tensor<4x8xf32> {
    %0, %1 = moe.local_slots %s, %c over <"world", 8, 1> {capacity = 8 : i64, copies = 2 : i64} : (tensor<4x2xi32>, tensor<1x4xi32>) -> (tensor<4x2xi32>, tensor<1x1xi32>)
    %2 = moe.to_varying %x over <"world", 8, 1> : tensor<4x8xf32>
    %3 = moe.dispatch %2, %0 : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<1x8x8xf32>
    %4 = moe.grouped_matmul %3, %w : (tensor<1x8x8xf32>, tensor<1x8x8xf32>) -> tensor<1x8x8xf32>
    %5 = moe.grouped_matmul %4, %v : (tensor<1x8x8xf32>, tensor<1x8x8xf32>) -> tensor<1x8x8xf32>
    %6 = moe.combine %5, %0 : (tensor<1x8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
    %7 = moe.all_reduce %6 over <"world", 8, 1> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %7 : tensor<4x8xf32>
  }
}

// -----

// Two nodes of four ranks: groups that end at a node divide dp and ep, though #moe.parallel does not.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 8, esp = 1>} {
  // The exchange inside the node, of what goes to each rank of any node, and then between the nodes.
  // CHECK-LABEL: func.func @exchange(
  // CHECK: over <"node", 4, 1>
  // CHECK: over <"nodes", 2, 4>
  func.func @exchange(%x: tensor<2x4x3x8xf32> {moe.layout = #moe.layout<[], [], [ep], []>}) -> (tensor<1x1x24x8xf32> {moe.layout = #moe.layout<[ep], [], [], []>}) {
    %0 = moe.all_to_all %x over <"node", 4, 1> {split_dim = 1 : i64, concat_dim = 2 : i64} : (tensor<2x4x3x8xf32>) -> tensor<2x1x12x8xf32>
    %1 = moe.all_to_all %0 over <"nodes", 2, 4> {split_dim = 0 : i64, concat_dim = 2 : i64} : (tensor<2x1x12x8xf32>) -> tensor<1x1x24x8xf32>
    return %1 : tensor<1x1x24x8xf32>
  }

  // The sum of all ranks: parts of it inside the node, each of them between the nodes, and all parts inside the node.
  // CHECK-LABEL: func.func @sum(
  // CHECK: moe.reduce_scatter
  // CHECK: moe.all_reduce
  // CHECK: moe.all_gather
  func.func @sum(%x: tensor<3x8xf32> {moe.layout = #moe.layout<[dp], []>}) -> tensor<8xf32> {
    %0 = moe.bias_grad %x : (tensor<3x8xf32>) -> tensor<8xf32>
    %1 = moe.reduce_scatter %0 over <"node", 4, 1> {dim = 0 : i64} : (tensor<8xf32>) -> tensor<2xf32>
    %2 = moe.all_reduce %1 over <"nodes", 2, 4> : (tensor<2xf32>) -> tensor<2xf32>
    %3 = moe.all_gather %2 over <"node", 4, 1> {dim = 0 : i64} : (tensor<2xf32>) -> tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}
