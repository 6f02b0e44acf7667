//===- Trace.cpp - steps as Perfetto/Chrome traces ------------------------===//
//
// The form is the runtime's (runtime/lib/run/Trace.cpp). A viewer can show a predicted and a measured step side by
// side, and a reader of one reads the other.
//
//===----------------------------------------------------------------------===//
#include "moe/Report/SimOutput.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include "moe/Support/InputFile.h"
#include "moe/Support/JsonReader.h"

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

static constexpr double microseconds = 1e6;
/// Colours of micro-batches in turn, by names that Chrome's viewer knows: blue, red, green and orange. Perfetto's own
/// viewer takes colours from the names of launches.
static constexpr StringRef colours[] = {"rail_response", "rail_animation", "rail_load", "rail_idle"};

static json::Object makeNameEvent(StringRef kind, int64_t rank, int64_t stream, StringRef name) {
  return json::Object{{"ph", "M"},
                      {"name", kind},
                      {"pid", rank},
                      {"tid", stream},
                      {"args", json::Object{{"name", json::fixUTF8(name)}}}};
}

static json::Object makeOpEvent(const SimResult &result, const SimTime &time) {
  const SimRank &rank = result.ranks[time.rank];
  const SimProgram &program = result.programs[rank.program];
  const SimLaunch &launch = program.launches[time.launch];
  json::Object args{{"op", static_cast<int64_t>(time.launch)},
                    {"label", json::fixUTF8(launch.label)},
                    {"flops", time.flops},
                    {"bytes", time.bytes}};
  if (time.rows >= 0)
    args["rows"] = time.rows;
  if (launch.microBatch >= 0) {
    args["micro_batch"] = launch.microBatch;
    args["backward"] = launch.isBackward;
    if (launch.isOfWeights)
      args["weights"] = true;
    if (launch.stage >= 0)
      args["stage"] = launch.stage;
  }
  json::Object event{{"ph", "X"},
                     {"name", json::fixUTF8(getLaunchName(program, time.launch))},
                     {"cat", launch.group >= 0 ? "communication" : "compute"},
                     {"pid", rank.rank},
                     {"tid", static_cast<int64_t>(launch.stream)},
                     {"ts", time.begin * microseconds},
                     {"dur", (time.end - time.begin) * microseconds},
                     {"args", std::move(args)}};
  if (launch.microBatch >= 0)
    event["cname"] = colours[static_cast<size_t>(launch.microBatch) % std::size(colours)];
  return event;
}

void mlir::moe::writeTrace(const SimResult &result, llvm::raw_ostream &os) {
  os << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  const char *separator = "\n";
  auto put = [&](json::Object event) {
    os << separator << json::Value(std::move(event));
    separator = ",\n";
  };
  for (const SimRank &rank : result.ranks) {
    put(makeNameEvent("process_name", rank.rank, 0, getRankName(rank)));
    for (auto [number, name] : llvm::enumerate(result.programs[rank.program].streams))
      put(makeNameEvent("thread_name", rank.rank, static_cast<int64_t>(number), name));
  }
  for (const SimTime &time : result.times)
    put(makeOpEvent(result, time));
  os << "\n]}\n";
}

static int64_t getCount(JsonReader &reader, StringRef key) {
  const json::Value *value = reader.find(key);
  std::optional<int64_t> count = value ? value->getAsInteger() : std::nullopt;
  if (count && *count >= 0)
    return *count;
  reader.fail(key, "an integer that is not negative");
  return 0;
}

/// True for complete events, which are launches; others name things.
static bool isLaunch(const JsonReader &event) {
  const json::Value *kind = event.find("ph");
  return kind && kind->getAsString() == "X";
}

static MeasuredOp readLaunch(JsonReader &event) {
  constexpr NumberRange any{-kLargest, kLargest, true, "a number"},
      notNegative{0, kLargest, true, "a number that is not negative"};
  MeasuredOp op;
  op.rank = getCount(event, "pid");
  op.stream = getCount(event, "tid");
  op.begin = event.getNumber("ts", any) / microseconds;
  op.end = op.begin + event.getNumber("dur", notNegative) / microseconds;
  op.name = event.getString("name");
  JsonReader args = event.getObject("args");
  op.op = getCount(args, "op");
  return op;
}

llvm::Expected<std::vector<MeasuredOp>> mlir::moe::parseTrace(StringRef text, StringRef fileName) {
  llvm::Expected<JsonReader> trace = JsonReader::parse(text, fileName, "a trace in JSON");
  if (!trace)
    return trace.takeError();
  if (const json::Value *events = trace->find("traceEvents"); !events || !events->getAsArray())
    trace->fail("traceEvents", "an array, as moe-run --trace writes it,");
  std::vector<MeasuredOp> ops;
  for (JsonReader &event : trace->getObjects("traceEvents"))
    if (!trace->hasFailed() && isLaunch(event))
      ops.push_back(readLaunch(event));
  if (ops.empty())
    trace->fail("traceEvents", "launches (events with \"ph\": \"X\")");
  if (trace->hasFailed())
    return trace->takeError();
  return ops;
}

llvm::Expected<std::vector<MeasuredOp>> mlir::moe::loadTrace(StringRef path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readInputFile(path);
  if (!buffer)
    return buffer.takeError();
  return parseTrace((*buffer)->getBuffer(), path);
}
