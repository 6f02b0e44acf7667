//===- Passes.td - passes of the plan dialect ----------*- tablegen -*-===//
#ifndef MOE_DIALECT_PLAN_TRANSFORMS_PASSES_TD
#define MOE_DIALECT_PLAN_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanAssignStreams : Pass<"plan-assign-streams", "::mlir::func::FuncOp"> {
  let summary = "put each launch on a stream and order the streams";
  let description = [{
    Computation goes to `compute`, copies over the host's link to `copy`, collectives to `comm.intra` where every instance of
    their group lies inside a node (`moe.cluster`), else to `comm.inter`. Then the dependences
    between launches through their buffers (read after write, write after read, write after write, and the turns of rings)
    become `plan.record`/`plan.wait` pairs where they cross streams and no earlier pair implies them. A program in an order
    that its rings do not allow is an error; plan-order makes one that they do.
  }];
}

def PlanAssignMemory : Pass<"plan-assign-memory", "::mlir::func::FuncOp"> {
  let summary = "give every buffer its bytes in its arena";
  let description = [{
    Two buffers may share bytes when all uses of one happen before the first use of the other, in program order on one stream
    and through record/wait between streams. First-fit by decreasing size at multiples of `alignment` bytes; a launch's
    output takes the place of an input that it may overwrite and nobody uses later. Writes `offset` on each `plan.buffer` and
    `plan.arenas` on the function.
  }];
  let options = [
    Option<"alignment", "alignment", "int64_t", /*default=*/"256", "Bytes; a power of two">
  ];
}

def PlanVerify : Pass<"plan-verify", "::mlir::ModuleOp"> {
  let summary = "prove that a plan cannot hang, race or overrun its arenas";
  let description = [{
    For every rank and every interleaving of the streams:

    - hang: all members of a communicator see one sequence of collectives with the same kernels, sizes and types; its
      collectives are ordered even when they lie on different streams;
    - race: no two launches that are not ordered touch the same bytes with a write among them;
    - stale read: a launch reads bytes that its buffer's writer left there, not another buffer's;
    - dangling wait: every `plan.wait` has a `plan.record` of its event before it;
    - bounds: every buffer lies inside the arena whose size `plan.arenas` prints.
  }];
}

#endif // MOE_DIALECT_PLAN_TRANSFORMS_PASSES_TD
