// RUN: moe-opt %s -verify-diagnostics -split-input-file

// moe.matmul (C1): the inner dimensions agree.
func.func @invalid(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) {
  // expected-error @+1 {{expected operands whose inner dimensions and element types agree but got 'tensor<4x8xf32>' and 'tensor<4x8xf32>'}}
  %0 = moe.matmul %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// moe.matmul (C1): so they do with a transposed operand.
func.func @invalid(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>) {
  // expected-error @+1 {{expected operands whose inner dimensions and element types agree}}
  %0 = moe.matmul %a, %b {transpose_a} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  return
}

// -----

// moe.matmul (C1): the result is rows by columns.
func.func @invalid(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>) {
  // expected-error @+1 {{expected the result to be 'tensor<4x16xf32>' but got 'tensor<16x4xf32>'}}
  %0 = moe.matmul %a, %b : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<16x4xf32>
  return
}

// -----

// moe.matmul (C2): one element type among the operands.
func.func @invalid(%a: tensor<4x8xf32>, %b: tensor<8x16xf64>) {
  // expected-error @+1 {{expected operands whose inner dimensions and element types agree but got 'tensor<4x8xf32>' and 'tensor<8x16xf64>'}}
  %0 = moe.matmul %a, %b : (tensor<4x8xf32>, tensor<8x16xf64>) -> tensor<4x16xf32>
  return
}

// -----

// moe.matmul (C2): and of the result.
func.func @invalid(%a: tensor<4x8xbf16>, %b: tensor<8x16xbf16>) {
  // expected-error @+1 {{expected the result to be 'tensor<4x16xbf16>' but got 'tensor<4x16xf32>'}}
  %0 = moe.matmul %a, %b : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xf32>
  return
}

// -----

// moe.scale: input and result have one type.
func.func @invalid(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = "moe.scale"(%a) {factor = 1.0 : f64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

// moe.row_scale (C1): factors is a column of as many rows.
func.func @invalid(%a: tensor<4x8xf32>, %f: tensor<8x1xf32>) {
  // expected-error @+1 {{'moe.row_scale' op expected factors to be 'tensor<4x1xf32>' but got 'tensor<8x1xf32>'}}
  %0 = moe.row_scale %a, %f : tensor<4x8xf32>, tensor<8x1xf32>
  return
}

// -----

// moe.row_dot (C1): lhs and rhs are of one type.
func.func @invalid(%a: tensor<4x8xf32>, %b: tensor<4x4xf32>) {
  // expected-error @+1 {{failed to verify that all of {lhs, rhs} have same type}}
  %0 = moe.row_dot %a, %b : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x1xf32>
  return
}

// -----

// moe.row_dot (C1): the result is a column of as many rows.
func.func @invalid(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.row_dot' op expected the result to be 'tensor<4x1xf32>' but got 'tensor<1x4xf32>'}}
  %0 = moe.row_dot %a, %a : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  return
}

// -----

// moe.grouped_matmul (C1): the weights' inner dimension is the rows' columns.
func.func @invalid(%r: tensor<2x4x8xf32>, %w: tensor<2x16x8xf32>) {
  // expected-error @+1 {{expected weights with inner dimension 8 and elements 'f32' but got 'tensor<2x16x8xf32>'}}
  %0 = moe.grouped_matmul %r, %w
    : (tensor<2x4x8xf32>, tensor<2x16x8xf32>) -> tensor<2x4x16xf32>
  return
}

// -----

// moe.grouped_matmul (C1): it is their last dimension with transpose_weights.
func.func @invalid(%r: tensor<2x4x8xf32>, %w: tensor<2x8x16xf32>) {
  // expected-error @+1 {{expected weights with inner dimension 8 and elements 'f32' but got 'tensor<2x8x16xf32>'}}
  %0 = moe.grouped_matmul %r, %w {transpose_weights}
    : (tensor<2x4x8xf32>, tensor<2x8x16xf32>) -> tensor<2x4x16xf32>
  return
}

// -----

// moe.grouped_matmul (C1): there are weights for each expert.
func.func @invalid(%r: tensor<2x4x8xf32>, %w: tensor<3x8x16xf32>) {
  // expected-error @+1 {{expected rows of 3 experts but got 2}}
  %0 = moe.grouped_matmul %r, %w
    : (tensor<2x4x8xf32>, tensor<3x8x16xf32>) -> tensor<2x4x16xf32>
  return
}

// -----

// moe.grouped_matmul (C2): rows without counts are 3-D.
func.func @invalid(%r: tensor<8x8xf32>, %w: tensor<2x8x16xf32>) {
  // expected-error @+1 {{expected 3-D rows without counts but got 'tensor<8x8xf32>'}}
  %0 = moe.grouped_matmul %r, %w
    : (tensor<8x8xf32>, tensor<2x8x16xf32>) -> tensor<8x16xf32>
  return
}

// -----

// moe.grouped_matmul (C2): rows with counts are 2-D.
func.func @invalid(%r: tensor<2x4x8xf32>, %w: tensor<2x8x16xf32>, %c: tensor<1x2xi32>) {
  // expected-error @+1 {{expected 2-D rows with counts but got 'tensor<2x4x8xf32>'}}
  %0 = moe.grouped_matmul %r, %w counts(%c)
    : (tensor<2x4x8xf32>, tensor<2x8x16xf32>, tensor<1x2xi32>) -> tensor<2x4x16xf32>
  return
}

// -----

// moe.grouped_matmul (C2): counts has a column for each expert.
func.func @invalid(%r: tensor<8x8xf32>, %w: tensor<2x8x16xf32>, %c: tensor<1x3xi32>) {
  // expected-error @+1 {{expected rows of 2 experts but got 3}}
  %0 = moe.grouped_matmul %r, %w counts(%c)
    : (tensor<8x8xf32>, tensor<2x8x16xf32>, tensor<1x3xi32>) -> tensor<8x16xf32>
  return
}

// -----

// moe.grouped_matmul (C2): the result has the rows of the input and the columns of the weights.
func.func @invalid(%r: tensor<2x4x8xf32>, %w: tensor<2x8x16xf32>) {
  // expected-error @+1 {{expected the result to be 'tensor<2x4x16xf32>' but got 'tensor<2x8x16xf32>'}}
  %0 = moe.grouped_matmul %r, %w
    : (tensor<2x4x8xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return
}

// -----

// moe.grouped_matmul (C2): so it has in the ragged form.
func.func @invalid(%r: tensor<32x8xf32>, %w: tensor<2x8x16xf32>, %c: tensor<4x2xi32>) {
  // expected-error @+1 {{expected the result to be 'tensor<32x16xf32>' but got 'tensor<16x16xf32>'}}
  %0 = moe.grouped_matmul %r, %w counts(%c)
    : (tensor<32x8xf32>, tensor<2x8x16xf32>, tensor<4x2xi32>) -> tensor<16x16xf32>
  return
}

// -----

// moe.grouped_matmul (C3): one element type among the operands.
func.func @invalid(%r: tensor<2x4x8xf32>, %w: tensor<2x8x16xf64>) {
  // expected-error @+1 {{expected weights with inner dimension 8 and elements 'f32' but got 'tensor<2x8x16xf64>'}}
  %0 = moe.grouped_matmul %r, %w
    : (tensor<2x4x8xf32>, tensor<2x8x16xf64>) -> tensor<2x4x16xf32>
  return
}

// -----

// moe.grouped_matmul (C3): and of the result.
func.func @invalid(%r: tensor<2x4x8xf32>, %w: tensor<2x8x16xf32>) {
  // expected-error @+1 {{expected the result to be 'tensor<2x4x16xf32>' but got 'tensor<2x4x16xf64>'}}
  %0 = moe.grouped_matmul %r, %w
    : (tensor<2x4x8xf32>, tensor<2x8x16xf32>) -> tensor<2x4x16xf64>
  return
}

// -----

// moe.matmul_wgrad (C1): rows and grads are of the same rows.
func.func @f(%r: tensor<4x8xbf16>, %g: tensor<5x16xbf16>) {
  // expected-error @+1 {{expected rows and grads of as many rows and of one element type but got 'tensor<4x8xbf16>' and 'tensor<5x16xbf16>'}}
  %0 = moe.matmul_wgrad %r, %g : (tensor<4x8xbf16>, tensor<5x16xbf16>) -> tensor<8x16xf32>
  return
}

// -----

// moe.matmul_wgrad (C1): the result is columns of rows by columns of grads.
func.func @f(%r: tensor<4x8xbf16>, %g: tensor<4x16xbf16>) {
  // expected-error @+1 {{expected the result to be 'tensor<8x16xbf16>' but got 'tensor<16x8xf32>'}}
  %0 = moe.matmul_wgrad %r, %g : (tensor<4x8xbf16>, tensor<4x16xbf16>) -> tensor<16x8xf32>
  return
}

// -----

// moe.matmul_wgrad (C2): rows and grads have one element type.
func.func @f(%r: tensor<4x8xbf16>, %g: tensor<4x16xf32>) {
  // expected-error @+1 {{expected rows and grads of as many rows and of one element type but got}}
  %0 = moe.matmul_wgrad %r, %g : (tensor<4x8xbf16>, tensor<4x16xf32>) -> tensor<8x16xf32>
  return
}

// -----

// moe.matmul_wgrad (C2): the result has no fewer bits than the sum.
func.func @f(%r: tensor<4x8xf32>, %g: tensor<4x16xf32>) {
  // expected-error @+1 {{expected the result to be 'tensor<8x16xf32>' but got 'tensor<8x16xbf16>'}}
  %0 = moe.matmul_wgrad %r, %g : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<8x16xbf16>
  return
}

// -----

// moe.matmul_wgrad: what is added is like the result.
func.func @f(%r: tensor<4x8xbf16>, %g: tensor<4x16xbf16>, %a: tensor<8x16xbf16>) {
  // expected-error @+1 {{expected the addend to be 'tensor<8x16xf32>' but got 'tensor<8x16xbf16>'}}
  %0 = moe.matmul_wgrad %r, %g addend(%a) : (tensor<4x8xbf16>, tensor<4x16xbf16>, tensor<8x16xbf16>) -> tensor<8x16xf32>
  return
}

// -----

// moe.grouped_matmul_wgrad (C2): the result has the type of rows or its accumulator type.
func.func @f(%r: tensor<2x4x8xbf16>, %g: tensor<2x4x16xbf16>) {
  // expected-error @+1 {{expected the result to be 'tensor<2x8x16xbf16>' but got 'tensor<2x8x16xf64>'}}
  %0 = moe.grouped_matmul_wgrad %r, %g : (tensor<2x4x8xbf16>, tensor<2x4x16xbf16>) -> tensor<2x8x16xf64>
  return
}

// -----

// moe.bias_grad (C2): likewise.
func.func @f(%g: tensor<4x8xbf16>) {
  // expected-error @+1 {{expected the bias to be 'tensor<8xbf16>' but got 'tensor<8xf64>'}}
  %0 = moe.bias_grad %g : (tensor<4x8xbf16>) -> tensor<8xf64>
  return
}

// -----

// moe.grouped_matmul_wgrad (C1): rows and grads are of the same rows.
func.func @invalid(%r: tensor<2x4x8xf32>, %w: tensor<2x8x16xf32>) {
  // expected-error @+1 {{expected grads to be 'tensor<2x4x16xf32>' but got 'tensor<2x8x16xf32>'}}
  %0 = moe.grouped_matmul_wgrad %r, %w
    : (tensor<2x4x8xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return
}

// -----

// moe.grouped_matmul_wgrad (C1): without counts they are 3-D.
func.func @invalid(%r: tensor<8x8xf32>, %w: tensor<8x16xf32>) {
  // expected-error @+1 {{expected 3-D rows without counts but got 'tensor<8x8xf32>'}}
  %0 = moe.grouped_matmul_wgrad %r, %w
    : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<2x8x16xf32>
  return
}

// -----

// moe.grouped_matmul_wgrad (C1): the result has a matrix for each expert.
func.func @invalid(%r: tensor<2x4x8xf32>, %w: tensor<2x4x16xf32>) {
  // expected-error @+1 {{expected rows of 3 experts but got 2}}
  %0 = moe.grouped_matmul_wgrad %r, %w
    : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<3x8x16xf32>
  return
}

// -----

// moe.grouped_matmul_wgrad (C1): the matrix is columns of rows by columns of grads.
func.func @invalid(%r: tensor<2x4x8xf32>, %w: tensor<2x4x16xf32>) {
  // expected-error @+1 {{expected the result to be 'tensor<2x8x16xf32>' but got 'tensor<2x16x8xf32>'}}
  %0 = moe.grouped_matmul_wgrad %r, %w
    : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x16x8xf32>
  return
}

// -----

// moe.bias_add (C1): dense rows take an [N] bias.
func.func @invalid(%r: tensor<4x8xf32>, %w: tensor<4x8xf32>) {
  // expected-error @+1 {{expected the bias to be 'tensor<8xf32>' but got 'tensor<4x8xf32>'}}
  %0 = moe.bias_add %r, %w
    : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// moe.bias_add (C1): rows of experts take [E, N].
func.func @invalid(%r: tensor<2x4x8xf32>, %w: tensor<8xf32>) {
  // expected-error @+1 {{expected the bias to be 'tensor<2x8xf32>' but got 'tensor<8xf32>'}}
  %0 = moe.bias_add %r, %w
    : (tensor<2x4x8xf32>, tensor<8xf32>) -> tensor<2x4x8xf32>
  return
}

// -----

// moe.bias_add (C1): so do rows with counts, which says E.
func.func @invalid(%r: tensor<16x8xf32>, %w: tensor<2x8xf32>, %c: tensor<1x3xi32>) {
  // expected-error @+1 {{expected the bias to be 'tensor<3x8xf32>' but got 'tensor<2x8xf32>'}}
  %0 = moe.bias_add %r, %w counts(%c)
    : (tensor<16x8xf32>, tensor<2x8xf32>, tensor<1x3xi32>) -> tensor<16x8xf32>
  return
}

// -----

// moe.bias_add (C1): rows with counts are 2-D.
func.func @invalid(%r: tensor<2x4x8xf32>, %w: tensor<2x8xf32>, %c: tensor<1x2xi32>) {
  // expected-error @+1 {{expected 2-D rows with counts but got 'tensor<2x4x8xf32>'}}
  %0 = moe.bias_add %r, %w counts(%c)
    : (tensor<2x4x8xf32>, tensor<2x8xf32>, tensor<1x2xi32>) -> tensor<2x4x8xf32>
  return
}

// -----

// moe.bias_add (C1): the bias has the rows' elements.
func.func @invalid(%r: tensor<4x8xf32>, %w: tensor<8xbf16>) {
  // expected-error @+1 {{expected the bias to be 'tensor<8xf32>' but got 'tensor<8xbf16>'}}
  %0 = moe.bias_add %r, %w
    : (tensor<4x8xf32>, tensor<8xbf16>) -> tensor<4x8xf32>
  return
}

// -----

// moe.bias_add (C1): the result has the type of the rows.
func.func @invalid(%r: tensor<4x8xf32>, %w: tensor<8xf32>) {
  // expected-error @+1 {{failed to verify that all of {rows, result} have same type}}
  %0 = moe.bias_add %r, %w
    : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  return
}

// -----

// moe.bias_grad (C1): dense rows give [N].
func.func @invalid(%g: tensor<4x8xf32>) {
  // expected-error @+1 {{expected the bias to be 'tensor<8xf32>' but got 'tensor<4xf32>'}}
  %0 = moe.bias_grad %g : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

// moe.bias_grad (C1): rows of experts give [E, N].
func.func @invalid(%g: tensor<2x4x8xf32>) {
  // expected-error @+1 {{expected the bias to be 'tensor<2x8xf32>' but got 'tensor<8xf32>'}}
  %0 = moe.bias_grad %g : (tensor<2x4x8xf32>) -> tensor<8xf32>
  return
}

// -----

// moe.bias_grad (C1): rows with counts are 2-D.
func.func @invalid(%g: tensor<2x4x8xf32>, %c: tensor<1x2xi32>) {
  // expected-error @+1 {{expected 2-D rows with counts but got 'tensor<2x4x8xf32>'}}
  %0 = moe.bias_grad %g counts(%c) : (tensor<2x4x8xf32>, tensor<1x2xi32>) -> tensor<2x8xf32>
  return
}

// -----

// moe.activation (C1): elementwise kinds keep the shape.
func.func @invalid(%h: tensor<4x16xf32>) {
  // expected-error @+1 {{expected the result to be 'tensor<4x16xf32>' but got 'tensor<4x8xf32>'}}
  %0 = moe.activation %h {kind = #moe<activation gelu>} : (tensor<4x16xf32>) -> tensor<4x8xf32>
  return
}

// -----

// moe.activation (C1): gated kinds halve the columns.
func.func @invalid(%h: tensor<4x16xf32>) {
  // expected-error @+1 {{expected the result to be 'tensor<4x8xf32>' but got 'tensor<4x16xf32>'}}
  %0 = moe.activation %h {kind = #moe<activation swiglu>} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  return
}

// -----

// moe.activation (C1): they need pairs of columns.
func.func @invalid(%h: tensor<4x15xf32>) {
  // expected-error @+1 {{expected an even number of columns for 'swiglu_clamped' but got 'tensor<4x15xf32>'}}
  %0 = moe.activation %h {kind = #moe<activation swiglu_clamped>} : (tensor<4x15xf32>) -> tensor<4x7xf32>
  return
}

// -----

// moe.activation (C1): the result has the elements of the input.
func.func @invalid(%h: tensor<4x16xf32>) {
  // expected-error @+1 {{expected the result to be 'tensor<4x16xf32>' but got 'tensor<4x16xf64>'}}
  %0 = moe.activation %h {kind = #moe<activation gelu>} : (tensor<4x16xf32>) -> tensor<4x16xf64>
  return
}

// -----

// moe.activation (C2): counts needs 2-D rows.
func.func @invalid(%h: tensor<2x4x16xf32>, %c: tensor<1x2xi32>) {
  // expected-error @+1 {{expected 2-D rows with counts but got 'tensor<2x4x16xf32>'}}
  %0 = moe.activation %h counts(%c) {kind = #moe<activation gelu>} : (tensor<2x4x16xf32>, tensor<1x2xi32>) -> tensor<2x4x16xf32>
  return
}

// -----

// moe.activation_grad (C1): grad has the shape of the activation's result.
func.func @invalid(%h: tensor<4x16xf32>, %g: tensor<4x16xf32>) {
  // expected-error @+1 {{expected grad to be 'tensor<4x8xf32>' but got 'tensor<4x16xf32>'}}
  %0 = moe.activation_grad %h, %g {kind = #moe<activation swiglu>} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return
}

// -----

// moe.activation_grad (C1): the result has the shape of its input.
func.func @invalid(%h: tensor<4x16xf32>, %g: tensor<4x16xf32>) {
  // expected-error @+1 {{failed to verify that all of {input, result} have same type}}
  %0 = moe.activation_grad %h, %g {kind = #moe<activation gelu>} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x8xf32>
  return
}

// -----

// moe.dump (C1): dim is a dimension.
func.func @invalid(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'moe.dump' op expected dim to be a dimension of 'tensor<2x4xf32>' but got 2}}
  %0 = moe.dump %x {dim = 2 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// moe.dump (C1): dim is not negative.
func.func @invalid(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'moe.dump' op expected dim to be a dimension of 'tensor<2x4xf32>' but got -1}}
  %0 = moe.dump %x {dim = -1 : i64} : (tensor<2x4xf32>) -> tensor<6x4xf32>
  return
}

// -----

// moe.dump (C1): a scalar has no dimension.
func.func @invalid(%x: tensor<f32>) {
  // expected-error @+1 {{'moe.dump' op expected dim to be a dimension of 'tensor<f32>' but got 0}}
  %0 = moe.dump %x : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// moe.dump (C1): blocks divides the input's dimension.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.dump' op expected blocks to divide dimension 0 of 'tensor<4x8xf32>' but got 3}}
  %0 = moe.dump %x {blocks = 3 : i64} : (tensor<4x8xf32>) -> tensor<12x8xf32>
  return
}

// -----

// moe.dump (C1): blocks is at least 1.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.dump' op expected blocks to divide dimension 0 of 'tensor<4x8xf32>' but got 0}}
  %0 = moe.dump %x {blocks = 0 : i64} : (tensor<4x8xf32>) -> tensor<12x8xf32>
  return
}

// -----

// moe.dump (C1): the dimension is multiplied.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.dump' op expected 'tensor<6x8xf32>' to be 'tensor<4x8xf32>' with dimension 0 multiplied}}
  %0 = moe.dump %x : (tensor<4x8xf32>) -> tensor<6x8xf32>
  return
}

// -----

// moe.dump (C1): the result is not the smaller.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.dump' op expected 'tensor<2x8xf32>' to be 'tensor<4x8xf32>' with dimension 0 multiplied}}
  %0 = moe.dump %x : (tensor<4x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

// moe.dump (C1): the result is not empty.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.dump' op expected 'tensor<0x8xf32>' to be 'tensor<4x8xf32>' with dimension 0 multiplied}}
  %0 = moe.dump %x : (tensor<4x8xf32>) -> tensor<0x8xf32>
  return
}

// -----

// moe.dump (C1): the other dimensions stay.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.dump' op expected 'tensor<4x16xf32>' to be 'tensor<4x8xf32>' with dimension 0 multiplied}}
  %0 = moe.dump %x : (tensor<4x8xf32>) -> tensor<4x16xf32>
  return
}

// -----

// moe.dump (C1): the rank stays.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.dump' op expected 'tensor<2x4x8xf32>' to be 'tensor<4x8xf32>' with dimension 0 multiplied}}
  %0 = moe.dump %x : (tensor<4x8xf32>) -> tensor<2x4x8xf32>
  return
}

// -----

// moe.dump (C1): the element type stays.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.dump' op expected 'tensor<8x8xf64>' to be 'tensor<4x8xf32>' with dimension 0 multiplied}}
  %0 = moe.dump %x : (tensor<4x8xf32>) -> tensor<8x8xf64>
  return
}

// -----

// moe.local_reduce (C1): blocks divides the result's dimension, not only the input's.
func.func @invalid(%x: tensor<12x8xf32>) {
  // expected-error @+1 {{'moe.local_reduce' op expected blocks to divide dimension 0 of 'tensor<4x8xf32>' but got 3}}
  %0 = moe.local_reduce %x {blocks = 3 : i64} : (tensor<12x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// moe.local_reduce (C1): the input's dimension is a multiple.
func.func @invalid(%x: tensor<6x8xf32>) {
  // expected-error @+1 {{'moe.local_reduce' op expected 'tensor<6x8xf32>' to be 'tensor<4x8xf32>' with dimension 0 multiplied}}
  %0 = moe.local_reduce %x : (tensor<6x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// moe.local_reduce (C1): counts are not summed.
func.func @invalid(%x: tensor<4x8xi32>) {
  // expected-error @+1 {{'moe.local_reduce' op operand #0 must be static tensor of f32, f64, bf16 or f16, but got 'tensor<4x8xi32>'}}
  %0 = moe.local_reduce %x : (tensor<4x8xi32>) -> tensor<2x8xi32>
  return
}

// -----

// moe.dump (C1): blocks of nothing cannot be told apart.
func.func @invalid(%x: tensor<0x8xf32>) {
  // expected-error @+1 {{'moe.dump' op expected blocks to divide dimension 0 of 'tensor<0x8xf32>' but got 1}}
  %0 = moe.dump %x : (tensor<0x8xf32>) -> tensor<0x8xf32>
  return
}
