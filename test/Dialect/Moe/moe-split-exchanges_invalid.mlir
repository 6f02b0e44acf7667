// RUN: moe-opt %s --pass-pipeline="builtin.module(func.func(moe-split-exchanges{phases=-1}))" -verify-diagnostics

// A number of phases below 0 means nothing.
// expected-error @+1 {{expected phases to be at least 0 but got -1}}
func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  return %x : tensor<4x4xf32>
}
