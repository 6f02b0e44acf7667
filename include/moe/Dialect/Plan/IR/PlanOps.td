//===- PlanOps.td - the plan dialect -------------------*- tablegen -*-===//
#ifndef MOE_DIALECT_PLAN_IR_PLANOPS_TD
#define MOE_DIALECT_PLAN_IR_PLANOPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "moe/Dialect/Moe/IR/MoeAttrs.td"
include "moe/Dialect/Moe/IR/MoeInterfaces.td"
include "moe/Dialect/Plan/IR/PlanEnums.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::mlir::plan";
  let summary = "static plans: one op for each call of the runtime, on streams and arenas";
  let description = [{
    A *rank program* is a `func.func` of one block on memrefs. Its arguments are the model's inputs, then its results, in
    memory of the caller. All other values lie in one arena for each memory space. Each `plan.launch` becomes one call of
    `moert.h`. It works on buffers, arguments and views of them. The ops of a stream run in program order. Streams wait
    for each other only through `plan.record` and `plan.wait`. A `plan.loop` repeats ops. docs/Glossary.md explains the
    terms.

    Function attributes:

    - `plan.inputs` (i64): how many arguments are inputs. The others are results.
    - `plan.arenas`: a dictionary from memory space to bytes. plan-assign-memory sets it.
    - `plan.subprogram` (unit): no program of a rank, but one that launches of "repeat" run, perhaps several times. Such a
      launch names it (`plan.program`). Its inputs are how often, a value of one i32, and then the subprogram's arguments.
      Its outputs are those of its inputs that the subprogram writes, and the memory for the subprogram's arena. Its param
      is the most times. Each run comes after all that was before it, on all streams of the subprogram.
    - `plan.ranks` (array of two i64: first rank, number of ranks): for modules with several rank programs. Without it the
      program is that of all ranks.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

class Plan_Attr<string name, string attrMnemonic> : AttrDef<Plan_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Plan_SpaceAttr : EnumAttr<Plan_Dialect, Plan_Space, "space">;

def Plan_CostAttr : Plan_Attr<"Cost", "cost"> {
  let summary = "what a launch needs on one rank";
  let description = [{
    An `OpCost` (moe/OpFacts/OpCost.h). It holds the resource that the launch keeps busy, floating-point operations, and
    bytes read and written. It also has:

    - for a product, `gemm = [groups, rows, columns, depth]`;
    - for an exchange, `collective`, its `payload` in bytes and its `root`;
    - for a ragged launch, `rows`, the number of rows for which the figures hold, and `counts`, the number of the call's
      input that holds the rows really used;
    - for a ragged exchange, `peers`, the dimension of the counts whose parts are the rows for each peer. Each part is for
      `copies` neighbouring members;
    - for a ragged product, `ragged_depth` if the rows are its depth;
    - for an all_to_all that is not ragged and is one of several phases, `phase = [1, 4]`: number 1 of 4.

    Fields that are zero, one copy, and one phase are left out.

    Examples: `#plan.cost<matrix, flops = 1.0e9, read = 4096, written = 4096, gemm = [2, 64, 128, 256]>`,
    `#plan.cost<network, collective = all_to_all, payload = 4096, phase = [1, 4]>`
  }];
  let parameters = (ins AttrOrTypeParameter<"::mlir::moe::OpCost", "", "const ::mlir::moe::OpCost &">:$cost);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Plan_CountsAttr : Plan_Attr<"Counts", "counts"> {
  let summary = "how a launch makes counts of routed rows";
  let description = [{
    A `CountsRule` (moe/OpFacts/CountsRule.h). Output number `output` of the call holds counts, [sources, experts] i32.
    They follow from the inputs by the named rule. The rules are `route`, `route_in_groups`, `route_near_home`, `gather`,
    `exchange`, `slice_rows`, `own_experts`, `window`, `repeat`, `choose_shadows`, `kept_choices`, `shadow_choices`,
    `merged_rows`, `sent_choices` and `arrived_choices`. All fields are given, in the order of that header.

    Examples: `#plan.counts<route, output = 4, tokens = 512, top_k = 2>`,
    `#plan.counts<exchange, output = 0, input = 0, split = 1, concat = 0, copies = 1>`
  }];
  let parameters = (ins AttrOrTypeParameter<"::mlir::moe::CountsRule", "", "const ::mlir::moe::CountsRule &">:$rule);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}
def Plan_CountsArrayAttr : TypedArrayAttrBase<Plan_CountsAttr, "array of #plan.counts">;

/// As I64Attr, but signed in C++.
def Plan_I64 : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit signless integer attribute">;
def Plan_Index : ConfinedAttr<Plan_I64, [IntNonNegative]>;
/// The number of events is bounded because runtimes keep a table of them.
def Plan_Event : ConfinedAttr<Plan_I64, [IntNonNegative, IntMaxValue<16777215>]>;

class Plan_Op<string mnemonic, list<string> costMethods = ["getOpCost"], list<Trait> traits = []>
    : Op<Plan_Dialect, mnemonic, !listconcat([DeclareOpInterfaceMethods<MoeCostOpInterface, costMethods>], traits)>;

/// An op that takes no time by itself.
class Plan_FreeOp<string mnemonic, list<Trait> traits = []> : Plan_Op<mnemonic, ["getOpCost"], traits> {
  let extraClassDefinition = [{
    ::mlir::moe::OpCost $cppClass::getOpCost() { return {}; }
  }];
}

def Plan_BufferOp : Plan_FreeOp<"buffer"> {
  let summary = "bytes of an arena";
  let description = [{
    The place of a value: `offset` bytes into the arena of the memref's memory space, after plan-assign-memory has chosen
    it. Before that, every `plan.buffer` is memory of its own. So the op is an allocation, and CSE must not merge two of
    one type.

    Constraints:
    - (C1) the memref is static, dense and row-major, of f32, f64, bf16, f16 or i32, of rank 4 and 2^48 bytes at most; its
      memory space is a `#plan<space ..>`.
    - (C2) 0 <= offset <= 2^62.

    With `ring`, the buffers of a ring take turns (#moe.ring). A launch that writes a buffer waits for all users of the
    buffer that is `depth` places before it in the ring.

    Example:

    ```mlir
    func.func @buffer() {
      %0 = plan.buffer {offset = 256 : i64} : memref<4x8xf32, #plan<space device>>
      return
    }
    ```
  }];
  let arguments = (ins OptionalAttr<Plan_Index>:$offset, OptionalAttr<Moe_RingAttr>:$ring);
  let results = (outs Res<AnyStaticShapeMemRef, "", [MemAlloc]>:$memref);
  let assemblyFormat = "attr-dict `:` type($memref)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    Space getSpace() { return ::mlir::cast<SpaceAttr>(getType().getMemorySpace()).getValue(); }
  }];
}

def Plan_ViewOp : Plan_FreeOp<"view"> {
  let summary = "a part of a buffer or argument";
  let description = [{
    One of `parts` equal parts of `source` along dimension 0. Nothing is copied. Without a group it is part `shift`, the
    same on all ranks. With a group each block of neighbouring members has another part. Rank r is member m = (r / stride)
    mod size, and has part (m / (size / parts) + shift) mod parts.

    With `by step` the view moves: in iteration i of the loop around it, or behind a loop of i iterations, it is part
    (shift + step * i) mod parts. The parts of a buffer so become the slots of a ring, which hold the values of different
    iterations.

    With `at n` the view is a piece of any shape, which begins at element n of a 1-D source.

    Constraints:
    - (C1) the source is a plan.buffer, an argument, or a view without a group.
    - (C2) 0 <= shift < parts; parts divides the group's size.
    - (C3) the result is the source with dimension 0 divided by parts, or without dimension 0 where that leaves 1. It is
      in the same memory space.
    - (C4) a view that moves has no group, and its step is not negative.
    - (C5) a piece has no part, group or step. It has the source's element type and memory space, and ends in it.

    Example:

    ```mlir
    func.func @view(%x: memref<8x4xf32>) {
      %0 = plan.view %x part 1 of 2 over <"mp", 2, 1> : memref<8x4xf32> -> memref<4x4xf32>
      %1 = plan.buffer {offset = 0 : i64} : memref<4x4xf32, #plan<space device>>
      plan.launch "copy"(%0) -> (%1) on "compute" : (memref<4x4xf32>) -> memref<4x4xf32, #plan<space device>>
      %2 = plan.view %x part 3 of 4 : memref<8x4xf32> -> memref<2x4xf32>
      return
    }
    func.func @pieces(%bucket: memref<48xf32>) {
      %0 = plan.view %bucket at 16 : memref<48xf32> -> memref<8x4xf32>
      return
    }
    ```
  }];
  let arguments = (ins AnyStaticShapeMemRef:$source, DefaultValuedAttr<Plan_I64, "0">:$shift,
                   DefaultValuedAttr<Plan_I64, "1">:$parts, OptionalAttr<Moe_GroupAttr>:$group,
                   OptionalAttr<Plan_I64>:$step, OptionalAttr<Plan_Index>:$at);
  let results = (outs AnyStaticShapeMemRef:$result);
  let assemblyFormat = [{
    $source (`at` $at^):(`part` $shift `of` $parts)? (`over` $group^)? (`by` $step^)? attr-dict
    `:` type($source) `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$source, "::mlir::moe::RankPart":$part, "::mlir::MemRefType":$type)>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The number of the part that rank `rank` has, in iteration `iteration` of the loop around the view, or after a
    /// loop of that many iterations.
    int64_t getPart(int64_t rank, int64_t iteration = 0);
    /// Place at which the view begins then: bytes from the start of the source.
    int64_t getOwnOffset(int64_t rank, int64_t iteration = 0);
    /// Place from the start of getMemory(), the memory that the source is part of.
    int64_t getByteOffset(int64_t rank, int64_t iteration = 0);
  }];
}

def Plan_LaunchOp : Plan_Op<"launch", ["getOpCost", "getCostGroup"], [AttrSizedOperandSegments]> {
  let summary = "one call of the runtime on a stream";
  let description = [{
    Calls `moert_<kernel>(rank, op, inputs.., outputs.., params.., group, stream)`. Its attributes are:

    - `params`: the call's i64 and f64 attributes.
    - `absent`: the positions, among the call's inputs, of optional inputs that are not there.
    - `collective`: all members of `group` make the call together.
    - `peer`: only that member of `group` and this one take part. A launch with inputs sends to the peer, and a launch
      with outputs receives from it. The k-th send meets the k-th receive. The peer is then the call's last param.
    - `in_place`: the inputs, by operand number, whose memory may hold the first output.
    - `label`: the layer that the op belongs to.
    - `chunk`: the chunk of the layer's rows that the op works on.
    - `seconds`: how long a transfer (an exchange, or a copy over the host's link) takes on its own, on the cluster for
      which the plan was made.
    - `stream`, written after `on`: the stream. Without it the launch counts as on `compute`.
    - `counts`: how the outputs that hold counts of routed rows are made.

    Constraints:
    - (C1) params holds i64 and f64 attributes only.
    - (C2) a collective has a group.
    - (C3) absent positions rise strictly and lie within the call's inputs; in_place numbers lie within the inputs.
    - (C4) a cost with an exchange belongs to a collective.
    - (C5) a peer is another member of a collective's group, in a function with `plan.ranks` whose ranks are one member of
      that group. Such a launch has one input or one output, not both.
    - (C6) each of `counts` is for another output, an i32 matrix, from inputs that are there; a rule over members needs a
      group.

    Example:

    ```mlir
    func.func @launch(%a: memref<4x8xf32>, %b: memref<8x16xf32>) {
      %0 = plan.buffer {offset = 0 : i64} : memref<4x16xf32, #plan<space device>>
      plan.launch "matmul"(%a, %b) -> (%0) params [0, 0] on "compute" {label = "layer0"}
        : (memref<4x8xf32>, memref<8x16xf32>) -> memref<4x16xf32, #plan<space device>>
      plan.launch "all_reduce"(%0) -> (%0) collective over <"mp", 2, 1> on "comm.intra" {absent = array<i64: 1>}
        : (memref<4x16xf32, #plan<space device>>) -> memref<4x16xf32, #plan<space device>>
      return
    }
    ```
  }];
  let arguments = (ins
    StrAttr:$kernel, Variadic<AnyStaticShapeMemRef>:$inputs, Variadic<AnyStaticShapeMemRef>:$outputs,
    OptionalAttr<ArrayAttr>:$params, UnitAttr:$collective, OptionalAttr<Moe_GroupAttr>:$group,
    OptionalAttr<StrAttr>:$stream, OptionalAttr<StrAttr>:$label, OptionalAttr<DenseI64ArrayAttr>:$absent,
    OptionalAttr<DenseI64ArrayAttr>:$in_place, OptionalAttr<Plan_CostAttr>:$cost, OptionalAttr<Moe_ChunkAttr>:$chunk,
    OptionalAttr<F64Attr>:$seconds, OptionalAttr<Plan_Index>:$peer, OptionalAttr<Plan_CountsArrayAttr>:$counts);
  let assemblyFormat = [{
    $kernel `(` $inputs `)` `->` `(` $outputs `)` (`params` $params^)? (`collective` $collective^)? (`over` $group^)?
    (`with` $peer^)? (`on` $stream^)? attr-dict `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// A text for messages: 'kernel' (label) over 'group' on 'stream', as far as these are known.
    std::string describe();
    /// The stream, or `compute` if none is given.
    ::llvm::StringRef getStreamOrDefault();
    /// `absent` and `in_place`, empty if they are not given.
    ::llvm::ArrayRef<int64_t> getAbsentInputs();
    ::llvm::ArrayRef<int64_t> getInPlaceInputs();
    /// `counts`, empty if they are not given.
    ::llvm::SmallVector<::mlir::moe::CountsRule> getCountsRules();
    /// Members of the group that send and receive, in a launch with a peer.
    ::std::optional<::mlir::plan::Channel> getChannel();
    /// Bytes that a rank sends to all others. For a ragged exchange, the bytes if all rows are used.
    int64_t getBytesSent();
    /// Whether the first output may lie in the memory of input `input`.
    bool isInPlace(unsigned input);
  }];
}

def Plan_LoopOp : Plan_FreeOp<"loop", [SingleBlock, NoRegionArguments, NoTerminator]> {
  let summary = "ops that are issued again and again";
  let description = [{
    Issues the ops of its body `count` times. So a step of many micro-batches is a prologue, a loop and an epilogue,
    whose size does not grow with the micro-batches. Each iteration has the same launches on the same streams. Views
    with `by step` are at another part in each iteration. An event is that of the last `plan.record` before a
    `plan.wait` in the order of issue, which may be one of the iteration before, or one before the loop.

    A `plan.buffer` in the body holds values of one iteration. The next one writes them anew. `micro_batches` says by
    how many micro-batches an iteration is ahead of the one before: `moe.micro_batch` of a launch is that of the first.

    With `times` the run decides: the body is issued as often as the value says, at most `count` times, perhaps never.
    Such a loop may be in the body of another one. Its views move with the iterations of that. ConvertPlanToLLVM makes it
    of a launch of a subprogram (`plan.subprogram`).

    Constraints:
    - (C1) count >= 1.
    - (C2) a loop without times is an op of a function's block, and its body has plan ops other than such loops. The body
      of a loop with times has no loops.

    Example:

    ```mlir
    func.func @loop(%x: memref<8x4xf32>) {
      %ring = plan.buffer {offset = 0 : i64} : memref<2x4xf32, #plan<space device>>
      plan.loop 8 {
        %0 = plan.view %x part 0 of 8 by 1 : memref<8x4xf32> -> memref<4xf32>
        %1 = plan.view %ring part 0 of 2 by 1 : memref<2x4xf32, #plan<space device>> -> memref<4xf32, #plan<space device>>
        plan.launch "copy"(%0) -> (%1) on "compute" : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
      }
      return
    }
    ```
  }];
  let arguments = (ins Plan_Index:$count, OptionalAttr<Plan_Index>:$micro_batches, Optional<AnyStaticShapeMemRef>:$times);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$count (`times` `(` $times^ `:` type($times) `)`)? attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

/// An op that refers to an event.
class Plan_EventOp<string mnemonic> : Plan_FreeOp<mnemonic> {
  let arguments = (ins Plan_Event:$event, StrAttr:$stream, OptionalAttr<Plan_Index>:$shift, OptionalAttr<Plan_Index>:$turns);
  let assemblyFormat = "$event (`turn` $shift^ `of` $turns)? `on` $stream attr-dict";
  let builders = [OpBuilder<(ins "int64_t":$event, "::llvm::StringRef":$stream), [{
    build($_builder, $_state, event, stream, ::mlir::IntegerAttr(), ::mlir::IntegerAttr());
  }]>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The event in iteration `iteration` of the loop around the op, or after a loop of that many iterations.
    int64_t getEventAt(int64_t iteration) {
      return getEvent() + (getTurns() ? (iteration + *getShift()) % *getTurns() : 0);
    }
    /// One more than the last event that the op ever refers to.
    int64_t getEndOfEvents() { return getEvent() + getTurns().value_or(1); }
  }];
}

def Plan_RecordOp : Plan_EventOp<"record"> {
  let summary = "marks a point of a stream";
  let description = [{
    Event `event` happens when all earlier ops of `stream` are done.

    With `turn shift of turns`, events take turns: in iteration i of the loop around the op, or behind a loop of i
    iterations, it is event + (i + shift) mod turns. So an iteration can wait for one that is not the last one before it.

    Constraints:
    - (C1) 0 <= event < 2^24, also of the last one that takes its turn.
    - (C2) 0 <= shift < turns.

    Example:

    ```mlir
    func.func @record_wait() {
      plan.record 0 on "compute"
      plan.wait 0 on "comm.intra"
      return
    }
    ```
  }];
}

def Plan_WaitOp : Plan_EventOp<"wait"> {
  let summary = "later ops of a stream start after an event";
  let description = [{
    Later ops of `stream` start after event `event` has happened. The event is that of the last `plan.record` of `event`
    before this op in the order of issue. Events take turns as those of plan.record. See plan.record for an example.

    Constraints:
    - (C1) 0 <= event < 2^24, also of the last one that takes its turn.
    - (C2) 0 <= shift < turns.
  }];
}

#endif // MOE_DIALECT_PLAN_IR_PLANOPS_TD
