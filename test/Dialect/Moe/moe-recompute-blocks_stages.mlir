// RUN: moe-opt %s --split-input-file --moe-recompute-blocks | FileCheck %s

// A stage ends inside the first block. What it sends is kept: else the next stage would wait for it again in the backward.
// CHECK-LABEL: func.func @stages
func.func @stages(%x: tensor<8x8xf32> {moe.role = "input"}, %a: tensor<8x16xf32> {moe.role = "parameter"},
                  %b: tensor<16x8xf32> {moe.role = "parameter"}, %c: tensor<8x4xf32> {moe.role = "parameter"}) -> tensor<8x4xf32> {
  // CHECK: moe.matmul %arg0, %arg1 {moe.stage = #moe.stage<0>}
  %0 = moe.matmul %x, %a {moe.stage = #moe.stage<0>} : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: moe.matmul %{{.+}}, %arg2 {moe.stage = #moe.stage<1>}
  %1 = moe.matmul %0, %b {moe.stage = #moe.stage<1>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  // CHECK: moe.matmul %{{.+}}, %arg1 {moe.residual = #moe<residual recompute>, moe.stage = #moe.stage<1>}
  %2 = moe.matmul %1, %a {moe.stage = #moe.stage<1>} : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %3 = moe.matmul %2, %b {moe.stage = #moe.stage<1>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %4 = moe.matmul %3, %c {moe.stage = #moe.stage<1>} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %4 : tensor<8x4xf32>
}

// -----

// Here stages are marks of the parts of a sample: all of it is on one device.
// CHECK-LABEL: func.func @parts
func.func @parts(%x: tensor<8x8xf32> {moe.role = "input"}, %a: tensor<8x16xf32> {moe.role = "parameter"},
                 %b: tensor<16x8xf32> {moe.role = "parameter"}, %c: tensor<8x4xf32> {moe.role = "parameter"}) -> tensor<8x4xf32>
    attributes {moe.part_bytes = array<f64: 0.0, 512.0>} {
  // CHECK: moe.matmul %arg0, %arg1 {moe.residual = #moe<residual recompute>, moe.stage = #moe.stage<0>}
  %0 = moe.matmul %x, %a {moe.stage = #moe.stage<0>} : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = moe.matmul %0, %b {moe.stage = #moe.stage<1>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %2 = moe.matmul %1, %a {moe.stage = #moe.stage<1>} : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %3 = moe.matmul %2, %b {moe.stage = #moe.stage<1>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %4 = moe.matmul %3, %c {moe.stage = #moe.stage<1>} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %4 : tensor<8x4xf32>
}
