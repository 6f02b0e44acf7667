//===- OnceCountsTest.cpp - rows that go once, counted and expected -------===//
#include "SimPrograms.h"

#include "moe/Dialect/Moe/IR/EvenRows.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/bit.h"

#include <cmath>
#include <numeric>
#include <random>
#include <set>

using namespace mlir;
using namespace mlir::moe;

namespace {

//===----------------------------------------------------------------------===//
// What is expected
//===----------------------------------------------------------------------===//

double getEven(const TokenDraw &draw, int64_t first, int64_t experts) {
  return draw.getChanceOfSome(first, std::vector<double>(experts, draw.getEvenChance()));
}

/// Share of all draws of groups and their experts that include some of the given experts.
double tryAll(const TokenDraw &draw, int64_t first, int64_t experts) {
  int64_t perGroup = draw.experts / draw.groups, all = 0, hits = 0;
  for (uint32_t groups : llvm::seq<uint32_t>(0, 1U << draw.groups)) {
    if (llvm::popcount(groups) != draw.topGroups)
      continue;
    for (uint32_t choices : llvm::seq<uint32_t>(0, 1U << draw.experts)) {
      bool isDrawn = llvm::popcount(choices) == draw.topK;
      for (int64_t expert = 0; expert < draw.experts; ++expert)
        isDrawn &= !(choices >> expert & 1) || (groups >> expert / perGroup & 1);
      all += isDrawn;
      hits += isDrawn && (choices >> first & ((1U << experts) - 1)) != 0;
    }
  }
  return static_cast<double>(hits) / static_cast<double>(all);
}

/// Covers parts of a group, groups, and several of them.
TEST(OnceCountsTest, ExpectedAsTried) {
  for (TokenDraw draw :
       {TokenDraw{8, 3}, {8, 1}, {8, 8}, {6, 2}, {8, 2, 4, 2}, {8, 3, 4, 2}, {12, 3, 3, 2}, {8, 4, 2, 2}}) {
    int64_t perGroup = draw.experts / draw.groups;
    for (int64_t experts = 1; experts <= draw.experts; ++experts) {
      if (experts % perGroup != 0 && perGroup % experts != 0)
        continue;
      for (int64_t first = 0; first + experts <= draw.experts; first += experts)
        EXPECT_NEAR(getEven(draw, first, experts), tryAll(draw, first, experts), 1e-12)
            << draw.topK << " of " << draw.experts << " in " << draw.topGroups << " of " << draw.groups << ": "
            << experts << " from " << first;
    }
  }
}

/// Expected number of the 7 other nodes of 8 for DeepSeek-V3 and Qwen3 235B.
TEST(OnceCountsTest, OtherNodesOfModels) {
  EXPECT_NEAR(7 * getEven({256, 8, 8, 4}, 32, 32), 3.1754, 5e-5);
  EXPECT_NEAR(7 * getEven({128, 8}, 16, 16), 4.6719, 5e-5);
}

/// Uneven loads: one expert that all tokens choose, experts without tokens, and the remainder for the others.
TEST(OnceCountsTest, UnevenChances) {
  TokenDraw draw{4, 2};
  EXPECT_DOUBLE_EQ(draw.getChanceOfSome(0, {0.25, 1.0}), 1);
  EXPECT_DOUBLE_EQ(draw.getChanceOfSome(0, {0.0, 0.25}), 0.25);
  EXPECT_DOUBLE_EQ(draw.getChanceOfSome(2, {0.0, 0.0}), 0);
  // 0.5, and in the other half 0.5 * 2 / 1.5.
  EXPECT_DOUBLE_EQ(draw.getChanceOfSome(0, {0.5, 0.5}), 0.5 + 0.5 * 2 / 3);
  // A group is drawn half of the time, and then has one of the two choices.
  EXPECT_DOUBLE_EQ((TokenDraw{4, 2, 2, 1}.getChanceOfSome(0, {0.5, 0.5})), 0.5);
}

/// Tokens choose the experts with the highest scores, which are random apart from the popularity of experts. Rows to
/// all holders together are within 1% of the number that the experts' loads predict.
TEST(OnceCountsTest, ExpectedOfSkewedLoads) {
  constexpr int64_t tokens = 10000;
  struct Case {
    int64_t experts, topK, holders;
    double skew;
  };
  for (const Case &it : {Case{256, 8, 8, 0.3}, {256, 8, 8, 1}, {128, 8, 16, 0.5}, {128, 8, 8, 2}, {32, 2, 8, 2}}) {
    std::mt19937 random(7);
    auto getUniform = [&] { return (static_cast<double>(random()) + 0.5) * 0x1p-32; };
    auto getGumbel = [&] { return -std::log(-std::log(getUniform())); };
    // Popularities are uniform in [-1, 1], with the skew as their deviation.
    std::vector<double> popular(it.experts), chances(it.experts), scores(it.experts);
    for (double &score : popular)
      score = it.skew * std::sqrt(3) * (2 * getUniform() - 1);
    int64_t perHolder = it.experts / it.holders, rows = 0;
    std::vector<int64_t> order(it.experts);
    for (int64_t token = 0; token < tokens; ++token) {
      for (auto [score, mean] : llvm::zip_equal(scores, popular))
        score = mean + getGumbel();
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + it.topK, order.end(),
                        [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
      std::set<int64_t> holders;
      for (int64_t expert : llvm::ArrayRef(order).take_front(it.topK)) {
        chances[expert] += 1.0 / tokens;
        holders.insert(expert / perHolder);
      }
      rows += static_cast<int64_t>(holders.size());
    }
    double expected = 0;
    for (int64_t first = 0; first < it.experts; first += perHolder)
      expected +=
          TokenDraw{it.experts, it.topK}.getChanceOfSome(first, llvm::ArrayRef(chances).slice(first, perHolder));
    EXPECT_NEAR(expected * tokens / static_cast<double>(rows), 1, 0.01) << it.experts << ", skew " << it.skew;
  }
}

//===----------------------------------------------------------------------===//
// What is counted
//===----------------------------------------------------------------------===//

constexpr int64_t kTokens = 6, kExperts = 8, kTopK = 2;

/// A layer whose rows go once to each node, on 2 nodes of 2 ranks with 2 experts each. The choices have a byte.
struct Once {
  enum Launch : uint32_t { Route, MergeNodes, CountNodes, ToNodes, MergeRanks, CountRanks, ToRanks, Divide, Experts };

  Once() : maker(4) {
    uint32_t s = maker.stream("compute");
    int32_t self = maker.group("self", 1, 1), nodes = maker.group("nodes", 2, 2), node = maker.group("node", 2, 1),
            ep = maker.group("ep", 4, 1);
    int32_t routed = maker.counts(1, kExperts), chosen = maker.counts(kTokens, kTopK);
    SimLaunch &route = maker.compute(s, 1);
    route.label = "layer0";
    route.counts = {{0, counts::Route{kTokens, kTopK}}};
    route.outputs = {routed, chosen};
    maker.program.routedLayers = {"layer0"};
    int32_t arrived = send(s, nodes, 2 * kTokens, merge(s, self, chosen, 2));
    arrived = send(s, node, 4 * kTokens, merge(s, nodes, arrived, 2));
    int32_t experts = merge(s, ep, arrived, 2).first;
    Dropless::ragged(maker.compute(s, 1), 8 * kTokens, experts);
  }

  /// Counts of holders, and the choices that go to them.
  std::pair<int32_t, int32_t> merge(uint32_t stream, int32_t group, int32_t chosen, int64_t holders) {
    SimLaunch &launch = maker.compute(stream, 1);
    launch.label = "layer0";
    launch.partGroup = group;
    launch.inputs = {chosen};
    counts::MergedRows rows;
    rows.experts = kExperts;
    rows.topK = kTopK;
    launch.counts = {{0, rows}, {1, counts::SentChoices{0, -1}}};
    int32_t counts = maker.counts(1, holders), sent = maker.counts(8 * kTokens, kTopK);
    maker.program.launches.back().outputs = {counts, sent};
    return {counts, sent};
  }

  int32_t send(uint32_t stream, int32_t group, int64_t rows, std::pair<int32_t, int32_t> merged) {
    auto [counts, sent] = merged;
    Dropless::move(maker.exchange(stream, group, Collective::AllToAll, 1), counts::Exchange{0, 1, 0, 1}, counts,
                   maker.counts(2, 1));
    int32_t arrived = maker.counts(8 * kTokens, kTopK);
    SimLaunch &launch = maker.exchange(stream, group, Collective::AllToAll, rows);
    Dropless::move(launch, counts::ArrivedChoices{0}, sent, arrived);
    launch.inputs.push_back(counts);
    launch.cost.raggedRows = rows;
    launch.cost.countsInput = 1;
    launch.cost.peerDim = 1;
    return arrived;
  }

  Maker maker;
};

using Tokens = std::vector<std::set<int64_t>>;

/// Random choices of each rank that favour low experts, and their trace.
std::vector<Tokens> drawTokens(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Tokens> ranks(4, Tokens(kTokens));
  for (Tokens &tokens : ranks)
    for (std::set<int64_t> &token : tokens)
      while (token.size() < kTopK)
        token.insert(std::min<int64_t>(random() % kExperts, random() % kExperts));
  return ranks;
}
RoutingTrace makeTrace(const std::vector<Tokens> &ranks, bool hasChoices) {
  std::vector<int32_t> counts(ranks.size() * kExperts);
  std::vector<RoutingTrace::Choice> choices;
  for (auto [rank, tokens] : llvm::enumerate(ranks))
    for (const std::set<int64_t> &token : tokens)
      for (int64_t expert : token) {
        ++counts[rank * kExperts + expert];
        choices.push_back(static_cast<RoutingTrace::Choice>(expert));
      }
  RoutingTrace trace = mlir::moe::makeTrace(static_cast<int64_t>(ranks.size()), kExperts, std::move(counts));
  if (hasChoices)
    trace.setChoices(0, 0, std::move(choices));
  return trace;
}

bool meets(const std::set<int64_t> &token, int64_t first, int64_t end) {
  return token.lower_bound(first) != token.lower_bound(end);
}

/// With a trace that has choices, both levels and the reach are those of its tokens.
TEST(OnceCountsTest, CountedFromChoices) {
  Once layer;
  for (unsigned seed : {1, 2, 3}) {
    std::vector<Tokens> ranks = drawTokens(seed);
    RoutingTrace trace = makeTrace(ranks, /*hasChoices=*/true);
    SimResult result = get(run({layer.maker.program}, makeProfile(2, 2), withTrace(trace)));
    double meetRanks = 0, meetNodes = 0, otherNodes = 0;
    for (int64_t rank = 0; rank < 4; ++rank) {
      int64_t toNodes = 0, toRanks = 0, atExperts = 0;
      for (int64_t node = 0; node < 2; ++node)
        for (const std::set<int64_t> &token : ranks[rank]) {
          toNodes += meets(token, 4 * node, 4 * node + 4);
          otherNodes += node != rank / 2 && meets(token, 4 * node, 4 * node + 4);
        }
      // A rank forwards the tokens of the ranks in its place of each node.
      for (int64_t from = rank % 2; from < 4; from += 2)
        for (int64_t to = rank / 2 * 2; to < rank / 2 * 2 + 2; ++to)
          for (const std::set<int64_t> &token : ranks[from])
            toRanks += meets(token, 2 * to, 2 * to + 2);
      for (const Tokens &tokens : ranks)
        for (const std::set<int64_t> &token : tokens) {
          meetRanks += meets(token, 2 * rank, 2 * rank + 2);
          atExperts += token.count(2 * rank) + token.count(2 * rank + 1);
        }
      meetNodes += static_cast<double>(toNodes);
      EXPECT_EQ(getTime(result, rank, Once::ToNodes).rows, toNodes) << "rank " << rank;
      EXPECT_EQ(getTime(result, rank, Once::ToRanks).rows, toRanks) << "rank " << rank;
      EXPECT_EQ(getTime(result, rank, Once::Experts).rows, atExperts) << "rank " << rank;
    }
    ASSERT_EQ(result.reach.size(), 1u);
    const TokenReach &reach = result.reach.front();
    EXPECT_TRUE(reach.isCounted);
    EXPECT_EQ(reach.layer, "layer0");
    EXPECT_EQ(reach.numRanks, 4);
    EXPECT_EQ(reach.numNodes, 2);
    EXPECT_NEAR(reach.ranks, meetRanks / (4 * kTokens), 1e-12);
    EXPECT_NEAR(reach.nodes, meetNodes / (4 * kTokens), 1e-12);
    EXPECT_NEAR(reach.otherNodes, otherNodes / (4 * kTokens), 1e-12);
  }
}

/// Without choices, or without a trace, the counts are the expected ones.
TEST(OnceCountsTest, ExpectedFromCounts) {
  Once layer;
  RoutingTrace trace = makeTrace(drawTokens(4), /*hasChoices=*/false);
  SimResult result = get(run({layer.maker.program}, makeProfile(2, 2), withTrace(trace)));
  llvm::ArrayRef<int32_t> counts = *trace.getCounts(0, 0);
  for (int64_t rank = 0; rank < 4; ++rank) {
    double rows[2];
    for (int64_t node = 0; node < 2; ++node) {
      llvm::SmallVector<double> chances;
      for (int32_t count : counts.slice(rank * kExperts + 4 * node, 4))
        chances.push_back(count / static_cast<double>(kTokens));
      rows[node] = kTokens * TokenDraw{kExperts, kTopK}.getChanceOfSome(4 * node, chances);
    }
    EXPECT_EQ(getTime(result, rank, Once::ToNodes).rows, std::lround(rows[0]) + std::lround(rows[1]));
  }
  ASSERT_EQ(result.reach.size(), 1u);
  EXPECT_FALSE(result.reach.front().isCounted);

  result = get(run({layer.maker.program}, makeProfile(2, 2), allRanks()));
  ASSERT_EQ(result.reach.size(), 1u);
  EXPECT_FALSE(result.reach.front().isCounted);
  EXPECT_DOUBLE_EQ(result.reach.front().ranks, 4 * getEven({kExperts, kTopK}, 0, 2));
  EXPECT_DOUBLE_EQ(result.reach.front().nodes, 2 * getEven({kExperts, kTopK}, 0, 4));
  EXPECT_DOUBLE_EQ(result.reach.front().otherNodes, getEven({kExperts, kTopK}, 0, 4));
}

/// The trace has another number of choices than the launch.
TEST(OnceCountsTest, OtherChoices) {
  Once layer;
  RoutingTrace trace = makeTrace(drawTokens(5), /*hasChoices=*/true);
  trace.setChoices(0, 0, std::vector<RoutingTrace::Choice>(4));
  expectContains(getError(run({layer.maker.program}, makeProfile(2, 2), withTrace(trace))),
                 "routing trace: expected 12 choices of rank 0 but got 1");
}

/// A dropless layer whose rows go once for each choice has a reach, too: 2 experts are on the ranks of a pair.
TEST(OnceCountsTest, ReachOfOtherSchedules) {
  Dropless layer;
  for (SimLaunch &launch : layer.maker.program.launches)
    launch.label = "layer0";
  RoutingTrace trace = mlir::moe::makeTrace(4, 2, {4, 0, 3, 1, 2, 2, 0, 4});
  trace.setChoices(0, 0, {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1});
  SimResult result = get(run({layer.maker.program}, makeProfile(2, 2), withTrace(trace)));
  ASSERT_EQ(result.reach.size(), 1u);
  const TokenReach &reach = result.reach.front();
  EXPECT_EQ(reach.numRanks, 2);
  EXPECT_EQ(reach.numNodes, 2);
  EXPECT_DOUBLE_EQ(reach.ranks, 1);
  EXPECT_DOUBLE_EQ(reach.nodes, 1);
  // Expert 0 is at home on node 0: the choices of ranks 0 and 1 for expert 1, and of ranks 2 and 3 for expert 0.
  EXPECT_DOUBLE_EQ(reach.otherNodes, 3 / 16.0);
}

//===----------------------------------------------------------------------===//
// What the compiler expects
//===----------------------------------------------------------------------===//

/// 256 tokens choose 4 of 16 experts, on 4 nodes of 2 ranks. Rows go once to nodes and to ranks, and then to experts,
/// or once for each choice.
constexpr llvm::StringLiteral kProgram = R"(
func.func @rank(%logits: tensor<256x16xf32>, %x: tensor<1024x8xf32>, %y: tensor<2048x8xf32>, %w: tensor<2x8x8xf32>) {
  %scores, %experts, %slots, %weights, %counts, %aux = moe.route %logits : (tensor<256x16xf32>) -> (tensor<256x16xf32>, tensor<256x4xi32>, tensor<256x4xi32>, tensor<256x4xf32>, tensor<1x16xi32>, tensor<f32>)
  %slots1, %counts1, %sent1 = moe.merge_choices %experts dropped(%slots) over <"self", 1, 1> {experts = 16 : i64} : (tensor<256x4xi32>, tensor<256x4xi32>) -> (tensor<256x4xi32>, tensor<1x4xi32>, tensor<1024x4xi32>)
  %used1 = moe.all_to_all %counts1 over <"nodes", 4, 2> {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<1x4xi32>) -> tensor<4x1xi32>
  %rows1 = moe.all_to_all_v %x, %counts1, %used1 over <"nodes", 4, 2> {direction = #moe<direction to_experts>} : (tensor<1024x8xf32>, tensor<1x4xi32>, tensor<4x1xi32>) -> tensor<1024x8xf32>
  %choices1 = moe.all_to_all_v %sent1, %counts1, %used1 over <"nodes", 4, 2> {direction = #moe<direction to_experts>} : (tensor<1024x4xi32>, tensor<1x4xi32>, tensor<4x1xi32>) -> tensor<1024x4xi32>
  %slots2, %counts2, %sent2 = moe.merge_choices %choices1 used(%used1) over <"nodes", 4, 2> {experts = 16 : i64} : (tensor<1024x4xi32>, tensor<4x1xi32>) -> (tensor<1024x4xi32>, tensor<1x2xi32>, tensor<2048x4xi32>)
  %used2 = moe.all_to_all %counts2 over <"node", 2, 1> {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<1x2xi32>) -> tensor<2x1xi32>
  %rows2 = moe.all_to_all_v %y, %counts2, %used2 over <"node", 2, 1> {direction = #moe<direction to_experts>} : (tensor<2048x8xf32>, tensor<1x2xi32>, tensor<2x1xi32>) -> tensor<2048x8xf32>
  %choices2 = moe.all_to_all_v %sent2, %counts2, %used2 over <"node", 2, 1> {direction = #moe<direction to_experts>} : (tensor<2048x4xi32>, tensor<1x2xi32>, tensor<2x1xi32>) -> tensor<2048x4xi32>
  %slots3, %counts3, %sent3 = moe.merge_choices %choices2 used(%used2) over <"ep", 8, 1> {experts = 16 : i64} : (tensor<2048x4xi32>, tensor<2x1xi32>) -> (tensor<2048x4xi32>, tensor<1x2xi32>, tensor<2048x4xi32>)
  %product = moe.grouped_matmul %y, %w counts(%counts3) : (tensor<2048x8xf32>, tensor<2x8x8xf32>, tensor<1x2xi32>) -> tensor<2048x8xf32>
  %back = moe.all_to_all_v %y, %counts2, %used2 over <"node", 2, 1> {direction = #moe<direction from_experts>} : (tensor<2048x8xf32>, tensor<1x2xi32>, tensor<2x1xi32>) -> tensor<2048x8xf32>
  %each = moe.all_to_all %counts over <"ep", 8, 1> {concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<1x16xi32>) -> tensor<8x2xi32>
  %plain = moe.grouped_matmul %y, %w counts(%each) : (tensor<2048x8xf32>, tensor<2x8x8xf32>, tensor<8x2xi32>) -> tensor<2048x8xf32>
  return
})";

TEST(OnceCountsTest, ExpectedByTheCompiler) {
  MLIRContext context;
  context.loadDialect<MoeDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kProgram, &context);
  ASSERT_TRUE(module);
  std::vector<double> uses;
  EvenRows rows;
  for (Operation &op : module->lookupSymbol<func::FuncOp>("rank").front()) {
    rows.visit(&op);
    auto priced = dyn_cast<MoeCostOpInterface>(op);
    if (priced && priced.getOpCost().raggedRows > 0)
      uses.push_back(rows.getUse(&op, priced.getOpCost()));
  }
  // Shares of 4 nodes' 1024 rows, and of 2 ranks' 2048 rows.
  double nodes = 4 * 256 * getEven({16, 4}, 0, 4) / 1024, ranks = 2 * 4 * 256 * getEven({16, 4}, 0, 2) / 2048;
  std::vector<double> expected = {nodes, nodes, ranks, ranks, 0.5, ranks, 0.5};
  ASSERT_EQ(uses.size(), expected.size());
  for (auto [use, want] : llvm::zip_equal(uses, expected))
    EXPECT_NEAR(use, want, 1e-12);
}

} // namespace
