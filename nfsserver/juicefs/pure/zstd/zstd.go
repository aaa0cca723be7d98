// Package zstd replaces, without cgo, the part used by JuiceFS of the module with its path. It
// reads and writes frames of RFC 8878, so each of the two reads the other's frames.
package zstd

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// CompressBound returns a size of dst with which CompressLevel never allocates for n bytes.
func CompressBound(n int) int {
	const small = 128 << 10
	bound := n + n>>8
	if n < small {
		bound += (small - n) >> 11
	}
	return bound + 32 // header and checksum, which the other module counts elsewhere
}

// encoders has an encoder for each level, safe for concurrent use.
var encoders sync.Map

// CompressLevel compresses src into dst, or into new memory if dst is too short.
func CompressLevel(dst, src []byte, level int) ([]byte, error) {
	e, ok := encoders.Load(level)
	if !ok {
		made, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)), zstd.WithEncoderCRC(false))
		if err != nil {
			return nil, err
		}
		e, _ = encoders.LoadOrStore(level, made)
	}
	return e.(*zstd.Encoder).EncodeAll(src, dst[:0]), nil
}

var decoder = sync.OnceValues(func() (*zstd.Decoder, error) { return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0)) })

// Decompress decompresses src into dst, or into new memory if dst is too short.
func Decompress(dst, src []byte) ([]byte, error) {
	d, err := decoder()
	if err != nil {
		return nil, err
	}
	return d.DecodeAll(src, dst[:0])
}
