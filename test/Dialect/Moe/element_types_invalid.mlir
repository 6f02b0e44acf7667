// RUN: moe-opt %s --split-input-file --verify-diagnostics

// moe.route (C2): logits of 16 bits are cast before.
func.func @invalid(%l: tensor<16x4xbf16>) {
  // expected-error @+1 {{operand #0 must be 2-D tensor of f32 or f64, but got 'tensor<16x4xbf16>'}}
  %0:6 = moe.route %l : (tensor<16x4xbf16>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.dispatch (C2): weights of 16-bit rows are f32.
func.func @invalid(%x: tensor<16x8xf16>, %s: tensor<16x2xi32>, %w: tensor<16x2xf16>) {
  // expected-error @+1 {{operand #2 must be 2-D tensor of f32 or f64, but got 'tensor<16x2xf16>'}}
  %0 = moe.dispatch %x, %s weights(%w) : (tensor<16x8xf16>, tensor<16x2xi32>, tensor<16x2xf16>) -> tensor<32x8xf16>
  return
}

// -----

// moe.combine (C2): and nothing else.
func.func @invalid(%x: tensor<32x8xbf16>, %s: tensor<16x2xi32>, %w: tensor<16x2xf64>) {
  // expected-error @+1 {{expected weights to be 'tensor<16x2xf32>' but got 'tensor<16x2xf64>'}}
  %0 = moe.combine %x, %s weights(%w) : (tensor<32x8xbf16>, tensor<16x2xi32>, tensor<16x2xf64>) -> tensor<16x8xbf16>
  return
}

// -----

// moe.combine (C2): those of f64 rows are not f32.
func.func @invalid(%x: tensor<32x8xf64>, %s: tensor<16x2xi32>, %w: tensor<16x2xf32>) {
  // expected-error @+1 {{expected weights to be 'tensor<16x2xf64>' but got 'tensor<16x2xf32>'}}
  %0 = moe.combine %x, %s weights(%w) : (tensor<32x8xf64>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf64>
  return
}

// -----

// moe.slot_dot (C2): the result is of the accumulator type.
func.func @invalid(%x: tensor<16x8xbf16>, %r: tensor<32x8xbf16>, %s: tensor<16x2xi32>) {
  // expected-error @+1 {{expected the result to be 'tensor<16x2xf32>' but got 'tensor<16x2xf64>'}}
  %0 = moe.slot_dot %x, %r, %s : (tensor<16x8xbf16>, tensor<32x8xbf16>, tensor<16x2xi32>) -> tensor<16x2xf64>
  return
}

// -----

// moe.row_scale (C1): factors of 16-bit rows are f32.
func.func @invalid(%x: tensor<4x8xf16>, %f: tensor<4x1xf64>) {
  // expected-error @+1 {{expected factors to be 'tensor<4x1xf32>' but got 'tensor<4x1xf64>'}}
  %0 = moe.row_scale %x, %f : tensor<4x8xf16>, tensor<4x1xf64>
  return
}

// -----

// moe.row_scale (C2)
func.func @invalid(%x: tensor<4x8xf32>, %f: tensor<4x2xf32>) {
  // expected-error @+1 {{expected head_dim to divide the 8 columns of the rows but got 3}}
  %0 = moe.row_scale %x, %f {head_dim = 3 : i64} : tensor<4x8xf32>, tensor<4x2xf32>
  return
}

// -----

// moe.row_scale (C1): one factor for each head.
func.func @invalid(%x: tensor<4x8xf16>, %f: tensor<4x4xf16>) {
  // expected-error @+1 {{expected factors to be 'tensor<4x2xf16>' but got 'tensor<4x4xf16>'}}
  %0 = moe.row_scale %x, %f {head_dim = 4 : i64} : tensor<4x8xf16>, tensor<4x4xf16>
  return
}

// -----

// moe.row_dot (C1): so are products of rows.
func.func @invalid(%x: tensor<4x8xf16>) {
  // expected-error @+1 {{expected the result to be 'tensor<4x1xf32>' but got 'tensor<4x1xf16>'}}
  %0 = moe.row_dot %x, %x : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x1xf16>
  return
}

// -----

// moe.attention (C4): so is lse.
func.func @invalid(%x: tensor<8x16xbf16>) {
  // expected-error @+1 {{expected lse to be 'tensor<8x4xf32>' but got 'tensor<8x4xf64>'}}
  %0, %1 = moe.attention %x, %x, %x
    {q_length = 4 : i64, k_length = 4 : i64, heads = 4 : i64, k_heads = 4 : i64, scale = 5.0e-1 : f64}
    : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>) -> (tensor<8x16xbf16>, tensor<8x4xf64>)
  return
}

// -----

// moe.attention_grad: the same of its operand.
func.func @invalid(%x: tensor<8x16xbf16>, %lse: tensor<8x2xf32>) {
  // expected-error @+1 {{expected lse to be 'tensor<8x4xf32>' but got 'tensor<8x2xf32>'}}
  %0, %1, %2 = moe.attention_grad %x, %x, %x of %x, %lse, %x
    {q_length = 4 : i64, k_length = 4 : i64, heads = 4 : i64, k_heads = 4 : i64, scale = 5.0e-1 : f64}
    : (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x2xf32>, tensor<8x16xbf16>)
    -> (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>)
  return
}

// -----

// moe.attention_sinks_grad (C1).
func.func @invalid(%s: tensor<4xbf16>, %lse: tensor<8x4xf64>, %y: tensor<8x16xbf16>) {
  // expected-error @+1 {{expected lse to be 'tensor<8x4xf32>' but got 'tensor<8x4xf64>'}}
  %0 = moe.attention_sinks_grad %s, %lse, %y, %y
    : (tensor<4xbf16>, tensor<8x4xf64>, tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<4xbf16>
  return
}

// -----

// moe.row_logsumexp (C1).
func.func @invalid(%x: tensor<8x16xbf16>) {
  // expected-error @+1 {{expected the result to be 'tensor<8x1xf32>' but got 'tensor<8x1xf64>'}}
  %0 = moe.row_logsumexp %x : (tensor<8x16xbf16>) -> tensor<8x1xf64>
  return
}

// -----

// moe.row_logsumexp_grad (C1): lse.
func.func @invalid(%x: tensor<8x16xbf16>, %l: tensor<8x1xf64>, %g: tensor<8x1xf32>) {
  // expected-error @+1 {{expected lse to be 'tensor<8x1xf32>' but got 'tensor<8x1xf64>'}}
  %0 = moe.row_logsumexp_grad %x, %l, %g : (tensor<8x16xbf16>, tensor<8x1xf64>, tensor<8x1xf32>) -> tensor<8x16xbf16>
  return
}

// -----

// moe.row_logsumexp_grad (C1): grads.
func.func @invalid(%x: tensor<8x16xf32>, %l: tensor<8x1xf32>, %g: tensor<8x2xf32>) {
  // expected-error @+1 {{expected grads to be 'tensor<8x1xf32>' but got 'tensor<8x2xf32>'}}
  %0 = moe.row_logsumexp_grad %x, %l, %g : (tensor<8x16xf32>, tensor<8x1xf32>, tensor<8x2xf32>) -> tensor<8x16xf32>
  return
}

// -----

// moe.pick (C1).
func.func @invalid(%x: tensor<8x16xf16>, %labels: tensor<8xi32>) {
  // expected-error @+1 {{expected the result to be 'tensor<8x1xf32>' but got 'tensor<8x1xf64>'}}
  %0 = moe.pick %x, %labels : (tensor<8x16xf16>, tensor<8xi32>) -> tensor<8x1xf64>
  return
}

// -----

// moe.pick_grad (C1): grads.
func.func @invalid(%labels: tensor<8xi32>, %g: tensor<8x1xf64>) {
  // expected-error @+1 {{expected grads to be 'tensor<8x1xf32>' but got 'tensor<8x1xf64>'}}
  %0 = moe.pick_grad %labels, %g : (tensor<8xi32>, tensor<8x1xf64>) -> tensor<8x16xf16>
  return
}

// -----

// moe.pick_grad (C1): a label for each row.
func.func @invalid(%labels: tensor<4xi32>, %g: tensor<8x1xf32>) {
  // expected-error @+1 {{expected a label for each of the 8 rows but got 'tensor<4xi32>'}}
  %0 = moe.pick_grad %labels, %g : (tensor<4xi32>, tensor<8x1xf32>) -> tensor<8x16xf16>
  return
}

// -----

// moe.pick_grad (C1): the addend.
func.func @invalid(%labels: tensor<8xi32>, %g: tensor<8x1xf32>, %a: tensor<8x16xf32>) {
  // expected-error @+1 {{expected the addend to be 'tensor<8x16xf16>' but got 'tensor<8x16xf32>'}}
  %0 = moe.pick_grad %labels, %g addend(%a) : (tensor<8xi32>, tensor<8x1xf32>, tensor<8x16xf32>) -> tensor<8x16xf16>
  return
}

// -----

// moe.label_sum (C1): sums of f32 are f32.
func.func @invalid(%x: tensor<8x1xf32>, %labels: tensor<8xi32>) {
  // expected-error @+1 {{expected sum to be 'tensor<f32>' but got 'tensor<f64>'}}
  %0 = moe.label_sum %x, %labels : (tensor<8x1xf32>, tensor<8xi32>) -> tensor<f64>
  return
}

// -----

// moe.label_sum (C1): rows are a column.
func.func @invalid(%x: tensor<8x2xf32>, %labels: tensor<8xi32>) {
  // expected-error @+1 {{expected rows to be 'tensor<8x1xf32>' but got 'tensor<8x2xf32>'}}
  %0 = moe.label_sum %x, %labels : (tensor<8x2xf32>, tensor<8xi32>) -> tensor<f32>
  return
}

// -----

// moe.label_sum_grad (C1).
func.func @invalid(%labels: tensor<8xi32>, %g: tensor<f32>) {
  // expected-error @+1 {{expected the result to be 'tensor<8x1xf32>' but got 'tensor<8x1xf64>'}}
  %0 = moe.label_sum_grad %labels, %g : (tensor<8xi32>, tensor<f32>) -> tensor<8x1xf64>
  return
}

// -----

// moe.cross_entropy (C1): a loss of bf16 logits is f32.
func.func @invalid(%x: tensor<8x16xbf16>, %labels: tensor<8xi32>) {
  // expected-error @+1 {{expected the loss to be 'tensor<f32>' but got 'tensor<f64>'}}
  %0 = moe.cross_entropy %x, %labels : (tensor<8x16xbf16>, tensor<8xi32>) -> tensor<f64>
  return
}

// -----

// moe.layer (C8): so is the auxiliary loss.
func.func @invalid(%x: tensor<64x8xbf16>, %g: tensor<8x4xbf16>, %w1: tensor<4x8x16xbf16>, %w2: tensor<4x16x8xbf16>) {
  // expected-error @+1 {{result #1 must be 0-D tensor of f32 or f64, but got 'tensor<bf16>'}}
  %y, %aux = moe.layer "layer0" %x gate(%g) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>}
    : (tensor<64x8xbf16>, tensor<8x4xbf16>, tensor<4x8x16xbf16>, tensor<4x16x8xbf16>) -> (tensor<64x8xbf16>, tensor<bf16>)
  return
}

// -----

// moe.layer (C8): and the selection bias.
func.func @invalid(%x: tensor<64x8xbf16>, %g: tensor<8x4xbf16>, %b: tensor<4xf64>, %w1: tensor<4x8x16xbf16>, %w2: tensor<4x16x8xbf16>) {
  // expected-error @+1 {{expected selection_bias to be 'tensor<4xf32>' but got 'tensor<4xf64>'}}
  %y, %aux = moe.layer "layer0" %x gate(%g) selection_bias(%b) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>}
    : (tensor<64x8xbf16>, tensor<8x4xbf16>, tensor<4xf64>, tensor<4x8x16xbf16>, tensor<4x16x8xbf16>) -> (tensor<64x8xbf16>, tensor<f32>)
  return
}

// -----

// moe.cast: the shape stays.
func.func @invalid(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{requires the same shape for all operands and results}}
  %0 = moe.cast %x : (tensor<4x8xf32>) -> tensor<8x4xbf16>
  return
}
