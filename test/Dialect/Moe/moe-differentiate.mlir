// RUN: moe-opt %s --moe-differentiate | FileCheck %s

// Each op's adjoint, after the table of design section 2.

// all_gather -> slice.
// CHECK-LABEL: func.func @all_gather(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<4x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x8xf32>, tensor<4x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[X]] over <"g", 2, 1> {dim = 0 : i64}
// CHECK-SAME:   : (tensor<4x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[CT0]] over <"g", 2, 1> {dim = 0 : i64}
// CHECK-SAME:   : (tensor<8x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   return [[ALL_GATHER]], [[SLICE]] : tensor<8x8xf32>, tensor<4x8xf32>
func.func @all_gather(%x: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.all_gather %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// slice -> all_gather.
// CHECK-LABEL: func.func @slice(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x4xf32>, tensor<8x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[SLICE:%[a-z0-9_]+]] = moe.slice [[X]] over <"g", 2, 1> {dim = 1 : i64}
// CHECK-SAME:   : (tensor<8x8xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[CT0]] over <"g", 2, 1> {dim = 1 : i64}
// CHECK-SAME:   : (tensor<8x4xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   return [[SLICE]], [[ALL_GATHER]] : tensor<8x4xf32>, tensor<8x8xf32>
func.func @slice(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = moe.slice %x over <"g", 2, 1> {dim = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// all_reduce -> to_varying.
// CHECK-LABEL: func.func @all_reduce(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x8xf32>, tensor<8x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[X]] over <"g", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[CT0]] over <"g", 2, 1> : tensor<8x8xf32>
// CHECK-NEXT:   return [[ALL_REDUCE]], [[TO_VARYING]] : tensor<8x8xf32>, tensor<8x8xf32>
func.func @all_reduce(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.all_reduce %x over <"g", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// The rows that take no part in a ragged sum have no gradient to speak of; no gradient flows to counts.
// CHECK-LABEL: func.func @all_reduce_ragged(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[C:%[a-z0-9_]+]]: tensor<1x2xi32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x8xf32>, tensor<8x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[X]] counts([[C]]) over <"g", 2, 1>
// CHECK-SAME:   : (tensor<8x8xf32>, tensor<1x2xi32>) -> tensor<8x8xf32>
// CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[CT0]] over <"g", 2, 1> : tensor<8x8xf32>
// CHECK-NEXT:   return [[ALL_REDUCE]], [[TO_VARYING]] : tensor<8x8xf32>, tensor<8x8xf32>
func.func @all_reduce_ragged(%x: tensor<8x8xf32>, %c: tensor<1x2xi32>) -> tensor<8x8xf32> {
  %0 = moe.all_reduce %x counts(%c) over <"g", 2, 1> : (tensor<8x8xf32>, tensor<1x2xi32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// to_varying -> all_reduce: where every due gradient sum comes from.
// CHECK-LABEL: func.func @to_varying(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x8xf32>, tensor<8x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[X]] over <"g", 2, 1> : tensor<8x8xf32>
// CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[CT0]] over <"g", 2, 1> : (tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   return [[TO_VARYING]], [[ALL_REDUCE]] : tensor<8x8xf32>, tensor<8x8xf32>
func.func @to_varying(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.to_varying %x over <"g", 2, 1> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// reduce_scatter -> all_gather, to_varying.
// CHECK-LABEL: func.func @reduce_scatter(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<4x8xf32>, tensor<8x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[REDUCE_SCATTER:%[a-z0-9_]+]] = moe.reduce_scatter [[X]] over <"g", 2, 1> {dim = 0 : i64}
// CHECK-SAME:   : (tensor<8x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ALL_GATHER:%[a-z0-9_]+]] = moe.all_gather [[CT0]] over <"g", 2, 1> {dim = 0 : i64}
// CHECK-SAME:   : (tensor<4x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[ALL_GATHER]] over <"g", 2, 1> : tensor<8x8xf32>
// CHECK-NEXT:   return [[REDUCE_SCATTER]], [[TO_VARYING]] : tensor<4x8xf32>, tensor<8x8xf32>
func.func @reduce_scatter(%x: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.reduce_scatter %x over <"g", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// all_to_all -> the exchange with the dimensions swapped.
// CHECK-LABEL: func.func @all_to_all(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<8x4xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<4x8xf32>, tensor<8x4xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[X]] over <"g", 2, 1>
// CHECK-SAME:   {concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x4xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[CT0]] over <"g", 2, 1>
// CHECK-SAME:   {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:   return [[ALL_TO_ALL]], [[ALL_TO_ALL2]] : tensor<4x8xf32>, tensor<8x4xf32>
func.func @all_to_all(%x: tensor<8x4xf32>) -> tensor<4x8xf32> {
  %0 = moe.all_to_all %x over <"g", 2, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// all_to_all_v -> the other direction: to the experts, back to the blocks.
// CHECK-LABEL: func.func @to_experts(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<1x4xi32>,
// CHECK-SAME:   [[E:%[a-z0-9_]+]]: tensor<2x2xi32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<32x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<32x8xf32>, tensor<16x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[X]], [[B]], [[E]] over <"g", 2, 1>
// CHECK-SAME:   {direction = #moe<direction to_experts>}
// CHECK-SAME:   : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
// CHECK-NEXT:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v [[CT0]], [[B]], [[E]] over <"g", 2, 1>
// CHECK-SAME:   {direction = #moe<direction from_experts>}
// CHECK-SAME:   : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
// CHECK-NEXT:   return [[ALL_TO_ALL_V]], [[ALL_TO_ALL_V2]] : tensor<32x8xf32>, tensor<16x8xf32>
func.func @to_experts(%x: tensor<16x8xf32>, %b: tensor<1x4xi32>, %e: tensor<2x2xi32>) -> tensor<32x8xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction to_experts>} : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
  return %0 : tensor<32x8xf32>
}

// And from the experts, back to them.
// CHECK-LABEL: func.func @from_experts(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<32x8xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<1x4xi32>,
// CHECK-SAME:   [[E:%[a-z0-9_]+]]: tensor<2x2xi32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<16x8xf32>, tensor<32x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[X]], [[B]], [[E]] over <"g", 2, 1>
// CHECK-SAME:   {direction = #moe<direction from_experts>}
// CHECK-SAME:   : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
// CHECK-NEXT:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v [[CT0]], [[B]], [[E]] over <"g", 2, 1>
// CHECK-SAME:   {direction = #moe<direction to_experts>}
// CHECK-SAME:   : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
// CHECK-NEXT:   return [[ALL_TO_ALL_V]], [[ALL_TO_ALL_V2]] : tensor<16x8xf32>, tensor<32x8xf32>
func.func @from_experts(%x: tensor<32x8xf32>, %b: tensor<1x4xi32>, %e: tensor<2x2xi32>) -> tensor<16x8xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 2, 1> {direction = #moe<direction from_experts>} : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// Copies go to neighbouring members, and come back from them: the adjoint has as many.
// CHECK-LABEL: func.func @to_copies(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<32x8xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<1x4xi32>,
// CHECK-SAME:   [[E:%[a-z0-9_]+]]: tensor<4x2xi32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<64x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<64x8xf32>, tensor<32x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[X]], [[B]], [[E]] over <"g", 4, 1>
// CHECK-SAME:   {copies = 2 : i64, direction = #moe<direction to_experts>}
// CHECK-SAME:   : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
// CHECK-NEXT:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v [[CT0]], [[B]], [[E]] over <"g", 4, 1>
// CHECK-SAME:   {copies = 2 : i64, direction = #moe<direction from_experts>}
// CHECK-SAME:   : (tensor<64x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
// CHECK-NEXT:   return [[ALL_TO_ALL_V]], [[ALL_TO_ALL_V2]] : tensor<64x8xf32>, tensor<32x8xf32>
func.func @to_copies(%x: tensor<32x8xf32>, %b: tensor<1x4xi32>, %e: tensor<4x2xi32>) -> tensor<64x8xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 4, 1> {direction = #moe<direction to_experts>, copies = 2 : i64} : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
  return %0 : tensor<64x8xf32>
}

// From the experts with copies, and back to them with as many.
// CHECK-LABEL: func.func @from_copies(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<64x8xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<1x4xi32>,
// CHECK-SAME:   [[E:%[a-z0-9_]+]]: tensor<4x2xi32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<32x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<32x8xf32>, tensor<64x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[ALL_TO_ALL_V:%[a-z0-9_]+]] = moe.all_to_all_v [[X]], [[B]], [[E]] over <"g", 4, 1>
// CHECK-SAME:   {copies = 2 : i64, direction = #moe<direction from_experts>}
// CHECK-SAME:   : (tensor<64x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
// CHECK-NEXT:   [[ALL_TO_ALL_V2:%[a-z0-9_]+]] = moe.all_to_all_v [[CT0]], [[B]], [[E]] over <"g", 4, 1>
// CHECK-SAME:   {copies = 2 : i64, direction = #moe<direction to_experts>}
// CHECK-SAME:   : (tensor<32x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<64x8xf32>
// CHECK-NEXT:   return [[ALL_TO_ALL_V]], [[ALL_TO_ALL_V2]] : tensor<32x8xf32>, tensor<64x8xf32>
func.func @from_copies(%x: tensor<64x8xf32>, %b: tensor<1x4xi32>, %e: tensor<4x2xi32>) -> tensor<32x8xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"g", 4, 1> {direction = #moe<direction from_experts>, copies = 2 : i64} : (tensor<64x8xf32>, tensor<1x4xi32>, tensor<4x2xi32>) -> tensor<32x8xf32>
  return %0 : tensor<32x8xf32>
}

// No gradient flows through counts, sliced or dumped or not.
// CHECK-LABEL: func.func @slice_counts(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[C:%[a-z0-9_]+]]: tensor<1x2xi32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x8xf32>, tensor<8x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[SLICE_COUNTS:%[a-z0-9_]+]] = moe.slice_counts [[C]] over <"mp", 2, 1> {rows = 8 : i64}
// CHECK-SAME:   : tensor<1x2xi32>
// CHECK-NEXT:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[SLICE_COUNTS]] : (tensor<1x2xi32>) -> tensor<2x2xi32>
// CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[X]] counts([[DUMP]]) over <"g", 2, 1>
// CHECK-SAME:   : (tensor<8x8xf32>, tensor<2x2xi32>) -> tensor<8x8xf32>
// CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[CT0]] over <"g", 2, 1> : tensor<8x8xf32>
// CHECK-NEXT:   return [[ALL_REDUCE]], [[TO_VARYING]] : tensor<8x8xf32>, tensor<8x8xf32>
func.func @slice_counts(%x: tensor<8x8xf32>, %c: tensor<1x2xi32>) -> tensor<8x8xf32> {
  %0 = moe.slice_counts %c over <"mp", 2, 1> {rows = 8 : i64} : tensor<1x2xi32>
  %1 = moe.dump %0 : (tensor<1x2xi32>) -> tensor<2x2xi32>
  %2 = moe.all_reduce %x counts(%1) over <"g", 2, 1> : (tensor<8x8xf32>, tensor<2x2xi32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// broadcast -> reduce to the owner, of each member's share.
// CHECK-LABEL: func.func @broadcast(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x8xf32>, tensor<8x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[BROADCAST:%[a-z0-9_]+]] = moe.broadcast [[X]] over <"g", 2, 1> {root = 1 : i64} : tensor<8x8xf32>
// CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[CT0]] {factor = 5.000000e-01 : f64} : tensor<8x8xf32>
// CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[SCALE]] over <"g", 2, 1> {shares} : tensor<8x8xf32>
// CHECK-NEXT:   [[REDUCE:%[a-z0-9_]+]] = moe.reduce [[TO_VARYING]] over <"g", 2, 1> {root = 1 : i64} : tensor<8x8xf32>
// CHECK-NEXT:   return [[BROADCAST]], [[REDUCE]] : tensor<8x8xf32>, tensor<8x8xf32>
func.func @broadcast(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.broadcast %x over <"g", 2, 1> {root = 1 : i64} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// reduce -> broadcast from the owner, to_varying.
// CHECK-LABEL: func.func @reduce(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x8xf32>, tensor<8x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[REDUCE:%[a-z0-9_]+]] = moe.reduce [[X]] over <"g", 2, 1> {root = 1 : i64} : tensor<8x8xf32>
// CHECK-NEXT:   [[BROADCAST:%[a-z0-9_]+]] = moe.broadcast [[CT0]] over <"g", 2, 1> {root = 1 : i64} : tensor<8x8xf32>
// CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[BROADCAST]] over <"g", 2, 1> : tensor<8x8xf32>
// CHECK-NEXT:   return [[REDUCE]], [[TO_VARYING]] : tensor<8x8xf32>, tensor<8x8xf32>
func.func @reduce(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.reduce %x over <"g", 2, 1> {root = 1 : i64} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// assume_replicated -> scale by 1/size, to_varying.
// CHECK-LABEL: func.func @assume_replicated(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x8xf32>, tensor<8x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[ASSUME_REPLICATED:%[a-z0-9_]+]] = moe.assume_replicated [[X]] over <"g", 2, 1> : tensor<8x8xf32>
// CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[CT0]] {factor = 5.000000e-01 : f64} : tensor<8x8xf32>
// CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[SCALE]] over <"g", 2, 1> {shares} : tensor<8x8xf32>
// CHECK-NEXT:   return [[ASSUME_REPLICATED]], [[TO_VARYING]] : tensor<8x8xf32>, tensor<8x8xf32>
func.func @assume_replicated(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.assume_replicated %x over <"g", 2, 1> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// matmul: da is [rows, inner] and db [inner, columns], each in the form of its operand.
// CHECK-LABEL: func.func @matmul(
// CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<4x8xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<8x16xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<4x16xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<4x16xf32>, tensor<4x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<8x16xf32>
// CHECK-SAME:   {moe.name = "grad.argument1", moe.role = "gradient"})
// CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[A]], [[B]] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
// CHECK-NEXT:   [[MATMUL2:%[a-z0-9_]+]] = moe.matmul [[CT0]], [[B]] {transpose_b}
// CHECK-SAME:   : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[MATMUL3:%[a-z0-9_]+]] = moe.matmul_wgrad [[A]], [[CT0]]
// CHECK-SAME:   : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
// CHECK-NEXT:   return [[MATMUL]], [[MATMUL2]], [[MATMUL3]] : tensor<4x16xf32>, tensor<4x8xf32>, tensor<8x16xf32>
func.func @matmul(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>) -> tensor<4x16xf32> {
  %0 = moe.matmul %a, %b : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// matmul with transpose_b: da is [rows, inner] and db [inner, columns], each in the form of its operand.
// CHECK-LABEL: func.func @matmul_tb(
// CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<4x8xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<16x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<4x16xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<4x16xf32>, tensor<4x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<16x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument1", moe.role = "gradient"})
// CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[A]], [[B]] {transpose_b}
// CHECK-SAME:   : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
// CHECK-NEXT:   [[MATMUL2:%[a-z0-9_]+]] = moe.matmul [[CT0]], [[B]] : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[MATMUL3:%[a-z0-9_]+]] = moe.matmul_wgrad [[CT0]], [[A]]
// CHECK-SAME:   : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
// CHECK-NEXT:   return [[MATMUL]], [[MATMUL2]], [[MATMUL3]] : tensor<4x16xf32>, tensor<4x8xf32>, tensor<16x8xf32>
func.func @matmul_tb(%a: tensor<4x8xf32>, %b: tensor<16x8xf32>) -> tensor<4x16xf32> {
  %0 = moe.matmul %a, %b {transpose_b} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// matmul with transpose_a: da is [rows, inner] and db [inner, columns], each in the form of its operand.
// CHECK-LABEL: func.func @matmul_ta(
// CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<8x4xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<8x16xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<4x16xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<4x16xf32>, tensor<8x4xf32>
// CHECK-SAME:   {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<8x16xf32>
// CHECK-SAME:   {moe.name = "grad.argument1", moe.role = "gradient"})
// CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[A]], [[B]] {transpose_a}
// CHECK-SAME:   : (tensor<8x4xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
// CHECK-NEXT:   [[MATMUL2:%[a-z0-9_]+]] = moe.matmul [[B]], [[CT0]] {transpose_b}
// CHECK-SAME:   : (tensor<8x16xf32>, tensor<4x16xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:   [[MATMUL3:%[a-z0-9_]+]] = moe.matmul [[A]], [[CT0]] : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
// CHECK-NEXT:   return [[MATMUL]], [[MATMUL2]], [[MATMUL3]] : tensor<4x16xf32>, tensor<8x4xf32>, tensor<8x16xf32>
func.func @matmul_ta(%a: tensor<8x4xf32>, %b: tensor<8x16xf32>) -> tensor<4x16xf32> {
  %0 = moe.matmul %a, %b {transpose_a} : (tensor<8x4xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// matmul with transpose_a, transpose_b: da is [rows, inner] and db [inner, columns], each in the form of its operand.
// CHECK-LABEL: func.func @matmul_ta_tb(
// CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<8x4xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<16x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<4x16xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<4x16xf32>, tensor<8x4xf32>
// CHECK-SAME:   {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<16x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument1", moe.role = "gradient"})
// CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[A]], [[B]] {transpose_a, transpose_b}
// CHECK-SAME:   : (tensor<8x4xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
// CHECK-NEXT:   [[MATMUL2:%[a-z0-9_]+]] = moe.matmul [[B]], [[CT0]] {transpose_a, transpose_b}
// CHECK-SAME:   : (tensor<16x8xf32>, tensor<4x16xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:   [[MATMUL3:%[a-z0-9_]+]] = moe.matmul [[CT0]], [[A]] {transpose_a, transpose_b}
// CHECK-SAME:   : (tensor<4x16xf32>, tensor<8x4xf32>) -> tensor<16x8xf32>
// CHECK-NEXT:   return [[MATMUL]], [[MATMUL2]], [[MATMUL3]] : tensor<4x16xf32>, tensor<8x4xf32>, tensor<16x8xf32>
func.func @matmul_ta_tb(%a: tensor<8x4xf32>, %b: tensor<16x8xf32>) -> tensor<4x16xf32> {
  %0 = moe.matmul %a, %b {transpose_a, transpose_b} : (tensor<8x4xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// add -> the cotangent itself, to both.
// CHECK-LABEL: func.func @add(
// CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x8xf32>, tensor<8x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<8x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument1", moe.role = "gradient"})
// CHECK-NEXT:   [[ADD:%[a-z0-9_]+]] = moe.add [[A]], [[B]] : tensor<8x8xf32>
// CHECK-NEXT:   return [[ADD]], [[CT0]], [[CT0]] : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
func.func @add(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.add %a, %b : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// scale -> scale.
// CHECK-LABEL: func.func @scale(
// CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x8xf32>, tensor<8x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[A]] {factor = 3.000000e+00 : f64} : tensor<8x8xf32>
// CHECK-NEXT:   [[SCALE2:%[a-z0-9_]+]] = moe.scale [[CT0]] {factor = 3.000000e+00 : f64} : tensor<8x8xf32>
// CHECK-NEXT:   return [[SCALE]], [[SCALE2]] : tensor<8x8xf32>, tensor<8x8xf32>
func.func @scale(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.scale %a {factor = 3.000000e+00 : f64} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// row_scale -> row_scale, row_dot.
// CHECK-LABEL: func.func @row_scale(
// CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<4x8xf32>,
// CHECK-SAME:   [[F:%[a-z0-9_]+]]: tensor<4x1xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<4x8xf32>, tensor<4x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<4x1xf32>
// CHECK-SAME:   {moe.name = "grad.argument1", moe.role = "gradient"})
// CHECK-NEXT:   [[ROW_SCALE:%[a-z0-9_]+]] = moe.row_scale [[A]], [[F]] : tensor<4x8xf32>, tensor<4x1xf32>
// CHECK-NEXT:   [[ROW_SCALE2:%[a-z0-9_]+]] = moe.row_scale [[CT0]], [[F]] : tensor<4x8xf32>, tensor<4x1xf32>
// CHECK-NEXT:   [[ROW_DOT:%[a-z0-9_]+]] = moe.row_dot [[CT0]], [[A]] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK-NEXT:   return [[ROW_SCALE]], [[ROW_SCALE2]], [[ROW_DOT]] : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>
func.func @row_scale(%a: tensor<4x8xf32>, %f: tensor<4x1xf32>) -> tensor<4x8xf32> {
  %0 = moe.row_scale %a, %f : tensor<4x8xf32>, tensor<4x1xf32>
  return %0 : tensor<4x8xf32>
}

// append_to_heads -> one op for both.
// CHECK-LABEL: func.func @append_to_heads(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<4x6xf32>,
// CHECK-SAME:   [[S:%[a-z0-9_]+]]: tensor<4x2xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<4x12xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-NEXT:   [[APPEND_TO_HEADS:%[a-z0-9_]+]] = moe.append_to_heads [[X]], [[S]] : (tensor<4x6xf32>, tensor<4x2xf32>) -> tensor<4x12xf32>
// CHECK-NEXT:   [[GRAD_X:%[a-z0-9_]+]], [[GRAD_SHARED:%[a-z0-9_]+]] = moe.append_to_heads_grad [[CT0]]
// CHECK-SAME:     (tensor<4x12xf32>) -> (tensor<4x6xf32>, tensor<4x2xf32>)
// CHECK-NEXT:   return [[APPEND_TO_HEADS]], [[GRAD_X]], [[GRAD_SHARED]]
func.func @append_to_heads(%x: tensor<4x6xf32>, %s: tensor<4x2xf32>) -> tensor<4x12xf32> {
  %0 = moe.append_to_heads %x, %s : (tensor<4x6xf32>, tensor<4x2xf32>) -> tensor<4x12xf32>
  return %0 : tensor<4x12xf32>
}

// row_dot -> row_scale of the other operand.
// CHECK-LABEL: func.func @row_dot(
// CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<4x8xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<4x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<4x1xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<4x1xf32>, tensor<4x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<4x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument1", moe.role = "gradient"})
// CHECK-NEXT:   [[ROW_DOT:%[a-z0-9_]+]] = moe.row_dot [[A]], [[B]] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK-NEXT:   [[ROW_SCALE:%[a-z0-9_]+]] = moe.row_scale [[B]], [[CT0]] : tensor<4x8xf32>, tensor<4x1xf32>
// CHECK-NEXT:   [[ROW_SCALE2:%[a-z0-9_]+]] = moe.row_scale [[A]], [[CT0]] : tensor<4x8xf32>, tensor<4x1xf32>
// CHECK-NEXT:   return [[ROW_DOT]], [[ROW_SCALE]], [[ROW_SCALE2]] : tensor<4x1xf32>, tensor<4x8xf32>, tensor<4x8xf32>
func.func @row_dot(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x1xf32> {
  %0 = moe.row_dot %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x1xf32>
  return %0 : tensor<4x1xf32>
}

// grouped_matmul -> grouped_matmul with the weights transposed, grouped_matmul_wgrad.
// CHECK-LABEL: func.func @grouped_matmul(
// CHECK-SAME:   [[R:%[a-z0-9_]+]]: tensor<2x4x8xf32>,
// CHECK-SAME:   [[W:%[a-z0-9_]+]]: tensor<2x8x16xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<2x4x16xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<2x4x16xf32>, tensor<2x4x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<2x8x16xf32>
// CHECK-SAME:   {moe.name = "grad.argument1", moe.role = "gradient"})
// CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[R]], [[W]]
// CHECK-SAME:   : (tensor<2x4x8xf32>, tensor<2x8x16xf32>) -> tensor<2x4x16xf32>
// CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[CT0]], [[W]] {transpose_weights}
// CHECK-SAME:   : (tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x4x8xf32>
// CHECK-NEXT:   [[GROUPED_MATMUL_WGRAD:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad [[R]], [[CT0]]
// CHECK-SAME:   : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
// CHECK-NEXT:   return [[GROUPED_MATMUL]], [[GROUPED_MATMUL2]], [[GROUPED_MATMUL_WGRAD]]
// CHECK-SAME:   : tensor<2x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x16xf32>
func.func @grouped_matmul(%r: tensor<2x4x8xf32>, %w: tensor<2x8x16xf32>) -> tensor<2x4x16xf32> {
  %0 = moe.grouped_matmul %r, %w : (tensor<2x4x8xf32>, tensor<2x8x16xf32>) -> tensor<2x4x16xf32>
  return %0 : tensor<2x4x16xf32>
}

// With transpose_weights rows and cotangent change places in the weight gradient; counts go with both.
// CHECK-LABEL: func.func @grouped_matmul_transposed(
// CHECK-SAME:   [[R:%[a-z0-9_]+]]: tensor<32x8xf32>,
// CHECK-SAME:   [[W:%[a-z0-9_]+]]: tensor<2x16x8xf32>,
// CHECK-SAME:   [[C:%[a-z0-9_]+]]: tensor<1x2xi32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<32x16xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<32x16xf32>, tensor<32x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<2x16x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument1", moe.role = "gradient"})
// CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[R]], [[W]] counts([[C]]) {transpose_weights}
// CHECK-SAME:   : (tensor<32x8xf32>, tensor<2x16x8xf32>, tensor<1x2xi32>) -> tensor<32x16xf32>
// CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[CT0]], [[W]] counts([[C]])
// CHECK-SAME:   : (tensor<32x16xf32>, tensor<2x16x8xf32>, tensor<1x2xi32>) -> tensor<32x8xf32>
// CHECK-NEXT:   [[GROUPED_MATMUL_WGRAD:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad [[CT0]], [[R]] counts([[C]])
// CHECK-SAME:   : (tensor<32x16xf32>, tensor<32x8xf32>, tensor<1x2xi32>) -> tensor<2x16x8xf32>
// CHECK-NEXT:   return [[GROUPED_MATMUL]], [[GROUPED_MATMUL2]], [[GROUPED_MATMUL_WGRAD]]
// CHECK-SAME:   : tensor<32x16xf32>, tensor<32x8xf32>, tensor<2x16x8xf32>
func.func @grouped_matmul_transposed(%r: tensor<32x8xf32>, %w: tensor<2x16x8xf32>, %c: tensor<1x2xi32>) -> tensor<32x16xf32> {
  %0 = moe.grouped_matmul %r, %w counts(%c) {transpose_weights} : (tensor<32x8xf32>, tensor<2x16x8xf32>, tensor<1x2xi32>) -> tensor<32x16xf32>
  return %0 : tensor<32x16xf32>
}

// bias_add -> the cotangent itself, bias_grad with the same scale.
// CHECK-LABEL: func.func @bias_add(
// CHECK-SAME:   [[R:%[a-z0-9_]+]]: tensor<32x8xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<2x8xf32>,
// CHECK-SAME:   [[C:%[a-z0-9_]+]]: tensor<1x2xi32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<32x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<32x8xf32>, tensor<32x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<2x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument1", moe.role = "gradient"})
// CHECK-NEXT:   [[BIAS_ADD:%[a-z0-9_]+]] = moe.bias_add [[R]], [[B]] counts([[C]]) {scale = 5.000000e-01 : f64}
// CHECK-SAME:   : (tensor<32x8xf32>, tensor<2x8xf32>, tensor<1x2xi32>) -> tensor<32x8xf32>
// CHECK-NEXT:   [[BIAS_GRAD:%[a-z0-9_]+]] = moe.bias_grad [[CT0]] counts([[C]]) {scale = 5.000000e-01 : f64}
// CHECK-SAME:   : (tensor<32x8xf32>, tensor<1x2xi32>) -> tensor<2x8xf32>
// CHECK-NEXT:   return [[BIAS_ADD]], [[CT0]], [[BIAS_GRAD]] : tensor<32x8xf32>, tensor<32x8xf32>, tensor<2x8xf32>
func.func @bias_add(%r: tensor<32x8xf32>, %b: tensor<2x8xf32>, %c: tensor<1x2xi32>) -> tensor<32x8xf32> {
  %0 = moe.bias_add %r, %b counts(%c) {scale = 5.000000e-01 : f64} : (tensor<32x8xf32>, tensor<2x8xf32>, tensor<1x2xi32>) -> tensor<32x8xf32>
  return %0 : tensor<32x8xf32>
}

// activation -> activation_grad.
// CHECK-LABEL: func.func @activation(
// CHECK-SAME:   [[H:%[a-z0-9_]+]]: tensor<32x16xf32>,
// CHECK-SAME:   [[C:%[a-z0-9_]+]]: tensor<1x2xi32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<32x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<32x8xf32>, tensor<32x16xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[H]] counts([[C]]) {kind = #moe<activation swiglu>}
// CHECK-SAME:   : (tensor<32x16xf32>, tensor<1x2xi32>) -> tensor<32x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD:%[a-z0-9_]+]] = moe.activation_grad [[H]], [[CT0]] counts([[C]])
// CHECK-SAME:   {kind = #moe<activation swiglu>}
// CHECK-SAME:   : (tensor<32x16xf32>, tensor<32x8xf32>, tensor<1x2xi32>) -> tensor<32x16xf32>
// CHECK-NEXT:   return [[ACTIVATION]], [[ACTIVATION_GRAD]] : tensor<32x8xf32>, tensor<32x16xf32>
func.func @activation(%h: tensor<32x16xf32>, %c: tensor<1x2xi32>) -> tensor<32x8xf32> {
  %0 = moe.activation %h counts(%c) {kind = #moe<activation swiglu>} : (tensor<32x16xf32>, tensor<1x2xi32>) -> tensor<32x8xf32>
  return %0 : tensor<32x8xf32>
}

// dump -> local_reduce of the same blocks.
// CHECK-LABEL: func.func @dump(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<2x4xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<2x12xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<2x12xf32>, tensor<2x4xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[X]] {blocks = 2 : i64, dim = 1 : i64}
// CHECK-SAME:   : (tensor<2x4xf32>) -> tensor<2x12xf32>
// CHECK-NEXT:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[CT0]] {blocks = 2 : i64, dim = 1 : i64}
// CHECK-SAME:   : (tensor<2x12xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:   return [[DUMP]], [[LOCAL_REDUCE]] : tensor<2x12xf32>, tensor<2x4xf32>
func.func @dump(%x: tensor<2x4xf32>) -> tensor<2x12xf32> {
  %0 = moe.dump %x {dim = 1 : i64, blocks = 2 : i64} : (tensor<2x4xf32>) -> tensor<2x12xf32>
  return %0 : tensor<2x12xf32>
}

// local_reduce -> dump of the same blocks.
// CHECK-LABEL: func.func @local_reduce(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<2x12xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<2x4xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<2x4xf32>, tensor<2x12xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[X]] {blocks = 2 : i64, dim = 1 : i64}
// CHECK-SAME:   : (tensor<2x12xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[CT0]] {blocks = 2 : i64, dim = 1 : i64}
// CHECK-SAME:   : (tensor<2x4xf32>) -> tensor<2x12xf32>
// CHECK-NEXT:   return [[LOCAL_REDUCE]], [[DUMP]] : tensor<2x4xf32>, tensor<2x12xf32>
func.func @local_reduce(%x: tensor<2x12xf32>) -> tensor<2x4xf32> {
  %0 = moe.local_reduce %x {dim = 1 : i64, blocks = 2 : i64} : (tensor<2x12xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// A single copy of each block also has an adjoint, of the operand's type.
// CHECK-LABEL: func.func @dump_once(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<2x4xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<2x4xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<2x4xf32>, tensor<2x4xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[DUMP:%[a-z0-9_]+]] = moe.dump [[X]] : (tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:   [[LOCAL_REDUCE:%[a-z0-9_]+]] = moe.local_reduce [[CT0]] : (tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:   return [[DUMP]], [[LOCAL_REDUCE]] : tensor<2x4xf32>, tensor<2x4xf32>
func.func @dump_once(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = moe.dump %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// dispatch -> combine; with weights also slot_dot.
// CHECK-LABEL: func.func @dispatch(
// CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<16x8xf32>,
// CHECK-SAME:   [[S:%[a-z0-9_]+]]: tensor<16x2xi32>,
// CHECK-SAME:   [[W:%[a-z0-9_]+]]: tensor<16x2xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<32x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<32x8xf32>, tensor<16x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<16x2xf32>
// CHECK-SAME:   {moe.name = "grad.argument2", moe.role = "gradient"})
// CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[X]], [[S]] weights([[W]])
// CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<32x8xf32>
// CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[CT0]], [[S]] weights([[W]])
// CHECK-SAME:   : (tensor<32x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
// CHECK-NEXT:   [[SLOT_DOT:%[a-z0-9_]+]] = moe.slot_dot [[X]], [[CT0]], [[S]]
// CHECK-SAME:   : (tensor<16x8xf32>, tensor<32x8xf32>, tensor<16x2xi32>) -> tensor<16x2xf32>
// CHECK-NEXT:   return [[DISPATCH]], [[COMBINE]], [[SLOT_DOT]] : tensor<32x8xf32>, tensor<16x8xf32>, tensor<16x2xf32>
func.func @dispatch(%x: tensor<16x8xf32>, %s: tensor<16x2xi32>, %w: tensor<16x2xf32>) -> tensor<32x8xf32> {
  %0 = moe.dispatch %x, %s weights(%w) : (tensor<16x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<32x8xf32>
  return %0 : tensor<32x8xf32>
}

// combine -> dispatch; with weights also slot_dot.
// CHECK-LABEL: func.func @combine(
// CHECK-SAME:   [[R:%[a-z0-9_]+]]: tensor<4x8x8xf32>,
// CHECK-SAME:   [[S:%[a-z0-9_]+]]: tensor<16x2xi32>,
// CHECK-SAME:   [[W:%[a-z0-9_]+]]: tensor<16x2xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<16x8xf32>, tensor<4x8x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<16x2xf32>
// CHECK-SAME:   {moe.name = "grad.argument2", moe.role = "gradient"})
// CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[R]], [[S]] weights([[W]])
// CHECK-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
// CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[CT0]], [[S]] weights([[W]])
// CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<4x8x8xf32>
// CHECK-NEXT:   [[SLOT_DOT:%[a-z0-9_]+]] = moe.slot_dot [[CT0]], [[R]], [[S]]
// CHECK-SAME:   : (tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<16x2xi32>) -> tensor<16x2xf32>
// CHECK-NEXT:   return [[COMBINE]], [[DISPATCH]], [[SLOT_DOT]] : tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<16x2xf32>
func.func @combine(%r: tensor<4x8x8xf32>, %s: tensor<16x2xi32>, %w: tensor<16x2xf32>) -> tensor<16x8xf32> {
  %0 = moe.combine %r, %s weights(%w) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// Without weights there is no gradient but that of the rows.
// CHECK-LABEL: func.func @combine_unweighted(
// CHECK-SAME:   [[R:%[a-z0-9_]+]]: tensor<4x8x8xf32>,
// CHECK-SAME:   [[S:%[a-z0-9_]+]]: tensor<16x2xi32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<16x8xf32>, tensor<4x8x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[R]], [[S]]
// CHECK-SAME:   : (tensor<4x8x8xf32>, tensor<16x2xi32>) -> tensor<16x8xf32>
// CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[CT0]], [[S]]
// CHECK-SAME:   : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
// CHECK-NEXT:   return [[COMBINE]], [[DISPATCH]] : tensor<16x8xf32>, tensor<4x8x8xf32>
func.func @combine_unweighted(%r: tensor<4x8x8xf32>, %s: tensor<16x2xi32>) -> tensor<16x8xf32> {
  %0 = moe.combine %r, %s : (tensor<4x8x8xf32>, tensor<16x2xi32>) -> tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// route -> route_grad, from the weights and the loss; counts are integers and get no cotangent.
// CHECK-LABEL: func.func @route(
// CHECK-SAME:   [[L:%[a-z0-9_]+]]: tensor<16x4xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<4xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<16x2xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"},
// CHECK-SAME:   [[CT1:%[a-z0-9_]+]]: tensor<f32> {moe.name = "cotangent.result1", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<16x2xf32>, tensor<f32>, tensor<1x4xi32>, tensor<16x4xf32>
// CHECK-SAME:   {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]],
// CHECK-SAME:   [[WEIGHTS:%[a-z0-9_]+]], [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
// CHECK-SAME:   moe.route [[L]] selection_bias([[B]])
// CHECK-SAME:   {capacity = 8 : i64, groups = 2 : i64, renormalize, routing_scale = 2.000000e+00 : f64,
// CHECK-SAME:   score = #moe<score sigmoid>} : (tensor<16x4xf32>, tensor<4xf32>)
// CHECK-SAME:   -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
// CHECK-NEXT:   [[ROUTE_GRAD:%[a-z0-9_]+]] = moe.route_grad [[SCORES]], [[EXPERTS]] weights([[CT0]]) aux([[CT1]])
// CHECK-SAME:   {groups = 2 : i64, renormalize, routing_scale = 2.000000e+00 : f64, score = #moe<score sigmoid>}
// CHECK-SAME:   : (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<f32>) -> tensor<16x4xf32>
// CHECK-NEXT:   return [[WEIGHTS]], [[AUX]], [[COUNTS]], [[ROUTE_GRAD]]
// CHECK-SAME:   : tensor<16x2xf32>, tensor<f32>, tensor<1x4xi32>, tensor<16x4xf32>
func.func @route(%l: tensor<16x4xf32>, %b: tensor<4xf32>) -> (tensor<16x2xf32>, tensor<f32>, tensor<1x4xi32>) {
  %0:6 = moe.route %l selection_bias(%b) {score = #moe<score sigmoid>, renormalize, routing_scale = 2.000000e+00 : f64, capacity = 8 : i64, groups = 2 : i64}
    : (tensor<16x4xf32>, tensor<4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return %0#3, %0#5, %0#4 : tensor<16x2xf32>, tensor<f32>, tensor<1x4xi32>
}

// From the weights alone.
// CHECK-LABEL: func.func @route_weights(
// CHECK-SAME:   [[L:%[a-z0-9_]+]]: tensor<16x4xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<16x2xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<16x2xf32>, tensor<16x4xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]],
// CHECK-SAME:   [[WEIGHTS:%[a-z0-9_]+]], [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
// CHECK-SAME:   moe.route [[L]]
// CHECK-SAME:   : (tensor<16x4xf32>)
// CHECK-SAME:   -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
// CHECK-NEXT:   [[ROUTE_GRAD:%[a-z0-9_]+]] = moe.route_grad [[SCORES]], [[EXPERTS]] weights([[CT0]])
// CHECK-SAME:   : (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x4xf32>
// CHECK-NEXT:   return [[WEIGHTS]], [[ROUTE_GRAD]] : tensor<16x2xf32>, tensor<16x4xf32>
func.func @route_weights(%l: tensor<16x4xf32>) -> tensor<16x2xf32> {
  %0:6 = moe.route %l : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return %0#3 : tensor<16x2xf32>
}

// From the loss alone.
// CHECK-LABEL: func.func @route_aux(
// CHECK-SAME:   [[L:%[a-z0-9_]+]]: tensor<16x4xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<f32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<f32>, tensor<16x4xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]],
// CHECK-SAME:   [[WEIGHTS:%[a-z0-9_]+]], [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
// CHECK-SAME:   moe.route [[L]]
// CHECK-SAME:   : (tensor<16x4xf32>)
// CHECK-SAME:   -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
// CHECK-NEXT:   [[ROUTE_GRAD:%[a-z0-9_]+]] = moe.route_grad [[SCORES]], [[EXPERTS]] aux([[CT0]])
// CHECK-SAME:   : (tensor<16x4xf32>, tensor<16x2xi32>, tensor<f32>) -> tensor<16x4xf32>
// CHECK-NEXT:   return [[AUX]], [[ROUTE_GRAD]] : tensor<f32>, tensor<16x4xf32>
func.func @route_aux(%l: tensor<16x4xf32>) -> tensor<f32> {
  %0:6 = moe.route %l : (tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
  return %0#5 : tensor<f32>
}

// Cotangents of several uses are added up.
// CHECK-LABEL: func.func @many_uses(
// CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x8xf32>, tensor<8x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[A]], [[A]] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   [[ADD:%[a-z0-9_]+]] = moe.add [[MATMUL]], [[A]] : tensor<8x8xf32>
// CHECK-NEXT:   [[MATMUL2:%[a-z0-9_]+]] = moe.matmul [[CT0]], [[A]] {transpose_b}
// CHECK-SAME:   : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   [[MATMUL3:%[a-z0-9_]+]] = moe.matmul_wgrad [[A]], [[CT0]]
// CHECK-SAME:   : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   [[ADD2:%[a-z0-9_]+]] = moe.add [[CT0]], [[MATMUL2]] : tensor<8x8xf32>
// CHECK-NEXT:   [[ADD3:%[a-z0-9_]+]] = moe.add [[ADD2]], [[MATMUL3]] : tensor<8x8xf32>
// CHECK-NEXT:   return [[ADD]], [[ADD3]] : tensor<8x8xf32>, tensor<8x8xf32>
func.func @many_uses(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = moe.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = moe.add %0, %a : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// So are those of a value that is returned twice and used besides.
// CHECK-LABEL: func.func @returned_twice(
// CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"},
// CHECK-SAME:   [[CT1:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result1", moe.role = "cotangent"},
// CHECK-SAME:   [[CT2:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result2", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument0", moe.role = "gradient"})
// CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[A]] {factor = 2.000000e+00 : f64} : tensor<8x8xf32>
// CHECK-NEXT:   [[SCALE2:%[a-z0-9_]+]] = moe.scale [[SCALE]] {factor = 3.000000e+00 : f64} : tensor<8x8xf32>
// CHECK-NEXT:   [[ADD:%[a-z0-9_]+]] = moe.add [[CT0]], [[CT1]] : tensor<8x8xf32>
// CHECK-NEXT:   [[SCALE3:%[a-z0-9_]+]] = moe.scale [[CT2]] {factor = 3.000000e+00 : f64} : tensor<8x8xf32>
// CHECK-NEXT:   [[ADD2:%[a-z0-9_]+]] = moe.add [[ADD]], [[SCALE3]] : tensor<8x8xf32>
// CHECK-NEXT:   [[SCALE4:%[a-z0-9_]+]] = moe.scale [[ADD2]] {factor = 2.000000e+00 : f64} : tensor<8x8xf32>
// CHECK-NEXT:   return [[SCALE]], [[SCALE]], [[SCALE2]], [[SCALE4]]
// CHECK-SAME:   : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
func.func @returned_twice(%a: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = moe.scale %a {factor = 2.000000e+00 : f64} : tensor<8x8xf32>
  %1 = moe.scale %0 {factor = 3.000000e+00 : f64} : tensor<8x8xf32>
  return %0, %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// An argument without influence has no gradient; one that is returned has its cotangent.
// CHECK-LABEL: func.func @no_influence(
// CHECK-SAME:   [[A:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<8x8xf32>,
// CHECK-SAME:   [[C:%[a-z0-9_]+]]: tensor<1x2xi32>,
// CHECK-SAME:   [[CT0:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<8x8xf32>, tensor<8x8xf32> {moe.name = "grad.argument1", moe.role = "gradient"})
// CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[A]] {factor = 2.000000e+00 : f64} : tensor<8x8xf32>
// CHECK-NEXT:   return [[B]], [[CT0]] : tensor<8x8xf32>, tensor<8x8xf32>
func.func @no_influence(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %c: tensor<1x2xi32>) -> tensor<8x8xf32> {
  %0 = moe.scale %a {factor = 2.000000e+00 : f64} : tensor<8x8xf32>
  return %b : tensor<8x8xf32>
}

module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 1, mp = 4, ep = 4, esp = 1>} {
  // A cotangent has the name and layout of its result, a gradient those of its argument; names that are missing are made up.
  // CHECK-LABEL: func.func @names(
  // CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>, moe.name = "x", moe.role = "input"},
  // CHECK-SAME:   [[W:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>}
  // CHECK-SAME:   ) -> (tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>, moe.name = "y"}, tensor<4x8xf32>
  // CHECK-SAME:   {moe.layout = #moe.layout<[mp], []>})
  // CHECK-NEXT:   [[ADD:%[a-z0-9_]+]] = moe.add [[X]], [[W]] : tensor<4x8xf32>
  // CHECK-NEXT:   return [[ADD]], [[W]] : tensor<4x8xf32>, tensor<4x8xf32>
  func.func @names(%x: tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>, moe.name = "x", moe.role = "input"}, %w: tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>})
      -> (tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>, moe.name = "y"}, tensor<4x8xf32> {moe.layout = #moe.layout<[mp], []>}) {
    %0 = moe.add %x, %w : tensor<4x8xf32>
    return %0, %w : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// broadcast_experts -> reduce_experts, and back; an addend has the whole cotangent. No gradient flows to the shadows.
// CHECK-LABEL: func.func @shadows(
// CHECK-SAME:   [[W:%[a-z0-9_]+]]: tensor<2x8xf32>, [[S:%[a-z0-9_]+]]: tensor<1x8xi32>, [[A:%[a-z0-9_]+]]: tensor<2x8xf32>,
// CHECK-SAME:   [[CT:%[a-z0-9_]+]]: tensor<2x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK-SAME:   ) -> (tensor<2x8xf32>, tensor<2x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<2x8xf32>
// CHECK-SAME:   {moe.name = "grad.argument2", moe.role = "gradient"})
// CHECK:        [[R:%[a-z0-9_]+]] = moe.reduce_experts {{.*}} addend([[A]])
// CHECK-NEXT:   [[B:%[a-z0-9_]+]] = moe.broadcast_experts [[CT]], [[S]] over <"ep", 4, 1>
// CHECK-SAME:   : (tensor<2x8xf32>, tensor<1x8xi32>) -> tensor<3x8xf32>
// CHECK-NEXT:   [[G:%[a-z0-9_]+]] = moe.reduce_experts [[B]], [[S]] over <"ep", 4, 1>
// CHECK-SAME:   : (tensor<3x8xf32>, tensor<1x8xi32>) -> tensor<2x8xf32>
// CHECK-NEXT:   return [[R]], [[G]], [[CT]]
func.func @shadows(%w: tensor<2x8xf32>, %s: tensor<1x8xi32>, %a: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = moe.broadcast_experts %w, %s over <"ep", 4, 1> : (tensor<2x8xf32>, tensor<1x8xi32>) -> tensor<3x8xf32>
  %1 = moe.reduce_experts %0, %s addend(%a) over <"ep", 4, 1> : (tensor<3x8xf32>, tensor<1x8xi32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// A phase of a ragged exchange -> the same phase in the other direction. What another phase brought has its rows' cotangents from
// the same block side.
// CHECK-LABEL: func.func @ragged_phases(
// CHECK-SAME:   [[B:%[a-z0-9_]+]]: tensor<1x8xi32>, [[E:%[a-z0-9_]+]]: tensor<2x2xi32>,
// CHECK-SAME:   [[CT:%[a-z0-9_]+]]: tensor<16x8xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}
// CHECK:        [[G1:%[a-z0-9_]+]] = moe.all_to_all_v [[CT]], [[B]], [[E]] over <"ep", 4, 1>
// CHECK-SAME:   {direction = #moe<direction to_experts>, phases = 2 : i64} : (tensor<16x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<24x8xf32>
// CHECK-NEXT:   [[G0:%[a-z0-9_]+]] = moe.all_to_all_v [[CT]], [[B]], [[E]] over <"ep", 4, 1>
// CHECK-SAME:   {direction = #moe<direction to_experts>, phase = 1 : i64, phases = 2 : i64}
// CHECK-NEXT:   return {{.*}}, [[G0]], [[G1]]
func.func @ragged_phases(%x: tensor<24x8xf32>, %y: tensor<24x8xf32>, %b: tensor<1x8xi32>, %e: tensor<2x2xi32>) -> tensor<16x8xf32> {
  %0 = moe.all_to_all_v %x, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>, phase = 1 : i64, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>) -> tensor<16x8xf32>
  %1 = moe.all_to_all_v %y, %b, %e addend(%0) over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 2 : i64}
    : (tensor<24x8xf32>, tensor<1x8xi32>, tensor<2x2xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  return %1 : tensor<16x8xf32>
}
