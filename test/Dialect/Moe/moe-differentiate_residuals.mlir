// RUN: moe-opt %s --moe-differentiate --canonicalize --cse | FileCheck %s

// moe.residual says how the backward gets values of the forward. Canonicalisation and CSE keep this: a recomputed value is not
// the original value.

// A copy leaves as soon as the value is there, and is back just before its use.
// CHECK-LABEL: func.func @offload(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<4x8xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.name = "cotangent.result0",
// CHECK-SAME:   moe.role = "cotangent"}) -> (tensor<4x8xf32>, tensor<4x8xf32> {moe.name = "grad.argument0", moe.role =
// CHECK-SAME:   "gradient"})
// CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[ARG0]] {factor = 2.000000e+00 : f64, moe.residual = #moe<residual offload>}
// CHECK-SAME:     : tensor<4x8xf32>
// CHECK-NEXT:   [[OFFLOAD:%[a-z0-9_]+]] = moe.offload [[SCALE]] : tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[SCALE]] {kind = #moe<activation gelu>} : (tensor<4x8xf32>) ->
// CHECK-SAME:     tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION2:%[a-z0-9_]+]] = moe.activation [[ACTIVATION]] {kind = #moe<activation silu>} : (tensor<4x8xf32>)
// CHECK-SAME:     -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD:%[a-z0-9_]+]] = moe.activation_grad [[ACTIVATION]], [[ARG1]] {kind = #moe<activation silu>} :
// CHECK-SAME:     (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[FETCH:%[a-z0-9_]+]] = moe.fetch [[OFFLOAD]] : tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD2:%[a-z0-9_]+]] = moe.activation_grad [[FETCH]], [[ACTIVATION_GRAD]] {kind = #moe<activation
// CHECK-SAME:     gelu>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[SCALE2:%[a-z0-9_]+]] = moe.scale [[ACTIVATION_GRAD2]] {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
// CHECK-NEXT:   return [[ACTIVATION2]], [[SCALE2]] : tensor<4x8xf32>, tensor<4x8xf32>
func.func @offload(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.residual = #moe<residual offload>} : tensor<4x8xf32>
  %1 = moe.activation %0 {kind = #moe<activation gelu>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = moe.activation %1 {kind = #moe<activation silu>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// A chain is made again from where a value is kept, once for all that need it.
// CHECK-LABEL: func.func @recompute(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<4x8xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.name = "cotangent.result0",
// CHECK-SAME:   moe.role = "cotangent"}) -> (tensor<4x8xf32>, tensor<4x8xf32> {moe.name = "grad.argument0", moe.role =
// CHECK-SAME:   "gradient"})
// CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[ARG0]] {kind = #moe<activation gelu>} : (tensor<4x8xf32>) ->
// CHECK-SAME:     tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION2:%[a-z0-9_]+]] = moe.activation [[ACTIVATION]] {kind = #moe<activation silu>, moe.residual =
// CHECK-SAME:     #moe<residual recompute>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION3:%[a-z0-9_]+]] = moe.activation [[ACTIVATION2]] {kind = #moe<activation sigmoid>, moe.residual =
// CHECK-SAME:     #moe<residual recompute>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION4:%[a-z0-9_]+]] = moe.activation [[ACTIVATION3]] {kind = #moe<activation gelu>} : (tensor<4x8xf32>)
// CHECK-SAME:     -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION5:%[a-z0-9_]+]] = moe.activation [[ACTIVATION]] {kind = #moe<activation silu>, moe.repeated} :
// CHECK-SAME:     (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION6:%[a-z0-9_]+]] = moe.activation [[ACTIVATION5]] {kind = #moe<activation sigmoid>, moe.repeated} :
// CHECK-SAME:     (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD:%[a-z0-9_]+]] = moe.activation_grad [[ACTIVATION6]], [[ARG1]] {kind = #moe<activation gelu>} :
// CHECK-SAME:     (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD2:%[a-z0-9_]+]] = moe.activation_grad [[ACTIVATION5]], [[ACTIVATION_GRAD]] {kind =
// CHECK-SAME:     #moe<activation sigmoid>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD3:%[a-z0-9_]+]] = moe.activation_grad [[ACTIVATION]], [[ACTIVATION_GRAD2]] {kind =
// CHECK-SAME:     #moe<activation silu>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD4:%[a-z0-9_]+]] = moe.activation_grad [[ARG0]], [[ACTIVATION_GRAD3]] {kind = #moe<activation
// CHECK-SAME:     gelu>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   return [[ACTIVATION4]], [[ACTIVATION_GRAD4]] : tensor<4x8xf32>, tensor<4x8xf32>
func.func @recompute(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.activation %x {kind = #moe<activation gelu>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = moe.activation %0 {kind = #moe<activation silu>, moe.residual = #moe<residual recompute>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = moe.activation %1 {kind = #moe<activation sigmoid>, moe.residual = #moe<residual recompute>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = moe.activation %2 {kind = #moe<activation gelu>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// Offloaded values can be recomputed, too.
// CHECK-LABEL: func.func @recompute_of_offloaded(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<4x8xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.name = "cotangent.result0",
// CHECK-SAME:   moe.role = "cotangent"}) -> (tensor<4x8xf32>, tensor<4x8xf32> {moe.name = "grad.argument0", moe.role =
// CHECK-SAME:   "gradient"})
// CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[ARG0]] {factor = 2.000000e+00 : f64, moe.residual = #moe<residual offload>}
// CHECK-SAME:     : tensor<4x8xf32>
// CHECK-NEXT:   [[OFFLOAD:%[a-z0-9_]+]] = moe.offload [[SCALE]] : tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[SCALE]] {kind = #moe<activation silu>, moe.residual =
// CHECK-SAME:     #moe<residual recompute>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION2:%[a-z0-9_]+]] = moe.activation [[ACTIVATION]] {kind = #moe<activation gelu>} : (tensor<4x8xf32>)
// CHECK-SAME:     -> tensor<4x8xf32>
// CHECK-NEXT:   [[FETCH:%[a-z0-9_]+]] = moe.fetch [[OFFLOAD]] : tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION3:%[a-z0-9_]+]] = moe.activation [[FETCH]] {kind = #moe<activation silu>, moe.repeated} :
// CHECK-SAME:     (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD:%[a-z0-9_]+]] = moe.activation_grad [[ACTIVATION3]], [[ARG1]] {kind = #moe<activation gelu>} :
// CHECK-SAME:     (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD2:%[a-z0-9_]+]] = moe.activation_grad [[FETCH]], [[ACTIVATION_GRAD]] {kind = #moe<activation
// CHECK-SAME:     silu>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[SCALE2:%[a-z0-9_]+]] = moe.scale [[ACTIVATION_GRAD2]] {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
// CHECK-NEXT:   return [[ACTIVATION2]], [[SCALE2]] : tensor<4x8xf32>, tensor<4x8xf32>
func.func @recompute_of_offloaded(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.residual = #moe<residual offload>} : tensor<4x8xf32>
  %1 = moe.activation %0 {kind = #moe<activation silu>, moe.residual = #moe<residual recompute>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = moe.activation %1 {kind = #moe<activation gelu>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// An exchange is repeated with its operand.
// CHECK-LABEL: func.func @recommunicate(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<4x8xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.name = "cotangent.result0",
// CHECK-SAME:   moe.role = "cotangent"}) -> (tensor<4x8xf32>, tensor<4x8xf32> {moe.name = "grad.argument0", moe.role =
// CHECK-SAME:   "gradient"})
// CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[ARG0]] {factor = 2.000000e+00 : f64, moe.residual = #moe<residual
// CHECK-SAME:     recompute>} : tensor<4x8xf32>
// CHECK-NEXT:   [[ALL_TO_ALL:%[a-z0-9_]+]] = moe.all_to_all [[SCALE]] over <"ep", 2, 1> {concat_dim = 1 : i64, moe.residual =
// CHECK-SAME:     #moe<residual recommunicate>, split_dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<2x16xf32>
// CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[ALL_TO_ALL]] {kind = #moe<activation gelu>} : (tensor<2x16xf32>)
// CHECK-SAME:     -> tensor<2x16xf32>
// CHECK-NEXT:   [[ALL_TO_ALL2:%[a-z0-9_]+]] = moe.all_to_all [[ACTIVATION]] over <"ep", 2, 1> {concat_dim = 0 : i64, split_dim =
// CHECK-SAME:     1 : i64} : (tensor<2x16xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ALL_TO_ALL3:%[a-z0-9_]+]] = moe.all_to_all [[ARG1]] over <"ep", 2, 1> {concat_dim = 1 : i64, split_dim = 0 :
// CHECK-SAME:     i64} : (tensor<4x8xf32>) -> tensor<2x16xf32>
// CHECK-NEXT:   [[SCALE2:%[a-z0-9_]+]] = moe.scale [[ARG0]] {factor = 2.000000e+00 : f64, moe.repeated} : tensor<4x8xf32>
// CHECK-NEXT:   [[ALL_TO_ALL4:%[a-z0-9_]+]] = moe.all_to_all [[SCALE2]] over <"ep", 2, 1> {concat_dim = 1 : i64, moe.repeated,
// CHECK-SAME:     split_dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<2x16xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD:%[a-z0-9_]+]] = moe.activation_grad [[ALL_TO_ALL4]], [[ALL_TO_ALL3]] {kind = #moe<activation
// CHECK-SAME:     gelu>} : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
// CHECK-NEXT:   [[ALL_TO_ALL5:%[a-z0-9_]+]] = moe.all_to_all [[ACTIVATION_GRAD]] over <"ep", 2, 1> {concat_dim = 0 : i64,
// CHECK-SAME:     split_dim = 1 : i64} : (tensor<2x16xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[SCALE3:%[a-z0-9_]+]] = moe.scale [[ALL_TO_ALL5]] {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
// CHECK-NEXT:   return [[ALL_TO_ALL2]], [[SCALE3]] : tensor<4x8xf32>, tensor<4x8xf32>
func.func @recommunicate(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.residual = #moe<residual recompute>} : tensor<4x8xf32>
  %1 = moe.all_to_all %0 over <"ep", 2, 1> {split_dim = 0 : i64, concat_dim = 1 : i64, moe.residual = #moe<residual recommunicate>} : (tensor<4x8xf32>) -> tensor<2x16xf32>
  %2 = moe.activation %1 {kind = #moe<activation gelu>} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %3 = moe.all_to_all %2 over <"ep", 2, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x16xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// Another name of a value that is not kept is one of what there is instead; one of a kept value is kept.
// CHECK-LABEL: func.func @aliases(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<4x8xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.name = "cotangent.result0",
// CHECK-SAME:   moe.role = "cotangent"}, [[ARG2:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.name = "cotangent.result1", moe.role =
// CHECK-SAME:   "cotangent"}) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32> {moe.name = "grad.argument0", moe.role =
// CHECK-SAME:   "gradient"})
// CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[ARG0]] {factor = 2.000000e+00 : f64, moe.residual = #moe<residual offload>}
// CHECK-SAME:     : tensor<4x8xf32>
// CHECK-NEXT:   [[OFFLOAD:%[a-z0-9_]+]] = moe.offload [[SCALE]] : tensor<4x8xf32>
// CHECK-NEXT:   [[TO_VARYING:%[a-z0-9_]+]] = moe.to_varying [[SCALE]] over <"esp", 2, 1> : tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[TO_VARYING]] {kind = #moe<activation gelu>} : (tensor<4x8xf32>) ->
// CHECK-SAME:     tensor<4x8xf32>
// CHECK-NEXT:   [[SCALE2:%[a-z0-9_]+]] = moe.scale [[ARG0]] {factor = 3.000000e+00 : f64} : tensor<4x8xf32>
// CHECK-NEXT:   [[TO_VARYING2:%[a-z0-9_]+]] = moe.to_varying [[SCALE2]] over <"esp", 2, 1> : tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION2:%[a-z0-9_]+]] = moe.activation [[TO_VARYING2]] {kind = #moe<activation gelu>} : (tensor<4x8xf32>)
// CHECK-SAME:     -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD:%[a-z0-9_]+]] = moe.activation_grad [[TO_VARYING2]], [[ARG2]] {kind = #moe<activation gelu>} :
// CHECK-SAME:     (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ALL_REDUCE:%[a-z0-9_]+]] = moe.all_reduce [[ACTIVATION_GRAD]] over <"esp", 2, 1> : (tensor<4x8xf32>) ->
// CHECK-SAME:     tensor<4x8xf32>
// CHECK-NEXT:   [[SCALE3:%[a-z0-9_]+]] = moe.scale [[ALL_REDUCE]] {factor = 3.000000e+00 : f64} : tensor<4x8xf32>
// CHECK-NEXT:   [[FETCH:%[a-z0-9_]+]] = moe.fetch [[OFFLOAD]] : tensor<4x8xf32>
// CHECK-NEXT:   [[TO_VARYING3:%[a-z0-9_]+]] = moe.to_varying [[FETCH]] over <"esp", 2, 1> {moe.repeated} : tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD2:%[a-z0-9_]+]] = moe.activation_grad [[TO_VARYING3]], [[ARG1]] {kind = #moe<activation gelu>}
// CHECK-SAME:     : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ALL_REDUCE2:%[a-z0-9_]+]] = moe.all_reduce [[ACTIVATION_GRAD2]] over <"esp", 2, 1> : (tensor<4x8xf32>) ->
// CHECK-SAME:     tensor<4x8xf32>
// CHECK-NEXT:   [[SCALE4:%[a-z0-9_]+]] = moe.scale [[ALL_REDUCE2]] {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
// CHECK-NEXT:   [[ADD:%[a-z0-9_]+]] = moe.add [[SCALE3]], [[SCALE4]] : tensor<4x8xf32>
// CHECK-NEXT:   return [[ACTIVATION]], [[ACTIVATION2]], [[ADD]] : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
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
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<4x8xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.name = "cotangent.result0",
// CHECK-SAME:   moe.role = "cotangent"}) -> (tensor<4x8xf32>, tensor<4x8xf32> {moe.name = "grad.argument0", moe.role =
// CHECK-SAME:   "gradient"})
// CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[ARG0]] {factor = 2.000000e+00 : f64, moe.chunk = #moe.chunk<1 of 2>} :
// CHECK-SAME:     tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[SCALE]] {kind = #moe<activation silu>, moe.chunk = #moe.chunk<1 of
// CHECK-SAME:     2>, moe.residual = #moe<residual offload>, moe.ring = #moe.ring<"b", 1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[OFFLOAD:%[a-z0-9_]+]] = moe.offload [[ACTIVATION]] {moe.chunk = #moe.chunk<1 of 2>} : tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION2:%[a-z0-9_]+]] = moe.activation [[ACTIVATION]] {kind = #moe<activation gelu>, moe.chunk =
// CHECK-SAME:     #moe.chunk<1 of 2>, moe.residual = #moe<residual recompute>, moe.ring = #moe.ring<"c", 1>} : (tensor<4x8xf32>)
// CHECK-SAME:     -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION3:%[a-z0-9_]+]] = moe.activation [[ACTIVATION2]] {kind = #moe<activation gelu>, moe.chunk =
// CHECK-SAME:     #moe.chunk<1 of 2>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[FETCH:%[a-z0-9_]+]] = moe.fetch [[OFFLOAD]] {moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"b.again",
// CHECK-SAME:     1>} : tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION4:%[a-z0-9_]+]] = moe.activation [[FETCH]] {kind = #moe<activation gelu>, moe.chunk = #moe.chunk<1
// CHECK-SAME:     of 2>, moe.repeated, moe.ring = #moe.ring<"c.again", 1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD:%[a-z0-9_]+]] = moe.activation_grad [[ACTIVATION4]], [[ARG1]] {kind = #moe<activation gelu>,
// CHECK-SAME:     moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"c.grad", 1>} : (tensor<4x8xf32>, tensor<4x8xf32>) ->
// CHECK-SAME:     tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD2:%[a-z0-9_]+]] = moe.activation_grad [[FETCH]], [[ACTIVATION_GRAD]] {kind = #moe<activation
// CHECK-SAME:     gelu>, moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"b.grad", 1>} : (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-SAME:     -> tensor<4x8xf32>
// CHECK-NEXT:   [[ACTIVATION_GRAD3:%[a-z0-9_]+]] = moe.activation_grad [[SCALE]], [[ACTIVATION_GRAD2]] {kind = #moe<activation
// CHECK-SAME:     silu>, moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"a.grad", 2>} : (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-SAME:     -> tensor<4x8xf32>
// CHECK-NEXT:   [[SCALE2:%[a-z0-9_]+]] = moe.scale [[ACTIVATION_GRAD3]] {factor = 2.000000e+00 : f64, moe.chunk = #moe.chunk<1
// CHECK-SAME:     of 2>} : tensor<4x8xf32>
// CHECK-NEXT:   return [[ACTIVATION3]], [[SCALE2]] : tensor<4x8xf32>, tensor<4x8xf32>
func.func @rings(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"a", 2>} : tensor<4x8xf32>
  %1 = moe.activation %0 {kind = #moe<activation silu>, moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"b", 1>, moe.residual = #moe<residual offload>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = moe.activation %1 {kind = #moe<activation gelu>, moe.chunk = #moe.chunk<1 of 2>, moe.ring = #moe.ring<"c", 1>, moe.residual = #moe<residual recompute>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = moe.activation %2 {kind = #moe<activation gelu>, moe.chunk = #moe.chunk<1 of 2>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// The gradients of chunks' weights are added up product by product, in the order of the backward; each chunk's is its own.
// CHECK-LABEL: func.func @chunks(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<8x4x8xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<4x8x16xf32>, [[ARG2:%[a-z0-9_]+]]:
// CHECK-SAME:   tensor<8x4x16xf32> {moe.name = "cotangent.result0", moe.role = "cotangent"}) -> (tensor<8x4x16xf32>,
// CHECK-SAME:   tensor<8x4x8xf32> {moe.name = "grad.argument0", moe.role = "gradient"}, tensor<4x8x16xf32> {moe.name =
// CHECK-SAME:   "grad.argument1", moe.role = "gradient"})
// CHECK-NEXT:   [[SPLIT:%[a-z0-9_]+]]:2 = moe.split [[ARG0]] : (tensor<8x4x8xf32>) -> (tensor<4x4x8xf32>, tensor<4x4x8xf32>)
// CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[SPLIT]]#0, [[ARG1]] {moe.chunk = #moe.chunk<0 of 2>} :
// CHECK-SAME:     (tensor<4x4x8xf32>, tensor<4x8x16xf32>) -> tensor<4x4x16xf32>
// CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[SPLIT]]#1, [[ARG1]] {moe.chunk = #moe.chunk<1 of 2>} :
// CHECK-SAME:     (tensor<4x4x8xf32>, tensor<4x8x16xf32>) -> tensor<4x4x16xf32>
// CHECK-NEXT:   [[CONCAT:%[a-z0-9_]+]] = moe.concat [[GROUPED_MATMUL]], [[GROUPED_MATMUL2]] : (tensor<4x4x16xf32>,
// CHECK-SAME:     tensor<4x4x16xf32>) -> tensor<8x4x16xf32>
// CHECK-NEXT:   [[SPLIT2:%[a-z0-9_]+]]:2 = moe.split [[ARG2]] : (tensor<8x4x16xf32>) -> (tensor<4x4x16xf32>, tensor<4x4x16xf32>)
// CHECK-NEXT:   [[GROUPED_MATMUL3:%[a-z0-9_]+]] = moe.grouped_matmul [[SPLIT2]]#1, [[ARG1]] {moe.chunk = #moe.chunk<1 of 2>,
// CHECK-SAME:     transpose_weights} : (tensor<4x4x16xf32>, tensor<4x8x16xf32>) -> tensor<4x4x8xf32>
// CHECK-NEXT:   [[GROUPED_MATMUL_WGRAD:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad [[SPLIT]]#1, [[SPLIT2]]#1 {moe.chunk =
// CHECK-SAME:     #moe.chunk<1 of 2>} : (tensor<4x4x8xf32>, tensor<4x4x16xf32>) -> tensor<4x8x16xf32>
// CHECK-NEXT:   [[GROUPED_MATMUL4:%[a-z0-9_]+]] = moe.grouped_matmul [[SPLIT2]]#0, [[ARG1]] {moe.chunk = #moe.chunk<0 of 2>,
// CHECK-SAME:     transpose_weights} : (tensor<4x4x16xf32>, tensor<4x8x16xf32>) -> tensor<4x4x8xf32>
// CHECK-NEXT:   [[GROUPED_MATMUL_WGRAD2:%[a-z0-9_]+]] = moe.grouped_matmul_wgrad [[SPLIT]]#0, [[SPLIT2]]#0
// CHECK-SAME:     addend([[GROUPED_MATMUL_WGRAD]]) {moe.chunk = #moe.chunk<0 of 2>} : (tensor<4x4x8xf32>, tensor<4x4x16xf32>,
// CHECK-SAME:     tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
// CHECK-NEXT:   [[CONCAT2:%[a-z0-9_]+]] = moe.concat [[GROUPED_MATMUL4]], [[GROUPED_MATMUL3]] : (tensor<4x4x8xf32>,
// CHECK-SAME:     tensor<4x4x8xf32>) -> tensor<8x4x8xf32>
// CHECK-NEXT:   return [[CONCAT]], [[CONCAT2]], [[GROUPED_MATMUL_WGRAD2]] : tensor<8x4x16xf32>, tensor<8x4x8xf32>,
// CHECK-SAME:     tensor<4x8x16xf32>
func.func @chunks(%x: tensor<8x4x8xf32>, %w: tensor<4x8x16xf32>) -> tensor<8x4x16xf32> {
  %0:2 = moe.split %x : (tensor<8x4x8xf32>) -> (tensor<4x4x8xf32>, tensor<4x4x8xf32>)
  %1 = moe.grouped_matmul %0#0, %w {moe.chunk = #moe.chunk<0 of 2>} : (tensor<4x4x8xf32>, tensor<4x8x16xf32>) -> tensor<4x4x16xf32>
  %2 = moe.grouped_matmul %0#1, %w {moe.chunk = #moe.chunk<1 of 2>} : (tensor<4x4x8xf32>, tensor<4x8x16xf32>) -> tensor<4x4x16xf32>
  %3 = moe.concat %1, %2 : (tensor<4x4x16xf32>, tensor<4x4x16xf32>) -> tensor<8x4x16xf32>
  return %3 : tensor<8x4x16xf32>
}

// A part that nothing comes back for has a gradient of zero.
// CHECK-LABEL: func.func @part(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<8x4xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<4x4xf32> {moe.name = "cotangent.result0",
// CHECK-SAME:   moe.role = "cotangent"}) -> (tensor<4x4xf32>, tensor<8x4xf32> {moe.name = "grad.argument0", moe.role =
// CHECK-SAME:   "gradient"})
// CHECK-NEXT:   [[SPLIT:%[a-z0-9_]+]]:2 = moe.split [[ARG0]] : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[SPLIT]]#0 {factor = 0.000000e+00 : f64} : tensor<4x4xf32>
// CHECK-NEXT:   [[CONCAT:%[a-z0-9_]+]] = moe.concat [[SCALE]], [[ARG1]] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:   return [[SPLIT]]#1, [[CONCAT]] : tensor<4x4xf32>, tensor<8x4xf32>
func.func @part(%x: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %0:2 = moe.split %x : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  return %0#1 : tensor<4x4xf32>
}

// Nobody needs it: no copy is made.
// CHECK-LABEL: func.func @unneeded(
// CHECK-SAME:   [[ARG0:%[a-z0-9_]+]]: tensor<4x8xf32>, [[ARG1:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.name = "cotangent.result0",
// CHECK-SAME:   moe.role = "cotangent"}) -> (tensor<4x8xf32>, tensor<4x8xf32> {moe.name = "grad.argument0", moe.role =
// CHECK-SAME:   "gradient"})
// CHECK-NEXT:   [[SCALE:%[a-z0-9_]+]] = moe.scale [[ARG0]] {factor = 2.000000e+00 : f64, moe.residual = #moe<residual offload>}
// CHECK-SAME:     : tensor<4x8xf32>
// CHECK-NEXT:   [[SCALE2:%[a-z0-9_]+]] = moe.scale [[SCALE]] {factor = 3.000000e+00 : f64} : tensor<4x8xf32>
// CHECK-NEXT:   [[SCALE3:%[a-z0-9_]+]] = moe.scale [[ARG1]] {factor = 3.000000e+00 : f64} : tensor<4x8xf32>
// CHECK-NEXT:   [[SCALE4:%[a-z0-9_]+]] = moe.scale [[SCALE3]] {factor = 2.000000e+00 : f64} : tensor<4x8xf32>
// CHECK-NEXT:   return [[SCALE2]], [[SCALE4]] : tensor<4x8xf32>, tensor<4x8xf32>
func.func @unneeded(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = moe.scale %x {factor = 2.000000e+00 : f64, moe.residual = #moe<residual offload>} : tensor<4x8xf32>
  %1 = moe.scale %0 {factor = 3.000000e+00 : f64} : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
