//===- ShardedCheckpointTest.cpp - checkpoints that each rank writes its part of ===//

#include "run/checkpoint/ShardedCheckpoint.h"
#include "CheckpointTest.h"
#include "run/checkpoint/CheckpointFolder.h"
#include "run/checkpoint/ShardedState.h"

#include <numeric>
#include <random>

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

namespace moert::run {
namespace {

/// World 8: mp 2, dp 2, and two stages of a pipeline.
const std::vector<Group> groups{{"mp", 2, 1}, {"dp", 2, 2}};

Value makeValue(const std::string &name, std::vector<int64_t> shape, std::vector<std::vector<int64_t>> layout,
                int32_t dtype = MOERT_F32) {
  Value value{name, "parameter", dtype, shape, shape, layout};
  for (size_t dim = 0; dim < shape.size(); ++dim)
    value.localShape[dim] = shape[dim] / shardsOf(value, dim, groups);
  return value;
}

/// Both stages have "tied". The first also has replicated and sharded values, the second the given ones.
std::vector<Program> makePrograms(const std::vector<Value> &ofSecond = {}) {
  std::vector<Program> programs(2);
  programs[0].numRanks = programs[1].numRanks = programs[1].firstRank = 4;
  Value tokens = makeValue("tokens", {8}, {{1}}, MOERT_I32);
  tokens.role = "input";
  Value tied = makeValue("tied", {6, 8}, {{}, {0}});
  programs[0].arguments = {tokens,
                           tied,
                           makeValue("scalar", {}, {}),
                           makeValue("rows", {8, 6}, {{1, 0}, {}}),
                           makeValue("columns", {3, 4, 8}, {{}, {1}, {0}}, MOERT_F64),
                           makeValue("none", {0, 4}, {{}, {}})};
  programs[1].arguments = ofSecond;
  programs[1].arguments.push_back(tied);
  return programs;
}

ShardLayout layOut(const std::vector<Program> &programs, int64_t fileBytes) {
  return layOutShards(programs, groups, 8, fileBytes, [](const Value &value) { return value.role == "parameter"; });
}

int64_t sizeOf(const ShardFile &file) {
  int64_t bytes = 0;
  for (const ShardFile::Block &block : file.blocks)
    bytes += block.bytes;
  return bytes;
}

} // namespace

// Each element of each tensor is written once, by a rank that has it, from its place there.
TEST(ShardLayout, EachElementOnce) {
  const std::vector<Program> programs = makePrograms();
  for (int64_t fileBytes : {int64_t(1), int64_t(40), int64_t(100), int64_t(1) << 40}) {
    ShardLayout layout = layOut(programs, fileBytes);
    EXPECT_FALSE(layout.index.tensors.count("tokens"));
    std::map<std::string, std::vector<int>> written;
    for (const auto &[name, tensor] : layout.index.tensors)
      written[name].resize(static_cast<size_t>(Region::whole(tensor.shape).count));
    for (const ShardFile &file : layout.files) {
      EXPECT_TRUE(sizeOf(file) <= fileBytes || file.blocks.size() == 1) << file.name;
      for (const ShardFile::Block &block : file.blocks) {
        const Program &program = programs[programIndex(programs, file.rank)];
        const Value &value = program.arguments[static_cast<size_t>(block.argument)];
        ASSERT_EQ(value.name, block.tensor);
        auto width = static_cast<int64_t>(dtypeSize(value.dtype));
        EXPECT_TRUE(block.bytes <= std::max(width, fileBytes));
        PartBlock part = blocksOfPart(value, groups, file.rank)[0];
        // The block is dense in the rank's part, at the byte of the layout.
        forEachCommonRun(block.region, part.region, [&](int64_t first, int64_t at, int64_t count) {
          EXPECT_EQ(first, 0);
          EXPECT_EQ(at * width, block.begin);
          EXPECT_EQ(count * width, block.bytes);
        });
        forEachCommonRun(block.region, Region::whole(value.shape), [&](int64_t, int64_t at, int64_t count) {
          for (int64_t i = 0; i < count; ++i)
            ++written[block.tensor][static_cast<size_t>(at + i)];
        });
      }
    }
    for (const auto &[name, counts] : written)
      EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), static_cast<int64_t>(counts.size())) << name;
  }
}

// Values that all ranks of a stage hold are divided among them.
TEST(ShardLayout, Even) {
  const std::vector<Program> programs = makePrograms({makeValue("large", {8192, 4096}, {{}, {}})});
  std::map<int64_t, int64_t> bytes;
  for (const ShardFile &file : layOut(programs, int64_t(1) << 40).files)
    bytes[file.rank] += sizeOf(file);
  constexpr int64_t kQuarter = 8192 * 4096;
  for (int64_t rank = 4; rank < 8; ++rank)
    EXPECT_NEAR(static_cast<double>(bytes[rank]), kQuarter, 200);
}

namespace {

/// Writes the files of a layout. Element i of a tensor has the value i.
void writeLayout(const std::string &folder, const ShardLayout &layout) {
  for (const ShardFile &file : layout.files) {
    std::vector<Stored> tensors;
    for (const ShardFile::Block &block : file.blocks) {
      const ShardIndex::Tensor &tensor = layout.index.tensors.at(block.tensor);
      std::string bytes;
      forEachCommonRun(block.region, Region::whole(tensor.shape), [&](int64_t, int64_t at, int64_t count) {
        for (int64_t i = at; i < at + count; ++i)
          if (tensor.dtype == "F64")
            bytes += bytesOf(std::vector<double>{static_cast<double>(i)});
          else
            bytes += bytesOf(std::vector<float>{static_cast<float>(i)});
      });
      tensors.push_back({blockName(block.tensor, block.region), tensor.dtype, blockShape(block.region), bytes});
    }
    writeFile(folder + file.name, tensors);
  }
  writeAll(folder + kShardIndexName, layout.index.json());
}

} // namespace

// Any region is read from any blocks.
TEST(ShardedCheckpoint, AnyRegion) {
  std::string folder = temporary();
  for (int64_t fileBytes : {40, 100, 100000}) {
    ShardLayout layout = layOut(makePrograms(), fileBytes);
    layout.index.position = {7, UINT64_MAX, 1000, 64};
    writeLayout(folder, layout);
    ShardedCheckpoint checkpoint;
    ASSERT_EQ(checkpoint.open(folder).message, "");
    EXPECT_EQ(checkpoint.index().position.step, 7);
    EXPECT_EQ(checkpoint.index().position.seed, UINT64_MAX);
    std::mt19937 random(2);
    for (const auto &[name, tensor] : checkpoint.index().tensors)
      for (int round = 0; round < 200; ++round) {
        std::vector<int64_t> offset, lengths;
        for (int64_t size : tensor.shape) {
          offset.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(size + 1)));
          lengths.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(size - offset.back() + 1)));
        }
        Region region = Region::box(offset, lengths);
        int64_t first = region.count ? static_cast<int64_t>(random() % static_cast<uint64_t>(region.count)) : 0;
        region = region.part(first, region.count - first);
        std::vector<char> bytes(static_cast<size_t>(region.count * 8));
        ASSERT_EQ(checkpoint.read(name, region, bytes.data()).message, "") << name << region.text();
        forEachCommonRun(region, Region::whole(tensor.shape), [&](int64_t at, int64_t whole, int64_t count) {
          for (int64_t i = 0; i < count; ++i)
            ASSERT_EQ(elementAt(bytes.data(), tensor.dtype == "F64" ? MOERT_F64 : MOERT_F32, at + i),
                      double(whole + i));
        });
      }
  }
}

TEST(ShardedCheckpoint, Errors) {
  std::string folder = temporary();
  ShardLayout layout = layOut(makePrograms(), 100);
  writeLayout(folder, layout);
  std::vector<char> bytes(4096);
  auto errorAfter = [&](auto change) {
    nlohmann::json index = nlohmann::json::parse(layout.index.json());
    change(index);
    writeAll(folder + kShardIndexName, index.dump());
    ShardedCheckpoint checkpoint;
    Status status = checkpoint.open(folder);
    return status.ok() ? checkpoint.read("tied", Region::whole({6, 8}), bytes.data()).message : status.message;
  };
  using Json = nlohmann::json;
  EXPECT_EQ(errorAfter([](Json &) {}), "");
  EXPECT_THAT(errorAfter([](Json &i) { i["moeplan_checkpoint"] = 2; }),
              HasSubstr("index.json': moeplan_checkpoint: expected version 1, which this moe-run reads, but got 2"));
  EXPECT_THAT(errorAfter([](Json &i) { i.erase("step"); }), HasSubstr("missing key 'step'"));
  EXPECT_THAT(errorAfter([](Json &i) { i["files"][0] = "../x"; }),
              HasSubstr("files[0]: expected the name of a file in the index's folder but got \"../x\""));
  EXPECT_THAT(errorAfter([](Json &i) { i["tensors"]["tied"]["shape"] = {6, 2}; }),
              HasSubstr("tensors['tied'].blocks[0]: expected a block of a tensor of shape [6, 2] but got"));
  EXPECT_THAT(errorAfter([](Json &i) { i["tensors"]["tied"]["shape"] = {1LL << 40, 1LL << 40}; }),
              HasSubstr("the shape is too large"));
  EXPECT_THAT(errorAfter([](Json &i) { i["tensors"]["tied"]["blocks"][0]["file"] = 99; }),
              HasSubstr("file: expected an integer from 0 to"));
  // The blocks have a hole.
  EXPECT_THAT(errorAfter([](Json &i) { i["tensors"]["tied"]["blocks"].erase(1); }),
              HasSubstr("no block of tensor 'tied' has element"));
  EXPECT_THAT(errorAfter([](Json &i) { i["tensors"]["tied"]["dtype"] = "F64"; }),
              HasSubstr("expected tensor 'tied[0:6, 0:4]"));
  // The files have changed.
  std::string name = layout.files[static_cast<size_t>(layout.index.tensors.at("tied").blocks[0].file)].name;
  std::string path = folder + name;
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_THAT(errorAfter([](Json &) {}), HasSubstr(name));
  fs::remove(path);
  EXPECT_THAT(errorAfter([](Json &) {}), HasSubstr(name + "': cannot be opened for reading"));
}

// Reading any index ends in values or an error.
TEST(ShardedCheckpoint, Fuzz) {
  std::string folder = temporary();
  ShardLayout layout = layOut(makePrograms(), 100);
  writeLayout(folder, layout);
  std::string text = layout.index.json();
  std::mt19937 random(1);
  size_t opened = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string copy = text;
    for (unsigned flips = 1 + random() % 3; flips > 0; --flips)
      copy[random() % copy.size()] = "0123456789[]{},\"-x"[random() % 18];
    writeAll(folder + kShardIndexName, copy);
    ShardedCheckpoint checkpoint;
    if (!checkpoint.open(folder).ok())
      continue;
    ++opened;
    for (const auto &[name, tensor] : checkpoint.index().tensors) {
      Region whole = Region::whole(tensor.shape);
      std::vector<char> bytes(whole.count < 10000 ? static_cast<size_t>(whole.count) * 8 : 0);
      if (!bytes.empty())
        (void)checkpoint.read(name, whole, bytes.data());
    }
  }
  EXPECT_GT(opened, 50u);
}

namespace {

/// Saves one step as --checkpoint=DIR/ does, with an empty file.
std::string saveStep(CheckpointFolder &folder, int64_t step, int64_t keep) {
  std::ostringstream log;
  if (Status status = folder.begin(step); !status.ok())
    return status.message;
  writeAll(folder.folderOf(step) + "/" + kShardIndexName, "{}");
  Status status = folder.commit(step, keep, log);
  return status.message + log.str();
}

std::vector<std::string> namesIn(const std::string &folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

} // namespace

TEST(CheckpointFolder, Keeps) {
  std::string path = temporary() + "state/";
  fs::create_directory(path);
  CheckpointFolder folder;
  ASSERT_EQ(folder.open(path).message, "");
  EXPECT_EQ(folder.latest(), "");
  for (int64_t step : {1, 2, 3})
    EXPECT_EQ(saveStep(folder, step, 2), "");
  EXPECT_THAT(namesIn(path), ElementsAre("latest", "step-00000002", "step-00000003"));
  EXPECT_THAT(folder.begin(3).message, HasSubstr("expected a later step than that of the latest checkpoint"));
  // An interrupted save is no checkpoint, and is removed.
  ASSERT_TRUE(folder.begin(4).ok());
  CheckpointFolder again;
  ASSERT_EQ(again.open(path).message, "");
  EXPECT_EQ(again.latest(), folder.folderOf(3));
  EXPECT_EQ(saveStep(again, 5, 2), "");
  EXPECT_THAT(namesIn(path), ElementsAre("latest", "step-00000003", "step-00000005"));
  // After a return to an earlier step, the later ones are kept until they are written again.
  writeAll(path + "latest", "step-00000003\n");
  CheckpointFolder back;
  ASSERT_EQ(back.open(path).message, "");
  EXPECT_EQ(saveStep(back, 4, 1), "");
  EXPECT_THAT(namesIn(path), ElementsAre("latest", "step-00000004", "step-00000005"));
  EXPECT_EQ(saveStep(back, 5, 1), "");
  EXPECT_THAT(namesIn(path), ElementsAre("latest", "step-00000005"));
}

TEST(CheckpointFolder, Errors) {
  std::string path = temporary();
  EXPECT_TRUE(CheckpointFolder::isMeant(path) && CheckpointFolder::isMeant("new/"));
  EXPECT_FALSE(CheckpointFolder::isMeant(path + "file") || CheckpointFolder::isMeant(""));
  CheckpointFolder folder;
  ASSERT_EQ(folder.open(path).message, "");
  EXPECT_EQ(saveStep(folder, 1, 2), "");
  const std::string remedy =
      "to go on from another checkpoint, write its name into '" + path + "latest': 'step-00000001'";
  for (const char *name : {"step-00000009", "..", "", "step-x"}) {
    writeAll(path + "latest", name);
    EXPECT_THAT(folder.open(path).message, HasSubstr("latest': expected the name of a folder beside it but got '"));
    EXPECT_THAT(CheckpointFolder().open(path).message, HasSubstr(remedy));
  }
  // Training must not restart if there are checkpoints.
  fs::remove(path + "latest");
  EXPECT_THAT(CheckpointFolder().open(path).message,
              HasSubstr("latest': expected a file with the name of a checkpoint"));
}

} // namespace moert::run
