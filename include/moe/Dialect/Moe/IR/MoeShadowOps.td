//===- MoeShadowOps.td - L1: experts on other ranks for a step -*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOESHADOWOPS_TD
#define MOE_DIALECT_MOE_IR_MOESHADOWOPS_TD

include "moe/Dialect/Moe/IR/MoeCommOps.td"

// FasterMoE's dynamic shadowing (section 4.1). `shadows` [1, E] is 1 for each expert that is a shadow in this step, and 0 for
// the others. Tensors of shadows have R places along dimension 0. Place r belongs to the r-th shadow.

def Moe_ChooseShadowsOp : Moe_Op<"choose_shadows", [
    MoeSpmdOpInterface, MoeDifferentiableOpInterface, Moe_Cost, Moe_Counts, Moe_Kernel<["getKernelParams"]>]> {
  let summary = "which experts become shadows in this step";
  let description = [{
    Chooses the shadows from the rows that each member sends to each expert. Every rank that has the same counts chooses
    the same shadows. So replicated counts give a replicated choice. `moert/shadows.h` explains the policies and the
    figures. The times are in seconds:

    - `row_compute`: the forward computation of one row.
    - `row_send`: the path of a row through the network, as in the paper.
    - `row_local`: the path of a row over a worker's own link.
    - `row_node`: the path of a row over a node's link.
    - `expert`: the broadcast of an expert.
    - `start`: the start of an exchange.

    Constraints:
    - (C1) counts is [n workers, n' workers] for some n, n'; the result is [1, n' workers].
    - (C2) node_workers divides workers; 1 <= most <= E; room >= 0; phases >= 1; no time is negative.

    Example:

    ```mlir
    func.func @choose_shadows(%c: tensor<4x8xi32>) -> tensor<1x8xi32> {
      %0 = moe.choose_shadows %c {policy = #moe<shadow_policy prefix>, workers = 4 : i64, most = 2 : i64}
        : (tensor<4x8xi32>) -> tensor<1x8xi32>
      return %0 : tensor<1x8xi32>
    }
    ```
  }];
  let arguments = (ins
    Moe_Index2D:$counts, Moe_ShadowPolicyAttr:$policy, Moe_Int:$workers,
    DefaultValuedAttr<Moe_Int, "1">:$node_workers, Moe_Int:$most,
    DefaultValuedAttr<Moe_Int, "0">:$room, DefaultValuedAttr<Moe_Int, "1">:$phases,
    DefaultValuedAttr<F64Attr, "0.0">:$row_compute, DefaultValuedAttr<F64Attr, "0.0">:$row_send,
    DefaultValuedAttr<F64Attr, "0.0">:$row_local, DefaultValuedAttr<F64Attr, "0.0">:$row_node,
    DefaultValuedAttr<F64Attr, "0.0">:$expert, DefaultValuedAttr<F64Attr, "0.0">:$start);
  let results = (outs Moe_Index2D:$shadows);
}

def Moe_DivideChoicesOp : Moe_Op<"divide_choices", [
    MoeSlotsOpInterface, Moe_Spmd, MoeDifferentiableOpInterface, Moe_Cost, Moe_Counts, Moe_Kernel<["getKernelParams"]>]> {
  let summary = "separate slots for the choices of experts and for those of shadows";
  let description = [{
    `slots` and `counts` are those of a dropless moe.route with `chunks` and `chunk_rows`, as if the choices of shadows
    were dropped.

    `shadow_slots` numbers the choices of shadows among S k rows, sorted by shadow and then by token. It is -1 for a
    choice of no shadow. `shadow_counts` is how many such rows each place has.

    Constraints:
    - (C1) experts and both slots are [S, k]; shadows is [1, E], counts [chunks, E], shadow_counts [1, R].
    - (C2) chunks >= 1; with more than one, chunk_rows >= k ceil(S / chunks).

    Example:

    ```mlir
    func.func @divide(%e: tensor<16x2xi32>, %s: tensor<1x4xi32>) -> tensor<16x2xi32> {
      %slots, %counts, %shadow_slots, %shadow_counts = moe.divide_choices %e, %s
        : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x4xi32>, tensor<16x2xi32>, tensor<1x2xi32>)
      return %shadow_slots : tensor<16x2xi32>
    }
    ```
  }];
  let arguments = (ins Moe_Index2D:$experts, Moe_Index2D:$shadows,
                       DefaultValuedAttr<Moe_Int, "1">:$chunks, DefaultValuedAttr<Moe_Int, "0">:$chunk_rows);
  let results = (outs Moe_Index2D:$slots, Moe_Index2D:$counts, Moe_Index2D:$shadow_slots, Moe_Index2D:$shadow_counts);
  let builders = [OpBuilder<(ins "::mlir::Value":$experts, "::mlir::Value":$shadows, "int64_t":$places)>];
  let extraClassDeclaration = [{
    bool isDropless() { return true; }
  }];
}

def Moe_BroadcastExpertsOp : Moe_Collective<"broadcast_experts", ""> {
  let summary = "every shadow's value on all members: varying -> varying";
  let description = [{
    `result[r,..]` is the value of the r-th shadow, from the member that owns the expert. Places without a shadow hold
    undefined values. The members must have the same `shadows`.

    All members' results are equal, and yet they count as varying. So each member has its own cotangent, and the adjoint
    sums these at the owner (moe.reduce_experts).

    Constraints:
    - (C1) values is [n, ..], of n experts on each member; shadows is [1, n size]; the result is [R, ..].

    Example:

    ```mlir
    func.func @broadcast_experts(%w: tensor<2x4x8xf32>, %s: tensor<1x8xi32>) -> tensor<3x4x8xf32> {
      %0 = moe.broadcast_experts %w, %s over <"ep", 4, 1> : (tensor<2x4x8xf32>, tensor<1x8xi32>) -> tensor<3x4x8xf32>
      return %0 : tensor<3x4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$values, Moe_Index2D:$shadows, Moe_GroupAttr:$group);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = "$values `,` $shadows `over` $group attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$values, "::mlir::Value":$shadows, "int64_t":$places,
                                 "::mlir::moe::GroupAttr":$group)>];
}

def Moe_ReduceExpertsOp : Moe_Collective<"reduce_experts", "", ["getKernelInputs"], [MoeAccumulatingOpInterface]> {
  let summary = "the sum of every shadow's value at its owner: varying -> varying";
  let description = [{
    The adjoint of moe.broadcast_experts: `result[i,..] = addend[i,..] + sum over members of values[r,..]` where the
    member's expert i is the r-th shadow. If expert i is no shadow, the result is the addend alone. Without an addend it
    is zero.

    Constraints:
    - (C1) values is [R, ..]; shadows is [1, n size]; addend and result are [n, ..].

    Example:

    ```mlir
    func.func @reduce_experts(%g: tensor<3x4x8xf32>, %s: tensor<1x8xi32>) -> tensor<2x4x8xf32> {
      %0 = moe.reduce_experts %g, %s over <"ep", 4, 1> : (tensor<3x4x8xf32>, tensor<1x8xi32>) -> tensor<2x4x8xf32>
      return %0 : tensor<2x4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$values, Moe_Index2D:$shadows, Optional<Moe_Tensor>:$addend, Moe_GroupAttr:$group);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = [{
    $values `,` $shadows (`addend` `(` $addend^ `)`)? `over` $group attr-dict `:` functional-type(operands, results)
  }];
}

#endif // MOE_DIALECT_MOE_IR_MOESHADOWOPS_TD
