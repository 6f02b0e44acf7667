// RUN: moe-opt %s --canonicalize --cse | FileCheck %s

// Two equal routings are one, since routing is pure.
// CHECK-LABEL: func.func @equal_routes(
// CHECK-NEXT: %[[SLOTS:slots[0-9_]*]], %[[WEIGHTS:weights[0-9_]*]], {{.*}} = moe.route %arg0 {capacity = 8 : i64}
// CHECK-NEXT: return %[[SLOTS]], %[[WEIGHTS]] :
func.func @equal_routes(%l: tensor<16x4xf32>) -> (tensor<16x2xi32>, tensor<16x2xf32>) {
  %a:6 = moe.route %l {capacity = 8 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  %b:6 = moe.route %l {capacity = 8 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return %a#2, %b#3 : tensor<16x2xi32>, tensor<16x2xf32>
}

// Dispatch and combine undo each other only where no token is dropped and every weight is one, so neither folds.
// CHECK-LABEL: func.func @combine_of_dispatch(
// CHECK-NEXT: %[[DISPATCH:.+]] = moe.dispatch %arg0, %arg1 :
// CHECK-NEXT: moe.combine %[[DISPATCH]], %arg1 :
func.func @combine_of_dispatch(%x: tensor<16x8xf32>, %s: tensor<16x1xi32>) -> tensor<16x8xf32> {
  %0 = moe.dispatch %x, %s : (tensor<16x8xf32>, tensor<16x1xi32>) -> tensor<4x8x8xf32>
  %1 = moe.combine %0, %s : (tensor<4x8x8xf32>, tensor<16x1xi32>) -> tensor<16x8xf32>
  return %1 : tensor<16x8xf32>
}
