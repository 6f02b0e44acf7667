//===- MoeRouteOps.td - L1: routing, dispatch, combine --*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEROUTEOPS_TD
#define MOE_DIALECT_MOE_IR_MOEROUTEOPS_TD

include "moe/Dialect/Moe/IR/MoeBase.td"

def Moe_RouteOp : Moe_Op<"route", [
    MoeSlotsOpInterface, Moe_SpmdOwn, Moe_Differentiable, Moe_CostOwn, Moe_Counts,
    Moe_Kernel<["getKernelInputs", "getKernelParams"]>]> {
  let summary = "chooses experts, slots and weights for each token";
  let description = [{
    Routes this rank's S tokens by the rules of `moe.layer`. The tokens form `groups` blocks of S/groups consecutive
    tokens, and each block is routed on its own. `slots[s,j]` is the row that choice j of token s takes among the
    dispatched tokens. It is -1 where the choice is dropped. `counts` says how many rows each expert really uses.

    *Capacity.* With `capacity` = T > 0 an expert takes at most T choices of a group. For group g it puts them into its
    rows g T to g T + T - 1. With 0 (dropless) the rows are sorted by expert. `capacity` alone decides which choices are
    dropped.

    *Rows of the buffer.* `chunks` and `chunk_rows` say where rows lie and how many rows the buffer has. With a capacity
    each expert has R = chunks chunk_rows rows, and the buffer is [E, R]. The rows from groups T on stay empty. If
    chunk_rows is 0, R is groups T, and a dropless buffer has S k rows. A schedule that has to divide rows evenly pads the
    buffer, and leaves the capacity as it is.

    *Chunks.* With `chunks` = n > 1 the rows of the n chunks lie one after the other, so that each chunk is one piece of
    memory.

    - With a capacity, chunk c has the c-th of n equal parts of each expert's rows. The buffer is [n E, R / n], and the
      rows of expert e in chunk c are at index c E + e.
    - Dropless, chunk c has the choices of the tokens s with floor(s n / S) = c. They start at row c chunk_rows and are
      sorted by expert.

    *Topology-aware gate* (FasterMoE, section 4.3). It is on if `leave` = L >= 0. The experts form `homes` equal blocks,
    one block for each node. Routing group g is at home in block (rank / home_stride + g / home_span) mod homes. The rule
    is applied to each choice j in turn, first choices before second ones:

    - At most L tokens of a group keep a choice j that is not at home. These are the tokens with the highest selection
      values (score plus selection_bias), ties to the lower token.
    - The other tokens choose again: the best expert at home that they have not chosen.

    So at most k L choices of a group leave home in all. Gradients flow through the scores of the final choices.

    Constraints:
    - (C1) logits and scores are [S, E]; experts, slots and weights [S, k]; counts [chunks, E]; aux is 0-D; 1 <= k <=
      min(32, E).
    - (C2) groups divides S; selection_bias is [E]; floating-point tensors have one element type, f32 or f64.
    - (C3) expert_groups, top_groups and group_score are as in (C6) of moe.layer; capacity >= 0.
    - (C4) chunks >= 1. With a capacity, chunks chunk_rows is at least groups T, or chunk_rows is 0 and chunks divides
      groups T. Dropless with more than one chunk, chunk_rows is at least k ceil(S / chunks).
    - (C5) homes divides E; home_stride and home_span are at least 1; with leave >= 0, expert_groups is 1 and k <= E /
      homes.

    Example:

    ```mlir
    func.func @route(%l: tensor<16x4xf32>) -> tensor<16x2xf32> {
      %scores, %experts, %slots, %weights, %counts, %aux = moe.route %l {capacity = 8 : i64, renormalize}
        : (tensor<16x4xf32>)
        -> (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xi32>, tensor<16x2xf32>, tensor<1x4xi32>, tensor<f32>)
      return %weights : tensor<16x2xf32>
    }
    ```
  }];
  let arguments = (ins
    Moe_Accumulator2D:$logits, Optional<Moe_Accumulator1D>:$selection_bias,
    DefaultValuedAttr<Moe_ScoreAttr, "::mlir::moe::Score::softmax">:$score,
    UnitAttr:$renormalize,
    DefaultValuedAttr<F64Attr, "1.0">:$routing_scale,
    DefaultValuedAttr<Moe_Int, "1">:$expert_groups,
    DefaultValuedAttr<Moe_Int, "1">:$top_groups,
    DefaultValuedAttr<Moe_GroupScoreAttr, "::mlir::moe::GroupScore::max">:$group_score,
    DefaultValuedAttr<Moe_Int, "0">:$capacity,
    DefaultValuedAttr<Moe_Int, "1">:$groups,
    DefaultValuedAttr<Moe_Int, "1">:$chunks,
    DefaultValuedAttr<Moe_Int, "0">:$chunk_rows,
    DefaultValuedAttr<Moe_Int, "-1">:$leave,
    DefaultValuedAttr<Moe_Int, "1">:$homes,
    DefaultValuedAttr<Moe_Int, "1">:$home_stride,
    DefaultValuedAttr<Moe_Int, "1">:$home_span);
  let results = (outs Moe_Accumulator2D:$scores, Moe_Index2D:$experts, Moe_Index2D:$slots, Moe_Accumulator2D:$weights,
                      Moe_Index2D:$counts, Moe_AccumulatorScalar:$aux);
  let assemblyFormat = [{
    $logits (`selection_bias` `(` $selection_bias^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    bool isDropless() { return getCapacity() == 0; }
  }];
}

def Moe_WindowOp : Moe_Op<"window", [
    MoeSlotsOpInterface, Moe_SpmdOwn, MoeDifferentiableOpInterface, Moe_Cost, Moe_Counts,
    Moe_Kernel<["getKernelInputs", "getKernelParams", "getKernelGroup", "getInPlaceInputs"]>]> {
  let summary = "the choices that one pass of a dropless layer serves";
  let description = [{
    A dropless layer has memory for a reserve of `rows` rows on each worker, and serves all rows in as many *passes* as the
    fullest worker needs. `gathered[j,e]` is how many rows member j of `group` sends to expert e. Worker w has the w-th of
    `workers` equal blocks of experts. Its rows are numbered by expert, then by member, then by the member's own row. Pass
    p serves its rows p rows to (p + 1) rows - 1.

    `routed_slots` are the slots of a dropless moe.route on this rank. `slots` and `counts` are those of the pass, as if the
    choices that other passes serve were dropped. `left` is how many passes follow. All ranks that have the same `gathered`
    agree on it.

    Without `before` the op is of pass 0. With it, the op is of the pass behind the one whose `left` is `before`.

    *Chunks and phases.* The rows of the n chunks of moe.route have `rows` rows on a worker each. So have the rows of the
    `phases` equal blocks of members, each of which is exchanged in a phase of its own. The rows of a chunk and a block are
    numbered on their own. Row j n + c of `gathered` has the counts of member j in chunk c.

    Constraints:
    - (C1) routed_slots and slots are [S, k]; gathered is [size n, E], counts [n, E]; left and before are [1].
    - (C2) workers divides E; phases divides size; rows >= 1.
    - (C3) with more than one chunk, chunk_rows is at least k ceil(S / n).

    Example:

    ```mlir
    func.func @window(%s: tensor<16x2xi32>, %g: tensor<4x8xi32>) -> tensor<16x2xi32> {
      %left, %slots, %counts = moe.window %s, %g over <"ep", 4, 1> {rows = 40 : i64, workers = 4 : i64}
        : (tensor<16x2xi32>, tensor<4x8xi32>) -> (tensor<1xi32>, tensor<16x2xi32>, tensor<1x8xi32>)
      return %slots : tensor<16x2xi32>
    }
    ```
  }];
  let arguments = (ins Moe_Index2D:$routed_slots, Moe_Index2D:$gathered, Optional<Moe_Index1D>:$before,
                       Moe_GroupAttr:$group, Moe_Int:$workers, Moe_Int:$rows,
                       DefaultValuedAttr<Moe_Int, "0">:$chunk_rows, DefaultValuedAttr<Moe_Int, "1">:$phases);
  let results = (outs Moe_Index1D:$left, Moe_Index2D:$slots, Moe_Index2D:$counts);
  let assemblyFormat = [{
    $routed_slots `,` $gathered (`before` `(` $before^ `)`)? `over` $group attr-dict `:`
    functional-type(operands, results)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$slots, "::mlir::Value":$gathered, "::mlir::Value":$before,
                                 "::mlir::moe::GroupAttr":$group, "const ::mlir::moe::WindowSizes &":$sizes)>];
  let extraClassDeclaration = [{
    ::mlir::moe::WindowSizes getSizes();
    bool isDropless() { return true; }
    int64_t getChunks() { return getSizes().chunks; }
    /// moe.route numbers the rows.
    bool canChunk() { return false; }
    void setChunked(int64_t, int64_t) { llvm_unreachable("rows that another op numbers"); }
  }];
}

def Moe_MergeChoicesOp : Moe_Op<"merge_choices", [
    AttrSizedOperandSegments, Moe_SpmdOwn, MoeDifferentiableOpInterface, Moe_Cost, Moe_Counts,
    Moe_Kernel<["getKernelInputs", "getKernelParams", "getKernelGroup"]>]> {
  let summary = "one row for all choices that a token has of a holder of experts";
  let description = [{
    `chosen[s,j]` is one of E `experts` experts, a choice of token s, or -1 for none. With n = E copies / size, member j of
    `group` has the n experts from floor(j / copies) n on. Each of the H holders has n / H consecutive ones of these. A
    holder is a node, a rank, or an expert.

    A token has one row for each holder of which it has choices, and not one row for each choice. Rows are sorted by
    holder, then by token. `slots[s,j]` is the row if no choice before j is of the same holder, and else -1. So moe.dispatch
    with these slots makes the rows, and moe.combine adds up what comes back of them. `counts` is how many rows each holder
    has. `sent[r,j]` is choice j of row r's token where it is of the row's holder, and else -1: who gets the row merges these
    choices again by holders of its own.

    Choices of other experts do not count. Neither do dropped ones, whose `routed_slots` are -1, nor choices of the tokens
    from sum(used) on.

    Constraints:
    - (C1) chosen, routed_slots and slots are [S, k]; counts is [1, H], sent [R, k].
    - (C2) copies divides size, and size / copies times H divides E.

    Example:

    ```mlir
    func.func @merge_choices(%e: tensor<16x2xi32>) -> tensor<16x2xi32> {
      %slots, %counts, %sent = moe.merge_choices %e over <"self", 1, 1> {experts = 8 : i64}
        : (tensor<16x2xi32>) -> (tensor<16x2xi32>, tensor<1x4xi32>, tensor<32x2xi32>)
      return %slots : tensor<16x2xi32>
    }
    ```
  }];
  let arguments = (ins Moe_Index2D:$chosen, Optional<Moe_Index2D>:$routed_slots, Optional<Moe_Index2D>:$used,
                       Moe_GroupAttr:$group, Moe_Int:$experts, DefaultValuedAttr<Moe_Int, "1">:$copies);
  let results = (outs Moe_Index2D:$slots, Moe_Index2D:$counts, Moe_Index2D:$sent);
  let assemblyFormat = [{
    $chosen (`dropped` `(` $routed_slots^ `)`)? (`used` `(` $used^ `)`)? `over` $group attr-dict `:`
    functional-type(operands, results)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$chosen, "::mlir::Value":$routed_slots, "::mlir::Value":$used,
                                 "::mlir::moe::GroupAttr":$group, "int64_t":$experts, "int64_t":$copies,
                                 "int64_t":$holders, "int64_t":$rows)>];
}

def Moe_RouteGradOp : Moe_Op<"route_grad", [
    AttrSizedOperandSegments, AllTypesMatch<["scores", "result"]>, Moe_Spmd, Moe_CostOwn,
    Moe_Kernel<["getKernelInputs", "getKernelParams"]>]> {
  let summary = "gradient of the router's logits";
  let description = [{
    `result` is the gradient of the logits. It is computed from the gradients of moe.route's weights and aux. Either may
    be absent, which means zero.

    Constraints:
    - (C1) scores and result are [S, E], experts and grad_weights [S, k], grad_aux is 0-D.

    Example:

    ```mlir
    func.func @route_grad(%s: tensor<16x4xf32>, %e: tensor<16x2xi32>, %w: tensor<16x2xf32>) -> tensor<16x4xf32> {
      %0 = moe.route_grad %s, %e weights(%w) : (tensor<16x4xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x4xf32>
      return %0 : tensor<16x4xf32>
    }
    ```
  }];
  let arguments = (ins
    Moe_Accumulator2D:$scores, Moe_Index2D:$experts, Optional<Moe_Accumulator2D>:$grad_weights,
    Optional<Moe_AccumulatorScalar>:$grad_aux,
    DefaultValuedAttr<Moe_ScoreAttr, "::mlir::moe::Score::softmax">:$score,
    UnitAttr:$renormalize,
    DefaultValuedAttr<F64Attr, "1.0">:$routing_scale,
    DefaultValuedAttr<Moe_Int, "1">:$groups);
  let results = (outs Moe_Accumulator2D:$result);
  let assemblyFormat = [{
    $scores `,` $experts (`weights` `(` $grad_weights^ `)`)? (`aux` `(` $grad_aux^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Moe_DispatchOp : Moe_Op<"dispatch", [
    AttrSizedOperandSegments, Moe_Spmd, Moe_Differentiable, Moe_CostOwn, Moe_Kernel<["getKernelInputs"]>]> {
  let summary = "copies tokens into the rows of their experts";
  let description = [{
    `result[slots[s,j],:] = weights[s,j] tokens[s,:]`. Without weights the factor is 1. Rows that no choice takes are
    zero. This op is the adjoint of moe.combine.

    With `used` the choices take the first sum(used) rows of [R, M]. The other rows are not written. They cost no time,
    and nobody reads them.

    Constraints:
    - (C1) tokens is [S, M], slots and weights [S, k]; the result is [E, T, M] or, always with `used`, [R, M].
    - (C2) tokens and result have one element type, and weights its accumulator type.

    Example:

    ```mlir
    func.func @dispatch(%x: tensor<16x8xf32>, %s: tensor<16x2xi32>) -> tensor<4x8x8xf32> {
      %0 = moe.dispatch %x, %s : (tensor<16x8xf32>, tensor<16x2xi32>) -> tensor<4x8x8xf32>
      return %0 : tensor<4x8x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$tokens, Moe_Index2D:$slots, Optional<Moe_Accumulator2D>:$weights,
                       Optional<Moe_Index2D>:$used);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $tokens `,` $slots (`weights` `(` $weights^ `)`)? (`used` `(` $used^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$tokens, "::mlir::Value":$slots,
                                 "::mlir::Value":$weights),
                            [{ build($_builder, $_state, result, tokens, slots, weights, ::mlir::Value()); }]>];
}

def Moe_CombineOp : Moe_Op<"combine", [
    AttrSizedOperandSegments, Moe_Spmd, Moe_Differentiable, Moe_CostOwn, Moe_Kernel<["getKernelInputs"]>]> {
  let summary = "weighted sum of each token's rows";
  let description = [{
    `result[s,:] = sum_j weights[s,j] rows[slots[s,j],:]`. Without weights the factor is 1. Dropped choices add nothing.
    This op is the adjoint of moe.dispatch, and `used` says the same as there.

    Constraints:
    - (C1) rows is [E, T, M] or, always with `used`, [R, M]; slots and weights are [S, k]; the result is [S, M].
    - (C2) rows and result have one element type, and weights its accumulator type.

    Example:

    ```mlir
    func.func @combine(%r: tensor<4x8x8xf32>, %s: tensor<16x2xi32>, %w: tensor<16x2xf32>) -> tensor<16x8xf32> {
      %0 = moe.combine %r, %s weights(%w) : (tensor<4x8x8xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
      return %0 : tensor<16x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Rows:$rows, Moe_Index2D:$slots, Optional<Moe_Accumulator2D>:$weights,
                       Optional<Moe_Index2D>:$used);
  let results = (outs Moe_Tensor2D:$result);
  let assemblyFormat = [{
    $rows `,` $slots (`weights` `(` $weights^ `)`)? (`used` `(` $used^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$rows, "::mlir::Value":$slots,
                                 "::mlir::Value":$weights),
                            [{ build($_builder, $_state, result, rows, slots, weights, ::mlir::Value()); }]>];
}

def Moe_SlotDotOp : Moe_Op<"slot_dot", [Moe_Spmd, Moe_CostOwn, Moe_Kernel<["getKernelInputs"]>]> {
  let summary = "inner product of each token with each of its rows";
  let description = [{
    `result[s,j] = sum_m tokens[s,m] rows[slots[s,j],m]`, and 0 for dropped choices. This is the gradient of moe.combine's
    weights. `used` says the same as for moe.dispatch.

    Constraints:
    - (C1) tokens is [S, M], slots and result are [S, k]; rows is [E, T, M] or, always with `used`, [R, M].
    - (C2) tokens and rows have one element type, and the result its accumulator type.

    Example:

    ```mlir
    func.func @slot_dot(%x: tensor<16x8xf32>, %r: tensor<4x8x8xf32>, %s: tensor<16x2xi32>) -> tensor<16x2xf32> {
      %0 = moe.slot_dot %x, %r, %s : (tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<16x2xi32>) -> tensor<16x2xf32>
      return %0 : tensor<16x2xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$tokens, Moe_Rows:$rows, Moe_Index2D:$slots, Optional<Moe_Index2D>:$used);
  let results = (outs Moe_Accumulator2D:$result);
  let assemblyFormat = [{
    $tokens `,` $rows `,` $slots (`used` `(` $used^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$tokens, "::mlir::Value":$rows, "::mlir::Value":$slots,
                                 "::mlir::Value":$used)>];
}

#endif // MOE_DIALECT_MOE_IR_MOEROUTEOPS_TD
