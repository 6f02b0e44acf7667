//===- HappensBefore.cpp - the order of a rank program --------------------===//
#include "moe/Dialect/Plan/Transforms/HappensBefore.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::plan;

bool StreamClocks::wait(int64_t event, unsigned stream) {
  auto it = events.find(event);
  if (it == events.end())
    return false;
  join(it->second, stream);
  return true;
}

void StreamClocks::join(ArrayRef<int32_t> clock, unsigned stream) {
  for (auto [known, other] : llvm::zip(clocks[stream], clock))
    known = std::max(known, other);
}

HappensBefore::HappensBefore(func::FuncOp program, Iterations iterations) : streams(getStreams(program)) {
  llvm::StringMap<unsigned> numbers;
  for (auto [number, stream] : llvm::enumerate(streams))
    numbers[stream] = number;
  StreamClocks now(streams.size());
  forEachIssued(program, iterations, [&](Operation *op, int64_t iteration) {
    StringRef name = getStreamOf(op);
    if (name.empty())
      return;
    unsigned stream = numbers.lookup(name);
    if (auto record = dyn_cast<RecordOp>(op)) {
      now.record(record.getEventAt(iteration), stream);
    } else if (auto wait = dyn_cast<WaitOp>(op)) {
      now.wait(wait.getEventAt(iteration), stream);
    } else {
      indices[op].push_back(launches.size());
      launches.push_back(cast<LaunchOp>(op));
      iterationOf.push_back(iteration);
      streamOf.push_back(stream);
      llvm::append_range(clocks, now.get(stream));
      positions.push_back(now.launch(stream));
    }
  });
}
