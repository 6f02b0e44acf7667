// RUN: moe-opt %s --moe-differentiate --canonicalize --cse | FileCheck %s

// moe.residual says how the backward gets values of the forward. Canonicalisation and CSE keep this: a recomputed value is not
// the original value.

// A copy leaves as soon as the value is there, and is back just before its use.
// CHECK-LABEL: func.func @offload(
// CHECK:      %[[X:.+]] = moe.scale %arg0
// CHECK-NEXT: %[[COPY:.+]] = moe.offload %[[X]] :
// CHECK:      %[[G:.+]] = moe.activation_grad %{{.+}}, %arg1
// CHECK-NEXT: %[[BACK:.+]] = moe.fetch %[[COPY]] :
// CHECK-NEXT: moe.activation_grad %[[BACK]], %[[G]] {kind = #moe<activation gelu>}
func.func @offload(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.residual = #moe<residual offload>} : tensor<4x8xf32>
  %1 = moe.activation %0 {kind = #moe<activation gelu>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = moe.activation %1 {kind = #moe<activation silu>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// A chain is made again from where a value is kept, once for all that need it.
// CHECK-LABEL: func.func @recompute(
// CHECK:      %[[KEPT:.+]] = moe.activation %arg0 {kind = #moe<activation gelu>}
// CHECK:      %[[AGAIN:.+]] = moe.activation %[[KEPT]] {kind = #moe<activation silu>, moe.repeated}
// CHECK-NEXT: %[[AGAIN2:.+]] = moe.activation %[[AGAIN]] {kind = #moe<activation sigmoid>, moe.repeated}
// CHECK-NEXT: %[[G:.+]] = moe.activation_grad %[[AGAIN2]], %arg1 {kind = #moe<activation gelu>}
// CHECK-NEXT: %[[G2:.+]] = moe.activation_grad %[[AGAIN]], %[[G]] {kind = #moe<activation sigmoid>}
// CHECK-NEXT: moe.activation_grad %[[KEPT]], %[[G2]] {kind = #moe<activation silu>}
func.func @recompute(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.activation %x {kind = #moe<activation gelu>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = moe.activation %0 {kind = #moe<activation silu>, moe.residual = #moe<residual recompute>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = moe.activation %1 {kind = #moe<activation sigmoid>, moe.residual = #moe<residual recompute>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = moe.activation %2 {kind = #moe<activation gelu>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// Offloaded values can be recomputed, too.
// CHECK-LABEL: func.func @recompute_of_offloaded(
// CHECK:      %[[COPY:.+]] = moe.offload
// CHECK:      %[[BACK:.+]] = moe.fetch %[[COPY]] :
// CHECK-NEXT: %[[AGAIN:.+]] = moe.activation %[[BACK]] {kind = #moe<activation silu>, moe.repeated}
// CHECK-NEXT: %[[G:.+]] = moe.activation_grad %[[AGAIN]], %arg1 {kind = #moe<activation gelu>}
// CHECK-NEXT: moe.activation_grad %[[BACK]], %[[G]] {kind = #moe<activation silu>}
func.func @recompute_of_offloaded(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.residual = #moe<residual offload>} : tensor<4x8xf32>
  %1 = moe.activation %0 {kind = #moe<activation silu>, moe.residual = #moe<residual recompute>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = moe.activation %1 {kind = #moe<activation gelu>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// An exchange is repeated with its operand.
// CHECK-LABEL: func.func @recommunicate(
// CHECK:      %[[DY:.+]] = moe.all_to_all %arg1 over
// CHECK-NEXT: %[[AGAIN:.+]] = moe.scale %arg0 {factor = 2.000000e+00 : f64, moe.repeated}
// CHECK-NEXT: %[[RECEIVED:.+]] = moe.all_to_all %[[AGAIN]] over <"ep", 2, 1> {concat_dim = 1 : i64, moe.repeated, split_dim = 0 : i64}
// CHECK-NEXT: moe.activation_grad %[[RECEIVED]], %[[DY]] {kind = #moe<activation gelu>}
func.func @recommunicate(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.residual = #moe<residual recompute>} : tensor<4x8xf32>
  %1 = moe.all_to_all %0 over <"ep", 2, 1> {split_dim = 0 : i64, concat_dim = 1 : i64, moe.residual = #moe<residual recommunicate>} : (tensor<4x8xf32>) -> tensor<2x16xf32>
  %2 = moe.activation %1 {kind = #moe<activation gelu>} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %3 = moe.all_to_all %2 over <"ep", 2, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x16xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// Another name of a value that is not kept is one of what there is instead; one of a kept value is kept.
// CHECK-LABEL: func.func @aliases(
// CHECK:      %[[COPY:.+]] = moe.offload
// CHECK:      %[[KEPT:.+]] = moe.scale %arg0 {factor = 3.000000e+00 : f64}
// CHECK-NEXT: %[[ALIAS:.+]] = moe.to_varying %[[KEPT]] over <"esp", 2, 1> :
// CHECK:      moe.activation_grad %[[ALIAS]], %arg2
// CHECK:      %[[BACK:.+]] = moe.fetch %[[COPY]] :
// CHECK-NEXT: %[[ALIAS2:.+]] = moe.to_varying %[[BACK]] over <"esp", 2, 1> {moe.repeated}
// CHECK-NEXT: moe.activation_grad %[[ALIAS2]], %arg1
func.func @aliases(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.residual = #moe<residual offload>} : tensor<4x8xf32>
  %1 = moe.to_varying %0 over <"esp", 2, 1> : tensor<4x8xf32>
  %2 = moe.activation %1 {kind = #moe<activation gelu>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = moe.scale %x {factor = 3.000000e+00 : f64} : tensor<4x8xf32>
  %4 = moe.to_varying %3 over <"esp", 2, 1> : tensor<4x8xf32>
  %5 = moe.activation %4 {kind = #moe<activation gelu>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2, %5 : tensor<4x8xf32>, tensor<4x8xf32>
}

// Chunks and rings: copies and gradients have the chunk of their value. What is made again, and each gradient, is in a ring of its own;
// a value that is kept (%0) leaves its ring, one that is not (%1, %2) stays in it.
// CHECK-LABEL: func.func @rings(
// CHECK:      %[[A:.+]] = moe.scale %arg0 {factor = 2.000000e+00 : f64, moe.chunk = #moe.chunk<1 of 2>}
// CHECK-NEXT: %[[B:.+]] = moe.activation %[[A]] {{.*}}moe.ring = #moe.ring<"b", 1>}
// CHECK-NEXT: %[[COPY:.+]] = moe.offload %[[B]] {moe.chunk = #moe.chunk<1 of 2>}
// CHECK-NEXT: moe.activation %[[B]] {{.*}}moe.ring = #moe.ring<"c", 1>}
// CHECK:      %[[BACK:.+]] = moe.fetch %[[COPY]] {moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"b.again", 1>}
// CHECK-NEXT: %[[C:.+]] = moe.activation %[[BACK]] {{.*}}moe.chunk = #moe.chunk<1 of 2>, moe.repeated, moe.ring = #moe.ring<"c.again", 1>}
// CHECK-NEXT: %[[DC:.+]] = moe.activation_grad %[[C]], %arg1 {{.*}}moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"c.grad", 1>}
// CHECK-NEXT: %[[DB:.+]] = moe.activation_grad %[[BACK]], %[[DC]] {{.*}}moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"b.grad", 1>}
// CHECK-NEXT: %[[DA:.+]] = moe.activation_grad %[[A]], %[[DB]] {{.*}}moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"a.grad", 2>}
// CHECK-NEXT: moe.scale %[[DA]] {factor = 2.000000e+00 : f64, moe.chunk = #moe.chunk<1 of 2>}
func.func @rings(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"a", 2>} : tensor<4x8xf32>
  %1 = moe.activation %0 {kind = #moe<activation silu>, moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"b", 1>, moe.residual = #moe<residual offload>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = moe.activation %1 {kind = #moe<activation gelu>, moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"c", 1>, moe.residual = #moe<residual recompute>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = moe.activation %2 {kind = #moe<activation gelu>, moe.chunk = #moe.chunk<1 of 2>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// The gradients of chunks' weights are added up product by product, in the order of the backward; each chunk's is its own.
// CHECK-LABEL: func.func @chunks(
// CHECK:      %[[X:.+]]:2 = moe.split %arg0 :
// CHECK:      %[[DY:.+]]:2 = moe.split %arg2 :
// CHECK-NEXT: %[[DX1:.+]] = moe.grouped_matmul %[[DY]]#1, %arg1 {moe.chunk = #moe.chunk<1 of 2>, transpose_weights}
// CHECK-NEXT: %[[DW1:.+]] = moe.grouped_matmul_wgrad %[[X]]#1, %[[DY]]#1 {moe.chunk = #moe.chunk<1 of 2>}
// CHECK-NEXT: %[[DX0:.+]] = moe.grouped_matmul %[[DY]]#0, %arg1 {moe.chunk = #moe.chunk<0 of 2>, transpose_weights}
// CHECK-NEXT: %[[DW:.+]] = moe.grouped_matmul_wgrad %[[X]]#0, %[[DY]]#0 addend(%[[DW1]]) {moe.chunk = #moe.chunk<0 of 2>}
// CHECK-NEXT: %[[DX:.+]] = moe.concat %[[DX0]], %[[DX1]] :
// CHECK-NEXT: return %{{[^,]+}}, %[[DX]], %[[DW]] :
func.func @chunks(%x: tensor<8x4x8xf32>, %w: tensor<4x8x16xf32>) -> tensor<8x4x16xf32> {
  %0:2 = moe.split %x : (tensor<8x4x8xf32>) -> (tensor<4x4x8xf32>, tensor<4x4x8xf32>)
  %1 = moe.grouped_matmul %0#0, %w {moe.chunk = #moe.chunk<0 of 2>} : (tensor<4x4x8xf32>, tensor<4x8x16xf32>) -> tensor<4x4x16xf32>
  %2 = moe.grouped_matmul %0#1, %w {moe.chunk = #moe.chunk<1 of 2>} : (tensor<4x4x8xf32>, tensor<4x8x16xf32>) -> tensor<4x4x16xf32>
  %3 = moe.concat %1, %2 : (tensor<4x4x16xf32>, tensor<4x4x16xf32>) -> tensor<8x4x16xf32>
  return %3 : tensor<8x4x16xf32>
}

// A part that nothing comes back for has a gradient of zero.
// CHECK-LABEL: func.func @part(
// CHECK:      %[[X:.+]]:2 = moe.split %arg0 :
// CHECK-NEXT: %[[ZERO:.+]] = moe.scale %[[X]]#0 {factor = 0.000000e+00 : f64}
// CHECK-NEXT: %[[DX:.+]] = moe.concat %[[ZERO]], %arg1 :
// CHECK-NEXT: return %[[X]]#1, %[[DX]] :
func.func @part(%x: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %0:2 = moe.split %x : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  return %0#1 : tensor<4x4xf32>
}

// Nobody needs it: no copy is made.
// CHECK-LABEL: func.func @unneeded(
// CHECK-NOT: moe.offload
func.func @unneeded(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.residual = #moe<residual offload>} : tensor<4x8xf32>
  %1 = moe.scale %0 {factor = 3.000000e+00 : f64} : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
