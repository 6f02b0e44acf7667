//===- MoeComputeOps.td - L1: rank-local computation ---*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOECOMPUTEOPS_TD
#define MOE_DIALECT_MOE_IR_MOECOMPUTEOPS_TD

include "moe/Dialect/Moe/IR/MoeBase.td"

// The rows of experts have two forms. In the capacity form they are [E, C, K]. In the dropless form they are [R, K], sorted by
// expert and packed, with `counts` [B, E] i32: expert e has sum_b counts[b,e] rows. Rows after the last used row are undefined.

def Moe_MatmulOp : Moe_Op<"matmul", [
    Moe_Spmd, Moe_Differentiable, Moe_CostOwn, Moe_Kernel<["getKernelParams"]>]> {
  let summary = "matrix product";
  let description = [{
    `result[i,j] = sum_k op(a)[i,k] op(b)[k,j]`, where op transposes an operand whose flag is set.

    Constraints:
    - (C1) the inner dimensions agree, and the result is [rows of op(a), columns of op(b)].
    - (C2) all have one element type.

    Example:

    ```mlir
    func.func @matmul(%a: tensor<4x8xf32>, %b: tensor<16x8xf32>) -> tensor<4x16xf32> {
      %0 = moe.matmul %a, %b {transpose_b} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
      return %0 : tensor<4x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$a, Moe_Tensor2D:$b, UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Moe_Tensor2D:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$a, "::mlir::Value":$b, CArg<"bool", "false">:$transposeA,
                                 CArg<"bool", "false">:$transposeB)>];
}

def Moe_MatmulWgradOp : Moe_Op<"matmul_wgrad", [
    MoeAccumulatingOpInterface, Moe_WideGradient, Moe_Spmd, Moe_CostOwn,
    Moe_Kernel<["getKernelInputs"]>]> {
  let summary = "gradient of a matrix";
  let description = [{
    `result = addend + rows^T grads`. Without an addend it is the product alone. A moe.add of two such gradients, as of two
    micro-batches, becomes an op that adds the other gradient in its memory.

    Constraints:
    - (C1) rows is [S, K], grads [S, N], the result and the addend [K, N].
    - (C2) rows and grads have one element type, and the result has it or its accumulator type.

    Example:

    ```mlir
    func.func @wgrad(%r: tensor<4x8xbf16>, %g: tensor<4x16xbf16>) -> tensor<8x16xf32> {
      %0 = moe.matmul_wgrad %r, %g : (tensor<4x8xbf16>, tensor<4x16xbf16>) -> tensor<8x16xf32>
      %1 = moe.matmul_wgrad %r, %g addend(%0) : (tensor<4x8xbf16>, tensor<4x16xbf16>, tensor<8x16xf32>) -> tensor<8x16xf32>
      return %1 : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$rows, Moe_Tensor2D:$grads, Optional<Moe_Tensor2D>:$addend);
  let results = (outs Moe_Tensor2D:$result);
  let assemblyFormat = "$rows `,` $grads (`addend` `(` $addend^ `)`)? attr-dict `:` functional-type(operands, results)";
}

def Moe_ScaleOp : Moe_Op<"scale", [
    SameOperandsAndResultType, Moe_Spmd, Moe_Differentiable, Moe_Rowwise, Moe_CostOwn,
    Moe_Kernel<["getKernelParams", "getInPlaceInputs"]>, Moe_PartitionElementwise]> {
  let summary = "product with a constant, at both levels";
  let description = [{
    `result[i] = factor * input[i]`.

    Example:

    ```mlir
    func.func @scale(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.scale %a {factor = 5.0e-01 : f64} : tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, F64Attr:$factor);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 0;
}

def Moe_RowScaleOp : Moe_Op<"row_scale", [
    AllTypesMatch<["rows", "result"]>, Moe_Spmd, Moe_Differentiable, Moe_CostOwn, Moe_Kernel<["getInPlaceInputs"]>,
    Moe_Partition]> {
  let summary = "each row, or each head of it, times its own factor, at both levels";
  let description = [{
    `result[s,m] = factors[s,0] * rows[s,m]`. With `head_dim` = c > 0, each head of c neighbouring columns has a factor:
    `result[s, h c + i] = factors[s,h] * rows[s, h c + i]`. Where mp divides the columns, it then divides the factors.

    Constraints:
    - (C1) rows is [S, M]; factors is [S, 1] of the accumulator type of rows, or [S, M / c] of that type or of rows' own.
    - (C2) c divides M.

    Example:

    ```mlir
    func.func @row_scale(%a: tensor<4x8xf32>, %f: tensor<4x1xf32>, %g: tensor<4x2xf32>) -> tensor<4x8xf32> {
      %0 = moe.row_scale %a, %f : tensor<4x8xf32>, tensor<4x1xf32>
      %1 = moe.row_scale %0, %g {head_dim = 4 : i64} : tensor<4x8xf32>, tensor<4x2xf32>
      return %1 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$rows, Moe_Tensor2D:$factors, DefaultValuedAttr<Moe_Int, "0">:$head_dim);
  let results = (outs Moe_Tensor2D:$result);
  let assemblyFormat = "$rows `,` $factors attr-dict `:` type($rows) `,` type($factors)";
}

def Moe_RowDotOp : Moe_Op<"row_dot", [
    AllTypesMatch<["lhs", "rhs"]>, Moe_Spmd, Moe_Differentiable, Moe_CostOwn, Moe_Kernel<>]> {
  let summary = "inner product of rows, or of each of their heads";
  let description = [{
    `result[s,0] = sum_m lhs[s,m] rhs[s,m]`, or `result[s,h] = sum_(i < c) lhs[s, h c + i] rhs[s, h c + i]` with
    `head_dim` = c > 0.

    Constraints:
    - (C1) lhs and rhs are [S, M]; the result is [S, 1] of their accumulator type, or [S, M / c] of that type or of theirs.
    - (C2) c divides M.

    Example:

    ```mlir
    func.func @row_dot(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x1xf32> {
      %0 = moe.row_dot %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x1xf32>
      return %0 : tensor<4x1xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$lhs, Moe_Tensor2D:$rhs, DefaultValuedAttr<Moe_Int, "0">:$head_dim);
  let results = (outs Moe_Tensor2D:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::mlir::Value":$rhs)>];
}

def Moe_GroupedMatmulOp : Moe_Op<"grouped_matmul", [
    Moe_Spmd, Moe_Differentiable, Moe_Chunkable, Moe_CostOwn, Moe_Kernel<["getKernelInputs", "getKernelParams"]>]> {
  let summary = "every expert's rows times its weights";
  let description = [{
    `result_e = rows_e weights[e]` for each expert e, or `rows_e weights[e]^T` with transpose_weights.

    Constraints:
    - (C1) weights is [E, K, N], or [E, N, K] with transpose_weights.
    - (C2) without counts rows is [E, C, K] and the result [E, C, N]; with counts [B, E] they are [R, K] and [R, N].
    - (C3) all have one element type.

    Example:

    ```mlir
    func.func @grouped_matmul(%r: tensor<2x4x8xf32>, %w: tensor<2x8x16xf32>) -> tensor<2x4x16xf32> {
      %0 = moe.grouped_matmul %r, %w : (tensor<2x4x8xf32>, tensor<2x8x16xf32>) -> tensor<2x4x16xf32>
      return %0 : tensor<2x4x16xf32>
    }
    func.func @ragged(%r: tensor<32x8xf32>, %w: tensor<2x8x16xf32>, %c: tensor<4x2xi32>) -> tensor<32x16xf32> {
      %0 = moe.grouped_matmul %r, %w counts(%c) : (tensor<32x8xf32>, tensor<2x8x16xf32>, tensor<4x2xi32>) -> tensor<32x16xf32>
      return %0 : tensor<32x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Rows:$rows, Moe_Tensor3D:$weights, Optional<Moe_Index2D>:$counts, UnitAttr:$transpose_weights);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$rows `,` $weights (`counts` `(` $counts^ `)`)? attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$rows, "::mlir::Value":$weights, "::mlir::Value":$counts,
                                 CArg<"bool", "false">:$transposeWeights)>];
}

def Moe_GroupedMatmulWgradOp : Moe_Op<"grouped_matmul_wgrad", [
    AttrSizedOperandSegments, MoeAccumulatingOpInterface, Moe_WideGradient, Moe_Spmd, Moe_CostOwn,
    Moe_Kernel<["getKernelInputs"]>]> {
  let summary = "gradient of every expert's weights";
  let description = [{
    `result[e] = addend[e] + rows_e^T grads_e`. Without an addend it is the product alone. An expert without rows gets the
    addend, or zeros. This is an op of its own, so that it can move into gaps that communication leaves. A moe.add of two
    such gradients becomes an op that adds the other gradient in its memory.

    Constraints:
    - (C1) rows is [E, C, K] and grads [E, C, N], or with counts [B, E] [R, K] and [R, N]; the result is [E, K, N].
    - (C2) rows and grads have one element type, and the result has it or its accumulator type.

    Example:

    ```mlir
    func.func @wgrad(%r: tensor<2x4x8xf32>, %g: tensor<2x4x16xf32>) -> tensor<2x8x16xf32> {
      %0 = moe.grouped_matmul_wgrad %r, %g : (tensor<2x4x8xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
      %1 = moe.grouped_matmul_wgrad %r, %g addend(%0)
        : (tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
      return %1 : tensor<2x8x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Rows:$rows, Moe_Rows:$grads, Optional<Moe_Index2D>:$counts, Optional<Moe_Tensor3D>:$addend);
  let results = (outs Moe_Tensor3D:$result);
  let assemblyFormat = [{
    $rows `,` $grads (`counts` `(` $counts^ `)`)? (`addend` `(` $addend^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Moe_BiasAddOp : Moe_Op<"bias_add", [
    AllTypesMatch<["rows", "result"]>, Moe_Spmd, Moe_Differentiable, Moe_Chunkable,
    DeclareOpInterfaceMethods<MoeRowwiseOpInterface, ["canDivideRows"]>, Moe_CostOwn,
    Moe_Kernel<["getKernelInputs", "getKernelParams", "getInPlaceInputs"]>]> {
  let summary = "adds a bias to every row";
  let description = [{
    `result = rows + scale * bias`, with the bias of the row's expert. With `scale` a bias can count only once among
    partial sums.

    Constraints:
    - (C1) [S, N] rows take an [N] bias; [E, C, N] rows, and [R, N] rows with counts [B, E], take [E, N].

    Example:

    ```mlir
    func.func @bias_add(%r: tensor<2x4x8xf32>, %b: tensor<2x8xf32>) -> tensor<2x4x8xf32> {
      %0 = moe.bias_add %r, %b {scale = 5.0e-01 : f64} : (tensor<2x4x8xf32>, tensor<2x8xf32>) -> tensor<2x4x8xf32>
      return %0 : tensor<2x4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Rows:$rows, Moe_Tensor:$bias, Optional<Moe_Index2D>:$counts,
                       DefaultValuedAttr<F64Attr, "1.0">:$scale);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$rows `,` $bias (`counts` `(` $counts^ `)`)? attr-dict `:` functional-type(operands, results)";
}

def Moe_BiasGradOp : Moe_Op<"bias_grad", [
    AttrSizedOperandSegments, MoeAccumulatingOpInterface, Moe_WideGradient, Moe_Spmd, Moe_CostOwn,
    Moe_Kernel<["getKernelInputs", "getKernelParams"]>]> {
  let summary = "gradient of a bias";
  let description = [{
    `result = addend + scale * sum of grads over each expert's rows`. Without an addend it is the scaled sum alone.

    Constraints:
    - (C1) [S, N] gives [N]; [E, C, N], and [R, N] with counts [B, E], give [E, N].
    - (C2) the result has the element type of grads, or its accumulator type.

    Example:

    ```mlir
    func.func @bias_grad(%g: tensor<2x4x8xf32>) -> tensor<2x8xf32> {
      %0 = moe.bias_grad %g : (tensor<2x4x8xf32>) -> tensor<2x8xf32>
      return %0 : tensor<2x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Rows:$grads, Optional<Moe_Index2D>:$counts, Optional<Moe_Tensor>:$addend,
                       DefaultValuedAttr<F64Attr, "1.0">:$scale);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = [{
    $grads (`counts` `(` $counts^ `)`)? (`addend` `(` $addend^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
}

/// The function and its parameters, in the order of moert_activation.
defvar Moe_ActivationForm = (ins Moe_ActivationAttr:$kind, DefaultValuedAttr<F64Attr, "1.702">:$alpha,
                                 DefaultValuedAttr<F64Attr, "7.0">:$limit);

def Moe_ActivationOp : Moe_Op<"activation", [
    Moe_Spmd, Moe_Differentiable, Moe_Chunkable, Moe_CostOwn,
    Moe_Kernel<["getKernelInputs", "getKernelParams", "getInPlaceInputs"]>,
    Moe_Partition]> {
  let summary = "activation function, elementwise or gated, at both levels";
  let description = [{
    The elementwise kinds are relu, gelu (exact), gelu_tanh, silu, sigmoid and softplus, `ln(1 + exp(x))`. gelu_tanh is
    the form of GPT-2, `x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3))`. The swiglu kinds take interleaved (gate, up)
    pairs of columns, and give half as many columns. `moe.layer` states their formulas. `alpha` and `limit` are
    parameters of swiglu_clamped.

    Constraints:
    - (C1) the result has the shape of the input, with its last dimension halved for the swiglu kinds.
    - (C2) counts needs 2-D rows.
    - (C3) alpha and limit are positive.

    Example:

    ```mlir
    func.func @activation(%h: tensor<2x4x16xf32>) -> tensor<2x4x8xf32> {
      %0 = moe.activation %h {kind = #moe<activation swiglu>} : (tensor<2x4x16xf32>) -> tensor<2x4x8xf32>
      return %0 : tensor<2x4x8xf32>
    }
    ```
  }];
  let arguments = !con((ins Moe_Rows:$input, Optional<Moe_Index2D>:$counts), Moe_ActivationForm);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$input (`counts` `(` $counts^ `)`)? attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$input, "::mlir::Value":$counts,
                                 "::mlir::moe::Activation":$kind, CArg<"double", "1.702">:$alpha,
                                 CArg<"double", "7.0">:$limit), [{
    build($_builder, $_state, result, input, counts, kind, ::llvm::APFloat(alpha), ::llvm::APFloat(limit));
  }]>];
}

def Moe_ActivationGradOp : Moe_Op<"activation_grad", [
    AllTypesMatch<["input", "result"]>, Moe_Spmd, Moe_CostOwn,
    Moe_Kernel<["getKernelInputs", "getKernelParams", "getInPlaceInputs"]>]> {
  let summary = "gradient of an activation's input";
  let description = [{
    `result = (d activation / d input) grad`.

    Constraints:
    - (C1) input and result have the shape of moe.activation's input, and grad that of its result.

    Example:

    ```mlir
    func.func @activation_grad(%h: tensor<4x16xf32>, %g: tensor<4x16xf32>) -> tensor<4x16xf32> {
      %0 = moe.activation_grad %h, %g {kind = #moe<activation gelu>} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
      return %0 : tensor<4x16xf32>
    }
    ```
  }];
  let arguments = !con((ins Moe_Rows:$input, Moe_Rows:$grad, Optional<Moe_Index2D>:$counts), Moe_ActivationForm);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$input `,` $grad (`counts` `(` $counts^ `)`)? attr-dict `:` functional-type(operands, results)";
}

def Moe_DumpOp : Moe_Op<"dump", [
    Moe_Spmd, Moe_Differentiable, Moe_ShadowableOnly, Moe_Cost, Moe_Counts,
    Moe_Kernel<["getKernelParams", "isAlias"]>]> {
  let summary = "equal copies of each block, which need no memory before an exchange";
  let description = [{
    Parm's dump, before EP&ESP-AlltoAll. Dimension `dim` is `blocks` equal blocks of n. Each block is repeated c times,
    where c is the result's dimension over the input's: `result[.., (b c + q) n + i, ..] = input[.., b n + i, ..]` for q <
    c.

    Some exchanges send the copies to different members: moe.all_to_all with blocks c members and split_dim = dim, and
    moe.all_to_all_v with as many copies. They send all copies from the one input. If all users are such exchanges, a dump
    takes neither memory nor time. Otherwise it is a copy. Adjoint: moe.local_reduce.

    Constraints:
    - (C1) the result is the input with dimension `dim` multiplied; blocks divides the input's.

    Example:

    ```mlir
    func.func @dump(%x: tensor<4x8xf32>) -> tensor<12x8xf32> {
      %0 = moe.dump %x {blocks = 2 : i64} : (tensor<4x8xf32>) -> tensor<12x8xf32>
      return %0 : tensor<12x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor:$input, DefaultValuedAttr<Moe_Int, "0">:$dim,
                       DefaultValuedAttr<Moe_Int, "1">:$blocks);
  let results = (outs Moe_AnyTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "int64_t":$dim, "int64_t":$blocks, "int64_t":$copies)>];
  let hasFolder = 1;
  let extraClassDeclaration = [{
    int64_t getCopies();
    /// Whether no op needs the copies in memory.
    bool isVirtual();
  }];
}

def Moe_LocalReduceOp : Moe_Op<"local_reduce", [
    Moe_Spmd, Moe_Differentiable, Moe_Splittable, Moe_Chunkable, Moe_CostOwn, Moe_Kernel<["getKernelParams"]>]> {
  let summary = "sum of neighbouring blocks";
  let description = [{
    The adjoint of moe.dump: `result[.., b n + i, ..] = sum_q input[.., (b c + q) n + i, ..]` for `blocks` blocks b of n.
    c is the input's dimension `dim` over the result's.

    Constraints:
    - (C1) the input is the result with dimension `dim` multiplied; blocks divides the result's.

    Example:

    ```mlir
    func.func @local_reduce(%x: tensor<12x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.local_reduce %x {blocks = 2 : i64} : (tensor<12x8xf32>) -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, DefaultValuedAttr<Moe_Int, "0">:$dim, DefaultValuedAttr<Moe_Int, "1">:$blocks);
  let results = (outs Moe_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "int64_t":$dim, "int64_t":$blocks, "int64_t":$copies)>];
  let hasFolder = 1;
}

#endif // MOE_DIALECT_MOE_IR_MOECOMPUTEOPS_TD
