// RUN: moe-opt %s | moe-opt | FileCheck %s

// The parts of a cost that say how an all_to_all takes place: phases of one, and copies of a ragged one. One phase and one
// copy are not printed.
// CHECK-LABEL: func.func @phases(
// CHECK: cost = #plan.cost<network, collective = all_to_all, payload = 128, phase = [1, 4]>
// CHECK: cost = #plan.cost<network, collective = all_to_all, payload = 128, phase = [0, 2]>
// CHECK: cost = #plan.cost<network, collective = all_to_all, payload = 128>
// CHECK: cost = #plan.cost<network, collective = all_to_all, payload = 128, rows = 8, counts = 1, peers = 1, copies = 2>
// CHECK: cost = #plan.cost<network, collective = all_to_all, payload = 128, rows = 8, counts = 1, peers = 1>
func.func @phases(%a: memref<8x4xf32>, %b: memref<8x4xf32>, %counts: memref<1x4xi32>) {
  plan.launch "all_to_all"(%a) -> (%b) params [0, 0, 1, 1, 4] collective over <"ep", 4, 1> on "comm"
    {cost = #plan.cost<network, collective = all_to_all, payload = 128, phase = [1, 4]>}
    : (memref<8x4xf32>) -> memref<8x4xf32>
  plan.launch "all_to_all"(%a) -> (%b) params [0, 0, 1, 0, 2] collective over <"ep", 4, 1> on "comm"
    {cost = #plan.cost<network, phase = [0, 2], collective = all_to_all, payload = 128>}
    : (memref<8x4xf32>) -> memref<8x4xf32>
  plan.launch "all_to_all"(%a) -> (%b) params [0, 0, 1, 0, 1] collective over <"ep", 4, 1> on "comm"
    {cost = #plan.cost<network, collective = all_to_all, payload = 128, phase = [0, 1]>}
    : (memref<8x4xf32>) -> memref<8x4xf32>
  plan.launch "all_to_all_v"(%a, %counts) -> (%b) collective over <"ep", 4, 1> on "comm"
    {cost = #plan.cost<network, collective = all_to_all, payload = 128, rows = 8, counts = 1, peers = 1, copies = 2>}
    : (memref<8x4xf32>, memref<1x4xi32>) -> memref<8x4xf32>
  plan.launch "all_to_all_v"(%a, %counts) -> (%b) collective over <"ep", 4, 1> on "comm"
    {cost = #plan.cost<network, collective = all_to_all, payload = 128, rows = 8, counts = 1, peers = 1, copies = 1>}
    : (memref<8x4xf32>, memref<1x4xi32>) -> memref<8x4xf32>
  return
}

// The products of attention.
// CHECK: cost = #plan.cost<matrix, gemm = [2, 8, 4, 64], attention = [32, 2]>
func.func @attention() attributes {test.cost = #plan.cost<matrix, attention = [32, 2], gemm = [2, 8, 4, 64]>} {
  return
}
