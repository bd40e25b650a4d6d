// The shape of the table of keys: fields in sections, with the types of the struct's members
// erased, so that one loop reads, prints, documents and tests every key. The table itself is in
// table.cpp, where a new key is one line.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/codec.h"

namespace metaroce::config {

enum class Shape : std::uint8_t { kScalar, kScalarList, kSection, kSectionList };

struct Section;

struct Field {
  std::string key, type, accepts, text;
  Shape shape = Shape::kScalar;
  bool required = false;
  std::uint32_t kinds = 0;  // bit set of the object's kinds that have this key; 0: all
  std::string example;      // for keys without a default
  std::size_t min_items = 0, max_items = 0;
  const Section* section = nullptr;

  // How long the list may be, for messages and the reference.
  [[nodiscard]] std::string items() const {
    if (min_items == max_items)
      return fmt::format("exactly {} item{}", max_items, max_items == 1 ? "" : "s");
    return fmt::format("{} to {} items", min_items, max_items);
  }

  // Objects are those of the section that the field stands in.
  std::function<void(const Scalar&, void*)> read;              // lists: appends one
  std::function<std::vector<std::string>(const void*)> print;  // none: not set
  std::function<void(void*)> clear;                            // lists
  std::function<void*(void*)> child;                           // lists: appends one
  std::function<std::vector<const void*>(const void*)> children;

  Field&& must() && {
    required = true;
    return std::move(*this);
  }
  Field&& only(std::uint32_t set) && {
    kinds = set;
    return std::move(*this);
  }
  Field&& eg(std::string value) && {
    example = std::move(value);
    return std::move(*this);
  }
};

struct Section {
  std::string text;
  const void* defaults;                            // a default-constructed object
  std::function<std::uint32_t(const void*)> kind;  // bit of the object's kind; empty: no kinds
  std::vector<std::string> kind_names;             // by bit number
  std::vector<Field> fields;

  [[nodiscard]] std::string names_of_kinds(std::uint32_t kinds) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kind_names.size(); ++i)
      if ((kinds >> i & 1) != 0) names.push_back(kind_names[i]);
    return comma_list(names);
  }
  // Whether `object` has this key, its kind being read.
  [[nodiscard]] bool fits(const Field& field, const void* object) const {
    return field.kinds == 0 || (field.kinds & kind(object)) != 0;
  }
};

template <typename T>
Section make_section(std::string text, std::vector<Field> fields) {
  static const T defaults{};
  return {std::move(text), &defaults, {}, {}, std::move(fields)};
}

namespace detail {
template <typename V>
struct Member {
  using Stored = V;
  static std::optional<V> get(const V& v) { return v; }
};
template <typename V>
struct Member<std::optional<V>> {
  using Stored = V;
  static std::optional<V> get(const std::optional<V>& v) { return v; }
};
template <typename T>
T& as(void* object) {
  return *static_cast<T*>(object);
}
template <typename T>
const T& as(const void* object) {
  return *static_cast<const T*>(object);
}
}  // namespace detail

template <typename T, typename V, typename Codec>
Field value(std::string key, V T::*member, Codec codec, std::string text) {
  using Stored = typename detail::Member<V>::Stored;
  using CodecValue = typename Codec::Value;
  Field f;
  f.key = std::move(key);
  f.type = codec.type;
  f.accepts = codec.accepts;
  f.text = std::move(text);
  f.read = [member, codec](const Scalar& s, void* object) {
    detail::as<T>(object).*member = static_cast<Stored>(codec.read(s));
  };
  f.print = [member, codec](const void* object) -> std::vector<std::string> {
    const auto v = detail::Member<V>::get(detail::as<T>(object).*member);
    if (!v) return {};
    return {codec.print(static_cast<CodecValue>(*v))};
  };
  return f;
}

template <typename T, typename V, typename Codec>
Field values(std::string key, std::vector<V> T::*member, Codec codec, std::size_t most,
             std::string text) {
  Field f;
  f.key = std::move(key);
  f.type = "list of " + codec.type;
  f.accepts = codec.accepts;
  f.text = std::move(text);
  f.shape = Shape::kScalarList;
  f.max_items = most;
  f.read = [member, codec](const Scalar& s, void* object) {
    (detail::as<T>(object).*member).push_back(static_cast<V>(codec.read(s)));
  };
  f.print = [member, codec](const void* object) {
    std::vector<std::string> out;
    for (const V& v : detail::as<T>(object).*member) out.push_back(codec.print(v));
    return out;
  };
  f.clear = [member](void* object) { (detail::as<T>(object).*member).clear(); };
  return f;
}

template <typename T, typename S>
Field section(std::string key, S T::*member, const Section& inner) {
  Field f;
  f.key = std::move(key);
  f.type = "section";
  f.text = inner.text;
  f.shape = Shape::kSection;
  f.section = &inner;
  f.child = [member](void* object) -> void* { return &(detail::as<T>(object).*member); };
  f.children = [member](const void* object) -> std::vector<const void*> {
    return {&(detail::as<T>(object).*member)};
  };
  return f;
}

template <typename T, typename S>
Field sections(std::string key, std::vector<S> T::*member, const Section& inner, std::size_t least,
               std::size_t most) {
  Field f = section<T, std::vector<S>>(std::move(key), member, inner);
  f.type = "list of sections";
  f.shape = Shape::kSectionList;
  f.min_items = least;
  f.max_items = most;
  f.child = [member](void* object) -> void* {
    return &(detail::as<T>(object).*member).emplace_back();
  };
  f.children = [member](const void* object) {
    std::vector<const void*> out;
    for (const S& s : detail::as<T>(object).*member) out.push_back(&s);
    return out;
  };
  f.clear = [member](void* object) { (detail::as<T>(object).*member).clear(); };
  return f;
}

// Kinds as a set for Field::only(), and as what a section's keys depend on.
template <typename E>
constexpr std::uint32_t bits(std::initializer_list<E> kinds) {
  std::uint32_t set = 0;
  for (const E k : kinds) set |= 1U << static_cast<unsigned>(k);
  return set;
}
template <typename T, typename E>
void choose_by_kind(Section& s, E T::*member, const std::vector<std::pair<std::string, E>>& kinds) {
  s.kind = [member](const void* o) {
    return 1U << static_cast<unsigned>(detail::as<T>(o).*member);
  };
  for (const auto& [name, kind] : kinds) s.kind_names.push_back(name);
}

// The keys of a member that stand in the outer section, as if they were its own. Keys with values
// only.
template <typename T, typename S>
std::vector<Field> lifted(S T::*member, const Section& inner) {
  std::vector<Field> fields = inner.fields;
  for (Field& f : fields) {
    f.read = [member, read = f.read](const Scalar& s, void* object) {
      read(s, &(detail::as<T>(object).*member));
    };
    f.print = [member, print = f.print](const void* object) {
      return print(&(detail::as<T>(object).*member));
    };
    if (f.clear)
      f.clear = [member, clear = f.clear](void* object) {
        clear(&(detail::as<T>(object).*member));
      };
  }
  return fields;
}

// The table: the section of the whole file, whose object is a DaemonConfig.
const Section& root_section();
// Its `transport:` section, whose object is a TransportConfig; scenario files have the same.
const Section& transport_keys();
// A fabric's shape (fabric::FabricConfig) and one fault (FaultSpec): the same in scenarios and in
// the daemon's `fabric:` section.
const Section& fabric_keys();
const Section& fault_keys();

// The section and all below it as Markdown tables, appended; `path` is where it stands in a file.
void describe_section(const Section& section, const std::string& path, std::string& out);
// An object of the section as YAML that reads back as the same object.
std::string print_section(const Section& section, const void* object);

}  // namespace metaroce::config
