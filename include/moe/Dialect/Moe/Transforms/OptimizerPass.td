//===- OptimizerPass.td - the pass that updates parameters *- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_OPTIMIZERPASS_TD
#define MOE_DIALECT_MOE_TRANSFORMS_OPTIMIZERPASS_TD

include "mlir/Pass/PassBase.td"

def MoeOptimize : Pass<"moe-optimize", "::mlir::func::FuncOp"> {
  let summary = "append the optimizer's step to the backward program";
  let description = [{
    Replaces the gradient of each parameter among the results by the parameter after a step of SGD (as in PyTorch, with
    momentum) or AdamW.

    - The optimizer's states become arguments and results. A result of role `update` takes the place of the argument that
      `moe.updates` names, in the memory of that argument.
    - `learning_rate` and `step` (i32, from 0) become arguments. If gradients are clipped, the metric `gradient_norm`
      becomes a result.
    - Parameters of 16 bits have a master copy and states in f32.
    - A bucket (moe-bucket-parameters) is updated as one parameter. So are its states, whose pieces have the names that
      the states of parameters have.

    The norm of all gradients counts each parameter once. Squares are added up over the groups that shard a gradient, and
    over no other groups.
  }];
  let options = [
    Option<"kind", "kind", "::mlir::moe::OptimizerKind", /*default=*/"::mlir::moe::OptimizerKind::Adam", "The optimizer",
      [{::llvm::cl::values(clEnumValN(::mlir::moe::OptimizerKind::Sgd, "sgd", "SGD with momentum"),
                           clEnumValN(::mlir::moe::OptimizerKind::Adam, "adam", "AdamW"))}]>,
    Option<"momentum", "momentum", "double", /*default=*/"0.9", "Momentum of SGD">,
    Option<"beta1", "beta1", "double", /*default=*/"0.9", "Decay rate of AdamW's first moment">,
    Option<"beta2", "beta2", "double", /*default=*/"0.95", "Decay rate of AdamW's second moment">,
    Option<"eps", "eps", "double", /*default=*/"1e-8", "Term that AdamW adds to the denominator">,
    Option<"decay", "decay", "double", /*default=*/"0.0",
           "Weight decay, for parameters with two or more dimensions and without moe.no_decay">,
    Option<"clipNorm", "clip-norm", "double", /*default=*/"0.0", "Limit for the norm of all gradients; 0: no limit">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

#endif // MOE_DIALECT_MOE_TRANSFORMS_OPTIMIZERPASS_TD
