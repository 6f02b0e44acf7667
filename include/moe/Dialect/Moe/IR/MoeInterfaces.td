//===- MoeInterfaces.td - what ops tell the passes -------*- tablegen -*-===//
//
// Passes know ops only through these interfaces. No other code may switch over op kinds.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_MOE_IR_MOEINTERFACES_TD
#define MOE_DIALECT_MOE_IR_MOEINTERFACES_TD

include "mlir/IR/OpBase.td"

def MoeSpmdOpInterface : OpInterface<"MoeSpmdOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    Rules for the SPMD states of an op's values: *replicated* or *varying*, for each axis of ranks
    (docs/Rationale.md).
  }];
  let methods = [
    InterfaceMethod<[{
      `operands` are the axes over which the operands vary. Sets `required`, the axes over which each operand has to vary,
      and `results`, the axes over which the results vary. An operand never has to vary over fewer axes than it does.
      Fails with an error where no cast by `moe.to_varying` can help. The default is for an op that is local to a rank:
      all operands are cast to the union of their states, and the results have that state too.
    }], "::llvm::LogicalResult", "inferSpmd",
      (ins "const ::mlir::moe::SpmdAxes &":$axes, "::llvm::ArrayRef<::mlir::moe::AxisSet>":$operands,
           "::llvm::SmallVectorImpl<::mlir::moe::AxisSet> &":$required,
           "::llvm::SmallVectorImpl<::mlir::moe::AxisSet> &":$results), "",
      [{
        ::mlir::moe::AxisSet all = ::mlir::moe::unite(operands);
        required.assign(operands.size(), all);
        results.assign($_op->getNumResults(), all);
        return ::mlir::success();
      }]>,
    InterfaceMethod<[{
      The op in the index notation of Placement.h. It is empty where the op says nothing about its results. Ops of a group
      have no rule.
    }], "::std::string", "getIndexRule", (ins), "", [{ return ""; }]>,
    InterfaceMethod<[{
      Sets `results`, the placements of the results along one axis over which operands vary. Fails with an error where a sum
      is missing or counts values more than once. The default follows the index notation.
    }], "::llvm::LogicalResult", "inferPlacements",
      (ins "const ::mlir::moe::AxisPlacements &":$along, "::llvm::SmallVectorImpl<::mlir::moe::Placement> &":$results), "",
      [{ return along.inferByRule($_op.getIndexRule(), results); }]>
  ];
}

def MoeDifferentiableOpInterface : OpInterface<"MoeDifferentiableOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    Builds the adjoint of an op from ops of the same dialect.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the cotangents of the leading operands from the cotangents of the results. A null cotangent is zero. No gradient
      flows where one is null or left out (integer operands, constants). Each gradient has the type and the SPMD state of
      its operand.
    }], "::llvm::SmallVector<::mlir::Value>", "buildAdjoint",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$cotangents), "", [{ return {}; }]>
  ];
}

def MoeCostOpInterface : OpInterface<"MoeCostOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    Needs of an op on one rank: floating-point operations, bytes, the exchange with the other members of a group, and
    the resource that it keeps busy. Ops of both dialects implement it. A model-graph op answers as if one rank did all
    the work.
  }];
  let methods = [
    InterfaceMethod<[{
      The cost. By default the op reads every operand and writes every result once, and computes nothing. Where no kernel
      runs it costs nothing.
    }], "::mlir::moe::OpCost", "getOpCost", (ins), "", [{ return ::mlir::moe::getMemoryCost($_op); }]>,
    InterfaceMethod<[{
      Floating-point operations of the products that the model needs by its definition, for model-graph ops.
      Operations that a plan adds do not count, such as recomputation or the empty places of experts with a capacity. The
      default is the figure of getOpCost() for an op that keeps the matrix units busy, and 0 for all others.
    }], "double", "getModelFlops", (ins), "",
      [{
        ::mlir::moe::OpCost cost = $_op.getOpCost();
        return cost.resource == ::mlir::moe::Resource::Matrix ? cost.flops : 0.0;
      }]>,
    InterfaceMethod<[{The group whose members exchange data in getOpCost(). It is null where they exchange nothing.}],
      "::mlir::moe::GroupAttr", "getCostGroup", (ins), "", [{ return {}; }]>
  ];
}

def MoeCountsOpInterface : OpInterface<"MoeCountsOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op with results that hold counts of routed rows, [sources, experts] i32. The simulator follows these counts from
    the routing to the ops that work on the rows.
  }];
  let methods = [
    InterfaceMethod<[{
      Rules by which each such result follows from the kernel's inputs (moe/OpFacts/CountsRule.h). Other results have no rule.
    }], "::llvm::SmallVector<::mlir::moe::CountsRule>", "getCountsRules">
  ];
}

def MoeKernelOpInterface : OpInterface<"MoeKernelOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    The call of the runtime (`moert_<kernel>`, moert.h) that carries the op out, and the memory that it works on.
  }];
  let methods = [
    InterfaceMethod<[{
      The call's name without `moert_`. It is empty where nothing runs, by default for an alias. Others have the op's mnemonic.
    }], "::llvm::StringRef", "getKernelName", (ins), "", [{ return $_op.isAlias() ? "" : $_op->getName().stripDialect(); }]>,
    InterfaceMethod<[{
      The call's inputs in its order. An optional input that is absent is null. The default is the operands.
    }], "::llvm::SmallVector<::mlir::Value>", "getKernelInputs", (ins), "",
      [{ return ::llvm::SmallVector<::mlir::Value>($_op->getOperands()); }]>,
    InterfaceMethod<[{The call's i64 and f64 attributes in its order.}],
      "::llvm::SmallVector<::mlir::Attribute>", "getKernelParams", (ins), "", [{ return {}; }]>,
    InterfaceMethod<[{The group that the call takes, or null.}],
      "::mlir::moe::GroupAttr", "getKernelGroup", (ins), "", [{ return {}; }]>,
    InterfaceMethod<[{Whether all members of the group make this call together.}],
      "bool", "isCollective", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{The only other member of the group that takes part in the call. None where all members take part.}],
      "::std::optional<int64_t>", "getKernelPeer", (ins), "", [{ return {}; }]>,
    InterfaceMethod<[{
      Whether every result is in the first operand's memory. Then the call, if there is one, writes nothing.
    }], "bool", "isAlias", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{
      The part of that memory that holds result `result` of an alias. None if the result is all of it.
    }], "::std::optional<::mlir::moe::RankPart>", "getAliasPart", (ins "unsigned":$result), "", [{ return {}; }]>,
    InterfaceMethod<[{Whether the results lie in the host's memory.}],
      "bool", "isOnHost", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{
      Place of operand `operand` in the result, for an op without a call whose operands lie side by side in the result.
      Each operand is computed in its place.
    }], "::std::optional<::mlir::moe::RankPart>", "getOperandPart", (ins "unsigned":$operand), "", [{ return {}; }]>,
    InterfaceMethod<[{
      The kernel inputs whose memory may hold the first result. By default it is the last one, if that is the addend of a
      MoeAccumulatingOpInterface.
    }], "::llvm::SmallVector<int64_t>", "getInPlaceInputs", (ins), "", [{ return ::mlir::moe::getAddendInput($_op); }]>
  ];
}

def MoeSplittableOpInterface : OpInterface<"MoeSplittableOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op that can work block by block along dimension 0 of operand 0. The results of the blocks, side by side, are the
    result of the op. Passes that overlap an exchange with the ops that follow it split both.
  }];
  let methods = [
    InterfaceMethod<[{
      Whether the op can work in `parts` blocks that the members of `group` receive in different orders
      (moe.all_to_all_phase).
    }], "bool", "canSplit", (ins "int64_t":$parts, "::mlir::moe::GroupAttr":$group)>,
    InterfaceMethod<[{Builds the op on one of `parts` blocks.}],
      "::mlir::Value", "buildOnPart", (ins "::mlir::OpBuilder &":$builder, "::mlir::Value":$part, "int64_t":$parts)>
  ];
}

def MoeChunkableOpInterface : OpInterface<"MoeChunkableOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op between the dispatch and the combine of a layer. It works on the rows of experts, or on their counts. Each row
    is treated on its own: it is computed, moved to another rank, or added to the same row of other ranks. So the op can
    work on a part of the rows. Rows are dimension 1 of [E, T, M] and dimension 0 of [R, M].
  }];
  let methods = [
    InterfaceMethod<[{
      Whether the op can work on a part of the rows and still treat each row the same.
    }], "bool", "canChunk", (ins "::mlir::moe::RowChunk":$chunk), "", [{
        return ::mlir::moe::canScaleRows($_op, chunk);
      }]>,
    InterfaceMethod<[{
      Builds the op for a part of the rows and maps its results. `mapping` replaces its operands. The default is a copy of
      the op whose floating-point results have fewer rows.
    }], "::mlir::Operation *", "buildOnChunk",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::IRMapping &":$mapping, "::mlir::moe::RowChunk":$chunk), "",
      [{ return ::mlir::moe::cloneOnChunk($_op, builder, mapping, chunk); }]>,
    InterfaceMethod<[{
      Builds the op for the rows of shadows and maps its results. `mapping` replaces its operands. Every member of
      `scope.ep` computes these rows itself, so no row leaves for another member. The default is a copy of the op whose
      results keep their sizes in relation to operand 0.
    }], "::mlir::Operation *", "buildOnShadows",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::IRMapping &":$mapping, "::mlir::moe::ShadowScope":$scope), "",
      [{ return ::mlir::moe::cloneOnShadows($_op, builder, mapping); }]>
  ];
}

def MoeRowwiseOpInterface : OpInterface<"MoeRowwiseOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op with one result. Row i of the result depends only on row i of its leading operands. So each member of a group
    can compute a part of the rows. Rows are dimension 0.
  }];
  let methods = [
    InterfaceMethod<[{
      The number of leading operands that have the rows.
    }], "unsigned", "getNumRowOperands", (ins), "", [{ return 1; }]>,
    InterfaceMethod<[{Whether each member of `group` can compute an equal part of the rows.}],
      "bool", "canDivideRows", (ins "::mlir::moe::GroupAttr":$group), "",
      [{ return ::mlir::moe::hasRowsFor($_op->getResult(0).getType(), group); }]>,
    InterfaceMethod<[{
      Builds the op for one member's part of the rows, and returns its result. `rows` holds the row operands of this part.
      The default is a copy of the op.
    }], "::mlir::Value", "buildOnRowPart",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$rows, "::mlir::moe::GroupAttr":$group), "",
      [{ return ::mlir::moe::cloneOnRowPart($_op, builder, rows); }]>
  ];
}

def MoeSlotsOpInterface : OpInterface<"MoeSlotsOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op that gives each choice its row among the dispatched tokens.
  }];
  let methods = [
    InterfaceMethod<[{The row of each choice, [S, k].}], "::mlir::Value", "getSlots">,
    InterfaceMethod<[{The rows that each expert uses in each chunk, [chunks, E].}], "::mlir::Value", "getCounts">,
    InterfaceMethod<[{Whether the rows are [R, M].}], "bool", "isDropless">,
    InterfaceMethod<[{The number of pieces of memory that the rows are divided into.}], "int64_t", "getChunks">,
    InterfaceMethod<[{Whether setChunked may be called.}], "bool", "canChunk", (ins), "", [{ return true; }]>,
    InterfaceMethod<[{
      Divides the rows into `chunks` chunks of `rows` rows. With a capacity these are `rows` rows of each expert. Rows
      that are not needed stay empty, and the same choices are dropped as before. Sets the type of the counts accordingly.
    }], "void", "setChunked", (ins "int64_t":$chunks, "int64_t":$rows), "", [{
        $_op.setChunks(chunks);
        $_op.setChunkRows(rows);
        $_op.getCounts().setType(::mlir::moe::withDim($_op.getCounts().getType(), 0, chunks));
      }]>
  ];
}

def MoeAccumulatingOpInterface : OpInterface<"MoeAccumulatingOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op that can add another value to its only result, in the memory of that value.
  }];
  let methods = [
    InterfaceMethod<[{The operand for that value; none or one.}], "::mlir::MutableOperandRange", "getAddendMutable">,
    InterfaceMethod<[{Whether the op can add this value.}], "bool", "canAccumulate", (ins "::mlir::Value":$addend), "",
      [{ return true; }]>
  ];
}

def MoeWideGradientOpInterface : OpInterface<"MoeWideGradientOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op that sums in more bits than its only result has, and that can give this sum unrounded. For operands of 16 bits
    the result is then of f32, as Megatron's main gradients are.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the op with a result of f32, and returns the result. Null where this form of the op cannot. The default is a
      copy of the op, which has no addend yet.
    }], "::mlir::Value", "buildWide", (ins "::mlir::OpBuilder &":$builder), "",
      [{ return ::mlir::moe::cloneWide($_op, builder); }]>
  ];
}

def MoeStepCountOpInterface : OpInterface<"MoeStepCountOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op that counts something in a tensor of any shape. For tensors side by side its result is the sum of their counts.
    Means are divided by this count. moe-accumulate counts in the inputs of the whole step. So such a mean is taken over
    all micro-batches together, and is not a mean of their means.
  }];
}

def MoePartitionOpInterface : OpInterface<"MoePartitionOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    Layout of a model-graph (L0) op over ranks, and its translation to the SPMD program (L1). The default is for an
    elementwise op of one operand: it takes any layout and keeps it.
  }];
  let methods = [
    InterfaceMethod<[{
      Sets the layouts of operands that are null (not decided yet), and returns those of the results. Fails with an error
      where the op cannot use a layout that is decided.
    }], "::mlir::FailureOr<::mlir::moe::Layouts>", "inferLayouts",
      (ins "::mlir::moe::ParallelAttr":$parallel,
           "::llvm::MutableArrayRef<::mlir::moe::LayoutAttr>":$operands), [{}],
      [{ return inferElementwiseLayouts($_op, operands); }]>,
    InterfaceMethod<[{
      Builds the baseline program of one rank from the operands' shards, and returns the results. Capacity, slots and
      auxiliary loss belong to a group of tokens.
    }], "::mlir::FailureOr<::mlir::moe::Values>", "partition",
      (ins "::mlir::OpBuilder &":$builder, "const ::mlir::moe::Shards &":$in), [{}],
      [{ return cloneOnShard($_op, builder, in.operands); }]>,
    InterfaceMethod<[{
      Number of sequences in the op's rows, if the op needs it.
    }], "::mlir::moe::SequenceUse", "getSequenceUse", (ins), [{}], [{ return {}; }]>
  ];
}

#endif // MOE_DIALECT_MOE_IR_MOEINTERFACES_TD
