//===- CheckpointLayoutTest.cpp - new checkpoints in several files --------===//

#include "CheckpointTest.h"

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

namespace moert::run {
namespace {

/// Four tensors of 8, 16, 4 and 4 bytes.
std::vector<Value> makeArguments() {
  return {parameter("u", {2}, {{"a"}}), parameter("v", {2, 2}, matrix({"b"})), parameter("w", {1}, {{"c"}}),
          parameter("x", {1}, {{"d"}})};
}

std::vector<std::string> namesIn(const std::string &folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string nameOf(int index, int count) {
  return "model-0000" + std::to_string(index) + "-of-0000" + std::to_string(count) + ".safetensors";
}

/// Saves random values of `seed` as `processes` processes, one after the other.
std::string save(const std::string &path, int64_t fileBytes, int64_t processes, uint64_t seed, std::string &said) {
  std::vector<Value> arguments = makeArguments();
  std::ostringstream log;
  Loads loads;
  Tensors inputs;
  EXPECT_TRUE(makeInputs(arguments, "", seed, log, inputs).ok());
  auto read = [&](const Value &argument, int64_t first, int64_t count, char *elements) {
    copyElements(inputs.at(argument.name), first, count, elements);
    return Status{};
  };
  std::vector<CheckpointWriter> writers(static_cast<size_t>(processes));
  Status status;
  for (size_t i = 0; i < writers.size() && status.ok(); ++i)
    status = writers[i].open(path, arguments, loads, log, {fileBytes, static_cast<int64_t>(i), processes});
  for (size_t i = writers.size(); i > 0 && status.ok(); --i)
    status = writers[i - 1].writeFiles(read);
  if (status.ok())
    status = writers[0].giveNames(log);
  said = log.str();
  return status.message;
}

/// Expects the folder's values to be those of `seed`.
void expectValues(const std::string &path, uint64_t seed) {
  std::ostringstream log;
  Tensors made, loaded;
  ASSERT_TRUE(makeInputs(makeArguments(), "", seed, log, made).ok());
  ASSERT_EQ(makeInputs(makeArguments(), path, 0, log, loaded).message, "");
  for (const Value &argument : makeArguments())
    EXPECT_EQ(elements<float>(made[argument.name]), elements<float>(loaded[argument.name])) << argument.name;
}

} // namespace

TEST(CheckpointLayout, Files) {
  std::map<std::string, SafetensorsFile::Entry> tensors;
  for (const auto &[name, size] : std::map<std::string, int64_t>{{"a", 3}, {"b", 9}, {"c", 2}, {"d", 2}, {"e", 0}})
    tensors[name] = {"BF16", {size}};
  std::string indexText;
  auto shape = [&](int64_t fileBytes) {
    std::vector<std::vector<std::string>> files;
    for (const CheckpointFile &file : layOutCheckpoint(tensors, fileBytes, indexText)) {
      files.emplace_back();
      for (const auto &[name, entry] : file.tensors)
        files.back().push_back(name);
    }
    return files;
  };
  EXPECT_THAT(shape(32), ElementsAre(ElementsAre("a", "b", "c", "d", "e")));
  EXPECT_THAT(shape(31), ElementsAre(ElementsAre("a", "b", "c"), ElementsAre("d", "e")));
  indexText.clear();
  EXPECT_EQ(layOutCheckpoint(tensors, 32, indexText).size(), 1u);
  EXPECT_EQ(indexText, "");
  // A larger tensor has a file of its own.
  EXPECT_THAT(shape(8), ElementsAre(ElementsAre("a"), ElementsAre("b"), ElementsAre("c", "d", "e")));
  EXPECT_EQ(layOutCheckpoint(tensors, 8, indexText)[1].path, nameOf(2, 3));
  nlohmann::json index = nlohmann::json::parse(indexText);
  EXPECT_EQ(index["metadata"]["total_size"], 32);
  EXPECT_EQ(index["weight_map"].size(), 5u);
  EXPECT_EQ(index["weight_map"]["e"], nameOf(3, 3));
}

TEST(CheckpointLayout, Processes) {
  std::string folder = temporary() + "out", said;
  for (int64_t processes : {1, 2, 5}) {
    EXPECT_EQ(save(folder, 16, processes, static_cast<uint64_t>(processes), said), "");
    EXPECT_THAT(namesIn(folder), ElementsAre(nameOf(1, 3), nameOf(2, 3), nameOf(3, 3), kIndexName));
    expectValues(folder, static_cast<uint64_t>(processes));
    EXPECT_EQ(said, "");
  }
  // A named file has all tensors.
  EXPECT_EQ(save(folder + ".safetensors", 16, 1, 3, said), "");
  EXPECT_EQ(said, "moe-run: '" + folder +
                      ".safetensors' gets 32 bytes, more than --shard-bytes: PATH names one file and no folder\n");
  expectValues(folder + ".safetensors", 3);
}

// transformers reads model.safetensors even if there is an index.
TEST(CheckpointLayout, RemovesOthers) {
  std::string folder = temporary() + "out/", said;
  EXPECT_EQ(save(folder, 100, 1, 1, said), "");
  EXPECT_THAT(namesIn(folder), ElementsAre(kOneFileName));
  for (const char *name : {"config.json", "model-00001-of-00002.bin", "model-1-of-2.safetensors"})
    writeAll(folder + name, "kept");
  EXPECT_EQ(save(folder, 16, 1, 2, said), "");
  EXPECT_EQ(said,
            "moe-run: removed '" + folder + "model.safetensors', which is not of the checkpoint that was written\n");
  expectValues(folder, 2);
  EXPECT_EQ(save(folder, 24, 1, 3, said), "");
  EXPECT_THAT(said, HasSubstr(nameOf(3, 3)));
  expectValues(folder, 3);
  EXPECT_EQ(save(folder, 100, 1, 4, said), "");
  expectValues(folder, 4);
  EXPECT_THAT(namesIn(folder),
              ElementsAre("config.json", "model-00001-of-00002.bin", "model-1-of-2.safetensors", kOneFileName));
}

// Old and new files are never mixed in one checkpoint, and an interrupted save can be completed.
TEST(CheckpointLayout, Interrupted) {
  std::string folder = temporary() + "out/", said;
  EXPECT_EQ(save(folder, 16, 1, 1, said), "");
  fs::copy(folder, folder + "../old", fs::copy_options::recursive);
  EXPECT_EQ(save(folder, 16, 1, 2, said), "");
  // State after a kill behind the first rename.
  for (const std::string &name : {nameOf(2, 3), nameOf(3, 3)}) {
    fs::rename(folder + name, folder + name + kPartial);
    fs::copy(folder + "../old/" + name, folder + name);
  }
  fs::rename(folder + kIndexName, folder + (kIndexName + kPartial));
  EXPECT_THAT(
      errorOf(makeArguments(), folder),
      HasSubstr("--save-checkpoint was interrupted when all files were written and got their names; to end it"));
  for (const std::string &name : {nameOf(2, 3), nameOf(3, 3), std::string(kIndexName)})
    fs::rename(folder + name + kPartial, folder + name);
  expectValues(folder, 2);
}

} // namespace moert::run
