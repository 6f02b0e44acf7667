//===- Passes.td - passes that need the whole compiler --*- tablegen -*-===//
#ifndef MOE_COMPILER_PASSES_TD
#define MOE_COMPILER_PASSES_TD

include "mlir/Pass/PassBase.td"

def MoeAutoSchedule : Pass<"moe-auto-schedule", "::mlir::ModuleOp"> {
  let summary = "divide a model graph over the ranks: the schedule that is fastest on a cluster";
  let description = [{
    What `moe-compile --schedule=auto` does, in the place of moe-partition and of the passes that make a schedule: compiles the
    module's one function in the candidates of the joint space, compares what the simulator says of their plans, and rewrites
    the function to one rank's forward program in the best, under the module's `moe.parallel`.

    The module's `plan.schedule` names that schedule, as `--schedule` takes it, and `plan.explain` has all candidates and what
    became of each. Where the launches were put into another order than that schedule has by itself, `plan.order` is the policy
    of plan-order. What a schedule does with forward and backward alike comes behind moe-differentiate: `s2+saa` needs
    moe-split-exchanges there. Without MoE layers there is nothing to choose, and the program is moe-partition's.

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
           "Cluster profile: a file, or the name of a shared one. Needed">,
    Option<"train", "train", "bool", /*default=*/"true", "Whether a step has a backward too">,
    Option<"memoryLimit", "memory-limit", "int64_t", /*default=*/"0", "Bytes that one rank may use; 0: any">,
    Option<"microBatches", "micro-batches", "int64_t", /*default=*/"1",
           "Of a step, into which moe-accumulate will repeat the program; of a graph with a loss">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect", "::mlir::plan::PlanDialect"];
}

#endif // MOE_COMPILER_PASSES_TD
