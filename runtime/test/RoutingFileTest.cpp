//===- RoutingFileTest.cpp - contents of routing files --------------------===//

#include "run/Routing.h"

#include <gmock/gmock.h>

#include <fstream>

using namespace moert;
using namespace moert::run;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

std::string errorOf(const std::string &text) {
  std::string path = testing::TempDir() + "moert-routing-" + std::to_string(getpid());
  std::ofstream(path) << text;
  std::vector<RoutingLine> lines;
  Status status = readRoutingFile(path, lines);
  std::remove(path.c_str());
  return status.ok() ? "no error" : status.message.substr(path.size());
}

/// Two ranks have two tokens each, and each token has two of three experts.
RoutedLayer smallLayer() {
  RoutedLayer layer;
  layer.rank = {.op = 0, .tokens = 2, .experts = 3, .choices = 2, .first_rank = 0, .ranks = 2, .only_counts = 0};
  return layer;
}

RoutingLine smallLine() {
  RoutingLine line;
  line.number = 5;
  line.counts = {{2, 1, 1}, {0, 2, 2}};
  line.choices = {{0, 1, 2, 0}, {2, 1, 1, 2}};
  return line;
}

std::string complaint(const RoutingLine &line) { return checkLine(line, smallLayer(), "f").message; }

} // namespace

TEST(RoutingFile, Errors) {
  EXPECT_EQ(errorOf("[1]"), ":1: expected an object with 'iteration', 'layer', 'counts' and perhaps 'choices'");
  EXPECT_THAT(errorOf("\n{"), HasSubstr(":2: expected a JSON object: "));
  EXPECT_EQ(errorOf(" \n"), ":1: expected a line for each iteration and layer");
  EXPECT_EQ(errorOf("{\"layer\": 0, \"counts\": [[1]]}"),
            ":1: 'iteration': expected a whole number of at least 0 but got nothing");
  EXPECT_EQ(errorOf("{\"iteration\": 0, \"layer\": -1, \"counts\": [[1]]}"),
            ":1: 'layer': expected a whole number of at least 0 but got -1");
  std::string begin = "{\"iteration\": 0, \"layer\": 0, ";
  EXPECT_EQ(errorOf(begin + "\"counts\": []}"), ":1: 'counts': expected a list for each rank");
  EXPECT_EQ(errorOf(begin + "\"counts\": [1]}"), ":1: 'counts[0]': expected a count for each expert");
  EXPECT_EQ(errorOf(begin + "\"counts\": [[]]}"), ":1: 'counts[0]': expected a count for each expert");
  EXPECT_EQ(errorOf(begin + "\"counts\": [[1, 2.5]]}"),
            ":1: 'counts[0][1]': expected a whole number of at least 0 but got 2.5");
  EXPECT_EQ(errorOf(begin + "\"counts\": [[1, 4294967296]]}"),
            ":1: 'counts[0][1]': expected a whole number of at least 0 but got 4294967296");
  EXPECT_EQ(errorOf(begin + "\"counts\": [[1]], \"choices\": [[0], 1]}"),
            ":1: 'choices[1]': expected the experts of each token");
  EXPECT_EQ(errorOf(begin + "\"counts\": [[1]], \"step\": 1}"),
            ":1: 'step': expected only 'iteration', 'layer', 'counts' and 'choices'");
  EXPECT_EQ(errorOf(begin + "\"counts\": [[1]], \"choices\": [[0]]}\n\n"), "no error");
  // JSON does not distinguish 1.0 from 1, and a rank may have no tokens.
  EXPECT_EQ(errorOf(begin + "\"counts\": [[1.0, 2e1, -0]], \"choices\": [[]]}"), "no error");
}

TEST(RoutingFile, RoundTrip) {
  RoutingLine line = smallLine();
  std::string text = routingText(line);
  line.choices.clear();
  line.layer = 3;
  text += routingText(line);
  EXPECT_EQ(text, "{\"iteration\": 0, \"layer\": 0, \"counts\": [[2, 1, 1], [0, 2, 2]], "
                  "\"choices\": [[0, 1, 2, 0], [2, 1, 1, 2]]}\n"
                  "{\"iteration\": 0, \"layer\": 3, \"counts\": [[2, 1, 1], [0, 2, 2]]}\n");
}

TEST(RoutingFile, Lines) {
  EXPECT_EQ(complaint(smallLine()), "");
  RoutingLine line = smallLine();
  line.counts.pop_back();
  EXPECT_EQ(complaint(line), "f:5: 'counts': expected 2 ranks, as the plan has with this layer, but got 1");
  line = smallLine();
  line.counts[1] = {2, 2};
  EXPECT_EQ(complaint(line), "f:5: 'counts[1]': expected 3 counts, one for each expert, but got 2");
  line.counts[1] = {1, 3, 0};
  EXPECT_EQ(complaint(line), "f:5: 'counts[1][1]': expected at most 2, the tokens of a rank, but got 3");
  line.counts[1] = {1, 1, 1};
  EXPECT_EQ(complaint(line), "f:5: 'counts[1]': expected 4 choices, 2 of each of 2 tokens, but the counts add up to 3");
  line = smallLine();
  line.choices.pop_back();
  EXPECT_EQ(complaint(line), "f:5: 'choices': expected 2 ranks, as the plan has with this layer, but got 1");
  line = smallLine();
  line.choices[0].pop_back();
  EXPECT_EQ(complaint(line), "f:5: 'choices[0]': expected 4 experts, 2 for each of 2 tokens, but got 3");
  line.choices[0] = {0, 1, 3, 0};
  EXPECT_EQ(complaint(line), "f:5: 'choices[0][2]': expected an expert from 0 to 2 but got 3");
  line.choices[0] = {0, 1, 2, 2};
  EXPECT_EQ(complaint(line), "f:5: 'choices[0][3]': expected different experts of token 1 but got 2 twice");
  line.choices[0] = {0, 1, 2, 1};
  EXPECT_EQ(complaint(line), "f:5: 'choices[0]': expected as many choices of each expert as 'counts[0]' has");
}

// Entry i of the list is a choice of token i mod S, so that a token's choices differ even if a count is S.
TEST(RoutingFile, ChoicesFromCounts) {
  EXPECT_THAT(choicesFromCounts({2, 1, 1}, 2, 2), ElementsAre(0, 1, 0, 2));
  EXPECT_THAT(choicesFromCounts({0, 3, 3, 0}, 3, 2), ElementsAre(1, 2, 1, 2, 1, 2));
  EXPECT_THAT(choicesFromCounts({1, 3, 2}, 3, 2), ElementsAre(0, 1, 1, 2, 1, 2));
  EXPECT_TRUE(choicesFromCounts({0, 0}, 0, 2).empty());
}
