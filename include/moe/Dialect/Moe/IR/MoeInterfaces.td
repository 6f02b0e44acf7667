//===- MoeInterfaces.td - what every op tells the passes -*- tablegen -*-===//
//
// Passes know ops through these interfaces alone; nothing else may switch over op kinds.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_MOE_IR_MOEINTERFACES_TD
#define MOE_DIALECT_MOE_IR_MOEINTERFACES_TD

include "mlir/IR/OpBase.td"

def MoeSpmdOpInterface : OpInterface<"MoeSpmdOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{How an op changes the SPMD states of its values (design: *replicated* or *varying* per rank axis).}];
  let methods = [
    InterfaceMethod<[{
      From the axes over which the operands vary, gives those over which each operand has to vary (`required`, never
      fewer than it does) and over which the results vary. Fails with an error where no cast by `moe.to_varying` can help.
      The default is a rank-local op: all operands are cast to the union of their states, the results have it too.
    }], "::llvm::LogicalResult", "inferSpmd",
      (ins "const ::mlir::moe::SpmdAxes &":$axes, "::llvm::ArrayRef<::mlir::moe::AxisSet>":$operands,
           "::llvm::SmallVectorImpl<::mlir::moe::AxisSet> &":$required,
           "::llvm::SmallVectorImpl<::mlir::moe::AxisSet> &":$results), "",
      [{
        ::mlir::moe::AxisSet all;
        for (::mlir::moe::AxisSet set : operands)
          all = all | set;
        required.assign(operands.size(), all);
        results.assign($_op->getNumResults(), all);
        return ::mlir::success();
      }]>,
    InterfaceMethod<[{
      The op in the index notation of Placement.h; empty where it says nothing of its results. Ops of a group have none.
    }], "::std::string", "getIndexRule", (ins), "", [{ return ""; }]>,
    InterfaceMethod<[{
      From how the operands are placed along `axis`, one axis over which they vary, says how the results are. Fails with an
      error where a sum is missing or counts values more than once. The default follows the index notation.
    }], "::llvm::LogicalResult", "inferPlacements",
      (ins "const ::mlir::moe::SpmdAxes &":$axes, "::mlir::moe::AxisSet":$axis,
           "::llvm::ArrayRef<::mlir::moe::Placement>":$operands,
           "::llvm::SmallVectorImpl<::mlir::moe::Placement> &":$results), "",
      [{
        return ::mlir::moe::inferPlacementsByRule($_op, $_op.getIndexRule(), axes.describe(axis), operands, results);
      }]>
  ];
}

def MoeDifferentiableOpInterface : OpInterface<"MoeDifferentiableOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{The adjoint of an op, built from the same dialect.}];
  let methods = [
    InterfaceMethod<[{
      Builds the cotangents of the operands from those of the results. A null cotangent is zero; a null gradient means that
      none flows (integer operands, constants). Each gradient has the type of its operand and its SPMD state.
    }], "void", "buildAdjoint",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$cotangents,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$gradients)>
  ];
}

def MoeCostOpInterface : OpInterface<"MoeCostOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    What an op needs, per rank: floating-point operations, bytes, the exchange with the other members of a group, and the
    resource that it keeps busy. Ops of both dialects implement it, model-graph ops as if one rank did all the work.
  }];
  let methods = [
    InterfaceMethod<[{
      The default reads every operand and writes every result once and computes nothing.
    }], "::mlir::moe::OpCost", "getOpCost", (ins), "", [{ return ::mlir::moe::getMemoryCost($_op); }]>,
    InterfaceMethod<[{
      The floating-point operations of products that the model needs by its definition, whatever a plan adds to them: empty
      places of experts with a capacity, recomputation. Of a model-graph op; the default is what getOpCost() says of an op
      that keeps the matrix units busy, and 0 for other ops.
    }], "double", "getModelFlops", (ins), "",
      [{
        ::mlir::moe::OpCost cost = $_op.getOpCost();
        return cost.resource == ::mlir::moe::Resource::Matrix ? cost.flops : 0.0;
      }]>,
    InterfaceMethod<[{The group whose members the exchange of getOpCost() is between; null where there is none.}],
      "::mlir::moe::GroupAttr", "getCostGroup", (ins), "", [{ return {}; }]>
  ];
}

def MoeCountsOpInterface : OpInterface<"MoeCountsOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op with results that hold counts of routed rows, [sources, experts] i32. The simulator follows these counts from the
    routing to the ops that work on the rows.
  }];
  let methods = [
    InterfaceMethod<[{
      How each such result follows from the kernel's inputs (moe/OpFacts/CountsRule.h). Other results have no rule.
    }], "::llvm::SmallVector<::mlir::moe::CountsRule>", "getCountsRules">
  ];
}

def MoeKernelOpInterface : OpInterface<"MoeKernelOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{Which call of the runtime (`moert_<kernel>`, moert.h) carries the op out, and on which memory.}];
  let methods = [
    InterfaceMethod<[{The call's name without `moert_`; empty where nothing runs. The default is the op's mnemonic.}],
      "::llvm::StringRef", "getKernelName", (ins), "", [{ return $_op->getName().stripDialect(); }]>,
    InterfaceMethod<[{The call's inputs in its order; null where an optional one is absent. The default is the operands.}],
      "::llvm::SmallVector<::mlir::Value>", "getKernelInputs", (ins), "",
      [{ return ::llvm::SmallVector<::mlir::Value>($_op->getOperands()); }]>,
    InterfaceMethod<[{The call's i64 and f64 attributes in its order.}],
      "::llvm::SmallVector<::mlir::Attribute>", "getKernelParams", (ins), "", [{ return {}; }]>,
    InterfaceMethod<[{The group that the call takes, or null.}],
      "::mlir::moe::GroupAttr", "getKernelGroup", (ins), "", [{ return {}; }]>,
    InterfaceMethod<[{Whether the members of the group meet in this call.}],
      "bool", "isCollective", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{The only other member of the group that takes part in the call; none where all members do.}],
      "::std::optional<int64_t>", "getKernelPeer", (ins), "", [{ return {}; }]>,
    InterfaceMethod<[{Whether every result is the first operand's memory; then the call, if any, writes nothing.}],
      "bool", "isAlias", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{Of an alias: which part of that memory result `result` is, where not all of it.}],
      "::std::optional<::mlir::moe::RankPart>", "getAliasPart", (ins "unsigned":$result), "", [{ return {}; }]>,
    InterfaceMethod<[{Whether the results lie in the host's memory.}],
      "bool", "isOnHost", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{
      For an op without a call whose result is its operands side by side, each of which is to be computed in its place: where
      operand `operand` lies in the result.
    }], "::std::optional<::mlir::moe::RankPart>", "getOperandPart", (ins "unsigned":$operand), "", [{ return {}; }]>,
    InterfaceMethod<[{The kernel inputs in whose memory the first result may be written.}],
      "::llvm::SmallVector<int64_t>", "getInPlaceInputs", (ins), "", [{ return {}; }]>
  ];
}

def MoeSplittableOpInterface : OpInterface<"MoeSplittableOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op on operand 0 that can be done block by block along dimension 0: of blocks side by side it gives the results of the
    blocks side by side. Passes that overlap an exchange with what follows it split both.
  }];
  let methods = [
    InterfaceMethod<[{
      Whether it can in `parts` blocks that the members of `group` receive in different orders (moe.all_to_all_phase).
    }], "bool", "canSplit", (ins "int64_t":$parts, "::mlir::moe::GroupAttr":$group)>,
    InterfaceMethod<[{Builds the op on one of `parts` blocks.}],
      "::mlir::Value", "buildOnPart", (ins "::mlir::OpBuilder &":$builder, "::mlir::Value":$part, "int64_t":$parts)>
  ];
}

def MoeChunkableOpInterface : OpInterface<"MoeChunkableOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op on the way of experts' rows from dispatch to combine, or of their counts: each row goes its own way, computed, moved
    to other ranks or added to its equals there, so that the op can be done for part of the rows alone. Rows are dimension
    1 of [E, T, M] and dimension 0 of [R, M].
  }];
  let methods = [
    InterfaceMethod<[{
      Whether the op can be done for a part of the rows without changing what is done with each.
    }], "bool", "canChunk", (ins "::mlir::moe::RowChunk":$chunk), "", [{
        return ::mlir::moe::canScaleRows($_op, chunk);
      }]>,
    InterfaceMethod<[{
      Builds the op for a part of the rows, its operands replaced as `mapping` says, and maps its results. The default is a
      copy whose floating-point results have fewer rows.
    }], "::mlir::Operation *", "buildOnChunk",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::IRMapping &":$mapping, "::mlir::moe::RowChunk":$chunk), "",
      [{ return ::mlir::moe::cloneOnChunk($_op, builder, mapping, chunk); }]>,
    InterfaceMethod<[{
      Builds the op for the rows of shadows, which every member of `scope.ep` computes by itself: none leaves for another
      one. Its operands are replaced as `mapping` says, and its results mapped. The default is a copy whose results have
      to its operands the sizes that they had.
    }], "::mlir::Operation *", "buildOnShadows",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::IRMapping &":$mapping, "::mlir::moe::ShadowScope":$scope), "",
      [{ return ::mlir::moe::cloneOnShadows($_op, builder, mapping); }]>
  ];
}

def MoeRowwiseOpInterface : OpInterface<"MoeRowwiseOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op each row of whose only result is computed from the same rows of its leading operands, so that each member of a group can
    do it for a part of the rows. Rows are dimension 0.
  }];
  let methods = [
    InterfaceMethod<[{How many leading operands have the rows.}], "unsigned", "getNumRowOperands", (ins), "", [{ return 1; }]>,
    InterfaceMethod<[{Whether the members of `group` can each do an equal part of the rows.}],
      "bool", "canDivideRows", (ins "::mlir::moe::GroupAttr":$group), "",
      [{ return ::mlir::moe::hasRowsFor($_op->getResult(0).getType(), group); }]>,
    InterfaceMethod<[{
      Builds the op for the part of a member of `group`, which `rows` are, and returns its result. The default is a copy.
    }], "::mlir::Value", "buildOnRowPart",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$rows, "::mlir::moe::GroupAttr":$group), "",
      [{ return ::mlir::moe::cloneOnRowPart($_op, builder, rows); }]>
  ];
}

def MoeSlotsOpInterface : OpInterface<"MoeSlotsOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{An op that gives each choice its row among the dispatched tokens.}];
  let methods = [
    InterfaceMethod<[{The row of each choice, [S, k].}], "::mlir::Value", "getSlots">,
    InterfaceMethod<[{The rows that each expert uses in each chunk, [chunks, E].}], "::mlir::Value", "getCounts">,
    InterfaceMethod<[{Whether rows are [R, M].}], "bool", "isDropless">,
    InterfaceMethod<[{Into how many pieces of memory the rows are divided.}], "int64_t", "getChunks">,
    InterfaceMethod<[{Whether setChunked can be.}], "bool", "canChunk", (ins), "", [{ return true; }]>,
    InterfaceMethod<[{
      Divides the rows into `chunks` of `rows` each, of each expert with a capacity. Rows beyond the needed ones stay empty:
      who is dropped does not change. The type of the counts becomes theirs.
    }], "void", "setChunked", (ins "int64_t":$chunks, "int64_t":$rows)>
  ];
}

def MoeAccumulatingOpInterface : OpInterface<"MoeAccumulatingOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{An op that can add another value to its only result, in that value's memory.}];
  let methods = [
    InterfaceMethod<[{The operand for that value, none or one.}], "::mlir::MutableOperandRange", "getAddendMutable">,
    InterfaceMethod<[{Whether it can add this one.}], "bool", "canAccumulate", (ins "::mlir::Value":$addend), "",
      [{ return true; }]>
  ];
}

def MoeStepCountOpInterface : OpInterface<"MoeStepCountOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op that counts something in one tensor, of any shape: of tensors side by side it gives the sum of their counts. Means over
    what is counted are divided by it. moe-accumulate counts in the inputs of the whole step, so that such a mean
    is one over all micro-batches and not a mean of theirs.
  }];
}

def MoePartitionOpInterface : OpInterface<"MoePartitionOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{How a model-graph (L0) op is laid out over ranks and becomes part of the SPMD program (L1). The default is
    an elementwise op of one operand: it takes any layout and keeps it.}];
  let methods = [
    InterfaceMethod<[{
      Fills the layouts of operands that are null (not decided yet) and gives those of the results. Fails with an error
      where a decided layout cannot be used.
    }], "::llvm::LogicalResult", "inferLayouts",
      (ins "::mlir::moe::ParallelAttr":$parallel,
           "::llvm::MutableArrayRef<::mlir::moe::LayoutAttr>":$operands,
           "::llvm::SmallVectorImpl<::mlir::moe::LayoutAttr> &":$results), [{}], [{
        inferElementwiseLayouts($_op, operands, results);
        return ::mlir::success();
      }]>,
    InterfaceMethod<[{
      Builds the baseline per-rank program from the operands' shards, which have those `layouts`. Capacity, slots and auxiliary loss are per group of
      tokens; `groups` is the least number of such groups in the whole model, one for each token shard.
    }], "::llvm::LogicalResult", "partition",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::moe::ParallelAttr":$parallel, "int64_t":$groups,
           "::llvm::ArrayRef<::mlir::moe::LayoutAttr>":$layouts, "::mlir::ValueRange":$operands, "::llvm::SmallVectorImpl<::mlir::Value> &":$results), [{}], [{
        results.push_back(cloneOnShard($_op, builder, operands));
        return ::mlir::success();
      }]>
  ];
}

#endif // MOE_DIALECT_MOE_IR_MOEINTERFACES_TD
