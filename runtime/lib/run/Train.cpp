//===- Train.cpp - moe-run --train ----------------------------------------===//

#include "run/Inputs.h"
#include "run/MoeRun.h"
#include "run/Runner.h"
#include "run/TokenData.h"
#include "run/checkpoint/CheckpointFolder.h"
#include "run/checkpoint/CheckpointWriter.h"
#include "run/checkpoint/Replace.h"
#include "run/checkpoint/Safetensors.h"
#include "run/checkpoint/ShardedState.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <optional>

namespace moert::run {
namespace {

using Json = nlohmann::ordered_json;

const Value *find(const std::vector<Value> &values, const std::string &name) {
  auto it = std::find_if(values.begin(), values.end(), [&](const Value &value) { return value.name == name; });
  return it == values.end() ? nullptr : &*it;
}

/// Arguments that each step gets from the data and the schedule.
constexpr std::array<const char *, 3> kGiven = {"tokens", "labels", "learning_rate"};

/// Record of a step.
struct StepRecord {
  int64_t step = 0;
  double rate = 0, seconds = 0;
  std::vector<std::pair<std::string, double>> results; ///< values of losses and metrics

  Json json() const {
    Json object = {{"step", step}};
    for (const auto &[name, value] : results)
      object[name] = value;
    object["learning_rate"] = rate;
    object["seconds"] = seconds;
    return object;
  }
};

/// Learning rate of step `step`. It rises to options.rate during the warm-up. Then it falls along half a wave of the
/// cosine to options.finalRate at the last step.
double learningRate(const TrainOptions &options, int64_t step) {
  auto ratio = [](int64_t part, int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); };
  if (step < options.warmup)
    return options.rate * ratio(step + 1, options.warmup);
  if (options.finalRate < 0)
    return options.rate;
  double done = std::min(1.0, ratio(step - options.warmup, std::max<int64_t>(1, options.steps - 1 - options.warmup)));
  return options.finalRate + (options.rate - options.finalRate) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

volatile std::sig_atomic_t terminationAsked = 0;

/// Lets the first SIGTERM end training after a step. The next one ends the process.
void catchTermination() {
  struct sigaction action = {};
  action.sa_handler = [](int) { terminationAsked = 1; };
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGTERM, &action, nullptr);
}

class Trainer {
public:
  Trainer(const Options &options, std::ostream &out, std::ostream &err)
      : options(options), out(out), err(err), note(options.isFirst() ? err.rdbuf() : nullptr) {}

  Status run();

private:
  Status open();
  Status checkPlan();
  Status checkSteps();
  Status start();
  Status openCheckpoint();
  Status makeRest(bool resumed, Tensors &inputs);
  Status goOn();
  void comparePositions();
  TrainingPosition positionAt(int64_t step) const;
  bool hasReplicas(const Value &value) const;
  Status openLog();
  Status step(int64_t number, StepRecord &record);
  Status print(const StepRecord &record);
  Status findTermination(bool &stops);
  Status trainTo(int64_t end, bool &stops);
  Status writeOneFile();
  Status writeFolder(int64_t step);
  bool isPublished(const Value &value) const;
  Status savePublished();
  Status savePublishedFromMemory();
  Status writeScratch(const std::string &scratch);

  const Options &options;
  std::ostream &out, &err;
  std::ostream note; ///< `err` in process 0, and nowhere in others
  Plan plan;
  std::vector<Value> arguments, results; ///< arguments and results of all programs
  TokenData data;
  RunResult result;
  std::optional<Runner> runner;
  Loads loads;
  CheckpointWriter writer;
  int64_t firstStep = 0;
  OutputFile log;
  /// File that is replaced and locked: the target of --checkpoint, or `latest` in its folder.
  std::string checkpoint;
  bool isFolder = false;
  CheckpointFolder folder;
  std::optional<ShardedCheckpoint> sharded; ///< checkpoint in the folder to resume from
  FileLocks locks;
  Json records = Json::array();
};

/// Checks that the plan has the values that training needs.
Status Trainer::checkPlan() {
  for (const char *name : {"tokens", "labels", "learning_rate", "step"})
    if (!find(arguments, name))
      return invalid(std::string("--train: expected a plan with an argument '") + name +
                     "', as moe-compile --whole-model --optimizer=adam makes");
  const Value &tokens = *find(arguments, "tokens");
  if (tokens.below < 1)
    return invalid("--train: expected a plan that gives the size of its vocabulary");
  if (tokens.sequence < 1 || tokens.elements() % tokens.sequence != 0)
    return invalid("--train: expected a plan that gives the length of its sequences");
  if (!find(results, "loss"))
    return invalid("--train: expected a plan with a result 'loss'");
  return {};
}

Status Trainer::open() {
  MOERT_RETURN_IF_ERROR(Plan::open(options.plan, options.batch, options.seq, plan));
  if (options.reference && !plan.metadata.reference)
    return invalid("the plan has no reference program");
  arguments = argumentsOf(plan.programs(options.reference));
  results = resultsOf(plan.programs(options.reference));
  // The loss comes first, before the metrics of earlier stages.
  std::stable_partition(results.begin(), results.end(), [](const Value &value) { return value.role == "loss"; });
  MOERT_RETURN_IF_ERROR(checkPlan());
  MOERT_RETURN_IF_ERROR(checkMemory(plan, options.reference, options, 0));
  const TrainOptions &train = options.train;
  const Value &tokens = *find(arguments, "tokens");
  MOERT_RETURN_IF_ERROR(
      data.open(train.data, train.dataType, {tokens.sequence, tokens.elements(), tokens.below, options.seed}));
  note << "moe-run: '" << train.data << "' has " << data.size() << " tokens of type " << data.getType().name << "\n";
  return {};
}

/// Checks that there is a step left to train. A job that is started again after its last step is done. A checkpoint of
/// a later step does not belong to --steps.
Status Trainer::checkSteps() {
  const int64_t steps = options.train.steps;
  if (firstStep < steps)
    return {};
  const std::string message = "nothing to train: training is at step " + std::to_string(firstStep) +
                              ", and --steps=" + std::to_string(steps) +
                              " ends it at that step; to train 10 more, give --steps=" + std::to_string(firstStep + 10);
  if (firstStep > steps)
    return invalid(message);
  note << "moe-run: " << message << "\n";
  return {};
}

/// Locks the checkpoint, and finds the one to resume from.
Status Trainer::openCheckpoint() {
  const std::string &path = options.train.checkpoint;
  if (path.empty())
    return {};
  isFolder = CheckpointFolder::isMeant(path);
  std::error_code error;
  if (isFolder)
    std::filesystem::create_directories(path, error);
  if (error)
    return invalid("'" + path + "': cannot be made: " + error.message());
  MOERT_RETURN_IF_ERROR(targetOf(isFolder ? path + "/latest" : path, checkpoint));
  if (Status status = options.isFirst() ? locks.take(checkpoint, err) : Status{}; !status.ok() || !isFolder)
    return status;
  if (Status status = folder.open(path); !status.ok() || folder.latest().empty())
    return status;
  Status status = sharded.emplace().open(folder.latest());
  return status.ok() ? status : Status::error(status.code, status.message + folder.otherText());
}

/// Makes all values, or those that the folder of a checkpoint does not have.
Status Trainer::makeRest(bool resumed, Tensors &inputs) {
  // A resumed training has all values from its checkpoint, but --save-checkpoint still needs the layout of --load.
  std::vector<std::string> paths =
      resumed && options.saveCheckpoint.empty() ? std::vector<std::string>{} : options.loads;
  if (resumed && !sharded)
    paths.insert(paths.begin(), checkpoint);
  MOERT_RETURN_IF_ERROR(loads.open(paths, arguments));
  std::vector<Value> rest = arguments;
  if (sharded)
    std::erase_if(rest, isTrainingState);
  InputOptions initial{.seed = options.seed,
                       .allowMissing = options.allowMissing,
                       .allowNan = options.allowNan,
                       .isNew = true,
                       .givenLater = {kGiven.begin(), kGiven.end()}};
  return makeInputs(rest, loads, initial, err, inputs);
}

/// Starts from a checkpoint if there is one.
Status Trainer::start() {
  MOERT_RETURN_IF_ERROR(openCheckpoint());
  bool resumed = sharded || (!checkpoint.empty() && !isFolder && std::filesystem::exists(checkpoint));
  Tensors inputs;
  MOERT_RETURN_IF_ERROR(makeRest(resumed, inputs));
  WriterOptions writing{options.shardBytes, options.process, options.processes};
  if (!options.saveCheckpoint.empty())
    MOERT_RETURN_IF_ERROR(writer.open(options.saveCheckpoint, arguments, loads, note, writing));
  firstStep = sharded ? sharded->index().position.step : inputs.at("step").as<int32_t>()[0];
  if (resumed)
    note << "moe-run: resumed from '" << (sharded ? sharded->path() : checkpoint) << "' at step " << firstStep << "\n";
  MOERT_RETURN_IF_ERROR(checkSteps());
  runner.emplace(plan, options.reference, options, result);
  MOERT_RETURN_IF_ERROR(runner->create());
  for (const auto &[name, tensor] : inputs)
    MOERT_RETURN_IF_ERROR(runner->write(name, tensor));
  return sharded ? goOn() : Status{};
}

/// Resumes: each process reads the parts of its ranks.
Status Trainer::goOn() {
  comparePositions();
  Status status = checkShards(*runner, *sharded, isTrainingState, note);
  if (status.ok())
    status = readShards(*runner, *sharded, isTrainingState, options.allowNan);
  if (!status.ok())
    status.message += folder.otherText();
  return runner->meet(status);
}

TrainingPosition Trainer::positionAt(int64_t step) const {
  return {step, options.seed, data.size(), find(arguments, "tokens")->elements()};
}

/// Warns if training does not resume with the next tokens.
void Trainer::comparePositions() {
  const TrainingPosition then = sharded->index().position, now = positionAt(firstStep);
  auto compare = [&](const char *what, auto was, auto is) {
    if (was != is)
      note << "moe-run: warning: the checkpoint is of training with " << what << " " << was << ", which is now " << is
           << ": from here on, steps have other tokens\n";
  };
  compare("--seed", then.seed, now.seed);
  compare("a number of tokens in --data of", then.tokens, now.tokens);
  compare("a number of tokens in a step of", then.stepTokens, now.stepTokens);
}

/// Opens the log. Keeps the lines of an existing log up to the first step of this run.
Status Trainer::openLog() {
  const std::string &path = options.train.log;
  if (path.empty())
    return {};
  std::string kept;
  if (std::ifstream old(path); old && firstStep > 0)
    for (std::string line; std::getline(old, line);)
      if (Json entry = Json::parse(line, nullptr, false);
          entry.is_object() && entry.value("step", firstStep) < firstStep)
        kept += line + "\n";
  MOERT_RETURN_IF_ERROR(log.open(path));
  log << kept;
  return log.writeOut();
}

Status Trainer::step(int64_t number, StepRecord &record) {
  record.step = number;
  record.rate = learningRate(options.train, number);
  Tensors inputs;
  for (const char *name : kGiven)
    MOERT_RETURN_IF_ERROR(Tensor::allocate(*find(arguments, name), inputs[name]));
  MOERT_RETURN_IF_ERROR(data.fill(number, inputs["tokens"], inputs["labels"]));
  const Tensor &rate = inputs["learning_rate"];
  setElement(rate.as<char>(), rate.dtype, 0, record.rate);
  for (const auto &[name, tensor] : inputs)
    MOERT_RETURN_IF_ERROR(runner->write(name, tensor));
  MOERT_RETURN_IF_ERROR(runner->runStep());
  record.seconds = result.stepSeconds.back();
  for (const Value &value : results)
    if (value.role == "loss" || value.role == "metric") {
      Tensor tensor;
      MOERT_RETURN_IF_ERROR(runner->read(value.name, tensor));
      record.results.emplace_back(value.name, elementAt(tensor.as<char>(), tensor.dtype, 0));
    }
  return {};
}

Status Trainer::print(const StepRecord &record) {
  if (!options.isFirst())
    return {};
  if (log.isOpen()) {
    log << record.json().dump() << "\n";
    MOERT_RETURN_IF_ERROR(log.writeOut());
  }
  if (options.json) {
    records.push_back(record.json());
    return {};
  }
  char text[64];
  std::snprintf(text, sizeof text, "step %6lld", static_cast<long long>(record.step));
  out << text;
  for (const auto &[name, value] : record.results) {
    std::snprintf(text, sizeof text, "  %s %.6f", name.c_str(), value);
    out << text;
  }
  const Value &tokens = *find(arguments, "tokens");
  std::snprintf(text, sizeof text, "  %.3g s  %.0f tokens/s", record.seconds,
                static_cast<double>(tokens.elements()) / record.seconds);
  out << text << std::endl;
  return {};
}

/// Whether several ranks hold the same element.
bool Trainer::hasReplicas(const Value &value) const {
  int64_t ranks = 0;
  for (const Program &program : runner->programs)
    ranks += find(program.arguments, value.name) ? program.numRanks : 0;
  return ranks * value.localElements() > value.elements();
}

/// Writes a new folder beside the old ones, which becomes the latest once it is whole.
Status Trainer::writeFolder(int64_t step) {
  auto byFirst = [&](auto act) { return runner->meet(options.isFirst() ? act() : Status{}); };
  std::string path = folder.folderOf(step);
  if (Status status = byFirst([&] { return folder.begin(step); }); !status.ok())
    return status;
  if (Status status = writeShards(*runner, path, isTrainingState, options.shardBytes, positionAt(step)); !status.ok()) {
    if (options.isFirst())
      folder.discard(step);
    return status;
  }
  if (Status status = byFirst([&] { return folder.commit(step, options.train.keep, err); }); !status.ok())
    return status;
  // All ranks continue from the written replicas, as with one file.
  Status status = sharded.emplace().open(path);
  auto isRead = [&](const Value &value) { return isTrainingState(value) && hasReplicas(value); };
  return runner->meet(status.ok() ? readShards(*runner, *sharded, isRead, /*allowNan=*/true) : status);
}

/// Writes all that a step changes, beside the old file until the new one is whole.
Status Trainer::writeOneFile() {
  Tensors values;
  for (const Value &value : arguments)
    if (isTrainingState(value))
      MOERT_RETURN_IF_ERROR(runner->read(value.name, values[value.name]));
  if (options.isFirst())
    MOERT_RETURN_IF_ERROR(writeSafetensorsAtomically(checkpoint, values));
  // Ranks that add in another order differ in the last bit, and the file has the values of one. All ranks continue from
  // these, as a resumed training does.
  for (const auto &[name, tensor] : values)
    MOERT_RETURN_IF_ERROR(runner->write(name, tensor));
  return {};
}

/// Whether the value is in a checkpoint of parameters alone.
bool Trainer::isPublished(const Value &value) const {
  return value.role == "parameter" || masterOf(value, arguments) ||
         std::any_of(value.pieces.begin(), value.pieces.end(), [&](const Value &piece) { return isPublished(piece); });
}

/// Writes the parameters, in the layout of the checkpoint that training began from. Each process writes some of the
/// files.
Status Trainer::savePublished() {
  if (options.processes == 1 && !sharded)
    return savePublishedFromMemory();
  // Values move through files, because no process has room for all of them.
  std::string scratch = sharded ? "" : writer.scratchFolder();
  MOERT_RETURN_IF_ERROR(scratch.empty() ? Status{} : writeScratch(scratch));
  auto read = [&](const Value &argument, int64_t first, int64_t count, char *elements) {
    return sharded->read(argument.name, Region::whole(argument.shape).part(first, count), elements);
  };
  Status status = runner->meet(writer.writeFiles(read));
  std::error_code error;
  if (options.isFirst() && !scratch.empty())
    std::filesystem::remove_all(scratch, error);
  if (error)
    err << "moe-run: warning: '" << scratch << "': cannot be removed: " << error.message() << "\n";
  return status.ok() ? runner->meet(options.isFirst() ? writer.giveNames(err) : Status{}) : status;
}

/// Writes the parameters of all ranks to a sharded checkpoint, which is read right after.
Status Trainer::writeScratch(const std::string &scratch) {
  std::error_code error;
  if (options.isFirst()) {
    std::filesystem::remove_all(scratch, error);
    std::filesystem::create_directories(scratch, error);
  }
  Status made = error ? invalid("'" + scratch + "': cannot be made: " + error.message()) : Status{};
  MOERT_RETURN_IF_ERROR(runner->meet(made));
  auto keep = [&](const Value &value) { return isPublished(value); };
  MOERT_RETURN_IF_ERROR(writeShards(*runner, scratch, keep, INT64_MAX, positionAt(options.train.steps)));
  return sharded.emplace().open(scratch);
}

Status Trainer::savePublishedFromMemory() {
  Tensors values;
  for (const Value &argument : arguments)
    if (isPublished(argument))
      MOERT_RETURN_IF_ERROR(runner->read(argument.name, values[argument.name]));
  auto read = [&](const Value &argument, int64_t first, int64_t count, char *elements) {
    copyElements(values.at(argument.name), first, count, elements);
    return Status{};
  };
  return writer.write(read, err);
}

Status Trainer::run() {
  for (Status (Trainer::*part)() : {&Trainer::open, &Trainer::start, &Trainer::openLog})
    MOERT_RETURN_IF_ERROR((this->*part)());
  bool stops = false;
  MOERT_RETURN_IF_ERROR(trainTo(options.train.steps, stops));
  if (!options.saveCheckpoint.empty() && !stops)
    MOERT_RETURN_IF_ERROR(savePublished());
  if (options.json && options.isFirst())
    out << Json{{"first_step", firstStep}, {"steps", records}}.dump(2) << "\n";
  if (!stops)
    return {};
  return Status::error(MOERT_ERROR_STOPPED, "SIGTERM: '" + options.train.checkpoint +
                                                "' has the checkpoint of all steps so far; the same command resumes");
}

/// Trains up to step `end`. If a process gets SIGTERM, stops after the step under way and its checkpoint.
Status Trainer::trainTo(int64_t end, bool &stops) {
  if (!checkpoint.empty())
    catchTermination();
  for (int64_t number = firstStep; number < end && !stops; ++number) {
    StepRecord record;
    if (Status status = step(number, record); !status.ok())
      return Status::error(status.code, "step " + std::to_string(number) + ": " + status.message);
    MOERT_RETURN_IF_ERROR(print(record));
    // Checking the loss is enough, because errors reach it.
    if (!std::isfinite(record.results.front().second))
      return Status::error(MOERT_ERROR_INTERNAL,
                           "step " + std::to_string(number) + ": '" + record.results.front().first + "' is not finite");
    const bool isLast = number + 1 == end;
    if (!isLast)
      MOERT_RETURN_IF_ERROR(findTermination(stops));
    if (!checkpoint.empty() && ((number + 1) % options.train.checkpointEvery == 0 || isLast || stops))
      MOERT_RETURN_IF_ERROR(isFolder ? writeFolder(number + 1) : writeOneFile());
  }
  return {};
}

/// Sets `stops` in all processes if one of them got SIGTERM.
Status Trainer::findTermination(bool &stops) {
  if (checkpoint.empty())
    return {};
  Status status = runner->meet(terminationAsked ? Status::error(MOERT_ERROR_STOPPED, "SIGTERM") : Status{});
  stops = status.code == MOERT_ERROR_STOPPED;
  return stops ? Status{} : status;
}

} // namespace

Status train(const Options &options, std::ostream &out, std::ostream &err) { return Trainer(options, out, err).run(); }

} // namespace moert::run
