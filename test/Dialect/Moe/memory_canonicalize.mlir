// RUN: moe-opt %s --canonicalize | FileCheck %s

// One part is the whole.
// CHECK-LABEL: func.func @one_part(
// CHECK-NEXT: return %arg0, %arg0 :
func.func @one_part(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = moe.split %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = moe.concat %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// Parts side by side again are the whole.
// CHECK-LABEL: func.func @concat_of_split(
// CHECK-NEXT: return %arg0 :
func.func @concat_of_split(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0:2 = moe.split %x : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %1 = moe.concat %0#0, %0#1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// In another order, or not all of them, they are not.
// CHECK-LABEL: func.func @other_order(
// CHECK-NEXT: %[[SPLIT:.+]]:2 = moe.split %arg0 :
// CHECK-NEXT: %[[CONCAT:.+]] = moe.concat %[[SPLIT]]#1, %[[SPLIT]]#0 :
// CHECK-NEXT: %[[CONCAT2:.+]] = moe.concat %[[SPLIT]]#0, %[[SPLIT]]#0 :
// CHECK-NEXT: return %[[CONCAT]], %[[CONCAT2]] :
func.func @other_order(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0:2 = moe.split %x : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %1 = moe.concat %0#1, %0#0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %2 = moe.concat %0#0, %0#0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %1, %2 : tensor<8x4xf32>, tensor<8x4xf32>
}

// Nor are parts of two values.
// CHECK-LABEL: func.func @two_values(
// CHECK-NEXT: %[[SPLIT:.+]]:2 = moe.split %arg0 :
// CHECK-NEXT: %[[SPLIT2:.+]]:2 = moe.split %arg1 :
// CHECK-NEXT: moe.concat %[[SPLIT]]#0, %[[SPLIT2]]#1 :
func.func @two_values(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0:2 = moe.split %x : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %1:2 = moe.split %y : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %2 = moe.concat %0#0, %1#1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// The parts of a concatenation exist already.
// CHECK-LABEL: func.func @split_of_concat(
// CHECK-NEXT: return %arg1, %arg0 :
func.func @split_of_concat(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = moe.concat %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1:2 = moe.split %0 : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  return %1#1, %1#0 : tensor<4x4xf32>, tensor<4x4xf32>
}

// Other parts are not.
// CHECK-LABEL: func.func @split_of_other(
// CHECK-NEXT: %[[CONCAT:.+]] = moe.concat %arg0, %arg1 :
// CHECK-NEXT: %[[SPLIT:.+]]:4 = moe.split %[[CONCAT]] :
// CHECK-NEXT: return %[[SPLIT]]#1 :
func.func @split_of_other(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = moe.concat %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1:4 = moe.split %0 : (tensor<8x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return %1#1 : tensor<2x4xf32>
}

// A sum of products is added up by the products: each adds the one before.
// CHECK-LABEL: func.func @chain(
// CHECK-NEXT: %[[GROUPED_MATMUL_WGRAD:.+]] = moe.grouped_matmul_wgrad %arg0, %arg1 :
// CHECK-NEXT: %[[GROUPED_MATMUL_WGRAD2:.+]] = moe.grouped_matmul_wgrad %arg2, %arg1 addend(%[[GROUPED_MATMUL_WGRAD]]) :
// CHECK-NEXT: moe.grouped_matmul_wgrad %arg0, %arg1 addend(%[[GROUPED_MATMUL_WGRAD2]]) :
func.func @chain(%r: tensor<2x4x8xf32>, %g: tensor<2x4x16xf32>, %s: tensor<2x4x8xf32>) -> tensor<2x8x16xf32> {
  %0 = moe.grouped_matmul_wgrad %r, %g : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
  %1 = moe.grouped_matmul_wgrad %s, %g : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
  %2 = moe.add %0, %1 : tensor<2x8x16xf32>
  %3 = moe.grouped_matmul_wgrad %r, %g : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
  %4 = moe.add %2, %3 : tensor<2x8x16xf32>
  return %4 : tensor<2x8x16xf32>
}

// Whichever operand comes first; of two gradients of biases the later one adds.
// CHECK-LABEL: func.func @swapped(
// CHECK-NEXT: %[[BIAS_GRAD:.+]] = moe.bias_grad %arg0 :
// CHECK-NEXT: moe.bias_grad %arg1 addend(%[[BIAS_GRAD]]) :
func.func @swapped(%g: tensor<2x4x16xf32>, %h: tensor<2x4x16xf32>) -> tensor<2x16xf32> {
  %0 = moe.bias_grad %g : (tensor<2x4x16xf32>) -> tensor<2x16xf32>
  %1 = moe.bias_grad %h : (tensor<2x4x16xf32>) -> tensor<2x16xf32>
  %2 = moe.add %1, %0 : tensor<2x16xf32>
  return %2 : tensor<2x16xf32>
}

// An argument can be added too.
// CHECK-LABEL: func.func @argument(
// CHECK-NEXT: moe.bias_grad %arg0 addend(%arg1) :
func.func @argument(%g: tensor<2x4x16xf32>, %b: tensor<2x16xf32>) -> tensor<2x16xf32> {
  %0 = moe.bias_grad %g : (tensor<2x4x16xf32>) -> tensor<2x16xf32>
  %1 = moe.add %0, %b : tensor<2x16xf32>
  return %1 : tensor<2x16xf32>
}

// Not where the product is needed by itself, twice in one sum, or has an addend, and nothing that comes later.
// CHECK-LABEL: func.func @kept_sums(
// CHECK-NEXT: %[[GROUPED_MATMUL_WGRAD:.+]] = moe.grouped_matmul_wgrad %arg0, %arg1 :
// CHECK-NEXT: %[[ADD:.+]] = moe.add %arg2, %[[GROUPED_MATMUL_WGRAD]] :
// CHECK-NEXT: %[[ADD2:.+]] = moe.add %[[GROUPED_MATMUL_WGRAD]], %[[GROUPED_MATMUL_WGRAD]] :
// CHECK-NEXT: %[[GROUPED_MATMUL_WGRAD2:.+]] = moe.grouped_matmul_wgrad %arg0, %arg1 addend(%arg2) :
// CHECK-NEXT: %[[SCALE:.+]] = moe.scale %arg2 {factor = 2.000000e+00 : f64}
// CHECK-NEXT: %[[ADD3:.+]] = moe.add %[[GROUPED_MATMUL_WGRAD2]], %[[SCALE]] :
// CHECK-NEXT: %[[GROUPED_MATMUL_WGRAD3:.+]] = moe.grouped_matmul_wgrad %arg0, %arg1 :
// CHECK-NEXT: %[[SCALE2:.+]] = moe.scale %arg2 {factor = 3.000000e+00 : f64}
// CHECK-NEXT: %[[ADD4:.+]] = moe.add %[[GROUPED_MATMUL_WGRAD3]], %[[SCALE2]] :
// CHECK-NEXT: return %[[ADD]], %[[ADD2]], %[[ADD3]], %[[ADD4]] :
func.func @kept_sums(%r: tensor<2x4x8xf32>, %g: tensor<2x4x16xf32>, %w: tensor<2x8x16xf32>)
    -> (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>) {
  %0 = moe.grouped_matmul_wgrad %r, %g : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
  %1 = moe.add %w, %0 : tensor<2x8x16xf32>
  %2 = moe.add %0, %0 : tensor<2x8x16xf32>
  %3 = moe.grouped_matmul_wgrad %r, %g addend(%w) : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %4 = moe.scale %w {factor = 2.000000e+00 : f64} : tensor<2x8x16xf32>
  %5 = moe.add %3, %4 : tensor<2x8x16xf32>
  %6 = moe.grouped_matmul_wgrad %r, %g : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
  %7 = moe.scale %w {factor = 3.000000e+00 : f64} : tensor<2x8x16xf32>
  %8 = moe.add %6, %7 : tensor<2x8x16xf32>
  return %1, %2, %5, %8 : tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>
}
