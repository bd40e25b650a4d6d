// Both ends of metaroce-copy in one process over the fake library, on real files.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "common/outcome.h"
#include "fake_metaroce.h"
#include "metaroce-copy/options.h"
#include "metaroce-copy/records.h"
#include "metaroce-copy/run.h"
#include "metaroce-copy/target_tree.h"
#include "two_ends.h"

namespace metaroce::copy {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;
using app::TwoEnds;
using nlohmann::json;

class Copy : public testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    char name[] = "/tmp/metaroce-copy-test-XXXXXX";
    base_ = mkdtemp(name);
    fs::create_directories(base_ / "src");
    fs::create_directories(base_ / "dst");
  }
  void TearDown() override {
    EXPECT_EQ(fake::open_streams() + fake::open_regions() + fake::open_queues(), 0);
    fs::remove_all(base_);
    fake::reset();
  }
  void write(const fs::path& path, std::size_t size, std::uint64_t seed) const {
    Rng rng(seed);
    std::string content(size, '\0');
    for (char& c : content) c = static_cast<char>(rng.next());
    fs::create_directories((base_ / path).parent_path());
    std::ofstream(base_ / path, std::ios::binary) << content;
  }
  static std::string content(const fs::path& p) {
    std::ifstream in(p, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string src(const char* name = "") const { return (base_ / "src" / name).string(); }
  void copy(TwoEnds& ends, Args client, const std::function<void()>& meanwhile = {}) const {
    ends.run(copy_main, {"--serve", (base_ / "dst").string(), "--once", "--json"},
             std::move(client), meanwhile);
  }
  // Same names, kinds, contents, modes and times.
  void expect_same(const fs::path& a, const fs::path& b) const {
    std::vector<std::string> names_a, names_b;
    for (const auto& e : fs::recursive_directory_iterator(a))
      names_a.push_back(e.path().lexically_relative(a).string());
    for (const auto& e : fs::recursive_directory_iterator(b))
      names_b.push_back(e.path().lexically_relative(b).string());
    std::sort(names_a.begin(), names_a.end());
    std::sort(names_b.begin(), names_b.end());
    ASSERT_EQ(names_a, names_b);
    for (const std::string& n : names_a) {
      struct stat sa = {}, sb = {};
      ASSERT_EQ(lstat((a / n).c_str(), &sa), 0);
      ASSERT_EQ(lstat((b / n).c_str(), &sb), 0);
      EXPECT_EQ(sa.st_mode, sb.st_mode) << n;
      if (S_ISLNK(sa.st_mode)) {
        EXPECT_EQ(fs::read_symlink(a / n), fs::read_symlink(b / n));
        continue;
      }
      EXPECT_EQ(sa.st_mtim.tv_sec, sb.st_mtim.tv_sec) << n;
      EXPECT_EQ(sa.st_mtim.tv_nsec, sb.st_mtim.tv_nsec) << n;
      if (S_ISREG(sa.st_mode)) {
        EXPECT_TRUE(content(a / n) == content(b / n)) << n;
      }
    }
  }
  int leftovers() const {
    int n = 0;
    for (const auto& e : fs::recursive_directory_iterator(base_ / "dst"))
      n += e.path().filename().string().starts_with(".metaroce-copy");
    return n;
  }
  fs::path base_;
};

TEST_F(Copy, tree__odd_names_links_and_sizes) {
  write("src/tree/a file with spaces", 10, 1);
  write("src/tree/new\nline", 1, 2);
  write("src/tree/\xc3\xbcml\xc3\xa4ut/deep/er/x", 70000, 3);
  write("src/tree/empty", 0, 4);
  write("src/tree/exactly", 1 << 20, 5);
  write("src/tree/large", (9 << 20) + 13, 6);
  write("src/tree/\xff\xfe", 5, 7);
  fs::create_directories(base_ / "src/tree/hollow/inner");
  fs::create_symlink("../nowhere", base_ / "src/tree/link");
  fs::create_symlink("/etc/passwd", base_ / "src/tree/absolute");
  chmod((base_ / "src/tree/empty").c_str(), 0751);
  chmod((base_ / "src/tree/hollow").c_str(), 0555);
  const timespec times[2] = {{1000, 5}, {1234567, 89}};
  utimensat(AT_FDCWD, src("tree").c_str(), times, 0);
  TwoEnds ends;
  copy(ends, {src("tree"), "10.0.0.2:sub//./dir/", "--json"});
  ASSERT_EQ(ends.client.code, 0) << ends.client.err << ends.server.err;
  ASSERT_EQ(ends.server.code, 0) << ends.server.err;
  expect_same(base_ / "src", base_ / "dst/sub/dir");
  const json j = json::parse(ends.client.out);
  EXPECT_EQ(j["files"], 9);
  EXPECT_EQ(j["failed"], 0);
  chmod((base_ / "src/tree/hollow").c_str(), 0755);
  chmod((base_ / "dst/sub/dir/tree/hollow").c_str(), 0755);
}

TEST_F(Copy, small_files__share_slots) {
  for (int i = 0; i < 3000; ++i)
    write("src/d" + std::to_string(i % 7) + "/f" + std::to_string(i), 100, 1);
  TwoEnds ends;
  copy(ends, {src() + ".", "[fd00::1]:", "--json"});
  ASSERT_EQ(ends.client.code, 0) << ends.client.err;
  EXPECT_EQ(json::parse(ends.client.out)["files"], 3000);
  EXPECT_LT(fake::messages(), 100U);
  expect_same(base_ / "src", base_ / "dst");
}

TEST_F(Copy, existing__refused_up_front_unless_overwrite) {
  write("src/t/one", 100, 1);
  write("src/t/two", 100, 2);
  write("dst/t/two", 5, 3);
  TwoEnds refused;
  copy(refused, {src("t"), "10.0.0.2:", "--json"});
  EXPECT_EQ(refused.client.code, app::kExitFailure);
  EXPECT_NE(refused.client.err.find("two\": exists (--overwrite"), std::string::npos)
      << refused.client.err;
  EXPECT_FALSE(fs::exists(base_ / "dst/t/one"));
  EXPECT_EQ(fs::file_size(base_ / "dst/t/two"), 5U);
  EXPECT_EQ(json::parse(refused.client.out)["failed"], 1);
  TwoEnds replaced;
  copy(replaced, {src("t"), "10.0.0.2:", "--overwrite"});
  EXPECT_EQ(replaced.client.code, 0) << replaced.client.err;
  expect_same(base_ / "src", base_ / "dst");
}

TEST_F(Copy, flipped_byte__detected_and_not_kept) {
  write("src/t/big", 3 << 20, 1);
  write("src/t/good", 100, 2);
  fake::Faults faults;
  faults.flip_message = 1;  // the second slot: content
  faults.flip_min_length = 1 << 19;
  faults.flip_offset = 500000;
  fake::reset(faults);
  TwoEnds ends;
  copy(ends, {src("t"), "10.0.0.2:", "--json"});
  EXPECT_EQ(ends.client.code, app::kExitMismatch) << ends.client.err;
  EXPECT_EQ(ends.server.code, app::kExitMismatch);
  EXPECT_FALSE(fs::exists(base_ / "dst/t/big"));
  EXPECT_TRUE(fs::exists(base_ / "dst/t/good"));
  EXPECT_EQ(leftovers(), 0);
  EXPECT_NE(ends.client.err.find("SHA-256"), std::string::npos);
  EXPECT_EQ(json::parse(ends.client.out)["mismatched"], 1);
}

TEST_F(Copy, flipped_metadata__ends_the_session) {
  write("src/t/x", 100, 1);
  fake::Faults faults;
  faults.flip_message = 1;  // after the manifest; a control message has another length
  faults.flip_min_length = 1;
  faults.flip_offset = 20;
  faults.flip_mask = 0x80;
  for (int at = 1; at < 8; ++at) {
    faults.flip_message = at;
    fake::reset(faults);
    TwoEnds ends;
    copy(ends, {src("t"), "10.0.0.2:", "--json", "--timeout", "2"});
    EXPECT_FALSE(json::parse(ends.client.out, nullptr, false).is_discarded());
    if (ends.client.code == 0) {
      expect_same(base_ / "src", base_ / "dst");
    }
    EXPECT_EQ(leftovers(), 0);
    fs::remove_all(base_ / "dst/t");
  }
}

TEST_F(Copy, unusable_sources__named_and_counted) {
  write("src/t/fine", 10, 1);
  ASSERT_EQ(mkfifo(src("t/pipe").c_str(), 0600), 0);
  TwoEnds ends;
  copy(ends, {src("t"), "10.0.0.2:", "--json"});
  EXPECT_EQ(ends.client.code, app::kExitFailure);
  EXPECT_NE(ends.client.err.find("pipe"), std::string::npos);
  EXPECT_TRUE(fs::exists(base_ / "dst/t/fine"));
  EXPECT_EQ(json::parse(ends.client.out)["failed"], 1);
}

TEST_F(Copy, interrupted__either_side_leaves_nothing_half) {
  write("src/t/big", 64 << 20, 1);
  for (const bool at_client : {true, false}) {
    fake::reset();
    TwoEnds ends;
    copy(ends, {src("t"), "10.0.0.2:", "--json"}, [&] {
      while (fake::messages() < 10) std::this_thread::yield();
      (at_client ? ends.stop_client : ends.stop_server) = 2;
    });
    EXPECT_EQ(ends.client.code, app::kExitFailure) << ends.client.err;
    EXPECT_EQ(ends.server.code, app::kExitFailure) << ends.server.err;
    EXPECT_NE((at_client ? ends.server : ends.client).err.find("interrupted"), std::string::npos);
    EXPECT_FALSE(fs::exists(base_ / "dst/t/big"));
    EXPECT_EQ(leftovers(), 0);
  }
}

TEST_F(Copy, cut_connection__nothing_half) {
  write("src/t/big", 8 << 20, 1);
  fake::Faults faults;
  faults.cut_after = 6;
  fake::reset(faults);
  TwoEnds ends;
  copy(ends, {src("t"), "10.0.0.2:", "--json", "--timeout", "2"});
  EXPECT_EQ(ends.client.code, app::kExitPeerLost) << ends.client.err;
  EXPECT_EQ(leftovers(), 0);
  EXPECT_FALSE(fs::exists(base_ / "dst/t/big"));
}

TEST_F(Copy, links_at_the_receiver__never_followed) {
  fs::create_directories(base_ / "outside");
  fs::create_symlink(base_ / "outside", base_ / "dst/t");
  write("src/t/x", 10, 1);
  TwoEnds ends;
  copy(ends, {src("t"), "10.0.0.2:", "--overwrite"});
  EXPECT_EQ(ends.client.code, app::kExitFailure);
  EXPECT_FALSE(fs::exists(base_ / "outside/x"));
}

TEST_F(Copy, target_tree__confined_to_its_root) {
  TargetTree tree;
  ASSERT_EQ(tree.open_root((base_ / "dst").string()), "");
  fs::create_directories(base_ / "outside");
  fs::create_symlink("../outside", base_ / "dst/door");
  const Metadata meta;
  for (const char* path :
       {"../outside/x", "/tmp/x", "a/../../outside/x", "..", ".", "", "a//b", "a/", "door/x"}) {
    EXPECT_NE(tree.begin_file(path), "") << path;
    EXPECT_NE(tree.make_directory(path), "") << path;
    EXPECT_NE(tree.make_symlink(path, "t", true), "") << path;
    EXPECT_NE(tree.finish_directory(path, meta), "") << path;
  }
  EXPECT_NE(tree.begin_file(std::string("a\0b", 3)), "");
  EXPECT_NE(tree.begin_file(std::string(256, 'n')), "");
  EXPECT_TRUE(fs::is_empty(base_ / "outside"));
  // A final name that is a link is replaced, not written through.
  write("outside/kept", 4, 1);
  fs::create_symlink("../outside/kept", base_ / "dst/name");
  ASSERT_EQ(tree.begin_file("name"), "");
  EXPECT_NE(tree.commit(meta, false), "");
  ASSERT_EQ(tree.begin_file("name"), "");
  EXPECT_EQ(tree.commit(meta, true), "");
  EXPECT_EQ(fs::file_size(base_ / "outside/kept"), 4U);
  EXPECT_FALSE(fs::is_symlink(base_ / "dst/name"));
}

TEST(Records, reader__stays_inside_for_any_bytes) {
  Rng rng(5);
  std::vector<std::uint8_t> data(256);
  for (int i = 0; i < 20000; ++i) {
    const std::size_t length = rng.below(257);
    for (std::size_t k = 0; k < length; ++k)
      data[k] = static_cast<std::uint8_t>(rng.below(4) ? 0 : rng.next());
    RecordReader reader(data.data(), length);
    std::size_t seen = 0;
    while (const auto r = reader.next()) seen += record_size(r->length);
    EXPECT_LE(seen, length);
  }
}

TEST(CopyOptions, parse__refusals) {
  const struct {
    Args args;
    const char* says;
  } cases[] = {{{}, "at least one source"},
               {{"a"}, "at least one source"},
               {{"a", "10.0.0.1:", "--frob"}, "not an option"},
               {{"--", "--frob", "10.0.0.1:"}, "No such file"},
               {{"a", "b"}, "HOST:DIR"},
               {{"a", "host:d"}, "not an IPv4 or IPv6"},
               {{"a", "fd00::1"}, "brackets"},
               {{"a", "[fd00::1]"}, "HOST:DIR"},
               {{"a", "[fd00::1"}, "no ']'"},
               {{"a", "10.0.0.1:/etc"}, "absolute"},
               {{"a", "10.0.0.1:../x"}, "'..'"},
               {{"a", "10.0.0.1:d", "--once"}, "--serve"},
               {{"--serve", "d", "a"}, "no sources"},
               {{"--serve", "d", "--overwrite"}, "sender"},
               {{"a", "10.0.0.1:d", "-p", "0"}, "between"},
               {{"a", "10.0.0.1:d", "--timeout", "x"}, "seconds"},
               {{"/does/not/exist", "10.0.0.1:d"}, "No such file"},
               {{"/tmp/.", "/tmp/nope", "10.0.0.1:"}, "No such file"},
               {{"/etc/hostname", "/etc/../etc/hostname", "10.0.0.1:"}, "would both become"},
               {{"--serve", "/does/not/exist"}, "cannot open"}};
  for (const auto& c : cases) {
    Args args = c.args;
    args.insert(args.begin(), "--json");
    const app::Printed p = app::run_program(copy_main, args);
    EXPECT_EQ(p.code, app::kExitUsage) << testing::PrintToString(c.args);
    const json j = json::parse(p.out, nullptr, false);
    ASSERT_FALSE(j.is_discarded()) << p.out;
    EXPECT_NE(j["error"].get<std::string>().find(c.says), std::string::npos) << j["error"];
    EXPECT_EQ(std::count(p.err.begin(), p.err.end(), '\n'), 1) << p.err;
  }
}

TEST(CopyOptions, parse_target__table) {
  std::string peer, directory;
  EXPECT_EQ(parse_target("[fd00::1]:a:b/c", peer, directory), "");
  EXPECT_EQ(peer, "fd00::1");
  EXPECT_EQ(directory, "a:b/c");
  EXPECT_EQ(parse_target("10.0.0.2:.", peer, directory), "");
  EXPECT_EQ(directory, "");
}

}  // namespace
}  // namespace metaroce::copy
