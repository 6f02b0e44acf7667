//===- CallTable.h - the calls that the programs of a plan make -*- C++ -*-===//
//
// The compiled form of a plan is data: a row of numbers for each op. Each *kind* of call, which is a runtime function
// with constant arguments, becomes a small function that takes the other arguments from a row. One loop runs the rows
// of all programs, so the code does not grow with the number of launches. A loop of the plan runs the same rows again,
// and the number of the iteration selects the buffers.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_CONVERSION_PLANTOLLVM_CALLTABLE_H
#define MOE_LIB_CONVERSION_PLANTOLLVM_CALLTABLE_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/bit.h"

#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moert/moert.h"

#include <cstddef>

namespace mlir::plan {

/// Symbol of the loop that CallTable emits.
std::string getRunSymbol();

/// Number of i64 words of a moert_buffer.
inline constexpr int64_t kBufferWords = sizeof(moert_buffer) / sizeof(int64_t);
// The first word holds the space in its lower half and the type in its upper half.
static_assert(llvm::endianness::native == llvm::endianness::little && offsetof(moert_buffer, dtype) == 4 &&
              offsetof(moert_buffer, offset) == 8 && sizeof(moert_buffer) == 11 * sizeof(int64_t));

/// Number of words in a row for a buffer that is the same in all iterations, and for one that is not.
inline constexpr int64_t kStayingWords = 1, kMovingWords = 2;

/// Builds globals of constant data, and other parts that all tables need.
class DataBuilder : public ImplicitLocOpBuilder {
public:
  /// Inserts before `place`.
  explicit DataBuilder(Operation *place);
  Value createInt(int64_t value, Type type = {});
  Value createAddress(const Twine &symbol) { return create<LLVM::AddressOfOp>(ptr, symbol.str()); }
  /// Address of a part of the array of `type` at `base`.
  Value createPlace(Type type, Value base, ArrayRef<LLVM::GEPArg> indices) {
    return create<LLVM::GEPOp>(ptr, type, base, indices);
  }
  /// Address of a moert_buffer in the table at `base`. If `parts` is not null, it is `iteration` mod `parts` further.
  Value createBuffer(Value base, Value number, Value iteration, Value parts);
  /// Branches to `exit` with `status` unless that is 0, or else to `next`.
  void createCheck(Value status, Block *exit, Block *next);
  /// Inserts `fields` into a struct or array, in order.
  Value createAggregate(Type type, ArrayRef<Value> fields);
  /// Creates an internal constant with the value that `initializer` makes.
  LLVM::GlobalOp createConstant(const Twine &name, Type type, function_ref<Value()> initializer);
  /// Creates an internal constant array with the elements of `values`.
  LLVM::GlobalOp createArray(const Twine &name, DenseIntElementsAttr values);
  LLVM::GlobalOp createText(const Twine &name, StringRef text, LLVM::Linkage linkage = LLVM::Linkage::Internal);

  Type i32, i64, ptr;
};

/// Kinds of calls of a module.
class CallTable {
public:
  explicit CallTable(ModuleOp module) : module(module) {}

  /// Number of the kind of `launch`, whose stream has number `stream`. A row has the number of the kind, and then the
  /// number of the buffer of each input and output. An operand in `moving` has two numbers: in iteration i of a loop,
  /// its buffer is the first one plus i mod the second one.
  unsigned getLaunch(LaunchOp launch, int64_t stream, ArrayRef<int64_t> moving);
  /// Number of the kind of records, or of waits, on a stream. A row has the kind and the event. With `isMoving`, it has
  /// the kind, the first event, a shift, and a number of turns: in iteration i, the event is the first one plus (i +
  /// shift) mod turns.
  unsigned getEvent(StringRef call, int64_t stream, bool isMoving);

  /// Declares the runtime's function of that name, which is without its prefix.
  LLVM::LLVMFuncOp getRuntimeFunction(StringRef name, TypeRange arguments);

  /// Emits a function of each kind and the loop that runs rows:
  /// `i32 run(rank, first row, end of the last row, buffers, first op, iteration)`.
  void emit(DataBuilder &builder);

private:
  struct Kind {
    std::string name; ///< runtime function without its prefix
    int64_t stream;
    /// Only for launches.
    int64_t buffers = 0;
    ArrayRef<int64_t> absent = {};
    SmallVector<int64_t> moving = {};
    ArrayAttr params = {};
    IntegerAttr peer = {};
    moe::GroupAttr group = {};
    bool isLaunch = false;

    int64_t getRowLength() const {
      if (!isLaunch)
        return moving.empty() ? 2 : 4;
      return 1 + kStayingWords * buffers + (kMovingWords - kStayingWords) * moving.size();
    }
  };

  unsigned getKind(const Kind &kind);
  /// Arguments of the call of `kind` without the stream, in a function with the entry block `block`.
  SmallVector<Value> makeArguments(DataBuilder &builder, const Kind &kind, Block *block);
  void emitKind(DataBuilder &builder, unsigned number, const Kind &kind);
  void emitGroups(DataBuilder &builder);
  void emitKinds(DataBuilder &builder);
  void emitLoop(DataBuilder &builder);

  ModuleOp module;
  llvm::MapVector<Attribute, Kind> kinds;
  llvm::SetVector<moe::GroupAttr> groups;
  llvm::StringMap<LLVM::LLVMFuncOp> functions;
};

} // namespace mlir::plan

#endif // MOE_LIB_CONVERSION_PLANTOLLVM_CALLTABLE_H
