// The exception by which PyTorch learns that an allocation failed: it does not check for null.

#include <new>
#include <string>

namespace {

class bad_alloc final : public std::bad_alloc {
 public:
  explicit bad_alloc(char const* text) : text_{text} {}
  char const* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

}  // namespace

extern "C" void rmm_rs_throw_bad_alloc(char const* text) { throw bad_alloc{text}; }
