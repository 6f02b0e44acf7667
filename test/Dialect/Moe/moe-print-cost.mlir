// RUN: moe-opt %s --moe-print-cost -o /dev/null 2>&1 | FileCheck %s
// RUN: moe-opt %s --moe-print-cost=json -o /dev/null 2>&1 | FileCheck %s --check-prefix=JSON

// A model graph is priced as if one rank did all: 16 choices of 2 products of 8 x 16, and the gate.
// CHECK-LABEL: @graph
// CHECK: moe.layer  {{.*}} matrix
// JSON: {"function":"graph","op":"moe.layer","label":"","resource":"matrix","flops":9216,{{.*}}"gemm":[4,4,32,8]}
func.func @graph(%x: tensor<16x8xf32>, %gate: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>)
    -> (tensor<16x8xf32>, tensor<f32>) {
  %y, %aux = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2)
    {top_k = 1 : i64, activation = #moe<activation relu>}
    : (tensor<16x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<16x8xf32>, tensor<f32>)
  return %y, %aux : tensor<16x8xf32>, tensor<f32>
}

// Products have their shape, also where an operand is transposed.
// CHECK-LABEL: @products
// JSON: "function":"products","op":"moe.matmul",{{.*}}"flops":1024,"bytes_read":640,"bytes_written":256,"rows":0,"gemm":[1,4,16,8]}
// JSON: "op":"moe.grouped_matmul",{{.*}}"flops":2048,{{.*}}"rows":0,"gemm":[2,4,16,8]}
// JSON: "op":"moe.grouped_matmul",{{.*}}"flops":8192,{{.*}}"rows":32,"gemm":[2,16,16,8]}
// JSON: "op":"moe.grouped_matmul_wgrad",{{.*}}"flops":2048,{{.*}}"gemm":[2,8,16,4]}
func.func @products(%a: tensor<4x8xf32>, %b: tensor<16x8xf32>, %r: tensor<2x4x8xf32>, %w: tensor<2x8x16xf32>,
                    %g: tensor<2x4x16xf32>, %rows: tensor<32x8xf32>, %c: tensor<4x2xi32>) {
  %0 = moe.matmul %a, %b {transpose_b} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %1 = moe.grouped_matmul %r, %w : (tensor<2x4x8xf32>, tensor<2x8x16xf32>) -> tensor<2x4x16xf32>
  %2 = moe.grouped_matmul %rows, %w counts(%c)
    : (tensor<32x8xf32>, tensor<2x8x16xf32>, tensor<4x2xi32>) -> tensor<32x16xf32>
  %3 = moe.grouped_matmul_wgrad %r, %g : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
  return
}

// Exchanges say what one member sends to each other; casts cost nothing and are left out.
// CHECK-LABEL: @exchanges
// CHECK-NEXT: op
// CHECK-NEXT: moe.all_gather {{.*}} all_gather over mp (4): 0.000 MB to each
// CHECK-NEXT: moe.reduce_scatter
// CHECK-NEXT: moe.all_reduce
// CHECK-NEXT: moe.all_to_all
// CHECK-NEXT: moe.broadcast
// CHECK-NEXT: moe.reduce
// CHECK-NEXT: moe.all_to_all_v {{.*}} all_to_all over ep (2): 0.000 MB to each, ragged
// JSON: "op":"moe.all_gather",{{.*}}"collective":"all_gather","group":"mp","members":4,"payload":512,"bytes_to_peer":128,"bytes_sent":384}
// JSON: "op":"moe.reduce_scatter",{{.*}}"flops":32,{{.*}}"payload":128,"bytes_to_peer":32,"bytes_sent":96}
// JSON: "op":"moe.all_reduce",{{.*}}"flops":32,{{.*}}"payload":128,"bytes_to_peer":64,"bytes_sent":192}
// JSON: "op":"moe.all_to_all",{{.*}}"payload":128,"bytes_to_peer":32,"bytes_sent":96}
// JSON: "op":"moe.broadcast",{{.*}}"payload":128,"bytes_to_peer":128,"bytes_sent":96}
// JSON: "op":"moe.reduce",{{.*}}"payload":128,"bytes_to_peer":128,"bytes_sent":96}
// JSON: "op":"moe.all_to_all_v",{{.*}}"rows":16,{{.*}}"group":"ep","members":2,"payload":512,"bytes_to_peer":256,"bytes_sent":256}
func.func @exchanges(%x: tensor<4x8xf32>, %r: tensor<16x8xf32>, %b: tensor<1x4xi32>, %e: tensor<2x2xi32>) {
  %0 = moe.all_gather %x over <"mp", 4, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<16x8xf32>
  %1 = moe.reduce_scatter %x over <"mp", 4, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %2 = moe.all_reduce %x over <"mp", 4, 1> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = moe.all_to_all %x over <"ep", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64}
    : (tensor<4x8xf32>) -> tensor<1x32xf32>
  %4 = moe.broadcast %x over <"ep", 4, 1> {root = 3 : i64} : tensor<4x8xf32>
  %5 = moe.reduce %x over <"ep", 4, 1> {root = 1 : i64} : tensor<4x8xf32>
  %6 = moe.to_varying %x over <"mp", 4, 1> : tensor<4x8xf32>
  %7 = moe.all_to_all_v %r, %b, %e over <"ep", 2, 1> {direction = #moe<direction to_experts>}
    : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
  return
}

// Plans answer through the same interface; records and waits need nothing.
// CHECK-LABEL: @plan
// CHECK-NEXT: op
// CHECK-NEXT: plan.launch matmul layer0 matrix
// CHECK-NOT: plan.record
// JSON: "op":"plan.launch matmul","label":"layer0","resource":"matrix","flops":1024,"bytes_read":640,"bytes_written":256,"rows":0,"gemm":[1,4,16,8]}
func.func @plan(%a: memref<4x8xf32>, %b: memref<8x16xf32>, %c: memref<4x16xf32>) {
  plan.launch "matmul"(%a, %b) -> (%c) params [0, 0] on "compute"
    {label = "layer0", cost = #plan.cost<matrix, flops = 1024.0, read = 640, written = 256, gemm = [1, 4, 16, 8]>}
    : (memref<4x8xf32>, memref<8x16xf32>) -> memref<4x16xf32>
  plan.record 0 on "compute"
  return
}
