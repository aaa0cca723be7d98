// The content that measurements write and expect: cheap to make and check, and different in each
// block.
//
// Every 4 KiB block begins with a stamp, which depends on the seed and the block's number. The rest
// depends only on the seed. A writer only stamps a prepared buffer. A reader checks the stamps
// while it is timed, and every byte when it is not.

package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

const (
	patternBlock = 4096
	stampSize    = 8
)

type pattern struct {
	seed uint64
	body [patternBlock]byte
}

func newPattern(seed uint64) *pattern {
	p := &pattern{seed: seed}
	r := rand.New(rand.NewPCG(seed, 1))
	for i := 0; i < patternBlock; i += 8 {
		binary.LittleEndian.PutUint64(p.body[i:], r.Uint64())
	}
	return p
}

// stamp mixes the seed and a block number; neighbors differ in all bytes.
func (p *pattern) stamp(block uint64) uint64 {
	x := p.seed ^ block*0x9e3779b97f4a7c15
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// fill makes b the file's content at off. off and len(b) are multiples of patternBlock.
func (p *pattern) fill(b []byte, off int64) {
	for i := 0; i < len(b); i += patternBlock {
		copy(b[i:], p.body[:])
	}
	p.restamp(b, off)
}

// restamp moves a filled buffer to another offset.
func (p *pattern) restamp(b []byte, off int64) {
	block := uint64(off / patternBlock)
	for i := 0; i < len(b); i += patternBlock {
		binary.LittleEndian.PutUint64(b[i:], p.stamp(block))
		block++
	}
}

// sample checks only the stamps.
func (p *pattern) sample(b []byte, off int64) error {
	block := uint64(off / patternBlock)
	for i := 0; i < len(b); i += patternBlock {
		if binary.LittleEndian.Uint64(b[i:]) != p.stamp(block) {
			return fmt.Errorf("wrong data at offset %d", block*patternBlock)
		}
		block++
	}
	return nil
}

// check compares every byte.
func (p *pattern) check(b []byte, off int64) error {
	if err := p.sample(b, off); err != nil {
		return err
	}
	for i := 0; i < len(b); i += patternBlock {
		if !bytes.Equal(b[i+stampSize:i+patternBlock], p.body[stampSize:]) {
			return fmt.Errorf("wrong data in the block at offset %d", off+int64(i))
		}
	}
	return nil
}
