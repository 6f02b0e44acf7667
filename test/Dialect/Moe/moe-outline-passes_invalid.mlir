// RUN: moe-opt %s -split-input-file -verify-diagnostics --moe-outline-passes

// A result that others use is no sum with a value from outside: with another number of passes it would be another one.
func.func @no_sum(%s: tensor<16x2xi32>, %g: tensor<4x8xi32>, %n: tensor<1xi32>, %x: tensor<16x8xf32>) -> tensor<32x8xf32> {
  %left, %slots, %counts = moe.window %s, %g before(%n) over <"ep", 4, 1> {moe.pass = "pass0", rows = 40 : i64, workers = 4 : i64}
    : (tensor<16x2xi32>, tensor<4x8xi32>, tensor<1xi32>) -> (tensor<1xi32>, tensor<16x2xi32>, tensor<1x8xi32>)
  // expected-error @+1 {{expected what a pass of rows gives to others to be a sum with a value from outside}}
  %0 = moe.dispatch %x, %slots {moe.pass = "pass0"} : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
  return %0 : tensor<32x8xf32>
}

// -----

// The pass uses the sum once more, which is another value in each run.
func.func @twice(%s: tensor<16x2xi32>, %g: tensor<4x8xi32>, %n: tensor<1xi32>, %x: tensor<16x8xf32>, %y: tensor<32x8xf32>) -> tensor<32x8xf32> {
  %left, %slots, %counts = moe.window %s, %g before(%n) over <"ep", 4, 1> {moe.pass = "pass0", rows = 40 : i64, workers = 4 : i64}
    : (tensor<16x2xi32>, tensor<4x8xi32>, tensor<1xi32>) -> (tensor<1xi32>, tensor<16x2xi32>, tensor<1x8xi32>)
  %0 = moe.dispatch %x, %slots {moe.pass = "pass0"} : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
  // expected-error @+1 {{expected a sum of a pass of rows to be the only op of the pass that uses it, and what it adds to}}
  %1 = moe.add %y, %0 {moe.pass = "pass0"} : tensor<32x8xf32>
  %2 = moe.scale %1 {factor = 2.0 : f64, moe.pass = "pass0"} : tensor<32x8xf32>
  return %1 : tensor<32x8xf32>
}

// -----

// Without a window, nothing says how often.
func.func @no_window(%x: tensor<16x8xf32>, %y: tensor<16x8xf32>) -> tensor<16x8xf32> {
  // expected-error @+1 {{expected a moe.window in a pass of rows}}
  %0 = moe.add %x, %x {moe.pass = "pass0"} : tensor<16x8xf32>
  %1 = moe.add %y, %0 {moe.pass = "pass0"} : tensor<16x8xf32>
  return %1 : tensor<16x8xf32>
}
