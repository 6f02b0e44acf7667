// RUN: moe-opt %s --canonicalize | FileCheck %s

// One part is the whole.
// CHECK-LABEL: func.func @one_part(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
// CHECK-NEXT:   return [[ARG0]], [[ARG0]] : tensor<8x4xf32>, tensor<8x4xf32>
func.func @one_part(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = moe.split %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = moe.concat %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// Parts side by side again are the whole.
// CHECK-LABEL: func.func @concat_of_split(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<8x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:   return [[ARG0]] : tensor<8x4xf32>
func.func @concat_of_split(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0:2 = moe.split %x : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %1 = moe.concat %0#0, %0#1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// In another order, or not all of them, they are not.
// CHECK-LABEL: func.func @other_order(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
// CHECK-NEXT:   [[SPLIT:%[a-z0-9_]+]]:2 = moe.split [[ARG0]] : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK-NEXT:   [[CONCAT:%[a-z0-9_]+]] = moe.concat [[SPLIT]]#1, [[SPLIT]]#0 : (tensor<4x4xf32>, tensor<4x4xf32>) ->
// CHECK-SAME:     tensor<8x4xf32>
// CHECK-NEXT:   [[CONCAT2:%[a-z0-9_]+]] = moe.concat [[SPLIT]]#0, [[SPLIT]]#0 : (tensor<4x4xf32>, tensor<4x4xf32>) ->
// CHECK-SAME:     tensor<8x4xf32>
// CHECK-NEXT:   return [[CONCAT]], [[CONCAT2]] : tensor<8x4xf32>, tensor<8x4xf32>
func.func @other_order(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0:2 = moe.split %x : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %1 = moe.concat %0#1, %0#0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %2 = moe.concat %0#0, %0#0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %1, %2 : tensor<8x4xf32>, tensor<8x4xf32>
}

// Nor are parts of two values.
// CHECK-LABEL: func.func @two_values(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<8x4xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<8x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:   [[SPLIT:%[a-z0-9_]+]]:2 = moe.split [[ARG0]] : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK-NEXT:   [[SPLIT2:%[a-z0-9_]+]]:2 = moe.split [[ARG1]] : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK-NEXT:   [[CONCAT:%[a-z0-9_]+]] = moe.concat [[SPLIT]]#0, [[SPLIT2]]#1 : (tensor<4x4xf32>, tensor<4x4xf32>) ->
// CHECK-SAME:     tensor<8x4xf32>
// CHECK-NEXT:   return [[CONCAT]] : tensor<8x4xf32>
func.func @two_values(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0:2 = moe.split %x : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %1:2 = moe.split %y : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %2 = moe.concat %0#0, %1#1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// The parts of a concatenation exist already.
// CHECK-LABEL: func.func @split_of_concat(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<4x4xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<4x4xf32>) -> (tensor<4x4xf32>,
// CHECK-SAME:   tensor<4x4xf32>)
// CHECK-NEXT:   return [[ARG1]], [[ARG0]] : tensor<4x4xf32>, tensor<4x4xf32>
func.func @split_of_concat(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = moe.concat %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1:2 = moe.split %0 : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  return %1#1, %1#0 : tensor<4x4xf32>, tensor<4x4xf32>
}

// Other parts are not.
// CHECK-LABEL: func.func @split_of_other(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<4x4xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<4x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:   [[CONCAT:%[a-z0-9_]+]] = moe.concat [[ARG0]], [[ARG1]] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:   [[SPLIT:%[a-z0-9_]+]]:4 = moe.split [[CONCAT]] : (tensor<8x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>,
// CHECK-SAME:     tensor<2x4xf32>, tensor<2x4xf32>)
// CHECK-NEXT:   return [[SPLIT]]#1 : tensor<2x4xf32>
func.func @split_of_other(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = moe.concat %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1:4 = moe.split %0 : (tensor<8x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return %1#1 : tensor<2x4xf32>
}

// A sum of products is added up by the products: each adds the one before.
// CHECK-LABEL: func.func @chain(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<2x4x8xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<2x4x16xf32>, [[ARG2:%[a-z0-9_]+]]:
// CHECK-SAME:   tensor<2x4x8xf32>) -> tensor<2x8x16xf32>
// CHECK-NEXT:   [[GROUPED_MATMUL_WGRAD:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad [[ARG0]], [[ARG1]] : (tensor<2x4x8xf32>,
// CHECK-SAME:     tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
// CHECK-NEXT:   [[GROUPED_MATMUL_WGRAD2:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad [[ARG2]], [[ARG1]]
// CHECK-SAME:     addend([[GROUPED_MATMUL_WGRAD]]) : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) ->
// CHECK-SAME:     tensor<2x8x16xf32>
// CHECK-NEXT:   [[GROUPED_MATMUL_WGRAD3:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad [[ARG0]], [[ARG1]]
// CHECK-SAME:     addend([[GROUPED_MATMUL_WGRAD2]]) : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) ->
// CHECK-SAME:     tensor<2x8x16xf32>
// CHECK-NEXT:   return [[GROUPED_MATMUL_WGRAD3]] : tensor<2x8x16xf32>
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
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<2x4x16xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<2x4x16xf32>) -> tensor<2x16xf32>
// CHECK-NEXT:   [[BIAS_GRAD:%[a-z0-9_]+]] = moe.bias_grad [[ARG0]] : (tensor<2x4x16xf32>) -> tensor<2x16xf32>
// CHECK-NEXT:   [[BIAS_GRAD2:%[a-z0-9_]+]] = moe.bias_grad [[ARG1]] addend([[BIAS_GRAD]]) : (tensor<2x4x16xf32>,
// CHECK-SAME:     tensor<2x16xf32>) -> tensor<2x16xf32>
// CHECK-NEXT:   return [[BIAS_GRAD2]] : tensor<2x16xf32>
func.func @swapped(%g: tensor<2x4x16xf32>, %h: tensor<2x4x16xf32>) -> tensor<2x16xf32> {
  %0 = moe.bias_grad %g : (tensor<2x4x16xf32>) -> tensor<2x16xf32>
  %1 = moe.bias_grad %h : (tensor<2x4x16xf32>) -> tensor<2x16xf32>
  %2 = moe.add %1, %0 : tensor<2x16xf32>
  return %2 : tensor<2x16xf32>
}

// An argument can be added too.
// CHECK-LABEL: func.func @argument(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<2x4x16xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<2x16xf32>) -> tensor<2x16xf32>
// CHECK-NEXT:   [[BIAS_GRAD:%[a-z0-9_]+]] = moe.bias_grad [[ARG0]] addend([[ARG1]]) : (tensor<2x4x16xf32>, tensor<2x16xf32>) ->
// CHECK-SAME:     tensor<2x16xf32>
// CHECK-NEXT:   return [[BIAS_GRAD]] : tensor<2x16xf32>
func.func @argument(%g: tensor<2x4x16xf32>, %b: tensor<2x16xf32>) -> tensor<2x16xf32> {
  %0 = moe.bias_grad %g : (tensor<2x4x16xf32>) -> tensor<2x16xf32>
  %1 = moe.add %0, %b : tensor<2x16xf32>
  return %1 : tensor<2x16xf32>
}

// Not where the product is needed by itself, twice in one sum, or has an addend, and nothing that comes later.
// CHECK-LABEL: func.func @kept_sums(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<2x4x8xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<2x4x16xf32>, [[ARG2:%[a-z0-9_]+]]:
// CHECK-SAME:   tensor<2x8x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>)
// CHECK-NEXT:   [[GROUPED_MATMUL_WGRAD:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad [[ARG0]], [[ARG1]] : (tensor<2x4x8xf32>,
// CHECK-SAME:     tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
// CHECK-NEXT:   [[ADD:%[a-z0-9_]+]] = moe.add [[ARG2]], [[GROUPED_MATMUL_WGRAD]] : tensor<2x8x16xf32>
// CHECK-NEXT:   [[ADD2:%[a-z0-9_]+]] = moe.add [[GROUPED_MATMUL_WGRAD]], [[GROUPED_MATMUL_WGRAD]] : tensor<2x8x16xf32>
// CHECK-NEXT:   [[GROUPED_MATMUL_WGRAD2:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad [[ARG0]], [[ARG1]] addend([[ARG2]]) :
// CHECK-SAME:     (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
// CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[ARG2]] {factor = 2.000000e+00 : f64} : tensor<2x8x16xf32>
// CHECK-NEXT:   [[ADD3:%[a-z0-9_]+]] = moe.add [[GROUPED_MATMUL_WGRAD2]], [[SCALE]] : tensor<2x8x16xf32>
// CHECK-NEXT:   [[GROUPED_MATMUL_WGRAD3:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad [[ARG0]], [[ARG1]] : (tensor<2x4x8xf32>,
// CHECK-SAME:     tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
// CHECK-NEXT:   [[SCALE2:%[a-z0-9_]+]] = moe.scale [[ARG2]] {factor = 3.000000e+00 : f64} : tensor<2x8x16xf32>
// CHECK-NEXT:   [[ADD4:%[a-z0-9_]+]] = moe.add [[GROUPED_MATMUL_WGRAD3]], [[SCALE2]] : tensor<2x8x16xf32>
// CHECK-NEXT:   return [[ADD]], [[ADD2]], [[ADD3]], [[ADD4]] : tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>,
// CHECK-SAME:     tensor<2x8x16xf32>
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
