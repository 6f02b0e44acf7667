//===- SchedulePasses.td - passes that make schedules of the baseline *- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEPASSES_TD
#define MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEPASSES_TD

include "mlir/Pass/PassBase.td"

def MoePauseMp : Pass<"moe-pause-mp", "::mlir::func::FuncOp"> {
  let summary = "the baseline's layers to Parm's schedules S1 or S2";
  let description = [{
    In the baseline all members of mp dispatch the same tokens, and the experts compute them as often. Here each member sends
    its own share (Parm, section III-B), over the fused group of ep and esp: ESP-AllGather and EP-AlltoAll become a dump,
    which takes no memory, and one EP&ESP-AlltoAll; ESP-AllReduce, EP-AlltoAll and ESP-Split one EP&ESP-AlltoAll and a local
    sum. S1 splits the tokens (MP-Split) before the gate and gathers the layer's output over mp; S2 splits the dispatched
    rows and gathers them before the combine. Both forms of tokens are rewritten.

    In S1 each member routes its own tokens, so that groups, capacity and auxiliary loss are of its share: where the layer has
    G routing groups a rank and mp does not divide G, there are mp times as many, each with the mp-th part of the capacity,
    rounded up, with a remark. In S2 the routing is the baseline's: rows of the buffer that cannot be shared out evenly are
    padded, with a remark, and the capacity is not. A layer that is no baseline, or S1 where the tokens
    cannot be shared out, is left as it is, with a warning that says why.

    With `schedule=chosen` each layer gets what `moe.pause_mp` on its moe.dispatch says, "s1" or "s2", and is left as it is
    without it. moe-parm-algorithm1 sets it.

    Before -> after, S2 with mp = esp = 2 and ep = 2:

    ```mlir
    %d = moe.dispatch %xv, %slots : .. -> tensor<4x8x16xf32>
    %g = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : ..
    %h = moe.all_to_all %g over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : .. -> tensor<2x32x16xf32>
    // -> half as many rows for each expert
    %d = moe.dispatch %x, %slots : .. -> tensor<4x8x16xf32>
    %s = moe.slice %d over <"mp", 2, 1> {dim = 1 : i64} : .. -> tensor<4x4x16xf32>
    %u = moe.dump %s {blocks = 2 : i64} : .. -> tensor<8x4x16xf32>
    %h = moe.all_to_all %u over <"world", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : .. -> tensor<2x16x16xf32>
    ```
  }];
  let options = [
    Option<"schedule", "schedule", "::mlir::moe::PauseMpSchedule", /*default=*/"::mlir::moe::PauseMpSchedule::Chosen",
           "S1, S2, or what was chosen for each layer", [{::llvm::cl::values(
             clEnumValN(::mlir::moe::PauseMpSchedule::S1, "s1", "split the tokens before the gate"),
             clEnumValN(::mlir::moe::PauseMpSchedule::S2, "s2", "split the rows behind it"),
             clEnumValN(::mlir::moe::PauseMpSchedule::Chosen, "chosen", "what moe.pause_mp says"))}]>
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoePpMoe : Pass<"moe-ppmoe", "::mlir::func::FuncOp"> {
  let summary = "the baseline's layers to PPMoE's schedule: a sum in place of all exchanges";
  let description = [{
    For layers whose experts are divided over ranks that all have the same tokens: ep and esp lie inside mp, as they do where
    an MoE layer stands in for a tensor-parallel FFN (PPMoE, section 3.3). Each member takes the choices of its own experts
    (moe.local_slots), so that nothing is exchanged; the experts' outputs go to their tokens, with zeros for the choices of
    other experts, and one all_reduce of [S, M] over the fused group of ep and esp adds them up. It takes the place of
    ESP-AllGather, ESP-AllReduce, both EP-AlltoAlls and ESP-Split. The routing stays the baseline's, on all members alike.

    Dropless rows have the baseline's room for one member's tokens: S min(k, E / ep), or `max_load` times the mean S k / ep.
    Tokens and weights become varying over the group, whose adjoints are the backward's sums. The baseline's
    moe.assume_replicated goes: what the sum gives is replicated, also over members of mp that hold the same experts. A
    layer that is no baseline, or whose experts' ranks have different tokens, is left as it is, with a warning that says why.

    Before -> after, with mp = 4 and ep = esp = 2:

    ```mlir
    %d = moe.dispatch %xv, %slots : .. -> tensor<4x8x16xf32>
    %g = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : ..
    %h = moe.all_to_all %g over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : .. -> tensor<2x32x16xf32>
    // -> each row once
    %own, %n = moe.local_slots %slots, %counts over <"mp", 4, 1> {capacity = 8 : i64, copies = 2 : i64} : ..
    %d = moe.dispatch %xv, %own : .. -> tensor<2x8x16xf32>
    // .. experts
    %c = moe.combine %o, %own weights(%wv) : .. -> tensor<16x16xf32>
    %y = moe.all_reduce %c over <"mp", 4, 1> : ..
    ```
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeSplitExchanges : Pass<"moe-split-exchanges", "::mlir::func::FuncOp"> {
  let summary = "exchange in phases, each overlapping with what is done with the one before";
  let description = [{
    An all_to_all whose result goes, through ops that work block by block (MoeSplittableOpInterface), into another exchange
    is made in phases: in each a member exchanges with one whole block of neighbours, and what arrived goes on at once, on
    another stream, while the next phase is under way. There are as many phases as all ops on the way allow, or as the option
    says. Where S2 ends, this is Parm's SAA (section III-D): an all_to_all, a local sum and an all_gather over mp, by ESP
    groups, or by whole groups of mp where these are larger; and in its backward likewise. To run behind moe-differentiate. Where
    there is nothing to split a remark says so.

    Before -> after:

    ```mlir
    %b = moe.all_to_all %o over <"world", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : .. -> tensor<8x4x16xf32>
    %r = moe.local_reduce %b {blocks = 2 : i64} : .. -> tensor<4x4x16xf32>
    %g = moe.all_gather %r over <"mp", 2, 1> {dim = 1 : i64} : .. -> tensor<4x8x16xf32>
    // ->
    %b0 = moe.all_to_all_phase %o over <"world", 4, 1> {.., phase = 0 : i64, phases = 2 : i64} : .. -> tensor<4x4x16xf32>
    %r0 = moe.local_reduce %b0 : .. -> tensor<2x4x16xf32>
    %g0 = moe.all_gather %r0 over <"mp", 2, 1> {dim = 1 : i64} : .. -> tensor<2x8x16xf32>
    // .. %g1 likewise from phase 1
    %g = moe.join_phases %g0, %g1 over <"world", 4, 1> : .. -> tensor<4x8x16xf32>
    ```
  }];
  let options = [
    Option<"phases", "phases", "int64_t", /*default=*/"0", "Phases of each exchange at most; 0: as many as can be">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoePipeline : Pass<"moe-pipeline", "::mlir::func::FuncOp"> {
  let summary = "experts in chunks of the tokens, so that exchanges and computation overlap";
  let description = [{
    Divides what is between the dispatch and the combine of each layer into chunks of rows, each with exchanges of its own over
    the whole group (MPipeMoE, section III-B), whatever the schedule: any op between them that works row by row
    (MoeChunkableOpInterface) is done for each chunk. Rows are dispatched in the order of the chunks (moe.route), so that a
    chunk is one piece of memory and nothing is copied. To run before moe-differentiate, which makes the chunks of the
    backward; the gradients of the experts' weights are added up product by product, in place.

    With a capacity a chunk has a part of each expert's rows; dropless, it has the choices of a part of the tokens. Where
    rows cannot be divided evenly the buffer is padded, with a remark; who is dropped does not change. One chunk is the
    identity. A layer
    that cannot be divided is left as it is, with a warning that says why.

    Values of one kind take turns in rings (#moe.ring): what an exchange makes or takes in `exchanged-ring` places, what is
    between the products of the experts in `hidden-ring` (MPipeMoE, section III-D). 0 is no ring.

    Before -> after, with two chunks:

    ```mlir
    %d = moe.dispatch %x, %slots : .. -> tensor<4x8x16xf32>
    %h = moe.all_to_all %d over <"ep", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : .. -> tensor<1x32x16xf32>
    // ->
    %d = moe.dispatch %x, %slots : .. -> tensor<8x4x16xf32>
    %p:2 = moe.split %d : .. -> (tensor<4x4x16xf32>, tensor<4x4x16xf32>)
    %h0 = moe.all_to_all %p#0 over <"ep", 4, 1> {.., moe.chunk = #moe.chunk<0 of 2>} : .. -> tensor<1x16x16xf32>
    %h1 = moe.all_to_all %p#1 over <"ep", 4, 1> {.., moe.chunk = #moe.chunk<1 of 2>} : .. -> tensor<1x16x16xf32>
    ```
  }];
  let options = [
    Option<"chunks", "chunks", "int64_t", /*default=*/"1", "Chunks of each layer">,
    Option<"exchangedRing", "exchanged-ring", "int64_t", /*default=*/"2", "Places for values that are exchanged; 0: no ring">,
    Option<"hiddenRing", "hidden-ring", "int64_t", /*default=*/"1", "Places for values inside the experts; 0: no ring">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeShadowExperts : Pass<"moe-shadow-experts", "::mlir::func::FuncOp"> {
  let summary = "experts that many tokens choose are computed where the tokens are";
  let description = [{
    FasterMoE's dynamic shadowing (section 4.1), of dropless layers in any schedule. All ranks that exchange a layer's rows
    gather their counts, and each decides, alike and anew in every step, which experts become shadows (moe.choose_shadows).
    The choices of these take a way of their own: a copy of the experts' from dispatch to combine, over esp where that is over
    ep, with weights from moe.broadcast_experts. Their rows are left out of the exchange, and of the room for what arrives:
    with `shrink` that is reserved for what may be left after the heaviest experts became shadows, whatever the routing, and for
    four times the mean at least; where more would come, experts become shadows that time alone would not choose.
    To run before moe-pipeline, moe-smart-schedule and moe-differentiate, which makes the reduction of the shadows' gradients
    to their owners.

    Times are made of the rates of the module's `moe.cluster`; a rate that is not known is no time at all. Both
    `expert_bytes` and `broadcast_bytes` are what the paper calls W. A layer with a capacity, and where all experts are on every rank,
    is left as it is.

    Before -> after:

    ```mlir
    %d = moe.dispatch %x, %slots : ..
    // ->
    %all = moe.all_gather %counts over <"ep_esp", 4, 1> {dim = 0 : i64} : .. -> tensor<4x8xi32>
    %shadows = moe.choose_shadows %all {policy = #moe<shadow_policy simulate>, most = 2 : i64, ..} : .. -> tensor<1x8xi32>
    %own, %c, %theirs, %sc = moe.divide_choices %experts, %shadows : ..
    %d = moe.dispatch %x, %own : ..
    ..
    %w = moe.broadcast_experts %w1, %shadows over <"ep", 4, 1> : .. -> tensor<2x16x32xf32>
    %sd = moe.dispatch %x, %theirs : ..
    %h = moe.grouped_matmul %sd, %w counts(%sc) : ..
    ```
  }];
  let options = [
    Option<"max", "max", "int64_t", /*default=*/"0", "Shadows of a layer at most; 0: a quarter of its experts">,
    Option<"policy", "policy", "::mlir::moe::ShadowPolicy", /*default=*/"::mlir::moe::ShadowPolicy::simulate",
           "How they are chosen", [{::llvm::cl::values(
             clEnumValN(::mlir::moe::ShadowPolicy::algorithm1, "algorithm1", "Algorithm 1 of the paper"),
             clEnumValN(::mlir::moe::ShadowPolicy::prefix, "prefix", "the best of all prefixes of its order"),
             clEnumValN(::mlir::moe::ShadowPolicy::simulate, "simulate", "the least predicted time of the layer"))}]>,
    Option<"phases", "phases", "int64_t", /*default=*/"1", "Of the exchange, where it overlaps with the experts">,
    Option<"shrink", "shrink", "bool", /*default=*/"true", "Reserve room only for what shadows may leave">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeSmartSchedule : Pass<"moe-smart-schedule", "::mlir::func::FuncOp"> {
  let summary = "ragged exchanges by groups of neighbours, each overlapping with the experts' work for others";
  let description = [{
    FasterMoE's smart schedule (section 4.2): a ragged exchange to the experts, what they compute and the exchange back
    become n of each, n being the number of groups of neighbouring ranks. In step j group i sends to group i - j and
    receives from group i + j (S), computes what came (C) and returns it (R). The returned rows are put together in one
    buffer, and nothing is copied. To run before moe-differentiate, which makes the phases of the backward; on which stream and when
    each takes place is for plan-order to say.

    `group-size` is in ranks; where it does not divide the members of an exchange, or would divide the holders of one expert, the
    groups are as much larger as they have to be. `order` is that of the steps: the ring's, or the ring's step 0 first and the
    others by how many groups exchange with another node, so that the last is a fast one too. The module's `moe.cluster` says
    which ranks share a node.

    Before -> after, with two groups:

    ```mlir
    %h = moe.all_to_all_v %d, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>} : ..
    %y = moe.all_to_all_v %o, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>} : ..
    // ->
    %e0 = moe.phase %e over <"ep", 4, 1> {phase = 0 : i64, phases = 2 : i64} : ..
    %h0 = moe.all_to_all_v %d, %b, %e0 over <"ep", 4, 1> {direction = #moe<direction to_experts>, phases = 2 : i64} : ..
    %y0 = moe.all_to_all_v %o0, %b, %e0 over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 2 : i64} : ..
    ..
    %y1 = moe.all_to_all_v %o1, %b, %e1 addend(%y0) over <"ep", 4, 1> {.., phase = 1 : i64, phases = 2 : i64} : ..
    ```
  }];
  let options = [
    Option<"groupSize", "group-size", "int64_t", /*default=*/"0",
           "Neighbouring ranks of a group; 0: a node, or inside one a fourth of the members">,
    Option<"order", "order", "::mlir::moe::SmartOrder", /*default=*/"::mlir::moe::SmartOrder::Topology",
           "In which order groups exchange", [{::llvm::cl::values(
             clEnumValN(::mlir::moe::SmartOrder::Ring, "ring", "by distance"),
             clEnumValN(::mlir::moe::SmartOrder::Topology, "topology", "the fastest first and last"))}]>
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeTopologyGate : Pass<"moe-topology-gate", "::mlir::func::FuncOp"> {
  let summary = "few tokens choose experts of other nodes";
  let description = [{
    FasterMoE's topology-aware gate (section 4.3): sets on each moe.route that of B tokens at most L = W_net / (M W_local) B
    leave their node of M ranks, for each choice apart; the others choose again among the experts of the node. It routes
    otherwise than the plain gate, and so trains another model. The module's `moe.cluster` says what M, W_net
    (`node_link_bytes`) and W_local (`link_bytes`) are; where the latter is not known nobody leaves. To run behind
    moe-pause-mp. Where all ranks that exchange are in one node nothing changes.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

class MoeResidualOption<string name, string text>
    : Option<name, name, "::mlir::moe::Residual", /*default=*/"::mlir::moe::Residual::keep", text, [{::llvm::cl::values(
        clEnumValN(::mlir::moe::Residual::keep, "keep", "in the device's memory"),
        clEnumValN(::mlir::moe::Residual::recompute, "recompute", "made again"),
        clEnumValN(::mlir::moe::Residual::recommunicate, "recommunicate", "exchanged again"),
        clEnumValN(::mlir::moe::Residual::offload, "offload", "in the host's memory"))}]>;

def MoeSetResiduals : Pass<"moe-set-residuals", "::mlir::func::FuncOp"> {
  let summary = "decide how the backward gets what the experts took and computed";
  let description = [{
    Sets `moe.residual` on ops between the dispatch and the combine of each layer, which moe-differentiate obeys: `keep`, the
    default; `offload` to the host's memory and back; `recompute`, or `recommunicate` of an exchange: the op again, in the
    backward, on operands that are had in their own ways. Any op may have the attribute.

    `dispatched` is for what the experts take (T_DI of MPipeMoE, section III-D): keep, offload, or recommunicate, which repeats
    everything from the dispatch on. `hidden` is for what is between their first and their last product (T_M): keep,
    offload or recompute; what is elementwise of an offloaded value is made again of that. MPipeMoE's strategies: S1
    offload and offload, S2 recommunicate and offload, S3 offload and recompute, S4 recommunicate and recompute.
  }];
  let options = [
    MoeResidualOption<"dispatched", "What the experts take">,
    MoeResidualOption<"hidden", "What they compute inside">
  ];
}

#endif // MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEPASSES_TD
