// RUN: moe-opt %s -split-input-file -verify-diagnostics

// moe.repeat (C1): it may run.
func.func private @same(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @repeat_c1_most(%n: tensor<1xi32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{expected 'most' to be at least 1 but got 0}}
  %0 = moe.repeat @same %n of 0 carried(%x) inputs() : (tensor<1xi32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// moe.repeat (C1): one number.
func.func private @same(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @repeat_c1_times(%n: tensor<2xi32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{expected times to be [1] but got 'tensor<2xi32>'}}
  %0 = moe.repeat @same %n of 1 carried(%x) inputs() : (tensor<2xi32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// moe.repeat (C2): a function of these types.
func.func private @other(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func @repeat_c2(%n: tensor<1xi32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{expected a function @other of the types of carried and inputs, with results of the types of carried}}
  %0 = moe.repeat @other %n of 1 carried(%x) inputs() : (tensor<1xi32>, tensor<4xf32>) -> tensor<4xf32>
  return
}
