// RUN: moe-opt %s -verify-diagnostics -split-input-file

// moe.append_to_heads (C1): x has as many rows.
func.func @invalid(%x: tensor<4x6xf32>, %s: tensor<8x2xf32>) {
  // expected-error @+1 {{'moe.append_to_heads' op expected the heads' own columns to be 'tensor<8x6xf32>' but got 'tensor<4x6xf32>'}}
  %0 = moe.append_to_heads %x, %s : (tensor<4x6xf32>, tensor<8x2xf32>) -> tensor<8x12xf32>
  return
}

// -----

// moe.append_to_heads (C1): and shared, of the same element type.
func.func @invalid(%x: tensor<8x6xf32>, %s: tensor<8x2xf64>) {
  // expected-error @+1 {{expected the shared columns to be 'tensor<8x2xf32>' but got 'tensor<8x2xf64>'}}
  %0 = moe.append_to_heads %x, %s : (tensor<8x6xf32>, tensor<8x2xf64>) -> tensor<8x12xf32>
  return
}

// -----

// moe.append_to_heads (C1): the result has all shared columns in each head.
func.func @invalid(%x: tensor<8x6xf32>, %s: tensor<8x2xf32>) {
  // expected-error @+1 {{expected heads that divide the 6 own columns equally and have 2 shared columns each but got 11 columns}}
  %0 = moe.append_to_heads %x, %s : (tensor<8x6xf32>, tensor<8x2xf32>) -> tensor<8x11xf32>
  return
}

// -----

// moe.append_to_heads (C1): as many heads as it says divide the own columns.
func.func @invalid(%x: tensor<8x6xf32>, %s: tensor<8x2xf32>) {
  // expected-error @+1 {{expected heads that divide the 6 own columns equally and have 2 shared columns each but got 14 columns}}
  %0 = moe.append_to_heads %x, %s : (tensor<8x6xf32>, tensor<8x2xf32>) -> tensor<8x14xf32>
  return
}

// -----

// moe.append_to_heads (C1): there is a head.
func.func @invalid(%x: tensor<8x6xf32>, %s: tensor<8x2xf32>) {
  // expected-error @+1 {{expected heads that divide the 6 own columns equally and have 2 shared columns each but got 6 columns}}
  %0 = moe.append_to_heads %x, %s : (tensor<8x6xf32>, tensor<8x2xf32>) -> tensor<8x6xf32>
  return
}

// -----

// moe.append_to_heads (C1): with shared columns.
func.func @invalid(%x: tensor<8x6xf32>, %s: tensor<8x0xf32>) {
  // expected-error @+1 {{expected heads that divide the 6 own columns equally and have 0 shared columns each but got 6 columns}}
  %0 = moe.append_to_heads %x, %s : (tensor<8x6xf32>, tensor<8x0xf32>) -> tensor<8x6xf32>
  return
}

// -----

// moe.append_to_heads (C1): and with own ones.
func.func @invalid(%x: tensor<8x0xf32>, %s: tensor<8x2xf32>) {
  // expected-error @+1 {{expected heads that divide the 0 own columns equally and have 2 shared columns each but got 4 columns}}
  %0 = moe.append_to_heads %x, %s : (tensor<8x0xf32>, tensor<8x2xf32>) -> tensor<8x4xf32>
  return
}

// -----

// moe.append_to_heads_grad (C1): the same of its results.
func.func @invalid(%g: tensor<8x12xf32>) {
  // expected-error @+1 {{'moe.append_to_heads_grad' op expected heads that divide the 8 own columns equally and have 3 shared columns each but got 12 columns}}
  %0, %1 = moe.append_to_heads_grad %g : (tensor<8x12xf32>) -> (tensor<8x8xf32>, tensor<8x3xf32>)
  return
}

// -----

// moe.rotary (C3): a span of positions is not empty.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{expected base, factor and span to be positive and reach to be at least 0}}
  %0 = moe.rotary %x {period = 4 : i64, head_dim = 4 : i64, rotary_dim = 4 : i64, base = 1.0e4 : f64, span = 0.0 : f64} : tensor<8x8xf32>
  return
}

// -----

// moe.rotary (C3): nor is the reach negative.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{expected base, factor and span to be positive and reach to be at least 0}}
  %0 = moe.rotary %x {period = 4 : i64, head_dim = 4 : i64, rotary_dim = 4 : i64, base = 1.0e4 : f64, reach = -1.0 : f64} : tensor<8x8xf32>
  return
}

// -----

// moe.rotary (C4): YaRN's bounds.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{expected low below high but got 4.000000e+00 and 1.000000e+00}}
  %0 = moe.rotary %x {period = 4 : i64, head_dim = 4 : i64, rotary_dim = 4 : i64, base = 1.0e4 : f64, factor = 8.0 : f64, low = 4.0 : f64, high = 1.0 : f64} : tensor<8x8xf32>
  return
}

// -----

// moe.rotary (C4): Llama 3's.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{expected low above high but got 1.000000e+00 and 4.000000e+00}}
  %0 = moe.rotary %x {period = 4 : i64, head_dim = 4 : i64, rotary_dim = 4 : i64, base = 1.0e4 : f64, factor = 8.0 : f64, low = 1.0 : f64, high = 4.0 : f64, reach = 64.0 : f64} : tensor<8x8xf32>
  return
}

// -----

// moe.clamp (C1): a limit.
func.func @invalid(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'moe.clamp' op expected limit to be positive but got 0.000000e+00}}
  %0 = moe.clamp %x {limit = 0.0 : f64} : tensor<8x8xf32>
  return
}

// -----

// moe.embedding (C2).
func.func @invalid(%ids: tensor<8xi32>, %t: tensor<16x4xf32>) {
  // expected-error @+1 {{expected padding below the 32 rows of the whole table but got 32}}
  %0 = moe.embedding %ids, %t {parts = 2 : i64, padding = 32 : i64} : (tensor<8xi32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// moe.activation (C3).
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{expected alpha and limit to be positive but got 1.702000e+00 and 0.000000e+00}}
  %0 = moe.activation %x {kind = #moe<activation swiglu_clamped>, limit = 0.0 : f64} : (tensor<8x4xf32>) -> tensor<8x2xf32>
  return
}

// -----

// moe.router_means (C1).
func.func @invalid(%l: tensor<8x4xf32>) {
  // expected-error @+1 {{expected groups that divide the 8 tokens but got 3}}
  %0, %1, %2 = moe.router_means %l {top_k = 1 : i64} : (tensor<8x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x1xf32>)
  return
}

// -----

// moe.router_means (C1): means of bf16 are f32.
func.func @invalid(%l: tensor<8x4xbf16>) {
  // expected-error @+1 {{expected shares to be 'tensor<1x4xf32>' but got 'tensor<1x4xf64>'}}
  %0, %1, %2 = moe.router_means %l {top_k = 1 : i64} : (tensor<8x4xbf16>) -> (tensor<1x4xf32>, tensor<1x4xf64>, tensor<1x1xf32>)
  return
}

// -----

// moe.router_means (C2).
func.func @invalid(%l: tensor<8x4xf32>) {
  // expected-error @+1 {{expected top_k to be between 1 and 4 but got 5}}
  %0, %1, %2 = moe.router_means %l {top_k = 5 : i64} : (tensor<8x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x1xf32>)
  return
}

// -----

// moe.router_loss (C1).
func.func @invalid(%l: tensor<2x4xf32>, %z: tensor<1x1xf32>) {
  // expected-error @+1 {{expected squares to be 'tensor<2x1xf32>' but got 'tensor<1x1xf32>'}}
  %0 = moe.router_loss %l, %l, %z {balance = 1.0 : f64, square = 0.0 : f64}
    : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<1x1xf32>) -> tensor<f32>
  return
}
