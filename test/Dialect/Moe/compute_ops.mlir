// RUN: moe-opt %s --verify-roundtrip | FileCheck %s

// Rank-local computation: expert rows in the capacity form [E, C, K] and ragged [R, K] with counts, in each element type.

// Either operand transposed, or both.
// CHECK-LABEL: func.func @matmul(
// CHECK-NEXT: %[[MATMUL:.+]] = moe.matmul %arg0, %arg1 :
// CHECK-NEXT: %[[MATMUL2:.+]] = moe.matmul %[[MATMUL]], %arg1 {transpose_b}
// CHECK-NEXT: %[[MATMUL3:.+]] = moe.matmul %[[MATMUL2]], %[[MATMUL]] {transpose_a}
// CHECK-NEXT: %[[MATMUL4:.+]] = moe.matmul %[[MATMUL3]], %[[MATMUL2]] {transpose_a, transpose_b}
// CHECK-NEXT: %[[MATMUL5:.+]] = moe.matmul %[[MATMUL4]], %[[MATMUL4]] {transpose_a}
// CHECK-NEXT: moe.matmul %[[MATMUL5]], %[[MATMUL]] :
func.func @matmul(%a: tensor<4x8xf64>, %b: tensor<8x16xf64>) -> tensor<4x16xf64> {
  %0 = moe.matmul %a, %b : (tensor<4x8xf64>, tensor<8x16xf64>) -> tensor<4x16xf64>
  %1 = moe.matmul %0, %b {transpose_b} : (tensor<4x16xf64>, tensor<8x16xf64>) -> tensor<4x8xf64>
  %2 = moe.matmul %1, %0 {transpose_a} : (tensor<4x8xf64>, tensor<4x16xf64>) -> tensor<8x16xf64>
  %3 = moe.matmul %2, %1 {transpose_a, transpose_b} : (tensor<8x16xf64>, tensor<4x8xf64>) -> tensor<16x4xf64>
  %4 = moe.matmul %3, %3 {transpose_a} : (tensor<16x4xf64>, tensor<16x4xf64>) -> tensor<4x4xf64>
  %5 = moe.matmul %4, %0 : (tensor<4x4xf64>, tensor<4x16xf64>) -> tensor<4x16xf64>
  return %5 : tensor<4x16xf64>
}

// Elementwise and row-wise products; sums and factors of 16-bit rows are f32.
// CHECK-LABEL: func.func @products(
// CHECK-NEXT: %[[ROW_DOT:.+]] = moe.row_dot %arg0, %arg1 :
// CHECK-NEXT: %[[ROW_SCALE:.+]] = moe.row_scale %arg0, %[[ROW_DOT]] :
// CHECK-NEXT: moe.scale %[[ROW_SCALE]] {factor = 2.500000e-01 : f64}
func.func @products(%a: tensor<4x8xbf16>, %b: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = moe.row_dot %a, %b : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x1xf32>
  %1 = moe.row_scale %a, %0 : tensor<4x8xbf16>, tensor<4x1xf32>
  %2 = moe.scale %1 {factor = 2.500000e-01 : f64} : tensor<4x8xbf16>
  return %2 : tensor<4x8xbf16>
}

// A loss of rank 0 can be scaled.
// CHECK-LABEL: func.func @scale_scalar(
// CHECK-NEXT: moe.scale %arg0 {factor = -1.000000e+00 : f64}
func.func @scale_scalar(%a: tensor<f64>) -> tensor<f64> {
  %0 = moe.scale %a {factor = -1.000000e+00 : f64} : tensor<f64>
  return %0 : tensor<f64>
}

// An expert's network and its gradients in the capacity form.
// CHECK-LABEL: func.func @capacity(
// CHECK-NEXT: %[[GROUPED_MATMUL:.+]] = moe.grouped_matmul %arg0, %arg1 :
// CHECK-NEXT: %[[BIAS_ADD:.+]] = moe.bias_add %[[GROUPED_MATMUL]], %arg2 :
// CHECK-NEXT: %[[ACTIVATION:.+]] = moe.activation %[[BIAS_ADD]] {kind = #moe<activation gelu>}
// CHECK-NEXT: %[[ACTIVATION_GRAD:.+]] = moe.activation_grad %[[BIAS_ADD]], %[[ACTIVATION]] {kind = #moe<activation gelu>}
// CHECK-NEXT: moe.bias_grad %[[ACTIVATION_GRAD]] :
// CHECK-NEXT: moe.grouped_matmul_wgrad %arg0, %[[ACTIVATION_GRAD]] :
// CHECK-NEXT: moe.grouped_matmul %[[ACTIVATION_GRAD]], %arg1 {transpose_weights}
func.func @capacity(%r: tensor<2x4x8xbf16>, %w: tensor<2x8x16xbf16>, %b: tensor<2x16xbf16>)
    -> (tensor<2x8x16xbf16>, tensor<2x16xbf16>, tensor<2x4x8xbf16>) {
  %0 = moe.grouped_matmul %r, %w : (tensor<2x4x8xbf16>, tensor<2x8x16xbf16>) -> tensor<2x4x16xbf16>
  %1 = moe.bias_add %0, %b : (tensor<2x4x16xbf16>, tensor<2x16xbf16>) -> tensor<2x4x16xbf16>
  %2 = moe.activation %1 {kind = #moe<activation gelu>} : (tensor<2x4x16xbf16>) -> tensor<2x4x16xbf16>
  %3 = moe.activation_grad %1, %2 {kind = #moe<activation gelu>}
    : (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>) -> tensor<2x4x16xbf16>
  %4 = moe.bias_grad %3 : (tensor<2x4x16xbf16>) -> tensor<2x16xbf16>
  %5 = moe.grouped_matmul_wgrad %r, %3 : (tensor<2x4x8xbf16>, tensor<2x4x16xbf16>) -> tensor<2x8x16xbf16>
  %6 = moe.grouped_matmul %3, %w {transpose_weights} : (tensor<2x4x16xbf16>, tensor<2x8x16xbf16>) -> tensor<2x4x8xbf16>
  return %5, %4, %6 : tensor<2x8x16xbf16>, tensor<2x16xbf16>, tensor<2x4x8xbf16>
}

// The same with ragged rows.
// CHECK-LABEL: func.func @ragged(
// CHECK-NEXT: %[[GROUPED_MATMUL:.+]] = moe.grouped_matmul %arg0, %arg1 counts(%arg3) :
// CHECK-NEXT: %[[BIAS_ADD:.+]] = moe.bias_add %[[GROUPED_MATMUL]], %arg2 counts(%arg3) {scale = 2.500000e-01 : f64}
// CHECK-NEXT: %[[ACTIVATION:.+]] = moe.activation %[[BIAS_ADD]] counts(%arg3) {kind = #moe<activation silu>}
// CHECK-NEXT: %[[ACTIVATION_GRAD:.+]] = moe.activation_grad %[[BIAS_ADD]], %[[ACTIVATION]] counts(%arg3) {kind = #moe<activation silu>}
// CHECK-NEXT: moe.bias_grad %[[ACTIVATION_GRAD]] counts(%arg3) {scale = 2.500000e-01 : f64}
// CHECK-NEXT: moe.grouped_matmul_wgrad %arg0, %[[ACTIVATION_GRAD]] counts(%arg3) :
// CHECK-NEXT: moe.grouped_matmul %[[ACTIVATION_GRAD]], %arg1 counts(%arg3) {transpose_weights}
func.func @ragged(%r: tensor<32x8xf64>, %w: tensor<2x8x16xf64>, %b: tensor<2x16xf64>, %c: tensor<4x2xi32>)
    -> (tensor<2x8x16xf64>, tensor<2x16xf64>, tensor<32x8xf64>) {
  %0 = moe.grouped_matmul %r, %w counts(%c) : (tensor<32x8xf64>, tensor<2x8x16xf64>, tensor<4x2xi32>) -> tensor<32x16xf64>
  %1 = moe.bias_add %0, %b counts(%c) {scale = 2.500000e-01 : f64}
    : (tensor<32x16xf64>, tensor<2x16xf64>, tensor<4x2xi32>) -> tensor<32x16xf64>
  %2 = moe.activation %1 counts(%c) {kind = #moe<activation silu>} : (tensor<32x16xf64>, tensor<4x2xi32>) -> tensor<32x16xf64>
  %3 = moe.activation_grad %1, %2 counts(%c) {kind = #moe<activation silu>}
    : (tensor<32x16xf64>, tensor<32x16xf64>, tensor<4x2xi32>) -> tensor<32x16xf64>
  %4 = moe.bias_grad %3 counts(%c) {scale = 2.500000e-01 : f64} : (tensor<32x16xf64>, tensor<4x2xi32>) -> tensor<2x16xf64>
  %5 = moe.grouped_matmul_wgrad %r, %3 counts(%c)
    : (tensor<32x8xf64>, tensor<32x16xf64>, tensor<4x2xi32>) -> tensor<2x8x16xf64>
  %6 = moe.grouped_matmul %3, %w counts(%c) {transpose_weights}
    : (tensor<32x16xf64>, tensor<2x8x16xf64>, tensor<4x2xi32>) -> tensor<32x8xf64>
  return %5, %4, %6 : tensor<2x8x16xf64>, tensor<2x16xf64>, tensor<32x8xf64>
}

// Dense rows take one bias for all.
// CHECK-LABEL: func.func @dense_bias(
// CHECK-NEXT: %[[BIAS_ADD:.+]] = moe.bias_add %arg0, %arg1 :
// CHECK-NEXT: moe.bias_grad %[[BIAS_ADD]] :
func.func @dense_bias(%r: tensor<4x8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>) {
  %0 = moe.bias_add %r, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = moe.bias_grad %0 : (tensor<4x8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<8xf32>
}

// The elementwise kinds keep the shape; the gated ones halve the columns.
// CHECK-LABEL: func.func @activations(
// CHECK-NEXT: %[[ACTIVATION:.+]] = moe.activation %arg0 {kind = #moe<activation relu>}
// CHECK-NEXT: %[[ACTIVATION2:.+]] = moe.activation %[[ACTIVATION]] {kind = #moe<activation sigmoid>}
// CHECK-NEXT: %[[ACTIVATION3:.+]] = moe.activation %[[ACTIVATION2]] {kind = #moe<activation swiglu>}
// CHECK-NEXT: moe.activation %[[ACTIVATION3]] {kind = #moe<activation swiglu_clamped>}
func.func @activations(%h: tensor<2x4x16xf32>) -> tensor<2x4x4xf32> {
  %0 = moe.activation %h {kind = #moe<activation relu>} : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %1 = moe.activation %0 {kind = #moe<activation sigmoid>} : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %2 = moe.activation %1 {kind = #moe<activation swiglu>} : (tensor<2x4x16xf32>) -> tensor<2x4x8xf32>
  %3 = moe.activation %2 {kind = #moe<activation swiglu_clamped>} : (tensor<2x4x8xf32>) -> tensor<2x4x4xf32>
  return %3 : tensor<2x4x4xf32>
}

// A gated activation's gradient has the columns of its input.
// CHECK-LABEL: func.func @gated_grad(
// CHECK-NEXT: moe.activation_grad %arg0, %arg1 {kind = #moe<activation swiglu>}
func.func @gated_grad(%h: tensor<4x16xf32>, %g: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %0 = moe.activation_grad %h, %g {kind = #moe<activation swiglu>} : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// Copies of all of a tensor, which is the default, and of two of its blocks, along the first dimension and the last, and their sums.
// CHECK-LABEL: func.func @dump_local_reduce(
// CHECK-NEXT: %[[DUMP:.+]] = moe.dump %arg0 :
// CHECK-NEXT: %[[DUMP2:.+]] = moe.dump %[[DUMP]] {blocks = 2 : i64, dim = 1 : i64}
// CHECK-NEXT: %[[LOCAL_REDUCE:.+]] = moe.local_reduce %[[DUMP2]] {blocks = 2 : i64, dim = 1 : i64}
// CHECK-NEXT: moe.local_reduce %[[LOCAL_REDUCE]] :
func.func @dump_local_reduce(%x: tensor<2x4xbf16>) -> tensor<2x4xbf16> {
  %0 = moe.dump %x : (tensor<2x4xbf16>) -> tensor<6x4xbf16>
  %1 = moe.dump %0 {dim = 1 : i64, blocks = 2 : i64} : (tensor<6x4xbf16>) -> tensor<6x12xbf16>
  %2 = moe.local_reduce %1 {dim = 1 : i64, blocks = 2 : i64} : (tensor<6x12xbf16>) -> tensor<6x4xbf16>
  %3 = moe.local_reduce %2 : (tensor<6x4xbf16>) -> tensor<2x4xbf16>
  return %3 : tensor<2x4xbf16>
}

// Counts are dumped too; defaults that are written out are not printed, and a block may be copied once.
// CHECK-LABEL: func.func @dump_counts(
// CHECK-NEXT: %[[DUMP:.+]] = moe.dump %arg0 {blocks = 2 : i64, dim = 1 : i64}
// CHECK-NEXT: moe.dump %[[DUMP]] :
func.func @dump_counts(%c: tensor<1x4xi32>) -> tensor<1x8xi32> {
  %0 = moe.dump %c {dim = 1 : i64, blocks = 2 : i64} : (tensor<1x4xi32>) -> tensor<1x8xi32>
  %1 = moe.dump %0 {dim = 0 : i64, blocks = 1 : i64} : (tensor<1x8xi32>) -> tensor<1x8xi32>
  return %1 : tensor<1x8xi32>
}

// Any rank above 0: the copies of a vector, of each block of a tensor of rank 4.
// CHECK-LABEL: func.func @dump_ranks(
// CHECK-NEXT: moe.dump %arg0 {blocks = 4 : i64}
// CHECK-NEXT: %[[DUMP:.+]] = moe.dump %arg1 {blocks = 3 : i64, dim = 3 : i64}
// CHECK-NEXT: moe.local_reduce %[[DUMP]] {blocks = 3 : i64, dim = 3 : i64}
func.func @dump_ranks(%a: tensor<4xf64>, %b: tensor<2x3x4x6xf64>) -> (tensor<8xf64>, tensor<2x3x4x6xf64>) {
  %0 = moe.dump %a {blocks = 4 : i64} : (tensor<4xf64>) -> tensor<8xf64>
  %1 = moe.dump %b {dim = 3 : i64, blocks = 3 : i64} : (tensor<2x3x4x6xf64>) -> tensor<2x3x4x12xf64>
  %2 = moe.local_reduce %1 {dim = 3 : i64, blocks = 3 : i64} : (tensor<2x3x4x12xf64>) -> tensor<2x3x4x6xf64>
  return %0, %2 : tensor<8xf64>, tensor<2x3x4x6xf64>
}
