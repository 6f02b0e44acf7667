//===- OptimizerPass.td - the pass that updates parameters *- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_OPTIMIZERPASS_TD
#define MOE_DIALECT_MOE_TRANSFORMS_OPTIMIZERPASS_TD

include "mlir/Pass/PassBase.td"

def MoeOptimize : Pass<"moe-optimize", "::mlir::func::FuncOp"> {
  let summary = "the optimizer's step, behind the backward program";
  let description = [{
    Replaces the gradient of each parameter among the results by the parameter after a step of SGD (PyTorch's, with momentum) or
    AdamW, and adds the states that this needs as arguments and results: results of role `update` take the place of the
    argument that `moe.updates` names, in its memory. Also added are `learning_rate` and `step` (i32, from 0), and, where gradients are
    clipped, the metric `gradient_norm`. Parameters of 16 bits have a master copy and states of f32.

    The norm of all gradients counts each parameter once: squares are added up over the groups that a gradient is sharded
    over, and over no others.

    With `zero` (ZeRO-1; Rajbhandari et al., SC 2020) a state is sharded over dp too, over edp that of experts: each
    member updates its part of the parameter, and the parts are gathered. Where no dimension of a parameter can be divided
    so, its states are whole. The gradient's all_reduce and the slice of it become one reduce_scatter.
  }];
  let options = [
    Option<"kind", "kind", "::mlir::moe::OptimizerKind", /*default=*/"::mlir::moe::OptimizerKind::Adam", "The optimizer",
      [{::llvm::cl::values(clEnumValN(::mlir::moe::OptimizerKind::Sgd, "sgd", "SGD with momentum"),
                           clEnumValN(::mlir::moe::OptimizerKind::Adam, "adam", "AdamW"))}]>,
    Option<"momentum", "momentum", "double", /*default=*/"0.9", "Of SGD">,
    Option<"beta1", "beta1", "double", /*default=*/"0.9", "Of Adam">,
    Option<"beta2", "beta2", "double", /*default=*/"0.95", "Of Adam">,
    Option<"eps", "eps", "double", /*default=*/"1e-8", "Of Adam">,
    Option<"decay", "decay", "double", /*default=*/"0.0", "Weight decay, of parameters of two dimensions or more">,
    Option<"clipNorm", "clip-norm", "double", /*default=*/"0.0", "The most that the norm of all gradients may be; 0: any">,
    Option<"zero", "zero", "bool", /*default=*/"false", "Shard the states over data parallelism">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

#endif // MOE_DIALECT_MOE_TRANSFORMS_OPTIMIZERPASS_TD
