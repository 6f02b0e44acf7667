//===- MoeCommOps.td - L1: collectives and state changes -*- tablegen -*-===//
//
// An op's summary gives the state of its values over the group, before -> after. Its description gives its adjoint.
// docs/Verification.md explains the states.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_MOE_IR_MOECOMMOPS_TD
#define MOE_DIALECT_MOE_IR_MOECOMMOPS_TD

include "moe/Dialect/Moe/IR/MoeBase.td"

/// An op on a group of ranks. `states`, such as "VaryingToReplicated", are the states of its values over the group, before
/// and after it. It is empty if the op implements inferSpmd itself. `methods` names the methods of MoeKernelOpInterface,
/// besides getKernelGroup, that it implements itself.
class Moe_GroupOp<string mnemonic, string states, list<string> methods = [], list<Trait> traits = [], Trait cost = Moe_Cost,
                  list<Trait> adjoint = [Moe_Differentiable], Trait spmd = Moe_SpmdGroup>
    : Moe_Op<mnemonic, !listconcat([
        spmd, cost, Moe_Kernel<!listconcat(["getKernelGroup"], methods)>], adjoint, traits)> {
  let assemblyFormat = "$input `over` $group attr-dict `:` functional-type(operands, results)";
  code groupMethods = [{
    ::mlir::moe::GroupAttr $cppClass::getKernelGroup() { return getGroup(); }
  }] # !if(!empty(states), "", [{
    ::llvm::LogicalResult $cppClass::inferSpmd(const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                               SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results) {
      return infer}] # states # [{(*this, getGroup(), axes, operands, required, results);
    }
  }]);
  let extraClassDefinition = groupMethods;
}

/// A group op that all members of the group call together.
class Moe_Collective<string mnemonic, string states, list<string> methods = [], list<Trait> traits = [],
                     list<Trait> adjoint = [Moe_Differentiable]>
    : Moe_GroupOp<mnemonic, states, !listconcat(["isCollective"], methods), traits,
                  DeclareOpInterfaceMethods<MoeCostOpInterface, ["getOpCost", "getCostGroup"]>, adjoint> {
  let extraClassDefinition = groupMethods # [{
    bool $cppClass::isCollective() { return true; }
    ::mlir::moe::GroupAttr $cppClass::getCostGroup() { return getGroup(); }
  }];
}

def Moe_IdentityOverOneRank : NativeOpTrait<"IdentityOverOneRank">;

def Moe_AllGatherOp : Moe_Collective<"all_gather", "VaryingToReplicated", ["getKernelParams"],
                                     [Moe_IdentityOverOneRank, Moe_Splittable, Moe_Chunkable, Moe_Counts]> {
  let summary = "concatenates the members' parts: varying -> replicated";
  let description = [{
    `result` holds the members' inputs, one after the other along `dim`. Adjoint: moe.slice.

    Constraints:
    - (C1) the result's dimension `dim` is the group's size times the input's; all other dimensions agree.

    Example:

    ```mlir
    func.func @all_gather(%x: tensor<4x8xf32>) -> tensor<8x8xf32> {
      %0 = moe.all_gather %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
      return %0 : tensor<8x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, Moe_Int:$dim);
  let results = (outs Moe_AnyTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::moe::GroupAttr":$group, "int64_t":$dim)>];
  let hasFolder = 1;
}

def Moe_SliceOp : Moe_GroupOp<"slice", "ReplicatedToVarying", ["getKernelParams", "isAlias", "getAliasPart"],
                              [Moe_IdentityOverOneRank, Moe_Chunkable], Moe_CostOwn> {
  let summary = "the member's part: replicated -> varying";
  let description = [{
    Each member takes its own part of the input along `dim`: Parm's MP-Split and ESP-Split. No data moves between ranks.
    Along dimension 0 nothing is copied either. Adjoint: moe.all_gather.

    Constraints:
    - (C1) the input's dimension `dim` is the group's size times the result's; all other dimensions agree.

    Example:

    ```mlir
    func.func @slice(%x: tensor<8x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, Moe_Int:$dim);
  let results = (outs Moe_AnyTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::moe::GroupAttr":$group, "int64_t":$dim)>];
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Moe_AllReduceOp : Moe_Collective<"all_reduce", "", ["getKernelInputs", "getInPlaceInputs"],
                                     [Moe_IdentityOverOneRank, AllTypesMatch<["input", "result"]>, Moe_Chunkable]> {
  let summary = "sum over the members: varying (partial sums) -> replicated";
  let description = [{
    `result` is the sum of the members' inputs. With `counts` only the first sum(counts) rows take part. Adjoint:
    moe.to_varying.

    Constraints:
    - (C1) input and result have one type; counts needs 2-D rows.

    Example:

    ```mlir
    func.func @all_reduce(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.all_reduce %x over <"esp", 2, 1> : (tensor<4x8xf32>) -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, Optional<Moe_Index2D>:$counts, Moe_GroupAttr:$group);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = [{
    $input (`counts` `(` $counts^ `)`)? `over` $group attr-dict `:` functional-type(operands, results)
  }];
}

def Moe_ToVaryingOp : Moe_GroupOp<"to_varying", "ReplicatedToVarying", ["isAlias"],
                                  [Moe_IdentityOverOneRank, AllTypesMatch<["input", "result"]>, Moe_Chunkable]> {
  let summary = "treats a replicated value as varying: replicated -> varying";
  let description = [{
    No data moves. Adjoint: moe.all_reduce. So each sum of a gradient over ranks is the adjoint of a moe.to_varying.

    With `shares` the input was divided by the size of the group, so that the sum over the members is the original value.

    Constraints:
    - (C1) input and result have one type.

    Example:

    ```mlir
    func.func @to_varying(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.to_varying %x over <"dp", 2, 1> : tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, UnitAttr:$shares);
  let results = (outs Moe_AnyTensor:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` type($result)";
  let hasVerifier = 0;
}

def Moe_ReduceScatterOp : Moe_Collective<"reduce_scatter", "VaryingToVarying", ["getKernelParams"],
                                         [Moe_IdentityOverOneRank, Moe_Chunkable]> {
  let summary = "the member's part of the sum: varying -> varying";
  let description = [{
    `moe.slice` of `moe.all_reduce`, in one exchange. Adjoint: moe.all_gather, then moe.to_varying.

    Constraints:
    - (C1) the input's dimension `dim` is the group's size times the result's; all other dimensions agree.

    Example:

    ```mlir
    func.func @reduce_scatter(%x: tensor<8x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.reduce_scatter %x over <"esp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, Moe_GroupAttr:$group, Moe_Int:$dim);
  let results = (outs Moe_Tensor:$result);
}

def Moe_AllToAllOp : Moe_Collective<"all_to_all", "VaryingToVarying", ["getKernelInputs", "getKernelParams"],
                                    [Moe_IdentityOverOneRank, Moe_ShadowableOnly, Moe_Counts]> {
  let summary = "each member sends a part to each other member: varying -> varying";
  let description = [{
    Part j of member i along `split_dim` becomes part i of member j along `concat_dim`. Over the fused group of ep and
    esp, on the result of a moe.dump, it is Parm's EP&ESP-AlltoAll. Adjoint: the same exchange with the two dimensions
    swapped.

    Constraints:
    - (C1) the group's size divides the input's `split_dim`. The result has that dimension divided by the size, and
      `concat_dim` multiplied by it.

    Example:

    ```mlir
    func.func @all_to_all(%x: tensor<8x4x16xf32>) -> tensor<4x8x16xf32> {
      %0 = moe.all_to_all %x over <"ep", 2, 1> {split_dim = 0 : i64, concat_dim = 1 : i64}
        : (tensor<8x4x16xf32>) -> tensor<4x8x16xf32>
      return %0 : tensor<4x8x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, Moe_Int:$split_dim, Moe_Int:$concat_dim);
  let results = (outs Moe_AnyTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::moe::GroupAttr":$group, "int64_t":$splitDim,
                                 "int64_t":$concatDim)>];
  let extraClassDeclaration = [{
    /// The value that is in memory: the input, or the input of the moe.dump that makes it, if each of the copies goes to
    /// another member.
    ::mlir::Value getStoredInput();
  }];
}

def Moe_AllToAllPhaseOp
    : Moe_Collective<"all_to_all_phase", "VaryingToVarying", ["getKernelName", "getKernelInputs", "getKernelParams"], [], []> {
  let summary = "one phase of an all_to_all: varying -> varying";
  let description = [{
    The members form `phases` = n blocks of neighbours. In phase p block b sends to block (b - p) mod n and receives from
    block (b + p) mod n. The result holds only the parts of moe.all_to_all's result that come from that block, in the
    order of the members. The input is the whole input in every phase. moe.join_phases puts the results of all phases into
    the order of the members.

    moe-split-exchanges makes this op, after moe-differentiate. So it has no adjoint.

    Constraints:
    - (C1) phases divides the group's size; 0 <= phase < phases.
    - (C2) the result is that of moe.all_to_all with dimension `concat_dim` divided by phases.

    Example:

    ```mlir
    func.func @all_to_all_phase(%x: tensor<8x4x16xf32>) -> tensor<2x8x16xf32> {
      %0 = moe.all_to_all_phase %x over <"world", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64, phase = 1 : i64, phases = 2 : i64}
        : (tensor<8x4x16xf32>) -> tensor<2x8x16xf32>
      return %0 : tensor<2x8x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, Moe_Int:$split_dim, Moe_Int:$concat_dim,
                       Moe_Int:$phase, Moe_Int:$phases);
  let results = (outs Moe_AnyTensor:$result);
  let extraClassDeclaration = [{
    /// The value that is in memory, as for moe.all_to_all.
    ::mlir::Value getStoredInput();
  }];
}

def Moe_JoinPhasesOp
    : Moe_GroupOp<"join_phases", "", ["getKernelName", "getOperandPart"], [SameTypeOperands], Moe_Cost, []> {
  let summary = "the results of all phases, in the order of the members";
  let description = [{
    Part p of n parts is block (b + p) mod n of the result along dimension 0. b is the member's own block of n
    (moe.all_to_all_phase). No data moves: each part is computed in its place in the result.

    Constraints:
    - (C1) the number of parts divides the group's size.
    - (C2) the result is a part with dimension 0 multiplied by the number of parts.

    Example:

    ```mlir
    func.func @join_phases(%a: tensor<2x8xf32>, %b: tensor<2x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.join_phases %a, %b over <"world", 4, 1> : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Moe_AnyTensor>:$parts, Moe_GroupAttr:$group);
  let results = (outs Moe_AnyTensor:$result);
  let assemblyFormat = "$parts `over` $group attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::ValueRange":$parts, "::mlir::moe::GroupAttr":$group)>];
}

def Moe_AllToAllVOp : Moe_Collective<"all_to_all_v", "VaryingToVarying", ["getKernelInputs", "getKernelParams"],
                                     [Moe_ShadowableOwn, Moe_Accumulating, Moe_Counts]> {
  let summary = "ragged exchange of the dropless form: varying -> varying";
  let description = [{
    Exchanges rows between the ranks of the tokens and the ranks of the experts. `to_experts` goes from the block side to
    the expert side, and `from_experts` goes back.

    - The *block side* is [B n, M]. Block b starts at row b n and holds its rows sorted by expert, `block_counts[b,e]`
      rows of each expert e.
    - The *expert side* is [R, M], packed. It is sorted by the rank's E/size experts e, then by member i, then by the
      member's block b. Each such part has `expert_counts[i B + b, e]` rows. More than R rows is an error at run time that
      names the layer.

    Adjoint: the other direction.

    With `copies` = c each expert is held by c neighbouring members: member j has the experts of part j / c. The block
    side is c times as long, and holds c copies. Copy j mod c goes to member j or comes from it. moe.dump makes such
    copies, and moe.local_reduce adds them up.

    With `phases` = n > 1 this op is one of n exchanges that together are the whole exchange (FasterMoE, section 4.2). The
    members form n blocks of neighbours. In phase p block b sends rows to the experts of block (b - p) mod n and receives
    rows from block (b + p) mod n. `expert_counts` holds only the counts of that block (moe.phase), and the expert side
    has only the rows of this phase. The block side is the whole one in every phase. On the return its other rows are
    the rows of `addend`, which holds the results of other phases, or zero.

    Constraints:
    - (C1) copies divides size; block_counts is [B, E], expert_counts [size B / phases, E copies / size].
    - (C2) the block side has a multiple of copies B rows; both sides have M columns.
    - (C3) phases divides size / copies; 0 <= phase < phases.
    - (C4) an addend is the result of other phases of the same exchange from the experts.

    Example:

    ```mlir
    func.func @all_to_all_v(%x: tensor<16x8xf32>, %b: tensor<1x4xi32>, %e: tensor<2x2xi32>) -> tensor<32x8xf32> {
      %0 = moe.all_to_all_v %x, %b, %e over <"ep", 2, 1> {direction = #moe<direction to_experts>}
        : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
      return %0 : tensor<32x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor2D:$rows, Moe_Index2D:$block_counts, Moe_Index2D:$expert_counts,
                       Optional<Moe_AnyTensor2D>:$addend, Moe_GroupAttr:$group, Moe_DirectionAttr:$direction,
                       DefaultValuedAttr<Moe_Int, "1">:$copies, DefaultValuedAttr<Moe_Int, "0">:$phase,
                       DefaultValuedAttr<Moe_Int, "1">:$phases);
  let results = (outs Moe_AnyTensor2D:$result);
  let assemblyFormat = [{
    $rows `,` $block_counts `,` $expert_counts (`addend` `(` $addend^ `)`)? `over` $group attr-dict `:`
    functional-type(operands, results)
  }];
  let builders = [
    /// The whole exchange in one phase.
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$rows, "::mlir::Value":$block_counts,
                   "::mlir::Value":$expert_counts, "::mlir::moe::GroupAttr":$group,
                   "::mlir::moe::Direction":$direction, "int64_t":$copies)>
  ];
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// The type of the block side: the rows to the experts, or the result from them.
    ::mlir::RankedTensorType getBlockSideType();
    /// The rows that are in memory: the operand, or the input of the moe.dump that makes it.
    ::mlir::Value getStoredRows();
  }];
}

def Moe_PhaseOp : Moe_GroupOp<"phase", "VaryingToVarying", ["isAlias", "getAliasPart"], [], Moe_Cost,
                              [MoeDifferentiableOpInterface], Moe_SpmdOfCounts> {
  let summary = "the counts of the members that a phase receives from";
  let description = [{
    The input holds the counts of all members. The result is part (b + phase) mod phases of it along dimension 0, where b
    is the member's own block of `phases` blocks (moe.all_to_all_v). These are the counts of the block whose rows arrive
    in this phase. No data moves.

    Constraints:
    - (C1) phases divides the group's size; 0 <= phase < phases.
    - (C2) the input is the result with dimension 0 multiplied by phases.

    Example:

    ```mlir
    func.func @phase(%c: tensor<4x2xi32>) -> tensor<2x2xi32> {
      %0 = moe.phase %c over <"ep", 4, 1> {phase = 1 : i64, phases = 2 : i64} : (tensor<4x2xi32>) -> tensor<2x2xi32>
      return %0 : tensor<2x2xi32>
    }
    ```
  }];
  let arguments = (ins Moe_Index2D:$input, Moe_GroupAttr:$group, Moe_Int:$phase, Moe_Int:$phases);
  let results = (outs Moe_Index2D:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::moe::GroupAttr":$group, "int64_t":$phase,
                                 "int64_t":$phases)>];
  let hasFolder = 1;
}

def Moe_SliceCountsOp
    : Moe_GroupOp<"slice_counts", "ReplicatedToVarying", ["getKernelParams"],
                  [Moe_IdentityOverOneRank, AllTypesMatch<["counts", "result"]>, Moe_ChunkableOwn, Moe_Counts], Moe_Cost,
                  [MoeDifferentiableOpInterface], Moe_SpmdOfCounts> {
  let summary = "counts of the member's part of packed rows: replicated -> varying";
  let description = [{
    `rows` packed rows are sorted by expert, `counts[0,e]` rows of each expert e from row 0 on. The rest is unused.
    moe.slice along dimension 0 gives each member an equal part of them. `result[0,e]` is how many rows of expert e are in
    the member's part.

    Constraints:
    - (C1) counts is [1, E]; the group's size divides rows.

    Example:

    ```mlir
    func.func @slice_counts(%c: tensor<1x4xi32>) -> tensor<1x4xi32> {
      %0 = moe.slice_counts %c over <"mp", 2, 1> {rows = 16 : i64} : tensor<1x4xi32>
      return %0 : tensor<1x4xi32>
    }
    ```
  }];
  let arguments = (ins Moe_Index2D:$counts, Moe_GroupAttr:$group, Moe_Int:$rows);
  let results = (outs Moe_Index2D:$result);
  let assemblyFormat = "$counts `over` $group attr-dict `:` type($result)";
}

def Moe_LocalSlotsOp
    : Moe_GroupOp<"local_slots", "ReplicatedToVarying", ["getKernelParams"],
                  [MoeSlotsOpInterface, Moe_Counts, AllTypesMatch<["routed_slots", "slots"]>], Moe_Cost,
                  [MoeDifferentiableOpInterface]> {
  let summary = "the choices of the member's own experts: replicated -> varying";
  let description = [{
    PPMoE's index selection (section 3.3.3). All members of the group have the same tokens, and the same slots [S, k] and
    counts [1, E] from moe.route. Each expert is held by `copies` = c neighbouring members. With n = E c / size, member j
    has the n experts from floor(j / c) n on.

    `slots[s,i]` is the row of choice i of token s among the rows of these experts alone. It is -1 where the choice is of
    another expert or is dropped. `counts[0,e]` is how many rows each of these experts uses. No data moves.

    With `capacity` = C > 0 each expert has C rows, for all routing groups together. With 0 (dropless) the rows are
    packed, and there is memory for `room` rows. More rows are an error at run time that names the layer.

    Constraints:
    - (C1) copies divides size; routed_counts is [1, E], counts [1, E copies / size].
    - (C2) capacity and room are at least 0, and one of them is 0.

    Example:

    ```mlir
    func.func @local_slots(%s: tensor<16x2xi32>, %c: tensor<1x4xi32>) -> tensor<16x2xi32> {
      %slots, %counts = moe.local_slots %s, %c over <"ep_esp", 4, 1> {copies = 2 : i64, room = 32 : i64}
        : (tensor<16x2xi32>, tensor<1x4xi32>) -> (tensor<16x2xi32>, tensor<1x2xi32>)
      return %slots : tensor<16x2xi32>
    }
    ```
  }];
  let arguments = (ins Moe_Index2D:$routed_slots, Moe_Index2D:$routed_counts, Moe_GroupAttr:$group,
                       DefaultValuedAttr<Moe_Int, "0">:$capacity, DefaultValuedAttr<Moe_Int, "0">:$room,
                       DefaultValuedAttr<Moe_Int, "1">:$copies);
  let results = (outs Moe_Index2D:$slots, Moe_Index2D:$counts);
  let assemblyFormat = "$routed_slots `,` $routed_counts `over` $group attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$slots, "::mlir::Value":$counts, "::mlir::moe::GroupAttr":$group,
                                 "int64_t":$capacity, "int64_t":$room, "int64_t":$copies)>];
  let extraClassDeclaration = [{
    bool isDropless() { return getCapacity() == 0; }
    int64_t getChunks() { return 1; }
    /// moe.route numbers the rows.
    bool canChunk() { return false; }
    void setChunked(int64_t, int64_t) { llvm_unreachable("rows that another op numbers"); }
  }];
}

def Moe_BroadcastOp : Moe_Collective<"broadcast", "VaryingToReplicated", ["getKernelParams"],
                                     [Moe_IdentityOverOneRank, AllTypesMatch<["input", "result"]>]> {
  let summary = "the owner's value on every member: varying -> replicated";
  let description = [{
    Member `root` owns the value. Adjoint: each member takes its share of the replicated cotangent, and moe.reduce sums
    the shares on the owner.

    Constraints:
    - (C1) 0 <= root < size.

    Example:

    ```mlir
    func.func @broadcast(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.broadcast %x over <"ep", 2, 1> {root = 1 : i64} : tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, Moe_Int:$root);
  let results = (outs Moe_AnyTensor:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` type($result)";
}

def Moe_ReduceOp : Moe_Collective<"reduce", "VaryingToVarying", ["getKernelParams"],
                                  [Moe_IdentityOverOneRank, AllTypesMatch<["input", "result"]>]> {
  let summary = "the sum on the owner, zeros elsewhere: varying -> varying";
  let description = [{
    `result` is the sum of the members' inputs on member `root`, and zero on all others. Adjoint: moe.broadcast, then
    moe.to_varying.

    Constraints:
    - (C1) 0 <= root < size.

    Example:

    ```mlir
    func.func @reduce(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.reduce %x over <"ep", 2, 1> {root = 1 : i64} : tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, Moe_GroupAttr:$group, Moe_Int:$root);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` type($result)";
  let hasCanonicalizer = 1;
}

def Moe_AssumeReplicatedOp : Moe_Collective<"assume_replicated", "VaryingToReplicated", ["getKernelName", "isAlias"],
                                            [Moe_IdentityOverOneRank, AllTypesMatch<["input", "result"]>]> {
  let summary = "copies that are known to be equal: varying -> replicated";
  let description = [{
    States that all members have the same value. No data moves. `moe-run --verify` checks the claim. Only moe-partition
    may make this op, for the duplicated tokens of the baseline. Adjoint: scale by 1/size, then moe.to_varying.

    Constraints:
    - (C1) input and result have one type.

    Example:

    ```mlir
    func.func @assume_replicated(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.assume_replicated %x over <"mp", 2, 1> : tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, Moe_GroupAttr:$group);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` type($result)";
  let hasVerifier = 0;
}

#endif // MOE_DIALECT_MOE_IR_MOECOMMOPS_TD
