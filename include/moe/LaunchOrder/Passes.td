//===- Passes.td - the order of plans ------------------*- tablegen -*-===//
#ifndef MOE_SCHEDULE_PASSES_TD
#define MOE_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanOrder : Pass<"plan-order", "::mlir::func::FuncOp"> {
  let summary = "put the launches of a plan into the order in which they are issued";
  let description = [{
    Puts launches on streams as plan-assign-streams does, which has to follow, and moves them into another order that the
    dependences through memory and the turns of rings allow. What reads a cotangent (`moe.role`), and all launches behind the
    first that does, stay behind those that write outputs. Programs of some ranks only (`plan.ranks`) cannot be searched, and those
    that have `plan.record`, `plan.wait` or offsets, are errors.

    - `program`: the order that is there; launches that a ring would make wait for later ones come after these.
    - `mpipemoe`, `fastermoe`: the papers' orders in each group of launches with a `chunk`: those of a layer in one direction,
      from the first of its label to the first of another. S are the exchanges that products of the chunk need, C the
      computation, R the exchanges that need products of the chunk. Exchanges go S1 S2 R1 S3 R2 S4 R3 R4, or S1 S2 S3 S4 R1 R2
      R3 R4; the group takes the places that its launches have in the program. Where rings make that impossible, the first
      that can go goes.
    - `search`: list scheduling by several priorities and local search under the cost model's times. The best of what is found,
      of both papers' orders and of the program's is taken by the simulator's times on `cluster`; of those that are
      half a percent slower at most, 1.5 where there are rings, and no slower than these three, the one with the least
      bytes alive.
  }];
  let options = [
    Option<"policy", "policy", "::mlir::moe::OrderPolicy", /*default=*/"::mlir::moe::OrderPolicy::Search",
           "How to choose the order", [{::llvm::cl::values(
             clEnumValN(::mlir::moe::OrderPolicy::Program, "program", "That of the program"),
             clEnumValN(::mlir::moe::OrderPolicy::MPipeMoe, "mpipemoe", "S1 S2 R1 S3 R2 S4 R3 R4"),
             clEnumValN(::mlir::moe::OrderPolicy::FasterMoe, "fastermoe", "S1 S2 S3 S4 R1 R2 R3 R4"),
             clEnumValN(::mlir::moe::OrderPolicy::Search, "search", "The fastest that is found"))}]>,
    Option<"cluster", "cluster", "std::string", /*default=*/"", "Path of the cluster profile; for search">
  ];
}

#endif // MOE_SCHEDULE_PASSES_TD
