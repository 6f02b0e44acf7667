//===- Program.cpp - a rank program in the simulator's form ---------------===//
#include "moe/Simulator/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Threading.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeLabels.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/Subprograms.h"

#include <map>
#include <tuple>

using namespace mlir;
using namespace mlir::moe;

namespace {
class ProgramMaker {
public:
  explicit ProgramMaker(func::FuncOp function) : function(function) {}

  llvm::Error make(int64_t world, LoopForm loops, int64_t leftOut);
  SimProgram program;

private:
  void addBuffer(Value value, bool isArgument);
  void addView(plan::ViewOp view, int64_t iteration);
  bool isSlot(plan::ViewOp view) const;
  int32_t addSlot(plan::ViewOp view, int64_t part);
  int32_t getView(plan::ViewOp view, int64_t iteration, bool isWritten);
  int32_t touch(Value value, int64_t iteration, bool isWritten);
  int32_t getGroup(GroupAttr group);
  int32_t addChannel(plan::LaunchOp op);
  uint32_t getStream(StringRef name) const;
  llvm::Error addOp(Operation *op, int64_t iteration);
  void addLaunch(plan::LaunchOp op, int64_t iteration);
  void noteLoop(plan::Iterations iterations);
  void reserve(plan::Iterations iterations);

  func::FuncOp function;
  StringRef getDTypeName(Type type);

  llvm::DenseMap<Value, int32_t> buffers;
  llvm::DenseMap<Operation *, uint32_t> opNumbers;
  bool hasLoop = false;
  /// Buffers whose parts are the slots of a ring, and the last value that was written to each part.
  llvm::DenseSet<Value> rings;
  llvm::DenseMap<std::pair<Value, int64_t>, int32_t> slots;
  /// Views of a slot, by slot, offset and type.
  std::map<std::tuple<int32_t, int64_t, const void *>, int32_t> slotViews;
  llvm::DenseMap<Attribute, int32_t> groups;
  llvm::DenseMap<Type, std::string> dtypes; ///< names of types, because it is slow to print a type
};
} // namespace

StringRef ProgramMaker::getDTypeName(Type type) {
  std::string &name = dtypes[type];
  if (name.empty())
    llvm::raw_string_ostream(name) << type;
  return name;
}

void ProgramMaker::addBuffer(Value value, bool isArgument) {
  auto type = cast<MemRefType>(value.getType());
  SimBuffer buffer;
  buffer.bytes = plan::getByteSize(type);
  buffer.isArgument = isArgument;
  if (auto place = value.getDefiningOp<plan::BufferOp>())
    buffer.offset = place.getOffset() ? static_cast<int64_t>(*place.getOffset()) : -1;
  auto space = dyn_cast_or_null<plan::SpaceAttr>(type.getMemorySpace());
  buffer.isHost = space && space.getValue() == plan::Space::host_pinned;
  buffer.dtype = getDTypeName(type.getElementType()).str();
  buffer.shape.assign(type.getShape().begin(), type.getShape().end());
  buffers[value] = static_cast<int32_t>(program.buffers.size());
  program.buffers.push_back(std::move(buffer));
}

/// Whether launches that write the value get a new buffer for it. Counts are followed from buffer to buffer, so each
/// iteration of a loop needs its own.
static bool holdsIntegers(Value value) { return cast<MemRefType>(value.getType()).getElementType().isInteger(); }

bool ProgramMaker::isSlot(plan::ViewOp view) const { return rings.contains(view.getSource()); }

int32_t ProgramMaker::addSlot(plan::ViewOp view, int64_t part) {
  addBuffer(view.getResult(), /*isArgument=*/false);
  const SimBuffer &ring = program.buffers[buffers.lookup(view.getSource())];
  SimBuffer &slot = program.buffers.back();
  slot.isHost = ring.isHost;
  slot.offset = ring.offset < 0 ? -1 : ring.offset + part * slot.bytes;
  return slots[{view.getSource(), part}] = buffers.lookup(view.getResult());
}

/// Buffer of a view in an iteration.
int32_t ProgramMaker::getView(plan::ViewOp view, int64_t iteration, bool isWritten) {
  if (auto source = view.getSource().getDefiningOp<plan::ViewOp>(); source && !isSlot(view))
    getView(source, iteration, isWritten);
  if (!isSlot(view)) {
    auto [known, isNew] = slotViews.try_emplace(
        {buffers.lookup(view.getSource()), view.getOwnOffset(0, iteration), view.getType().getAsOpaquePointer()});
    if (isNew || view.getGroup()) {
      addView(view, iteration);
      known->second = buffers.lookup(view.getResult());
    }
    return buffers[view.getResult()] = known->second;
  }
  int64_t part = view.getPart(/*rank=*/0, iteration);
  auto known = slots.find({view.getSource(), part});
  bool isNew = known == slots.end() || (isWritten && holdsIntegers(view.getResult()));
  return buffers[view.getResult()] = isNew ? addSlot(view, part) : known->second;
}

/// Adds a view as a buffer with its own shape. Its bytes belong to its base.
void ProgramMaker::addView(plan::ViewOp view, int64_t iteration) {
  auto source = view.getSource().getDefiningOp<plan::ViewOp>();
  bool isOfSlot = source && isSlot(source);
  int32_t base = buffers.lookup(isOfSlot ? source.getResult() : plan::getMemory(view.getResult()));
  int64_t begin = isOfSlot ? view.getOwnOffset(0, iteration) : view.getByteOffset(0, iteration);
  addBuffer(view.getResult(), /*isArgument=*/false);
  SimBuffer &buffer = program.buffers.back();
  buffer.base = base;
  int64_t bytes = std::exchange(buffer.bytes, 0);
  if (bytes == 0)
    return;
  int64_t rowBytes = buffer.shape.empty() ? bytes : bytes / buffer.shape.front();
  if (!view.getGroup()) {
    buffer.firstRow = begin / rowBytes;
    return;
  }
  // The source of a view with a group has no group.
  buffer.firstRow = source && !isOfSlot ? source.getByteOffset(0, iteration) / rowBytes : 0;
  buffer.partGroup = getGroup(*view.getGroup());
  buffer.parts = static_cast<int64_t>(view.getParts());
  buffer.shift = static_cast<int64_t>(view.getShift());
}

int64_t SimProgram::getFirstRow(int32_t buffer, int64_t rank) const {
  const SimBuffer &view = buffers[buffer];
  if (view.firstRow < 0 || view.partGroup < 0)
    return view.firstRow;
  const SimGroup &group = groups[view.partGroup];
  int64_t part = (group.getMember(rank) / (group.size / view.parts) + view.shift) % view.parts;
  return view.firstRow + part * view.shape.front();
}

/// Returns the buffer's number, and notes that the launch being added touches it.
int32_t ProgramMaker::touch(Value value, int64_t iteration, bool isWritten) {
  auto view = value.getDefiningOp<plan::ViewOp>();
  if (hasLoop && isWritten && value.getDefiningOp<plan::BufferOp>() && holdsIntegers(value))
    addBuffer(value, /*isArgument=*/false);
  bool isOfRing = view && rings.contains(plan::getMemory(value));
  int32_t index = isOfRing ? getView(view, iteration, isWritten) : buffers.lookup(value);
  int32_t base = program.buffers[index].base;
  SimBuffer &buffer = program.buffers[base < 0 ? index : base];
  auto launch = static_cast<int32_t>(program.launches.size());
  if (buffer.firstLaunch < 0)
    buffer.firstLaunch = launch;
  buffer.lastLaunch = launch;
  return index;
}

int32_t ProgramMaker::getGroup(GroupAttr group) {
  auto [entry, isNew] = groups.insert({group, static_cast<int32_t>(program.groups.size())});
  if (isNew)
    program.groups.push_back({group.getName().str(), group.getSize(), group.getStride()});
  return entry->second;
}

int32_t ProgramMaker::addChannel(plan::LaunchOp op) {
  GroupAttr group = *op.getGroup();
  plan::Channel channel = *op.getChannel();
  int64_t own = op.getOutputs().empty() ? channel.from : channel.to;
  int64_t origin = program.firstRank - own * group.getStride(), span = program.numRanks;
  int64_t sender = origin + channel.from * group.getStride(), receiver = origin + channel.to * group.getStride();
  program.groups.push_back({group.getName().str(), 2, receiver - sender, sender, span});
  return static_cast<int32_t>(program.groups.size()) - 1;
}

uint32_t ProgramMaker::getStream(StringRef name) const {
  return llvm::find(program.streams, name) - program.streams.begin();
}

/// Number of micro-batches from one iteration of the loop around `op` to the next.
static int64_t getMicroBatchStep(plan::LaunchOp op) {
  auto loop = op->getParentOfType<plan::LoopOp>();
  return loop ? static_cast<int64_t>(loop.getMicroBatches().value_or(0)) : 0;
}

void ProgramMaker::addLaunch(plan::LaunchOp op, int64_t iteration) {
  SimLaunch launch;
  launch.kernel = op.getKernel().str();
  launch.op = opNumbers.lookup(op);
  launch.label = op.getLabel().value_or("").str();
  launch.cost = op.getOpCost();
  llvm::append_range(launch.counts, op.getCountsRules());
  if (std::optional<APFloat> seconds = op.getSeconds())
    launch.transferSeconds = seconds->convertToDouble();
  if (auto microBatch = op->getAttrOfType<ChunkAttr>(kMicroBatchAttrName))
    launch.microBatch = static_cast<int32_t>(microBatch.getIndex() + iteration * getMicroBatchStep(op));
  if (auto stage = op->getAttrOfType<StageAttr>(kStageAttrName)) {
    launch.stage = static_cast<int32_t>(stage.getIndex());
    launch.isBackward = stage.isBackward();
    launch.isOfWeights = stage.getWork() == StageWork::weights;
  }
  launch.stream = getStream(op.getStreamOrDefault());
  if (auto pass = op->getAttrOfType<IntegerAttr>(plan::kPassAttrName))
    launch.pass = pass.getInt();
  if (op.getPeer())
    launch.group = addChannel(op);
  else if (op.getGroup())
    (op.getCollective() ? launch.group : launch.partGroup) = getGroup(*op.getGroup());
  if (ArrayAttr params = op.getParamsAttr())
    for (Attribute param : params)
      if (auto value = dyn_cast<IntegerAttr>(param))
        launch.params.push_back(value.getInt());
  auto present = op.getInputs().begin();
  ArrayRef<int64_t> absent = op.getAbsentInputs();
  for (size_t input = 0; input < op.getInputs().size() + absent.size(); ++input)
    launch.inputs.push_back(llvm::is_contained(absent, input) ? -1 : touch(*present++, iteration, /*isWritten=*/false));
  for (Value output : op.getOutputs())
    launch.outputs.push_back(touch(output, iteration, /*isWritten=*/true));
  for (Value value : op->getOperands())
    if (Type element = cast<MemRefType>(value.getType()).getElementType(); isa<FloatType>(element)) {
      launch.dtype = getDTypeName(element);
      break;
    }
  StringRef layer = getLayerOfLabel(launch.label);
  if (launch.getRouting() && !llvm::is_contained(program.routedLayers, layer))
    program.routedLayers.push_back(layer.str());
  program.ops.push_back({SimOp::Kind::Launch, launch.stream, static_cast<uint32_t>(program.launches.size())});
  program.launches.push_back(std::move(launch));
}

static llvm::Error checkCost(plan::LaunchOp op) {
  OpCost cost = op.getOpCost();
  auto fail = [&](const Twine &what) { return llvm::createStringError("launch " + op.describe() + ": " + what); };
  auto calls = static_cast<int64_t>(op.getInputs().size() + op.getAbsentInputs().size());
  if (!op.getCost())
    return fail("expected a cost, from which its time follows");
  if (cost.countsInput >= calls)
    return fail("expected the cost's counts to be the number of an input");
  if (op.getCollective() && cost.root >= op.getGroup()->getSize())
    return fail("expected the cost's root to be a member of the group");
  return llvm::Error::success();
}

void ProgramMaker::noteLoop(plan::Iterations iterations) {
  auto loops = llvm::to_vector(function.getOps<plan::LoopOp>());
  if (loops.size() != 1)
    return;
  plan::LoopOp loop = loops.front();
  auto inLoop = loop.getBody().getOps<plan::LaunchOp>();
  auto isBefore = [&](plan::LaunchOp launch) { return launch->isBeforeInBlock(loop); };
  program.loop.first = llvm::count_if(function.getOps<plan::LaunchOp>(), isBefore);
  program.loop.length = std::distance(inLoop.begin(), inLoop.end());
  program.loop.count = iterations(loop);
  program.loop.all = loop.getCount();
  program.loop.microBatches = plan::getMicroBatches(loop);
  // The representative iterations include the first and the last, which differ from the others.
  program.loop.reach = plan::getRepresentative(loop) - 2;
}

/// Reserves memory, because a long step has many launches, and they are large.
void ProgramMaker::reserve(plan::Iterations iterations) {
  size_t launches = 0, ops = 0;
  function.walk([&](Operation *op) {
    auto loop = op->getParentOfType<plan::LoopOp>();
    size_t times = loop ? iterations(loop) : 1;
    launches += isa<plan::LaunchOp>(op) ? times : 0;
    ops += isa<plan::LaunchOp, plan::RecordOp, plan::WaitOp>(op) ? times : 0;
  });
  program.launches.reserve(launches);
  program.ops.reserve(ops);
}

llvm::DenseMap<Operation *, uint32_t> mlir::moe::numberOps(func::FuncOp function) {
  llvm::DenseMap<Operation *, uint32_t> numbers;
  uint32_t next = 0;
  function.walk([&](plan::LaunchOp launch) {
    func::FuncOp subprogram = plan::getSubprogram(launch);
    numbers[launch] = next;
    next += subprogram
                ? std::distance(subprogram.getOps<plan::LaunchOp>().begin(), subprogram.getOps<plan::LaunchOp>().end())
                : 1;
  });
  return numbers;
}

llvm::Error ProgramMaker::make(int64_t world, LoopForm loops, int64_t leftOut) {
  program.name = function.getName().str();
  program.numRanks = world;
  if (auto ranks = function->getAttrOfType<DenseI64ArrayAttr>(plan::kRanksAttrName)) {
    program.firstRank = ranks[0];
    program.numRanks = ranks[1];
  }
  for (StringRef stream : plan::getStreams(function))
    program.streams.push_back(stream.str());
  for (BlockArgument argument : function.getArguments())
    addBuffer(argument, /*isArgument=*/true);
  opNumbers = numberOps(function);
  hasLoop = !function.getOps<plan::LoopOp>().empty();
  function.walk([&](plan::ViewOp view) {
    if (Value memory = plan::getMemory(view.getResult()); view.getStep() && memory.getDefiningOp())
      rings.insert(memory);
  });
  llvm::Error error = llvm::Error::success();
  auto getIterations = [&](plan::LoopOp loop) {
    return loops == LoopForm::Once ? 1 : std::max<int64_t>(1, loop.getCount() - leftOut / plan::getMicroBatches(loop));
  };
  noteLoop(getIterations);
  reserve(getIterations);
  plan::forEachIssued(function, getIterations, [&](Operation *op, int64_t iteration) {
    if (!error)
      error = addOp(op, iteration);
  });
  return error;
}

llvm::Error ProgramMaker::addOp(Operation *op, int64_t iteration) {
  if (auto buffer = dyn_cast<plan::BufferOp>(op)) {
    addBuffer(buffer.getMemref(), /*isArgument=*/false);
  } else if (auto view = dyn_cast<plan::ViewOp>(op)) {
    // Launches add the slots that they use.
    if (!rings.contains(plan::getMemory(view.getResult())))
      addView(view, iteration);
  } else if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
    if (llvm::Error error = checkCost(launch))
      return error;
    addLaunch(launch, iteration);
  }
  auto addEvent = [&](SimOp::Kind kind, auto event) {
    program.ops.push_back({kind, getStream(event.getStream()), static_cast<uint32_t>(event.getEventAt(iteration))});
    program.numEvents = std::max<uint32_t>(program.numEvents, event.getEndOfEvents());
  };
  if (auto record = dyn_cast<plan::RecordOp>(op))
    addEvent(SimOp::Kind::Record, record);
  else if (auto wait = dyn_cast<plan::WaitOp>(op))
    addEvent(SimOp::Kind::Wait, wait);
  return llvm::Error::success();
}

llvm::Expected<SimProgram> mlir::moe::makeSimProgram(func::FuncOp function, int64_t world, LoopForm loops,
                                                     int64_t leftOut) {
  ProgramMaker maker(function);
  if (llvm::Error error = maker.make(world, loops, leftOut))
    return error;
  return std::move(maker.program);
}

llvm::Expected<std::vector<SimProgram>> mlir::moe::makeSimPrograms(ModuleOp plan, LoopForm loops, int64_t leftOut) {
  auto parallel = plan->getAttrOfType<ParallelAttr>(kParallelAttrName);
  if (!parallel)
    return llvm::createStringError("expected a plan whose module has " + kParallelAttrName);
  SmallVector<func::FuncOp> functions = plan::getRankPrograms(plan);
  std::vector<SimProgram> programs(functions.size());
  std::vector<std::string> errors(functions.size());
  parallelFor(plan.getContext(), 0, functions.size(), [&](size_t index) {
    if (failed(plan::verifyRankProgram(functions[index]))) {
      errors[index] = ("expected a rank program but got '" + functions[index].getName() + "'").str();
      return;
    }
    llvm::Expected<SimProgram> program = makeSimProgram(functions[index], parallel.getWorld(), loops, leftOut);
    if (program)
      programs[index] = std::move(*program);
    else
      errors[index] = llvm::toString(program.takeError());
  });
  for (const std::string &error : errors)
    if (!error.empty())
      return llvm::createStringError(error);
  if (programs.empty())
    return llvm::createStringError("expected a plan with a rank program, as moe-compile --emit=plan writes it");
  if (llvm::Error error = checkRanks(programs, parallel.getWorld()))
    return error;
  return programs;
}

llvm::Error mlir::moe::checkRanks(llvm::ArrayRef<SimProgram> programs, int64_t ranks) {
  int64_t next = 0;
  for (const SimProgram &program : programs) {
    if (program.firstRank != next)
      return llvm::createStringError("expected each rank to have one program, but rank " + Twine(next) +
                                     " has none or several");
    next += program.numRanks;
  }
  if (next != ranks)
    return llvm::createStringError("expected programs for " + Twine(ranks) + " ranks but got " + Twine(next));
  return llvm::Error::success();
}

const CountsRule *SimLaunch::getRouting() const {
  const auto *rule = llvm::find_if(counts, [](const CountsRule &rule) { return rule.getRouted().has_value(); });
  return rule == counts.end() ? nullptr : rule;
}

const SimLaunch &SimProgram::getRouter(StringRef layer) const {
  return *llvm::find_if(
      launches, [&](const SimLaunch &launch) { return launch.getRouting() && getLayerOfLabel(launch.label) == layer; });
}

RoutedShape mlir::moe::getRoutedShape(const SimProgram &program, const SimLaunch &launch, const CountsRule &routing) {
  counts::Route routed = *routing.getRouted();
  return {routed.tokens, routed.topK, program.buffers[launch.outputs[routing.output]].shape.back()};
}

llvm::Expected<RoutedShape> mlir::moe::getRoutedShape(ArrayRef<SimProgram> programs) {
  RoutedShape shape;
  for (const SimProgram &program : programs)
    for (const SimLaunch &launch : program.launches) {
      const CountsRule *routing = launch.getRouting();
      if (!routing)
        continue;
      RoutedShape found = getRoutedShape(program, launch, *routing);
      if (shape.experts && (found.tokens != shape.tokens || found.topK != shape.topK || found.experts != shape.experts))
        return llvm::createStringError("expected all layers to route " + llvm::Twine(shape.tokens) + " tokens to " +
                                       llvm::Twine(shape.topK) + " of " + llvm::Twine(shape.experts) +
                                       " experts but '" + launch.label + "' routes " + llvm::Twine(found.tokens) +
                                       " to " + llvm::Twine(found.topK) + " of " + llvm::Twine(found.experts));
      shape = found;
    }
  return shape;
}

std::vector<std::string> mlir::moe::listRoutedLayers(ArrayRef<SimProgram> programs) {
  std::vector<std::pair<int32_t, std::string>> layers; // with the stage of each
  for (const SimProgram &program : programs)
    for (const std::string &layer : program.routedLayers)
      layers.emplace_back(program.getRouter(layer).stage, layer);
  // A rank of an interleaved pipeline has several stages, and other ranks have those between them.
  llvm::stable_sort(layers, llvm::less_first());
  std::vector<std::string> names;
  for (auto &[stage, name] : layers)
    if (!llvm::is_contained(names, name))
      names.push_back(std::move(name));
  return names;
}
