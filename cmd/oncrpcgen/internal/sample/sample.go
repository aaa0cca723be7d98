// Random values for a checked type, as bytes: the tests' own encoder.

// Package sample makes random messages for a file's types. It follows the types and not the
// generated code, which the tests compare with it.
package sample

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/check"
)

// maxDepth is the depth from which pointers are nil and lists are empty.
const maxDepth = 12

// Append appends a random value's bytes.
func Append(b []byte, r *rand.Rand, t *check.Type) []byte { return value(b, r, t, 0) }

func word(b []byte, n uint32) []byte { return binary.BigEndian.AppendUint32(b, n) }

// raw appends n random bytes and their pad.
func raw(b []byte, r *rand.Rand, n int) []byte {
	for range n {
		b = append(b, byte(r.Uint32()))
	}
	return append(b, make([]byte, -n&3)...)
}

// count returns a random length up to a limit; small ones are likely.
func count(r *rand.Rand, limit uint64, depth int) int {
	if depth > maxDepth {
		return 0
	}
	return r.IntN(int(min(limit, 5)) + 1)
}

func value(b []byte, r *rand.Rand, t *check.Type, depth int) []byte {
	switch t = t.Under(); t.Kind {
	case check.Int, check.Uint, check.Float:
		return word(b, finite(r.Uint32(), t.Kind))
	case check.Hyper, check.Uhyper:
		return binary.BigEndian.AppendUint64(b, r.Uint64())
	case check.Double:
		return word(word(b, finite(r.Uint32(), check.Float)), r.Uint32())
	case check.Bool:
		return word(b, r.Uint32()&1)
	case check.Enum:
		return word(b, uint32(t.Members[r.IntN(len(t.Members))].Value))
	case check.Fixed:
		return raw(b, r, int(t.N))
	case check.Opaque:
		n := count(r, t.N, 0)
		return raw(word(b, uint32(n)), r, n)
	case check.String:
		n := count(r, t.N, 0)
		b = word(b, uint32(n))
		for range n {
			b = append(b, byte(1+r.UintN(255))) // without the byte that ends a text in C
		}
		return append(b, make([]byte, -n&3)...)
	case check.Named:
		return value(b, r, t.Elem, depth)
	case check.Array:
		for range t.N {
			b = value(b, r, t.Elem, depth+1)
		}
	case check.Slice:
		n := count(r, t.N, depth)
		b = word(b, uint32(n))
		for range n {
			b = value(b, r, t.Elem, depth+3)
		}
	case check.List:
		for range count(r, 5, depth) {
			b = value(word(b, 1), r, t.Elem, depth+3)
		}
		b = word(b, 0)
	case check.Optional:
		if count(r, 1, depth) == 0 {
			return word(b, 0)
		}
		return value(word(b, 1), r, t.Elem, depth+1)
	case check.Struct:
		for _, f := range t.Fields {
			b = value(b, r, f.Type, depth+1)
		}
	case check.Union:
		return union(b, r, t, depth)
	}
	return b
}

// finite clears a bit in the exponent: a NaN need not keep its bytes.
func finite(n uint32, k check.Kind) uint32 {
	if k == check.Float {
		n &^= 1 << 27
		n &^= 1 << 22
	}
	return n
}

// union appends a value with a random arm.
func union(b []byte, r *rand.Rand, t *check.Type, depth int) []byte {
	var known []int64
	for _, c := range t.Cases {
		known = append(known, c.Nums...)
	}
	if n, ok := other(r, t, known); ok && (len(known) == 0 || r.IntN(3) == 0) {
		return arm(word(b, uint32(n)), r, t.Default.Arm, depth)
	}
	c := t.Cases[r.IntN(len(t.Cases))]
	return arm(word(b, uint32(c.Nums[r.IntN(len(c.Nums))])), r, c.Arm, depth)
}

// other returns a value for the default arm.
func other(r *rand.Rand, t *check.Type, known []int64) (int64, bool) {
	on := t.Switch.Type.Under()
	switch {
	case t.Default == nil:
		return 0, false
	case on.Kind == check.Bool:
		n := int64(r.IntN(2))
		return n, !slices.Contains(known, n)
	}
	n := int64(r.Int32())
	return n, !slices.Contains(known, n)
}

func arm(b []byte, r *rand.Rand, f *check.Field, depth int) []byte {
	if f == nil {
		return b
	}
	return value(b, r, f.Type, depth+1)
}
