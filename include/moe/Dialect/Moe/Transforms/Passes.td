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

def MoeSetCluster : Pass<"moe-set-cluster", "::mlir::ModuleOp"> {
  let summary = "tell the passes behind it what the cluster is";
  let description = [{
    Sets the module's `moe.cluster`, in place of the one that is there.

    Example: `moe-opt --pass-pipeline='builtin.module(moe-set-cluster{rates="#moe.cluster<node_ranks = 4>"},..)'`
  }];
  let options = [Option<"rates", "rates", "std::string", /*default=*/"\"#moe.cluster<node_ranks = 8>\"", "A #moe.cluster">];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

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

def MoeSequenceParallel : Pass<"moe-sequence-parallel", "::mlir::func::FuncOp"> {
  let summary = "norms, dropout and residual sums on each rank's part of the tokens";
  let description = [{
    Megatron's sequence parallelism (Korthikanti et al., 2022) over mp, whatever made the program: an all_reduce over mp that an
    op takes which works row by row (MoeRowwiseOpInterface) becomes a reduce_scatter of rows and an all_gather, and such ops
    are done for the part, with the gather behind them; what else they take is sliced. So between the products that are divided
    over mp, rows and what is kept of them for the backward are a part, and an all_gather comes before the next product. The
    bytes exchanged stay the same. To run behind the rewrites of layers, whose gathers of rows are taken likewise, and before
    moe-cut-stages and moe-differentiate. Where there is nothing to divide a warning says so.

    Before -> after, with mp = 2:

    ```mlir
    %s = moe.all_reduce %p over <"mp", 2, 1> : .. -> tensor<16x8xf32>
    %r = moe.add %x, %s : tensor<16x8xf32>
    %n = moe.norm %r, %gamma {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : ..
    // ->
    %s = moe.reduce_scatter %p over <"mp", 2, 1> {dim = 0 : i64} : .. -> tensor<8x8xf32>
    %xs = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : .. -> tensor<8x8xf32>
    %r = moe.add %xs, %s : tensor<8x8xf32>
    %ns = moe.norm %r, %gv {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : ..
    %n = moe.all_gather %ns over <"mp", 2, 1> {dim = 0 : i64} : .. -> tensor<16x8xf32>
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
    does not take and a result that does not have its layout: a missing all-reduce or an unsplit block of tokens. The axes are
    those of the module's moe.parallel, divided further by groups of the program. A group that does not fit the others is an
    error (see `#moe.parallel`).

    Then follows, axis by axis, how each varying value is placed: as equal copies, as shards of a dimension, or as partial
    sums (Placement.h). A sum of copies or of shards is an error, and so are partial sums that are taken for whole values: by an
    activation, by a product with other partial sums, by a broadcast, by moe.assume_replicated, as a result. Nothing is
    concluded from values whose placement no rule follows.
  }];
}

def MoeAccumulate : Pass<"moe-accumulate", "::mlir::func::FuncOp"> {
  let summary = "a step of several micro-batches";
  let description = [{
    Repeats what depends on the inputs of an SPMD program for each of n micro-batches: an input [S, ..] becomes [n, S, ..],
    and losses and metrics the means over the micro-batches. What depends on parameters alone stays as it is, so that the
    gradients of all micro-batches are added up before they are summed over ranks, once. The ops of micro-batch i say so in
    `moe.micro_batch`, and those that moe-differentiate builds for them do too.

    What a mean divides by (moe.label_count) is counted once, in the input of the whole step, and each micro-batch divides by
    the mean of these counts. So a mean over labelled tokens is that over all of the step, however they are spread.

    The micro-batches are put down last one first: what moe-differentiate appends then begins with micro-batch 0, and each
    gradient is added to those of the micro-batches before it. moe-order-micro-batches then brings forward and backward of
    each together.
  }];
  let options = [
    Option<"microBatches", "micro-batches", "int64_t", /*default=*/"1", "How many">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeOrderMicroBatches : Pass<"moe-order-micro-batches", "::mlir::func::FuncOp"> {
  let summary = "which micro-batch, and which stage of a pipeline, comes when";
  let description = [{
    Without stages forward and backward of one micro-batch after the other: the values that one micro-batch keeps for its
    backward are then free before the next one's.

    With stages (moe-cut-stages) units of a micro-batch, a stage and a direction, in an order in which each comes behind those
    whose values it needs and those of each device are in the order of 1F1B: as many forwards as it takes until the
    first backward arrives, then one forward and one backward in turn. With several stages for each device (stage s is of
    device s mod devices) the order is that of interleaved 1F1B, for which micro-batches are a multiple of devices
    (Narayanan et al., SC 2021, section 2.2).
  }];
  let options = [
    Option<"devices", "devices", "int64_t", /*default=*/"1", "Of the pipeline; they divide the stages">
  ];
}

def MoeCutStages : Pass<"moe-cut-stages", "::mlir::func::FuncOp"> {
  let summary = "cut a forward program into stages of a pipeline";
  let description = [{
    Sets `moe.stage` on the ops of a forward SPMD program, such that stages are consecutive and the slowest takes as little time
    as possible: what its ops take by their costs at the rates of `moe.cluster`, with tokens that choose experts evenly, and what is sent
    to it. Cuts are where less is handed over than next to them: between blocks, and between the parts of a block. Ops that
    need no inputs, and those that are next to nothing, belong to no stage: each makes them itself.

    To run behind the passes that make the schedule and before moe-accumulate and moe-differentiate, whose ops belong to the
    stages of those that they are made of.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", /*default=*/"1", "How many">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeRecomputeBlocks : Pass<"moe-recompute-blocks", "::mlir::func::FuncOp"> {
  let summary = "keep for the backward only what blocks hand over";
  let description = [{
    Sets `moe.residual` to recompute, or recommunicate, on the ops of a forward SPMD program but for those whose results pass
    from one block to another, those behind the last such place (the head and the loss), and those that have it already. Blocks
    end where moe-cut-stages may cut and about as much is handed over as at most other such places.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeSplitStages : Pass<"moe-split-stages", "::mlir::ModuleOp"> {
  let summary = "a program for each device of a pipeline";
  let description = [{
    Divides a program whose ops have `moe.stage` among the members of the group `pp`: member d does what belongs to the stages
    s with s mod pp = d, in the program's order. An op without a stage, e.g. one that adds up what two stages made or updates a
    parameter, is done where its largest operand is; what needs arguments alone is repeated wherever it is used. Each value that
    another member uses is sent once (moe.send) and received (moe.receive); both stand in the order of the whole program, so
    that no order of the members' streams can hang. Arguments go where they are used; what updates one (`moe.updates`) goes
    wherever that is: a head that is tied to the embedding gets its new value from where that is updated.

    The programs are named stage0, stage1, .. and say whose they are in `moe.ranks`. With pp = 1 nothing changes.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

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

def MoeDifferentiate : Pass<"moe-differentiate", "::mlir::func::FuncOp"> {
  let summary = "append the backward program";
  let description = [{
    Turns `f(args) -> results` into `f(args, cotangents) -> (results, gradients)`: a cotangent argument for each
    floating-point result, a gradient for each argument through which one flows, each with the layout of its primal. A result
    of role `loss` has the cotangent 1 instead, and then other results have none. The
    backward is each op's own adjoint in reverse order, so it belongs to whatever schedule the forward has.

    What the backward needs of the forward it gets as `moe.residual` on the op that makes it says: kept; copied to the host
    (moe.offload) and back (moe.fetch); or made again by the same ops, just before it is needed. Chunk (`moe.chunk`) and
    ring (`moe.ring`) of an op are those of its adjoint, the gradients of a ring's values being a ring. A value that is
    kept leaves its ring.

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
