// SPDX-License-Identifier: BSD-3-Clause
// Several arrays in one file: numpy's .npz, a zip archive of .npy members.
//
//   per member: local header, name, extra, npy bytes | per member: central entry, name, extra | end record
//
// Writes stored (uncompressed) members with a fixed date, so equal tensors give equal bytes. Reads stored
// members, and deflated ones if TESSERA_HAS_ZLIB is defined. A zip says most things twice, and readers that
// believe different copies are how archives lie; so both copies must agree, the parts must tile the file
// with no gap or overlap, and each CRC must hold. Refused with a sentence: zip64, encryption, streamed sizes,
// archive comments, several disks, repeated names, names that leave the archive, members that are not .npy.
// numpy.savez marks its local headers as zip64 although it does not need to; there, and only there, it is read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#ifdef TESSERA_HAS_ZLIB
#include <zlib.h>
#endif

#include <tessera/core/checksum.hpp>
#include <tessera/core/error.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/npy.hpp>
#include <tessera/io/tensor.hpp>

namespace tessera::io {

namespace detail {

namespace zip {
inline constexpr std::uint32_t local_signature = 0x04034B50, central_signature = 0x02014B50, end_signature = 0x06054B50;
inline constexpr std::uint32_t zip64_locator_signature = 0x07064B50;
inline constexpr std::size_t local_size = 30, central_size = 46, end_size = 22, zip64_locator_size = 20;
inline constexpr std::uint16_t stored = 0, deflated = 8;
inline constexpr std::uint16_t utf8_flag = 0x0800, deflate_level_flags = 0x0006;
inline constexpr std::uint16_t zip64_extra = 1;
inline constexpr std::uint32_t full32 = 0xFFFFFFFF;  // "see zip64" in a size or an offset
inline constexpr std::uint16_t full16 = 0xFFFF;      // "see zip64" in a count
}  // namespace zip

// What the central directory says of a member whose local header is at `begin`, and where its bytes are.
struct ZipMember {
    std::string name;
    std::uint16_t flags = 0, method = 0;
    std::uint32_t crc = 0, packed = 0, size = 0, begin = 0;
    std::size_t data = 0;
};

// Text that would name a file below the directory it is unpacked in.
inline bool is_inner_path(std::string_view name) {
    if (!is_utf8(name)) return false;
    if (std::any_of(name.begin(), name.end(), [](char c) {
            return static_cast<unsigned char>(c) < ' ' || c == '\x7F' || c == '\\';
        }))
        return false;
    for (std::size_t at = 0; at <= name.size();) {
        const std::size_t slash = std::min(name.find('/', at), name.size());
        const std::string_view part = name.substr(at, slash - at);
        if (part.empty() || part == "." || part == "..") return false;
        at = slash + 1;
    }
    return true;
}

class ZipReader {
public:
    ZipReader(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

    // In the order of the central directory, with names, flags and extents checked.
    std::vector<ZipMember> members() const {
        if (bytes_.size() < zip::end_size || u32(end()) != zip::end_signature)
            throw IoError(path_, "is not an npz file, because it does not end with a zip end record");
        const std::uint16_t count = u16(end() + 10);
        const std::uint32_t size = u32(end() + 12), begin = u32(end() + 16);
        const bool locator = end() >= zip::zip64_locator_size &&
                             u32(end() - zip::zip64_locator_size) == zip::zip64_locator_signature;
        if (count == zip::full16 || size == zip::full32 || begin == zip::full32 || locator) refuse_zip64("");
        if (u16(end() + 4) != 0 || u16(end() + 6) != 0 || u16(end() + 8) != count)
            throw IoError(path_, "is part of a zip archive on several disks");
        if (u16(end() + 20) != 0 || begin > end() || size != end() - begin)
            throw IoError(path_, "has a zip directory that does not reach from where it should to the end record");

        std::vector<ZipMember> members;
        std::set<std::string> names;
        std::size_t at = begin;
        for (std::size_t i = 0; i < count; ++i) {
            members.push_back(central(at));
            if (!names.insert(members.back().name).second)
                throw IoError(path_, "has two members named " + in_quotes(members.back().name));
        }
        if (at != end()) throw IoError(path_, "has bytes behind the last entry of its zip directory");
        place_members(members, begin);
        return members;
    }

    // The packed bytes of a member that `members` returned.
    std::span<const std::byte> packed(const ZipMember& member) const {
        return bytes_.subspan(member.data, member.packed);
    }

    [[noreturn]] void fail(std::string_view member, const std::string& what) const {
        throw IoError(path_, "member " + in_quotes(member) + " " + what);
    }

private:
    std::size_t end() const { return bytes_.size() - zip::end_size; }
    std::uint16_t u16(std::size_t at) const { return load<std::uint16_t>(bytes_, at); }
    std::uint32_t u32(std::size_t at) const { return load<std::uint32_t>(bytes_, at); }
    std::string_view text(std::size_t at, std::size_t size) const {
        return {reinterpret_cast<const char*>(bytes_.data()) + at, size};
    }

    [[noreturn]] void refuse_zip64(std::string_view member) const {
        throw IoError(path_, (member.empty() ? "is" : "member " + in_quotes(member) + " is") +
                                 std::string(" zip64 (4 GiB, 65535 members or more), which is not read"));
    }

    // Reads the entry at `at`, which moves behind it.
    ZipMember central(std::size_t& at) const {
        if (end() - at < zip::central_size || u32(at) != zip::central_signature)
            throw IoError(path_, "has no zip directory entry at byte " + std::to_string(at));
        const std::size_t name_size = u16(at + 28), extra_size = u16(at + 30), comment_size = u16(at + 32);
        const std::size_t size = zip::central_size + name_size + extra_size + comment_size;
        if (size > end() - at)
            throw IoError(path_, "has a zip directory entry at byte " + std::to_string(at) + " that runs into the end");
        ZipMember member{.name = std::string(text(at + zip::central_size, name_size)),
                         .flags = u16(at + 8),
                         .method = u16(at + 10),
                         .crc = u32(at + 16),
                         .packed = u32(at + 20),
                         .size = u32(at + 24),
                         .begin = u32(at + 42)};
        if (!is_inner_path(member.name)) fail(member.name, "has a name that is empty, not UTF-8 or leaves the archive");
        if (!member.name.ends_with(".npy") || member.name.size() == 4) fail(member.name, "is not an .npy file");
        if (member.packed == zip::full32 || member.size == zip::full32 || member.begin == zip::full32)
            refuse_zip64(member.name);
        if (member.flags & ~(zip::utf8_flag | zip::deflate_level_flags))
            fail(member.name, "is encrypted, streamed or otherwise marked in a way that is not read");
        if (member.method != zip::stored && member.method != zip::deflated)
            fail(member.name, "is compressed by method " + std::to_string(member.method) + ", which is not read");
        if (member.method == zip::stored && member.packed != member.size)
            fail(member.name, "is stored, but announces two sizes");
        if (u16(at + 34) != 0) fail(member.name, "is on another disk");
        at += size;
        return member;
    }

    void place_members(std::vector<ZipMember>& members, std::size_t directory) const {
        std::vector<ZipMember*> order;
        for (auto& member : members) order.push_back(&member);
        std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
        std::size_t at = 0;
        for (auto* member : order) {
            if (member->begin != at) fail(member->name, "overlaps another or leaves a gap");
            place(*member, directory);
            at = member->data + member->packed;
        }
        if (at != directory) throw IoError(path_, "has bytes between its last member and its zip directory");
    }

    // The local header must tell the same story as the directory; only it knows how long it is.
    void place(ZipMember& member, std::size_t directory) const {
        const std::size_t at = member.begin;
        if (directory - at < zip::local_size || u32(at) != zip::local_signature)
            fail(member.name, "has no local header where the zip directory says");
        const std::size_t name_size = u16(at + 26), extra_size = u16(at + 28);
        const std::size_t header = zip::local_size + name_size + extra_size;
        if (header > directory - at || member.packed > directory - at - header)
            fail(member.name, "runs into the zip directory");
        std::uint64_t packed = u32(at + 18), size = u32(at + 22);
        if (packed == zip::full32 && size == zip::full32)
            std::tie(size, packed) = zip64_sizes(at + zip::local_size + name_size, extra_size);
        if (text(at + zip::local_size, name_size) != member.name || u16(at + 6) != member.flags ||
            u16(at + 8) != member.method || u32(at + 14) != member.crc || packed != member.packed ||
            size != member.size)
            fail(member.name, "is described differently by its local header and by the zip directory");
        member.data = at + header;
    }

    // Size and packed size of the zip64 extra field; zeros, which agree with no npy, if there is none.
    std::pair<std::uint64_t, std::uint64_t> zip64_sizes(std::size_t at, std::size_t left) const {
        while (left >= 4) {
            const std::uint16_t kind = u16(at);
            const std::size_t size = u16(at + 2);
            if (size > left - 4) break;
            if (kind == zip::zip64_extra && size >= 16)
                return {load<std::uint64_t>(bytes_, at + 4), load<std::uint64_t>(bytes_, at + 12)};
            at += 4 + size;
            left -= 4 + size;
        }
        return {0, 0};
    }

    std::span<const std::byte> bytes_;
    const std::string& path_;
};

#ifdef TESSERA_HAS_ZLIB
// Whether a raw deflate stream fills `out` exactly, and is used up by that. Both are shorter than 4 GiB.
inline bool inflate_exactly(std::span<const std::byte> packed, std::vector<std::byte>& out) {
    ::z_stream stream{};
    if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
    stream.next_in = reinterpret_cast<::Bytef*>(const_cast<std::byte*>(packed.data()));
    stream.avail_in = static_cast<::uInt>(packed.size());
    stream.next_out = reinterpret_cast<::Bytef*>(out.data());
    stream.avail_out = static_cast<::uInt>(out.size());
    const bool whole = ::inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0;
    ::inflateEnd(&stream);
    return whole;
}
#endif

inline std::vector<std::byte> inflated(const ZipReader& zip, const ZipMember& member) {
#ifdef TESSERA_HAS_ZLIB
    // Deflate packs at most 1032 to 1, so a larger claim is a lie that should not cost memory.
    if (member.size / 1032 > member.packed) zip.fail(member.name, "announces more bytes than it can hold");
    std::vector<std::byte> bytes(member.size);
    if (!inflate_exactly(zip.packed(member), bytes)) zip.fail(member.name, "is damaged, because it does not inflate");
    return bytes;
#else
    zip.fail(member.name, "is compressed, and compressed npz needs the zlib component");
#endif
}

inline void append_shared_fields(std::vector<std::byte>& out, const ZipMember& member) {
    constexpr std::uint16_t midnight = 0, first_of_1980 = 0x0021;
    append<std::uint16_t>(out, 20);  // the version of zip it takes to read this
    append<std::uint16_t>(out, member.flags);
    append<std::uint16_t>(out, member.method);
    append<std::uint16_t>(out, midnight);
    append<std::uint16_t>(out, first_of_1980);
    append<std::uint32_t>(out, member.crc);
    append<std::uint32_t>(out, member.packed);
    append<std::uint32_t>(out, member.size);
    append<std::uint16_t>(out, static_cast<std::uint16_t>(member.name.size()));
    append<std::uint16_t>(out, 0);  // extra
}

inline void append_local(std::vector<std::byte>& out, const ZipMember& member) {
    append<std::uint32_t>(out, zip::local_signature);
    append_shared_fields(out, member);
    append(out, member.name);
}

inline void append_central(std::vector<std::byte>& out, const ZipMember& member) {
    append<std::uint32_t>(out, zip::central_signature);
    append<std::uint16_t>(out, 20);  // the version of zip that wrote this
    append_shared_fields(out, member);
    append<std::uint16_t>(out, 0);  // comment
    append<std::uint16_t>(out, 0);  // disk
    append<std::uint16_t>(out, 0);  // internal attributes
    append<std::uint32_t>(out, 0);  // external attributes
    append<std::uint32_t>(out, member.begin);
    append(out, member.name);
}

inline void append_end(std::vector<std::byte>& out, std::size_t members, std::size_t directory) {
    const std::size_t size = out.size() - directory;
    append<std::uint32_t>(out, zip::end_signature);
    append<std::uint32_t>(out, 0);  // disks
    append<std::uint16_t>(out, static_cast<std::uint16_t>(members));
    append<std::uint16_t>(out, static_cast<std::uint16_t>(members));
    append<std::uint32_t>(out, static_cast<std::uint32_t>(size));
    append<std::uint32_t>(out, static_cast<std::uint32_t>(directory));
    append<std::uint16_t>(out, 0);  // comment
}

}  // namespace detail

// Tensors are named after their members, without .npy; errors cite `name`. All tensors together may take
// `cap` bytes, which is what stops a file that unpacks to a thousand times its size.
inline std::vector<NamedTensor> decode_npz(std::span<const std::byte> bytes, const std::string& name,
                                           std::size_t cap = file_cap) {
    const detail::ZipReader zip(bytes, name);
    const auto members = zip.members();
    std::size_t total = 0;
    for (const auto& member : members) total += member.size;
    if (total > cap) throw IoError(name, "unpacks to more than the " + std::to_string(cap) + " bytes allowed");

    std::vector<NamedTensor> tensors;
    for (const auto& member : members) {
        std::vector<std::byte> unpacked;
        std::span<const std::byte> npy = zip.packed(member);
        if (member.method == detail::zip::deflated) npy = unpacked = detail::inflated(zip, member);
        if (crc32(npy) != member.crc) zip.fail(member.name, "is damaged, because its CRC does not hold");
        tensors.push_back(decode_npy(npy, name + "(" + member.name + ")"));
        tensors.back().name = member.name.substr(0, member.name.size() - 4);
    }
    return tensors;
}

inline std::vector<std::byte> encode_npz(std::span<const NamedTensor> tensors) {
    namespace zip = detail::zip;
    if (tensors.size() >= zip::full16) throw IoError("npz", "cannot hold more than 65534 tensors without zip64");
    std::vector<std::byte> bytes;
    std::vector<detail::ZipMember> members;
    std::set<std::string_view> names;
    for (const auto& tensor : tensors) {
        if (tensor.name.empty() || tensor.name.size() > 65000 || !detail::is_inner_path(tensor.name + ".npy"))
            throw IoError(tensor.name, "cannot be the name of an npz member");
        if (!names.insert(tensor.name).second) throw IoError(tensor.name, "names two tensors of one npz file");
        const auto npy = encode_npy(tensor);
        if (npy.size() >= zip::full32 || bytes.size() >= zip::full32)
            throw IoError(tensor.name, "takes the npz file past 4 GiB, which would need zip64");
        const auto size = static_cast<std::uint32_t>(npy.size());
        const bool ascii = std::all_of(tensor.name.begin(), tensor.name.end(), [](char c) { return c > 0; });
        members.push_back({.name = tensor.name + ".npy",
                           .flags = ascii ? std::uint16_t{0} : zip::utf8_flag,
                           .method = zip::stored,
                           .crc = crc32(npy),
                           .packed = size,
                           .size = size,
                           .begin = static_cast<std::uint32_t>(bytes.size())});
        detail::append_local(bytes, members.back());
        detail::append(bytes, npy);
    }
    const std::size_t directory = bytes.size();
    for (const auto& member : members) detail::append_central(bytes, member);
    if (bytes.size() >= zip::full32) throw IoError("npz", "cannot be larger than 4 GiB without zip64");
    detail::append_end(bytes, members.size(), directory);
    return bytes;
}

inline std::vector<NamedTensor> read_npz(const std::string& path, std::size_t cap = file_cap) {
    return decode_npz(read_file(path, cap), path, cap);
}

inline void write_npz(const std::string& path, std::span<const NamedTensor> tensors) {
    write_file_atomically(path, encode_npz(tensors));
}

}  // namespace tessera::io
