//===- MoeAttrs.td - groups, layouts, enums ------------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEATTRS_TD
#define MOE_DIALECT_MOE_IR_MOEATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "moe/Dialect/Moe/IR/MoeDialect.td"

class Moe_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::moe";
  let genSpecializedAttr = 0;
}
class Moe_EnumAttr<I32EnumAttr info, string mnemonic> : EnumAttr<Moe_Dialect, info, mnemonic>;

class Moe_Attr<string name, string attrMnemonic> : AttrDef<Moe_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Moe_GroupAttr : Moe_Attr<"Group", "group"> {
  let summary = "a group of ranks: rank r is member (r / stride) mod size";
  let description = [{
    The ranks with the same `r / (stride * size)` and the same `r mod stride` form one instance of the group. The name is
    only for people and reports: two groups with the same size and stride are the same group.

    Example: `#moe.group<"ep", 4, 2>`
  }];
  let parameters = (ins StringRefParameter<"name">:$name, "int64_t":$size, "int64_t":$stride);
  let assemblyFormat = "`<` $name `,` $size `,` $stride `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether both have the same ranks. Groups of one size and stride do, whatever their names.
    bool hasSameRanks(GroupAttr other) const {
      return getSize() == other.getSize() && getStride() == other.getStride();
    }
    /// Whether every instance lies inside a node of `devicesPerNode` consecutive ranks. A `world` of 0 is unknown.
    bool isInsideNode(int64_t devicesPerNode, int64_t world) const {
      return getSize() == 1 || (world > 0 && world <= devicesPerNode) || devicesPerNode % (getSize() * getStride()) == 0;
    }
    /// Two groups that together reach the members of this one: those in the same place of every node of `nodeRanks`
    /// consecutive ranks, and those of one node. None unless the members are several nodes of several each.
    std::optional<std::pair<GroupAttr, GroupAttr>> divideByNode(int64_t nodeRanks) const;
  }];
}

def Moe_ParallelAttr : Moe_Attr<"Parallel", "parallel"> {
  let summary = "how the ranks are divided, for the dense part and for the expert part of a model";
  let description = [{
    `world = pp * dp * cp * mp` for the dense part, and `world = pp * edp * ep * esp` for the expert part, on the same
    ranks. The file docs/Glossary.md explains these groups. Their strides: mp and esp have stride 1, ep has stride esp, cp
    stride mp, dp stride cp*mp, edp stride ep*esp, and pp stride world/pp. The group dp_cp has the ranks with different
    tokens. The expert part does not know cp: its tokens are those of a rank.

    Sorted, the boundaries 1, mp, mp*cp, esp, ep*esp, world/pp, world must each divide the next one. So every group is a union of
    the *axes* between neighbouring boundaries. A program may divide these axes further: the stride, and stride * size, of
    each group that its ops use are boundaries too, as long as each boundary still divides the next. So an exchange over
    ep may be split into one inside each node and one between the nodes.

    Example: `#moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4, esp = 2>`
  }];
  let parameters = (ins "int64_t":$world, "int64_t":$pp, "int64_t":$dp, "int64_t":$mp, "int64_t":$ep, "int64_t":$esp,
                        DefaultValuedParameter<"int64_t", "1">:$cp);
  let skipDefaultBuilders = 1;
  let builders = [AttrBuilder<(ins "int64_t":$world, "int64_t":$pp, "int64_t":$dp, "int64_t":$mp, "int64_t":$ep, "int64_t":$esp,
                                   CArg<"int64_t", "1">:$cp),
                              [{ return $_get($_ctxt, world, pp, dp, mp, ep, esp, cp); }]>];
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Expert data parallelism: world / (pp * ep * esp).
    int64_t getEdp() const { return getWorld() / (getPp() * getEp() * getEsp()); }
    /// The ranks with different tokens: dp, or dp_cp where sequences are divided.
    GroupAttr getTokenGroup() const { return getGroup(getCp() > 1 ? "dp_cp" : "dp"); }
    /// The group of that name (pp, dp, mp, ep, esp, edp, ep_esp, cp, dp_cp or world), or null. With `_N` behind a name it
    /// is a group of N neighbouring members of that group, such as dp_4, whose number N divides.
    GroupAttr getGroup(::llvm::StringRef name) const;
    /// The names of all groups, in the order in which a group of ranks is looked up by its axes.
    static ::llvm::ArrayRef<::llvm::StringLiteral> getGroupNames();
    /// Groups of the same model on one rank.
    static ParallelAttr getSingle(::mlir::MLIRContext *context) { return get(context, 1, 1, 1, 1, 1, 1); }
  }];
}

def Moe_CutAttr : Moe_Attr<"Cut", "cut"> {
  let summary = "which rows of each sequence a rank has where a group divides sequences";
  let description = [{
    Without `zigzag`, member r of the n members has chunk r of n equal chunks of each sequence. With it, the member has
    chunks r and 2n - 1 - r of 2n. So all members have the same work where a token sees the tokens before it.

    Example: `#moe.cut<<"cp", 4, 2>, zigzag>`
  }];
  let parameters = (ins AttrParameter<"GroupAttr", "">:$group, DefaultValuedParameter<"bool", "false">:$zigzag);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Number of chunks of a sequence.
    int64_t getChunks() const { return getGroup().getSize() * (getZigzag() ? 2 : 1); }
  }];
}

def Moe_ClusterAttr : Moe_Attr<"Cluster", "cluster"> {
  let summary = "the figures of a cluster that passes know";
  let description = [{
    The fields are those of `ClusterRates` (moe/Dialect/Moe/IR/ClusterRates.h), in SI units. It stands on a module as
    `moe.cluster`. A field that is left out has its default.

    Example: `#moe.cluster<node_ranks = 8, flops = 4.1e14, expert_start = 2.0e-5>`
  }];
  let parameters = (ins AttrOrTypeParameter<"::mlir::moe::ClusterRates", "", "const ::mlir::moe::ClusterRates &">:$rates);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Moe_LayoutAttr : Moe_Attr<"Layout", "layout"> {
  let summary = "over which groups each dimension of a global tensor is sharded";
  let description = [{
    Each dimension has a list of group names, outermost group first. A group that is not named holds replicas.

    If cp divides rows, it divides each sequence of them: `sequence` is the rows of one, and `chunks` the number of equal
    chunks of it. Member r of cp has chunk r, or, where there are twice as many chunks as members n, chunks r and
    2n - 1 - r. moe-partition adds both to the layouts of arguments and results.

    Example: `#moe.layout<[ep], [], [esp]>`, `#moe.layout<[dp, cp], [], sequence = 16, chunks = 8>`
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::ArrayAttr">:$dims, DefaultValuedParameter<"int64_t", "0">:$sequence,
                        DefaultValuedParameter<"int64_t", "0">:$chunks);
  let hasCustomAssemblyFormat = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilder<(ins "::llvm::ArrayRef<::mlir::ArrayAttr>":$dims, CArg<"int64_t", "0">:$sequence, CArg<"int64_t", "0">:$chunks),
                [{ return $_get($_ctxt, dims, sequence, chunks); }]>,
    /// A tensor of rank `rank`, replicated everywhere.
    AttrBuilder<(ins "int64_t":$rank)>,
    /// At most one group for each dimension; an empty name means no group.
    AttrBuilder<(ins "::llvm::ArrayRef<::llvm::StringRef>":$groups)>
  ];
  let extraClassDeclaration = [{
    /// Rows of tokens, and, where `rank` is 2, their columns over `columns` or whole.
    static LayoutAttr getRows(ParallelAttr parallel, int64_t rank = 2, ::llvm::StringRef columns = "");
    /// The group names of dimension `dim`.
    ::llvm::SmallVector<::llvm::StringRef> getGroups(unsigned dim) const;
    /// Number of parts of dimension `dim`. Fails on a name that `parallel` does not have.
    ::llvm::FailureOr<int64_t> getParts(unsigned dim, ParallelAttr parallel) const;
    /// The shard of a global tensor on one rank. Fails, with an error that names `what`, on an unknown group or a dimension
    /// that cannot be split evenly.
    ::llvm::FailureOr<::mlir::RankedTensorType>
    getLocalType(::mlir::RankedTensorType global, ParallelAttr parallel, ::llvm::StringRef what,
                 ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError) const;
  }];
}

def Moe_ChunkAttr : Moe_Attr<"Chunk", "chunk"> {
  let summary = "the chunk of rows that an op works on";
  let description = [{
    moe-chunk-experts sets it on ops as `moe.chunk`. The adjoint of an op belongs to the chunk of the op.

    Example: `#moe.chunk<1 of 4>`
  }];
  let parameters = (ins "int64_t":$index, "int64_t":$chunks);
  let assemblyFormat = "`<` $index `of` $chunks `>`";
  let genVerifyDecl = 1;
}

def Moe_StageAttr : Moe_Attr<"Stage", "stage"> {
  let summary = "the stage of a pipeline that an op belongs to";
  let description = [{
    moe-cut-stages sets it on ops as `moe.stage`. The adjoint of an op belongs to the backward of the op's stage.
    moe-split-backward marks the ops of the backward on which no other stage waits: they compute gradients of weights.

    Example: `#moe.stage<2>`, `#moe.stage<2, backward>`, `#moe.stage<2, weights>`
  }];
  let parameters = (ins "int64_t":$index, DefaultValuedParameter<"::mlir::moe::StageWork", "StageWork::forward">:$work);
  let assemblyFormat = "`<` $index (`,` custom<StageWork>($work)^)? `>`";
  let extraClassDeclaration = [{
    bool isBackward() const { return getWork() != StageWork::forward; }
  }];
  let genVerifyDecl = 1;
}

def Moe_RingAttr : Moe_Attr<"Ring", "ring"> {
  let summary = "how many values of a ring may be alive";
  let description = [{
    The values with one ring name in a program take turns, in program order, in `depth` places. Value i + depth is not
    written before all uses of value i are done. The attribute stands on an op as `moe.ring`, for the op's results, and on
    a plan.buffer.

    Example: `#moe.ring<"layer0.hidden", 1>`
  }];
  let parameters = (ins StringRefParameter<"name">:$name, "int64_t":$depth);
  let assemblyFormat = "`<` $name `,` $depth `>`";
  let genVerifyDecl = 1;
}

// The numbers are the same as in moert.h.
def Moe_Activation : Moe_Enum<"Activation", "activation function", [
  I32EnumAttrCase<"relu", 0>, I32EnumAttrCase<"gelu", 1>, I32EnumAttrCase<"silu", 2>, I32EnumAttrCase<"swiglu", 3>,
  I32EnumAttrCase<"swiglu_clamped", 4>, I32EnumAttrCase<"sigmoid", 5>, I32EnumAttrCase<"gelu_tanh", 6>,
  I32EnumAttrCase<"softplus", 7>]>;
def Moe_ActivationAttr : Moe_EnumAttr<Moe_Activation, "activation">;

def Moe_Norm : Moe_Enum<"Norm", "what a norm divides by", [
  I32EnumAttrCase<"layer", 0>, I32EnumAttrCase<"rms", 1>, I32EnumAttrCase<"none", 2>]>;
def Moe_NormAttr : Moe_EnumAttr<Moe_Norm, "norm">;

def Moe_Score : Moe_Enum<"Score", "how logits become scores", [
  I32EnumAttrCase<"softmax", 0>, I32EnumAttrCase<"sigmoid", 1>]>;
def Moe_ScoreAttr : Moe_EnumAttr<Moe_Score, "score">;

def Moe_GroupScore : Moe_Enum<"GroupScore", "how a group of experts is scored", [
  I32EnumAttrCase<"max", 0>, I32EnumAttrCase<"top2", 1>]>;
def Moe_GroupScoreAttr : Moe_EnumAttr<Moe_GroupScore, "group_score">;

def Moe_Direction : Moe_Enum<"Direction", "direction of a ragged exchange", [
  I32EnumAttrCase<"to_experts", 0>, I32EnumAttrCase<"from_experts", 1>]>;
def Moe_DirectionAttr : Moe_EnumAttr<Moe_Direction, "direction">;

def Moe_Residual : Moe_Enum<"Residual", "how the backward gets a value of the forward", [
  I32EnumAttrCase<"keep", 0>, I32EnumAttrCase<"recompute", 1>, I32EnumAttrCase<"recommunicate", 2>,
  I32EnumAttrCase<"offload", 3>]>;
def Moe_ResidualAttr : Moe_EnumAttr<Moe_Residual, "residual">;

def Moe_ShadowPolicy : Moe_Enum<"ShadowPolicy", "how experts are chosen to be shadows", [
  I32EnumAttrCase<"algorithm1", 0>, I32EnumAttrCase<"prefix", 1>, I32EnumAttrCase<"simulate", 2>]>;
def Moe_ShadowPolicyAttr : Moe_EnumAttr<Moe_ShadowPolicy, "shadow_policy">;

#endif // MOE_DIALECT_MOE_IR_MOEATTRS_TD
