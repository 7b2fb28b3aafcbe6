// What the checker knows of every byte a kernel may touch, kept apart from the memory itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace fusegen_emulator {

enum class AccessKind : std::uint8_t { read, write, atomic };

// One access to a word that still matters. All zero: none (no access has time 0).
struct Access {
    std::uint32_t time;         // the member's clock
    std::uint32_t code_offset;  // where in the kernel library
    std::uint16_t member;       // a thread or an agent of its cluster
    std::uint8_t bytes;         // bit i: the word's byte i
    AccessKind kind;
};

constexpr std::size_t word_bytes = 4;

// The state of one aligned 4-byte word; bit i of a mask is its byte i. One cache line.
struct Cell {
    static constexpr unsigned access_count = 5;

    std::uint8_t exposed;
    std::uint8_t initialised;
    std::uint8_t written;
    std::uint8_t next_evicted;
    Access accesses[access_count];
};
static_assert(sizeof(Cell) == 64, "a cell should fill one cache line");

class ShadowMemory {
public:
    // Makes the bytes accessible, with nothing known of them but whether they are initialised.
    void expose(const void* begin, std::size_t bytes, bool initialised);

    // Makes the bytes inaccessible.
    void withdraw(const void* begin, std::size_t bytes);

    void withdraw_all();

    // The cell of the word at `address`, or null if nothing near it is exposed.
    Cell* find(std::uintptr_t address) {
        const std::uintptr_t number = address / page_bytes;
        Recent& recent = recent_[number % recent_count];
        if (recent.page == nullptr || recent.number != number) {
            recent = {number, look_up(number)};
            if (recent.page == nullptr) {
                return nullptr;
            }
        }
        return &recent.page->cells[address % page_bytes / word_bytes];
    }

private:
    static constexpr std::size_t page_bytes = 4096;
    static constexpr std::size_t recent_count = 256;

    struct Page {
        Cell cells[page_bytes / word_bytes];
    };
    struct Recent {
        std::uintptr_t number;
        Page* page;
    };

    Page* look_up(std::uintptr_t number) const;
    template <class Update>
    void update(const void* begin, std::size_t bytes, Update update);

    std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
    Recent recent_[recent_count] = {};
};

// The bytes of the word at `word` that lie in [begin, end), as a mask.
inline std::uint8_t bytes_in_word(std::uintptr_t word, std::uintptr_t begin, std::uintptr_t end) {
    const unsigned first = begin > word ? static_cast<unsigned>(begin - word) : 0;
    const unsigned last = end < word + word_bytes ? static_cast<unsigned>(end - word) : word_bytes;
    return static_cast<std::uint8_t>((1u << last) - (1u << first));
}

}  // namespace fusegen_emulator
