// RUN: moe-opt %s --moe-accumulate=micro-batches=2 -verify-diagnostics

// What is not a mean over micro-batches cannot be a result.
// expected-error @+1 {{expected losses and metrics as the only results of a step in micro-batches but got output as the role of result 0}}
func.func @model(%x: tensor<8x4xf32> {moe.name = "x", moe.role = "input"})
    -> (tensor<8x4xf32> {moe.name = "y", moe.role = "output"}) {
  return %x : tensor<8x4xf32>
}
