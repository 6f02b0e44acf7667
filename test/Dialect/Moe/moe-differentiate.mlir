// RUN: moe-opt %s -split-input-file --moe-differentiate | FileCheck %s

// Each op's adjoint, after the table of design section 2.

// all_gather -> slice.
// CHECK-LABEL: func.func @all_gather(
// CHECK-SAME:  %arg1: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:  ) -> (tensor<8x8xf32>, tensor<4x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK:      %[[SLICE:.+]] = moe.slice %arg1 over <"g", 2, 1> {dim = 0 : i64}
// CHECK-NEXT: return %{{[^,]+}}, %[[SLICE]] :
func.func @all_gather(%x: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.all_gather %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// slice -> all_gather.
// CHECK-LABEL: func.func @slice(
// CHECK:      %[[ALL_GATHER:.+]] = moe.all_gather %arg1 over <"g", 2, 1> {dim = 1 : i64}
// CHECK-NEXT: return %{{[^,]+}}, %[[ALL_GATHER]] :
func.func @slice(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = moe.slice %x over <"g", 2, 1> {dim = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// all_reduce -> to_varying.
// CHECK-LABEL: func.func @all_reduce(
// CHECK:      %[[TO_VARYING:.+]] = moe.to_varying %arg1 over <"g", 2, 1> :
// CHECK-NEXT: return %{{[^,]+}}, %[[TO_VARYING]] :
func.func @all_reduce(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.all_reduce %x over <"g", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// The rows that take no part in a ragged sum have no gradient to speak of; no gradient flows to counts.
// CHECK-LABEL: func.func @all_reduce_ragged(
// CHECK:      %[[TO_VARYING:.+]] = moe.to_varying %arg2 over <"g", 2, 1> :
// CHECK-NEXT: return %{{[^,]+}}, %[[TO_VARYING]] :
func.func @all_reduce_ragged(%x: tensor<8x8xf32>, %c: tensor<1x2xi32>) -> tensor<8x8xf32> {
  %0 = moe.all_reduce %x counts(%c) over <"g", 2, 1> : (tensor<8x8xf32>, tensor<1x2xi32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// to_varying -> all_reduce: where every due gradient sum comes from.
// CHECK-LABEL: func.func @to_varying(
// CHECK:      %[[ALL_REDUCE:.+]] = moe.all_reduce %arg1 over <"g", 2, 1> :
// CHECK-NEXT: return %{{[^,]+}}, %[[ALL_REDUCE]] :
func.func @to_varying(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.to_varying %x over <"g", 2, 1> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// reduce_scatter -> all_gather, to_varying.
// CHECK-LABEL: func.func @reduce_scatter(
// CHECK:      %[[ALL_GATHER:.+]] = moe.all_gather %arg1 over <"g", 2, 1> {dim = 0 : i64}
// CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %[[ALL_GATHER]] over <"g", 2, 1> :
// CHECK-NEXT: return %{{[^,]+}}, %[[TO_VARYING]] :
func.func @reduce_scatter(%x: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.reduce_scatter %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// all_to_all -> the exchange with the dimensions swapped.
// CHECK-LABEL: func.func @all_to_all(
// CHECK:      %[[ALL_TO_ALL:.+]] = moe.all_to_all %arg1 over <"g", 2, 1> {concat_dim = 0 : i64, split_dim = 1 : i64}
// CHECK-NEXT: return %{{[^,]+}}, %[[ALL_TO_ALL]] :
func.func @all_to_all(%x: tensor<8x4xf32>) -> tensor<4x8xf32> {
  %0 = moe.all_to_all %x over <"g", 2, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// all_to_all_v -> the other direction: to the experts, back to the blocks.
// CHECK-LABEL: func.func @to_experts(
// CHECK:      %[[ALL_TO_ALL_V:.+]] = moe.all_to_all_v %arg3, %arg1, %arg2 over <"g", 2, 1> {direction = #moe<direction from_experts>}
// CHECK-NEXT: return %{{[^,]+}}, %[[ALL_TO_ALL_V]] :
func.func @to_experts(%x: tensor<16x8xf32>, %b: tensor<1x4xi32>, %e: tensor<2x2xi32>) -> tensor<32x8xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction to_experts>} : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
  return %0 : tensor<32x8xf32>
}

// And from the experts, back to them.
// CHECK-LABEL: func.func @from_experts(
// CHECK:      %[[ALL_TO_ALL_V:.+]] = moe.all_to_all_v %arg3, %arg1, %arg2 over <"g", 2, 1> {direction = #moe<direction to_experts>}
// CHECK-NEXT: return %{{[^,]+}}, %[[ALL_TO_ALL_V]] :
func.func @from_experts(%x: tensor<32x8xf32>, %b: tensor<1x4xi32>, %e: tensor<2x2xi32>) -> tensor<16x8xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction from_experts>} : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// Copies go to neighbouring members, and come back from them: the adjoint has as many.
// CHECK-LABEL: func.func @to_copies(
// CHECK:      %[[ALL_TO_ALL_V:.+]] = moe.all_to_all_v %arg3, %arg1, %arg2 over <"g", 4, 1> {copies = 2 : i64, direction = #moe<direction from_experts>}
// CHECK-NEXT: return %{{[^,]+}}, %[[ALL_TO_ALL_V]] :
func.func @to_copies(%x: tensor<32x8xf32>, %b: tensor<1x4xi32>, %e: tensor<4x2xi32>) -> tensor<64x8xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 4, 1> {direction = #moe<direction to_experts>, copies = 2 : i64} : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  return %0 : tensor<64x8xf32>
}

// From the experts with copies, and back to them with as many.
// CHECK-LABEL: func.func @from_copies(
// CHECK:      %[[ALL_TO_ALL_V:.+]] = moe.all_to_all_v %arg3, %arg1, %arg2 over <"g", 4, 1> {copies = 2 : i64, direction = #moe<direction to_experts>}
// CHECK-NEXT: return %{{[^,]+}}, %[[ALL_TO_ALL_V]] :
func.func @from_copies(%x: tensor<64x8xf32>, %b: tensor<1x4xi32>, %e: tensor<4x2xi32>) -> tensor<32x8xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 4, 1> {direction = #moe<direction from_experts>, copies = 2 : i64} : (tensor<64x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  return %0 : tensor<32x8xf32>
}

// No gradient flows through counts, sliced or dumped or not.
// CHECK-LABEL: func.func @slice_counts(
// CHECK:      %[[TO_VARYING:.+]] = moe.to_varying %arg2 over <"g", 2, 1> :
// CHECK-NEXT: return %{{[^,]+}}, %[[TO_VARYING]] :
func.func @slice_counts(%x: tensor<8x8xf32>, %c: tensor<1x2xi32>) -> tensor<8x8xf32> {
  %0 = moe.slice_counts %c over <"mp", 2, 1> {rows = 8 : i64} : tensor<1x2xi32>
  %1 = moe.dump %0 : (tensor<1x2xi32>) -> tensor<2x2xi32>
  %2 = moe.all_reduce %x counts(%1) over <"g", 2, 1> : (tensor<8x8xf32>, tensor<2x2xi32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// broadcast -> reduce to the owner, of each member's share.
// CHECK-LABEL: func.func @broadcast(
// CHECK:      %[[SCALE:.+]] = moe.scale %arg1 {factor = 5.000000e-01 : f64}
// CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %[[SCALE]] over <"g", 2, 1> {shares}
// CHECK-NEXT: %[[REDUCE:.+]] = moe.reduce %[[TO_VARYING]] over <"g", 2, 1> {root = 1 : i64}
// CHECK-NEXT: return %{{[^,]+}}, %[[REDUCE]] :
func.func @broadcast(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.broadcast %x over <"g", 2, 1> {root = 1 : i64} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// reduce -> broadcast from the owner, to_varying.
// CHECK-LABEL: func.func @reduce(
// CHECK:      %[[BROADCAST:.+]] = moe.broadcast %arg1 over <"g", 2, 1> {root = 1 : i64}
// CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %[[BROADCAST]] over <"g", 2, 1> :
// CHECK-NEXT: return %{{[^,]+}}, %[[TO_VARYING]] :
func.func @reduce(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.reduce %x over <"g", 2, 1> {root = 1 : i64} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// assume_replicated -> scale by 1/size, to_varying.
// CHECK-LABEL: func.func @assume_replicated(
// CHECK:      %[[SCALE:.+]] = moe.scale %arg1 {factor = 5.000000e-01 : f64}
// CHECK-NEXT: %[[TO_VARYING:.+]] = moe.to_varying %[[SCALE]] over <"g", 2, 1> {shares}
// CHECK-NEXT: return %{{[^,]+}}, %[[TO_VARYING]] :
func.func @assume_replicated(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.assume_replicated %x over <"g", 2, 1> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// matmul: da is [rows, inner] and db [inner, columns], each in the form of its operand.
// CHECK-LABEL: func.func @matmul(
// CHECK:      %[[MATMUL:.+]] = moe.matmul %arg2, %arg1 {transpose_b}
// CHECK-NEXT: %[[MATMUL2:.+]] = moe.matmul_wgrad %arg0, %arg2 :
// CHECK-NEXT: return %{{[^,]+}}, %[[MATMUL]], %[[MATMUL2]] :
func.func @matmul(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>) -> tensor<4x16xf32> {
  %0 = moe.matmul %a, %b : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// matmul with transpose_b: da is [rows, inner] and db [inner, columns], each in the form of its operand.
// CHECK-LABEL: func.func @matmul_tb(
// CHECK:      %[[MATMUL:.+]] = moe.matmul %arg2, %arg1 :
// CHECK-NEXT: %[[MATMUL2:.+]] = moe.matmul_wgrad %arg2, %arg0 :
// CHECK-NEXT: return %{{[^,]+}}, %[[MATMUL]], %[[MATMUL2]] :
func.func @matmul_tb(%a: tensor<4x8xf32>, %b: tensor<16x8xf32>) -> tensor<4x16xf32> {
  %0 = moe.matmul %a, %b {transpose_b} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// matmul with transpose_a: da is [rows, inner] and db [inner, columns], each in the form of its operand.
// CHECK-LABEL: func.func @matmul_ta(
// CHECK:      %[[MATMUL:.+]] = moe.matmul %arg1, %arg2 {transpose_b}
// CHECK-NEXT: %[[MATMUL2:.+]] = moe.matmul %arg0, %arg2 :
// CHECK-NEXT: return %{{[^,]+}}, %[[MATMUL]], %[[MATMUL2]] :
func.func @matmul_ta(%a: tensor<8x4xf32>, %b: tensor<8x16xf32>) -> tensor<4x16xf32> {
  %0 = moe.matmul %a, %b {transpose_a} : (tensor<8x4xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// matmul with transpose_a, transpose_b: da is [rows, inner] and db [inner, columns], each in the form of its operand.
// CHECK-LABEL: func.func @matmul_ta_tb(
// CHECK:      %[[MATMUL:.+]] = moe.matmul %arg1, %arg2 {transpose_a, transpose_b}
// CHECK-NEXT: %[[MATMUL2:.+]] = moe.matmul %arg2, %arg0 {transpose_a, transpose_b}
// CHECK-NEXT: return %{{[^,]+}}, %[[MATMUL]], %[[MATMUL2]] :
func.func @matmul_ta_tb(%a: tensor<8x4xf32>, %b: tensor<16x8xf32>) -> tensor<4x16xf32> {
  %0 = moe.matmul %a, %b {transpose_a, transpose_b} : (tensor<8x4xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// add -> the cotangent itself, to both.
// CHECK-LABEL: func.func @add(
// CHECK: return %{{[^,]+}}, %arg2, %arg2 :
func.func @add(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.add %a, %b : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// scale -> scale.
// CHECK-LABEL: func.func @scale(
// CHECK:      %[[SCALE:.+]] = moe.scale %arg1 {factor = 3.000000e+00 : f64}
// CHECK-NEXT: return %{{[^,]+}}, %[[SCALE]] :
func.func @scale(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.scale %a {factor = 3.000000e+00 : f64} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// row_scale -> row_scale, row_dot.
// CHECK-LABEL: func.func @row_scale(
// CHECK:      %[[ROW_SCALE:.+]] = moe.row_scale %arg2, %arg1 :
// CHECK-NEXT: %[[ROW_DOT:.+]] = moe.row_dot %arg2, %arg0 :
// CHECK-NEXT: return %{{[^,]+}}, %[[ROW_SCALE]], %[[ROW_DOT]] :
func.func @row_scale(%a: tensor<4x8xf32>, %f: tensor<4x1xf32>) -> tensor<4x8xf32> {
  %0 = moe.row_scale %a, %f : tensor<4x8xf32>, tensor<4x1xf32>
  return %0 : tensor<4x8xf32>
}

// append_to_heads -> one op for both.
// CHECK-LABEL: func.func @append_to_heads(
// CHECK:      %[[GRAD_X:.+]], %[[GRAD_SHARED:.+]] = moe.append_to_heads_grad %arg2 : (tensor<4x12xf32>) -> (tensor<4x6xf32>, tensor<4x2xf32>)
// CHECK-NEXT: return %{{[^,]+}}, %[[GRAD_X]], %[[GRAD_SHARED]]
func.func @append_to_heads(%x: tensor<4x6xf32>, %s: tensor<4x2xf32>) -> tensor<4x12xf32> {
  %0 = moe.append_to_heads %x, %s : (tensor<4x6xf32>, tensor<4x2xf32>) -> tensor<4x12xf32>
  return %0 : tensor<4x12xf32>
}

// row_dot -> row_scale of the other operand.
// CHECK-LABEL: func.func @row_dot(
// CHECK:      %[[ROW_SCALE:.+]] = moe.row_scale %arg1, %arg2 :
// CHECK-NEXT: %[[ROW_SCALE2:.+]] = moe.row_scale %arg0, %arg2 :
// CHECK-NEXT: return %{{[^,]+}}, %[[ROW_SCALE]], %[[ROW_SCALE2]] :
func.func @row_dot(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x1xf32> {
  %0 = moe.row_dot %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x1xf32>
  return %0 : tensor<4x1xf32>
}

// grouped_matmul -> grouped_matmul with the weights transposed, grouped_matmul_wgrad.
// CHECK-LABEL: func.func @grouped_matmul(
// CHECK:      %[[GROUPED_MATMUL:.+]] = moe.grouped_matmul %arg2, %arg1 {transpose_weights}
// CHECK-NEXT: %[[GROUPED_MATMUL_WGRAD:.+]] = moe.grouped_matmul_wgrad %arg0, %arg2 :
// CHECK-NEXT: return %{{[^,]+}}, %[[GROUPED_MATMUL]], %[[GROUPED_MATMUL_WGRAD]] :
func.func @grouped_matmul(%r: tensor<2x4x8xf32>, %w: tensor<2x8x16xf32>) -> tensor<2x4x16xf32> {
  %0 = moe.grouped_matmul %r, %w : (tensor<2x4x8xf32>, tensor<2x8x16xf32>) -> tensor<2x4x16xf32>
  return %0 : tensor<2x4x16xf32>
}

// With transpose_weights rows and cotangent change places in the weight gradient; counts go with both.
// CHECK-LABEL: func.func @grouped_matmul_transposed(
// CHECK:      %[[GROUPED_MATMUL:.+]] = moe.grouped_matmul %arg3, %arg1 counts(%arg2) :
// CHECK-NEXT: %[[GROUPED_MATMUL_WGRAD:.+]] = moe.grouped_matmul_wgrad %arg3, %arg0 counts(%arg2) :
// CHECK-NEXT: return %{{[^,]+}}, %[[GROUPED_MATMUL]], %[[GROUPED_MATMUL_WGRAD]] :
func.func @grouped_matmul_transposed(%r: tensor<32x8xf32>, %w: tensor<2x16x8xf32>, %c: tensor<1x2xi32>) -> tensor<32x16xf32> {
  %0 = moe.grouped_matmul %r, %w counts(%c) {transpose_weights} : (tensor<32x8xf32>, tensor<2x16x8xf32>, tensor<1x2xi32>) -> tensor<32x16xf32>
  return %0 : tensor<32x16xf32>
}

// bias_add -> the cotangent itself, bias_grad with the same scale.
// CHECK-LABEL: func.func @bias_add(
// CHECK:      %[[BIAS_GRAD:.+]] = moe.bias_grad %arg3 counts(%arg2) {scale = 5.000000e-01 : f64}
// CHECK-NEXT: return %{{[^,]+}}, %arg3, %[[BIAS_GRAD]] :
func.func @bias_add(%r: tensor<32x8xf32>, %b: tensor<2x8xf32>, %c: tensor<1x2xi32>) -> tensor<32x8xf32> {
  %0 = moe.bias_add %r, %b counts(%c) {scale = 5.000000e-01 : f64} : (tensor<32x8xf32>, tensor<2x8xf32>, tensor<1x2xi32>) -> tensor<32x8xf32>
  return %0 : tensor<32x8xf32>
}

// activation -> activation_grad.
// CHECK-LABEL: func.func @activation(
// CHECK:      %[[ACTIVATION_GRAD:.+]] = moe.activation_grad %arg0, %arg2 counts(%arg1) {kind = #moe<activation swiglu>}
// CHECK-NEXT: return %{{[^,]+}}, %[[ACTIVATION_GRAD]] :
func.func @activation(%h: tensor<32x16xf32>, %c: tensor<1x2xi32>) -> tensor<32x8xf32> {
  %0 = moe.activation %h counts(%c) {kind = #moe<activation swiglu>} : (tensor<32x16xf32>, tensor<1x2xi32>) -> tensor<32x8xf32>
  return %0 : tensor<32x8xf32>
}

// dump -> local_reduce of the same blocks.
// CHECK-LABEL: func.func @dump(
// CHECK:      %[[LOCAL_REDUCE:.+]] = moe.local_reduce %arg1 {blocks = 2 : i64, dim = 1 : i64}
// CHECK-NEXT: return %{{[^,]+}}, %[[LOCAL_REDUCE]] :
func.func @dump(%x: tensor<2x4xf32>) -> tensor<2x12xf32> {
  %0 = moe.dump %x {dim = 1 : i64, blocks = 2 : i64} : (tensor<2x4xf32>) -> tensor<2x12xf32>
  return %0 : tensor<2x12xf32>
}

// local_reduce -> dump of the same blocks.
// CHECK-LABEL: func.func @local_reduce(
// CHECK:      %[[DUMP:.+]] = moe.dump %arg1 {blocks = 2 : i64, dim = 1 : i64}
// CHECK-NEXT: return %{{[^,]+}}, %[[DUMP]] :
func.func @local_reduce(%x: tensor<2x12xf32>) -> tensor<2x4xf32> {
  %0 = moe.local_reduce %x {dim = 1 : i64, blocks = 2 : i64} : (tensor<2x12xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// A single copy of each block also has an adjoint, of the operand's type.
// CHECK-LABEL: func.func @dump_once(
// CHECK:      %[[LOCAL_REDUCE:.+]] = moe.local_reduce %arg1 :
// CHECK-NEXT: return %{{[^,]+}}, %[[LOCAL_REDUCE]] :
func.func @dump_once(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = moe.dump %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// dispatch -> combine; with weights also slot_dot.
// CHECK-LABEL: func.func @dispatch(
// CHECK:      %[[COMBINE:.+]] = moe.combine %arg3, %arg1 weights(%arg2) :
// CHECK-NEXT: %[[SLOT_DOT:.+]] = moe.slot_dot %arg0, %arg3, %arg1 :
// CHECK-NEXT: return %{{[^,]+}}, %[[COMBINE]], %[[SLOT_DOT]] :
func.func @dispatch(%x: tensor<16x8xf32>, %s: tensor<16x2xi32>, %w: tensor<16x2xf32>) -> tensor<32x8xf32> {
  %0 = moe.dispatch %x, %s weights(%w) : (tensor<16x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<32x8xf32>
  return %0 : tensor<32x8xf32>
}

// combine -> dispatch; with weights also slot_dot.
// CHECK-LABEL: func.func @combine(
// CHECK:      %[[DISPATCH:.+]] = moe.dispatch %arg3, %arg1 weights(%arg2) :
// CHECK-NEXT: %[[SLOT_DOT:.+]] = moe.slot_dot %arg3, %arg0, %arg1 :
// CHECK-NEXT: return %{{[^,]+}}, %[[DISPATCH]], %[[SLOT_DOT]] :
func.func @combine(%r: tensor<4x8x8xf32>, %s: tensor<16x2xi32>, %w: tensor<16x2xf32>) -> tensor<16x8xf32> {
  %0 = moe.combine %r, %s weights(%w) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// Without weights there is no gradient but that of the rows.
// CHECK-LABEL: func.func @combine_unweighted(
// CHECK:      %[[DISPATCH:.+]] = moe.dispatch %arg2, %arg1 :
// CHECK-NEXT: return %{{[^,]+}}, %[[DISPATCH]] :
func.func @combine_unweighted(%r: tensor<4x8x8xf32>, %s: tensor<16x2xi32>) -> tensor<16x8xf32> {
  %0 = moe.combine %r, %s : (tensor<4x8x8xf32>, tensor<16x2xi32>) -> tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// route -> route_grad, from the weights and the loss; counts are integers and get no cotangent.
// CHECK-LABEL: func.func @route(
// CHECK-NEXT: %[[SCORES:scores[0-9_]*]], %[[EXPERTS:experts[0-9_]*]], {{.*}} = moe.route %arg0 selection_bias(%arg1)
// CHECK-NEXT: %[[ROUTE_GRAD:.+]] = moe.route_grad %[[SCORES]], %[[EXPERTS]] weights(%arg2) aux(%arg3) {groups = 2 : i64, renormalize, routing_scale = 2.000000e+00 : f64, score = #moe<score sigmoid>}
// CHECK-NEXT: return %{{[^,]+}}, %{{[^,]+}}, %{{[^,]+}}, %[[ROUTE_GRAD]] :
func.func @route(%l: tensor<16x4xf32>, %b: tensor<4xf32>) -> (tensor<16x2xf32>, tensor<f32>, tensor<1x4xi32>) {
  %0:6 = moe.route %l selection_bias(%b) {score = #moe<score sigmoid>, renormalize, routing_scale = 2.000000e+00 : f64, capacity = 8 : i64, groups = 2 : i64}
    : (tensor<16x4xf32>, tensor<4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return %0#3, %0#5, %0#4 : tensor<16x2xf32>, tensor<f32>, tensor<1x4xi32>
}

// From the weights alone.
// CHECK-LABEL: func.func @route_weights(
// CHECK-NEXT: %[[SCORES:scores[0-9_]*]], %[[EXPERTS:experts[0-9_]*]], {{.*}} = moe.route %arg0
// CHECK-NEXT: %[[ROUTE_GRAD:.+]] = moe.route_grad %[[SCORES]], %[[EXPERTS]] weights(%arg1) :
// CHECK-NEXT: return %{{[^,]+}}, %[[ROUTE_GRAD]] :
func.func @route_weights(%l: tensor<16x4xf32>) -> tensor<16x2xf32> {
  %0:6 = moe.route %l : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return %0#3 : tensor<16x2xf32>
}

// From the loss alone.
// CHECK-LABEL: func.func @route_aux(
// CHECK-NEXT: %[[SCORES:scores[0-9_]*]], %[[EXPERTS:experts[0-9_]*]], {{.*}} = moe.route %arg0
// CHECK-NEXT: %[[ROUTE_GRAD:.+]] = moe.route_grad %[[SCORES]], %[[EXPERTS]] aux(%arg1) :
// CHECK-NEXT: return %{{[^,]+}}, %[[ROUTE_GRAD]] :
func.func @route_aux(%l: tensor<16x4xf32>) -> tensor<f32> {
  %0:6 = moe.route %l : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return %0#5 : tensor<f32>
}

// Cotangents of several uses are added up.
// CHECK-LABEL: func.func @many_uses(
// CHECK:      %[[MATMUL:.+]] = moe.matmul %arg2, %arg0 {transpose_b}
// CHECK-NEXT: %[[MATMUL2:.+]] = moe.matmul_wgrad %arg0, %arg2 :
// CHECK-NEXT: %[[ADD:.+]] = moe.add %arg2, %[[MATMUL]] :
// CHECK-NEXT: %[[ADD2:.+]] = moe.add %[[ADD]], %[[MATMUL2]] :
// CHECK-NEXT: return %{{[^,]+}}, %[[ADD2]] :
func.func @many_uses(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = moe.add %0, %a : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// So are those of a value that is returned twice and used besides.
// CHECK-LABEL: func.func @returned_twice(
// CHECK:      %[[ADD:.+]] = moe.add %arg1, %arg2 :
// CHECK-NEXT: %[[SCALE:.+]] = moe.scale %arg3 {factor = 3.000000e+00 : f64}
// CHECK-NEXT: %[[ADD2:.+]] = moe.add %[[ADD]], %[[SCALE]] :
// CHECK-NEXT: %[[SCALE2:.+]] = moe.scale %[[ADD2]] {factor = 2.000000e+00 : f64}
// CHECK-NEXT: return %{{[^,]+}}, %{{[^,]+}}, %{{[^,]+}}, %[[SCALE2]] :
func.func @returned_twice(%a: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = moe.scale %a {factor = 2.000000e+00 : f64} : tensor<8x8xf32>
  %1 = moe.scale %0 {factor = 3.000000e+00 : f64} : tensor<8x8xf32>
  return %0, %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// An argument without influence has no gradient; one that is returned has its cotangent.
// CHECK-LABEL: func.func @no_influence(
// CHECK-SAME:  ) -> (tensor<8x8xf32>, tensor<8x8xf32> {moe.name = "grad.argument1", moe.role = "gradient"})
// CHECK: return %arg1, %arg3 :
func.func @no_influence(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %c: tensor<1x2xi32>) -> tensor<8x8xf32> {
  %0 = moe.scale %a {factor = 2.000000e+00 : f64} : tensor<8x8xf32>
  return %b : tensor<8x8xf32>
}

// broadcast_experts -> reduce_experts, and back; an addend has the whole cotangent. No gradient flows to the shadows.
// CHECK-LABEL: func.func @shadows(
// CHECK:      %[[B:.+]] = moe.broadcast_experts %arg3, %arg1 over <"ep", 4, 1> :
// CHECK-NEXT: %[[G:.+]] = moe.reduce_experts %[[B]], %arg1 over <"ep", 4, 1> :
// CHECK-NEXT: return %{{[^,]+}}, %[[G]], %arg3
func.func @shadows(%w: tensor<2x8xf32>, %s: tensor<1x8xi32>, %a: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = moe.broadcast_experts %w, %s over <"ep", 4, 1> : (tensor<2x8xf32>, tensor<1x8xi32>) -> tensor<3x8xf32>
  %1 = moe.reduce_experts %0, %s addend(%a) over <"ep", 4, 1> : (tensor<3x8xf32>, tensor<1x8xi32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// A phase of a ragged exchange -> the same phase in the other direction. What another phase brought has its rows' cotangents from
// the same block side.
// CHECK-LABEL: func.func @ragged_phases(
// CHECK:      %[[G1:.+]] = moe.all_to_all_v %arg4, %arg2, %arg3 over <"ep", 4, 1> {direction = #moe<direction to_experts>, phases = 2 : i64}
// CHECK-NEXT: %[[G0:.+]] = moe.all_to_all_v %arg4, %arg2, %arg3 over <"ep", 4, 1> {direction = #moe<direction to_experts>, phase = 1 : i64, phases = 2 : i64}
// CHECK-NEXT: return {{.*}}, %[[G0]], %[[G1]]
func.func @ragged_phases(%x: tensor<24x8xf32>, %y: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) -> tensor<16x8xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  %1 = moe.all_to_all_v %y, %b, %e addend(%0) over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  return %1 : tensor<16x8xf32>
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 1, mp = 4, ep = 4, esp = 1>} {
  // A cotangent has the name and layout of its result, a gradient those of its argument; names that are missing are made up.
  // CHECK-LABEL: func.func @names(
  // CHECK-SAME:  %arg2: tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>, moe.name = "cotangent.y", moe.role = "cotangent"}
  // CHECK-SAME:  %arg3: tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>, moe.name = "cotangent.result1", moe.role = "cotangent"}
  // CHECK-SAME:  {moe.layout = #moe.layout<[mp], []>, moe.name = "grad.x", moe.role = "gradient"}
  // CHECK-SAME:  {moe.layout = #moe.layout<[mp], []>, moe.name = "grad.argument1", moe.role = "gradient"})
  // CHECK:       %[[GRAD:.+]] = moe.add %arg3, %arg2 :
  // CHECK-NEXT:  return %{{[^,]+}}, %arg1, %arg2, %[[GRAD]] :
  func.func @names(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>, moe.name = "x", moe.role = "input"}, %w: tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>})
      -> (tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>, moe.name = "y"}, tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>}) {
    %0 = moe.add %x, %w : tensor<4x8xf32>
    return %0, %w : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
