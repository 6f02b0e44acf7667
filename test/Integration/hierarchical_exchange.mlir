// RUN: moe-opt %s --moe-verify-spmd --moe-differentiate --moe-verify-spmd | FileCheck %s
// RUN: moe-opt %s --moe-set-cluster="rates='#moe.cluster<node_ranks = 4>'" --moe-differentiate --convert-moe-to-plan \
// RUN:   --plan-assign-streams --plan-assign-memory --plan-verify -o %t.plan.mlir
// RUN: FileCheck %s --check-prefix=PLAN < %t.plan.mlir
// RUN: moe-opt %t.plan.mlir --convert-plan-to-llvm | mlir-translate --allow-unregistered-dialect --mlir-to-llvmir \
// RUN:   | llc --relocation-model=pic --filetype=obj -o %t.o
// RUN: ld -shared -o %t.so %t.o
// RUN: moe-run %t.so --verify | FileCheck %s --check-prefix=RESULT

// An exchange over ep in two steps, between two nodes and inside each of four ranks, and its return, in a forward program
// written by hand. #moe.parallel does not know its groups. The reference has no ranks: expert e takes the rows of all ranks
// for it, and each rank gets its rows back.

// CHECK-LABEL: func.func @rank(
// CHECK: moe.all_to_all {{.*}} over <"nodes", 2, 4> {concat_dim = 1 : i64, split_dim = 0 : i64}
// CHECK: moe.all_to_all {{.*}} over <"node", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64}
// CHECK: moe.grouped_matmul
// CHECK: moe.all_to_all {{.*}} over <"node", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
// CHECK: moe.all_to_all {{.*}} over <"nodes", 2, 4> {concat_dim = 0 : i64, split_dim = 1 : i64}
// The derivative uses the same exchanges.
// CHECK: moe.all_to_all {{.*}} over <"nodes", 2, 4> {concat_dim = 1 : i64, split_dim = 0 : i64}
// CHECK: moe.all_to_all {{.*}} over <"node", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64}
// CHECK: moe.grouped_matmul_wgrad
// CHECK: moe.all_to_all {{.*}} over <"node", 4, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
// CHECK: moe.all_to_all {{.*}} over <"nodes", 2, 4> {concat_dim = 0 : i64, split_dim = 1 : i64}
// CHECK: return

// PLAN-LABEL: func.func @rank(
// PLAN: plan.launch "all_to_all"{{.*}} over <"nodes", 2, 4> on "comm.inter"
// PLAN: plan.launch "all_to_all"{{.*}} over <"node", 4, 1> on "comm.intra"

// RESULT: grad.w {{.*}} ok
// RESULT: grad.x {{.*}} ok
// RESULT: y {{.*}} ok
// RESULT: verification ok

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 8, mp = 1, ep = 8, esp = 1>, plan.mode = "train", plan.schedule = "hierarchical"} {
  func.func @rank(%x: tensor<8x3x4xf32> {moe.layout = #moe.layout<[], [ep], []>, moe.name = "x", moe.role = "input"},
                  %w: tensor<1x4x4xf32> {moe.layout = #moe.layout<[ep], [], []>, moe.name = "w", moe.role = "parameter"})
      -> (tensor<8x3x4xf32> {moe.layout = #moe.layout<[], [ep], []>, moe.name = "y", moe.role = "output"}) {
    %a = moe.all_to_all %x over <"nodes", 2, 4> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x3x4xf32>) -> tensor<4x6x4xf32>
    %0 = moe.all_to_all %a over <"node", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x6x4xf32>) -> tensor<1x24x4xf32>
    %1 = moe.grouped_matmul %0, %w : (tensor<1x24x4xf32>, tensor<1x4x4xf32>) -> tensor<1x24x4xf32>
    %b = moe.all_to_all %1 over <"node", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<1x24x4xf32>) -> tensor<4x6x4xf32>
    %2 = moe.all_to_all %b over <"nodes", 2, 4> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<4x6x4xf32>) -> tensor<8x3x4xf32>
    return %2 : tensor<8x3x4xf32>
  }
  func.func @reference(%x: tensor<8x24x4xf32> {moe.layout = #moe.layout<[], [ep], []>, moe.name = "x", moe.role = "input"},
                  %w: tensor<8x4x4xf32> {moe.layout = #moe.layout<[ep], [], []>, moe.name = "w", moe.role = "parameter"})
      -> (tensor<8x24x4xf32> {moe.layout = #moe.layout<[], [ep], []>, moe.name = "y", moe.role = "output"})
      attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
    %1 = moe.grouped_matmul %x, %w : (tensor<8x24x4xf32>, tensor<8x4x4xf32>) -> tensor<8x24x4xf32>
    return %1 : tensor<8x24x4xf32>
  }
}
