// A fault as words of a command line: `down plane 2`, `loss 1%`, `rate 10Gb/s switch0->host1`,
// `jitter 50us keep_order=true`, turned into the text that the daemon reads (the same as in YAML).
//
// A word is recognised by its form: `plane N`; key=value; a percentage is a probability; a rate is
// one; a duration is a delay; on and off; anything else is the target. What a kind takes, ranges
// and names are for the daemon to judge, which has the fabric.
#pragma once

#include <string>
#include <vector>

namespace metaroce::ctl {

// The fault's text in `out`; or a sentence that says what is wrong.
std::string fault_text(const std::vector<std::string>& words, std::string& out);

}  // namespace metaroce::ctl
