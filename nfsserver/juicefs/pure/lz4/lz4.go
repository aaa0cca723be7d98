// Package lz4 replaces, without cgo, the part used by JuiceFS of the module with its path. It reads
// and writes the LZ4 block format, so each of the two reads the other's blocks.
package lz4

import (
	"errors"

	"github.com/pierrec/lz4/v4"
)

// CompressBound returns the size of dst with which CompressDefault always succeeds for n bytes.
func CompressBound(n int) int { return lz4.CompressBlockBound(n) }

var errShort = errors.New("lz4: the buffer is too short")

// CompressDefault compresses src into dst and returns the size.
func CompressDefault(src, dst []byte) (int, error) {
	var c lz4.Compressor
	n, err := c.CompressBlock(src, dst)
	if err == nil && n == 0 && len(src) > 0 {
		// 0 means incompressible data without room in dst for its literals.
		err = errShort
	}
	return n, err
}

// DecompressSafe decompresses src into dst and returns the size.
func DecompressSafe(src, dst []byte) (int, error) { return lz4.UncompressBlock(src, dst) }
