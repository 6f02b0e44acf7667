//===- DigestTest.cpp - SHA-256 -------------------------------------------===//

#include "core/Digest.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace moert {
namespace {

std::string hex(std::string_view bytes) { return hexOf(sha256(bytes)); }

// Examples of FIPS 180-4 and of NIST's test vectors.
TEST(Digest, Examples) {
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Every length up to three blocks has the same digest in pieces of any size, including empty ones, as at once.
TEST(Digest, Pieces) {
  std::string text;
  for (int i = 0; i < 192; ++i) {
    for (size_t piece = 1; piece <= 67; piece += 11) {
      Sha256 hash;
      for (size_t at = 0; at < text.size(); at += piece) {
        hash.update(std::string_view(text).substr(at, piece));
        hash.update(std::string_view());
      }
      EXPECT_EQ(hexOf(hash.finish()), hex(text)) << text.size() << " in " << piece;
    }
    text += static_cast<char>(37 * i);
  }
}

TEST(Digest, Files) {
  std::string path = testing::TempDir() + "digest";
  std::ofstream(path, std::ios::binary) << std::string(1000000, 'a');
  Sha256::Digest digest;
  ASSERT_TRUE(digestOfFile(path, digest).ok());
  EXPECT_EQ(hexOf(digest), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  std::remove(path.c_str());
  EXPECT_EQ(digestOfFile(path, digest).message,
            "'" + path + "': cannot be opened for reading: No such file or directory");
  EXPECT_EQ(digestOfFile(testing::TempDir(), digest).message,
            "'" + testing::TempDir() + "': cannot be read: Is a directory");
}

} // namespace
} // namespace moert
