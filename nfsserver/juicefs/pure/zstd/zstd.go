// Package zstd has what JuiceFS calls of the module whose path it takes, without cgo: frames are those of RFC 8878,
// so either reads what the other wrote.
package zstd

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// CompressBound is the size of dst with which CompressLevel needs no memory of its own for n bytes, whatever they are.
func CompressBound(n int) int {
	const small = 128 << 10
	bound := n + n>>8
	if n < small {
		bound += (small - n) >> 11
	}
	return bound + 32 // for the header and the checksum, which the other module counts elsewhere
}

// encoders has one for each level; they can be used at once.
var encoders sync.Map

// CompressLevel compresses src into dst, or into new memory where dst is too short.
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

// Decompress decompresses src into dst, or into new memory where dst is too short.
func Decompress(dst, src []byte) ([]byte, error) {
	d, err := decoder()
	if err != nil {
		return nil, err
	}
	return d.DecodeAll(src, dst[:0])
}
