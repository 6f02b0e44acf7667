// RUN: moe-opt %s --moe-accumulate=micro-batches=2 -verify-diagnostics

// Only a mean over micro-batches can be a result.
// expected-error @+1 {{expected a step in micro-batches to have only results of role loss or metric but got role output of result 0}}
func.func @model(%x: tensor<8x4xf32> {moe.name = "x", moe.role = "input"})
    -> (tensor<8x4xf32> {moe.name = "y", moe.role = "output"}) {
  return %x : tensor<8x4xf32>
}
