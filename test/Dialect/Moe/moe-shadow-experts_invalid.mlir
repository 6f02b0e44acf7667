// RUN: moe-opt %s -split-input-file -verify-diagnostics --pass-pipeline="builtin.module(func.func(moe-shadow-experts))" -o %t
// RUN: FileCheck %s < %t --implicit-check-not=moe.choose_shadows --implicit-check-not=moe.broadcast_experts
// RUN: not moe-opt %s -split-input-file --pass-pipeline="builtin.module(func.func(moe-shadow-experts{max=-1}))" 2>&1 | FileCheck %s --check-prefix=MAX
// RUN: not moe-opt %s -split-input-file --pass-pipeline="builtin.module(func.func(moe-shadow-experts{phases=0}))" 2>&1 | FileCheck %s --check-prefix=PHASES
// RUN: not moe-opt %s -split-input-file --pass-pipeline="builtin.module(func.func(moe-shadow-experts{policy=best}))" 2>&1 | FileCheck %s --check-prefix=POLICY

// MAX: error: expected max of at least 0 and phases of at least 1 but got -1 and 1
// PHASES: error: expected max of at least 0 and phases of at least 1 but got 0 and 0
// POLICY: Cannot find option named 'best'!

// With a capacity each expert has as many rows, whatever the tokens choose.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @capacity(
  func.func @capacity(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %l: tensor<16x4xf32> {moe.layout = #moe.layout<[dp], []>},
                      %w: tensor<2x8x8xf32> {moe.layout = #moe.layout<[dp], [], []>}) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %0:6 = moe.route %l {capacity = 8 : i64} : (tensor<16x4xf32>)
      -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    // expected-warning @+1 {{moe-shadow-experts leaves this layer as it is: shadows save exchanged rows only in a dropless layer}}
    %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
    %2 = moe.all_to_all %1 over <"ep", 2, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<2x16x8xf32>
    %3 = moe.grouped_matmul %2, %w : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32>
    %4 = moe.all_to_all %3 over <"ep", 2, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x16x8xf32>) -> tensor<4x8x8xf32>
    %5 = moe.combine %4, %0#2 weights(%0#3) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    return %5 : tensor<16x8xf32>
  }
}

// -----

// Rows that are not exchanged are where they should be.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @no_exchange(
  func.func @no_exchange(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>, %w: tensor<4x8x8xf32>) -> tensor<16x8xf32> {
    %0:6 = moe.route %l : (tensor<16x4xf32>)
      -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    // expected-warning @+1 {{as it is: shadows save exchanged rows only in a dropless layer}}
    %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
    %2 = moe.grouped_matmul %1, %w counts(%0#4) : (tensor<32x8xf32>, tensor<4x8x8xf32>, tensor<1x4xi32>) -> tensor<32x8xf32>
    %3 = moe.combine %2, %0#2 weights(%0#3) : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    return %3 : tensor<16x8xf32>
  }
}

// -----

// Chunks of a layer have counts of their own.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @chunks(
  func.func @chunks(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>) -> tensor<16x8xf32> {
    %0:6 = moe.route %l {chunks = 2 : i64, chunk_rows = 16 : i64} : (tensor<16x4xf32>)
      -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<2x4xi32>, tensor<f32>)
    // expected-warning @+1 {{as it is: it already has shadows or chunks}}
    %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
    %2 = moe.scale %1 {factor = 2.0 : f64} : tensor<32x8xf32>
    %3 = moe.combine %2, %0#2 weights(%0#3) : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    return %3 : tensor<16x8xf32>
  }
}

// -----

// A second time: the experts' way has a warning, the shadows' is none of experts.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @shadows(
  func.func @shadows(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>, %s: tensor<1x4xi32>) -> tensor<16x8xf32> {
    %0:6 = moe.route %l : (tensor<16x4xf32>)
      -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %1:4 = moe.divide_choices %0#1, %s
      : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x4xi32>, tensor<16x2xi32>, tensor<1x1xi32>)
    // expected-warning @+1 {{as it is: it already has shadows or chunks}}
    %2 = moe.dispatch %x, %1#0 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
    %3 = moe.scale %2 {factor = 2.0 : f64} : tensor<32x8xf32>
    %4 = moe.combine %3, %1#0 weights(%0#3) : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %5 = moe.dispatch %x, %1#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
    %6 = moe.combine %5, %1#2 weights(%0#3) : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    %7 = moe.add %4, %6 : tensor<16x8xf32>
    return %7 : tensor<16x8xf32>
  }
}

// -----

// An op that does something else with rows than with each.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @other_op(
  func.func @other_op(%x: tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}, %l: tensor<16x4xf32> {moe.layout = #moe.layout<[dp], []>},
                      %w: tensor<8x8xf32> {moe.layout = #moe.layout<[dp], []>}) -> (tensor<16x8xf32> {moe.layout = #moe.layout<[dp], []>}) {
    %0:6 = moe.route %l : (tensor<16x4xf32>)
      -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    // expected-warning @+1 {{as it is: an op between its dispatch and its combine cannot be computed for shadows}}
    %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
    %c = moe.all_to_all %0#4 over <"ep", 2, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<1x4xi32>) -> tensor<2x2xi32>
    %2 = moe.all_to_all_v %1, %0#4, %c over <"ep", 2, 1> {direction = #moe<direction to_experts>}
      : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<64x8xf32>
    %3 = moe.matmul %2, %w : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
    %4 = moe.all_to_all_v %3, %0#4, %c over <"ep", 2, 1> {direction = #moe<direction from_experts>}
      : (tensor<64x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
    %5 = moe.combine %4, %0#2 weights(%0#3) : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    return %5 : tensor<16x8xf32>
  }
}

// -----

// Slots of unknown origin.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  // CHECK-LABEL: func.func @no_route(
  func.func @no_route(%x: tensor<16x8xf32>, %s: tensor<16x2xi32>, %w: tensor<16x2xf32>) -> tensor<16x8xf32> {
    // expected-warning @+1 {{as it is: the slots of its dispatch do not come from a routing}}
    %0 = moe.dispatch %x, %s : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
    %1 = moe.combine %0, %s weights(%w) : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    return %1 : tensor<16x8xf32>
  }
}

// -----

// All experts on every rank.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  // CHECK-LABEL: func.func @one(
  // expected-remark @+1 {{moe-shadow-experts: every rank has all experts (ep = 1), so none can be a shadow}}
  func.func @one(%x: tensor<16x8xf32>, %l: tensor<16x4xf32>, %w: tensor<4x8x8xf32>) -> tensor<16x8xf32> {
    %0:6 = moe.route %l : (tensor<16x4xf32>)
      -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
    %1 = moe.dispatch %x, %0#2 : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<32x8xf32>
    %2 = moe.all_to_all_v %1, %0#4, %0#4 over <"ep", 1, 1> {direction = #moe<direction to_experts>}
      : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<32x8xf32>
    %3 = moe.grouped_matmul %2, %w counts(%0#4) : (tensor<32x8xf32>, tensor<4x8x8xf32>, tensor<1x4xi32>) -> tensor<32x8xf32>
    %4 = moe.all_to_all_v %3, %0#4, %0#4 over <"ep", 1, 1> {direction = #moe<direction from_experts>}
      : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<32x8xf32>
    %5 = moe.combine %4, %0#2 weights(%0#3) : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
    return %5 : tensor<16x8xf32>
  }
}

// -----

// There has to be a world.
// expected-error @+1 {{expected a 'moe.parallel' attribute on the module}}
func.func @no_world(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  return %x : tensor<16x8xf32>
}
