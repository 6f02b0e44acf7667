//===- MoeBase.td - shared by the op definitions -------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEBASE_TD
#define MOE_DIALECT_MOE_IR_MOEBASE_TD

include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "moe/Dialect/Moe/IR/MoeAttrs.td"
include "moe/Dialect/Moe/IR/MoeInterfaces.td"

// All shapes are static. So the memory of a plan is known when it is compiled, and its steps can be captured as CUDA graphs.
class Moe_StaticTensor<list<Type> types, string summary>
    : ConfinedType<StaticShapeTensorOf<types>, [], summary, "::mlir::RankedTensorType">;
class Moe_RankedTensor<list<Type> types, list<int> ranks, string summary>
    : ConfinedType<StaticShapeTensorOf<types>, [HasAnyRankOfPred<ranks>], summary, "::mlir::RankedTensorType">;

defvar Moe_FloatTypes = [F32, F64, BF16, F16];
defvar Moe_FloatNames = "f32, f64, bf16 or f16";

def Moe_Tensor : Moe_StaticTensor<Moe_FloatTypes, !strconcat("static tensor of ", Moe_FloatNames)>;
def Moe_AnyTensor : Moe_StaticTensor<!listconcat(Moe_FloatTypes, [I32]), "static tensor of f32, f64, bf16, f16 or i32">;
def Moe_Scalar : Moe_RankedTensor<Moe_FloatTypes, [0], !strconcat("0-D tensor of ", Moe_FloatNames)>;
def Moe_Tensor1D : Moe_RankedTensor<Moe_FloatTypes, [1], !strconcat("1-D tensor of ", Moe_FloatNames)>;
def Moe_Tensor2D : Moe_RankedTensor<Moe_FloatTypes, [2], !strconcat("2-D tensor of ", Moe_FloatNames)>;
def Moe_AnyTensor2D : Moe_RankedTensor<!listconcat(Moe_FloatTypes, [I32]), [2],
                                       "2-D tensor of f32, f64, bf16, f16 or i32">;
def Moe_Tensor3D : Moe_RankedTensor<Moe_FloatTypes, [3], !strconcat("3-D tensor of ", Moe_FloatNames)>;
def Moe_Rows : Moe_RankedTensor<Moe_FloatTypes, [2, 3], !strconcat("rows, a 2-D or 3-D tensor of ", Moe_FloatNames)>;
// Accumulator types, for routing, losses and other sums over a row. They are f32 where the other values have 16 bits, and
// otherwise of the type of these values (getAccumulatorType).
def Moe_AccumulatorScalar : Moe_RankedTensor<[F32, F64], [0], "0-D tensor of f32 or f64">;
def Moe_Accumulator1D : Moe_RankedTensor<[F32, F64], [1], "1-D tensor of f32 or f64">;
def Moe_Accumulator2D : Moe_RankedTensor<[F32, F64], [2], "2-D tensor of f32 or f64">;
def Moe_Index0D : Moe_RankedTensor<[I32], [0], "0-D tensor of i32">;
def Moe_Index1D : Moe_RankedTensor<[I32], [1], "1-D tensor of i32">;
def Moe_IndexTensor : Moe_StaticTensor<[I32], "static tensor of i32">;
def Moe_Index2D : Moe_RankedTensor<[I32], [2], "2-D tensor of i32">;

/// An i64, signed in C++.
def Moe_Int : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit signless integer attribute"> {
  let convertFromStorage = "$_self.getInt()";
}

/// An op of a program. Most ops verify the shapes of their values, and have operands alone.
class Moe_Op<string mnemonic, list<Trait> traits = []> : Op<Moe_Dialect, mnemonic, !listconcat([Pure], traits)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

/// How an L0 op is partitioned: by its own methods, or by the defaults of the interface.
defvar Moe_Partition = DeclareOpInterfaceMethods<MoePartitionOpInterface, ["inferLayouts", "partition"]>;
/// Interface of an op that states how many sequences its rows are.
defvar Moe_PartitionSequences =
    DeclareOpInterfaceMethods<MoePartitionOpInterface, ["inferLayouts", "partition", "getSequenceUse"]>;
defvar Moe_PartitionElementwise = DeclareOpInterfaceMethods<MoePartitionOpInterface>;

/// Short names for the interfaces of L1 ops. A list names the methods that the op implements itself. All others have the
/// defaults of the interface.
defvar Moe_Spmd = DeclareOpInterfaceMethods<MoeSpmdOpInterface, ["getIndexRule"]>;
defvar Moe_SpmdOwn = DeclareOpInterfaceMethods<MoeSpmdOpInterface, ["inferSpmd", "getIndexRule"]>;
defvar Moe_SpmdGroup = DeclareOpInterfaceMethods<MoeSpmdOpInterface, ["inferSpmd", "inferPlacements"]>;
defvar Moe_SpmdPlaced = DeclareOpInterfaceMethods<MoeSpmdOpInterface, ["inferPlacements"]>;
defvar Moe_SpmdTransfer = DeclareOpInterfaceMethods<MoeSpmdOpInterface, ["inferSpmd"]>;
defvar Moe_SpmdOfCounts = Moe_SpmdTransfer; // rules skip counts
defvar Moe_Differentiable = DeclareOpInterfaceMethods<MoeDifferentiableOpInterface, ["buildAdjoint"]>;
defvar Moe_Splittable = DeclareOpInterfaceMethods<MoeSplittableOpInterface>;
defvar Moe_Rowwise = DeclareOpInterfaceMethods<MoeRowwiseOpInterface>;
defvar Moe_Chunkable = DeclareOpInterfaceMethods<MoeChunkableOpInterface>;
defvar Moe_ChunkableOwn = DeclareOpInterfaceMethods<MoeChunkableOpInterface, ["canChunk", "buildOnChunk"]>;
defvar Moe_ShadowableOnly = DeclareOpInterfaceMethods<MoeChunkableOpInterface, ["buildOnShadows"]>;
defvar Moe_ShadowableOwn =
    DeclareOpInterfaceMethods<MoeChunkableOpInterface, ["canChunk", "buildOnChunk", "buildOnShadows"]>;
defvar Moe_Accumulating = DeclareOpInterfaceMethods<MoeAccumulatingOpInterface, ["canAccumulate"]>;
defvar Moe_WideGradient = DeclareOpInterfaceMethods<MoeWideGradientOpInterface>;
defvar Moe_Cost = DeclareOpInterfaceMethods<MoeCostOpInterface>;
defvar Moe_CostOwn = DeclareOpInterfaceMethods<MoeCostOpInterface, ["getOpCost"]>;

defvar Moe_Counts = DeclareOpInterfaceMethods<MoeCountsOpInterface>;
class Moe_Kernel<list<string> methods = []> : DeclareOpInterfaceMethods<MoeKernelOpInterface, methods>;

#endif // MOE_DIALECT_MOE_IR_MOEBASE_TD
