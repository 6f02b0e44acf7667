// Tests of defaults, other names, and unused keys.
#include "moe/Support/JsonReader.h"

#include "gtest/gtest.h"

#include <limits>

using namespace mlir::moe;

namespace {

JsonReader read(llvm::StringRef text) { return llvm::cantFail(JsonReader::parse(text, "f.json")); }

llvm::json::Object object(llvm::StringRef text) {
  return std::move(*llvm::cantFail(llvm::json::parse(text)).getAsObject());
}

std::string errorOf(JsonReader &reader) { return llvm::toString(reader.takeError()); }

std::string otherKeys(const JsonReader &reader, llvm::StringRef harmless = "") {
  std::string text;
  for (const JsonReader::Key &key : reader.getOtherKeys([&](llvm::StringRef key) { return key == harmless; }))
    text += key.path + ":" + std::to_string(key.place.line) + ":" + std::to_string(key.place.column) + " ";
  return text;
}

TEST(JsonReader, TakesADefaultWhereAKeyIsMissingAndNotWhereItIsNull) {
  llvm::json::Object defaults = object(R"({"a": 3, "b": 4, "c": 5})");
  JsonReader reader = read(R"({"a": 7, "b": null})");
  reader.setDefaults(defaults);
  EXPECT_EQ(reader.getInteger("a", 0, 9), 7);
  EXPECT_EQ(reader.getInteger("b", 0, 9, 1), 1);
  EXPECT_EQ(reader.getInteger("c", 0, 9, 1), 5);
  reader.getInteger("c", 0, 2);
  EXPECT_EQ(errorOf(reader),
            "f.json:1:1: error: 'c': expected an integer from 0 to 2 but got 5, the default of a missing key");
}

TEST(JsonReader, TakesADefaultObjectInPlaceOfNull) {
  llvm::json::Object defaults = object(R"({"o": {"a": 3}})");
  JsonReader reader = read(R"({"o": null})");
  reader.setDefaults(defaults);
  EXPECT_EQ(reader.getObject("o").getInteger("a", 0, 9), 3);
}

TEST(JsonReader, TakesTheNumbersThatPythonWrites) {
  JsonReader reader =
      read("{\"a\": [0.0, Infinity], \"b\": -Infinity, \"c\": NaN, \"NaN\": \"Infinity, \\\"NaN\", \"d\": 9}");
  EXPECT_EQ(reader.find("NaN")->getAsString(), "Infinity, \"NaN");
  EXPECT_EQ(reader.find("b")->getAsNumber(), -std::numeric_limits<double>::infinity());
  reader.getInteger("d", 0, 5);
  EXPECT_EQ(errorOf(reader), "f.json:1:76: error: 'd': expected an integer from 0 to 5 but got 9");
  JsonReader other = read(R"({"c": NaN})");
  other.getNumber("c", kPositive);
  EXPECT_TRUE(other.hasFailed());
}

TEST(JsonReader, KnowsOtherNamesOfKeys) {
  llvm::json::Object defaults = object(R"({"a": 3})");
  JsonReader reader = read("{\n  \"b\": 70\n}");
  reader.setDefaults(defaults);
  reader.addAlias("b", "a");
  EXPECT_EQ(reader.getInteger("a", 0, 99), 70);
  EXPECT_EQ(otherKeys(reader), "");
  reader.getInteger("a", 0, 9);
  EXPECT_EQ(errorOf(reader), "f.json:2:3: error: 'b': expected an integer from 0 to 9 but got 70");
  JsonReader missing = read("{}");
  missing.setDefaults(defaults);
  missing.addAlias("b", "a");
  EXPECT_EQ(missing.getInteger("b", 0, 9), 3);
}

// A key may have several other names. The one in the file counts, in any order.
TEST(JsonReader, TakesAnyOtherName) {
  for (auto [first, second] : {std::pair("b", "c"), std::pair("c", "b")}) {
    JsonReader reader = read(R"({"b": 5})");
    reader.addAlias(first, "a");
    reader.addAlias(second, "a");
    EXPECT_EQ(reader.getInteger("a", 0, 9), 5);
    EXPECT_EQ(otherKeys(reader), "");
  }
  JsonReader different = read(R"({"b": 3, "c": 4})");
  different.addAlias("b", "a");
  different.addAlias("c", "a");
  EXPECT_EQ(errorOf(different),
            "f.json:1:10: error: 'c': expected 3, as 'b' has, which is another name for it, but got 4");
}

TEST(JsonReader, RefusesTwoNamesWithTwoValues) {
  JsonReader same = read(R"({"a": 3, "b": 3})"), different = read(R"({"a": 3, "b": 4})");
  same.addAlias("b", "a");
  EXPECT_EQ(otherKeys(same), "");
  EXPECT_FALSE(same.hasFailed());
  different.addAlias("b", "a");
  EXPECT_EQ(errorOf(different),
            "f.json:1:10: error: 'b': expected 3, as 'a' has, which is another name for it, but got 4");
}

// Values stay in their ranges after an error, because callers that read on may divide by them.
TEST(JsonReader, GivesValuesInTheirRangesOnlyAlsoBesideErrors) {
  JsonReader reader = read(R"({"sizes": [0, 4, "x", -7], "rates": [-1, 0.5]})");
  EXPECT_EQ(reader.getIntegers("sizes", 1, 9), (std::vector<int64_t>{1, 4, 1, 1}));
  EXPECT_EQ(reader.getNumbers("rates", kPositive), (std::vector<double>{1, 0.5}));
  EXPECT_FALSE(errorOf(reader).empty());
}

TEST(JsonReader, FindsKeysThatNobodyAskedFor) {
  JsonReader reader =
      read("{\n \"a\": 1, \"x\": 2, \"n\": null, \"e\": {}, \"l\": [],\n \"o\": {\"b\": 1, \"y\": 3, \"h\": 1},\n"
           " \"p\": {\"z\": 1},\n \"h\": 2,\n \"s\": [{\"c\": 1, \"w\": 2}]\n}");
  reader.getInteger("a", 0, 9);
  reader.getObject("o").getInteger("b", 0, 9);
  reader.find("p"); // reads the value as a whole
  for (JsonReader &inner : reader.getObjects("s"))
    inner.getInteger("c", 0, 9);
  EXPECT_EQ(otherKeys(reader, "h"), "x:2:10 o.y:3:16 s[0].w:6:17 ");
  // Another reader of the same object adds to the known keys.
  reader.getObject("o").accept({"y"});
  reader.accept({"x"});
  EXPECT_EQ(otherKeys(reader, "h"), "s[0].w:6:17 ");
  // A default value counts as a missing key.
  llvm::json::Object defaults = object(R"({"y": 3, "z": 4})");
  JsonReader usual = read(R"({"y": 3, "z": 5})");
  usual.setDefaults(defaults);
  EXPECT_EQ(otherKeys(usual), "z:1:10 ");
}

} // namespace
