// RUN: moe-opt %s --canonicalize --cse | FileCheck %s

// Two equal routings are one, since routing is pure.
// CHECK-LABEL: func.func @equal_routes(
// CHECK-SAME:   [[L:%[a-z0-9_]+]]: tensor<16x4xf32>
// CHECK-SAME:   ) -> (tensor<16x2xi32>, tensor<16x2xf32>)
// CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]],
// CHECK-SAME:   [[WEIGHTS:%[a-z0-9_]+]], [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
// CHECK-SAME:   moe.route [[L]] {capacity = 8 : i64}
// CHECK-SAME:   : (tensor<16x4xf32>)
// CHECK-SAME:   -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
// CHECK-NEXT:   return [[SLOTS]], [[WEIGHTS]] : tensor<16x2xi32>, tensor<16x2xf32>
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
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32>,
// CHECK-SAME:   [[S:%[a-z0-9_]+]]: tensor<16x1xi32>
// CHECK-SAME:   ) -> tensor<16x8xf32>
// CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[X]], [[S]]
// CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x1xi32>) -> tensor<4x8x8xf32>
// CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[DISPATCH]], [[S]]
// CHECK-SAME:   : (tensor<4x8x8xf32>, tensor<16x1xi32>) -> tensor<16x8xf32>
// CHECK-NEXT:   return [[COMBINE]] : tensor<16x8xf32>
func.func @combine_of_dispatch(%x: tensor<16x8xf32>, %s: tensor<16x1xi32>) -> tensor<16x8xf32> {
  %0 = moe.dispatch %x, %s : (tensor<16x8xf32>, tensor<16x1xi32>) -> tensor<4x8x8xf32>
  %1 = moe.combine %0, %s : (tensor<4x8x8xf32>, tensor<16x1xi32>) -> tensor<16x8xf32>
  return %1 : tensor<16x8xf32>
}
