//===- MoeCommOps.td - L1: collectives and state changes -*- tablegen -*-===//
//
// The table of design section 2: each op's state over its group before and after, and its adjoint.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_MOE_IR_MOECOMMOPS_TD
#define MOE_DIALECT_MOE_IR_MOECOMMOPS_TD

include "moe/Dialect/Moe/IR/MoeBase.td"

/// An op on a group of ranks. `methods`: what differs from the defaults of MoeKernelOpInterface besides the group.
class Moe_GroupOp<string mnemonic, list<string> methods = [], list<Trait> traits = [],
                  list<string> costMethods = ["getOpCost"], list<Trait> adjoint = [Moe_Differentiable]>
    : Moe_Op<mnemonic, !listconcat([
        Moe_SpmdGroup, DeclareOpInterfaceMethods<MoeCostOpInterface, costMethods>,
        Moe_Kernel<!listconcat(["getKernelGroup"], methods)>], adjoint, traits)> {
  code kernelGroup = [{
    ::mlir::moe::GroupAttr $cppClass::getKernelGroup() { return getGroup(); }
  }];
  let extraClassDefinition = kernelGroup;
}

/// A group op in which the members meet.
class Moe_Collective<string mnemonic, list<string> methods = [], list<Trait> traits = [],
                     list<Trait> adjoint = [Moe_Differentiable]>
    : Moe_GroupOp<mnemonic, !listconcat(["isCollective"], methods), traits, ["getOpCost", "getCostGroup"], adjoint> {
  let extraClassDefinition = kernelGroup # [{
    bool $cppClass::isCollective() { return true; }
    ::mlir::moe::GroupAttr $cppClass::getCostGroup() { return getGroup(); }
  }];
}

def Moe_AllGatherOp : Moe_Collective<"all_gather", ["getKernelParams"],
                                     [Moe_Splittable, Moe_Chunkable, Moe_Counts]> {
  let summary = "concatenates the members' parts: varying -> replicated";
  let description = [{
    `result` is the members' inputs one after the other along `dim`. Adjoint: moe.slice.

    Constraints:
    - (C1) the result's dimension `dim` is the group's size times the input's; the others agree.

    Example:

    ```mlir
    func.func @all_gather(%x: tensor<4x8xf32>) -> tensor<8x8xf32> {
      %0 = moe.all_gather %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
      return %0 : tensor<8x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, I64Attr:$dim);
  let results = (outs Moe_AnyTensor:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::moe::GroupAttr":$group, "int64_t":$dim)>];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Moe_SliceOp : Moe_GroupOp<"slice", ["getKernelName", "getKernelParams", "isAlias", "getAliasPart"], [Moe_Chunkable]> {
  let summary = "the member's part: replicated -> varying";
  let description = [{
    Parm's MP-Split and ESP-Split; no data moves between ranks, along dimension 0 none at all. Adjoint: moe.all_gather.

    Constraints:
    - (C1) the input's dimension `dim` is the group's size times the result's; the others agree.

    Example:

    ```mlir
    func.func @slice(%x: tensor<8x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, I64Attr:$dim);
  let results = (outs Moe_AnyTensor:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::moe::GroupAttr":$group, "int64_t":$dim)>];
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Moe_AllReduceOp : Moe_Collective<"all_reduce", ["getKernelInputs", "getInPlaceInputs"],
                                     [AllTypesMatch<["input", "result"]>, Moe_Chunkable]> {
  let summary = "sum over the members: varying (partial sums) -> replicated";
  let description = [{
    With `counts` only the first sum(counts) rows take part. Adjoint: moe.to_varying.

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
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Moe_ToVaryingOp : Moe_GroupOp<"to_varying", ["getKernelName", "isAlias"],
                                   [AllTypesMatch<["input", "result"]>, Moe_Chunkable]> {
  let summary = "forgets that a value is replicated: replicated -> varying";
  let description = [{
    No data moves. Adjoint: moe.all_reduce, which is where every due gradient sum comes from. With `shares` the input is a
    value divided by the size of the group, so that the members' sum is that value.

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
  let hasFolder = 1;
}

def Moe_ReduceScatterOp : Moe_Collective<"reduce_scatter", ["getKernelParams"], [Moe_Chunkable]> {
  let summary = "the member's part of the sum: varying -> varying";
  let description = [{
    `moe.slice` of `moe.all_reduce`, in one exchange. Adjoint: moe.all_gather, then moe.to_varying.

    Constraints:
    - (C1) the input's dimension `dim` is the group's size times the result's; the others agree.

    Example:

    ```mlir
    func.func @reduce_scatter(%x: tensor<8x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.reduce_scatter %x over <"esp", 2, 1> {dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, Moe_GroupAttr:$group, I64Attr:$dim);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Moe_AllToAllOp : Moe_Collective<"all_to_all", ["getKernelInputs", "getKernelParams"],
                                    [Moe_ShadowableOnly, Moe_Counts]> {
  let summary = "each member's part for each other: varying -> varying";
  let description = [{
    Part j of member i along `split_dim` becomes part i of member j along `concat_dim`. Over the fused group of ep and esp,
    of a moe.dump, it is Parm's EP&ESP-AlltoAll. Adjoint: the exchange with the two dimensions swapped.

    Constraints:
    - (C1) the group's size divides the input's `split_dim`; the result has that dimension divided and `concat_dim`
      multiplied by it.

    Example:

    ```mlir
    func.func @all_to_all(%x: tensor<8x4x16xf32>) -> tensor<4x8x16xf32> {
      %0 = moe.all_to_all %x over <"ep", 2, 1> {split_dim = 0 : i64, concat_dim = 1 : i64}
        : (tensor<8x4x16xf32>) -> tensor<4x8x16xf32>
      return %0 : tensor<4x8x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, I64Attr:$split_dim, I64Attr:$concat_dim);
  let results = (outs Moe_AnyTensor:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::moe::GroupAttr":$group, "int64_t":$splitDim,
                                 "int64_t":$concatDim)>];
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// What is in memory: the input, or what a moe.dump, whose copies go to different members, made it of.
    ::mlir::Value getStoredInput();
  }];
}

def Moe_AllToAllPhaseOp
    : Moe_Collective<"all_to_all_phase", ["getKernelName", "getKernelInputs", "getKernelParams"], [], []> {
  let summary = "one phase of an all_to_all: varying -> varying";
  let description = [{
    The members form `phases` = n blocks of neighbours. In phase p block b sends to block (b - p) mod n and receives from
    block (b + p) mod n: of moe.all_to_all's result only the parts from there, in the order of the members. The input is the
    whole one in every phase. moe.join_phases puts what the phases bring into the order of the members.

    Made by moe-split-exchanges, behind moe-differentiate: it has no adjoint.

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
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, I64Attr:$split_dim, I64Attr:$concat_dim,
                       I64Attr:$phase, I64Attr:$phases);
  let results = (outs Moe_AnyTensor:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// As of moe.all_to_all.
    ::mlir::Value getStoredInput();
  }];
}

def Moe_JoinPhasesOp
    : Moe_GroupOp<"join_phases", ["getKernelName", "getOperandPart"], [SameTypeOperands], ["getOpCost"], []> {
  let summary = "what the phases bring, in the order of the members";
  let description = [{
    Part p of n is block (b + p) mod n of the result along dimension 0, b being the member's own block of n
    (moe.all_to_all_phase). No data moves: each part is computed in its place.

    Constraints:
    - (C1) the number of parts divides the group's size.
    - (C2) the result is a part with dimension 0 multiplied by their number.

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
  let hasVerifier = 1;
}

def Moe_AllToAllVOp : Moe_Collective<"all_to_all_v", ["getKernelInputs", "getKernelParams", "getInPlaceInputs"],
                                      [Moe_ShadowableOwn, Moe_Accumulating]> {
  let summary = "ragged exchange of the dropless form: varying -> varying";
  let description = [{
    The *block side* is [B n, M]: block b starts at row b n and holds its rows sorted by expert, `block_counts[b,e]` each.
    The *expert side* is [R, M], packed: for each of the rank's E/size experts, each member i and each of its blocks b,
    `expert_counts[i B + b, e]` rows. `to_experts` goes from the block side to the expert side, `from_experts` back.
    Adjoint: the other direction. More than R rows is an error at run time that names the layer.

    With `copies` = c each expert is held by c neighbouring members: member j has the experts of part j / c, and the block
    side is c times as long, copy j mod c being what it gets or gives. moe.dump makes such copies, moe.local_reduce adds
    them up.

    With `phases` = n > 1 this is one of n exchanges that together are the whole one (FasterMoE, section 4.2). The members
    form n blocks of neighbours; in phase p block b sends rows to the experts of block (b - p) mod n and receives rows from
    block (b + p) mod n, whose counts alone are `expert_counts` (moe.phase). The expert side has the rows of one phase. The
    block side is the whole one in every phase: on the way back its other rows are those of `addend`, what other phases
    brought, or zero.

    Constraints:
    - (C1) copies divides size; block_counts is [B, E], expert_counts [size B / phases, E copies / size].
    - (C2) the block side has a multiple of copies B rows; both sides have M columns.
    - (C3) phases divides size / copies; 0 <= phase < phases.
    - (C4) an addend is what other phases of the same exchange bring from the experts.

    Example:

    ```mlir
    func.func @all_to_all_v(%x: tensor<16x8xf32>, %b: tensor<1x4xi32>, %e: tensor<2x2xi32>) -> tensor<32x8xf32> {
      %0 = moe.all_to_all_v %x, %b, %e over <"ep", 2, 1> {direction = #moe<direction to_experts>}
        : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
      return %0 : tensor<32x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$rows, Moe_Index2D:$block_counts, Moe_Index2D:$expert_counts,
                       Optional<Moe_Tensor2D>:$addend, Moe_GroupAttr:$group, Moe_DirectionAttr:$direction,
                       DefaultValuedAttr<I64Attr, "1">:$copies, DefaultValuedAttr<I64Attr, "0">:$phase,
                       DefaultValuedAttr<I64Attr, "1">:$phases);
  let results = (outs Moe_Tensor2D:$result);
  let assemblyFormat = [{
    $rows `,` $block_counts `,` $expert_counts (`addend` `(` $addend^ `)`)? `over` $group attr-dict `:`
    functional-type(operands, results)
  }];
  let builders = [
    /// In one phase.
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$rows, "::mlir::Value":$block_counts,
                   "::mlir::Value":$expert_counts, "::mlir::moe::GroupAttr":$group,
                   "::mlir::moe::Direction":$direction, "int64_t":$copies)>
  ];
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// The side with the blocks, and with it the number of rows that are always full.
    ::mlir::RankedTensorType getBlockSideType();
    /// What is in memory: the rows, or what a moe.dump made them of.
    ::mlir::Value getStoredRows();
  }];
}

def Moe_PhaseOp : Moe_GroupOp<"phase", ["getKernelName", "isAlias", "getAliasPart"]> {
  let summary = "the part of the members that a phase receives from";
  let description = [{
    Part (b + phase) mod phases along dimension 0, b being the member's own block of as many (moe.all_to_all_v): of the counts
    of all members, those of the block that the phase brings rows from. No data moves.

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
  let arguments = (ins Moe_Index2D:$input, Moe_GroupAttr:$group, I64Attr:$phase, I64Attr:$phases);
  let results = (outs Moe_Index2D:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::moe::GroupAttr":$group, "int64_t":$phase,
                                 "int64_t":$phases)>];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Moe_SliceCountsOp : Moe_GroupOp<"slice_counts", ["getKernelParams"],
                                    [AllTypesMatch<["counts", "result"]>, Moe_ChunkableOwn, Moe_Counts],
                                    ["getOpCost"]> {
  let summary = "counts of the member's part of packed rows: replicated -> varying";
  let description = [{
    `rows` rows are sorted by expert, `counts[0,e]` each from row 0 on, the rest unused. `result[0,e]` is how many rows of
    expert e are in the member's part of them (moe.slice along dimension 0).

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
  let arguments = (ins Moe_Index2D:$counts, Moe_GroupAttr:$group, I64Attr:$rows);
  let results = (outs Moe_Index2D:$result);
  let assemblyFormat = "$counts `over` $group attr-dict `:` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Moe_LocalSlotsOp
    : Moe_GroupOp<"local_slots", ["getKernelParams"],
                  [MoeSlotsOpInterface, Moe_Counts, AllTypesMatch<["routed_slots", "slots"]>], ["getOpCost"]> {
  let summary = "the choices of the member's own experts: replicated -> varying";
  let description = [{
    PPMoE's index selection (section 3.3.3). All members of the group have the same tokens, and moe.route's slots [S, k] and
    counts [1, E] of them. Each expert is held by `copies` = c neighbouring members: with n = E c / size, member j has the n
    experts from floor(j / c) n on. `slots[s,i]` is the row that choice i of token s takes among the rows of these alone,
    -1 where it is of another expert or dropped; `counts[0,e]` are the rows that each uses. No data moves.

    With `capacity` = C > 0 each expert has C rows, those of all routing groups. With 0 (dropless) rows are packed, and there
    is `room` for so many: more is an error at run time that names the layer.

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
                       DefaultValuedAttr<I64Attr, "0">:$capacity, DefaultValuedAttr<I64Attr, "0">:$room,
                       DefaultValuedAttr<I64Attr, "1">:$copies);
  let results = (outs Moe_Index2D:$slots, Moe_Index2D:$counts);
  let assemblyFormat = "$routed_slots `,` $routed_counts `over` $group attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$slots, "::mlir::Value":$counts, "::mlir::moe::GroupAttr":$group,
                                 "int64_t":$capacity, "int64_t":$room, "int64_t":$copies)>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool isDropless() { return static_cast<int64_t>(getCapacity()) == 0; }
    int64_t getChunks() { return 1; }
    /// The rows are numbered where the tokens are routed.
    bool canChunk() { return false; }
    void setChunked(int64_t, int64_t) { llvm_unreachable("rows that another op numbers"); }
  }];
}

def Moe_BroadcastOp : Moe_Collective<"broadcast", ["getKernelParams"], [AllTypesMatch<["input", "result"]>]> {
  let summary = "the owner's value on every member: varying -> replicated";
  let description = [{
    Member `root` owns the value. Adjoint: moe.reduce to it, of each member's share of the replicated cotangent.

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
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, I64Attr:$root);
  let results = (outs Moe_AnyTensor:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Moe_ReduceOp : Moe_Collective<"reduce", ["getKernelParams"], [AllTypesMatch<["input", "result"]>]> {
  let summary = "the sum on the owner, zeros elsewhere: varying -> varying";
  let description = [{
    Adjoint: moe.broadcast, then moe.to_varying.

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
  let arguments = (ins Moe_Tensor:$input, Moe_GroupAttr:$group, I64Attr:$root);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Moe_AssumeReplicatedOp : Moe_Collective<"assume_replicated", ["isAlias"], [AllTypesMatch<["input", "result"]>]> {
  let summary = "duplicates known to be equal: varying -> replicated";
  let description = [{
    No data moves; `moe-run --verify` checks the claim. Only moe-partition may emit it, for the baseline's duplicated tokens.
    Adjoint: scale by 1/size, then moe.to_varying.

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
  let hasFolder = 1;
}

#endif // MOE_DIALECT_MOE_IR_MOECOMMOPS_TD
