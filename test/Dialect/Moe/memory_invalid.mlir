// RUN: moe-opt %s -verify-diagnostics -split-input-file

// moe.split (C1): the number of parts divides dimension 0.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{expected a number of parts that divides dimension 0 of 'tensor<8x4xf32>' but got 3}}
  %0:3 = moe.split %x : (tensor<8x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

// moe.split (C1): there are parts.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{expected a number of parts that divides dimension 0 of 'tensor<8x4xf32>' but got 0}}
  moe.split %x : (tensor<8x4xf32>) -> ()
  return
}

// -----

// moe.split (C1): there is a dimension 0.
func.func @invalid(%x: tensor<f32>) {
  // expected-error @+1 {{expected a number of parts that divides dimension 0 of 'tensor<f32>' but got 2}}
  %0:2 = moe.split %x : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

// moe.split (C1): the parts are equal.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{expected each of 2 parts of 'tensor<8x4xf32>' to be 'tensor<4x4xf32>' but got 'tensor<5x4xf32>'}}
  %0:2 = moe.split %x : (tensor<8x4xf32>) -> (tensor<5x4xf32>, tensor<3x4xf32>)
  return
}

// -----

// moe.split (C1): dimension 0 is divided.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{expected each of 2 parts of 'tensor<8x4xf32>' to be 'tensor<4x4xf32>' but got 'tensor<8x2xf32>'}}
  %0:2 = moe.split %x : (tensor<8x4xf32>) -> (tensor<8x2xf32>, tensor<8x2xf32>)
  return
}

// -----

// moe.split (C1): the element type stays.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{to be 'tensor<4x4xf32>' but got 'tensor<4x4xf64>'}}
  %0:2 = moe.split %x : (tensor<8x4xf32>) -> (tensor<4x4xf64>, tensor<4x4xf64>)
  return
}

// -----

// moe.concat (C1): all parts have one type.
func.func @invalid(%a: tensor<4x4xf32>, %b: tensor<2x4xf32>) {
  // expected-error @+1 {{expected each of 2 parts of 'tensor<8x4xf32>' to be 'tensor<4x4xf32>' but got 'tensor<2x4xf32>'}}
  %0 = moe.concat %a, %b : (tensor<4x4xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// moe.concat (C1): the result has as many rows as all parts.
func.func @invalid(%a: tensor<4x4xf32>) {
  // expected-error @+1 {{expected each of 2 parts of 'tensor<16x4xf32>' to be 'tensor<8x4xf32>' but got 'tensor<4x4xf32>'}}
  %0 = moe.concat %a, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
  return
}

// -----

// A copy on the host is of the type that it is a copy of.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = "moe.offload"(%x) : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

// So is one of it.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = "moe.fetch"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf64>
  return
}

// -----

// moe.grouped_matmul_wgrad: what is added is like the product.
func.func @invalid(%r: tensor<2x4x8xf32>, %g: tensor<2x4x16xf32>, %w: tensor<2x16x8xf32>) {
  // expected-error @+1 {{expected the addend to be 'tensor<2x8x16xf32>' but got 'tensor<2x16x8xf32>'}}
  %0 = moe.grouped_matmul_wgrad %r, %g addend(%w) : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x16x8xf32>) -> tensor<2x8x16xf32>
  return
}

// -----

// moe.bias_grad: what is added is like the sum.
func.func @invalid(%g: tensor<2x4x16xf32>, %b: tensor<16xf32>) {
  // expected-error @+1 {{expected the addend to be 'tensor<2x16xf32>' but got 'tensor<16xf32>'}}
  %0 = moe.bias_grad %g addend(%b) : (tensor<2x4x16xf32>, tensor<16xf32>) -> tensor<2x16xf32>
  return
}

// -----

// moe.route (C1): there is a row of counts for each chunk.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected counts to be [2, 4] but got 'tensor<1x4xi32>'}}
  %0:6 = moe.route %l {capacity = 8 : i64, chunks = 2 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C4): the capacity is divided by the chunks.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected chunks to divide the 8 rows of an expert but got 3}}
  %0:6 = moe.route %l {capacity = 8 : i64, chunks = 3 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<3x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C4): the rows of all groups are.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected chunks to divide the 6 rows of an expert but got 4}}
  %0:6 = moe.route %l {capacity = 3 : i64, groups = 2 : i64, chunks = 4 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<4x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C4): with a capacity the chunks have room for the choices of all groups, 16 of each expert.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected room for 8 rows in a chunk but got chunk_rows 7}}
  %0:6 = moe.route %l {capacity = 8 : i64, groups = 2 : i64, chunks = 2 : i64, chunk_rows = 7 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<2x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C4): dropless, a chunk has room for every choice of its tokens: 6 of 16 in the largest of three.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected room for 12 rows in a chunk but got chunk_rows 11}}
  %0:6 = moe.route %l {chunks = 3 : i64, chunk_rows = 11 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<3x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C4): dropless chunks have room.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected room for 16 rows in a chunk but got chunk_rows 0}}
  %0:6 = moe.route %l {chunks = 2 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<2x4xi32>, tensor<f32>)
  return
}

// -----

// moe.route (C4): there is a chunk.
func.func @invalid(%l: tensor<16x4xf32>) {
  // expected-error @+1 {{expected chunks to divide the 8 rows of an expert but got 0}}
  %0:6 = moe.route %l {capacity = 8 : i64, chunks = 0 : i64}
    : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<0x4xi32>, tensor<f32>)
  return
}

// -----

// A chunk is one of those that there are.
// expected-error @+1 {{expected a chunk with 0 <= index < chunks but got 2 of 2}}
func.func @invalid() attributes {test.chunk = #moe.chunk<2 of 2>} {
  return
}

// -----

// It is none before the first.
// expected-error @+1 {{expected a chunk with 0 <= index < chunks but got -1 of 2}}
func.func @invalid() attributes {test.chunk = #moe.chunk<-1 of 2>} {
  return
}

// -----

// A ring has a place.
// expected-error @+1 {{expected a ring of depth at least 1 but got 0}}
func.func @invalid() attributes {test.ring = #moe.ring<"hidden", 0>} {
  return
}

// -----

// There are four ways to have a value of the forward.
// expected-error @+2 {{expected ::mlir::moe::Residual to be one of: keep, recompute, recommunicate, offload}}
// expected-error @+1 {{failed to parse Moe_ResidualAttr}}
func.func @invalid() attributes {test.residual = #moe<residual swap>} {
  return
}

// -----

// On ops each has its kind of attribute.
func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 'moe.chunk' to be a #moe.chunk but got 1 : i64}}
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.chunk = 1 : i64} : tensor<8x4xf32>
  return
}

// -----

func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 'moe.ring' to be a #moe.ring but got "hidden"}}
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.ring = "hidden"} : tensor<8x4xf32>
  return
}

// -----

func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 'moe.residual' to be a #moe<residual ..> but got "keep"}}
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.residual = "keep"} : tensor<8x4xf32>
  return
}

// -----

func.func @invalid(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{expected 'moe.repeated' to be without a value but got true}}
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.repeated = true} : tensor<8x4xf32>
  return
}

// -----

// They are attributes of the dialect's own ops.
// expected-error @+1 {{expected 'moe.chunk' on an argument or result of a function only}}
func.func @invalid() attributes {moe.chunk = #moe.chunk<0 of 2>} {
  return
}
