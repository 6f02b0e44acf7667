//===- LayerPlan.cpp - one layer's plan on a backend ----------------------===//

#include "LayerPlan.h"
#include "Values.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

using nlohmann::json;

static void check(int32_t status) {
  if (status != MOERT_OK)
    throw std::runtime_error(moert_last_error());
}

static int64_t elementsOf(const json &value) {
  int64_t elements = 1;
  for (int64_t size : value["local_shape"])
    elements *= size;
  return elements;
}

static int64_t sizeOf(const std::string &dtype) { return dtype == "f64" ? 8 : dtype == "f32" ? 4 : 2; }

static double widen(uint16_t bits) { return fromBf16(bits); }
static double widen(float value) { return value; }

template <class T>
static double relativeError(const std::vector<char> &mine, const std::vector<char> &reference, int64_t elements) {
  double distance = 0, norm = 0;
  for (int64_t i = 0; i < elements; ++i) {
    T got;
    double want;
    std::memcpy(&got, mine.data() + static_cast<size_t>(i) * sizeof(got), sizeof(got));
    std::memcpy(&want, reference.data() + static_cast<size_t>(i) * sizeof(want), sizeof(want));
    distance += (widen(got) - want) * (widen(got) - want);
    norm += want * want;
  }
  return std::sqrt(distance / norm);
}

LayerPlan::LayerPlan(const std::string &path, const char *backend, uint64_t seed, const Choices &choices, bool graphs)
    : choices(choices) {
  check(moert_plan_open(path.c_str(), &plan));
  program = json::parse(moert_plan_metadata(plan))["programs"][0];
  // An op that equals an earlier one is stored as that op's number.
  for (nlohmann::json &op : program["ops"])
    if (op.is_number())
      op = nlohmann::json(program["ops"][op.get<size_t>()]);
  moert_world_config config = {};
  config.size = sizeof(config);
  config.version = MOERT_WORLD_CONFIG_VERSION;
  config.backend = backend;
  config.graphs = graphs;
  check(moert_world_create(plan, &config, &world));
  for (const json &argument : program["arguments"]) {
    if (argument["name"] == "w1")
      w1Shape = argument["local_shape"].get<std::vector<int64_t>>();
    if (argument["name"] == "x")
      choicesOfToken = static_cast<int64_t>(choices.size()) / argument["local_shape"][0].get<int64_t>();
  }
  for (size_t i = 0; i < program["arguments"].size(); ++i)
    fill(static_cast<int64_t>(i), program["arguments"][i], seed);
}

LayerPlan::~LayerPlan() {
  moert_world_destroy(world);
  moert_plan_close(plan);
}

std::vector<int64_t> LayerPlan::counts() const {
  std::vector<int64_t> counts(static_cast<size_t>(experts()));
  for (uint8_t expert : choices)
    ++counts[expert];
  return counts;
}

/// The first rows of the gate are the identity, so the first columns of x are the logits. The logits of a token's
/// choices are at least 1 above the others, and the other rows add at most a tenth of that.
std::vector<uint16_t> LayerPlan::valuesOf(const json &argument, uint64_t seed) const {
  const std::string name = argument["name"];
  const std::vector<int64_t> shape = argument["local_shape"];
  const int64_t elements = elementsOf(argument), columns = experts();
  const bool isParameter = argument["role"] == "parameter";
  double deviation = isParameter ? 1 / std::sqrt(static_cast<double>(shape[shape.size() - 2])) : 1;
  std::vector<uint16_t> values = makeNormal(elements, name == "gate" ? 0.1 * deviation : deviation, seed);
  for (int64_t e = 0; name == "gate" && e < columns; ++e)
    for (int64_t i = 0; i < columns; ++i)
      values[static_cast<size_t>(e * columns + i)] = toBf16(e == i);
  if (name != "x")
    return values;
  std::mt19937_64 engine(seed + 1);
  std::uniform_real_distribution<float> low(-1, 1), high(2, 3);
  for (int64_t token = 0; token < shape[0]; ++token) {
    uint16_t *row = &values[static_cast<size_t>(token * shape[1])];
    std::generate_n(row, columns, [&] { return toBf16(low(engine)); });
    for (int64_t j = 0; j < choicesOfToken; ++j)
      row[choices[static_cast<size_t>(token * choicesOfToken + j)]] = toBf16(high(engine));
  }
  return values;
}

void LayerPlan::fill(int64_t index, const json &argument, uint64_t seed) {
  write(index, argument["dtype"], valuesOf(argument, seed * 100 + 2 * static_cast<uint64_t>(index)));
}

void LayerPlan::write(int64_t index, const std::string &dtype, const std::vector<uint16_t> &values) {
  const auto writeAs = [&](auto zero) {
    std::vector<decltype(zero)> converted(values.size());
    std::transform(values.begin(), values.end(), converted.begin(), fromBf16);
    check(moert_world_write(world, 0, index, converted.data(), static_cast<int64_t>(converted.size() * sizeof(zero))));
  };
  if (dtype == "f64")
    return writeAs(double());
  if (dtype == "f32")
    return writeAs(float());
  check(moert_world_write(world, 0, index, values.data(), static_cast<int64_t>(values.size() * 2)));
}

double LayerPlan::run() {
  check(moert_world_time_ops(world, 0));
  double seconds = 0, onDevice = 0;
  check(moert_world_run(world, &seconds));
  check(moert_world_device_seconds(world, &onDevice));
  return onDevice > 0 ? onDevice : seconds;
}

int64_t LayerPlan::graphSteps() {
  int64_t steps = 0;
  check(moert_world_graph_steps(world, &steps));
  return steps;
}

std::map<std::string, double> LayerPlan::runTimed() {
  check(moert_world_time_ops(world, 1));
  check(moert_world_run(world, nullptr));
  std::vector<moert_op_time> times(program["ops"].size());
  int64_t count = 0;
  check(moert_world_timeline(world, 0, times.data(), static_cast<int64_t>(times.size()), &count));
  if (count != static_cast<int64_t>(times.size()))
    throw std::runtime_error("a step has " + std::to_string(count) + " timed ops, expected " +
                             std::to_string(times.size()));
  std::map<std::string, double> seconds;
  for (const moert_op_time &time : times)
    seconds[program["ops"][static_cast<size_t>(time.op)]["name"]] += time.end_s - time.begin_s;
  return seconds;
}

bool LayerPlan::choosesAsExpected() {
  moert_routing routing = {};
  int64_t count = 0;
  check(moert_plan_routings(plan, 0, MOERT_PROGRAM_RANK, &routing, 1, &count));
  check(moert_world_record_routing(world, 1));
  run();
  std::vector<int32_t> chosen(choices.size());
  check(moert_world_routing(world, 0, routing.op, chosen.data(), static_cast<int64_t>(chosen.size()), &count));
  check(moert_world_record_routing(world, 0));
  std::vector<int32_t> expected(choices.begin(), choices.end());
  for (size_t token = 0; token < expected.size(); token += static_cast<size_t>(choicesOfToken))
    for (std::vector<int32_t> *list : {&chosen, &expected})
      std::sort(&(*list)[token], &(*list)[token] + choicesOfToken);
  return chosen == expected;
}

std::vector<char> LayerPlan::readResult(size_t result) {
  const json &value = program["results"][result];
  std::vector<char> data(static_cast<size_t>(elementsOf(value) * sizeOf(value["dtype"])));
  check(moert_world_read(world, 0, static_cast<int64_t>(program["arguments"].size() + result), data.data(),
                         static_cast<int64_t>(data.size())));
  return data;
}

std::map<std::string, double> LayerPlan::errorsAgainst(LayerPlan &reference) {
  std::map<std::string, double> errors;
  for (size_t i = 0; i < program["results"].size(); ++i) {
    const json &value = program["results"][i], &other = reference.program["results"][i];
    if (value["name"] != other["name"] || value["local_shape"] != other["local_shape"] || other["dtype"] != "f64")
      throw std::runtime_error("expected a reference in f64 with the plan's results");
    const std::vector<char> mine = readResult(i), theirs = reference.readResult(i);
    errors[value["name"]] =
        (value["dtype"] == "f32" ? relativeError<float> : relativeError<uint16_t>)(mine, theirs, elementsOf(value));
  }
  return errors;
}
