//===- ReplaceTest.cpp - files that one job at a time replaces ------------===//

#include "run/checkpoint/Replace.h"
#include "CheckpointTest.h"

#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;
using testing::HasSubstr;

namespace moert::run {
namespace {

TEST(Replace, Links) {
  std::string folder = temporary(), target;
  fs::create_directory(folder + "disk");
  fs::create_symlink("disk/file", folder + "link");
  fs::create_symlink("link", folder + "again");
  // This holds even if the file does not exist yet.
  ASSERT_TRUE(targetOf(folder + "again", target).ok());
  EXPECT_EQ(target, folder + "disk/file");
  writeAll(target, "old");
  ASSERT_TRUE(targetOf(folder + "link", target).ok());
  EXPECT_EQ(target, folder + "disk/file");
  ASSERT_TRUE(targetOf(folder + "new", target).ok());
  EXPECT_EQ(target, folder + "new");
  fs::create_symlink("circle", folder + "circle");
  EXPECT_THAT(targetOf(folder + "circle", target).message,
              HasSubstr("circle': cannot be written: too many symbolic links"));
  for (const std::string &path : {folder + "disk", std::string("/dev/null")})
    EXPECT_EQ(targetOf(path, target).message,
              "'" + path + "': cannot be written: expected a file but it is a folder or a device");
}

TEST(Replace, Partial) {
  std::string path = temporary() + "file";
  auto write = [](OutputFile &file) {
    file << "new";
    return Status{};
  };
  writeAll(path, "old");
  ASSERT_TRUE(writePartial(path, write).ok());
  EXPECT_EQ(readAll(path), "old");
  ASSERT_TRUE(renamePartial(path).ok());
  EXPECT_EQ(readAll(path), "new");
  // A failure leaves the old file unchanged.
  fs::create_symlink("/dev/full", path + ".partial");
  EXPECT_EQ(writePartial(path, write).message, "'" + path + ".partial': cannot be written: No space left on device");
  EXPECT_FALSE(fs::is_symlink(path + ".partial"));
  EXPECT_EQ(readAll(path), "new");
}

TEST(Replace, Locks) {
  std::string path = temporary() + "file";
  std::ostringstream log;
  {
    FileLocks locks, others;
    EXPECT_EQ(locks.take(path, log).message, "");
    EXPECT_EQ(locks.take(path + "2", log).message, "");
    EXPECT_THAT(others.take(path, log).message, HasSubstr("file': process " + std::to_string(getpid()) + " on '"));
  }
  EXPECT_FALSE(fs::exists(path + ".lock"));
  // A killed process leaves the file, but no lock.
  if (pid_t child = fork(); child == 0) {
    FileLocks locks;
    (void)locks.take(path, log);
    kill(getpid(), SIGKILL);
  } else {
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
  }
  EXPECT_TRUE(fs::exists(path + ".lock"));
  FileLocks locks;
  EXPECT_EQ(locks.take(path, log).message, "");
  EXPECT_EQ(log.str(), "");
}

// A checkpoint that is a link stays one.
TEST(CheckpointWriter, Links) {
  std::string folder = temporary();
  std::vector<Value> arguments{parameter("v", {1}, {{"t"}})};
  writeFile(folder + "in", {floats("t", {1}, {1})});
  fs::create_directory(folder + "snapshot");
  fs::create_symlink("../blob", folder + "snapshot/model.safetensors");
  EXPECT_EQ(saveBack(arguments, {}, folder + "snapshot"), "");
  EXPECT_TRUE(fs::is_symlink(folder + "snapshot/model.safetensors"));
  EXPECT_TRUE(fs::is_regular_file(folder + "blob"));
  EXPECT_EQ(errorOf(arguments, folder + "snapshot"), "");
  std::ostringstream log;
  FileLocks locks;
  EXPECT_EQ(locks.take(folder + "blob", log).message, "");
  EXPECT_THAT(saveBack(arguments, {}, folder + "snapshot"), HasSubstr("blob': process "));
}

} // namespace
} // namespace moert::run
