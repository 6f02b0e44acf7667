//===- Passes.td - passes of the plan dialect ----------*- tablegen -*-===//
#ifndef MOE_DIALECT_PLAN_TRANSFORMS_PASSES_TD
#define MOE_DIALECT_PLAN_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanRollLoop : Pass<"plan-roll-loop", "::mlir::func::FuncOp"> {
  let summary = "make a loop of the steady state of a step";
  let description = [{
    Takes a program with the launches of the first n of N micro-batches (`written` of moe-accumulate), and makes the
    program of all N. It looks for two or more consecutive sequences of launches that are the same but for their
    micro-batches, and puts one of them into a `plan.loop`. The launches before it are the prologue, those behind it the
    epilogue, whose micro-batches become the last ones.

    A value that lives in one iteration becomes a buffer in the loop's body. Values that live longer, or of which several
    are alive at once, share a ring if they have one type: a buffer of so many slots that none is written while it is in
    use. In each iteration a value has the slot behind the one before. A value that each micro-batch updates in place has
    one slot.

    It is an error if the program has no such sequences, e.g. because n is too small. Chunks in a ring (#moe.ring) are
    not supported.
  }];
}

def PlanAssignStreams : Pass<"plan-assign-streams", "::mlir::func::FuncOp"> {
  let summary = "put each launch on a stream, and order the streams";
  let description = [{
    Puts computation on the stream `compute`, and copies over the host's link on `copy`. A collective goes to `comm.intra`
    if every instance of its group lies inside a node (`moe.cluster`), and otherwise to `comm.inter`.

    Launches depend on each other through their buffers (read after write, write after read, write after write) and
    through the turns of rings. If a dependence crosses streams and no earlier pair implies it, it becomes a pair of
    `plan.record` and `plan.wait`. If the rings do not allow the order of the program, that is an error. plan-order finds
    an order that they allow.
  }];
}

def PlanAssignMemory : Pass<"plan-assign-memory", "::mlir::func::FuncOp"> {
  let summary = "give every buffer its bytes in an arena";
  let description = [{
    Two buffers may share bytes if all uses of one happen before the first use of the other. Program order says so on one
    stream, and record and wait say so between streams. The pass places buffers first-fit, by decreasing size, at
    multiples of `alignment` bytes. An output of a launch takes the place of an input that the launch may overwrite and
    that no later launch uses. The pass writes `offset` on each `plan.buffer` and `plan.arenas` on the function.
  }];
  let options = [
    Option<"alignment", "alignment", "int64_t", /*default=*/"256", "Alignment in bytes; a power of two">
  ];
}

def PlanAssignSubprograms : Pass<"plan-assign-subprograms", "::mlir::ModuleOp"> {
  let summary = "give subprograms their streams and memory";
  let description = [{
    Runs plan-assign-streams and plan-assign-memory on each function with `plan.subprogram`. A subprogram begins with waits
    of all its streams for `compute`, and ends with a wait of `compute` for them. Each launch that runs it gets memory for
    its arena, as its last output.
  }];
  let dependentDialects = ["::mlir::plan::PlanDialect"];
}

def PlanExtractHalf : Pass<"plan-extract-half", "::mlir::func::FuncOp"> {
  let summary = "make a program of the forward, or of the backward, alone";
  let description = [{
    Serves a caller that runs other code between the two, such as a training loop of PyTorch. Takes the plan of a whole step
    and keeps its order.

    - `half=forward` keeps the launches that the outputs need. Further results of role `residual` are the buffers that the
      forward writes and the backward reads.
    - `half=backward` keeps all other launches, also those that compute values of the forward again. It takes the
      residuals as arguments, under the same names. An output that the backward reads is an argument under its own name.

    Records, waits and offsets go: plan-assign-streams and plan-assign-memory make new ones. It is an error if a value
    lies on the host, or if the program has a loop.
  }];
  let options = [
    Option<"half", "half", "std::string", /*default=*/"\"forward\"", "forward or backward">
  ];
}

def PlanVerify : Pass<"plan-verify", "::mlir::ModuleOp"> {
  let summary = "prove that a plan cannot hang, race or overrun its arenas";
  let description = [{
    Checks, for every rank and every interleaving of the streams:

    - hang: all members of a communicator see one sequence of collectives with the same kernels, sizes and types. Its
      collectives are ordered even if they lie on different streams.
    - race: no two launches without an order between them touch the same bytes if one of them writes.
    - stale read: a launch reads bytes that its own buffer's writer left there, not the bytes of another buffer.
    - dangling wait: every `plan.wait` has a `plan.record` of its event before it.
    - bounds: every buffer lies inside its arena, whose size `plan.arenas` gives.
  }];
}

#endif // MOE_DIALECT_PLAN_TRANSFORMS_PASSES_TD
