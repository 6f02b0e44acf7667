//===- Trace.cpp - steps as Perfetto/Chrome traces ------------------------===//
//
// The form is the runtime's (runtime/lib/run/Trace.cpp), so that a predicted and a measured step lie side by side in a
// viewer and what reads one reads the other.
//
//===----------------------------------------------------------------------===//
#include "moe/Report/SimOutput.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include "moe/Support/InputFile.h"
#include <cmath>

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

static constexpr double microseconds = 1e6;

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
  return json::Object{{"ph", "X"},
                      {"name", json::fixUTF8(getLaunchName(program, time.launch))},
                      {"cat", launch.group >= 0 ? "communication" : "compute"},
                      {"pid", rank.rank},
                      {"tid", static_cast<int64_t>(launch.stream)},
                      {"ts", time.begin * microseconds},
                      {"dur", (time.end - time.begin) * microseconds},
                      {"args", std::move(args)}};
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

namespace {
/// Reads one trace; the first error is kept, and later reads return defaults.
class TraceReader {
public:
  TraceReader(StringRef fileName) : fileName(fileName) {}

  llvm::Expected<std::vector<MeasuredOp>> read(StringRef text);

private:
  llvm::Expected<json::Value> parse(StringRef text) const;
  void readEvent(const json::Value &event, std::vector<MeasuredOp> &ops);
  const json::Value *find(const json::Object &object, StringRef key, const Twine &expected);
  int64_t getCount(const json::Object &object, StringRef key);
  double getNumber(const json::Object &object, StringRef key);
  void fail(const Twine &key, const Twine &expected, const json::Value *got);
  llvm::Error makeError(const Twine &message) const {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), Twine(fileName) + message);
  }

  StringRef fileName;
  std::string place; ///< as "traceEvents[3]."
  std::string error;
};
} // namespace

void TraceReader::fail(const Twine &key, const Twine &expected, const json::Value *got) {
  constexpr size_t longest = 60;
  if (!error.empty())
    return;
  std::string text = got ? llvm::formatv("{0}", *got).str() : "nothing";
  if (text.size() > longest)
    text = json::fixUTF8(StringRef(text).take_front(longest)) + "...";
  error = ("'" + place + key + "': expected " + expected + " but got " + text).str();
}

const json::Value *TraceReader::find(const json::Object &object, StringRef key, const Twine &expected) {
  const json::Value *value = object.get(key);
  if (!value)
    fail(key, expected, nullptr);
  return value;
}

int64_t TraceReader::getCount(const json::Object &object, StringRef key) {
  const json::Value *value = find(object, key, "an integer that is not negative");
  std::optional<int64_t> number = value ? value->getAsInteger() : std::nullopt;
  if (value && (!number || *number < 0))
    fail(key, "an integer that is not negative", value);
  return number.value_or(0);
}

double TraceReader::getNumber(const json::Object &object, StringRef key) {
  const json::Value *value = find(object, key, "a number");
  std::optional<double> number = value ? value->getAsNumber() : std::nullopt;
  if (value && (!number || !std::isfinite(*number)))
    fail(key, "a number", value);
  return number.value_or(0);
}

void TraceReader::readEvent(const json::Value &event, std::vector<MeasuredOp> &ops) {
  const json::Object *object = event.getAsObject();
  if (!object)
    return fail("ph", "an event", &event);
  // Only complete events are launches; others name things.
  if (object->getString("ph") != "X")
    return;
  MeasuredOp op;
  op.rank = getCount(*object, "pid");
  op.stream = getCount(*object, "tid");
  op.begin = getNumber(*object, "ts") / microseconds;
  double seconds = getNumber(*object, "dur") / microseconds;
  if (seconds < 0)
    fail("dur", "a number that is not negative", object->get("dur"));
  op.end = op.begin + seconds;
  const json::Value *name = find(*object, "name", "a string");
  if (name && !name->getAsString())
    fail("name", "a string", name);
  const json::Value *args = find(*object, "args", "an object with 'op'");
  if (args && !args->getAsObject())
    fail("args", "an object with 'op'", args);
  if (!error.empty())
    return;
  op.name = name->getAsString()->str();
  place += "args.";
  op.op = getCount(*args->getAsObject(), "op");
  ops.push_back(std::move(op));
}

/// The line and column of a text where brackets nest deeper than `limit`; none where they do not. Brackets in strings
/// do not count.
static std::optional<std::pair<unsigned, unsigned>> findTooDeep(StringRef text, unsigned limit) {
  unsigned line = 1, column = 1, depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i, ++column) {
    char c = text[i];
    if (c == '\n') {
      ++line;
      column = 0;
    } else if (inString && c == '\\') {
      ++i;
      ++column;
    } else if (c == '"') {
      inString = !inString;
    } else if (!inString && (c == '[' || c == '{')) {
      if (++depth > limit)
        return std::make_pair(line, column);
    } else if (!inString && (c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return std::nullopt;
}

llvm::Expected<json::Value> TraceReader::parse(StringRef text) const {
  // LLVM's parser recurses, so what it is given must not nest deeper than the stack allows; a trace needs four levels.
  constexpr unsigned maxDepth = 64;
  if (auto place = findTooDeep(text, maxDepth))
    return makeError(":" + Twine(place->first) + ":" + Twine(place->second) + ": error: expected at most " +
                     Twine(maxDepth) + " nested brackets");
  llvm::Expected<json::Value> value = json::parse(text);
  if (value)
    return value;
  // "[line:column, byte=N]: what"
  std::string message = llvm::toString(value.takeError());
  auto [position, what] = StringRef(message).split("]: ");
  return makeError(":" + position.drop_front().split(',').first + ": error: expected a trace in JSON: " + what);
}

llvm::Expected<std::vector<MeasuredOp>> TraceReader::read(StringRef text) {
  llvm::Expected<json::Value> value = parse(text);
  if (!value)
    return value.takeError();
  const json::Object *object = value->getAsObject();
  const json::Value *events = object ? object->get("traceEvents") : nullptr;
  if (!events || !events->getAsArray())
    return makeError(": error: 'traceEvents': expected an array, as moe-run --trace writes it");
  std::vector<MeasuredOp> ops;
  for (auto [number, event] : llvm::enumerate(*events->getAsArray())) {
    place = ("traceEvents[" + Twine(number) + "].").str();
    readEvent(event, ops);
    if (!error.empty())
      return makeError(": error: " + error);
  }
  if (ops.empty())
    return makeError(": error: 'traceEvents': expected launches (events with \"ph\": \"X\") but got none");
  return ops;
}

llvm::Expected<std::vector<MeasuredOp>> mlir::moe::parseTrace(StringRef text, StringRef fileName) {
  return TraceReader(fileName).read(text);
}

llvm::Expected<std::vector<MeasuredOp>> mlir::moe::loadTrace(StringRef path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readInputFile(path);
  if (!buffer)
    return buffer.takeError();
  return parseTrace((*buffer)->getBuffer(), path);
}
