// RUN: moe-opt %s -split-input-file -verify-diagnostics --pass-pipeline="builtin.module(func.func(moe-smart-schedule{group-size=2}))" -o %t
// RUN: FileCheck %s < %t --implicit-check-not=moe.chunk
// RUN: not moe-opt %s -split-input-file --pass-pipeline="builtin.module(func.func(moe-smart-schedule{group-size=-1}))" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not moe-opt %s -split-input-file --pass-pipeline="builtin.module(func.func(moe-smart-schedule{order=random}))" 2>&1 | FileCheck %s --check-prefix=ORDER

// SIZE: error: expected group-size of at least 0 but got -1
// ORDER: Cannot find option named 'random'!

// Rows that all members have at once are no phases'. It is said once for the whole program.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // CHECK-LABEL: func.func @capacity(
  // expected-remark @+1 {{moe-smart-schedule: no ragged exchange of this program can be divided; layers with a capacity have no ragged exchange, and a single group has no other groups to exchange with}}
  func.func @capacity(%x: tensor<8x4x16xf32>) -> tensor<8x4x16xf32> {
    %0 = moe.all_to_all %x over <"ep", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x4x16xf32>) -> tensor<2x16x16xf32>
    %1 = moe.all_to_all %0 over <"ep", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x16x16xf32>) -> tensor<8x4x16xf32>
    return %1 : tensor<8x4x16xf32>
  }
}

// -----

// Two ranks are one group, and so are three, of which a group of two would leave one.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @two(
  // expected-remark @+1 {{no ragged exchange of this program can be divided}}
  func.func @two(%x: tensor<24x8xf32>, %b: tensor<1x6xi32>, %e: tensor<2x3xi32>) -> tensor<24x8xf32> {
    %0 = moe.all_to_all_v %x, %b, %e over <"ep", 2, 1> {direction = #moe<direction to_experts>}
      : (tensor<24x8xf32>, tensor<1x6xi32>, tensor<2x3xi32>) -> tensor<24x8xf32>
    %1 = moe.all_to_all_v %0, %b, %e over <"ep", 2, 1> {direction = #moe<direction from_experts>}
      : (tensor<24x8xf32>, tensor<1x6xi32>, tensor<2x3xi32>) -> tensor<24x8xf32>
    return %1 : tensor<24x8xf32>
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 3, pp = 1, dp = 3, mp = 1, ep = 3, esp = 1>} {
  // CHECK-LABEL: func.func @three(
  // expected-remark @+1 {{no ragged exchange of this program can be divided}}
  func.func @three(%x: tensor<24x8xf32>, %b: tensor<1x6xi32>, %e: tensor<3x2xi32>) -> tensor<24x8xf32> {
    %0 = moe.all_to_all_v %x, %b, %e over <"ep", 3, 1> {direction = #moe<direction to_experts>}
      : (tensor<24x8xf32>, tensor<1x6xi32>, tensor<3x2xi32>) -> tensor<24x8xf32>
    %1 = moe.all_to_all_v %0, %b, %e over <"ep", 3, 1> {direction = #moe<direction from_experts>}
      : (tensor<24x8xf32>, tensor<1x6xi32>, tensor<3x2xi32>) -> tensor<24x8xf32>
    return %1 : tensor<24x8xf32>
  }
}

// -----

// All members hold each expert.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 1, esp = 4>} {
  // CHECK-LABEL: func.func @holders(
  // expected-remark @+1 {{no ragged exchange of this program can be divided}}
  func.func @holders(%x: tensor<16x8xf32>, %b: tensor<1x4xi32>, %e: tensor<4x4xi32>) -> tensor<16x8xf32> {
    %0 = moe.all_to_all_v %x, %b, %e over <"esp", 4, 1> {direction = #moe<direction to_experts>, copies = 4 : i64}
      : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<4x4xi32>) -> tensor<16x8xf32>
    %1 = moe.all_to_all_v %0, %b, %e over <"esp", 4, 1> {direction = #moe<direction from_experts>, copies = 4 : i64}
      : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<4x4xi32>) -> tensor<16x8xf32>
    return %1 : tensor<16x8xf32>
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  // An op that needs the rows of all phases.
  // CHECK-LABEL: func.func @other_op(
  // expected-remark @+1 {{no ragged exchange of this program can be divided}}
  func.func @other_op(%x: tensor<16x8xf32>, %w: tensor<8x8xf32>, %b: tensor<1x8xi32>, %e: tensor<4x2xi32>) -> tensor<16x8xf32> {
    // expected-warning @+1 {{moe-smart-schedule leaves this exchange as it is: 'moe.matmul' cannot be computed for a part of its rows}}
    %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>}
      : (tensor<16x8xf32>, tensor<1x8xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
    %1 = moe.matmul %0, %w : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
    %2 = moe.all_to_all_v %1, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>}
      : (tensor<64x8xf32>, tensor<1x8xi32>, tensor<4x2xi32>) -> tensor<16x8xf32>
    return %2 : tensor<16x8xf32>
  }

  // Rows that nothing is made of.
  // CHECK-LABEL: func.func @no_return(
  // expected-remark @+1 {{no ragged exchange of this program can be divided}}
  func.func @no_return(%x: tensor<16x8xf32>, %b: tensor<1x8xi32>, %e: tensor<4x2xi32>) -> tensor<16x8xf32> {
    // expected-warning @+1 {{as it is: not all results of the experts return in one exchange over the same group}}
    %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>}
      : (tensor<16x8xf32>, tensor<1x8xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
    return %x : tensor<16x8xf32>
  }

  // Rows of which some stay.
  // CHECK-LABEL: func.func @used_behind(
  // expected-remark @+1 {{no ragged exchange of this program can be divided}}
  func.func @used_behind(%x: tensor<16x8xf32>, %w: tensor<2x8x8xf32>, %b: tensor<1x8xi32>, %e: tensor<4x2xi32>) -> (tensor<16x8xf32>, tensor<64x8xf32>) {
    // expected-warning @+1 {{as it is: not all results of the experts return in one exchange over the same group}}
    %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>}
      : (tensor<16x8xf32>, tensor<1x8xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
    %1 = moe.grouped_matmul %0, %w counts(%e) : (tensor<64x8xf32>, tensor<2x8x8xf32>, tensor<4x2xi32>) -> tensor<64x8xf32>
    %2 = moe.all_to_all_v %1, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>}
      : (tensor<64x8xf32>, tensor<1x8xi32>, tensor<4x2xi32>) -> tensor<16x8xf32>
    return %2, %1 : tensor<16x8xf32>, tensor<64x8xf32>
  }

  // A phase is not divided further.
  // CHECK-LABEL: func.func @twice(
  // expected-remark @+1 {{no ragged exchange of this program can be divided}}
  func.func @twice(%x: tensor<16x8xf32>, %b: tensor<1x8xi32>, %e: tensor<4x2xi32>) -> tensor<16x8xf32> {
    %0 = moe.phase %e over <"ep", 4, 1> {phase = 0 : i64, phases = 2 : i64} : (tensor<4x2xi32>) -> tensor<2x2xi32>
    %1 = moe.all_to_all_v %x, %b, %0 over <"ep", 4, 1> {direction = #moe<direction to_experts>, phases = 2 : i64}
      : (tensor<16x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<64x8xf32>
    %2 = moe.all_to_all_v %1, %b, %0 over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 2 : i64}
      : (tensor<64x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
    return %2 : tensor<16x8xf32>
  }
}
