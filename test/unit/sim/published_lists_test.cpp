// The published flow lists: other simulators were measured with them, so ours must be the same to
// the byte. The digests are those of the files that came with the figures.
#include <gtest/gtest.h>

#include "sha256_hex.h"
#include "sim/workload.h"

namespace metaroce::sim {
namespace {

constexpr Bytes kKiB = 1 << 10, kMiB = 1 << 20;

WorkloadContext ls64() { return {64, 8, 400000, 1}; }
WorkloadContext ft128() { return {128, 16, 400000, 1}; }

WorkloadSpec spec_of(WorkloadKind kind, Bytes bytes) {
  WorkloadSpec s;
  s.kind = kind;
  s.bytes = bytes;
  return s;
}
WorkloadSpec permutation_of(Bytes bytes, std::uint64_t seed) {
  WorkloadSpec s = spec_of(WorkloadKind::kPermutation, bytes);
  s.seed = seed;
  return s;
}
WorkloadSpec incast_of(std::uint32_t senders) {
  WorkloadSpec s = spec_of(WorkloadKind::kIncast, kMiB);
  s.senders = senders;
  return s;
}
WorkloadSpec all_to_all_of(Bytes bytes, std::uint32_t window) {
  WorkloadSpec s = spec_of(WorkloadKind::kAllToAll, bytes);
  s.window = window;
  return s;
}
WorkloadSpec ring_of(Bytes chunk, bool shuffled) {
  WorkloadSpec s = spec_of(WorkloadKind::kAllReduce, chunk);
  s.shuffled = shuffled;
  s.forward_at = DependencyAt::kSender;
  return s;
}
WorkloadSpec victim_of() { return spec_of(WorkloadKind::kVictim, 2 * kMiB); }

struct Published {
  const char* file;
  WorkloadSpec spec;
  WorkloadContext context;
  const char* sha256;
};

const std::vector<Published>& published() {
  // clang-format off
  static const std::vector<Published> lists = {
    {"ls64_perm2m_s1", permutation_of(2 * kMiB, 1), ls64(), "c5b306724be1ae21023e8a66d3eca9a5c7c449bae2fd327b17d97859bee450e4"},
    {"ls64_perm8m_s1", permutation_of(8 * kMiB, 1), ls64(), "1c1ea01df0bb0a8efa1e98f04c7f56e4bcd8ea4f71bb46b2b7e08c1821f6c3a2"},
    {"ft128_perm2m_s1", permutation_of(2 * kMiB, 1), ft128(), "7a1760d362f434f9c2be0261039e864fab5a49d4a41ca4a678c7af19b239c81f"},
    {"ft128_perm8m_s1", permutation_of(8 * kMiB, 1), ft128(), "6181d4f375747d0c56a2ee9c0241465b57e2efefdb2791610dcdf59213f88d04"},
    {"ls64_perm2m_s2", permutation_of(2 * kMiB, 2), ls64(), "05a9b938a67ebb010b014774f1a094be58332a9066d080c445cec8049fd569ce"},
    {"ls64_perm8m_s2", permutation_of(8 * kMiB, 2), ls64(), "bd329d189726529430791058338833492c4904e229c38387b122878ae27450f7"},
    {"ft128_perm2m_s2", permutation_of(2 * kMiB, 2), ft128(), "6074e3ca08fa498b2b00edd149f24b26a263f1aa578f6d550cac32bad73618da"},
    {"ft128_perm8m_s2", permutation_of(8 * kMiB, 2), ft128(), "c3acdabe5908912f2fd841b348ffa39412855259e9c440bbfc9d513d04fd2e02"},
    {"ls64_perm2m_s3", permutation_of(2 * kMiB, 3), ls64(), "3437c257787783d3acfd6772d696cb271c691f74fa4eebd8f2ed7691d01823a7"},
    {"ls64_perm8m_s3", permutation_of(8 * kMiB, 3), ls64(), "8ade56024889fa4c00a1bd81912d2b7f9771e05bb81a8a9794f4a8bb1cd19c43"},
    {"ft128_perm2m_s3", permutation_of(2 * kMiB, 3), ft128(), "984f5f77b39f942baee1a1c01032f4dda0fc569911b975d9f30272940225fc84"},
    {"ft128_perm8m_s3", permutation_of(8 * kMiB, 3), ft128(), "7de114803e84d6e8179e90a8acf4d21c3c43cccbba57f65482135b0cfbbf1048"},
    {"ls64_perm2m_s4", permutation_of(2 * kMiB, 4), ls64(), "3c9e1c1fc10c7b26e7b25ebf7eff685b25863e1e4c6de693dcb82e37713366ce"},
    {"ls64_perm8m_s4", permutation_of(8 * kMiB, 4), ls64(), "1f018834e532599e7771c609bbce7ec7d5f2e0c2a52e7c19cfb6c0162fdf2506"},
    {"ft128_perm2m_s4", permutation_of(2 * kMiB, 4), ft128(), "c622affb98396fa4b9e604fb57024141d6f85cbd46c286d177bfde87bf2ad5f3"},
    {"ft128_perm8m_s4", permutation_of(8 * kMiB, 4), ft128(), "b8fa68b5c2b2f6f78bedbd060a7b17443c269b8fbd018b13a4cba2f283cfdadf"},
    {"ls64_perm2m_s5", permutation_of(2 * kMiB, 5), ls64(), "6820bf3bb2b10d099ee2b3da8f25da6849b85ad24272653359c3b05b4f39f169"},
    {"ls64_perm8m_s5", permutation_of(8 * kMiB, 5), ls64(), "e08ebb17aa7cb724fb92eb0198045119477c860f3900ffb560e17671b2ea1b1f"},
    {"ft128_perm2m_s5", permutation_of(2 * kMiB, 5), ft128(), "bf9db81b456a6f234cf228b112e8aa341d47aec58da12df6b4667bc9c0d9dbde"},
    {"ft128_perm8m_s5", permutation_of(8 * kMiB, 5), ft128(), "72c719393162137a9cd5a675a7fda36fe5fbbd821a30e01765d13a7c346eade1"},
    {"ls64_incast8", incast_of(8), ls64(), "de68e1acdbd1d76795d8869569d5d43a55b690248b73a94e1ea51f9ad98b1f28"},
    {"ls64_incast32", incast_of(32), ls64(), "905e3d2d4f84a6080f0a06dffb45a6699b405c7eb2c6381f8b1b5ee6a048320f"},
    {"ls64_incast63", incast_of(63), ls64(), "8ce8278c2b981b181e7c018d79bc65c286d9feaec37a661a64e2007fba6deb63"},
    {"ft128_incast8", incast_of(8), ft128(), "8e0c56fd263beab4f8cd286f0524f0d616d3b0c8cd91d1dc66e73c3afbac5d2b"},
    {"ft128_incast32", incast_of(32), ft128(), "257f03fee652a609cd66855c783f23ad3a90b8e7c35ca11e963d31c568175561"},
    {"ft128_incast63", incast_of(63), ft128(), "f557682a8a75ce96eddee5ea56f083cd01441792d1bfc6f8a25c1c63389bbfbb"},
    {"ft128_incast127", incast_of(127), ft128(), "b952204a9dbde8a470ffa629292443e0e7ed9f230f746e40512a299d294c2397"},
    {"ls64_a2a128k_w8", all_to_all_of(128 * kKiB, 8), ls64(), "01e1e2fde62e4efded5fcbf6a58ecb64357b4d36773669baf4d95a1cef8edefe"},
    {"ls64_a2a128k_w63", all_to_all_of(128 * kKiB, 63), ls64(), "01e1e2fde62e4efded5fcbf6a58ecb64357b4d36773669baf4d95a1cef8edefe"},
    {"ft128_a2a64k_w8", all_to_all_of(64 * kKiB, 8), ft128(), "0cac3bc1d8452b73105061a608a947def7c4cd01fda2bd02edfd9461c24e4d92"},
    {"ls64_ring1m_local", ring_of(kMiB, false), ls64(), "5b9b55f3155940d8b389c046a28759b369973aefe9a6a5042ab46d45e8dfab20"},
    {"ls64_ring1m_rand", ring_of(kMiB, true), ls64(), "94407e4a5beaf9a447033473a78f44a191ffdc39f68dd4a3a1ffba4142eebc4e"},
    {"ft128_ring512k_rand", ring_of(kMiB / 2, true), ft128(), "a4821a392b7adadc7a314a3c6f50d1070d71ba66c8b60f75f0cbd49900d98d05"},
    {"ls64_victim", victim_of(), ls64(), "2934ae9f75148d58d9166d056b1182eb28e0c925500dc75bcc793cd8afd7641f"},
  };
  // clang-format on
  return lists;
}

TEST(PublishedLists, equal_to_the_byte) {
  for (const Published& p : published()) {
    SCOPED_TRACE(p.file);
    const auto result = generate(p.spec, p.context);
    ASSERT_TRUE(std::holds_alternative<Workload>(result)) << std::get<WorkloadError>(result).what;
    const auto& w = std::get<Workload>(result);
    EXPECT_EQ(test::sha256_hex(to_csv(w)), p.sha256);
    EXPECT_EQ(w.hosts, p.context.hosts);
  }
}

TEST(PublishedLists, survive_a_round_trip_through_text) {
  for (const Published& p : published()) {
    SCOPED_TRACE(p.file);
    const auto first = generate(p.spec, p.context);
    WorkloadSpec again = spec_of(WorkloadKind::kFlows, 1);
    again.text = to_csv(std::get<Workload>(first));
    again.window = p.spec.window;
    const auto second = generate(again, p.context);
    ASSERT_TRUE(std::holds_alternative<Workload>(second)) << std::get<WorkloadError>(second).what;
    EXPECT_EQ(to_csv(std::get<Workload>(second)), again.text);
  }
}

}  // namespace
}  // namespace metaroce::sim
