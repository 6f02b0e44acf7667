//===- ModelCallsTest.cpp - calls of whole models through the ABI ---------===//
//
// Every call gives the result of its kernel when called directly: operands and attributes arrive in their order.
//
//===----------------------------------------------------------------------===//

#include "core/World.h"
#include "host/Kernels.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <functional>

using namespace moert;
using testing::HasSubstr;

namespace {

constexpr int64_t kRanks = 4;

/// An operand: f32 values, different in each, or the given i32 values.
struct Operand {
  std::vector<int64_t> dims;
  std::vector<int32_t> integers = {};
  int32_t dtype() const { return integers.empty() ? MOERT_F32 : MOERT_I32; }
  int64_t count() const {
    int64_t result = 1;
    for (int64_t dim : dims)
      result *= dim;
    return result;
  }
  /// Initial bytes of operand number `index`.
  std::vector<char> bytes(size_t index) const {
    std::vector<char> result(static_cast<size_t>(count()) * 4);
    for (int64_t i = 0; i < count() && integers.empty(); ++i) {
      // Values are positive, so that roots are numbers.
      const float value = 1.5f + std::sin(static_cast<float>(7 * index + 1) * static_cast<float>(i + 1));
      std::memcpy(&result[static_cast<size_t>(i) * 4], &value, 4);
    }
    if (!integers.empty())
      std::memcpy(result.data(), integers.data(), result.size());
    return result;
  }
};

using Views = std::vector<View>;
using Buffers = std::vector<const moert_buffer *>;
using Kernel = std::function<Status(Views v, int64_t rank)>;
using Caller = std::function<int32_t(moert_rank_t rank, Buffers b)>;

std::vector<Operand> passed;
Caller caller;
Status outcome;

int32_t runCaller(moert_rank_t rank) {
  std::vector<moert_buffer> buffers(passed.size());
  Buffers pointers;
  for (size_t k = 0; k < passed.size(); ++k) {
    buffers[k] = {MOERT_SPACE_ARGUMENT,
                  passed[k].dtype(),
                  static_cast<int64_t>(k),
                  static_cast<int64_t>(passed[k].dims.size()),
                  {},
                  0,
                  0,
                  0,
                  0};
    std::copy(passed[k].dims.begin(), passed[k].dims.end(), buffers[k].dims);
    pointers.push_back(&buffers[k]);
  }
  return caller(rank, pointers);
}

/// A world all of whose ranks run one program.
Status makeCallWorld(const Program &program, const std::vector<Group> &groups, int64_t ranks, ProgramEntry entry,
                     const WorldOptions &options, std::unique_ptr<World> &world) {
  return World::create({{&program, 1}, {&entry, 1}}, groups, ranks, options, world);
}

/// Values of all passed of all ranks after `caller` ran.
std::vector<std::vector<char>> runCalls() {
  static Program program;
  static const std::vector<Group> groups{{"all", kRanks, 1}};
  program = {};
  program.streams = {"compute"};
  program.ops.push_back({"op", "layer0", 0, -1, 0, 0, 0, 0});
  for (const Operand &operand : passed) {
    Value &value = program.arguments.emplace_back();
    value.name = "x", value.role = "input";
    value.dtype = operand.dtype();
    value.shape = value.localShape = operand.dims;
  }
  std::unique_ptr<World> world;
  outcome = makeCallWorld(program, groups, kRanks, runCaller, {}, world);
  EXPECT_TRUE(outcome.ok()) << outcome.message;
  auto forEach = [&](auto use) {
    for (int64_t rank = 0; rank < kRanks; ++rank)
      for (size_t k = 0; k < passed.size(); ++k)
        use(rank, k);
  };
  forEach([&](int64_t rank, size_t k) {
    std::vector<char> data = passed[k].bytes(k);
    EXPECT_TRUE(world->write(rank, static_cast<int64_t>(k), data.data(), static_cast<int64_t>(data.size())).ok());
  });
  double seconds;
  outcome = world->run(&seconds);
  std::vector<std::vector<char>> results;
  forEach([&](int64_t rank, size_t k) {
    results.emplace_back(static_cast<size_t>(passed[k].count()) * 4);
    EXPECT_TRUE(
        world->read(rank, static_cast<int64_t>(k), results.back().data(), static_cast<int64_t>(results.back().size()))
            .ok());
  });
  return results;
}

/// Compares all passed bit by bit. They come in the order of the call.
void expectSame(const char *name, std::vector<Operand> given, Kernel kernel, Caller call) {
  SCOPED_TRACE(name);
  passed = std::move(given);
  caller = std::move(call);
  std::vector<std::vector<char>> got = runCalls();
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    std::vector<std::vector<char>> memory;
    Views views;
    for (size_t k = 0; k < passed.size(); ++k) {
      memory.push_back(passed[k].bytes(k));
      View view{memory.back().data(), passed[k].dtype(), static_cast<int64_t>(passed[k].dims.size()), {}};
      std::copy(passed[k].dims.begin(), passed[k].dims.end(), view.dims.begin());
      views.push_back(view);
    }
    Status status = kernel(views, rank);
    ASSERT_TRUE(status.ok()) << status.message;
    bool changed = false;
    for (size_t k = 0; k < passed.size(); ++k) {
      EXPECT_EQ(got[static_cast<size_t>(rank) * passed.size() + k], memory[k]) << "operand " << k;
      changed |= memory[k] != passed[k].bytes(k);
    }
    EXPECT_TRUE(changed);
  }
}

const Operand kScalar{{}};
const Operand kStep{{}, {3}};

} // namespace

TEST(ModelCalls, Tokens) {
  const Operand ids{{4}, {0, 5, 2, 7}}, integers{{4}, {9, 9, 9, 9}};
  expectSame(
      "positions", {integers}, [](Views v, int64_t rank) { return host::positions(v[0], 2, {3, 2, true, rank}); },
      [](moert_rank_t r, Buffers b) { return moert_positions(r, 0, b[0], 2, 3, 2, 1, 0); });
  expectSame(
      "index_affine", {ids, integers}, [](Views v, int64_t) { return host::indexAffine(v[0], v[1], 3, -2); },
      [](moert_rank_t r, Buffers b) { return moert_index_affine(r, 0, b[0], b[1], 3, -2, 0); });
  expectSame(
      "fill", {{{2, 3}}}, [](Views v, int64_t) { return host::fill(v[0], 2.5); },
      [](moert_rank_t r, Buffers b) { return moert_fill(r, 0, b[0], 2.5, 0); });
  expectSame(
      "cast", {{{2, 3}}, {{2, 3}}}, [](Views v, int64_t) { return host::cast(v[0], v[1]); },
      [](moert_rank_t r, Buffers b) { return moert_cast(r, 0, b[0], b[1], 0); });
  expectSame(
      "embedding", {ids, {{4, 3}}, {{4, 3}}},
      [](Views v, int64_t rank) { return host::embedding(v[0], v[1], v[2], {2, 2, rank}); },
      [](moert_rank_t r, Buffers b) { return moert_embedding(r, 0, b[0], b[1], b[2], 2, 2, 0); });
  expectSame(
      "embedding_grad", {ids, {{4, 3}}, {{5, 3}}, {{5, 3}}},
      [](Views v, int64_t rank) { return host::embeddingGrad(v[0], v[1], v[2], v[3], {2, 2, rank}, 5); },
      [](moert_rank_t r, Buffers b) { return moert_embedding_grad(r, 0, b[0], b[1], b[2], b[3], 2, 2, 5, 0); });
  expectSame(
      "embedding_grad without addend", {ids, {{4, 3}}, {{5, 3}}},
      [](Views v, int64_t rank) { return host::embeddingGrad(v[0], v[1], {}, v[2], {2, 1, rank}, -1); },
      [](moert_rank_t r, Buffers b) { return moert_embedding_grad(r, 0, b[0], b[1], nullptr, b[2], 2, 1, -1, 0); });
}

TEST(ModelCalls, Norms) {
  expectSame(
      "norm", {{{4, 6}}, {{3}}, {{3}}, {{4, 6}}},
      [](Views v, int64_t) { return host::norm(v[0], v[1], v[2], v[3], MOERT_RMS_NORM, 0.5); },
      [](moert_rank_t r, Buffers b) { return moert_norm(r, 0, b[0], b[1], b[2], b[3], MOERT_RMS_NORM, 0.5, 0); });
  expectSame(
      "norm_grad", {{{4, 6}}, {{3}}, {{4, 6}}, {{4, 6}}},
      [](Views v, int64_t) { return host::normGrad(v[0], v[1], v[2], v[3], MOERT_RMS_NORM, 0.5); },
      [](moert_rank_t r, Buffers b) { return moert_norm_grad(r, 0, b[0], b[1], b[2], b[3], MOERT_RMS_NORM, 0.5, 0); });
  expectSame(
      "norm_wgrad", {{{4, 6}}, {{4, 6}}, {{3}}, {{3}}},
      [](Views v, int64_t) { return host::normWgrad(v[0], v[1], v[2], v[3], MOERT_RMS_NORM, 0.5); },
      [](moert_rank_t r, Buffers b) { return moert_norm_wgrad(r, 0, b[0], b[1], b[2], b[3], MOERT_RMS_NORM, 0.5, 0); });
  expectSame(
      "inverse_root", {{{4, 1}}, {{4, 1}}}, [](Views v, int64_t) { return host::inverseRoot(v[0], v[1], 0.5, 2.0); },
      [](moert_rank_t r, Buffers b) { return moert_inverse_root(r, 0, b[0], b[1], 0.5, 2.0, 0); });
  expectSame(
      "inverse_root_grad", {{{4, 1}}, {{4, 1}}, {{4, 1}}},
      [](Views v, int64_t) { return host::inverseRootGrad(v[0], v[1], v[2], 0.5); },
      [](moert_rank_t r, Buffers b) { return moert_inverse_root_grad(r, 0, b[0], b[1], b[2], 0.5, 0); });
  expectSame(
      "clamp", {{{4, 3}}, {{4, 3}}}, [](Views v, int64_t) { return host::clamp(v[0], v[1], 0.5); },
      [](moert_rank_t r, Buffers b) { return moert_clamp(r, 0, b[0], b[1], 0.5, 0); });
  expectSame(
      "clamp_grad", {{{4, 3}}, {{4, 3}}, {{4, 3}}},
      [](Views v, int64_t) { return host::clampGrad(v[0], v[1], v[2], 0.5); },
      [](moert_rank_t r, Buffers b) { return moert_clamp_grad(r, 0, b[0], b[1], b[2], 0.5, 0); });
}

TEST(ModelCalls, Positions) {
  expectSame(
      "rotary", {{{6, 20}}, {{6, 20}}},
      [](Views v, int64_t rank) {
        const SequenceCut cut{3, 2, true, rank};
        return host::rotary(v[0], v[1], {4, 10, 1, 8, true, -1, 50.0, 3.0, 3.5, 0.5, 1.5, 20.0, 0.25, 2.0, cut});
      },
      [](moert_rank_t r, Buffers b) {
        return moert_rotary(r, 0, b[0], b[1], 4, 10, 1, 8, 1, -1, 3, 2, 1, 50.0, 3.0, 3.5, 0.5, 1.5, 20.0, 0.25, 2.0,
                            0);
      });
  expectSame(
      "relative_bias", {{{8, 2}}, {{2, 9, 7}}},
      [](Views v, int64_t) { return host::relativeBias(v[0], v[1], true, 6); },
      [](moert_rank_t r, Buffers b) { return moert_relative_bias(r, 0, b[0], b[1], 1, 6, 0); });
  expectSame(
      "relative_bias_grad", {{{2, 9, 7}}, {{8, 2}}, {{8, 2}}},
      [](Views v, int64_t) { return host::relativeBiasGrad(v[0], v[1], v[2], false, 6); },
      [](moert_rank_t r, Buffers b) { return moert_relative_bias_grad(r, 0, b[0], b[1], b[2], 0, 6, 0); });
  expectSame(
      "dropout", {{{5, 6}}, kStep, {{5, 6}}},
      [](Views v, int64_t rank) {
        return host::dropout(v[0], v[1], v[2], 11, {2, 2, rank}, {2, 1, rank}, 0.5, {2, 3, 2, true});
      },
      [](moert_rank_t r, Buffers b) {
        return moert_dropout(r, 0, b[0], b[1], b[2], 11, 2, 2, 2, 1, 0, 2, 3, 2, 1, 0.5, 0);
      });
  expectSame(
      "dropout of jitter", {{{5, 6}}, kStep, {{5, 6}}},
      [](Views v, int64_t rank) {
        return host::dropout(v[0], v[1], v[2], 11, {2, 2, rank}, {2, 1, rank}, {0.5, true}, {});
      },
      [](moert_rank_t r, Buffers b) {
        return moert_dropout(r, 0, b[0], b[1], b[2], 11, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0.5, 0);
      });
}

namespace {

/// Sequences of 3 queries and 5 keys, 2 of 4 query heads, 2 key heads, heads of 2 and 3 columns.
AttentionOptions attentionOptions(int64_t rank) {
  AttentionOptions options;
  options.qLength = 3, options.kLength = 5;
  options.heads = 2, options.kHeads = 2;
  options.part = {2, 1, rank};
  options.causal = true;
  options.window = 4;
  options.seed = 13;
  options.rows = {2, 2, rank};
  options.block = 7;
  options.cut = {2, 2, false, rank};
  options.scale = 0.25;
  options.dropout = 0.5;
  return options;
}

const std::vector<Operand> kAttention{{{6, 4}}, {{10, 4}}, {{10, 6}}, {{2, 6, 5}}, {{2}}, kStep};

std::vector<Operand> attentionWith(std::vector<Operand> more) {
  std::vector<Operand> all = kAttention;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

AttentionInputs inputsOf(const Views &v) { return {v[0], v[1], v[2], v[3], v[4], v[5]}; }

} // namespace

TEST(ModelCalls, Attention) {
  expectSame(
      "attention", attentionWith({{{6, 6}}, {{6, 2}}}),
      [](Views v, int64_t rank) { return host::attention(inputsOf(v), v[6], v[7], attentionOptions(rank)); },
      [](moert_rank_t r, Buffers b) {
        return moert_attention(r, 0, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], 3, 5, 2, 2, 2, 1, 1, 4, 13, 2, 2,
                               7, 2, 2, 0, -1, 0.25, 0.5, 0);
      });
  expectSame(
      "attention_grad", attentionWith({{{6, 6}}, {{6, 2}}, {{6, 6}}, {{6, 4}}, {{10, 4}}, {{10, 6}}}),
      [](Views v, int64_t rank) {
        return host::attentionGrad(inputsOf(v), v[6], v[7], v[8], v[9], v[10], v[11], attentionOptions(rank));
      },
      [](moert_rank_t r, Buffers b) {
        return moert_attention_grad(r, 0, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], 3,
                                    5, 2, 2, 2, 1, 1, 4, 13, 2, 2, 7, 2, 2, 0, -1, 0.25, 0.5, 0);
      });
  expectSame(
      "attention_bias_grad", attentionWith({{{6, 6}}, {{6, 2}}, {{6, 6}}, {{2, 6, 5}}}),
      [](Views v, int64_t rank) {
        return host::attentionBiasGrad(inputsOf(v), v[6], v[7], v[8], v[9], attentionOptions(rank));
      },
      [](moert_rank_t r, Buffers b) {
        return moert_attention_bias_grad(r, 0, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], 3, 5, 2, 2,
                                         2, 1, 1, 4, 13, 2, 2, 7, 2, 2, 0, -1, 0.25, 0.5, 0);
      });
  expectSame(
      "attention_sinks_grad", {{{2}}, {{6, 2}}, {{6, 6}}, {{6, 6}}, {{2}}},
      [](Views v, int64_t) { return host::attentionSinksGrad(v[0], v[1], v[2], v[3], v[4]); },
      [](moert_rank_t r, Buffers b) { return moert_attention_sinks_grad(r, 0, b[0], b[1], b[2], b[3], b[4], 0); });
}

TEST(ModelCalls, PartsOfSequences) {
  expectSame(
      "join_sequences", {{{8, 3}}, {{8, 3}}},
      [](Views v, int64_t) { return host::joinSequences(v[0], v[1], {2, 2, 2, true}, true); },
      [](moert_rank_t r, Buffers b) { return moert_join_sequences(r, 0, b[0], b[1], 2, 2, 2, 1, 1, 0); });
  expectSame(
      "merge_attention", {{{3, 4}}, {{3, 2}}, {{3, 4}}, {{3, 2}}, {{3, 4}}, {{3, 2}}},
      [](Views v, int64_t) { return host::mergeAttention(v[0], v[1], v[2], v[3], v[4], v[5]); },
      [](moert_rank_t r, Buffers b) { return moert_merge_attention(r, 0, b[0], b[1], b[2], b[3], b[4], b[5], 0); });
  expectSame(
      "attention", {{{6, 4}}, {{6, 4}}, {{6, 6}}, {{6, 6}}, {{6, 2}}},
      [](Views v, int64_t rank) {
        AttentionOptions options;
        options.qLength = options.kLength = 6;
        options.heads = options.kHeads = 2;
        options.causal = true;
        options.cut = {4, 1, true, rank};
        options.keyShift = 1;
        return host::attention({v[0], v[1], v[2], {}, {}, {}}, v[3], v[4], options);
      },
      [](moert_rank_t r, Buffers b) {
        return moert_attention(r, 0, b[0], b[1], b[2], nullptr, nullptr, nullptr, b[3], b[4], 6, 6, 2, 2, 1, 1, 1, 0, 0,
                               1, 1, 0, 4, 1, 1, 1, 1.0, 0.0, 0);
      });
}

TEST(ModelCalls, Heads) {
  expectSame(
      "append_to_heads", {{{5, 6}}, {{5, 2}}, {{5, 12}}},
      [](Views v, int64_t) { return host::appendToHeads(v[0], v[1], v[2]); },
      [](moert_rank_t r, Buffers b) { return moert_append_to_heads(r, 0, b[0], b[1], b[2], 0); });
  expectSame(
      "append_to_heads_grad", {{{5, 12}}, {{5, 6}}, {{5, 2}}},
      [](Views v, int64_t) { return host::appendToHeadsGrad(v[0], v[1], v[2]); },
      [](moert_rank_t r, Buffers b) { return moert_append_to_heads_grad(r, 0, b[0], b[1], b[2], 0); });
}

TEST(ModelCalls, AttentionWithoutOptionals) {
  expectSame(
      "attention", {{{6, 4}}, {{10, 4}}, {{10, 6}}, {{6, 6}}, {{6, 2}}},
      [](Views v, int64_t) {
        AttentionOptions options;
        options.qLength = 3, options.kLength = 5;
        options.heads = 2, options.kHeads = 2;
        return host::attention({v[0], v[1], v[2], {}, {}, {}}, v[3], v[4], options);
      },
      [](moert_rank_t r, Buffers b) {
        return moert_attention(r, 0, b[0], b[1], b[2], nullptr, nullptr, nullptr, b[3], b[4], 3, 5, 2, 2, 1, 1, 0, 0, 0,
                               1, 1, 0, 1, 1, 0, -1, 1.0, 0.0, 0);
      });
}

TEST(ModelCalls, Losses) {
  const Operand labels{{4}, {0, -1, 5, 2}};
  expectSame(
      "row_logsumexp", {{{4, 3}}, {{4, 1}}}, [](Views v, int64_t) { return host::rowLogsumexp(v[0], v[1]); },
      [](moert_rank_t r, Buffers b) { return moert_row_logsumexp(r, 0, b[0], b[1], 0); });
  expectSame(
      "row_logsumexp_grad", {{{4, 3}}, {{4, 1}}, {{4, 1}}, {{4, 3}}},
      [](Views v, int64_t) { return host::rowLogsumexpGrad(v[0], v[1], v[2], v[3]); },
      [](moert_rank_t r, Buffers b) { return moert_row_logsumexp_grad(r, 0, b[0], b[1], b[2], b[3], 0); });
  expectSame(
      "pick", {{{4, 3}}, labels, {{4, 1}}},
      [](Views v, int64_t rank) { return host::pick(v[0], v[1], v[2], {2, 2, rank}); },
      [](moert_rank_t r, Buffers b) { return moert_pick(r, 0, b[0], b[1], b[2], 2, 2, 0); });
  expectSame(
      "pick_grad", {labels, {{4, 1}}, {{4, 3}}, {{4, 3}}},
      [](Views v, int64_t rank) { return host::pickGrad(v[0], v[1], v[2], v[3], {2, 2, rank}); },
      [](moert_rank_t r, Buffers b) { return moert_pick_grad(r, 0, b[0], b[1], b[2], b[3], 2, 2, 0); });
  expectSame(
      "label_sum", {{{4, 1}}, labels, kScalar}, [](Views v, int64_t) { return host::labelSum(v[0], v[1], v[2]); },
      [](moert_rank_t r, Buffers b) { return moert_label_sum(r, 0, b[0], b[1], b[2], 0); });
  expectSame(
      "label_count", {labels, kScalar}, [](Views v, int64_t) { return host::labelCount(v[0], v[1]); },
      [](moert_rank_t r, Buffers b) { return moert_label_count(r, 0, b[0], b[1], 0); });
  expectSame(
      "router_means", {{{6, 3}}, {{2, 3}}, {{2, 3}}, {{2, 1}}},
      [](Views v, int64_t) { return host::routerMeans(v[0], v[1], v[2], v[3], 2, {}); },
      [](moert_rank_t r, Buffers b) { return moert_router_means(r, 0, b[0], b[1], b[2], b[3], 2, 0); });
  expectSame(
      "router_means_grad", {{{6, 3}}, {{2, 3}}, {{6, 3}}},
      [](Views v, int64_t) { return host::routerMeansGrad(v[0], v[1], {}, v[2]); },
      [](moert_rank_t r, Buffers b) { return moert_router_means_grad(r, 0, b[0], b[1], nullptr, b[2], 0); });
  expectSame(
      "label_sum_grad", {labels, kScalar, {{4, 1}}},
      [](Views v, int64_t) { return host::labelSumGrad(v[0], v[1], v[2]); },
      [](moert_rank_t r, Buffers b) { return moert_label_sum_grad(r, 0, b[0], b[1], b[2], 0); });
  expectSame(
      "divide", {kScalar, kScalar, kScalar}, [](Views v, int64_t) { return host::divide(v[0], v[1], v[2]); },
      [](moert_rank_t r, Buffers b) { return moert_divide(r, 0, b[0], b[1], b[2], 0); });
}

TEST(ModelCalls, Optimizers) {
  expectSame(
      "sum_squares", {{{4, 3}}, kScalar}, [](Views v, int64_t) { return host::sumSquares(v[0], v[1]); },
      [](moert_rank_t r, Buffers b) { return moert_sum_squares(r, 0, b[0], b[1], 0); });
  expectSame(
      "clip_factor", {kScalar, kScalar}, [](Views v, int64_t) { return host::clipFactor(v[0], v[1], 0.5); },
      [](moert_rank_t r, Buffers b) { return moert_clip_factor(r, 0, b[0], b[1], 0.5, 0); });
  expectSame(
      "square_root", {kScalar, kScalar}, [](Views v, int64_t) { return host::squareRoot(v[0], v[1]); },
      [](moert_rank_t r, Buffers b) { return moert_square_root(r, 0, b[0], b[1], 0); });
  for (bool hasFactor : {false, true}) {
    expectSame(
        "sgd", {{{5}}, {{5}}, {{5}}, kScalar, kScalar, {{5}}, {{5}}},
        [=](Views v, int64_t) {
          return host::sgd(v[0], v[1], v[2], v[3], hasFactor ? v[4] : View(), v[5], v[6], 0.75, 0.5);
        },
        [=](moert_rank_t r, Buffers b) {
          return moert_sgd(r, 0, b[0], b[1], b[2], b[3], hasFactor ? b[4] : nullptr, b[5], b[6], 0.75, 0.5, 0);
        });
    expectSame(
        "adam", {{{5}}, {{5}}, {{5}}, {{5}}, kScalar, kStep, kScalar, {{5}}, {{5}}, {{5}}},
        [=](Views v, int64_t) {
          return host::adam(v[0], v[1], v[2], v[3], v[4], v[5], hasFactor ? v[6] : View(), v[7], v[8], v[9],
                            {0.75, 0.5, 0.25, 0.125});
        },
        [=](moert_rank_t r, Buffers b) {
          return moert_adam(r, 0, b[0], b[1], b[2], b[3], b[4], b[5], hasFactor ? b[6] : nullptr, b[7], b[8], b[9],
                            0.75, 0.5, 0.25, 0.125, 0);
        });
  }
}

// An error of a kernel names the op. Missing required passed are refused before it.
TEST(ModelCalls, Errors) {
  passed = {{{3}, {0, 1, 64}}, {{32, 2}}, {{3, 2}}};
  caller = [](moert_rank_t r, Buffers b) { return moert_embedding(r, 0, b[0], b[1], b[2], 2, 1, 0); };
  runCalls();
  EXPECT_THAT(outcome.message, HasSubstr("'embedding': expected 'ids' from 0 to 63 but got 64 at 2"));
  EXPECT_EQ(outcome.code, MOERT_ERROR_INVALID_ARGUMENT);
  caller = [](moert_rank_t r, Buffers b) { return moert_embedding(r, 0, b[0], b[1], b[2], 2, 0, 0); };
  runCalls();
  EXPECT_THAT(outcome.message, HasSubstr("expected 'parts' and 'stride' of 1 or more but got 2 and 0"));
  caller = [](moert_rank_t r, Buffers b) { return moert_embedding(r, 0, nullptr, b[1], b[2], 2, 1, 0); };
  runCalls();
  EXPECT_THAT(outcome.message, HasSubstr("op 0 embedding 'layer0': operand 'ids': expected a buffer but got null"));
  EXPECT_EQ(moert_embedding(nullptr, 0, nullptr, nullptr, nullptr, 1, 1, 0), MOERT_ERROR_INVALID_ARGUMENT);
}
