// RUN: moe-opt %s --convert-moe-to-plan | FileCheck %s

// Each op on counts says how it makes them; exchanges of other values say nothing.

// CHECK-LABEL: func.func @exchanges(
// CHECK:      plan.launch "all_gather"{{.*}} counts = [#plan.counts<gather, output = 0, input = 0, dim = 0>]
// CHECK:      plan.launch "dump"{{.*}} counts = [#plan.counts<repeat, output = 0, input = 0, dim = 1, blocks = 2>]
// CHECK:      plan.launch "all_to_all"{{.*}} counts = [#plan.counts<exchange, output = 0, input = 0, split = 1, concat = 0, copies = 1>]
// CHECK:      plan.launch "all_gather"{{.*}} counts = [#plan.counts<gather, output = 0, input = 0, dim = 1>]
// CHECK:      plan.launch "all_gather"
// CHECK-NOT:  counts =
// CHECK:      return
func.func @exchanges(%c: tensor<1x4xi32>, %x: tensor<4x8xf32>) -> (tensor<4x4xi32>, tensor<1x8xi32>, tensor<8x8xf32>) {
  %0 = moe.all_gather %c over <"esp", 2, 1> {dim = 0 : i64} : (tensor<1x4xi32>) -> tensor<2x4xi32>
  %1 = moe.dump %c {dim = 1 : i64, blocks = 2 : i64} : (tensor<1x4xi32>) -> tensor<1x8xi32>
  %2 = moe.all_to_all %0 over <"ep", 2, 2> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x4xi32>) -> tensor<4x2xi32>
  %3 = moe.all_gather %2 over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x2xi32>) -> tensor<4x4xi32>
  %4 = moe.all_gather %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return %3, %1, %4 : tensor<4x4xi32>, tensor<1x8xi32>, tensor<8x8xf32>
}

// Copies that go to different members are not there twice.
// CHECK-LABEL: func.func @copies(
// CHECK-NOT:  "dump"
// CHECK:      plan.launch "all_to_all"{{.*}} counts = [#plan.counts<exchange, output = 0, input = 0, split = 1, concat = 0, copies = 2>]
func.func @copies(%c: tensor<1x4xi32>) -> tensor<4x2xi32> {
  %0 = moe.dump %c {dim = 1 : i64, blocks = 2 : i64} : (tensor<1x4xi32>) -> tensor<1x8xi32>
  %1 = moe.all_to_all %0 over <"ep_esp", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<1x8xi32>) -> tensor<4x2xi32>
  return %1 : tensor<4x2xi32>
}

// CHECK-LABEL: func.func @own_experts(
// CHECK:      plan.launch "local_slots"{{.*}} counts = [#plan.counts<own_experts, output = 1, input = 1, holders = 2>]
func.func @own_experts(%s: tensor<16x2xi32>, %c: tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>) {
  %slots, %counts = moe.local_slots %s, %c over <"mp", 4, 1> {capacity = 0 : i64, room = 32 : i64, copies = 2 : i64}
    : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>)
  return %slots, %counts : tensor<16x2xi32>, tensor<1x2xi32>
}

// A gate that lets every choice leave its home is the plain one.
// CHECK-LABEL: func.func @gates(
// CHECK:      plan.launch "route"{{.*}} counts = [#plan.counts<route_near_home, output = 4, tokens = 16, top_k = 2, groups = 1, leave = 3, homes = 2, home_stride = 2, home_span = 1>]
// CHECK:      plan.launch "route"{{.*}} counts = [#plan.counts<route, output = 4, tokens = 16, top_k = 2>]
// CHECK:      plan.launch "route"{{.*}} counts = [#plan.counts<route_in_groups, output = 4, tokens = 16, top_k = 2, groups = 2, top_groups = 1>]
func.func @gates(%l: tensor<16x4xf32>) -> (tensor<1x4xi32>, tensor<1x4xi32>, tensor<1x4xi32>) {
  %0:6 = moe.route %l {leave = 3 : i64, homes = 2 : i64, home_stride = 2 : i64}
    : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  %1:6 = moe.route %l {leave = 3 : i64}
    : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  %2:6 = moe.route %l {expert_groups = 2 : i64, top_groups = 1 : i64}
    : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return %0#4, %1#4, %2#4 : tensor<1x4xi32>, tensor<1x4xi32>, tensor<1x4xi32>
}
