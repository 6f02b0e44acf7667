//===- MoeTrainOps.td - losses and optimizers ----------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOETRAINOPS_TD
#define MOE_DIALECT_MOE_IR_MOETRAINOPS_TD

include "moe/Dialect/Moe/IR/MoeBase.td"

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

def Moe_CrossEntropyOp : Moe_Op<"cross_entropy", [
    Moe_Cost, DeclareOpInterfaceMethods<MoePartitionOpInterface>]> {
  let summary = "mean negative log-likelihood of the labels, in a model graph";
  let description = [{
    `loss = mean over the s with labels[s] >= 0 of (ln sum_j exp(logits[s,j]) - logits[s, labels[s]])`.

    The vocabulary may be over mp: then only a number for each token and member is exchanged, never logits.

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
  let assemblyFormat = "$logits `,` $labels attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$logits, "::mlir::Value":$labels)>];
  let hasVerifier = 1;
}

def Moe_RowLogsumexpOp : Moe_Op<"row_logsumexp", [Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Kernel<>]> {
  let summary = "logarithm of the sum of each row's exponentials";
  let description = [{
    `result[s,0] = ln sum_j exp(x[s,j])`. Of the results of parts of a row it is the result of the row.

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
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x)>];
  let hasVerifier = 1;
}

def Moe_RowLogsumexpGradOp : Moe_Op<"row_logsumexp_grad", [
    AllTypesMatch<["x", "result"]>, Moe_Spmd, Moe_Cost, Moe_Kernel<["getInPlaceInputs"]>]> {
  let summary = "gradient of moe.row_logsumexp";
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
  let hasVerifier = 1;
  let assemblyFormat = "$x `,` $lse `,` $grads attr-dict `:` functional-type(operands, results)";
}

def Moe_PickOp : Moe_Op<"pick", [Moe_Spmd, Moe_Differentiable, Moe_CostOwn, Moe_Kernel<["getKernelParams"]>]> {
  let summary = "each row's element at its label";
  let description = [{
    `result[s,0] = x[s, labels[s] - part V]`, 0 where another part has it or the label is negative.

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
  let arguments = (ins Moe_Tensor2D:$x, Moe_Index1D:$labels, DefaultValuedAttr<I64Attr, "1">:$parts,
                       DefaultValuedAttr<I64Attr, "1">:$stride);
  let results = (outs Moe_Accumulator2D:$result);
  let assemblyFormat = "$x `,` $labels attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$labels, "int64_t":$parts, "int64_t":$stride)>];
  let hasVerifier = 1;
}

def Moe_PickGradOp : Moe_Op<"pick_grad", [
    MoeAccumulatingOpInterface, Moe_Spmd, Moe_CostOwn,
    Moe_Kernel<["getKernelInputs", "getKernelParams", "getInPlaceInputs"]>]> {
  let summary = "gradient of moe.pick's rows";
  let description = [{
    The addend, or zeros, with grads[s,0] added at each row's label. In the addend's memory it touches nothing else.

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
                       DefaultValuedAttr<I64Attr, "1">:$parts, DefaultValuedAttr<I64Attr, "1">:$stride);
  let results = (outs Moe_Tensor2D:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$labels `,` $grads (`addend` `(` $addend^ `)`)? attr-dict `:` functional-type(operands, results)";
}

def Moe_LabelSumOp : Moe_Op<"label_sum", [Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Kernel<>]> {
  let summary = "sum over the tokens that have a label, and how many those are";
  let description = [{
    `sum = sum of rows[s,0] over the s with labels[s] >= 0`, and their number. No gradient flows through that.

    Constraints:
    - (C1) rows is [S, 1], labels [S]; sum and count have the rows' element type, f32 or f64.

    Example:

    ```mlir
    func.func @label_sum(%x: tensor<8x1xf32>, %labels: tensor<8xi32>) -> (tensor<f32>, tensor<f32>) {
      %sum, %count = moe.label_sum %x, %labels : (tensor<8x1xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>)
      return %sum, %count : tensor<f32>, tensor<f32>
    }
    ```
  }];
  let arguments = (ins Moe_Accumulator2D:$rows, Moe_Index1D:$labels);
  let results = (outs Moe_AccumulatorScalar:$sum, Moe_AccumulatorScalar:$count);
  let assemblyFormat = "$rows `,` $labels attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$rows, "::mlir::Value":$labels)>];
  let hasVerifier = 1;
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
  let assemblyFormat = "$labels `,` $grad attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Moe_DivideOp : Moe_Op<"divide", [
    SameOperandsAndResultType, Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Kernel<["getInPlaceInputs"]>]> {
  let summary = "quotient of two scalars";
  let description = [{
    `result = a / b`, 0 where b is 0. b is a constant of the gradient.

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
}

def Moe_CastOp : Moe_Op<"cast", [
    SameOperandsAndResultShape, Moe_Spmd, Moe_Differentiable, Moe_Cost, Moe_Kernel<>]> {
  let summary = "another floating-point type";
  let description = [{
    The nearest values, ties to even. Adjoint: the cast back.

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
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::Type":$elementType)>];
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

// Optimizers write their states, and the parameters, in place: results are the operands' memory.

class Moe_ScalarOp<string mnemonic, list<Trait> traits = []> : Moe_Op<mnemonic, !listconcat([Moe_Spmd, Moe_Cost], traits)> {
  let results = (outs Moe_Scalar:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

def Moe_SumSquaresOp : Moe_ScalarOp<"sum_squares", [Moe_Kernel<>]> {
  let summary = "sum of the squares of all elements";
  let description = [{
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
  let summary = "what gradients of that sum of squares are multiplied by";
  let description = [{
    `result = min(1, most / (sqrt(input) + 1e-6))`, as PyTorch's clip_grad_norm_.

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
}

def Moe_AdamOp : Moe_Op<"adam", [
    AllTypesMatch<["param", "grad", "first", "second", "new_param", "new_first", "new_second"]>, Moe_Spmd, Moe_Cost,
    Moe_Kernel<["getKernelInputs", "getKernelParams"]>]> {
  let summary = "a step of Adam with decoupled weight decay";
  let description = [{
    AdamW (Loshchilov and Hutter, 2019) as in PyTorch, of step number step + 1; moert_adam in moert.h gives the formula.

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
}

#endif // MOE_DIALECT_MOE_IR_MOETRAINOPS_TD
