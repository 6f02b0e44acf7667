// RUN: moe-opt %s -split-input-file --moe-repeat-micro-batches=micro-batches=5 -verify-diagnostics

// Two micro-batches do not show what is handed on.
// expected-error @+1 {{expected three micro-batches, the last two of which have equally many ops, and a number of micro-batches from 3 to 8 but got 5}}
func.func @two(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = moe.scale %x {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 8>} : tensor<4xf32>
  %1 = moe.scale %0 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<1 of 8>} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// The last one differs.
func.func @differs(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = moe.scale %x {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 8>} : tensor<4xf32>
  // expected-error @+1 {{expected micro-batches that are alike, but this op has no like in the next one}}
  %1 = moe.scale %0 {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<1 of 8>} : tensor<4xf32>
  %2 = moe.scale %1 {factor = 3.0 : f64, moe.micro_batch = #moe.chunk<2 of 8>} : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// A result of every micro-batch is not one of the last.
func.func @kept(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = moe.scale %x {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<0 of 8>} : tensor<4xf32>
  %1 = moe.scale %x {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<1 of 8>} : tensor<4xf32>
  %2 = moe.scale %x {factor = 2.0 : f64, moe.micro_batch = #moe.chunk<2 of 8>} : tensor<4xf32>
  // expected-error @+1 {{expected micro-batches that are alike, but this op takes a value that is not of the last one}}
  %3 = moe.add %1, %2 : tensor<4xf32>
  return %3 : tensor<4xf32>
}
