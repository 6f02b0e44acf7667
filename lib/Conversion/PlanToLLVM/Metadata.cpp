//===- Metadata.cpp - description of a plan for the runtime ---------------===//
//
// Writes the JSON object of docs/PlanFormat.md, with its keys in the same order.
//
//===----------------------------------------------------------------------===//
#include "Metadata.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/JSON.h"

#include "moe/Conversion/Variants.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"

using namespace mlir;
using namespace mlir::plan;
namespace json = llvm::json;

moert_dtype mlir::plan::getDType(Type type) {
  if (type.isF32())
    return MOERT_F32;
  if (type.isF64())
    return MOERT_F64;
  if (type.isBF16())
    return MOERT_BF16;
  return type.isF16() ? MOERT_F16 : MOERT_I32;
}

static StringRef getDTypeName(Type type) {
  static constexpr StringLiteral names[] = {"f32", "f64", "bf16", "i32", "f16"}; // order of moert_dtype
  return names[getDType(type)];
}

namespace {

/// Groups of a plan under different names.
class GroupTable {
public:
  explicit GroupTable(moe::ParallelAttr parallel) {
    for (StringLiteral name : moe::ParallelAttr::getGroupNames())
      if (parallel.getCp() > 1 || (name != "cp" && name != "dp_cp"))
        groups.push_back(parallel.getGroup(name));
  }

  /// Name of `group` in calls. Adds the group if it is not there.
  std::string getName(moe::GroupAttr group) {
    if (find([&](moe::GroupAttr other) { return other == group; }))
      return group.getName().str();
    std::string name = group.getName().str();
    if (find([&](moe::GroupAttr other) { return other.getName() == name; }))
      name += "_" + std::to_string(group.getSize()) + "_" + std::to_string(group.getStride());
    auto named = moe::GroupAttr::get(group.getContext(), name, group.getSize(), group.getStride());
    if (!llvm::is_contained(groups, named))
      groups.push_back(named);
    return name;
  }

  ArrayRef<moe::GroupAttr> getGroups() const { return groups; }

private:
  moe::GroupAttr find(function_ref<bool(moe::GroupAttr)> predicate) const {
    auto it = llvm::find_if(groups, predicate);
    return it == groups.end() ? moe::GroupAttr() : *it;
  }

  SmallVector<moe::GroupAttr> groups;
};

/// Writes the metadata of a plan of one shape, or of one variant.
class MetadataWriter {
public:
  /// `module` has passed checkPlan. `prefix` is the prefix of its programs' symbols.
  MetadataWriter(ModuleOp module, std::string prefix, json::OStream &json)
      : module(module), prefix(std::move(prefix)), parallel(moe::getParallel(module)), groups(parallel), json(json) {}

  /// Writes the attributes into the JSON object that is open.
  void write();

private:
  void writeHead(func::FuncOp rank);
  void writeProgram(func::FuncOp program);
  void writeValue(func::FuncOp program, unsigned argument, moe::ParallelAttr ranks, bool isResult);
  void writeDescription(DictionaryAttr attributes, StringRef name, StringRef role, ShapedType type,
                        moe::LayoutAttr layout, moe::ParallelAttr ranks);
  void writePieces(ArrayAttr pieces, moe::LayoutAttr bucket, moe::ParallelAttr ranks);
  void writeTables(func::FuncOp program, moe::ParallelAttr ranks);
  std::string getOp(LaunchOp launch, bool hasGroups);
  void writeSource(DictionaryAttr source);

  ModuleOp module;
  std::string prefix;
  moe::ParallelAttr parallel;
  GroupTable groups;
  json::OStream &json;
};

} // namespace

/// Groups of a program's ranks: its own attribute, which the reference has, or the module's.
static moe::ParallelAttr getParallelOf(func::FuncOp program, moe::ParallelAttr parallel) {
  auto own = program->getAttrOfType<moe::ParallelAttr>(moe::kParallelAttrName);
  return own ? own : parallel;
}

/// An argument without a layout is replicated.
static moe::LayoutAttr getLayout(func::FuncOp program, unsigned argument) {
  if (auto layout = program.getArgAttrOfType<moe::LayoutAttr>(argument, moe::kLayoutAttrName))
    return layout;
  return moe::LayoutAttr::get(program.getContext(), cast<MemRefType>(program.getArgumentTypes()[argument]).getRank());
}

static std::string getValueName(func::FuncOp program, unsigned argument) {
  auto name = program.getArgAttrOfType<StringAttr>(argument, moe::kNameAttrName);
  return name ? name.str() : "value" + std::to_string(argument);
}

static LogicalResult checkLayouts(func::FuncOp program, moe::ParallelAttr ranks) {
  for (unsigned argument = 0; argument < program.getNumArguments(); ++argument) {
    moe::LayoutAttr layout = getLayout(program, argument);
    for (unsigned dim = 0; dim < layout.getDims().size(); ++dim)
      if (failed(layout.getParts(dim, ranks)))
        return program.emitOpError("expected the layout of '")
               << getValueName(program, argument) << "' to name groups of " << ranks << " but got " << layout;
  }
  return success();
}

void MetadataWriter::write() {
  SmallVector<func::FuncOp> programs = getRankPrograms(module);
  auto reference = module.lookupSymbol<func::FuncOp>(kReferenceProgram);
  // Launches may use groups that #moe.parallel does not name.
  for (func::FuncOp program : programs)
    program.walk([&](LaunchOp launch) {
      if (launch.getGroup())
        groups.getName(*launch.getGroup());
    });
  writeHead(programs.front());
  json.attributeArray("programs", [&] {
    for (func::FuncOp program : programs)
      writeProgram(program);
  });
  json.attributeBegin("reference");
  if (reference)
    writeProgram(reference);
  else
    json.object([] {});
  json.attributeEnd();
}

void MetadataWriter::writeHead(func::FuncOp rank) {
  auto getSetting = [&](StringRef name, StringRef otherwise) {
    auto setting = module->getAttrOfType<StringAttr>(name);
    return setting ? setting.getValue() : otherwise;
  };
  StringRef dtype = "f32";
  for (Type type : llvm::reverse(rank.getArgumentTypes()))
    if (Type element = cast<MemRefType>(type).getElementType(); isa<FloatType>(element))
      dtype = getDTypeName(element);
  json.attribute("world", parallel.getWorld());
  json.attributeObject("parallel", [&] {
    for (StringRef name : {"pp", "dp", "cp", "mp", "ep", "esp", "edp"})
      if (name != "cp" || parallel.getCp() > 1)
        json.attribute(name, parallel.getGroup(name).getSize());
  });
  json.attribute("schedule", getSetting(kScheduleAttrName, "baseline"));
  json.attribute("mode", getSetting(kModeAttrName, "train"));
  json.attribute("dtype", getSetting("plan.dtype", dtype));
  if (auto cluster = module->getAttrOfType<StringAttr>(kClusterAttrName))
    json.attribute("cluster", cluster.getValue());
  if (auto layers = module->getAttrOfType<ArrayAttr>(kLayersAttrName))
    json.attribute("layers", json::Array(layers.getAsValueRange<StringAttr>()));
  json.attributeArray("groups", [&] {
    for (moe::GroupAttr group : groups.getGroups())
      json.object([&] {
        json.attribute("name", group.getName());
        json.attribute("size", group.getSize());
        json.attribute("stride", group.getStride());
      });
  });
}

void MetadataWriter::writeProgram(func::FuncOp program) {
  moe::ParallelAttr ranks = getParallelOf(program, parallel);
  unsigned numInputs = getNumInputs(program);
  json.objectBegin();
  // The reference has no ranks of a world.
  if (!program->hasAttr(moe::kParallelAttrName)) {
    json.attribute("first_rank", getRanks(program).first);
    json.attribute("ranks", getRanks(program, ranks.getWorld()).count);
  }
  json.attribute("symbol", prefix + program.getName().str());
  for (bool isResult : {false, true}) {
    unsigned end = isResult ? program.getNumArguments() : std::min(numInputs, program.getNumArguments());
    json.attributeArray(isResult ? "results" : "arguments", [&] {
      for (unsigned argument = isResult ? numInputs : 0; argument < end; ++argument)
        writeValue(program, argument, ranks, isResult);
    });
  }
  writeTables(program, ranks);
  json.objectEnd();
}

void MetadataWriter::writeValue(func::FuncOp program, unsigned argument, moe::ParallelAttr ranks, bool isResult) {
  auto type = cast<MemRefType>(program.getArgumentTypes()[argument]);
  auto role = program.getArgAttrOfType<StringAttr>(argument, moe::kRoleAttrName);
  moe::LayoutAttr layout = getLayout(program, argument);
  DictionaryAttr attributes = isResult ? DictionaryAttr() : program.getArgAttrDict(argument);
  json.object([&] {
    writeDescription(attributes, getValueName(program, argument),
                     role ? role.getValue() : (isResult ? "output" : "input"), type, layout, ranks);
    if (auto pieces = program.getArgAttrOfType<ArrayAttr>(argument, moe::kPiecesAttrName))
      writePieces(pieces, layout, ranks);
  });
}

/// Describes an argument, a result, or a piece of one. `attributes` is null for a result.
void MetadataWriter::writeDescription(DictionaryAttr attributes, StringRef name, StringRef role, ShapedType type,
                                      moe::LayoutAttr layout, moe::ParallelAttr ranks) {
  SmallVector<int64_t> global(type.getShape());
  for (auto [dim, size] : llvm::enumerate(global))
    size *= *layout.getParts(dim, ranks);
  json.attribute("name", name);
  json.attribute("role", role);
  json.attribute("dtype", getDTypeName(type.getElementType()));
  json.attribute("shape", json::Array(global));
  json.attribute("local_shape", json::Array(type.getShape()));
  json.attributeArray("layout", [&] {
    for (unsigned dim = 0; dim < global.size(); ++dim)
      json.array([&] {
        // A world of one rank has no groups in the runtime.
        if (ranks.getWorld() > 1)
          for (StringRef group : layout.getGroups(dim))
            json.value(group);
      });
  });
  if (layout.getChunks() > 0)
    json.attributeObject("cut", [&] {
      json.attribute("sequence", layout.getSequence());
      json.attribute("chunks", layout.getChunks());
    });
  if (!attributes)
    return;
  if (attributes.get(moe::kUpdatedAttrName))
    json.attribute("updated", true);
  if (auto sequence = attributes.getAs<IntegerAttr>(moe::kSequenceAttrName))
    json.attribute("sequence", sequence.getInt());
  if (auto fill = attributes.getAs<FloatAttr>(moe::kFillAttrName))
    json.attribute("fill", fill.getValueAsDouble());
  if (auto below = attributes.getAs<IntegerAttr>(moe::kBelowAttrName))
    json.attribute("below", below.getInt());
  if (auto source = attributes.getAs<DictionaryAttr>(moe::kSourceAttrName))
    writeSource(source);
}

/// A bucket that is divided has one group more than its pieces.
void MetadataWriter::writePieces(ArrayAttr pieces, moe::LayoutAttr bucket, moe::ParallelAttr ranks) {
  auto first = cast<DictionaryAttr>(pieces[0]).getAs<moe::LayoutAttr>(moe::kLayoutAttrName);
  size_t numGroups = 0;
  for (unsigned dim = 0; dim < first.getDims().size(); ++dim)
    numGroups += first.getGroups(dim).size();
  if (SmallVector<StringRef> groups = bucket.getGroups(0); groups.size() > numGroups)
    json.attribute("shards", groups.back());
  json.attributeArray("pieces", [&] {
    for (auto piece : pieces.getAsRange<DictionaryAttr>())
      json.object([&] {
        writeDescription(piece, piece.getAs<StringAttr>(moe::kNameAttrName).getValue(),
                         piece.getAs<StringAttr>(moe::kRoleAttrName).getValue(),
                         cast<ShapedType>(piece.getAs<TypeAttr>("type").getValue()),
                         piece.getAs<moe::LayoutAttr>(moe::kLayoutAttrName), ranks);
        json.attribute("at", piece.getAs<IntegerAttr>("at").getInt());
      });
  });
}

void MetadataWriter::writeSource(DictionaryAttr source) {
  json.attributeObject("source", [&] {
    for (NamedAttribute entry : source) {
      StringRef key = entry.getName();
      if (auto names = dyn_cast<ArrayAttr>(entry.getValue()))
        json.attribute(key, json::Array(names.getAsValueRange<StringAttr>()));
      else if (auto number = dyn_cast<IntegerAttr>(entry.getValue()))
        json.attribute(key, number.getInt());
      else if (auto text = dyn_cast<StringAttr>(entry.getValue()))
        json.attribute(key, text.getValue());
      else
        json.attribute(key, true);
    }
  });
}

void MetadataWriter::writeTables(func::FuncOp program, moe::ParallelAttr ranks) {
  json.attributeObject("arenas", [&] {
    for (Space space : {Space::device, Space::host_pinned})
      json.attribute(stringifySpace(space), getArenaBytes(program, space).value_or(0));
  });
  json.attribute("streams", json::Array(getStreams(program)));
  json.attribute("events", getNumEvents(program));
  // Micro-batches and layers repeat launches. A repeated launch is the number of the first one.
  llvm::StringMap<int64_t> first;
  int64_t number = 0;
  json.attributeArray("ops", [&] {
    program.walk([&](LaunchOp launch) {
      auto [entry, isNew] = first.try_emplace(getOp(launch, ranks.getWorld() > 1), number++);
      if (isNew)
        json.rawValue(entry->first());
      else
        json.value(entry->second);
    });
  });
}

std::string MetadataWriter::getOp(LaunchOp launch, bool hasGroups) {
  moe::OpCost cost = launch.getOpCost();
  std::string text;
  llvm::raw_string_ostream os(text);
  json::OStream json(os);
  json.object([&] {
    json.attribute("name", launch.getKernel());
    json.attribute("label", launch.getLabel().value_or(""));
    json.attribute("stream", launch.getStreamOrDefault());
    if (hasGroups && launch.getGroup())
      json.attribute("group", groups.getName(*launch.getGroup()));
    else
      json.attribute("group", nullptr);
    json.attribute("flops", cost.flops);
    json.attribute("bytes", cost.getBytesMoved());
    json.attribute("bytes_sent", launch.getBytesSent());
    json.attribute("rows", cost.getCountedRows());
    if (std::optional<llvm::APFloat> seconds = launch.getSeconds())
      json.attribute("seconds", seconds->convertToDouble());
  });
  return text;
}

std::string mlir::plan::getProgramPrefix(std::optional<size_t> variant) {
  return kSymbolPrefix.str() + (variant ? "v" + std::to_string(*variant) + "_" : "");
}

/// Checks that a plan of one shape, or a variant, can have metadata.
static LogicalResult checkPlan(ModuleOp module) {
  moe::ParallelAttr parallel = moe::getParallel(module);
  if (!parallel)
    return failure();
  SmallVector<func::FuncOp> programs = getRankPrograms(module);
  if (programs.empty())
    return emitError(module.getLoc()) << "expected a rank program '" << kRankProgram << "'";
  if (failed(verifyCoverage(programs, parallel.getWorld())))
    return failure();
  if (auto reference = module.lookupSymbol<func::FuncOp>(kReferenceProgram))
    programs.push_back(reference);
  for (func::FuncOp program : programs)
    if (failed(checkLayouts(program, getParallelOf(program, parallel))))
      return failure();
  return success();
}

FailureOr<std::string> mlir::plan::buildMetadata(ModuleOp plan) {
  SmallVector<ModuleOp> variants = getVariants(plan);
  for (ModuleOp module : variants.empty() ? ArrayRef(plan) : ArrayRef(variants))
    if (failed(checkPlan(module)))
      return failure();
  std::string text;
  llvm::raw_string_ostream os(text);
  json::OStream json(os);
  json.object([&] {
    json.attribute("moeplan", MOERT_METADATA_VERSION);
    json.attribute("abi", MOERT_ABI_VERSION);
    json.attribute("compiler", MOE_VERSION);
    if (variants.empty())
      return MetadataWriter(plan, getProgramPrefix(), json).write();
    json.attributeArray("variants", [&] {
      for (auto [index, variant] : llvm::enumerate(variants))
        json.object([&, index = index, variant = variant] {
          if (auto half = variant->getAttrOfType<StringAttr>(kHalfAttrName))
            json.attribute("half", half.getValue());
          for (auto [key, name] : {std::pair("batch", kBatchAttrName), {"sequence", kSequenceAttrName}})
            if (auto size = variant->getAttrOfType<IntegerAttr>(name))
              json.attribute(key, size.getInt());
          if (auto chunks = variant->getAttrOfType<IntegerAttr>(kChunksAttrName))
            json.attribute("chunks", chunks.getInt());
          MetadataWriter(variant, getProgramPrefix(index), json).write();
        });
    });
  });
  return os.str();
}
