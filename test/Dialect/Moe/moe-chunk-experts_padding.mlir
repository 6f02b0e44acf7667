// RUN: moe-opt %s -verify-diagnostics --pass-pipeline="builtin.module(func.func(moe-chunk-experts{chunks=3}))" | FileCheck %s

// Rows that cannot be divided evenly. 8 of an expert are in 3 chunks of 3; the last row stays empty, since the capacity is 8.

// CHECK-LABEL: func.func @padded(
// CHECK:         moe.route {{.*}} {capacity = 8 : i64, chunk_rows = 3 : i64, chunks = 3 : i64}
// CHECK:         moe.dispatch {{.*}} -> tensor<12x3x8xf32>
// CHECK:         moe.grouped_matmul {{.*}} -> tensor<4x3x8xf32>
func.func @padded(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>, %w: tensor<4x8x8xf32>) -> tensor<16x8xf32> {
  // expected-remark @+1 {{moe-chunk-experts: expected 8 rows of an expert to be divisible into 3 chunks; the buffer is padded to 9}}
  %0:6 = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  %2 = moe.grouped_matmul %1, %w : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %3 = moe.combine %2, %0#2 weights(%0#3) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %3 : tensor<16x8xf32>
}

// Two groups have 2 * 5 rows: 3 chunks of 4.
// CHECK-LABEL: func.func @groups(
// CHECK:         moe.route {{.*}} {capacity = 5 : i64, chunk_rows = 4 : i64, chunks = 3 : i64, groups = 2 : i64}
// CHECK:         moe.dispatch {{.*}} -> tensor<12x4x8xf32>
func.func @groups(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>, %w: tensor<4x8x8xf32>) -> tensor<16x8xf32> {
  // expected-remark @+1 {{expected 10 rows of an expert to be divisible into 3 chunks; the buffer is padded to 12}}
  %0:6 = moe.route %l {capacity = 5 : i64, groups = 2 : i64} : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x10x8xf32>
  %2 = moe.grouped_matmul %1, %w : (tensor<4x10x8xf32>, tensor<4x8x8xf32>) -> tensor<4x10x8xf32>
  %3 = moe.combine %2, %0#2 weights(%0#3) : (tensor<4x10x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %3 : tensor<16x8xf32>
}

// The members of mp share the rows of a chunk: of 6, three chunks of 2, without padding.
// CHECK-LABEL: func.func @shared(
// CHECK:         moe.route {{.*}} {capacity = 6 : i64, chunk_rows = 2 : i64, chunks = 3 : i64}
// CHECK:         moe.slice {{.*}} -> tensor<4x1x8xf32>
func.func @shared(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>, %w: tensor<4x8x8xf32>) -> tensor<16x8xf32> {
  %0:6 = moe.route %l {capacity = 6 : i64} : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x6x8xf32>
  %2 = moe.slice %1 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<4x6x8xf32>) -> tensor<4x3x8xf32>
  %3 = moe.grouped_matmul %2, %w : (tensor<4x3x8xf32>, tensor<4x8x8xf32>) -> tensor<4x3x8xf32>
  %4 = moe.all_gather %3 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<4x3x8xf32>) -> tensor<4x6x8xf32>
  %5 = moe.combine %4, %0#2 weights(%0#3) : (tensor<4x6x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %5 : tensor<16x8xf32>
}

// Both: 5 choices have 8 rows already, of which three chunks that two members share have 4 each.
// CHECK-LABEL: func.func @padded_twice(
// CHECK:         moe.route {{.*}} {capacity = 5 : i64, chunk_rows = 4 : i64, chunks = 3 : i64}
// CHECK:         moe.slice {{.*}} -> tensor<4x2x8xf32>
func.func @padded_twice(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>, %w: tensor<4x8x8xf32>) -> tensor<16x8xf32> {
  // expected-remark @+1 {{expected 8 rows of an expert to be divisible into 3 chunks; the buffer is padded to 12}}
  %0:6 = moe.route %l {capacity = 5 : i64, chunk_rows = 8 : i64} : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
  %2 = moe.slice %1 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  %3 = moe.grouped_matmul %2, %w : (tensor<4x4x8xf32>, tensor<4x8x8xf32>) -> tensor<4x4x8xf32>
  %4 = moe.all_gather %3 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
  %5 = moe.combine %4, %0#2 weights(%0#3) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %5 : tensor<16x8xf32>
}

// Dropless, 16 tokens are chunks of 5, 5 and 6 with room for 12 choices each; nothing is said, since no capacity changes.
// CHECK-LABEL: func.func @room(
// CHECK:         moe.route {{.*}} {chunk_rows = 12 : i64, chunks = 3 : i64}
// CHECK:         moe.dispatch {{.*}} -> tensor<36x8xf32>
// CHECK:         moe.split {{.*}} : (tensor<3x4xi32>) -> (tensor<1x4xi32>, tensor<1x4xi32>, tensor<1x4xi32>)
func.func @room(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>, %w: tensor<4x8x8xf32>) -> tensor<16x8xf32> {
  %0:6 = moe.route %l : (tensor<16x4xf32>)
    -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
  %2 = moe.grouped_matmul %1, %w counts(%0#4) : (tensor<32x8xf32>, tensor<4x8x8xf32>, tensor<1x4xi32>) -> tensor<32x8xf32>
  %3 = moe.combine %2, %0#2 weights(%0#3) : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %3 : tensor<16x8xf32>
}
