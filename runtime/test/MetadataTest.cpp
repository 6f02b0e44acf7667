//===- MetadataTest.cpp ---------------------------------------------------===//

#include "core/Metadata.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

using namespace moert;
using nlohmann::json;
using testing::HasSubstr;

namespace {

json good() {
  return json::parse(R"({
    "moeplan": 5, "abi": 9, "world": 8, "parallel": {"dp": 4}, "schedule": "baseline", "mode": "train", "dtype": "f32",
    "groups": [{"name": "mp", "size": 2, "stride": 1}, {"name": "dp", "size": 4, "stride": 2},
               {"name": "half", "size": 2, "stride": 2}],
    "programs": [{
      "first_rank": 0, "ranks": 8, "symbol": "moeplan_rank",
      "arguments": [{"name": "x", "role": "input", "dtype": "f32", "shape": [16, 6], "local_shape": [4, 3],
                     "layout": [["dp"], ["mp"]]}],
      "results": [{"name": "y", "role": "output", "dtype": "f64", "shape": [], "local_shape": [], "layout": []}],
      "arenas": {"device": 1024, "host_pinned": 0}, "streams": ["compute", "comm"], "events": 3,
      "ops": [{"name": "all_gather", "label": "layer0", "stream": "comm", "group": "mp", "flops": 1.5e6, "bytes": 12,
               "bytes_sent": 6, "rows": 0}]}],
    "reference": {}})");
}

/// A pipeline of two stages, both with `x` and `y`.
json goodStages() {
  json root = good(), &programs = root["programs"];
  programs[0]["ranks"] = 4;
  programs[0]["arguments"][0].update({{"local_shape", {8, 3}}, {"layout", {{"half"}, {"mp"}}}});
  programs.push_back(programs[0]);
  programs[1]["first_rank"] = 4;
  programs[1]["arguments"].push_back({{"name", "w"},
                                      {"role", "parameter"},
                                      {"dtype", "f32"},
                                      {"shape", {3}},
                                      {"local_shape", {3}},
                                      {"layout", {json::array()}}});
  return root;
}

/// A plan of two shapes, with two schedules for the first.
json goodVariants() {
  json variants = json::array();
  for (auto [batch, schedule] : std::vector<std::pair<int, const char *>>{{2, "s1"}, {2, "s2"}, {4, "s1"}}) {
    json variant = good();
    variant.erase("moeplan");
    variant.erase("abi");
    variant.update({{"batch", batch}, {"sequence", 64}, {"schedule", schedule}});
    variants.push_back(variant);
  }
  return {{"moeplan", 5}, {"abi", 9}, {"variants", variants}};
}

std::string errorOf(const json &root) {
  std::vector<Metadata> variants;
  Status status = parseMetadata(root.dump(), variants);
  EXPECT_EQ(status.code, MOERT_ERROR_INVALID_ARGUMENT);
  return status.message;
}

/// Error after `value` is put at `pointer`.
std::string errorWith(const char *pointer, json value, json root = good()) {
  root[json::json_pointer(pointer)] = std::move(value);
  return errorOf(root);
}

} // namespace

TEST(Metadata, Good) {
  std::vector<Metadata> variants;
  Status status = parseMetadata(good().dump(), variants);
  ASSERT_TRUE(status.ok()) << status.message;
  ASSERT_EQ(variants.size(), 1u);
  EXPECT_FALSE(hasShapes(variants));
  const Metadata &metadata = variants[0];
  EXPECT_EQ(metadata.world, 8);
  EXPECT_FALSE(metadata.reference);
  EXPECT_EQ(metadata.programs[0].arguments[0].localBytes(), 48);
  EXPECT_EQ(metadata.programs[0].value(1).name, "y");
  EXPECT_EQ(metadata.programs[0].value(1).bytes(), 8);
  EXPECT_EQ(metadata.programs[0].ops[0].stream, 1);
  EXPECT_EQ(metadata.programs[0].ops[0].group, 0);
}

// An op that equals an earlier one may be that op's number.
TEST(Metadata, RepeatedOps) {
  json root = good();
  root["programs"][0]["ops"].push_back(0);
  std::vector<Metadata> variants;
  Status status = parseMetadata(root.dump(), variants);
  ASSERT_TRUE(status.ok()) << status.message;
  const std::vector<Op> &ops = variants[0].programs[0].ops;
  EXPECT_EQ(ops.back().name, ops[0].name);
  EXPECT_EQ(ops.back().bytes, 12);
  EXPECT_THAT(errorWith("/programs/0/ops/0", 0),
              HasSubstr("programs[0].ops[0]: expected the number of an earlier op but got 0"));
}

// In a pipeline, each stage has a program for the ranks after those of the previous stage.
TEST(Metadata, Programs) {
  std::vector<Metadata> variants;
  Status status = parseMetadata(goodStages().dump(), variants);
  ASSERT_TRUE(status.ok()) << status.message;
  const Metadata &metadata = variants[0];
  ASSERT_EQ(metadata.programs.size(), 2u);
  EXPECT_EQ(metadata.programs[1].firstRank, 4);
  EXPECT_EQ(metadata.programs[1].numRanks, 4);
  for (int64_t rank = 0; rank < 8; ++rank)
    EXPECT_EQ(&metadata.programOf(rank), &metadata.programs[static_cast<size_t>(rank / 4)]);
  EXPECT_EQ(metadata.programs[1].findArgument("w").index, 1);
  EXPECT_EQ(metadata.programs[0].findArgument("w").index, -1);
  EXPECT_EQ(metadata.programs[1].findResult("y").index, 2);
  EXPECT_EQ(metadata.programs[1].findResult("w").index, -1);
  std::vector<Value> arguments = argumentsOf(metadata.programs);
  ASSERT_EQ(arguments.size(), 2u);
  EXPECT_EQ(arguments[1].name, "w");
  EXPECT_EQ(resultsOf(metadata.programs).size(), 1u);
}

// Two ranks of cp divide sequences of 8 rows. Other sizes are refused.
TEST(Metadata, CutSequences) {
  auto make = [](json cut, json layout = {{"dp", "cp"}, {"mp"}}) {
    json root = good();
    root["groups"] = json::array({{{"name", "mp"}, {"size", 2}, {"stride", 1}},
                                  {{"name", "cp"}, {"size", 2}, {"stride", 2}},
                                  {{"name", "dp"}, {"size", 2}, {"stride", 4}}});
    json &value = root["programs"][0]["arguments"][0];
    const int64_t parts = layout[0].size() == 2 ? 4 : 2;
    value.update({{"shape", {16, 6}}, {"local_shape", {16 / parts, 3}}, {"layout", layout}, {"cut", cut}});
    return root;
  };
  auto error = [&](auto... values) { return errorOf(make(values...)); };
  using Cut = json::object_t;
  for (int64_t chunks : {2, 4}) {
    std::vector<Metadata> variants;
    EXPECT_TRUE(parseMetadata(make(Cut{{"sequence", 8}, {"chunks", chunks}}).dump(), variants).ok());
    EXPECT_EQ(variants[0].programs[0].arguments[0].cutChunks, chunks);
  }
  EXPECT_THAT(
      error(Cut{{"sequence", 8}, {"chunks", 3}}),
      HasSubstr("expected one chunk of a sequence, or two, for each of the 2 members of 'cp' but got 3 chunks"));
  EXPECT_THAT(error(Cut{{"sequence", 6}, {"chunks", 4}}),
              HasSubstr("expected whole sequences, of a multiple of 4, in dimension 0"));
  EXPECT_THAT(error(Cut{{"sequence", 8}, {"chunks", 2}}, json{{"dp"}, {"mp"}}),
              HasSubstr("expected a dimension of 'x' that 'cp' divides"));
}

TEST(Metadata, ProgramsOfRanks) {
  auto error = [](const char *pointer, json value) { return errorWith(pointer, std::move(value), goodStages()); };
  EXPECT_THAT(error("/programs", json::array()), HasSubstr("programs: expected at least one program but got none"));
  EXPECT_THAT(error("/programs", json::object()), HasSubstr("programs: expected an array but got object"));
  EXPECT_THAT(
      error("/programs/1/first_rank", 2),
      HasSubstr("programs[1].first_rank: expected 4, the first rank that no earlier program is for, but got 2"));
  EXPECT_THAT(error("/programs/0/first_rank", -1), HasSubstr("programs[0].first_rank: expected an integer from 0"));
  EXPECT_THAT(error("/programs/0/ranks", 0), HasSubstr("programs[0].ranks: expected an integer from 1"));
  EXPECT_THAT(error("/programs/1/ranks", 5),
              HasSubstr("programs[1].ranks: expected at most 4, the ranks of the world from 4 on, but got 5"));
  json root = goodStages();
  root["programs"].erase(1);
  EXPECT_THAT(errorOf(root), HasSubstr("programs: expected programs for all 8 ranks of the world but they are for 4"));
}

// Each program that has a value has all of it, and values of one name are the same.
TEST(Metadata, ValuesOfPrograms) {
  auto error = [](const char *pointer, json value) { return errorWith(pointer, std::move(value), goodStages()); };
  EXPECT_THAT(error("/programs/1/arguments/0/dtype", "f64"),
              HasSubstr("programs[1].arguments[0].dtype: expected f32, as 'x' has in programs[0], but got f64"));
  EXPECT_THAT(error("/programs/1/arguments/0/role", "parameter"),
              HasSubstr("programs[1].arguments[0].role: expected input, as 'x' has in programs[0], but got parameter"));
  EXPECT_THAT(error("/programs/1/results/0/role", "loss"), HasSubstr("programs[1].results[0].role: expected output"));
  EXPECT_THAT(error("/programs/1/arguments/0/updated", true),
              HasSubstr("programs[1].arguments[0].updated: expected false, as 'x' has in programs[0], but got true"));
  json root = goodStages();
  root["programs"][1]["arguments"][0].update({{"shape", {32, 6}}, {"local_shape", {16, 3}}});
  EXPECT_THAT(errorOf(root), HasSubstr("programs[1].arguments[0].shape: expected [16, 6], as 'x' has in programs[0], "
                                       "but got [32, 6]"));
  root = goodStages();
  root["programs"][1]["arguments"][0].update({{"local_shape", {16, 3}}, {"layout", {json::array(), {"mp"}}}});
  EXPECT_THAT(errorOf(root), HasSubstr("programs[1].arguments[0].layout: expected [[half], [mp]], as 'x' has in "
                                       "programs[0], but got [[], [mp]]"));
  root = goodStages();
  root["programs"][0]["arguments"][0].update({{"local_shape", {4, 6}}, {"layout", {{"dp"}, json::array()}}});
  EXPECT_THAT(errorOf(root), HasSubstr("programs[0].arguments[0].layout: no rank holds part 2 of the 4 of 'x'"));
}

TEST(Metadata, Variants) {
  std::vector<Metadata> variants;
  Status status = parseMetadata(goodVariants().dump(), variants);
  ASSERT_TRUE(status.ok()) << status.message;
  ASSERT_EQ(variants.size(), 3u);
  EXPECT_TRUE(hasShapes(variants));
  EXPECT_EQ(shapesText(variants), "2 x 64, 4 x 64");
  EXPECT_EQ(variants[1].batch, 2);
  EXPECT_EQ(variants[1].sequence, 64);
  EXPECT_EQ(variants[1].schedule, "s2");
  EXPECT_EQ(variants[2].programs[0].arguments[0].name, "x");

  auto error = [](const char *pointer, json value) { return errorWith(pointer, std::move(value), goodVariants()); };
  EXPECT_THAT(error("/variants", json::array()), HasSubstr("variants: expected at least one variant but got none"));
  EXPECT_THAT(error("/variants", 3), HasSubstr("variants: expected an array but got number"));
  EXPECT_THAT(error("/variants/1/batch", 0), HasSubstr("variants[1].batch: expected an integer from 1"));
  EXPECT_THAT(error("/variants/2/sequence", "64"), HasSubstr("variants[2].sequence: expected an integer but got"));
  EXPECT_THAT(error("/variants/1/programs/0/ops/0/stream", "copy"),
              HasSubstr("variants[1].programs[0].ops[0].stream: unknown stream 'copy'"));
  EXPECT_THAT(error("/variants/2/world", 16),
              HasSubstr("variants[2]: expected a world of 8 ranks as in the first variant but got 16"));
  EXPECT_THAT(error("/variants/1", json::object()), HasSubstr("variants[1]: missing key 'batch'"));
}

// A forward and a backward may omit their shape.
TEST(Metadata, Halves) {
  json root = goodVariants();
  json &all = root["variants"];
  all.erase(2);
  for (size_t i : {0, 1}) {
    all[i].erase("batch");
    all[i].erase("sequence");
    all[i]["half"] = i ? "backward" : "forward";
  }
  all[1]["programs"][0]["arguments"][0]["role"] = "residual";
  all[0]["programs"][0]["results"][0]["role"] = "residual";
  std::vector<Metadata> variants;
  Status status = parseMetadata(root.dump(), variants);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_TRUE(hasHalves(variants));
  EXPECT_FALSE(hasShapes(variants));
  EXPECT_EQ(variants[1].half, "backward");
  auto error = [&](const char *pointer, json value) { return errorWith(pointer, std::move(value), root); };
  EXPECT_THAT(error("/variants/1/half", "third"), HasSubstr("variants[1].half: unknown half 'third'"));
  EXPECT_THAT(error("/variants/1/half", "forward"), HasSubstr("variants[1]: expected variants in pairs of one shape"));
  EXPECT_THAT(error("/variants/0/batch", 2), HasSubstr("variants[0]: missing key 'sequence'"));
  all[0].update({{"batch", 2}, {"sequence", 8}});
  EXPECT_THAT(errorOf(root), HasSubstr("variants[1]: expected variants in pairs of one shape"));
}

// The seconds of an op, the chunks and the cluster are optional. A variant's own cluster replaces the plan's.
TEST(Metadata, Optional) {
  std::vector<Metadata> variants;
  ASSERT_TRUE(parseMetadata(good().dump(), variants).ok());
  EXPECT_EQ(variants[0].programs[0].ops[0].seconds, 0);
  EXPECT_EQ(variants[0].cluster, "");
  EXPECT_EQ(variants[0].chunks, 0);
  json root = good();
  root["cluster"] = "parm-b";
  root["programs"][0]["ops"][0]["seconds"] = 1.5e-3;
  ASSERT_TRUE(parseMetadata(root.dump(), variants).ok());
  EXPECT_EQ(variants[0].programs[0].ops[0].seconds, 1.5e-3);
  EXPECT_EQ(variants[0].cluster, "parm-b");
  root = goodVariants();
  root["cluster"] = "parm-b";
  root["variants"][1]["cluster"] = "hgx-h100";
  root["variants"][1]["chunks"] = 4;
  ASSERT_TRUE(parseMetadata(root.dump(), variants).ok());
  EXPECT_EQ(variants[0].cluster, "parm-b");
  EXPECT_EQ(variants[1].cluster, "hgx-h100");
  EXPECT_EQ(variants[0].chunks, 0);
  EXPECT_EQ(variants[1].chunks, 4);

  EXPECT_THAT(errorWith("/programs/0/ops/0/seconds", -1),
              HasSubstr("programs[0].ops[0].seconds: expected a number that is not negative but got -1"));
  EXPECT_THAT(errorWith("/programs/0/ops/0/seconds", "1"), HasSubstr("programs[0].ops[0].seconds"));
  EXPECT_THAT(errorWith("/programs/0/ops/0/seconds", 1e300), HasSubstr("programs[0].ops[0].seconds: expected at most"));
  EXPECT_THAT(errorWith("/cluster", 3), HasSubstr("cluster: expected a string but got number"));
  EXPECT_THAT(errorWith("/cluster", 3, goodVariants()), HasSubstr("cluster: expected a string but got number"));
  EXPECT_THAT(errorWith("/variants/1/chunks", -1, goodVariants()),
              HasSubstr("variants[1].chunks: expected an integer from 0"));
  EXPECT_THAT(errorWith("/variants/1/chunks", 2.5, goodVariants()),
              HasSubstr("variants[1].chunks: expected an integer but got 2.5"));
}

// Source of a parameter in a checkpoint.
TEST(Metadata, Source) {
  std::vector<Metadata> variants;
  json root = good();
  json &argument = root["programs"][0]["arguments"][0];
  argument["source"] = {
      {"tensors", {"e.{e}.gate", "e.{e}.up"}}, {"experts", 16}, {"begin", 1}, {"of", 4}, {"blocks", 1}};
  Status status = parseMetadata(root.dump(), variants);
  ASSERT_TRUE(status.ok()) << status.message;
  const Source &source = *variants[0].programs[0].arguments[0].source;
  EXPECT_THAT(source.tensors, testing::ElementsAre("e.{e}.gate", "e.{e}.up"));
  EXPECT_EQ(source.experts, 16);
  EXPECT_EQ(source.begin, 1);
  EXPECT_EQ(source.of, 4);
  EXPECT_EQ(source.blocks, 1);
  EXPECT_FALSE(source.transpose);
  EXPECT_EQ(source.prefix, "");
  argument["source"]["prefix"] = "e.";
  ASSERT_TRUE(parseMetadata(root.dump(), variants).ok());
  EXPECT_EQ(variants[0].programs[0].arguments[0].source->prefix, "e.");
  ASSERT_TRUE(parseMetadata(good().dump(), variants).ok());
  EXPECT_FALSE(variants[0].programs[0].arguments[0].source);

  auto error = [](json source) { return errorWith("/programs/0/arguments/0/source", std::move(source)); };
  EXPECT_THAT(error("t"), HasSubstr("programs[0].arguments[0].source: expected an object but got string"));
  EXPECT_THAT(error({{"transpose", true}}), HasSubstr("source: missing key 'tensors'"));
  EXPECT_THAT(error({{"tensors", "t"}}), HasSubstr("source.tensors: expected an array but got string"));
  EXPECT_THAT(error({{"tensors", {3}}}), HasSubstr("source.tensors[0]: expected a string but got number"));
  EXPECT_THAT(error({{"tensors", json::array()}}), HasSubstr("source.tensors: expected one or two names but got 0"));
  EXPECT_THAT(error({{"tensors", {"a", "b", "c"}}}), HasSubstr("source.tensors: expected one or two names but got 3"));
  EXPECT_THAT(error({{"tensors", {"t"}}, {"transposed", true}}),
              HasSubstr("source: unknown key 'transposed', expected one of 'tensors', 'prefix', 'transpose'"));
  EXPECT_THAT(error({{"tensors", {"t"}}, {"transpose", 1}}),
              HasSubstr("source.transpose: expected true or false but got 1"));
  EXPECT_THAT(error({{"tensors", {"t.{e}"}}, {"experts", 8}}),
              HasSubstr("source.experts: expected dimension 0 of [16, 6] but got 8"));
  EXPECT_THAT(error({{"tensors", {"t.{e}"}}}), HasSubstr("source.tensors[0]: expected a name without '{e}' unless"));
  EXPECT_THAT(error({{"tensors", {"t"}}, {"experts", 16}}),
              HasSubstr("source.tensors[0]: expected a name with '{e}' since each expert has a tensor but got 't'"));
  argument["source"] = {{"tensors", {"t"}}, {"experts", 16}, {"stacked", 3}, {"halves", true}, {"row", false}};
  EXPECT_TRUE(parseMetadata(root.dump(), variants).ok());
  EXPECT_THAT(error({{"tensors", {"t"}}, {"experts", 16}, {"stacked", 4}}),
              HasSubstr("source.stacked: expected an integer from 2 to 3 but got 4"));
  EXPECT_THAT(error({{"tensors", {"t"}}, {"prefix", "u."}}),
              HasSubstr("source.tensors[0]: expected a name that begins with 'u.' but got 't'"));
  EXPECT_THAT(error({{"tensors", {"t"}}, {"stacked", 3}}),
              HasSubstr("source.stacked: expected 'stacked' together with 'experts'"));
  EXPECT_THAT(error({{"tensors", {"t", "u"}}, {"halves", true}}),
              HasSubstr("source.halves: expected one name and no 'of'"));
  EXPECT_THAT(error({{"tensors", {"t"}}, {"begin", 0}}), HasSubstr("source: missing key 'of'"));
  EXPECT_THAT(error({{"tensors", {"t"}}, {"of", 12}}), HasSubstr("source: missing key 'begin'"));
  EXPECT_THAT(error({{"tensors", {"t"}}, {"begin", 0}, {"of", 5}}),
              HasSubstr("source.of: expected an integer from 6 to"));
  EXPECT_THAT(error({{"tensors", {"t"}}, {"begin", 7}, {"of", 12}}),
              HasSubstr("source.begin: expected an integer from 0 to 6 but got 7"));
  EXPECT_THAT(error({{"tensors", {"t"}}, {"blocks", 2}}), HasSubstr("source: missing key 'of'"));
  EXPECT_THAT(error({{"tensors", {"t"}}, {"begin", 0}, {"of", 5}, {"blocks", 4}}),
              HasSubstr("source.blocks: expected a divisor of the 6 columns but got 4"));
  EXPECT_THAT(error({{"tensors", {"t"}}, {"begin", 0}, {"of", 2}, {"blocks", 2}}),
              HasSubstr("source.of: expected an integer from 3 to"));
  EXPECT_THAT(error({{"tensors", {"t"}}, {"begin", 3}, {"of", 5}, {"blocks", 2}}),
              HasSubstr("source.begin: expected an integer from 0 to 2 but got 3"));
  root = good();
  root["programs"][0]["arguments"][0].update(
      {{"shape", {2, 3, 5}}, {"local_shape", {2, 3, 5}}, {"layout", {json::array(), json::array(), json::array()}}});
  EXPECT_THAT(errorWith("/programs/0/arguments/0/source", {{"tensors", {"t"}}, {"transpose", true}}, root),
              HasSubstr("source.transpose: expected 'transpose' of a matrix but the tensor is [2, 3, 5]"));
  EXPECT_THAT(errorWith("/programs/0/arguments/0/source", {{"tensors", {"t", "u"}}}, root),
              HasSubstr("source.tensors: expected one name for 5 columns"));
}

// The version is read first, so that a plan of another version is recognised.
TEST(Metadata, Versions) {
  EXPECT_THAT(errorOf({{"moeplan", 3}}), HasSubstr("moeplan: the plan has version 3, this runtime accepts 5"));
  EXPECT_THAT(errorOf({{"moeplan", 5}, {"abi", 10}}),
              HasSubstr("abi: the plan has version 10, this runtime accepts 9"));
  EXPECT_THAT(errorOf({{"moeplan", 5}, {"abi", 10}, {"compiler", "0.9.1"}}),
              HasSubstr("abi: the plan of MoePlan 0.9.1 has version 10, this runtime accepts 9"));
  EXPECT_THAT(errorWith("/abi", "1"), HasSubstr("has version \"1\""));
}

// Every key is required, and the error names it.
TEST(Metadata, MissingKeys) {
  for (const char *pointer :
       {"/moeplan", "/abi", "/world", "/schedule", "/mode", "/dtype", "/groups", "/groups/0/size", "/programs",
        "/programs/0/symbol", "/programs/0/arguments", "/programs/0/arguments/0/layout", "/programs/0/arguments/0/role",
        "/programs/0/results", "/programs/0/arenas/host_pinned", "/programs/0/streams", "/programs/0/events",
        "/programs/0/ops", "/programs/0/ops/0/rows"}) {
    json root = good();
    json::json_pointer at(pointer);
    root[at.parent_pointer()].erase(at.back());
    EXPECT_THAT(errorOf(root), HasSubstr("missing key '" + at.back() + "'"));
  }
}

TEST(Metadata, Dtypes) {
  for (int32_t dtype : {MOERT_F32, MOERT_F64, MOERT_BF16, MOERT_F16, MOERT_I32})
    EXPECT_EQ(dtypeFromName(dtypeName(dtype)), dtype);
  EXPECT_EQ(dtypeFromName("f8"), -1);
  EXPECT_EQ(dtypeFromName("?"), -1);
}

TEST(Metadata, WrongTypes) {
  EXPECT_THAT(errorWith("/world", 0), HasSubstr("world: expected an integer from 1"));
  EXPECT_THAT(errorWith("/world", 2.5), HasSubstr("world: expected an integer but got 2.5"));
  EXPECT_THAT(errorWith("/groups", 3), HasSubstr("groups: expected an array but got number"));
  EXPECT_THAT(errorWith("/programs/0/ops/0", "x"), HasSubstr("programs[0].ops[0]: expected an object but got string"));
  EXPECT_THAT(errorWith("/programs/0/ops/0/flops", -1), HasSubstr("programs[0].ops[0].flops"));
  EXPECT_THAT(errorWith("/programs/0/arguments/0/dtype", "f8"), HasSubstr("unknown dtype 'f8', expected one of 'f32'"));
  EXPECT_THAT(errorWith("/programs/0/arguments/0/role", "weight"), HasSubstr("unknown role 'weight'"));
  EXPECT_THAT(errorWith("/programs/0/arguments/0/shape", {1, 2, 3, 4, 5}), HasSubstr("at most 4 dimensions"));
  EXPECT_THAT(errorWith("/programs/0/arguments/0/shape", {1 << 30, 1 << 30}), HasSubstr("too many elements"));
  EXPECT_THAT(errorWith("/programs/0/arenas/device", 18446744073709551615u), HasSubstr("programs[0].arenas.device"));
  std::vector<Metadata> variants;
  EXPECT_THAT(parseMetadata("{\"moeplan\": 5,", variants).message, HasSubstr("not JSON"));
  EXPECT_THAT(parseMetadata("[]", variants).message, HasSubstr("expected an object but got array"));
}

TEST(Metadata, Groups) {
  EXPECT_THAT(errorWith("/groups/1/name", "mp"), HasSubstr("'mp' is defined twice"));
  EXPECT_THAT(errorWith("/groups/0/size", 3), HasSubstr("expected a divisor of the world size 8"));
  EXPECT_THAT(errorWith("/programs/0/ops/0/group", "ep"),
              HasSubstr("programs[0].ops[0].group: unknown group 'ep', expected one of "
                        "'mp', 'dp', 'half'"));
  EXPECT_THAT(errorWith("/programs/0/arguments/0/layout/1/0", "ep"),
              HasSubstr("programs[0].arguments[0].layout[1][0]: unknown group 'ep'"));
}

TEST(Metadata, Layouts) {
  EXPECT_THAT(errorWith("/programs/0/arguments/0/local_shape", {4, 6}),
              HasSubstr("local_shape [4, 6] of 'x' does not fit shape [16, 6]: dimension 1 is cut into 2 parts"));
  EXPECT_THAT(errorWith("/programs/0/arguments/0/layout", json::array({json::array()})),
              HasSubstr("equally many dimensions"));
  EXPECT_THAT(errorWith("/programs/0/arguments/0/layout", {{"dp", "mp"}, {"mp"}}),
              HasSubstr("more parts than there are"));
  EXPECT_THAT(errorWith("/programs/0/arguments/0/layout", {{"half"}, {"half"}}),
              HasSubstr("no rank holds part 1 of the 4"));
}

TEST(Metadata, Names) {
  EXPECT_THAT(errorWith("/programs/0/streams/1", "compute"), HasSubstr("a stream is named twice"));
  EXPECT_THAT(errorWith("/programs/0/ops/0/stream", "copy"), HasSubstr("unknown stream 'copy'"));
  json root = good();
  root["programs"][0]["arguments"].push_back(root["programs"][0]["arguments"][0]);
  EXPECT_THAT(errorOf(root), HasSubstr("the name 'x' is used twice"));
}

// Metadata that is truncated anywhere is refused.
TEST(Metadata, Truncated) {
  for (const std::string &text : {good().dump(), goodVariants().dump()})
    for (size_t length = 0; length < text.size(); ++length) {
      std::vector<Metadata> variants;
      EXPECT_FALSE(parseMetadata(text.substr(0, length), variants).ok());
    }
}
