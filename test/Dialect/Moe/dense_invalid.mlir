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
  // expected-error @+1 {{expected heads of equally many own columns, 6 in all, and 2 shared ones each but got 11 columns}}
  %0 = moe.append_to_heads %x, %s : (tensor<8x6xf32>, tensor<8x2xf32>) -> tensor<8x11xf32>
  return
}

// -----

// moe.append_to_heads (C1): as many heads as it says divide the own columns.
func.func @invalid(%x: tensor<8x6xf32>, %s: tensor<8x2xf32>) {
  // expected-error @+1 {{expected heads of equally many own columns, 6 in all, and 2 shared ones each but got 14 columns}}
  %0 = moe.append_to_heads %x, %s : (tensor<8x6xf32>, tensor<8x2xf32>) -> tensor<8x14xf32>
  return
}

// -----

// moe.append_to_heads (C1): there is a head.
func.func @invalid(%x: tensor<8x6xf32>, %s: tensor<8x2xf32>) {
  // expected-error @+1 {{expected heads of equally many own columns, 6 in all, and 2 shared ones each but got 6 columns}}
  %0 = moe.append_to_heads %x, %s : (tensor<8x6xf32>, tensor<8x2xf32>) -> tensor<8x6xf32>
  return
}

// -----

// moe.append_to_heads (C1): with shared columns.
func.func @invalid(%x: tensor<8x6xf32>, %s: tensor<8x0xf32>) {
  // expected-error @+1 {{expected heads of equally many own columns, 6 in all, and 0 shared ones each but got 6 columns}}
  %0 = moe.append_to_heads %x, %s : (tensor<8x6xf32>, tensor<8x0xf32>) -> tensor<8x6xf32>
  return
}

// -----

// moe.append_to_heads (C1): and with own ones.
func.func @invalid(%x: tensor<8x0xf32>, %s: tensor<8x2xf32>) {
  // expected-error @+1 {{expected heads of equally many own columns, 0 in all, and 2 shared ones each but got 4 columns}}
  %0 = moe.append_to_heads %x, %s : (tensor<8x0xf32>, tensor<8x2xf32>) -> tensor<8x4xf32>
  return
}

// -----

// moe.append_to_heads_grad (C1): the same of its results.
func.func @invalid(%g: tensor<8x12xf32>) {
  // expected-error @+1 {{'moe.append_to_heads_grad' op expected heads of equally many own columns, 8 in all, and 3 shared ones each but got 12 columns}}
  %0, %1 = moe.append_to_heads_grad %g : (tensor<8x12xf32>) -> (tensor<8x8xf32>, tensor<8x3xf32>)
  return
}
