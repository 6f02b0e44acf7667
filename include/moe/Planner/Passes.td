//===- Passes.td - passes that need the whole compiler --*- tablegen -*-===//
#ifndef MOE_PLANNER_PASSES_TD
#define MOE_PLANNER_PASSES_TD

include "mlir/Pass/PassBase.td"

def MoeAutoSchedule : Pass<"moe-auto-schedule", "::mlir::ModuleOp"> {
  let summary = "divide a model graph over the ranks, in the schedule that is fastest on a cluster";
  let description = [{
    The pass form of `moe-compile --schedule=auto`. It replaces moe-partition and the passes that make a schedule. It
    compiles the module's one function in the candidates of the joint space, but for those that drop other tokens than
    the baseline, and compares the simulator's results for their plans. Then it rewrites the function to the forward
    program of one rank in the best candidate. The groups are those of the module's `moe.parallel`.

    - `plan.schedule` on the module names that schedule, in the form that `--schedule` takes.
    - `plan.explain` lists all candidates and what became of each.
    - `plan.order` is a policy of plan-order. It is set if the launches are in another order than the schedule gives them.

    Some parts of a schedule rewrite forward and backward together. They come after moe-differentiate: `s2+saa` needs
    moe-split-exchanges there. Without MoE layers there is nothing to choose, and the program is that of moe-partition.

    Before -> after, for `#moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>` and `cluster=parm-b`:

    ```mlir
    module attributes {moe.parallel = ..} {
      %y, %aux = moe.layer "l" %x gate(%g) experts(%w1, %w2) {..} : (tensor<512x64xf32>, ..)
    // ->
    module attributes {moe.parallel = .., plan.explain = {..}, plan.schedule = "s1"} {
      %part = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : ..
      %logits = moe.matmul %part, %g : (tensor<64x64xf32>, ..)
      ..
    ```
  }];
  let options = [
    Option<"cluster", "cluster", "std::string", /*default=*/"",
           "Cluster profile: a file, or the name of a shared profile. Required">,
    Option<"train", "train", "bool", /*default=*/"true", "Whether a step also has a backward">,
    Option<"memoryLimit", "memory-limit", "int64_t", /*default=*/"0", "Bytes that one rank may use; 0: no limit">,
    Option<"microBatches", "micro-batches", "int64_t", /*default=*/"1",
           "Number of micro-batches of a step, for which moe-accumulate repeats the program later; for a graph with a loss">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect", "::mlir::plan::PlanDialect"];
}

#endif // MOE_PLANNER_PASSES_TD
