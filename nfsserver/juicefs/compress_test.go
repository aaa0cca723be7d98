// Compression in Go that is compatible with the C libraries.

package juicefs

import (
	"bytes"
	"math/rand"
	"strings"
	"testing"

	"github.com/juicedata/juicefs/pkg/compress"
)

func TestCompression(t *testing.T) {
	random := make([]byte, 1<<20)
	rand.New(rand.NewSource(1)).Read(random)
	for _, name := range []string{"lz4", "zstd"} {
		c := compress.NewCompressor(name)
		for what, src := range map[string][]byte{
			"one byte": {7}, "text": []byte(strings.Repeat("all work and no play ", 5000)), "random": random, "4 MiB of zeros": make([]byte, 4<<20),
			"random and short": random[:13],
		} {
			packed := make([]byte, c.CompressBound(len(src)))
			n, err := c.Compress(packed, src)
			if err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
				continue
			}
			got := make([]byte, len(src))
			k, err := c.Decompress(got, packed[:n])
			if err != nil {
				t.Errorf("%s, %s: Decompress: %v", name, what, err)
			}
			if k != len(src) || !bytes.Equal(got, src) {
				t.Errorf("%s, %s: %d bytes, want the %d that were compressed", name, what, k, len(src))
			}
			if _, err := c.Decompress(got, packed[:n/2]); err == nil && n > 1 {
				t.Errorf("%s, %s: half of it was taken for the whole", name, what)
			}
		}
	}
}

// Vectors are written by hand from the formats' specifications.
func TestCompressedVectors(t *testing.T) {
	for _, v := range []struct {
		name   string
		packed []byte
		want   string
	}{
		// A token with 5 literals and no match.
		{"lz4", []byte{0x50, 'h', 'e', 'l', 'l', 'o'}, "hello"},
		// 1 literal, a match of 4+15+1 from 1 back, then 5 literals, as the format requires at the
		// end.
		{"lz4", []byte{0x1f, 'a', 1, 0, 1, 0x50, 'b', 'b', 'b', 'b', 'b'}, strings.Repeat("a", 21) + "bbbbb"},
		// RFC 8878 §3.1.1: magic, a descriptor with the size in one byte and no checksum, a last
		// raw block of 5.
		{"zstd", []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 5<<3 | 1, 0, 0, 'h', 'e', 'l', 'l', 'o'}, "hello"},
		// A last block of one byte, repeated.
		{"zstd", []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 9, 9<<3 | 1<<1 | 1, 0, 0, 'x'}, "xxxxxxxxx"},
	} {
		got := make([]byte, len(v.want))
		n, err := compress.NewCompressor(v.name).Decompress(got, v.packed)
		if err != nil || string(got[:n]) != v.want {
			t.Errorf("%s % x: %q, %v, want %q", v.name, v.packed, got[:n], err, v.want)
		}
	}
}
