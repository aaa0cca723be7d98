// The messages of perftest: versions, sizes, the path MTU, keys that also serve as barriers, and
// results.

package exchange

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
)

// Every step of perftest is one message in each direction, the client's first. These are the
// messages of version 5.70 and later, up to the version in Debian 12:
//
//	size  message
//	  16  version, text, zero-padded
//	   4  bytes of the buffer that small messages cycle through, a page; big-endian
//	   4  bytes of a cache line; big-endian
//	   2  path MTU, the digit of its code (1: 256, … 5: 4096) and NUL
//	 108  key of the queue pair; later repeated as a barrier
//	   8  five times: the results, see Figures
//	   5  Done, at the end
const (
	VersionLen = 16
	SizeLen    = 4
	MTULen     = 2
	KeyLen     = 108
	FigureLen  = 8
	FiguresLen = 5 * FigureLen

	// Version is the version that our client sends. A server repeats its client's.
	Version = "6.06"
)

// AppendVersion appends a version, truncated to its field.
func AppendVersion(b []byte, v string) []byte {
	var field [VersionLen]byte
	copy(field[:VersionLen-1], v)
	return append(b, field[:]...)
}

// The versions with these messages. Later versions negotiate more before the keys.
const (
	oldestVersion = 5.70
	newestVersion = 6.20
)

// ParseVersion parses a version. It returns an error if that version has other messages.
func ParseVersion(b []byte) (string, error) {
	if len(b) != VersionLen {
		return "", errLength
	}
	text, _, _ := bytes.Cut(b, []byte{0})
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || strings.Trim(string(text), "0123456789.") != "" {
		return "", fmt.Errorf("%q is no version of perftest", text)
	}
	if v < oldestVersion || v > newestVersion {
		return "", fmt.Errorf("perftest %s: only versions %.2f to %.2f are known here", text, oldestVersion, newestVersion)
	}
	return string(text), nil
}

// AppendSize appends a number of bytes.
func AppendSize(b []byte, n uint32) []byte { return binary.BigEndian.AppendUint32(b, n) }

// ParseSize reads a number of bytes.
func ParseSize(b []byte) (uint32, error) {
	if len(b) != SizeLen {
		return 0, errLength
	}
	return binary.BigEndian.Uint32(b), nil
}

// AppendMTU appends a path MTU in bytes, one of 256, 512, 1024, 2048 and 4096.
func AppendMTU(b []byte, mtu int) []byte {
	code := byte('1')
	for n := 256; n < mtu; n *= 2 {
		code++
	}
	return append(b, code, 0)
}

// ParseMTU parses a path MTU, in bytes.
func ParseMTU(b []byte) (int, error) {
	switch {
	case len(b) != MTULen:
		return 0, errLength
	case b[0] < '1' || b[0] > '5' || b[1] != 0:
		return 0, fmt.Errorf("%q is no code of a path MTU", b)
	}
	return 256 << (b[0] - '1'), nil
}

// A Key describes a queue pair and its memory:
//
//	off  size  field
//	  0     4  LID, hexadecimal like all fields; 0 with RoCE
//	  4     1  ':', after each field
//	  5     4  number of RDMA Reads answered concurrently
//	 10     6  QPN
//	 17     6  PSN of the first packet
//	 24     8  R_Key
//	 33    16  address of the memory
//	 50    47  GID, 16 numbers of two digits with ':' between them
//	 98     8  number of a shared receive queue, 0
//	107     1  NUL
type Key struct {
	LID   uint16
	Reads uint16
	QPN   uint32 // 24 bits
	PSN   uint32 // 24 bits
	RKey  uint32
	Addr  uint64
	GID   netip.Addr
	SRQN  uint32
}

// AppendKey appends a key.
func AppendKey(b []byte, k Key) []byte {
	b = fmt.Appendf(b, "%04x:%04x:%06x:%06x:%08x:%016x:", k.LID, k.Reads, k.QPN, k.PSN, k.RKey, k.Addr)
	for _, v := range k.GID.As16() {
		b = fmt.Appendf(b, "%02x:", v)
	}
	return fmt.Appendf(b, "%08x:\x00", k.SRQN)
}

// ParseKey parses a key of KeyLen bytes. It ignores the bytes after the last ':'.
func ParseKey(b []byte) (k Key, err error) {
	if len(b) != KeyLen {
		return k, errLength
	}
	f := fields{b: b}
	k.LID = uint16(f.number(4, ':'))
	k.Reads = uint16(f.number(4, ':'))
	k.QPN = uint32(f.number(6, ':'))
	k.PSN = uint32(f.number(6, ':'))
	k.RKey = uint32(f.number(8, ':'))
	k.Addr = f.number(16, ':')
	var raw [GIDLen]byte
	for i := range raw {
		raw[i] = byte(f.number(2, ':'))
	}
	k.SRQN = uint32(f.number(8, ':'))
	if f.bad {
		return Key{}, errFormat
	}
	if k.GID, err = host(raw); err != nil {
		return Key{}, err
	}
	if !validQPN(k.QPN) {
		return Key{}, errQPN
	}
	return k, nil
}

// With the connection manager (-R), each message is one Send over a separate connection. The
// messages are the same as over TCP except that Done is not sent and the key is binary, all of it
// big-endian:
//
//	off  size  field
//	  0     4  LID
//	  4     4  number of RDMA Reads answered concurrently
//	  8     4  QPN
//	 12     4  PSN
//	 16     4  R_Key
//	 20     4  any; padding for alignment
//	 24     8  address of the memory
//	 32    16  GID
//	 48     4  number of a shared receive queue
//	 52     4  index of the GID at the sender, -1
const BinaryKeyLen = 56

// AppendBinaryKey appends a key in its binary form.
func AppendBinaryKey(b []byte, k Key) []byte {
	for _, v := range []uint32{uint32(k.LID), uint32(k.Reads), k.QPN, k.PSN, k.RKey, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = binary.BigEndian.AppendUint64(b, k.Addr)
	var gid [GIDLen]byte
	if k.GID.IsValid() {
		gid = k.GID.As16()
	}
	b = binary.BigEndian.AppendUint32(append(b, gid[:]...), k.SRQN)
	return binary.BigEndian.AppendUint32(b, math.MaxUint32)
}

// ParseBinaryKey parses a key of BinaryKeyLen bytes. Other messages connect the queue pair, and the
// first keys name none, so only R_Key, address and Reads are significant. The GID, which Linux's
// programs leave uninitialized, is not read.
func ParseBinaryKey(b []byte) (Key, error) {
	if len(b) != BinaryKeyLen {
		return Key{}, errLength
	}
	at := func(i int) uint32 { return binary.BigEndian.Uint32(b[i:]) }
	return Key{LID: uint16(at(0)), Reads: uint16(min(at(4), math.MaxUint16)), QPN: at(8) & (1<<24 - 1), PSN: at(12) & (1<<24 - 1), RKey: at(16),
		Addr: binary.BigEndian.Uint64(b[24:]), SRQN: at(48)}, nil
}

// Figures are one side's results: five big-endian numbers of eight bytes, two integers and three of
// IEEE 754, each a separate message.
type Figures struct {
	Size, Iterations uint64
	Peak, Average    float64 // MiB/s
	Rate             float64 // millions of messages per second
}

// AppendFigures appends the five numbers.
func AppendFigures(b []byte, f Figures) []byte {
	for _, n := range []uint64{f.Size, f.Iterations, math.Float64bits(f.Peak), math.Float64bits(f.Average), math.Float64bits(f.Rate)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// ParseFigures parses the five numbers, FiguresLen bytes.
func ParseFigures(b []byte) (Figures, error) {
	if len(b) != FiguresLen {
		return Figures{}, errLength
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	real := func(i int) float64 { return math.Float64frombits(at(i)) }
	return Figures{Size: at(0), Iterations: at(1), Peak: real(2), Average: real(3), Rate: real(4)}, nil
}
