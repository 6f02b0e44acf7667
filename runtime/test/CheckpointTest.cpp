//===- CheckpointTest.cpp -------------------------------------------------===//

#include "CheckpointTest.h"

#include <cmath>
#include <limits>
#include <random>

namespace fs = std::filesystem;
using namespace moert;
using namespace moert::run;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

Value stateOf(const Value &base, const std::string &suffix) {
  Value value = base;
  value.name += suffix;
  value.role = "state";
  value.dtype = MOERT_F32;
  value.source.reset();
  return value;
}

} // namespace

TEST(Checkpoint, Rules) {
  EXPECT_THAT(valueOf(parameter("v", {2}, {{"t"}}), {floats("t", {2}, {1, 2})}), ElementsAre(1, 2));
  EXPECT_THAT(valueOf(parameter("s", {}, {{"t"}}), {floats("t", {}, {7})}), ElementsAre(7));
  EXPECT_THAT(valueOf(parameter("w", {2, 3}, {{"t"}}), {floats("t", {2, 3}, {1, 2, 3, 4, 5, 6})}),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(valueOf(parameter("w", {2, 3}, matrix({"t"})), {floats("t", {3, 2}, {1, 2, 3, 4, 5, 6})}),
              ElementsAre(1, 3, 5, 2, 4, 6));
  // Columns 2 and 3 of four.
  EXPECT_THAT(valueOf(parameter("w", {2, 2}, {{"t"}, false, 2, 4}), {floats("t", {2, 4}, {0, 1, 2, 3, 4, 5, 6, 7})}),
              ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(valueOf(parameter("w", {2, 2}, {{"t"}, true, 2, 4}), {floats("t", {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7})}),
              ElementsAre(4, 6, 5, 7));
  EXPECT_THAT(valueOf(parameter("b", {2}, {{"t"}, false, 1, 4}), {floats("t", {4}, {0, 1, 2, 3})}), ElementsAre(1, 2));
  // The last of three columns in each of two blocks, and the first two.
  std::vector<float> twelve{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  EXPECT_THAT(valueOf(parameter("w", {2, 2}, {{"t"}, false, 2, 3, 2}), {floats("t", {2, 6}, twelve)}),
              ElementsAre(2, 5, 8, 11));
  EXPECT_THAT(valueOf(parameter("w", {2, 4}, {{"t"}, true, 0, 3, 2}), {floats("t", {6, 2}, twelve)}),
              ElementsAre(0, 2, 6, 8, 1, 3, 7, 9));
  // Columns of two alternate.
  EXPECT_THAT(valueOf(parameter("w", {2, 4}, matrix({"gate", "up"})),
                      {floats("gate", {2, 2}, {1, 2, 3, 4}), floats("up", {2, 2}, {5, 6, 7, 8})}),
              ElementsAre(1, 5, 3, 7, 2, 6, 4, 8));
  // Experts are stacked.
  Source experts = matrix({"{e}.w.{e}"});
  experts.experts = 2;
  EXPECT_THAT(
      valueOf(parameter("w", {2, 1, 2}, experts), {floats("0.w.0", {2, 1}, {1, 2}), floats("1.w.1", {2, 1}, {3, 4})}),
      ElementsAre(1, 2, 3, 4));
  Source both = matrix({"{e}.gate", "{e}.up"});
  both.experts = 2;
  EXPECT_THAT(valueOf(parameter("w", {2, 1, 2}, both), {floats("0.gate", {1, 1}, {1}), floats("0.up", {1, 1}, {2}),
                                                        floats("1.gate", {1, 1}, {3}), floats("1.up", {1, 1}, {4})}),
              ElementsAre(1, 2, 3, 4));
  // One tensor has all experts, gate and up projections in halves, which alternate.
  Source stacked = {.tensors = {"t"}, .experts = 2, .stacked = 3, .halves = true};
  EXPECT_THAT(valueOf(parameter("w", {2, 1, 4}, stacked), {floats("t", {2, 1, 4}, {1, 2, 3, 4, 5, 6, 7, 8})}),
              ElementsAre(1, 3, 2, 4, 5, 7, 6, 8));
  stacked.transpose = true;
  EXPECT_THAT(valueOf(parameter("w", {2, 1, 4}, stacked), {floats("t", {2, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8})}),
              ElementsAre(1, 3, 2, 4, 5, 7, 6, 8));
  // One matrix holds the matrices of all experts, one below the other.
  Source merged = {.tensors = {"t"}, .transpose = true, .experts = 2, .stacked = 2};
  EXPECT_THAT(valueOf(parameter("w", {2, 2, 1}, merged), {floats("t", {2, 2}, {1, 2, 3, 4})}), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(valueOf(parameter("v", {2}, {.tensors = {"t"}, .isRow = true}), {floats("t", {1, 2}, {1, 2})}),
              ElementsAre(1, 2));
}

TEST(Checkpoint, Dtypes) {
  Value argument = parameter("v", {2}, {{"t"}});
  EXPECT_THAT(valueOf(argument, {{"t", "F64", {2}, bytesOf<double>({1.5, -2})}}), ElementsAre(1.5, -2));
  EXPECT_THAT(valueOf(argument, {{"t", "BF16", {2}, bytesOf<uint16_t>({0x3fc0, 0xc000})}}), ElementsAre(1.5, -2));
  EXPECT_THAT(valueOf(argument, {{"t", "F16", {2}, bytesOf<uint16_t>({0x3e00, 0xc000})}}), ElementsAre(1.5, -2));
  std::string path = temporary() + "a";
  writeFile(path, {{"t", "I32", {2}, "wxyzabcd"}});
  EXPECT_THAT(errorOf({argument}, path),
              HasSubstr("tensor 't' of argument 'v': expected F32, F64, BF16 or F16 but got I32"));
  writeFile(path, {{"t", "BF16", {2}, bytesOf<uint16_t>({0x3fc0, 0xc000})}});
  for (int32_t dtype : {MOERT_F64, MOERT_BF16, MOERT_F16}) {
    argument.dtype = dtype;
    std::ostringstream log;
    Tensors inputs;
    ASSERT_TRUE(makeInputs({argument}, path, 0, log, inputs).ok());
    EXPECT_EQ(elementAt(inputs["v"].as<char>(), dtype, 0), 1.5);
    EXPECT_EQ(elementAt(inputs["v"].as<char>(), dtype, 1), -2);
  }
}

// Tensors are larger than the memory for one read, and their rows are cut anywhere.
TEST(Checkpoint, Blocks) {
  std::string folder = temporary();
  constexpr int64_t kRows = 1500, kColumns = 1700;
  std::vector<float> numbers(kRows * kColumns);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(i);
  writeFile(folder + "in.safetensors", {floats("t", {kColumns, kRows}, numbers)});
  std::vector<Value> arguments{parameter("w", {kRows, kColumns - 10}, {{"t"}, true, 4, kColumns}),
                               parameter("begin", {kRows, 4}, {{"t"}, true, 0, kColumns}),
                               parameter("end", {kRows, 6}, {{"t"}, true, kColumns - 6, kColumns})};
  std::ostringstream log;
  Tensors inputs;
  ASSERT_TRUE(makeInputs(arguments, folder + "in.safetensors", 0, log, inputs).ok());
  const auto *w = inputs["w"].as<float>();
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t column = 0; column < kColumns - 10; ++column)
      ASSERT_EQ(w[row * (kColumns - 10) + column], static_cast<float>((column + 4) * kRows + row));
  for (Value &argument : arguments)
    argument.updated = true;
  EXPECT_EQ(saveBack(arguments, {folder + "in.safetensors"}, folder + "out.safetensors"), "");
  EXPECT_EQ(readAll(folder + "in.safetensors"), readAll(folder + "out.safetensors"));
}

// Two arguments that share a tensor block by block give it back, to its file and to a new one.
TEST(Checkpoint, SharedBlocks) {
  std::string folder = temporary();
  std::vector<Value> arguments{parameter("k", {2, 4}, {{"t"}, true, 0, 3, 2}),
                               parameter("v", {2, 2}, {{"t"}, true, 2, 3, 2})};
  for (Value &argument : arguments)
    argument.updated = true;
  writeFile(folder + "in.safetensors", {floats("t", {6, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})});
  EXPECT_EQ(saveBack(arguments, {folder + "in.safetensors"}, folder + "out.safetensors"), "");
  EXPECT_EQ(readAll(folder + "in.safetensors"), readAll(folder + "out.safetensors"));
  writeFile(folder + "own.safetensors",
            {floats("k", {2, 4}, {0, 2, 6, 8, 1, 3, 7, 9}), floats("v", {2, 2}, {4, 10, 5, 11})});
  EXPECT_EQ(saveBack(arguments, {folder + "own.safetensors"}, folder + "new.safetensors"), "");
  SafetensorsFile made;
  ASSERT_TRUE(made.open(folder + "new.safetensors").ok());
  EXPECT_EQ(made.entries().at("t").shape, (std::vector<int64_t>{6, 2}));
  std::string bytes = readAll(folder + "in.safetensors"), back = readAll(folder + "new.safetensors");
  EXPECT_EQ(bytes.substr(bytes.size() - 48), back.substr(back.size() - 48));
}

TEST(Checkpoint, WhatIsMissing) {
  std::string folder = temporary(), path = folder + "a.safetensors";
  Source experts{{"{e}"}};
  experts.experts = 3;
  std::vector<Value> arguments{parameter("v", {2}, {{"t"}}), parameter("w", {3, 1}, experts)};
  writeFile(path, {floats("a", {1}, {0}), floats("t", {2}, {0, 0})});
  std::ostringstream log;
  Tensors inputs;
  EXPECT_EQ(makeInputs(arguments, path, 4, log, inputs).message,
            "expected '" + path +
                "' to have all of the plan's 2 parameters, of which it has some, but it lacks 1: 'w' "
                "(tensor '0'); with --allow-missing they begin as without --load");
  Loads loads;
  ASSERT_TRUE(loads.open({path}, arguments).ok());
  ASSERT_TRUE(makeInputs(arguments, loads, {4, true}, log, inputs).ok());
  EXPECT_EQ(log.str(), "moe-run: '" + path +
                           "' lacks 1 of the plan's 2 parameters, which begin as without --load: 'w' "
                           "(tensor '0')\nmoe-run: random values (seed 4) for what '" +
                           path + "' does not have: 'w'\nmoe-run: the plan has no use for 1 of the 2 tensors of '" +
                           path + "': 'a'\n");
  writeFile(path, {floats("t", {2}, {0, 0}), floats("0", {1}, {0}), floats("2", {1}, {0})});
  EXPECT_THAT(errorOf(arguments, path),
              HasSubstr("tensor '1' of argument 'w': expected this tensor beside the others"));
  arguments.pop_back();
  writeFile(path, {floats("t", {3}, {0, 0, 0})});
  EXPECT_THAT(errorOf(arguments, path), HasSubstr("tensor 't' of argument 'v': expected [2] but got [3]"));
  writeFile(path, {floats("x.t", {2}, {0, 0})});
  EXPECT_THAT(errorOf(arguments, path), HasSubstr("no argument 'x.t'; its arguments are 'v'; of a checkpoint it "
                                                  "knows tensors such as 't'"));
  EXPECT_THAT(errorOf(arguments, folder + "nowhere"), HasSubstr("cannot be opened"));
  fs::create_directory(folder + "empty");
  EXPECT_THAT(errorOf(arguments, folder + "empty"), HasSubstr("expected 'model.safetensors.index.json' or"));
}

// A file that has one state of an optimizer has all of them, and the number of the step.
TEST(Checkpoint, MissingStates) {
  std::string path = temporary() + "a";
  Value weight = parameter("w", {2}, {{"t"}}), step = stateOf(weight, ".step");
  step.name = step.role = "step";
  step.dtype = MOERT_I32;
  step.shape = step.localShape = {};
  std::vector<Value> arguments{weight, stateOf(weight, ".first"), stateOf(weight, ".second"), step};
  // Parameters alone are not a state of an optimizer.
  writeFile(path, {floats("w", {2}, {1, 2})});
  EXPECT_EQ(errorOf(arguments, path), "");
  writeFile(path, {floats("w", {2}, {1, 2}), floats("w.first", {2}, {3, 4})});
  EXPECT_EQ(errorOf(arguments, path),
            "expected '" + path +
                "' to have all of the plan's 3 states of the optimizer, of which it has some, but it "
                "lacks 2: 'w.second', 'step'; with --allow-missing they begin as in a first step");
  writeFile(path, {floats("w.first", {2}, {3, 4})});
  EXPECT_THAT(errorOf(arguments, path), HasSubstr("lacks 2: 'w.second', 'step'"));
}

// A checkpoint has the prefix in all names or in none.
TEST(Checkpoint, Prefix) {
  std::string folder = temporary(), path = folder + "a.safetensors";
  std::vector<Value> arguments{parameter("v", {1}, {.tensors = {"p.t"}, .prefix = "p."}),
                               parameter("w", {1}, {.tensors = {"p.u"}, .prefix = "p."}), parameter("x", {1}, {{"t"}})};
  arguments[0].updated = true;
  std::ostringstream log;
  for (std::string prefix : {"p.", ""}) {
    arguments.resize(prefix.empty() ? 2 : 3, arguments.back());
    writeFile(path, {floats(prefix + "t", {1}, {1}), floats(prefix + "u", {1}, {2}),
                     floats(prefix.empty() ? "other" : "t", {1}, {3})});
    Tensors inputs;
    EXPECT_EQ(makeInputs(arguments, path, 0, log, inputs).message, "");
    EXPECT_EQ(inputs["v"].as<float>()[0], 1);
    EXPECT_EQ(inputs["w"].as<float>()[0], 2);
    EXPECT_EQ(saveBack(arguments, {path}, folder + "out.safetensors"), "");
    EXPECT_EQ(readAll(folder + "out.safetensors"), readAll(path));
  }
  EXPECT_THAT(log.str(), HasSubstr("no use for 1 of the 3 tensors of '" + path + "': 'other'"));
  writeFile(path, {floats("t", {1}, {1}), floats("u", {2}, {2, 2})});
  EXPECT_THAT(errorOf(arguments, path), HasSubstr("tensor 'u' of argument 'w': expected [1] but got [2]"));
  writeFile(path, {floats("p.t", {1}, {1}), floats("u", {1}, {2})});
  EXPECT_THAT(errorOf(arguments, path), HasSubstr("lacks 1: 'w' (tensor 'p.u')"));
}

// Arguments' own names have priority over names of checkpoints, and earlier files over later ones.
TEST(Checkpoint, SeveralFiles) {
  std::string folder = temporary();
  std::vector<Value> arguments{parameter("v", {1}, {{"t"}}), parameter("w", {1}, {{"u"}})};
  writeFile(folder + "one", {floats("t", {1}, {1}), floats("u", {1}, {2})});
  writeFile(folder + "two", {floats("t", {1}, {3})});
  writeFile(folder + "own", {floats("v", {1}, {4})});
  auto values = [&](const std::vector<std::string> &names) {
    std::vector<std::string> paths;
    for (const std::string &name : names)
      paths.push_back(folder + name);
    Loads loads;
    std::ostringstream log;
    Tensors inputs;
    EXPECT_TRUE(loads.open(paths, arguments).ok());
    EXPECT_TRUE(makeInputs(arguments, loads, {}, log, inputs).ok());
    return std::pair(inputs["v"].as<float>()[0], inputs["w"].as<float>()[0]);
  };
  EXPECT_EQ(values({"one", "two"}), std::pair(1.0f, 2.0f));
  EXPECT_EQ(values({"two", "one"}), std::pair(3.0f, 2.0f));
  EXPECT_EQ(values({"one", "own"}), std::pair(4.0f, 2.0f));
  EXPECT_THAT(saveBack(arguments, {folder + "one", folder + "two"}, folder + "out"),
              HasSubstr("expected one checkpoint to take the layout of but"));
  // Values from another file are saved in the checkpoint's place.
  EXPECT_EQ(saveBack(arguments, {folder + "own", folder + "one"}, folder + "out.safetensors"), "");
  writeFile(folder + "want", {floats("t", {1}, {4}), floats("u", {1}, {2})});
  EXPECT_EQ(readAll(folder + "out.safetensors"), readAll(folder + "want"));
}

TEST(Checkpoint, Index) {
  std::string folder = temporary();
  std::vector<Value> arguments{parameter("v", {1}, {{"t"}}), parameter("w", {1}, {{"u"}})};
  writeFile(folder + "a", {floats("t", {1}, {1}), floats("u", {1}, {9})});
  writeFile(folder + "b", {floats("u", {1}, {2})});
  // The index names another file for 'u' than a.
  writeIndex(folder, {{"t", "a"}, {"u", "b"}});
  std::ostringstream log;
  Tensors inputs;
  ASSERT_TRUE(makeInputs(arguments, folder, 0, log, inputs).ok());
  EXPECT_EQ(inputs["w"].as<float>()[0], 2);
  for (Value &argument : arguments)
    argument.updated = true;
  EXPECT_EQ(saveBack(arguments, {folder}, folder + "back"), "");
  for (const char *name : {"a", "b", "model.safetensors.index.json"})
    EXPECT_EQ(readAll(folder + name), readAll(folder + "back/" + name)) << name;
  EXPECT_THAT(saveBack(arguments, {folder}, folder + "x.safetensors"), HasSubstr("expected a folder for the 2 files"));

  auto error = [&](const std::vector<std::pair<std::string, std::string>> &places) {
    writeIndex(folder, places);
    return errorOf(arguments, folder + "model.safetensors.index.json");
  };
  EXPECT_THAT(error({{"t", "c"}}), HasSubstr("expected the file 'c' of tensor 't' in"));
  EXPECT_THAT(error({{"t", "b"}}), HasSubstr("expected 'b' to have tensor 't', as the index says, but it does not"));
  for (const char *outside : {"../a", "/a", "x/a", "..", ".", "", "a\\b"})
    EXPECT_THAT(error({{"t", outside}}), HasSubstr("tensor 't': expected the name of a file in the index's folder"));
  writeAll(folder + "model.safetensors.index.json", "{\"weight_map\": [}");
  EXPECT_THAT(errorOf(arguments, folder), HasSubstr("expected an object of JSON with an object 'weight_map'"));
  fs::resize_file(folder + "a", fs::file_size(folder + "a") - 1);
  EXPECT_THAT(error({{"t", "a"}}), HasSubstr("a': "));
}

// Opening any index ends in tensors or an error.
TEST(Checkpoint, Fuzz) {
  std::string folder = temporary();
  writeFile(folder + "a", {floats("t", {1}, {1})});
  writeFile(folder + "b", {floats("u", {1}, {2})});
  writeIndex(folder, {{"t", "a"}, {"u", "b"}});
  std::string path = folder + "model.safetensors.index.json", text = readAll(path);
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string copy = text;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
      copy[random() % copy.size()] = static_cast<char>(random());
    writeAll(path, copy);
    Checkpoint checkpoint;
    (void)checkpoint.open(folder);
  }
}

// Values that pass through the arguments keep every bit, and the file's types, order and header.
TEST(CheckpointWriter, EveryBit) {
  std::string folder = temporary();
  std::vector<uint16_t> all(0x10000);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<uint16_t>(i);
  writeFile(folder + "in", {{"z", "BF16", {256, 256}, bytesOf(all)},
                            {"positions", "I64", {1}, std::string(8, 'p')},
                            {"y", "F16", {64, 1024}, bytesOf(all)},
                            {"empty", "F32", {0, 3}, ""},
                            {"mask", "BOOL", {3}, "abc"}});
  std::vector<Value> arguments{parameter("a", {256, 256}, matrix({"z"})),
                               parameter("b", {64, 24}, {{"y"}, false, 0, 1024}),
                               parameter("c", {64, 1000}, {{"y"}, false, 24, 1024})};
  for (int32_t dtype : {MOERT_F32, MOERT_F64}) {
    for (Value &argument : arguments) {
      argument.updated = true;
      argument.dtype = dtype;
    }
    EXPECT_EQ(saveBack(arguments, {folder + "in"}, folder + "out.safetensors"), "");
    EXPECT_EQ(readAll(folder + "in"), readAll(folder + "out.safetensors"));
  }
  // Saves in place, without steps that change a value. Values survive even if the argument cannot hold them.
  EXPECT_EQ(saveBack(arguments, {folder + "in"}, folder), "");
  EXPECT_EQ(readAll(folder + "in"), readAll(folder + "out.safetensors"));
  for (Value &argument : arguments) {
    argument.updated = false;
    argument.dtype = MOERT_BF16;
  }
  EXPECT_EQ(saveBack(arguments, {folder + "in"}, folder), "");
  EXPECT_EQ(readAll(folder + "in"), readAll(folder + "out.safetensors"));
  EXPECT_FALSE(fs::exists(folder + "in.partial"));
}

TEST(CheckpointWriter, New) {
  std::string folder = temporary();
  Source experts = matrix({"{e}.gate", "{e}.up"});
  experts.experts = 2;
  std::vector<Value> arguments{parameter("w", {2, 3, 4}, experts), parameter("q", {2, 3}, {{"qk"}, true, 0, 4}),
                               parameter("k", {2, 1}, {{"qk"}, true, 3, 4}), parameter("s", {}, {{"s"}})};
  EXPECT_EQ(saveBack(arguments, {}, folder + "deep/er"), "");
  SafetensorsFile file;
  ASSERT_TRUE(file.open(folder + "deep/er/model.safetensors").ok());
  EXPECT_EQ(file.entries().size(), 6u);
  EXPECT_THAT(file.entries().at("1.up").shape, ElementsAre(2, 3));
  EXPECT_THAT(file.entries().at("qk").shape, ElementsAre(4, 2));
  EXPECT_THAT(file.head(), HasSubstr(R"("__metadata__":{"format":"pt"})"));
  // Saving writes the values that were loaded.
  std::ostringstream log;
  Tensors made, loaded;
  ASSERT_TRUE(makeInputs(arguments, "", 0, log, made).ok());
  ASSERT_TRUE(makeInputs(arguments, folder + "deep/er", 1, log, loaded).ok());
  for (const Value &argument : arguments)
    EXPECT_EQ(elements<float>(made[argument.name]), elements<float>(loaded[argument.name])) << argument.name;
  EXPECT_EQ(log.str(), "");

  arguments.pop_back();
  arguments.pop_back();
  EXPECT_THAT(saveBack(arguments, {}, folder),
              HasSubstr("to make up tensor 'qk' [4, 2] but they have 6 of its elements"));
  arguments[1].source.reset();
  EXPECT_THAT(saveBack(arguments, {}, folder), HasSubstr("the plan does not say what 'q' is in a checkpoint"));
  EXPECT_THAT(saveBack({}, {}, folder), HasSubstr("the plan has no parameters"));
}

TEST(CheckpointWriter, NoPlace) {
  std::string folder = temporary();
  std::vector<Value> arguments{parameter("v", {1}, {{"t"}}), parameter("w", {1}, {{"u"}})};
  writeFile(folder + "in", {floats("t", {1}, {1})});
  EXPECT_THAT(saveBack(arguments, {folder + "in"}, folder), HasSubstr("it lacks 1: 'w' (tensor 'u')"));
  writeFile(folder + "in", {floats("t", {1}, {1}), floats("u", {1}, {1})});
  EXPECT_THAT(saveBack(arguments, {folder + "in"}, folder + "in/x"), HasSubstr("--save-checkpoint: '"));
}

// The f32 copy of a bf16 parameter begins with the checkpoint's value, and is saved in its place.
TEST(CheckpointWriter, Masters) {
  std::string folder = temporary();
  Value weight = parameter("w", {1, 2}, matrix({"t"}), MOERT_BF16);
  std::vector<Value> arguments{weight, stateOf(weight, ".master"), stateOf(weight, ".first")};
  arguments[0].updated = arguments[1].updated = arguments[2].updated = true;
  writeFile(folder + "in", {floats("t", {2, 1}, {1.0001f, -3.3f})});
  std::ostringstream log;
  Tensors inputs;
  ASSERT_TRUE(makeInputs(arguments, folder + "in", 0, log, inputs).ok());
  EXPECT_THAT(elements<float>(inputs["w.master"]), ElementsAre(1.0001f, -3.3f));
  EXPECT_THAT(elements<float>(inputs["w.first"]), ElementsAre(0, 0));
  EXPECT_EQ(elementAt(inputs["w"].as<char>(), MOERT_BF16, 0), 1);
  EXPECT_EQ(log.str(), "");
  EXPECT_EQ(saveBack(arguments, {folder + "in"}, folder + "out.safetensors"), "");
  EXPECT_EQ(readAll(folder + "in"), readAll(folder + "out.safetensors"));
  // Without a file, the copy begins as the parameter.
  inputs.clear();
  ASSERT_TRUE(makeInputs(arguments, "", 0, log, inputs).ok());
  for (int64_t i = 0; i < 2; ++i)
    EXPECT_EQ(elementAt(inputs["w"].as<char>(), MOERT_BF16, i), inputs["w.master"].as<float>()[i]);
}
