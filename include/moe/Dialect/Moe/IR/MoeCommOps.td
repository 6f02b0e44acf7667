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
                  list<string> costMethods = ["getOpCost"]>
    : Moe_Op<mnemonic, !listconcat([
        Moe_SpmdOwn, Moe_Differentiable, DeclareOpInterfaceMethods<MoeCostOpInterface, costMethods>,
        Moe_Kernel<!listconcat(["getKernelGroup"], methods)>], traits)> {
  code kernelGroup = [{
    ::mlir::moe::GroupAttr $cppClass::getKernelGroup() { return getGroup(); }
  }];
  let extraClassDefinition = kernelGroup;
}

/// A group op in which the members meet.
class Moe_Collective<string mnemonic, list<string> methods = [], list<Trait> traits = []>
    : Moe_GroupOp<mnemonic, !listconcat(["isCollective"], methods), traits, ["getOpCost", "getCostGroup"]> {
  let extraClassDefinition = kernelGroup # [{
    bool $cppClass::isCollective() { return true; }
    ::mlir::moe::GroupAttr $cppClass::getCostGroup() { return getGroup(); }
  }];
}

def Moe_AllGatherOp : Moe_Collective<"all_gather", ["getKernelParams"]> {
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

def Moe_SliceOp : Moe_GroupOp<"slice", ["getKernelParams"]> {
  let summary = "the member's part: replicated -> varying";
  let description = [{
    Parm's MP-Split and ESP-Split; no data moves between ranks. Adjoint: moe.all_gather.

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
                                     [AllTypesMatch<["input", "result"]>]> {
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

def Moe_ToVaryingOp : Moe_GroupOp<"to_varying", ["getKernelName", "isAlias"], [AllTypesMatch<["input", "result"]>]> {
  let summary = "forgets that a value is replicated: replicated -> varying";
  let description = [{
    No data moves. Adjoint: moe.all_reduce, which is where every due gradient sum comes from.

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
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group);
  let results = (outs Moe_AnyTensor:$result);
  let assemblyFormat = "$input `over` $group attr-dict `:` type($result)";
  let hasFolder = 1;
}

def Moe_ReduceScatterOp : Moe_Collective<"reduce_scatter", ["getKernelParams"]> {
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

def Moe_AllToAllOp : Moe_Collective<"all_to_all", ["getKernelParams"]> {
  let summary = "each member's part for each other: varying -> varying";
  let description = [{
    Part j of member i along `split_dim` becomes part i of member j along `concat_dim`. Adjoint: the exchange with the two
    dimensions swapped.

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
}

def Moe_AllToAllVOp : Moe_Collective<"all_to_all_v", ["getKernelParams"]> {
  let summary = "ragged exchange of the dropless form: varying -> varying";
  let description = [{
    The *block side* is [B n, M]: block b starts at row b n and holds its rows sorted by expert, `block_counts[b,e]` each.
    The *expert side* is [R, M], packed: for each of the rank's E/size experts, each member i and each of its blocks b,
    `expert_counts[i B + b, e]` rows. `to_experts` goes from the block side to the expert side, `from_experts` back.
    Adjoint: the other direction. More than R rows is an error at run time that names the layer.

    Constraints:
    - (C1) block_counts is [B, E], expert_counts [size B, E / size].
    - (C2) the block side has a multiple of B rows; both sides have M columns.

    Example:

    ```mlir
    func.func @all_to_all_v(%x: tensor<16x8xf32>, %b: tensor<1x4xi32>, %e: tensor<2x2xi32>) -> tensor<32x8xf32> {
      %0 = moe.all_to_all_v %x, %b, %e over <"ep", 2, 1> {direction = #moe<direction to_experts>}
        : (tensor<16x8xf32>, tensor<1x4xi32>, tensor<2x2xi32>) -> tensor<32x8xf32>
      return %0 : tensor<32x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$rows, Moe_Index2D:$block_counts, Moe_Index2D:$expert_counts, Moe_GroupAttr:$group,
                       Moe_DirectionAttr:$direction);
  let results = (outs Moe_Tensor2D:$result);
  let assemblyFormat = [{
    $rows `,` $block_counts `,` $expert_counts `over` $group attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// The side with the blocks, and with it the number of rows that are always full.
    ::mlir::RankedTensorType getBlockSideType();
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
