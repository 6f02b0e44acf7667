//===- Passes.td - passes of the moe dialect -----------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_PASSES_TD
#define MOE_DIALECT_MOE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def MoePartition : Pass<"moe-partition", "::mlir::ModuleOp"> {
  let summary = "divide a model graph over the ranks: the baseline schedule";
  let description = [{
    Rewrites every function from global tensors to one rank's program under the module's `moe.parallel`, the baseline of Parm
    (section II): gate and dispatch on every model-parallel member, ESP-AllGather, EP-AlltoAll, expert shard, ESP-AllReduce,
    EP-AlltoAll, ESP-Split, combine. Arguments and results get their `moe.layout` and shard types. `moe.to_varying` is
    inserted wherever an op wants a varying operand.

    With `reference` the same model is made for one rank, routed in the same groups of tokens, for comparison.

    Before -> after, for `#moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>`:

    ```mlir
    %y, %aux = moe.layer "l" %x gate(%g) experts(%w1, %w2) {..} : (tensor<64x8xf32>, ..)
    // ->
    %logits = moe.matmul %x, %g : (tensor<16x8xf32>, ..)
    %scores, %experts, %slots, %weights, %counts, %aux = moe.route %logits {capacity = 4 : i64} : ..
    %d = moe.dispatch %x, %slots : .. -> tensor<4x4x8xf32>
    %h = moe.all_to_all %d over <"ep", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : ..
    ```
  }];
  let options = [
    Option<"reference", "reference", "bool", /*default=*/"false", "One rank instead of the module's world">,
    Option<"groups", "groups", "int64_t", /*default=*/"0",
           "Routing groups of the whole model; 0: the number of token shards">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeInsertToVarying : Pass<"moe-insert-to-varying", "::mlir::func::FuncOp"> {
  let summary = "cast operands to the SPMD states that their ops want";
  let description = [{
    For passes that rewrite an SPMD program without thinking of states: an operand that is replicated where its op wants it
    varying gets a `moe.to_varying`, one for all users.
  }];
}

def MoeVerifySpmd : Pass<"moe-verify-spmd", "::mlir::func::FuncOp"> {
  let summary = "reject programs whose SPMD states do not fit";
  let description = [{
    Follows, from the arguments' layouts, over which groups each value varies, and reports an operand in a state that its op
    does not take and a result that does not have its layout: a missing all-reduce, a doubled gradient, an unsplit block of
    tokens.
  }];
}

def MoeDifferentiate : Pass<"moe-differentiate", "::mlir::func::FuncOp"> {
  let summary = "append the backward program";
  let description = [{
    Turns `f(args) -> results` into `f(args, cotangents) -> (results, gradients)`: a cotangent argument for each
    floating-point result, a gradient for each argument through which one flows, each with the layout of its primal. The
    backward is each op's own adjoint in reverse order, so it belongs to whatever schedule the forward has.

    Before -> after:

    ```mlir
    func.func @f(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.scale %a {factor = 2.0 : f64} : tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    // ->
    func.func @f(%a: tensor<4x8xf32>, %ct: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
      %0 = moe.scale %a {factor = 2.0 : f64} : tensor<4x8xf32>
      %1 = moe.scale %ct {factor = 2.0 : f64} : tensor<4x8xf32>
      return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
    }
    ```
  }];
}

def MoePrintCost : Pass<"moe-print-cost", "::mlir::ModuleOp"> {
  let summary = "print what each op needs";
  let description = [{
    Writes to standard error, function by function, for each op with MoeCostOpInterface that needs anything, at any level: the resource
    that it keeps busy, FLOPs, bytes read and written, and of exchanges the group, the payload and the bytes that one member
    sends to each other. Figures are one rank's; of a ragged op, those of the rows for which it has room.

    ```
    @model
    op                           label            resource        GFLOP    MB read MB written  exchange
    moe.matmul                   layer0           matrix          0.006      1.597      0.016  -
    moe.all_to_all               layer0           network         0.000      1.966      1.966  all_to_all over ep (4): 0.491 MB to each
    ```
  }];
  let options = [
    Option<"json", "json", "bool", /*default=*/"false", "One JSON object a line instead of a table">
  ];
}

#endif // MOE_DIALECT_MOE_TRANSFORMS_PASSES_TD
