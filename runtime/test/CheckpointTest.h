//===- CheckpointTest.h - checkpoints that tests make ---------------------===//
#ifndef MOERT_TEST_CHECKPOINTTEST_H
#define MOERT_TEST_CHECKPOINTTEST_H

#include "run/Inputs.h"
#include "run/checkpoint/CheckpointWriter.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace moert::run {

/// An empty folder of this test.
inline std::string temporary() {
  std::string path =
      testing::TempDir() + "moert-checkpoint-" + testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::remove_all(path);
  std::filesystem::create_directory(path);
  return path + "/";
}

inline std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void writeAll(const std::string &path, const std::string &bytes) {
  // Creates a new file. ext4 flushes a truncated file when it is closed, which takes milliseconds.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

template <class T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

struct Stored {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

/// Writes a file of these tensors in this order. Its header has entries that our writer would not write.
inline void writeFile(const std::string &path, const std::vector<Stored> &tensors) {
  nlohmann::ordered_json header;
  std::string data;
  for (const Stored &tensor : tensors) {
    size_t end = data.size() + tensor.bytes.size();
    header[tensor.name] = {{"shape", tensor.shape}, {"data_offsets", {data.size(), end}}, {"dtype", tensor.dtype}};
    data += tensor.bytes;
  }
  header["__metadata__"] = {{"format", "pt"}, {"by", "a test"}};
  writeAll(path, headOf(header.dump(1)) + data);
}

inline void writeIndex(const std::string &folder, const std::vector<std::pair<std::string, std::string>> &places) {
  nlohmann::ordered_json index;
  for (const auto &[tensor, file] : places)
    index["weight_map"][tensor] = file;
  writeAll(folder + "model.safetensors.index.json", index.dump(3) + "\n\n");
}

inline Value parameter(const std::string &name, std::vector<int64_t> shape, Source source, int32_t dtype = MOERT_F32) {
  Value value{name, "parameter", dtype, shape, shape, std::vector<std::vector<int64_t>>(shape.size())};
  value.source = std::move(source);
  return value;
}

inline Source matrix(std::vector<std::string> tensors) { return {std::move(tensors), true}; }

template <class T> std::vector<T> elements(const Tensor &tensor) {
  return {tensor.as<T>(), tensor.as<T>() + tensor.elements()};
}

/// Values that makeInputs makes of the files, which may have NaN.
inline Status takeAll(const std::vector<Value> &arguments, const std::string &path, Tensors &inputs) {
  std::ostringstream log;
  Loads loads;
  MOERT_RETURN_IF_ERROR(loads.open({path}, arguments));
  return makeInputs(arguments, loads, {.allowNan = true}, log, inputs);
}

/// Values that makeInputs makes of one argument and these tensors.
inline std::vector<float> valueOf(const Value &argument, const std::vector<Stored> &tensors) {
  std::string path = temporary() + "a.safetensors";
  writeFile(path, tensors);
  Tensors inputs;
  Status status = takeAll({argument}, path, inputs);
  EXPECT_TRUE(status.ok()) << status.message;
  return status.ok() ? elements<float>(inputs.at(argument.name)) : std::vector<float>{};
}

inline std::string errorOf(const std::vector<Value> &arguments, const std::string &path) {
  std::ostringstream log;
  Tensors inputs;
  return makeInputs(arguments, path, 0, log, inputs).message;
}

inline Stored floats(const std::string &name, std::vector<int64_t> shape, std::vector<float> values) {
  return {name, "F32", std::move(shape), bytesOf(values)};
}

/// Loads `load`, and saves the loaded values back to `save`.
inline std::string saveBack(const std::vector<Value> &arguments, const std::vector<std::string> &load,
                            const std::string &save) {
  Loads loads;
  if (Status status = loads.open(load, arguments); !status.ok())
    return status.message;
  std::ostringstream log;
  Tensors inputs;
  if (Status status = makeInputs(arguments, loads, {.allowNan = true}, log, inputs); !status.ok())
    return status.message;
  CheckpointWriter writer;
  if (Status status = writer.open(save, arguments, loads, log); !status.ok())
    return status.message;
  return writer
      .write(
          [&](const Value &argument, int64_t first, int64_t count, char *elements) {
            copyElements(inputs.at(argument.name), first, count, elements);
            return Status{};
          },
          log)
      .message;
}

} // namespace moert::run

#endif // MOERT_TEST_CHECKPOINTTEST_H
