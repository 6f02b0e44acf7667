//===- MoeDenseOps.td - the dense ops of a transformer -*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEDENSEOPS_TD
#define MOE_DIALECT_MOE_IR_MOEDENSEOPS_TD

include "moe/Dialect/Moe/IR/MoeBase.td"

// Tokens are rows [S, ..], S = sequences * length, one sequence after the other. A shard of tokens holds whole sequences. Most
// of these ops exist at both levels: on global tensors in a model graph, and on a rank's shards in an SPMD program. An op that
// works on one of `parts` equal parts takes part (rank / stride) mod parts, as in moert.h.
//
// If context parallelism divides sequences, a shard holds a part of each. Ops that depend on positions then have a `cut`
// (#moe.cut), which says which rows of a sequence the rank has. A length such as `period` is then that of the rank's rows.

def Moe_PositionsOp : Moe_Op<"positions", [MoeSpmdOpInterface, Moe_Cost, Moe_PartitionSequences, Moe_Kernel<["getKernelParams"]>]> {
  let summary = "the position of each token in its sequence";
  let description = [{
    `result[s] = s mod period`, or with a `cut` the position of that row. In a model graph moe.embedding of these positions
    gives learned positions.

    Constraints:
    - (C1) period divides the result's size.

    Example:

    ```mlir
    func.func @positions() -> tensor<8xi32> {
      %0 = moe.positions {period = 4 : i64} : tensor<8xi32>
      return %0 : tensor<8xi32>
    }
    ```
  }];
  let arguments = (ins Moe_Int:$period, OptionalAttr<Moe_CutAttr>:$cut);
  let results = (outs Moe_Index1D:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Moe_IndexAffineOp : Moe_Op<"index_affine", [
    SameOperandsAndResultType, Moe_Spmd, Moe_Cost, Moe_Kernel<["getKernelParams", "getInPlaceInputs"]>]> {
  let summary = "factor * input + offset, on i32";
  let description = [{
    `result[i] = factor * input[i] + offset`.

    Example:

    ```mlir
    func.func @next(%step: tensor<i32>) -> tensor<i32> {
      %0 = moe.index_affine %step {factor = 1 : i64, offset = 1 : i64} : tensor<i32>
      return %0 : tensor<i32>
    }
    ```
  }];
  let arguments = (ins Moe_IndexTensor:$input, Moe_Int:$factor, Moe_Int:$offset);
  let results = (outs Moe_IndexTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 0;
}

def Moe_FillOp : Moe_Op<"fill", [
    MoeSpmdOpInterface, MoeDifferentiableOpInterface, Moe_Cost, Moe_Partition, Moe_Kernel<["getKernelParams"]>]> {
  let summary = "a tensor with one value everywhere, at both levels";
  let description = [{
    `result[i] = value`. In a model graph every rank has the whole tensor. A norm without weights takes it as gamma.

    Example:

    ```mlir
    func.func @one() -> tensor<f32> {
      %0 = moe.fill {value = 1.0 : f64} : tensor<f32>
      return %0 : tensor<f32>
    }
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 0;
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

def Moe_EmbeddingOp : Moe_Op<"embedding", [
    Moe_Spmd, Moe_Differentiable, Moe_CostOwn, Moe_Partition, Moe_Kernel<["getKernelParams"]>]> {
  let summary = "the row of a table for each token";
  let description = [{
    `result[s,:] = table[ids[s],:]`.

    In a model graph, with `vocabulary`, the table's rows are divided over mp where mp divides their number. Each rank
    gives zeros for the ids of other ranks, and the results are summed. Then `parts` is the size of mp, and the rank has
    part (rank / stride) mod parts.

    `padding` is an id of the whole table, or negative. The row of that id gets no gradient from this op, as with
    padding_idx of PyTorch's nn.Embedding.

    Constraints:
    - (C1) ids is [S], table [V, M], the result [S, M] of table's type.
    - (C2) padding < V parts.

    Example:

    ```mlir
    func.func @embedding(%ids: tensor<8xi32>, %table: tensor<16x4xf32>) -> tensor<8x4xf32> {
      %0 = moe.embedding %ids, %table : (tensor<8xi32>, tensor<16x4xf32>) -> tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Index1D:$ids, Moe_Tensor2D:$table, UnitAttr:$vocabulary,
                       DefaultValuedAttr<Moe_Int, "1">:$parts, DefaultValuedAttr<Moe_Int, "1">:$stride,
                       DefaultValuedAttr<Moe_Int, "-1">:$padding);
  let results = (outs Moe_Tensor2D:$result);
}

def Moe_EmbeddingGradOp : Moe_Op<"embedding_grad", [
    MoeAccumulatingOpInterface, Moe_WideGradient, Moe_Spmd, Moe_Cost,
    Moe_Kernel<["getKernelInputs", "getKernelParams"]>]> {
  let summary = "gradient of an embedding's table";
  let description = [{
    `result[v,:] = addend[v,:] + sum of grads[s,:] over the tokens s that have row v`. The row of the id `padding` is the
    addend alone. Without an addend it is zero.

    Constraints:
    - (C1) ids is [S], grads [S, M], the result and the addend [V, M], of the element type of grads or of its accumulator type.
    - (C2) padding < V parts.

    Example:

    ```mlir
    func.func @embedding_grad(%ids: tensor<8xi32>, %g: tensor<8x4xf32>) -> tensor<16x4xf32> {
      %0 = moe.embedding_grad %ids, %g : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<16x4xf32>
      return %0 : tensor<16x4xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Index1D:$ids, Moe_Tensor2D:$grads, Optional<Moe_Tensor2D>:$addend,
                       DefaultValuedAttr<Moe_Int, "1">:$parts, DefaultValuedAttr<Moe_Int, "1">:$stride,
                       DefaultValuedAttr<Moe_Int, "-1">:$padding);
  let results = (outs Moe_Tensor2D:$result);
  let assemblyFormat = "$ids `,` $grads (`addend` `(` $addend^ `)`)? attr-dict `:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

def Moe_NormOp : Moe_Op<"norm", [
    AllTypesMatch<["x", "result"]>, Moe_Spmd, Moe_Differentiable, Moe_Rowwise, Moe_Cost, Moe_Partition,
    Moe_Kernel<["getKernelInputs", "getKernelParams", "getInPlaceInputs"]>]> {
  let summary = "layer norm or RMS norm";
  let description = [{
    `result = n(x) * gamma + beta`, where n works on each row. If gamma has fewer elements D than x has columns, n works
    on each block of D consecutive columns of a row. Norms of attention heads do so. `kind` chooses n:

    - `layer`: n(x) = (x - mean) / sqrt(variance + eps).
    - `rms`: n(x) = x / sqrt(mean of squares + eps).
    - `none`: n(x) = x.

    Constraints:
    - (C1) gamma is [D], and D divides x's columns; beta is [D], and then D is all columns.

    Example:

    ```mlir
    func.func @norm(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
      %0 = moe.norm %x, %g, %b {kind = #moe<norm layer>, eps = 1.0e-5 : f64}
        : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$x, Moe_Tensor1D:$gamma, Optional<Moe_Tensor1D>:$beta, Moe_NormAttr:$kind,
                       F64Attr:$eps);
  let results = (outs Moe_Tensor2D:$result);
  let assemblyFormat = "$x `,` $gamma (`,` $beta^)? attr-dict `:` functional-type(operands, results)";
}

def Moe_NormGradOp : Moe_Op<"norm_grad", [
    AllTypesMatch<["x", "grads", "result"]>, Moe_Spmd, Moe_Cost,
    Moe_Kernel<["getKernelParams", "getInPlaceInputs"]>]> {
  let summary = "gradient of moe.norm's input";
  let description = [{
    `result` is the gradient of x.

    Constraints:
    - (C1) the shapes are as in moe.norm.

    Example:

    ```mlir
    func.func @norm_grad(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %d: tensor<8x4xf32>) -> tensor<8x4xf32> {
      %0 = moe.norm_grad %x, %g, %d {kind = #moe<norm rms>, eps = 1.0e-5 : f64}
        : (tensor<8x4xf32>, tensor<4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$x, Moe_Tensor1D:$gamma, Moe_Tensor2D:$grads, Moe_NormAttr:$kind, F64Attr:$eps);
  let results = (outs Moe_Tensor2D:$result);
  let hasVerifier = 0;
}

def Moe_NormWgradOp : Moe_Op<"norm_wgrad", [
    MoeAccumulatingOpInterface, Moe_WideGradient, Moe_Spmd, Moe_Cost,
    Moe_Kernel<["getKernelInputs", "getKernelParams"]>]> {
  let summary = "gradient of moe.norm's gamma";
  let description = [{
    `result = addend + sum over rows and blocks of n(x) * grads`. moe.bias_grad gives the gradient of beta.

    Constraints:
    - (C1) the shapes are as in moe.norm. The result has the element type of x, or its accumulator type.

    Example:

    ```mlir
    func.func @norm_wgrad(%x: tensor<8x4xf32>, %d: tensor<8x4xf32>) -> tensor<4xf32> {
      %0 = moe.norm_wgrad %x, %d {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$x, Moe_Tensor2D:$grads, Optional<Moe_Tensor1D>:$addend, Moe_NormAttr:$kind,
                       F64Attr:$eps);
  let results = (outs Moe_Tensor1D:$result);
  let assemblyFormat = "$x `,` $grads (`addend` `(` $addend^ `)`)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 0;
}

def Moe_InverseRootOp : Moe_Op<"inverse_root", [
    SameOperandsAndResultType, Moe_Spmd, Moe_Differentiable, Moe_Cost,
    Moe_Kernel<["getKernelParams", "getInPlaceInputs"]>]> {
  let summary = "(scale * input + eps) ^ -1/2";
  let description = [{
    An RMS norm of rows whose columns are divided over several ranks uses this op. The input is the sum of squares of each
    row, and the result is the factor of the norm.

    Example:

    ```mlir
    func.func @inverse_root(%x: tensor<8x1xf32>) -> tensor<8x1xf32> {
      %0 = moe.inverse_root %x {scale = 2.5e-1 : f64, eps = 1.0e-5 : f64} : tensor<8x1xf32>
      return %0 : tensor<8x1xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, F64Attr:$scale, F64Attr:$eps);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 0;
}

def Moe_InverseRootGradOp : Moe_Op<"inverse_root_grad", [
    SameOperandsAndResultType, Moe_Spmd, Moe_Cost, Moe_Kernel<["getKernelParams", "getInPlaceInputs"]>]> {
  let summary = "gradient of moe.inverse_root's input";
  let description = [{
    `result = -scale / 2 * root^3 * grads`, where `root` is the result of moe.inverse_root.

    Example:

    ```mlir
    func.func @inverse_root_grad(%r: tensor<8x1xf32>, %g: tensor<8x1xf32>) -> tensor<8x1xf32> {
      %0 = moe.inverse_root_grad %r, %g {scale = 2.5e-1 : f64} : tensor<8x1xf32>
      return %0 : tensor<8x1xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$root, Moe_Tensor:$grads, F64Attr:$scale);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = "$root `,` $grads attr-dict `:` type($result)";
  let hasVerifier = 0;
}

def Moe_ClampOp : Moe_Op<"clamp", [
    SameOperandsAndResultType, Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_PartitionElementwise,
    Moe_Kernel<["getKernelParams", "getInPlaceInputs"]>]> {
  let summary = "values limited to a range, at both levels";
  let description = [{
    `result` is the input, limited to [-limit, limit].

    Constraints:
    - (C1) limit > 0.

    Example:

    ```mlir
    func.func @clamp(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
      %0 = moe.clamp %x {limit = 8.0 : f64} : tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, F64Attr:$limit);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def Moe_ClampGradOp : Moe_Op<"clamp_grad", [
    SameOperandsAndResultType, Moe_Spmd, Moe_Cost, Moe_Kernel<["getKernelParams", "getInPlaceInputs"]>]> {
  let summary = "gradient of moe.clamp's input";
  let description = [{
    `result = grads` where the input lies within [-limit, limit], bounds included, and 0 elsewhere.

    Example:

    ```mlir
    func.func @clamp_grad(%x: tensor<8x4xf32>, %g: tensor<8x4xf32>) -> tensor<8x4xf32> {
      %0 = moe.clamp_grad %x, %g {limit = 8.0 : f64} : tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, Moe_Tensor:$grads, F64Attr:$limit);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = "$input `,` $grads attr-dict `:` type($result)";
  let hasVerifier = 0;
}

//===----------------------------------------------------------------------===//
// Linear
//===----------------------------------------------------------------------===//

def Moe_LinearOp : Moe_Op<"linear", [Moe_CostOwn, Moe_Partition]> {
  let summary = "a dense layer of a model graph";
  let description = [{
    `y = x weights + bias`, or `x weights^T + bias` with transpose_weights. The layout of x and the attribute `column`
    decide how mp divides the product. The splits are those of Megatron (Shoeybi et al., 2019):

    - *Row split.* The columns of x are over mp. Then the rows of weights are over mp, and the partial sums are added up
      before the bias.
    - *Column split.* Otherwise, if `column` = u > 0 and mp divides the columns of y in units of u, weights, bias and y
      have their columns over mp. A unit is, for example, a head or a (gate, up) pair.
    - *No split.* Otherwise every member of mp computes the same product.

    Constraints:
    - (C1) x is [S, K], weights [K, N] or, transposed, [N, K], bias [N], y [S, N], all of one element type.
    - (C2) column divides N.

    Example:

    ```mlir
    func.func @linear(%x: tensor<8x4xf32>, %w: tensor<4x16xf32>, %b: tensor<16xf32>) -> tensor<8x16xf32> {
      %0 = moe.linear %x, %w, %b {column = 4 : i64} : (tensor<8x4xf32>, tensor<4x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
      return %0 : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$x, Moe_Tensor2D:$weights, Optional<Moe_Tensor1D>:$bias,
                       UnitAttr:$transpose_weights, DefaultValuedAttr<Moe_Int, "0">:$column);
  let results = (outs Moe_Tensor2D:$y);
  let assemblyFormat = "$x `,` $weights (`,` $bias^)? attr-dict `:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def Moe_RotaryOp : Moe_Op<"rotary", [
    AllTypesMatch<["x", "result"]>, Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_PartitionSequences,
    Moe_Kernel<["getKernelParams", "getInPlaceInputs"]>]> {
  let summary = "rotary position embedding";
  let description = [{
    Rotates columns [begin, begin + rotary_dim) of each head of head_dim columns. The angles depend on the token's
    position, which is that of moe.positions. moert_rotary in moert.h gives the formula. It covers:

    - the frequencies of YaRN (factor, low, high, scale) and of Llama 3 (also reach);
    - a scale that grows with the position (temperature, span; Llama 4).

    With `inverse` the op is the adjoint: it rotates by the negative angles. With `unrotated` all angles are 0, so that
    only the scale applies.

    Constraints:
    - (C1) head_dim divides x's columns; begin + rotary_dim <= head_dim; rotary_dim is even.
    - (C2) period divides the rows, and is even where the cut is zigzag.
    - (C3) base and factor are positive; reach is at least 0; span is positive.
    - (C4) where factor is not 1, low < high if reach is 0, and low > high if reach > 0.

    Example:

    ```mlir
    func.func @rotary(%q: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %0 = moe.rotary %q {period = 4 : i64, head_dim = 8 : i64, rotary_dim = 8 : i64, base = 1.0e4 : f64} : tensor<8x16xf32>
      return %0 : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$x, Moe_Int:$period, Moe_Int:$head_dim, DefaultValuedAttr<Moe_Int, "0">:$begin,
                       Moe_Int:$rotary_dim, UnitAttr:$interleaved, UnitAttr:$inverse, UnitAttr:$unrotated,
                       F64Attr:$base,
                       DefaultValuedAttr<F64Attr, "1.0">:$factor, DefaultValuedAttr<F64Attr, "0.0">:$low,
                       DefaultValuedAttr<F64Attr, "1.0">:$high, DefaultValuedAttr<F64Attr, "1.0">:$scale,
                       DefaultValuedAttr<F64Attr, "0.0">:$reach, DefaultValuedAttr<F64Attr, "0.0">:$temperature,
                       DefaultValuedAttr<F64Attr, "1.0">:$span, OptionalAttr<Moe_CutAttr>:$cut);
  let results = (outs Moe_Tensor2D:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

def Moe_JoinSequencesOp : Moe_Op<"join_sequences", [
    AllTypesMatch<["x", "result"]>, Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Kernel<["getKernelParams"]>]> {
  let summary = "rows of sequences that are divided among ranks, in the order of whole sequences";
  let description = [{
    x is what an all_gather over the group of `cut` gives: for each of n members, the member's `length` rows of each of
    `sequences` sequences. In the result the rows of each sequence are together, in the order of their positions. There
    may be several such sets of rows, one after the other. moert_join_sequences in moert.h gives the places.

    With `inverse` the op restores the order. Each form is the adjoint of the other.

    Constraints:
    - (C1) n * sequences * length divides the rows.
    - (C2) length is even where the cut is zigzag.

    Example:

    ```mlir
    func.func @join(%k: tensor<8x4xf32>) -> tensor<8x4xf32> {
      %0 = moe.join_sequences %k {cut = #moe.cut<<"cp", 2, 1>, zigzag>, sequences = 2 : i64, length = 2 : i64}
        : tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$x, Moe_CutAttr:$cut, Moe_Int:$sequences, Moe_Int:$length, UnitAttr:$inverse);
  let results = (outs Moe_Tensor2D:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

def Moe_AppendToHeadsOp : Moe_Op<"append_to_heads", [
    Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Partition, Moe_Kernel<>]> {
  let summary = "appends columns that all heads share to each head's own columns";
  let description = [{
    `result[s,h,:] = [x[s,h,:], shared[s,:]]` for each of H heads. The keys of multi-head latent attention (DeepSeek-V2)
    are made so: all heads share the columns with rotary positions. In a model graph the heads are over mp where x's
    columns are. Every member of mp has the shared columns.

    Constraints:
    - (C1) x is [S, H D], shared [S, R], the result [S, H (D + R)], all of one element type; H, D and R are at least 1.

    Example:

    ```mlir
    func.func @append_to_heads(%x: tensor<8x8xf32>, %k: tensor<8x2xf32>) -> tensor<8x16xf32> {
      %0 = moe.append_to_heads %x, %k : (tensor<8x8xf32>, tensor<8x2xf32>) -> tensor<8x16xf32>
      return %0 : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$x, Moe_Tensor2D:$shared);
  let results = (outs Moe_Tensor2D:$result);
}

def Moe_AppendToHeadsGradOp : Moe_Op<"append_to_heads_grad", [Moe_Spmd, Moe_Cost, Moe_Kernel<>]> {
  let summary = "gradients of the heads' own columns and of the shared columns";
  let description = [{
    `grad_x[s,h,:]` is the first D columns of `grads[s,h,:]`. `grad_shared[s,:]` is the sum of the last R columns over the
    heads.

    Constraints:
    - (C1) the shapes are as in moe.append_to_heads: grads has the shape of its result, grad_x that of x, grad_shared that
      of shared.

    Example:

    ```mlir
    func.func @append_to_heads_grad(%g: tensor<8x16xf32>) -> (tensor<8x8xf32>, tensor<8x2xf32>) {
      %0, %1 = moe.append_to_heads_grad %g : (tensor<8x16xf32>) -> (tensor<8x8xf32>, tensor<8x2xf32>)
      return %0, %1 : tensor<8x8xf32>, tensor<8x2xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$grads);
  let results = (outs Moe_Tensor2D:$grad_x, Moe_Tensor2D:$grad_shared);
}

/// The attributes and operands that attention and its gradients share, in the order of moert_attention.
defvar Moe_AttentionAttrs = (ins
    Moe_Int:$q_length, Moe_Int:$k_length, Moe_Int:$heads, Moe_Int:$k_heads,
    DefaultValuedAttr<Moe_Int, "1">:$parts, DefaultValuedAttr<Moe_Int, "1">:$stride,
    UnitAttr:$causal, DefaultValuedAttr<Moe_Int, "0">:$window, DefaultValuedAttr<Moe_Int, "0">:$seed,
    DefaultValuedAttr<Moe_Int, "1">:$row_parts, DefaultValuedAttr<Moe_Int, "1">:$row_stride,
    F64Attr:$scale, DefaultValuedAttr<F64Attr, "0.0">:$dropout, DefaultValuedAttr<Moe_Int, "0">:$block,
    OptionalAttr<Moe_CutAttr>:$cut, DefaultValuedAttr<Moe_Int, "-1">:$key_shift, UnitAttr:$ring);
defvar Moe_AttentionInputs = (ins
    Moe_Tensor2D:$q, Moe_Tensor2D:$k, Moe_Tensor2D:$v, Optional<Moe_Tensor3D>:$bias, Optional<Moe_Tensor1D>:$sinks,
    Optional<Moe_Index0D>:$step);
defvar Moe_AttentionGradInputs = (ins Moe_Tensor2D:$attended, Moe_Accumulator2D:$lse, Moe_Tensor2D:$grads);

def Moe_AttentionOp : Moe_Op<"attention", [
    AttrSizedOperandSegments, Moe_Spmd, Moe_Differentiable, Moe_CostOwn, Moe_PartitionSequences,
    Moe_Kernel<["getKernelInputs", "getKernelParams"]>]> {
  let summary = "multi-head, multi-query or grouped-query attention";
  let description = [{
    Computes `softmax(scale q k^T + bias) v` for each sequence of q_length queries and k_length keys and for each of
    `heads` query heads. Each key and value head serves several neighbouring query heads.

    - `causal`: a query sees no key after its own position.
    - `window` > 0: a query sees no key that is `window` or more positions before its own.
    - `block` > 0: a query sees keys of its own block of `block` positions alone (Llama 4).
    - `bias` [heads, q_length, k_length] is the bias of T5.
    - `sinks` adds one logit to each head's softmax, to which no value belongs (gpt-oss).
    - `dropout` is the probability with which a weight is left out. Only `seed`, `step` and the weight's place in the
      whole model decide which weights these are.

    moert_attention in moert.h gives the formula. `lse` [S, heads] holds the logarithms of the softmax's sums. The
    backward computes the softmax again from it.

    The model has heads * parts query heads and `k_heads` key heads, so each key head serves heads * parts / k_heads query
    heads. A rank has `heads` query heads. It has its part of the key heads, or all of them if mp does not divide their
    number.

    With a `cut` over n members, q_length is the rank's part of each sequence's queries, and the cut says at which positions
    these are. The keys are those of whole sequences. A bias has n q_length queries. There are two other forms, without
    bias and dropout:

    - `key_shift` = p >= 0: the keys are only those of member (r + p) mod n, where the rank is member r.
    - `ring`: the keys are the rank's own, and the queries see those of all members. moe-expand-ring-attention writes this form as
      exchanges and ops of the other form.

    Constraints:
    - (C1) q is [B q_length, heads Dk], k [B k_length, n Dk], v [B k_length, n Dv], the result [B q_length, heads Dv]. n
      is k_heads or k_heads / parts.
    - (C2) n divides heads parts, and where n is not k_heads, n divides heads.
    - (C3) dropout is below 1, and needs step where it is not 0.
    - (C4) lse is [B q_length, heads] of q's accumulator type; all other values have q's element type.
    - (C5) q_length is even where the cut is zigzag.
    - (C6) key_shift and ring need a cut, and exclude each other, bias and dropout; k_length is then that of a member.

    Example:

    ```mlir
    func.func @attention(%q: tensor<8x16xf32>, %k: tensor<8x8xf32>, %v: tensor<8x8xf32>) -> tensor<8x16xf32> {
      %y, %lse = moe.attention %q, %k, %v
        {q_length = 4 : i64, k_length = 4 : i64, heads = 4 : i64, k_heads = 2 : i64, causal, scale = 5.0e-1 : f64}
        : (tensor<8x16xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x16xf32>, tensor<8x4xf32>)
      return %y : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = !con(Moe_AttentionInputs, Moe_AttentionAttrs);
  let results = (outs Moe_Tensor2D:$result, Moe_Accumulator2D:$lse);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`bias` `(` $bias^ `)`)? (`sinks` `(` $sinks^ `)`)? (`step` `(` $step^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
}

class Moe_AttentionGrad<string mnemonic, string what> : Moe_Op<mnemonic, [
    AttrSizedOperandSegments, Moe_Spmd, Moe_CostOwn, Moe_Kernel<["getKernelInputs", "getKernelParams"]>]> {
  let summary = "gradients of attention's " # what;
  let arguments = !con(Moe_AttentionInputs, Moe_AttentionGradInputs, Moe_AttentionAttrs);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`bias` `(` $bias^ `)`)? (`sinks` `(` $sinks^ `)`)? (`step` `(` $step^ `)`)?
    `of` $attended `,` $lse `,` $grads attr-dict `:` functional-type(operands, results)
  }];
}

def Moe_AttentionGradOp : Moe_AttentionGrad<"attention_grad", "queries, keys and values"> {
  let description = [{
    The gradients of a moe.attention with the same operands and attributes. Key heads that no query takes get zeros.

    Example:

    ```mlir
    func.func @attention_grad(%q: tensor<8x16xf32>, %k: tensor<8x8xf32>, %v: tensor<8x8xf32>, %y: tensor<8x16xf32>,
                              %lse: tensor<8x4xf32>, %g: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %dq, %dk, %dv = moe.attention_grad %q, %k, %v of %y, %lse, %g
        {q_length = 4 : i64, k_length = 4 : i64, heads = 4 : i64, k_heads = 2 : i64, causal, scale = 5.0e-1 : f64}
        : (tensor<8x16xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x16xf32>)
        -> (tensor<8x16xf32>, tensor<8x8xf32>, tensor<8x8xf32>)
      return %dq : tensor<8x16xf32>
    }
    ```
  }];
  let results = (outs Moe_Tensor2D:$grad_q, Moe_Tensor2D:$grad_k, Moe_Tensor2D:$grad_v);
}

def Moe_AttentionBiasGradOp : Moe_AttentionGrad<"attention_bias_grad", "bias"> {
  let description = [{
    The gradient of the bias of a moe.attention with the same operands and attributes. It is summed over the sequences.

    Example:

    ```mlir
    func.func @attention_bias_grad(%q: tensor<8x16xf32>, %k: tensor<8x8xf32>, %v: tensor<8x8xf32>, %b: tensor<4x4x4xf32>,
                                   %y: tensor<8x16xf32>, %lse: tensor<8x4xf32>, %g: tensor<8x16xf32>) -> tensor<4x4x4xf32> {
      %0 = moe.attention_bias_grad %q, %k, %v bias(%b) of %y, %lse, %g
        {q_length = 4 : i64, k_length = 4 : i64, heads = 4 : i64, k_heads = 2 : i64, causal, scale = 5.0e-1 : f64}
        : (tensor<8x16xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<4x4x4xf32>, tensor<8x16xf32>, tensor<8x4xf32>,
           tensor<8x16xf32>) -> tensor<4x4x4xf32>
      return %0 : tensor<4x4x4xf32>
    }
    ```
  }];
  let results = (outs Moe_Tensor3D:$result);
}

def Moe_MergeAttentionOp : Moe_Op<"merge_attention", [
    AllTypesMatch<["a", "b", "result"]>, AllTypesMatch<["lse_a", "lse_b", "lse"]>, Moe_Spmd, Moe_Cost,
    Moe_Kernel<["getInPlaceInputs"]>]> {
  let summary = "attention over two sets of keys, from the attention over each";
  let description = [{
    `lse = ln(exp(lse_a) + exp(lse_b))` and `result[s,h,:] = exp(lse_a - lse) a[s,h,:] + exp(lse_b - lse) b[s,h,:]`, with the
    lse of row s and head h. moe-expand-ring-attention makes this op, after moe-differentiate. So it has no adjoint.

    Constraints:
    - (C1) a is [S, H D] and lse_a [S, H], of a's accumulator type.

    Example:

    ```mlir
    func.func @merge_attention(%a: tensor<8x16xf32>, %la: tensor<8x4xf32>, %b: tensor<8x16xf32>, %lb: tensor<8x4xf32>)
        -> tensor<8x16xf32> {
      %y, %lse = moe.merge_attention %a, %la, %b, %lb : tensor<8x16xf32>, tensor<8x4xf32>
      return %y : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$a, Moe_Accumulator2D:$lse_a, Moe_Tensor2D:$b, Moe_Accumulator2D:$lse_b);
  let results = (outs Moe_Tensor2D:$result, Moe_Accumulator2D:$lse);
  let assemblyFormat = "$a `,` $lse_a `,` $b `,` $lse_b attr-dict `:` type($a) `,` type($lse_a)";
}

def Moe_AttentionSinksGradOp : Moe_Op<"attention_sinks_grad", [Moe_Spmd, Moe_Cost, Moe_Kernel<>]> {
  let summary = "gradient of attention's sinks";
  let description = [{
    `result[h] = - sum_s exp(sinks[h] - lse[s,h]) <grads[s,h,:], attended[s,h,:]>`.

    Constraints:
    - (C1) lse is [S, heads] of the sinks' accumulator type, S the rows of grads.

    Example:

    ```mlir
    func.func @attention_sinks_grad(%s: tensor<4xf32>, %lse: tensor<8x4xf32>, %y: tensor<8x16xf32>, %g: tensor<8x16xf32>)
        -> tensor<4xf32> {
      %0 = moe.attention_sinks_grad %s, %lse, %y, %g
        : (tensor<4xf32>, tensor<8x4xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor1D:$sinks, Moe_Accumulator2D:$lse, Moe_Tensor2D:$attended, Moe_Tensor2D:$grads);
  let results = (outs Moe_Tensor1D:$result);
}

def Moe_RelativeBiasOp : Moe_Op<"relative_bias", [
    Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Partition, Moe_Kernel<["getKernelParams"]>]> {
  let summary = "relative positions as a bias of attention (T5)";
  let description = [{
    `result[h,i,j] = table[bucket(j - i), h]`. moert_relative_bias in moert.h gives the buckets. In a model graph the
    heads, which are the table's columns, are over mp where mp divides their number.

    Constraints:
    - (C1) table is [buckets, H], the result [H, L, Lk].

    Example:

    ```mlir
    func.func @relative_bias(%t: tensor<32x4xf32>) -> tensor<4x8x8xf32> {
      %0 = moe.relative_bias %t {bidirectional, max_distance = 128 : i64} : (tensor<32x4xf32>) -> tensor<4x8x8xf32>
      return %0 : tensor<4x8x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$table, UnitAttr:$bidirectional, Moe_Int:$max_distance);
  let results = (outs Moe_Tensor3D:$result);
}

def Moe_RelativeBiasGradOp : Moe_Op<"relative_bias_grad", [
    MoeAccumulatingOpInterface, Moe_WideGradient, Moe_Spmd, Moe_Cost,
    Moe_Kernel<["getKernelInputs", "getKernelParams"]>]> {
  let summary = "gradient of moe.relative_bias's table";
  let description = [{
    `result[b,h]` is the addend plus the sum of `grads[h,i,j]` over the places (i, j) of bucket b. The shapes are [H, L,
    Lk] for grads and [buckets, H] for the result.

    Example:

    ```mlir
    func.func @relative_bias_grad(%g: tensor<4x8x8xf32>) -> tensor<32x4xf32> {
      %0 = moe.relative_bias_grad %g {bidirectional, max_distance = 128 : i64} : (tensor<4x8x8xf32>) -> tensor<32x4xf32>
      return %0 : tensor<32x4xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor3D:$grads, Optional<Moe_Tensor2D>:$addend, UnitAttr:$bidirectional,
                       Moe_Int:$max_distance);
  let results = (outs Moe_Tensor2D:$result);
  let assemblyFormat = "$grads (`addend` `(` $addend^ `)`)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 0;
}

def Moe_DropoutOp : Moe_Op<"dropout", [
    AllTypesMatch<["x", "result"]>, Moe_Spmd, Moe_Differentiable,
    DeclareOpInterfaceMethods<MoeRowwiseOpInterface, ["canDivideRows", "buildOnRowPart"]>, Moe_Cost, Moe_Partition,
    Moe_Kernel<["getKernelParams", "getInPlaceInputs"]>]> {
  let summary = "dropout, or random factors";
  let description = [{
    `result = keep / (1 - p) * x`, where keep is 0 with probability p and else 1. With `jitter`, `result = u x`, where u
    is uniform from 1 - p to 1 + p.

    keep and u depend only on the seed, the step, and the element's row and column in the whole value. So they are the
    same for every partitioning. moert_dropout in moert.h gives the function.

    With a `cut`, the rows of all parts are those of moe.join_sequences with `sequences` and `length`, before that joins
    them.

    Constraints:
    - (C1) 0 <= p < 1.

    Example:

    ```mlir
    func.func @dropout(%x: tensor<8x16xf32>, %step: tensor<i32>) -> tensor<8x16xf32> {
      %0 = moe.dropout %x, %step {seed = 7 : i64, p = 1.0e-1 : f64} : tensor<8x16xf32>, tensor<i32>
      return %0 : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$x, Moe_Index0D:$step, Moe_Int:$seed, DefaultValuedAttr<Moe_Int, "1">:$row_parts,
                       DefaultValuedAttr<Moe_Int, "1">:$row_stride, DefaultValuedAttr<Moe_Int, "1">:$column_parts,
                       DefaultValuedAttr<Moe_Int, "1">:$column_stride, UnitAttr:$jitter, F64Attr:$p,
                       OptionalAttr<Moe_CutAttr>:$cut, DefaultValuedAttr<Moe_Int, "1">:$sequences,
                       DefaultValuedAttr<Moe_Int, "1">:$length);
  let results = (outs Moe_Tensor2D:$result);
  let assemblyFormat = "$x `,` $step attr-dict `:` type($x) `,` type($step)";
}

#endif // MOE_DIALECT_MOE_IR_MOEDENSEOPS_TD
