//===- MoeTrainOps.td - losses and optimizers ----------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOETRAINOPS_TD
#define MOE_DIALECT_MOE_IR_MOETRAINOPS_TD

include "moe/Dialect/Moe/IR/MoeBase.td"

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

def Moe_CrossEntropyOp : Moe_Op<"cross_entropy", [
    Moe_Cost, Moe_Partition]> {
  let summary = "mean negative log-likelihood of the labels, in a model graph";
  let description = [{
    `loss = mean over the s with labels[s] >= 0 of (ln sum_j exp(logits[s,j]) - logits[s, labels[s]])`.

    The vocabulary may be divided over mp. Then each member exchanges one number for each token, and never logits.

    Constraints:
    - (C1) logits is [S, V], labels [S]; the loss is of the logits' accumulator type.

    Example:

    ```mlir
    func.func @loss(%x: tensor<8x16xf32>, %labels: tensor<8xi32>) -> tensor<f32> {
      %0 = moe.cross_entropy %x, %labels : (tensor<8x16xf32>, tensor<8xi32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$logits, Moe_Index1D:$labels);
  let results = (outs Moe_AccumulatorScalar:$loss);
  let builders = [OpBuilder<(ins "::mlir::Value":$logits, "::mlir::Value":$labels)>];
}

def Moe_RowLogsumexpOp : Moe_Op<"row_logsumexp", [Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Kernel<>]> {
  let summary = "logarithm of the sum of each row's exponentials";
  let description = [{
    `result[s,0] = ln sum_j exp(x[s,j])`. If x holds the results for the parts of a row, the result is that of the whole
    row.

    Constraints:
    - (C1) x is [S, V], the result [S, 1] of its accumulator type.

    Example:

    ```mlir
    func.func @row_logsumexp(%x: tensor<8x16xf32>) -> tensor<8x1xf32> {
      %0 = moe.row_logsumexp %x : (tensor<8x16xf32>) -> tensor<8x1xf32>
      return %0 : tensor<8x1xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$x);
  let results = (outs Moe_Accumulator2D:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$x)>];
}

def Moe_RowLogsumexpGradOp : Moe_Op<"row_logsumexp_grad", [
    AllTypesMatch<["x", "result"]>, Moe_Spmd, Moe_Cost, Moe_Kernel<["getInPlaceInputs"]>]> {
  let summary = "gradient of moe.row_logsumexp's input";
  let description = [{
    `result[s,j] = grads[s,0] exp(x[s,j] - lse[s,0])`.

    Constraints:
    - (C1) x and the result are [S, V], lse and grads [S, 1] of their accumulator type.

    Example:

    ```mlir
    func.func @row_logsumexp_grad(%x: tensor<8x16xf32>, %l: tensor<8x1xf32>, %g: tensor<8x1xf32>) -> tensor<8x16xf32> {
      %0 = moe.row_logsumexp_grad %x, %l, %g : (tensor<8x16xf32>, tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
      return %0 : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$x, Moe_Accumulator2D:$lse, Moe_Accumulator2D:$grads);
  let results = (outs Moe_Tensor2D:$result);
}

def Moe_PickOp : Moe_Op<"pick", [Moe_Spmd, Moe_Differentiable, Moe_CostOwn, Moe_Kernel<["getKernelParams"]>]> {
  let summary = "the element of each row at its label";
  let description = [{
    `result[s,0] = x[s, labels[s] - part V]`. It is 0 where the label is negative or in another part. part is the rank's
    part (rank / stride) mod parts of the vocabulary.

    Constraints:
    - (C1) x is [S, V], labels [S], the result [S, 1] of x's accumulator type.

    Example:

    ```mlir
    func.func @pick(%x: tensor<8x16xf32>, %labels: tensor<8xi32>) -> tensor<8x1xf32> {
      %0 = moe.pick %x, %labels : (tensor<8x16xf32>, tensor<8xi32>) -> tensor<8x1xf32>
      return %0 : tensor<8x1xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$x, Moe_Index1D:$labels, DefaultValuedAttr<Moe_Int, "1">:$parts,
                       DefaultValuedAttr<Moe_Int, "1">:$stride);
  let results = (outs Moe_Accumulator2D:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$labels, "int64_t":$parts, "int64_t":$stride)>];
}

def Moe_PickGradOp : Moe_Op<"pick_grad", [
    MoeAccumulatingOpInterface, Moe_Spmd, Moe_CostOwn,
    Moe_Kernel<["getKernelInputs", "getKernelParams"]>]> {
  let summary = "gradient of moe.pick's rows";
  let description = [{
    `result` is the addend, or zeros, with grads[s,0] added at the label of each row s. In the addend's memory the op
    touches nothing else.

    Constraints:
    - (C1) labels is [S], the result [S, V], grads [S, 1] of its accumulator type; an addend has the result's type.

    Example:

    ```mlir
    func.func @pick_grad(%labels: tensor<8xi32>, %g: tensor<8x1xf32>) -> tensor<8x16xf32> {
      %0 = moe.pick_grad %labels, %g : (tensor<8xi32>, tensor<8x1xf32>) -> tensor<8x16xf32>
      return %0 : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Index1D:$labels, Moe_Accumulator2D:$grads, Optional<Moe_Tensor2D>:$addend,
                       DefaultValuedAttr<Moe_Int, "1">:$parts, DefaultValuedAttr<Moe_Int, "1">:$stride);
  let results = (outs Moe_Tensor2D:$result);
  let assemblyFormat = "$labels `,` $grads (`addend` `(` $addend^ `)`)? attr-dict `:` functional-type(operands, results)";
}

def Moe_LabelSumOp : Moe_Op<"label_sum", [Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Kernel<>]> {
  let summary = "sum over the tokens that have a label";
  let description = [{
    `sum = sum of rows[s,0] over the s with labels[s] >= 0`.

    Constraints:
    - (C1) rows is [S, 1], labels [S]; the sum has the rows' element type, f32 or f64.

    Example:

    ```mlir
    func.func @label_sum(%x: tensor<8x1xf32>, %labels: tensor<8xi32>) -> tensor<f32> {
      %sum = moe.label_sum %x, %labels : (tensor<8x1xf32>, tensor<8xi32>) -> tensor<f32>
      return %sum : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Moe_Accumulator2D:$rows, Moe_Index1D:$labels);
  let results = (outs Moe_AccumulatorScalar:$sum);
  let builders = [OpBuilder<(ins "::mlir::Value":$rows, "::mlir::Value":$labels)>];
}

def Moe_LabelCountOp : Moe_Op<"label_count", [
    DeclareOpInterfaceMethods<MoeStepCountOpInterface>, Moe_Spmd, Moe_Cost, Moe_Kernel<>]> {
  let summary = "how many tokens have a label";
  let description = [{
    `count = how many labels are not negative`. The tensor of labels has any shape.

    Example:

    ```mlir
    func.func @label_count(%labels: tensor<8xi32>) -> tensor<f32> {
      %count = moe.label_count %labels : (tensor<8xi32>) -> tensor<f32>
      return %count : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Moe_IndexTensor:$labels);
  let results = (outs Moe_AccumulatorScalar:$count);
  let hasVerifier = 0;
}

def Moe_LabelSumGradOp : Moe_Op<"label_sum_grad", [Moe_Spmd, Moe_Cost, Moe_Kernel<>]> {
  let summary = "gradient of moe.label_sum's rows";
  let description = [{
    `result[s,0] = grad` where labels[s] >= 0, else 0.

    Constraints:
    - (C1) labels is [S], the result [S, 1] of grad's element type, f32 or f64.

    Example:

    ```mlir
    func.func @label_sum_grad(%labels: tensor<8xi32>, %g: tensor<f32>) -> tensor<8x1xf32> {
      %0 = moe.label_sum_grad %labels, %g : (tensor<8xi32>, tensor<f32>) -> tensor<8x1xf32>
      return %0 : tensor<8x1xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Index1D:$labels, Moe_AccumulatorScalar:$grad);
  let results = (outs Moe_Accumulator2D:$result);
}

def Moe_DivideOp : Moe_Op<"divide", [
    SameOperandsAndResultType, Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Kernel<["getInPlaceInputs"]>]> {
  let summary = "quotient of two scalars";
  let description = [{
    `result = a / b`, and 0 where b is 0. For the gradient b is a constant.

    Example:

    ```mlir
    func.func @divide(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
      %0 = moe.divide %a, %b : tensor<f32>
      return %0 : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Moe_AccumulatorScalar:$a, Moe_AccumulatorScalar:$b);
  let results = (outs Moe_AccumulatorScalar:$result);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($result)";
  let hasVerifier = 0;
}

def Moe_CastOp : Moe_Op<"cast", [
    SameOperandsAndResultShape, Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Kernel<>]> {
  let summary = "conversion to another floating-point type";
  let description = [{
    Gives the nearest values of the other type, ties to even. Adjoint: the cast back.

    Example:

    ```mlir
    func.func @cast(%x: tensor<8xf32>) -> tensor<8xbf16> {
      %0 = moe.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
      return %0 : tensor<8xbf16>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$input);
  let results = (outs Moe_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::Type":$elementType)>];
  let hasFolder = 1;
  let hasVerifier = 0;
}

//===----------------------------------------------------------------------===//
// Losses of routers
//===----------------------------------------------------------------------===//

def Moe_RouterMeansOp : Moe_Op<"router_means", [
    Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Partition,
    Moe_Kernel<["getKernelParams"]>]> {
  let summary = "the means from which losses of routers are computed, at both levels";
  let description = [{
    The S tokens form G groups of S / G consecutive tokens. For each group g the results are means over its tokens s:

    ```
    loads[g,e]   = 1 where e is one of the top_k largest of logits[s,:] (ties to the lower index), else 0
    shares[g,e]  = softmax_e(logits[s,:])
    squares[g,0] = (ln sum_e exp(logits[s,e]))^2
    ```

    No gradient flows through the loads.

    Constraints:
    - (C1) logits is [S, E]; loads and shares are [G, E] and squares [G, 1] of its accumulator type; G divides S.
    - (C2) 1 <= top_k <= E.

    Example:

    ```mlir
    func.func @router_means(%l: tensor<8x4xf32>) -> tensor<1x4xf32> {
      %loads, %shares, %squares = moe.router_means %l {top_k = 2 : i64}
        : (tensor<8x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x1xf32>)
      return %shares : tensor<1x4xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor2D:$logits, Moe_Int:$top_k);
  let results = (outs Moe_Accumulator2D:$loads, Moe_Accumulator2D:$shares, Moe_Accumulator2D:$squares);
  let builders = [OpBuilder<(ins "::mlir::Value":$logits, "int64_t":$topK, "int64_t":$groups)>];
}

def Moe_RouterMeansGradOp : Moe_Op<"router_means_grad", [
    AttrSizedOperandSegments, AllTypesMatch<["logits", "result"]>, Moe_Spmd, Moe_Cost,
    Moe_Kernel<["getKernelInputs"]>]> {
  let summary = "gradient of moe.router_means' logits";
  let description = [{
    With n tokens in a group and p = softmax(logits[s,:]):
    `result[s,e] = p_e / n (grad_shares[g,e] - sum_e' p_e' grad_shares[g,e'] + 2 grad_squares[g,0] ln sum_e' exp(logits[s,e']))`.
    An absent gradient is zero.

    Example:

    ```mlir
    func.func @router_means_grad(%l: tensor<8x4xf32>, %g: tensor<1x4xf32>) -> tensor<8x4xf32> {
      %0 = moe.router_means_grad %l shares(%g) : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Accumulator2D:$logits, Optional<Moe_Accumulator2D>:$grad_shares,
                       Optional<Moe_Accumulator2D>:$grad_squares);
  let results = (outs Moe_Accumulator2D:$result);
  let assemblyFormat = [{
    $logits (`shares` `(` $grad_shares^ `)`)? (`squares` `(` $grad_squares^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 0;
}

def Moe_RouterLossOp : Moe_Op<"router_loss", [
    Moe_Cost, Moe_Partition]> {
  let summary = "loss of routers, in a model graph";
  let description = [{
    The loss is the mean over the G groups of `balance E sum_e loads[g,e] shares[g,e] + square squares[g,0]`. The operands
    are the sums over layers of moe.router_means' results.

    L is the number of layers. With balance = c / L^2 the first term is c times the load-balancing loss of transformers,
    which takes the tokens of all layers as one batch. With square = c / L the second term is c times the z-loss (ST-MoE;
    Zoph et al., 2022).

    Constraints:
    - (C1) loads and shares are [G, E], squares [G, 1], the result is 0-D, all of one element type, f32 or f64.

    Example:

    ```mlir
    func.func @router_loss(%l: tensor<1x4xf32>, %p: tensor<1x4xf32>, %z: tensor<1x1xf32>) -> tensor<f32> {
      %0 = moe.router_loss %l, %p, %z {balance = 1.0e-2 : f64, square = 1.0e-3 : f64}
        : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x1xf32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Moe_Accumulator2D:$loads, Moe_Accumulator2D:$shares, Moe_Accumulator2D:$squares,
                       F64Attr:$balance, F64Attr:$square);
  let results = (outs Moe_AccumulatorScalar:$loss);
}

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

// Optimizers write their states and the parameters in place: the results are in the operands' memory.

class Moe_ScalarOp<string mnemonic, list<Trait> traits = []> : Moe_Op<mnemonic, !listconcat([Moe_Spmd, Moe_Cost], traits)> {
  let results = (outs Moe_Scalar:$result);
  let hasVerifier = 0;
}

def Moe_SumSquaresOp : Moe_ScalarOp<"sum_squares", [Moe_Kernel<>]> {
  let summary = "sum of the squares of all elements";
  let description = [{
    `result = sum_i input[i]^2` over all elements i.

    Example:

    ```mlir
    func.func @sum_squares(%x: tensor<8x16xf32>) -> tensor<f32> {
      %0 = moe.sum_squares %x : (tensor<8x16xf32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$input);
}

def Moe_SquareRootOp : Moe_ScalarOp<"square_root", [SameOperandsAndResultType, Moe_Kernel<>]> {
  let summary = "square root of a scalar";
  let description = [{
    `result = sqrt(input)`.

    Example:

    ```mlir
    func.func @square_root(%x: tensor<f32>) -> tensor<f32> {
      %0 = moe.square_root %x : tensor<f32>
      return %0 : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Moe_Scalar:$input);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def Moe_ClipFactorOp : Moe_ScalarOp<"clip_factor", [SameOperandsAndResultType, Moe_Kernel<["getKernelParams"]>]> {
  let summary = "the factor that clips gradients, from the sum of their squares";
  let description = [{
    `result = min(1, most / (sqrt(input) + 1e-6))`, as in PyTorch's clip_grad_norm_.

    Example:

    ```mlir
    func.func @clip_factor(%x: tensor<f32>) -> tensor<f32> {
      %0 = moe.clip_factor %x {most = 1.0 : f64} : tensor<f32>
      return %0 : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Moe_Scalar:$input, F64Attr:$most);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def Moe_SgdOp : Moe_Op<"sgd", [
    AllTypesMatch<["param", "grad", "velocity", "new_param", "new_velocity"]>, Moe_Spmd, Moe_Cost,
    Moe_Kernel<["getKernelInputs", "getKernelParams"]>]> {
  let summary = "a step of SGD with momentum";
  let description = [{
    `g = factor grad + decay param`, `velocity' = momentum velocity + g`, `param' = param - rate velocity'`.

    Example:

    ```mlir
    func.func @sgd(%p: tensor<8xf32>, %g: tensor<8xf32>, %v: tensor<8xf32>, %rate: tensor<f32>) -> tensor<8xf32> {
      %0, %1 = moe.sgd %p, %g, %v rate(%rate) {momentum = 0.9 : f64, decay = 0.0 : f64}
        : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
      return %0 : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$param, Moe_Tensor:$grad, Moe_Tensor:$velocity, Moe_Scalar:$rate,
                       Optional<Moe_Scalar>:$factor, F64Attr:$momentum, F64Attr:$decay);
  let results = (outs Moe_Tensor:$new_param, Moe_Tensor:$new_velocity);
  let assemblyFormat = [{
    $param `,` $grad `,` $velocity `rate` `(` $rate `)` (`factor` `(` $factor^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 0;
}

def Moe_AdamOp : Moe_Op<"adam", [
    AllTypesMatch<["param", "grad", "first", "second", "new_param", "new_first", "new_second"]>, Moe_Spmd, Moe_Cost,
    Moe_Kernel<["getKernelInputs", "getKernelParams"]>]> {
  let summary = "a step of Adam with decoupled weight decay";
  let description = [{
    AdamW (Loshchilov and Hutter, 2019) as in PyTorch, for step number step + 1. moert_adam in moert.h gives the formula.

    Example:

    ```mlir
    func.func @adam(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>, %rate: tensor<f32>,
                    %step: tensor<i32>) -> tensor<8xf32> {
      %0, %1, %2 = moe.adam %p, %g, %m, %v rate(%rate) step(%step)
        {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, decay = 0.0 : f64}
        : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i32>)
        -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
      return %0 : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$param, Moe_Tensor:$grad, Moe_Tensor:$first, Moe_Tensor:$second, Moe_Scalar:$rate,
                       Moe_Index0D:$step, Optional<Moe_Scalar>:$factor, F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps,
                       F64Attr:$decay);
  let results = (outs Moe_Tensor:$new_param, Moe_Tensor:$new_first, Moe_Tensor:$new_second);
  let assemblyFormat = [{
    $param `,` $grad `,` $first `,` $second `rate` `(` $rate `)` `step` `(` $step `)` (`factor` `(` $factor^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 0;
}

#endif // MOE_DIALECT_MOE_IR_MOETRAINOPS_TD
