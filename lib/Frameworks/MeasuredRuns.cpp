//===- MeasuredRuns.cpp - step times of a user's own jobs -----------------===//
//
// The form of logs is that of Megatron-LM core_v0.15: megatron/training/arguments.py prints the arguments, and
// megatron/training/training.py the iterations.
//
//===----------------------------------------------------------------------===//
#include "moe/Frameworks/MeasuredRuns.h"

#include "moe/Frameworks/MegatronJob.h"

#include "moe/Support/InputFile.h"
#include "moe/Support/JsonReader.h"
#include "moe/Support/Text.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"

#include <algorithm>
#include <map>

using namespace mlir::moe;
using llvm::ArrayRef;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Values of arguments
//===----------------------------------------------------------------------===//

namespace {
/// Values of one argument, under Megatron's name with underscores. A flag that is on has the value "True".
struct NamedValues {
  std::string name;
  std::vector<std::string> values;
  unsigned line = 1;

  StringRef getFirst() const { return values.empty() ? StringRef() : StringRef(values.front()); }
};

/// A flag whose value has another name in Megatron, or that switches something off.
struct FlagName {
  StringRef name, flag;
  bool isOff = false; ///< the flag is on if the value is False
};
} // namespace

static constexpr FlagName kFlagNames[] = {
    {"add_bias_linear", "disable-bias-linear", true},
    {"add_position_embedding", "no-position-embedding", true},
    {"gradient_accumulation_fusion", "no-gradient-accumulation-fusion", true},
    {"fp8", "fp8-format", false},
    {"fp4", "fp4-format", false},
};

/// Values that Megatron derives from others, and those of getUse().
static constexpr StringRef kLeftOut[] = {"fp4",
                                         "fp4_format",
                                         "fp8",
                                         "fp8_format",
                                         "cuda_graph_impl",
                                         "cuda_graph_scope",
                                         "cuda_graph_warmup_steps",
                                         "enable_cuda_graph",
                                         "end_weight_decay",
                                         "external_cuda_graph",
                                         "start_weight_decay"};

static FlagName getFlag(StringRef name) {
  for (const FlagName &one : kFlagNames)
    if (one.name == name)
      return one;
  return {name, name};
}

/// Known flag of a value; null if there is none. Flags have dashes.
static const MegatronFlag *findFlag(StringRef name) {
  std::string flag = getFlag(name).flag.str();
  std::replace(flag.begin(), flag.end(), '_', '-');
  return findMegatronFlag(flag);
}

/// Writes the argument as a flag with its values, or nothing if it is not set.
static std::string writeFlag(const NamedValues &argument) {
  FlagName its = getFlag(argument.name);
  const MegatronFlag *flag = findFlag(argument.name);
  StringRef first = argument.getFirst();
  bool isOn = its.isOff ? first == "False" : !llvm::is_contained({"", "None", "False"}, first);
  if (!isOn || !flag || llvm::is_contained(kLeftOut, argument.name))
    return "";
  std::string text = ("--" + flag->name).str();
  if (flag->values != 0)
    for (StringRef value : argument.values) {
      std::string plain = value.str();
      llvm::erase(plain, '\'');
      text += " '" + plain + "'";
    }
  return text;
}

/// The arguments as a file with each flag on its line.
static Expected<MegatronArguments> parse(std::vector<NamedValues> arguments, StringRef fileName) {
  llvm::stable_sort(arguments, [](const NamedValues &a, const NamedValues &b) { return a.line < b.line; });
  std::string text;
  unsigned line = 1;
  for (const NamedValues &argument : arguments) {
    std::string flag = writeFlag(argument);
    text.append(argument.line - line, '\n');
    line = argument.line;
    text += (flag.empty() ? "" : " ") + flag;
  }
  return parseMegatronArguments(text, fileName);
}

/// The precision of a recipe of Megatron; one without its own is named as it is, and no description has it.
static std::string getPrecision(StringRef recipe) {
  return llvm::StringSwitch<StringRef>(recipe)
      .Cases("delayed", "tensorwise", "fp8-tensor")
      .Case("blockwise", "fp8-block")
      .Default(recipe)
      .str();
}

/// Choices of the run among the parts of its framework.
static FrameworkUse getUse(ArrayRef<NamedValues> arguments) {
  llvm::StringMap<std::vector<std::string>> known;
  for (const NamedValues &one : arguments)
    known[one.name] = one.values;
  auto get = [&](StringRef name) {
    auto its = known.find(name);
    bool isSet = its != known.end() && !its->second.empty() &&
                 !llvm::is_contained({"None", "False", "none"}, StringRef(its->second.front()));
    return isSet ? its->second : std::vector<std::string>();
  };
  FrameworkUse use;
  if (std::vector<std::string> type = get("moe_token_dispatcher_type"); !type.empty() && type.front() == "flex") {
    std::vector<std::string> backend = get("moe_flex_dispatcher_backend");
    use.dispatcher = backend.empty() ? "deepep" : backend.front();
  }
  auto isOn = [&](StringRef name) { return !get(name).empty(); };
  if (isOn("fp4") || isOn("fp4_format"))
    use.precision = "nvfp4";
  else if (isOn("fp8") || isOn("fp8_format"))
    use.precision = getPrecision(isOn("fp8_recipe") ? get("fp8_recipe").front() : "delayed");
  bool hasGraph = isOn("enable_cuda_graph") || isOn("external_cuda_graph") || isOn("cuda_graph_impl");
  std::vector<std::string> scopes = get("cuda_graph_scope");
  // The preparation of tokens belongs to the router's graph.
  llvm::erase(scopes, "moe_preprocess");
  if (hasGraph)
    use.graph = llvm::join(scopes, "+");
  return use;
}

//===----------------------------------------------------------------------===//
// Logs
//===----------------------------------------------------------------------===//

namespace {
/// Iterations that Megatron reports with their time.
struct Iteration {
  int64_t number = 0;
  double milliseconds = 0;
};

class LogReader {
public:
  explicit LogReader(StringRef fileName) : fileName(fileName) {}

  Expected<MeasuredRun> run(StringRef text);

private:
  llvm::Error makeError(unsigned line, const Twine &text) const { return makeErrorAt(fileName, {line, 1}, text); }
  llvm::Error readLine(StringRef text, unsigned line);
  void readArgument(StringRef text, unsigned line);
  void readVocabulary(StringRef text, unsigned line);
  llvm::Error check() const;
  void setSeconds(MeasuredRun &run) const;

  StringRef fileName;
  std::vector<NamedValues> arguments;
  std::vector<Iteration> iterations;
  bool isInside = false, hasArguments = false; ///< the lines between the headings of the arguments
};
} // namespace

/// Parts of a value as Python prints it: "['a', 'b']" has two. Values of types and enumerations have their short names,
/// "torch.float32" that of Megatron's arguments.
static std::vector<std::string> splitValue(StringRef text, bool isList) {
  llvm::SmallVector<StringRef> parts = {text};
  if (isList && text.starts_with("[") && text.ends_with("]")) {
    parts.clear();
    text.drop_front().drop_back().split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  }
  static llvm::Regex member("^[A-Za-z_][A-Za-z0-9_]*\\.([A-Za-z_][A-Za-z0-9_]*)$");
  std::vector<std::string> values;
  for (StringRef part : parts) {
    part = part.trim(" '\"");
    llvm::SmallVector<StringRef> match;
    if (member.match(part, &match))
      part = match[1];
    values.push_back(llvm::StringSwitch<StringRef>(part)
                         .Case("float32", "fp32")
                         .Case("bfloat16", "bf16")
                         .Case("float16", "fp16")
                         .Default(part)
                         .str());
  }
  return values;
}

/// Reads "  num_layers ........... 48". The line may begin with the name of a rank.
void LogReader::readArgument(StringRef text, unsigned line) {
  static llvm::Regex form("(^|[ :])([a-z][A-Za-z0-9_]*) \\.* *(.*)$");
  llvm::SmallVector<StringRef> match;
  if (!form.match(text, &match))
    return;
  const MegatronFlag *flag = findFlag(match[2]);
  bool isList = match[2] == "cuda_graph_scope" || (flag && flag->values == kManyValues);
  arguments.push_back({match[2].str(), splitValue(match[3].trim(), isList), line});
}

/// Reads " > padded vocab (size: 151643) with 293 dummy tokens (new size: 151936)".
void LogReader::readVocabulary(StringRef text, unsigned line) {
  StringRef size = text.split("(new size: ").second.split(')').first;
  if (text.contains("padded vocab") && !size.empty())
    arguments.push_back({"padded_vocab_size", {size.str()}, line});
}

llvm::Error LogReader::readLine(StringRef text, unsigned line) {
  static llvm::Regex iteration("iteration +([0-9]+)/ *[0-9]+ .*elapsed time per iteration \\(ms\\): *([0-9.]+)");
  llvm::SmallVector<StringRef> match;
  if (text.contains("-- arguments --")) {
    if (hasArguments)
      return makeError(line, "expected the log of one run but got the arguments of another one; give --measured one "
                             "log for each run");
    isInside = hasArguments = true;
  } else if (text.contains("-- end of arguments --")) {
    isInside = false;
  } else if (isInside) {
    readArgument(text.rtrim(), line);
  } else if (iteration.match(text, &match)) {
    Iteration one;
    if (match[1].getAsInteger(10, one.number) || match[2].getAsDouble(one.milliseconds) || !(one.milliseconds > 0))
      return makeError(line, "expected an elapsed time greater than 0 but got '" + match[2] + "'");
    iterations.push_back(one);
  } else {
    readVocabulary(text, line);
  }
  return llvm::Error::success();
}

llvm::Error LogReader::check() const {
  if (iterations.empty())
    return makeError(1, "expected lines of Megatron-LM such as 'iteration 10/ 100 | .. | elapsed time per iteration "
                        "(ms): 1234.5 |' but got none; --measured also takes a JSON list of jobs with their 'step_ms'");
  if (arguments.empty())
    return makeError(1, "expected the arguments that Megatron-LM prints when it starts, such as 'num_layers "
                        "....... 48', but got none; --measured also takes a JSON list of jobs with their 'arguments'");
  return llvm::Error::success();
}

/// Takes the median of the iterations after the first ones, in which memory is reserved and kernels are chosen.
void LogReader::setSeconds(MeasuredRun &run) const {
  constexpr size_t mostWarmUp = 10;
  constexpr double milli = 1e-3;
  size_t warmUp = std::min(mostWarmUp, iterations.size() / 2);
  std::vector<double> times;
  for (const Iteration &one : ArrayRef(iterations).drop_front(warmUp))
    times.push_back(one.milliseconds);
  auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  run.seconds = milli * *middle;
  run.warmUp = llvm::formatv("iterations {0} to {1}, without {2} of warm-up", iterations[warmUp].number,
                             iterations.back().number, warmUp);
}

Expected<MeasuredRun> LogReader::run(StringRef text) {
  unsigned line = 0;
  while (!text.empty()) {
    auto [first, rest] = text.split('\n');
    text = rest;
    if (llvm::Error error = readLine(first, ++line))
      return error;
  }
  if (llvm::Error error = check())
    return error;
  MeasuredRun run;
  run.name = llvm::sys::path::filename(fileName).str();
  setSeconds(run);
  run.use = getUse(arguments);
  for (const NamedValues &one : arguments)
    if (one.name == "world_size" && (one.getFirst().getAsInteger(10, run.ranks) || run.ranks < 1))
      return makeError(one.line, "'world_size': expected a number of GPUs but got '" + one.getFirst() + "'");
  if (run.ranks == 0)
    return makeError(1, "expected the argument 'world_size', which says how many GPUs the run had");
  Expected<MegatronArguments> parsed = parse(std::move(arguments), fileName);
  if (!parsed)
    return parsed.takeError();
  run.arguments = std::move(*parsed);
  return run;
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

/// Text of a JSON value as a flag takes it.
static std::string getText(const llvm::json::Value &value) {
  if (std::optional<bool> isOn = value.getAsBoolean())
    return *isOn ? "True" : "False";
  if (std::optional<StringRef> text = value.getAsString())
    return text->str();
  return value.kind() == llvm::json::Value::Null ? "None" : llvm::formatv("{0}", value).str();
}

static NamedValues getValues(StringRef name, const llvm::json::Value &value, unsigned line) {
  NamedValues values{name.str(), {}, line};
  if (const llvm::json::Array *array = value.getAsArray())
    llvm::transform(*array, std::back_inserter(values.values),
                    [](const llvm::json::Value &element) { return getText(element); });
  else
    values.values = {getText(value)};
  return values;
}

/// Reads `arguments` of a job: an object with Megatron's names.
static std::vector<NamedValues> readArguments(JsonReader &job) {
  JsonReader reader = job.getObject("arguments");
  const llvm::json::Value *value = job.find("arguments");
  std::vector<NamedValues> arguments;
  if (!value || !value->getAsObject())
    return arguments;
  for (const auto &[key, its] : *value->getAsObject()) {
    arguments.push_back(getValues(key, its, reader.getPlace(key).line));
    if (findFlag(key))
      continue;
    std::string dashed = key.str();
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    std::string like = suggestName(dashed, getMegatronFlagNames());
    reader.fail(key,
                "an argument of Megatron-LM that MoePlan knows" + (like.empty() ? "," : " (" + like.substr(2) + ")"));
  }
  return arguments;
}

static double readStep(JsonReader &job) {
  constexpr double milli = 1e-3;
  const llvm::json::Value *value = job.find("step_ms");
  if (!value || !value->getAsArray())
    return milli * job.getNumber("step_ms", kPositive);
  std::vector<double> times = job.getNumbers("step_ms", kPositive);
  if (times.empty()) {
    job.fail("step_ms", "a number greater than 0, or a list of such");
    return 0;
  }
  llvm::sort(times);
  return milli * times[times.size() / 2];
}

/// Reads the file of a job, as --megatron-args does.
static Expected<MegatronArguments> readJobFile(StringRef path, StringRef fileName) {
  llvm::SmallString<128> full(path);
  if (!llvm::sys::path::is_absolute(path)) {
    full = llvm::sys::path::parent_path(fileName);
    llvm::sys::path::append(full, path);
  }
  Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(full);
  if (!file)
    return file.takeError();
  return parseMegatronArguments((*file)->getBuffer(), full);
}

/// Reads parts of the framework that the job names, instead of those that follow from its arguments.
static void readUse(JsonReader &job, FrameworkUse &use) {
  use.dispatcher = job.getString("dispatcher", use.dispatcher);
  use.graph = job.getString("cuda_graph", use.graph);
  use.precision = job.getString("precision", use.precision);
  if (use.precision == "bf16")
    use.precision.clear();
}

/// Reads what follows from the arguments in a file. It may leave out flags of the recipe of FP8.
static void readFileUse(JsonReader &job, const MegatronArguments &arguments, FrameworkUse &use) {
  const llvm::json::Value value = llvm::cantFail(llvm::json::parse(arguments.json));
  std::vector<NamedValues> known;
  for (const auto &[key, its] : *value.getAsObject())
    known.push_back(getValues(key, its, 1));
  use = getUse(known);
  if (!use.precision.empty() && !job.find("precision"))
    job.fail("precision", "the precision of a job in FP8, such as fp8-block,");
}

static Expected<MeasuredRun> readJob(JsonReader &job, StringRef fileName, size_t number) {
  MeasuredRun run;
  run.name = job.getString("name", ("job " + Twine(number + 1)).str());
  run.model = job.getString("model", "");
  run.ranks = job.getInteger("gpus", 1, 1 << 20, 0);
  run.seconds = readStep(job);
  std::string path = job.getString("job", "");
  if (path.empty() == !job.find("arguments"))
    job.fail("arguments", "'job' or 'arguments', and one of them,");
  std::vector<NamedValues> arguments;
  if (path.empty())
    arguments = readArguments(job);
  run.use = getUse(arguments);
  Expected<MegatronArguments> parsed =
      path.empty() ? parse(std::move(arguments), fileName) : readJobFile(path, fileName);
  if (!parsed && !job.hasFailed())
    return parsed.takeError();
  if (parsed && !path.empty())
    readFileUse(job, *parsed, run.use);
  readUse(job, run.use);
  job.refuseOtherKeys();
  if (job.hasFailed()) {
    llvm::consumeError(parsed.takeError());
    return job.takeError();
  }
  run.arguments = std::move(*parsed);
  if (run.ranks == 0)
    run.ranks = getMegatronRanks(run.arguments);
  return run;
}

static Expected<std::vector<MeasuredRun>> readList(StringRef text, StringRef fileName) {
  Expected<JsonReader> root = JsonReader::parse(("{\"jobs\":" + text + "}").str(), fileName);
  if (!root)
    return root.takeError();
  std::vector<MeasuredRun> runs;
  std::vector<JsonReader> jobs = root->getObjects("jobs");
  if (jobs.empty())
    root->fail("jobs", "a list of jobs with their 'step_ms'");
  if (root->hasFailed())
    return root->takeError();
  for (auto [number, job] : llvm::enumerate(jobs)) {
    Expected<MeasuredRun> run = readJob(job, fileName, number);
    if (!run)
      return run.takeError();
    if (run->ranks == 0)
      return makeErrorAt(fileName, job.getPlace(""), "expected 'gpus', the number of GPUs of the job");
    runs.push_back(std::move(*run));
  }
  return runs;
}

Expected<std::vector<MeasuredRun>> mlir::moe::readMeasuredRuns(StringRef text, StringRef fileName) {
  static llvm::Regex list("^[ \t\r\n]*\\[[ \t\r\n]*[]{]");
  if (list.match(text))
    return readList(text, fileName);
  Expected<MeasuredRun> run = LogReader(fileName).run(text);
  if (!run)
    return run.takeError();
  return std::vector{std::move(*run)};
}
