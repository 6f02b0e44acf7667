// RUN: moe-opt %s -split-input-file -verify-diagnostics --pass-pipeline="builtin.module(func.func(moe-chunk-experts{chunks=2}))" -o %t
// RUN: FileCheck %s < %t --implicit-check-not=moe.chunk
// RUN: not moe-opt %s --pass-pipeline="builtin.module(func.func(moe-chunk-experts{chunks=0}))" 2>&1 | FileCheck %s --check-prefix=CHUNKS
// RUN: not moe-opt %s --pass-pipeline="builtin.module(func.func(moe-chunk-experts{chunks=2 hidden-ring=-1}))" 2>&1 | FileCheck %s --check-prefix=RING

// CHUNKS: error: expected chunks from 1 to 1024 and rings of at least 0 but got 0, 2 and 1
// RING: error: expected chunks from 1 to 1024 and rings of at least 0 but got 2, 2 and -1

// Slots of unknown origin.
// CHECK-LABEL: func.func @no_route(
func.func @no_route(%x: tensor<16x8xf32>, %s: tensor<16x2xi32>, %w: tensor<16x2xf32>) -> tensor<16x8xf32> {
  // expected-warning @+1 {{moe-chunk-experts leaves this layer as it is: the slots of its dispatch do not come from a routing}}
  %0 = moe.dispatch %x, %s : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  %1 = moe.combine %0, %s weights(%w) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %1 : tensor<16x8xf32>
}

// -----

// Rows that do not return.
// CHECK-LABEL: func.func @no_combine(
func.func @no_combine(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>) -> tensor<4x8x8xf32> {
  %0:6 = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // expected-warning @+1 {{as it is: its rows do not return to a moe.combine of the same routing}}
  %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  return %1 : tensor<4x8x8xf32>
}

// -----

// Dispatched rows that are needed later.
// CHECK-LABEL: func.func @dispatched_behind(
func.func @dispatched_behind(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>, %w: tensor<4x8x8xf32>) -> (tensor<16x8xf32>, tensor<4x8x8xf32>) {
  %0:6 = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // expected-warning @+1 {{as it is: its dispatched rows are also used after its combine}}
  %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  %2 = moe.grouped_matmul %1, %w : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %3 = moe.combine %2, %0#2 weights(%0#3) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %3, %1 : tensor<16x8xf32>, tensor<4x8x8xf32>
}

// -----

// A result of the experts is needed elsewhere.
// CHECK-LABEL: func.func @hidden_behind(
func.func @hidden_behind(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>, %w: tensor<4x8x8xf32>) -> (tensor<16x8xf32>, tensor<4x8x8xf32>) {
  %0:6 = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // expected-warning @+1 {{as it is: the result of 'moe.grouped_matmul' is also used after its combine}}
  %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  %2 = moe.grouped_matmul %1, %w : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %3 = moe.combine %2, %0#2 weights(%0#3) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %3, %2 : tensor<16x8xf32>, tensor<4x8x8xf32>
}

// -----

// Other rows that return.
// CHECK-LABEL: func.func @other_rows(
func.func @other_rows(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>, %r: tensor<4x8x8xf32>) -> tensor<16x8xf32> {
  %0:6 = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // expected-warning @+1 {{as it is: its combined rows are not computed from its dispatched rows}}
  %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  %2 = moe.combine %r, %0#2 weights(%0#3) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %2 : tensor<16x8xf32>
}

// -----

// An op that needs all rows of an expert at once.
// CHECK-LABEL: func.func @unchunkable(
func.func @unchunkable(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>) -> tensor<16x8xf32> {
  %0:6 = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // expected-warning @+1 {{as it is: 'moe.grouped_matmul_wgrad' cannot be computed for a part of its rows}}
  %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  %2 = moe.grouped_matmul_wgrad %1, %1 : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %3 = moe.combine %2, %0#2 weights(%0#3) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %3 : tensor<16x8xf32>
}

// -----

// Chunks of chunks.
// CHECK-LABEL: func.func @twice(
func.func @twice(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>, %w: tensor<16x8x8xf32>) -> tensor<16x8xf32> {
  %0:6 = moe.route %l {capacity = 8 : i64, chunks = 4 : i64} : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<4x4xi32>, tensor<f32>)
  // expected-warning @+1 {{as it is: it is already in chunks}}
  %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<16x2x8xf32>
  %2 = moe.grouped_matmul %1, %w : (tensor<16x2x8xf32>, tensor<16x8x8xf32>) -> tensor<16x2x8xf32>
  %3 = moe.combine %2, %0#2 weights(%0#3) : (tensor<16x2x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %3 : tensor<16x8xf32>
}

// -----

// The combine without weights is none of a layer.
// CHECK-LABEL: func.func @no_weights(
func.func @no_weights(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>) -> tensor<16x8xf32> {
  %0:6 = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // expected-warning @+1 {{as it is: its rows do not return to a moe.combine of the same routing}}
  %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  %2 = moe.combine %1, %0#2 : (tensor<4x8x8xf32>, tensor<16x2xi32>) -> tensor<16x8xf32>
  return %2 : tensor<16x8xf32>
}
