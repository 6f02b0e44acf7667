//===- SafetensorsTest.cpp ------------------------------------------------===//

#include "run/checkpoint/Safetensors.h"
#include "CheckpointTest.h"
#include "run/Inputs.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>

#include <unistd.h>

using namespace moert;
using namespace moert::run;
using testing::HasSubstr;

namespace {

std::string temporary(const std::string &name) {
  return testing::TempDir() + "moert-" + std::to_string(::getpid()) + "-" + name;
}

Value value(const std::string &name, int32_t dtype, std::vector<int64_t> shape) {
  return {name, "input", dtype, shape, shape, std::vector<std::vector<int64_t>>(shape.size())};
}

/// A file with a given header and `data` bytes of data.
std::string fileOf(const std::string &header, size_t data) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i)
    bytes[i] = static_cast<char>(header.size() >> (8 * i));
  return bytes + header + std::string(data, 'x');
}

std::string errorOf(const std::string &bytes, const char *name) {
  std::string path = temporary(name);
  writeAll(path, bytes);
  SafetensorsFile file;
  return file.open(path).message;
}

/// Three tensors, including an empty one and a scalar.
Tensors sample() {
  Tensors tensors;
  for (const Value &each :
       {value("a", MOERT_F32, {2, 3}), value("b", MOERT_F64, {}), value("empty", MOERT_F32, {0, 4})})
    EXPECT_TRUE(fillRandom(each, 1, tensors[each.name]).ok());
  return tensors;
}

} // namespace

TEST(Safetensors, RoundTrip) {
  Tensors tensors = sample();
  std::string path = temporary("round");
  ASSERT_TRUE(writeSafetensors(path, tensors).ok());
  SafetensorsFile file;
  Status status = file.open(path);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(file.entries().size(), 3u);
  Tensor a;
  ASSERT_TRUE(file.read(value("a", MOERT_F32, {2, 3}), a).ok());
  EXPECT_EQ(memcmp(a.as<char>(), tensors["a"].as<char>(), 24), 0);
  EXPECT_THAT(file.read(value("a", MOERT_F64, {2, 3}), a).message,
              HasSubstr("tensor 'a': expected F64 [2, 3] but got F32 [2, 3]"));
  EXPECT_THAT(file.read(value("a", MOERT_F32, {3, 2}), a).message, HasSubstr("expected F32 [3, 2] but got"));
  EXPECT_THAT(file.read(value("c", MOERT_F32, {3, 2}), a).message, HasSubstr("has no tensor 'c'"));
}

TEST(Safetensors, OtherDtypes) {
  std::string path = temporary("dtypes");
  writeAll(path, fileOf(R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"__metadata__":{"by":"me"}})", 4));
  SafetensorsFile file;
  ASSERT_TRUE(file.open(path).ok());
  Tensor tensor;
  EXPECT_THAT(file.read(value("h", MOERT_F32, {2}), tensor).message, HasSubstr("expected F32 [2] but got F16 [2]"));
}

TEST(Safetensors, Wrong) {
  auto tensor = [](const std::string &inside) { return fileOf("{\"t\":{" + inside + "}}", 8); };
  EXPECT_THAT(errorOf("abc", "w"), HasSubstr("the file has 3"));
  EXPECT_THAT(errorOf(std::string(8, '\xff'), "w"), HasSubstr("expected at most 100000000"));
  EXPECT_THAT(errorOf(fileOf("{}", 0).substr(0, 9), "w"), HasSubstr("truncated"));
  EXPECT_THAT(errorOf(fileOf("{\"a\":", 0), "w"), HasSubstr("not JSON"));
  EXPECT_THAT(errorOf(fileOf("[]", 0), "w"), HasSubstr("to be an object"));
  EXPECT_THAT(errorOf(fileOf("{\"t\":1}", 0), "w"), HasSubstr("tensor 't': expected an object"));
  EXPECT_THAT(errorOf(tensor(R"("dtype":"F32","shape":[2])"), "w"), HasSubstr("tensor 't': missing 'data_offsets'"));
  EXPECT_THAT(errorOf(tensor(R"("dtype":"I4","shape":[2],"data_offsets":[0,8])"), "w"),
              HasSubstr("tensor 't': unknown dtype \"I4\", expected one of F32"));
  EXPECT_THAT(errorOf(tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "w"),
              HasSubstr("expected 12 bytes for F32 [3] but data_offsets have 8"));
  EXPECT_THAT(errorOf(tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "w"), HasSubstr("got -2"));
  EXPECT_THAT(errorOf(tensor(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"), "w"),
              HasSubstr("lie outside the 8 bytes"));
  EXPECT_THAT(errorOf(tensor(R"("dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,8])"), "w"),
              HasSubstr("too large"));
  EXPECT_THAT(errorOf(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "w"),
              HasSubstr("belong to no tensor"));
  EXPECT_THAT(errorOf(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "w"),
              HasSubstr("expected 4 bytes of data but the file has 8"));
  EXPECT_THAT(errorOf(tensor(R"("dtype":"F32","dtype":"F32")"), "w"), HasSubstr("\"dtype\" twice"));
  EXPECT_THAT(errorOf(fileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                                 "b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                             8),
                      "w"),
              HasSubstr("tensor 'b' overlaps tensor 'a'"));
  SafetensorsFile file;
  EXPECT_THAT(file.open("/nonexistent/x").message, HasSubstr("cannot be opened"));
  EXPECT_THAT(writeSafetensors("/nonexistent/x", sample()).message, HasSubstr("cannot be written"));
}

// A file that is truncated anywhere is refused.
TEST(Safetensors, Truncated) {
  std::string path = temporary("truncated");
  ASSERT_TRUE(writeSafetensors(path, sample()).ok());
  std::string bytes = readAll(path);
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_NE(errorOf(bytes.substr(0, length), "cut"), "") << length;
}

// Reading any bytes ends in values or an error.
TEST(Safetensors, Fuzz) {
  std::string path = temporary("whole"), broken = temporary("broken");
  ASSERT_TRUE(writeSafetensors(path, sample()).ok());
  std::string bytes = readAll(path);
  std::mt19937 generator(1);
  for (int round = 0; round < 3000; ++round) {
    std::string copy = bytes;
    for (unsigned flips = 1 + generator() % 4; flips > 0; --flips)
      copy[generator() % copy.size()] = static_cast<char>(generator());
    writeAll(broken, copy);
    SafetensorsFile file;
    if (!file.open(broken).ok())
      continue;
    for (const Value &each : {value("a", MOERT_F32, {2, 3}), value("b", MOERT_F64, {})}) {
      Tensor tensor;
      (void)file.read(each, tensor);
    }
  }
}

TEST(Inputs, LoadSome) {
  Tensors tensors = sample();
  std::string path = temporary("some");
  tensors.erase("b");
  ASSERT_TRUE(writeSafetensors(path, tensors).ok());
  std::vector<Value> arguments{value("a", MOERT_F32, {2, 3}), value("empty", MOERT_F32, {0, 4}),
                               value("w", MOERT_F32, {5})};
  std::ostringstream log;
  Tensors inputs;
  Status status = makeInputs(arguments, path, 3, log, inputs);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(memcmp(inputs["a"].as<char>(), tensors["a"].as<char>(), 24), 0);
  EXPECT_THAT(log.str(), HasSubstr("seed 3"));
  EXPECT_THAT(log.str(), HasSubstr(": 'w'\n"));
  arguments.erase(arguments.begin());
  EXPECT_THAT(makeInputs(arguments, path, 3, log, inputs).message,
              HasSubstr("the plan has no argument 'a'; its arguments are 'empty', 'w'"));
}

// Values have the documented deviation, and depend only on seed, name and index.
TEST(Inputs, Random) {
  auto moments = [](const Value &each, uint64_t seed) {
    Tensor tensor;
    EXPECT_TRUE(fillRandom(each, seed, tensor).ok());
    double sum = 0;
    for (int64_t i = 0; i < tensor.elements(); ++i)
      sum += elementAt(tensor.as<char>(), tensor.dtype, i);
    return std::pair(sum / static_cast<double>(tensor.elements()),
                     squaredNorm(tensor) / static_cast<double>(tensor.elements()));
  };
  Value input = value("x", MOERT_F32, {300, 400});
  EXPECT_NEAR(moments(input, 1).first, 0, 0.01);
  EXPECT_NEAR(moments(input, 1).second, 1, 0.01);
  EXPECT_EQ(moments(input, 1), moments(input, 1));
  EXPECT_NE(moments(input, 1), moments(input, 2));
  Value parameter = input;
  parameter.role = "parameter";
  EXPECT_NEAR(moments(parameter, 1).second, 1 / 300.0, 1e-4);
  parameter.shape = parameter.localShape = {100000};
  EXPECT_NEAR(moments(parameter, 1).second, 0.01, 1e-3);
  Tensor tensor;
  EXPECT_THAT(fillRandom(value("ids", MOERT_I32, {4}), 0, tensor).message, HasSubstr("'ids' is i32"));
  // A larger tensor of the same name begins with the same rows, so sharding cannot change values.
  Tensor small, large;
  ASSERT_TRUE(fillRandom(value("x", MOERT_F64, {10}), 5, small).ok());
  ASSERT_TRUE(fillRandom(value("x", MOERT_F64, {20}), 5, large).ok());
  EXPECT_EQ(memcmp(small.as<char>(), large.as<char>(), 80), 0);
}
