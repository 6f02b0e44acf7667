// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 8, flops = 1.0e9, memory_bytes = 1.0e12, outside_bytes = 2.5e8, inside_bytes = 1.0e15>'},func.func(moe-cut-stages{stages=2}))" | FileCheck %s

// Each product takes 1 us, and so does what a stage is sent. Inside a node exchanges take nothing.
// CHECK-LABEL: func.func @inside
func.func @inside(%x: tensor<8x8xf32> {moe.role = "input"}, %a: tensor<8x8xf32> {moe.role = "parameter"}) -> tensor<8x8xf32> {
  %0 = moe.matmul %x, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = moe.all_reduce %0 over <"mp", 2, 4> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = moe.all_reduce %1 over <"mp", 2, 4> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = moe.matmul %2, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: moe.all_reduce
  // CHECK: moe.all_reduce
  // CHECK: moe.matmul {{.*}}#moe.stage<0>
  // CHECK: moe.matmul {{.*}}#moe.stage<0>
  // CHECK: moe.matmul {{.*}}#moe.stage<1>
  %4 = moe.matmul %3, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = moe.matmul %4, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %6 = moe.matmul %5, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %6 : tensor<8x8xf32>
}

// Between nodes they take 1 us each.
// CHECK-LABEL: func.func @between
func.func @between(%x: tensor<8x8xf32> {moe.role = "input"}, %a: tensor<8x8xf32> {moe.role = "parameter"}) -> tensor<8x8xf32> {
  %0 = moe.matmul %x, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = moe.all_reduce %0 over <"mp", 2, 8> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = moe.all_reduce %1 over <"mp", 2, 8> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = moe.matmul %2, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: moe.all_reduce
  // CHECK: moe.all_reduce
  // CHECK: moe.matmul {{.*}}#moe.stage<0>
  // CHECK: moe.matmul {{.*}}#moe.stage<1>
  %4 = moe.matmul %3, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = moe.matmul %4, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %6 = moe.matmul %5, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %6 : tensor<8x8xf32>
}

// The 16 rows of both experts take 2 us, though the ragged product has room for 128, which would take 16 us.
// CHECK-LABEL: func.func @ragged
func.func @ragged(%x: tensor<8x8xf32> {moe.role = "input"}, %rows: tensor<128x8xf32> {moe.role = "input"}, %a: tensor<8x8xf32> {moe.role = "parameter"},
                  %gate: tensor<8x2xf32> {moe.role = "parameter"}, %w: tensor<2x8x8xf32> {moe.role = "parameter"}) -> tensor<8x8xf32> {
  // CHECK: moe.matmul {{.*}}#moe.stage<0>
  %0 = moe.matmul %x, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %l = moe.matmul %0, %gate : (tensor<8x8xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  %scores, %experts, %slots, %weights, %counts, %aux = moe.route %l
    : (tensor<8x2xf32>) -> (tensor<8x2xf32>, tensor<8x2xi32>, tensor<8x2xi32>, tensor<8x2xf32>, tensor<1x2xi32>, tensor<f32>)
  // CHECK: moe.grouped_matmul {{.*}}#moe.stage<0>
  // CHECK: moe.matmul {{.*}}#moe.stage<0>
  // CHECK: moe.matmul {{.*}}#moe.stage<1>
  %r = moe.grouped_matmul %rows, %w counts(%counts) : (tensor<128x8xf32>, tensor<2x8x8xf32>, tensor<1x2xi32>) -> tensor<128x8xf32>
  %1 = moe.matmul %0, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = moe.matmul %1, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = moe.matmul %2, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = moe.matmul %3, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}
