// Package lz4 has what JuiceFS calls of the module whose path it takes, without cgo: blocks are those of the LZ4 block
// format, so either reads what the other wrote.
package lz4

import (
	"errors"

	"github.com/pierrec/lz4/v4"
)

// CompressBound is the size of dst with which CompressDefault always succeeds for n bytes.
func CompressBound(n int) int { return lz4.CompressBlockBound(n) }

var errShort = errors.New("lz4: the buffer is too short")

// CompressDefault compresses src into dst and returns the size.
func CompressDefault(src, dst []byte) (int, error) {
	var c lz4.Compressor
	n, err := c.CompressBlock(src, dst)
	if err == nil && n == 0 && len(src) > 0 {
		// What cannot be compressed is told by 0, if dst has no room for it as literals.
		err = errShort
	}
	return n, err
}

// DecompressSafe decompresses src into dst and returns the size.
func DecompressSafe(src, dst []byte) (int, error) { return lz4.UncompressBlock(src, dst) }
