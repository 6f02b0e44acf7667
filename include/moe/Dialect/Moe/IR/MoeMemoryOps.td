//===- MoeMemoryOps.td - L1: parts of values, and where they lie -*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEMEMORYOPS_TD
#define MOE_DIALECT_MOE_IR_MOEMEMORYOPS_TD

include "moe/Dialect/Moe/IR/MoeBase.td"

def Moe_SplitOp : Moe_Op<"split", [
    Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Kernel<["isAlias", "getAliasPart"]>]> {
  let summary = "equal parts along dimension 0";
  let description = [{
    Result i is part i of as many equal parts as there are results. No data moves: each part stays in its place in the
    input. Adjoint: moe.concat.

    Constraints:
    - (C1) all results have one type, the input's with dimension 0 divided by their number.

    Example:

    ```mlir
    func.func @split(%x: tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
      %0:2 = moe.split %x : (tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
      return %0#0, %0#1 : tensor<4x4xf32>, tensor<4x4xf32>
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor:$input);
  let results = (outs Variadic<Moe_AnyTensor>:$parts);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "int64_t":$parts)>];
  let hasCanonicalizer = 1;
}

def Moe_ConcatOp : Moe_Op<"concat", [
    Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Kernel<["getKernelName", "getOperandPart"]>]> {
  let summary = "parts side by side along dimension 0";
  let description = [{
    No data moves: each part is computed in its place in the result. Adjoint: moe.split.

    Constraints:
    - (C1) all parts have one type; the result is theirs with dimension 0 multiplied by their number.

    Example:

    ```mlir
    func.func @concat(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<8x4xf32> {
      %0 = moe.concat %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Moe_AnyTensor>:$parts);
  let results = (outs Moe_AnyTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::ValueRange":$parts)>];
  let hasFolder = 1;
}

def Moe_UnpackOp : Moe_Op<"unpack", [
    Moe_SpmdPlaced, Moe_Differentiable, Moe_Cost, Moe_Kernel<["isAlias", "getAliasPart"]>]> {
  let summary = "the pieces of a bucket";
  let description = [{
    The results lie in the bucket one after another, each with its elements in row-major order. No data moves. So one
    exchange of a bucket moves many values. Adjoint: moe.pack.

    `layouts` says for each piece how it is part of its whole, as `moe.layout` of an argument does. Only the placements of
    values follow from it.

    Constraints:
    - (C1) the bucket is 1-D. Its elements are as many as those of all pieces, and of their type.
    - (C2) there is a layout for each piece, with its dimensions.

    Example:

    ```mlir
    func.func @unpack(%x: tensor<40xf32>) -> (tensor<8x4xf32>, tensor<8xf32>) {
      %0:2 = moe.unpack %x {layouts = [#moe.layout<[], [mp]>, #moe.layout<[]>]}
        : (tensor<40xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
      return %0#0, %0#1 : tensor<8x4xf32>, tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor1D:$bucket, ArrayAttr:$layouts);
  let results = (outs Variadic<Moe_Tensor>:$pieces);
}

def Moe_PackOp : Moe_Op<"pack", [
    Moe_SpmdGroup, Moe_Differentiable, Moe_Cost, Moe_Kernel<["getKernelName", "getOperandPart"]>]> {
  let summary = "a bucket of pieces";
  let description = [{
    No data moves: each piece is computed in its place in the bucket. A piece that is a moe.fill of zeros is of any state.
    See moe.unpack, which is the adjoint.

    Example:

    ```mlir
    func.func @pack(%a: tensor<8x4xf32>, %b: tensor<8xf32>) -> tensor<40xf32> {
      %0 = moe.pack %a, %b {layouts = [#moe.layout<[], [mp]>, #moe.layout<[]>]}
        : (tensor<8x4xf32>, tensor<8xf32>) -> tensor<40xf32>
      return %0 : tensor<40xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Moe_Tensor>:$pieces, ArrayAttr:$layouts);
  let results = (outs Moe_Tensor1D:$bucket);
  let extraClassDeclaration = [{
    /// Whether a piece is zeros everywhere.
    static bool isZero(::mlir::Value piece);
  }];
}

def Moe_MicroBatchOp : Moe_Op<"micro_batch", [
    Moe_Spmd, Moe_Cost, Moe_Kernel<["isAlias", "getAliasPart"]>]> {
  let summary = "one micro-batch of a step's inputs";
  let description = [{
    `result` is element `index` of the input along dimension 0, which the result does not have. No data moves, and no
    gradient flows.

    Constraints:
    - (C1) 0 <= index < dimension 0 of the input; the result has its other dimensions.

    Example:

    ```mlir
    func.func @micro_batch(%x: tensor<4x8xi32>) -> tensor<8xi32> {
      %0 = moe.micro_batch %x {index = 1 : i64} : (tensor<4x8xi32>) -> tensor<8xi32>
      return %0 : tensor<8xi32>
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor:$input, Moe_Int:$index);
  let results = (outs Moe_AnyTensor:$result);
}

class Moe_HostCopyOp<string mnemonic, list<string> methods>
    : Moe_Op<mnemonic, [SameOperandsAndResultType, Moe_Spmd, Moe_CostOwn,
                        Moe_Kernel<!listconcat(["getKernelName"], methods)>]> {
  let arguments = (ins Moe_AnyTensor:$input);
  let results = (outs Moe_AnyTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 0;
}

def Moe_OffloadOp : Moe_HostCopyOp<"offload", ["isOnHost"]> {
  let summary = "a copy in the host's pinned memory";
  let description = [{
    moe-differentiate makes this op for values whose `moe.residual` is offload. moe.fetch brings the value back. The op
    has no adjoint.

    Example:

    ```mlir
    func.func @offload(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
      %0 = moe.offload %x : tensor<8x4xf32>
      %1 = moe.fetch %0 : tensor<8x4xf32>
      return %1 : tensor<8x4xf32>
    }
    ```
  }];
}

def Moe_FetchOp : Moe_HostCopyOp<"fetch", []> {
  let summary = "a copy of the value that moe.offload put in the host's memory";
  let description = [{See moe.offload.}];
}

#endif // MOE_DIALECT_MOE_IR_MOEMEMORYOPS_TD
