//===- Passes.td - the order of plans ------------------*- tablegen -*-===//
#ifndef MOE_LAUNCHORDER_PASSES_TD
#define MOE_LAUNCHORDER_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanOrder : Pass<"plan-order", "::mlir::func::FuncOp"> {
  let summary = "choose the order in which the launches of a plan are issued";
  let description = [{
    Moves the launches into another order that the dependences through memory and the turns of rings allow. It puts
    launches on streams as plan-assign-streams does. plan-assign-streams has to follow.

    The first launch that reads a cotangent (`moe.role`), and all launches after it, stay after the launches that write
    outputs. A program that has `plan.record`, `plan.wait` or offsets is an error. So is a `search` in a program of only
    some ranks (`plan.ranks`).

    - `program`: the order of the program. A launch that a ring would make wait for later launches comes after these.
    - `mpipemoe`, `fastermoe`: the orders of the papers, in each group of launches with a `chunk`. A group is a layer in
      one direction: from the first launch with its label to the first launch with another label. S are the exchanges that
      the products of a chunk need, C is the computation, and R are the exchanges that need the products of a chunk.
      `mpipemoe` orders the exchanges S1 S2 R1 S3 R2 S4 R3 R4, and `fastermoe` S1 S2 S3 S4 R1 R2 R3 R4. The group takes
      the places that its launches have in the program. If rings make that impossible, the first launch that can run comes
      next.
    - `search`: list scheduling by several priorities, then local search, under the times of the cost model. The simulator
      on `cluster` then times the best orders found, the orders of both papers and the order of the program. Among the
      candidates that are almost as fast as the fastest, the pass takes the order that needs the least memory at once.
      Almost as fast means at most 0.5 percent slower (1.5 percent with rings), and no slower than the papers' and the
      program's orders.
  }];
  let options = [
    Option<"policy", "policy", "::mlir::moe::OrderPolicy", /*default=*/"::mlir::moe::OrderPolicy::Search",
           "How to choose the order", [{::llvm::cl::values(
             clEnumValN(::mlir::moe::OrderPolicy::Program, "program", "The order of the program"),
             clEnumValN(::mlir::moe::OrderPolicy::MPipeMoe, "mpipemoe", "S1 S2 R1 S3 R2 S4 R3 R4"),
             clEnumValN(::mlir::moe::OrderPolicy::FasterMoe, "fastermoe", "S1 S2 S3 S4 R1 R2 R3 R4"),
             clEnumValN(::mlir::moe::OrderPolicy::Search, "search", "The fastest order that the search finds"))}]>,
    Option<"cluster", "cluster", "std::string", /*default=*/"", "Path of the cluster profile, for search">
  ];
}

#endif // MOE_LAUNCHORDER_PASSES_TD
