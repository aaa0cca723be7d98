// The line with which libibverbs' pingpongs exchange their queue pairs.

// Package exchange has the message formats of the test programs for Linux's RDMA stack. Those of
// the pingpongs and perftest go over TCP, those of rping over the queue pair itself. It only
// converts bytes.
package exchange

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
)

// The pingpongs: the client sends a line, the server replies with its line, and the client sends
// Done when its queue pair is ready. The line is text of fixed length, as in IBU-253 of the
// catalogue:
//
//	off  size  field
//	  0     4  LID, hexadecimal like all fields; 0 with RoCE
//	  4     1  ':', after each field but the last
//	  5     6  QPN
//	 12     6  PSN of the first packet
//	 19    32  GID, 16 bytes in network order
//	 51     1  NUL
const (
	PingpongLen = 52
	Done        = "done\x00"
	GIDLen      = 16
)

// A Pingpong is a queue pair in a pingpong line.
type Pingpong struct {
	LID uint16
	QPN uint32 // 24 bits
	PSN uint32 // 24 bits
	GID netip.Addr
}

var (
	errLength = errors.New("a message of another length")
	errFormat = errors.New("not a line of that format")
	errGID    = errors.New("the GID is no address of one host")
	errQPN    = errors.New("not the number of a queue pair")
)

// AppendPingpong appends the line.
func AppendPingpong(b []byte, p Pingpong) []byte {
	gid := p.GID.As16()
	return fmt.Appendf(b, "%04x:%06x:%06x:%x\x00", p.LID, p.QPN, p.PSN, gid[:])
}

// ParsePingpong parses a line of PingpongLen bytes.
func ParsePingpong(b []byte) (p Pingpong, err error) {
	if len(b) != PingpongLen {
		return p, errLength
	}
	f := fields{b: b}
	p.LID = uint16(f.number(4, ':'))
	p.QPN = uint32(f.number(6, ':'))
	p.PSN = uint32(f.number(6, ':'))
	gid := f.text(2*GIDLen, 0)
	var raw [GIDLen]byte
	if _, err := hex.Decode(raw[:], gid); err != nil || f.bad {
		return Pingpong{}, errFormat
	}
	if p.GID, err = host(raw); err != nil {
		return Pingpong{}, err
	}
	if !validQPN(p.QPN) {
		return Pingpong{}, errQPN
	}
	return p, nil
}

// validQPN reports whether a number is valid for a program's queue pair: 0 and 1 are for
// management, the last number is for groups.
func validQPN(n uint32) bool { return n > 1 && n < 1<<24-1 }

// host returns the address in a GID. IPv4 addresses are mapped.
func host(gid [GIDLen]byte) (netip.Addr, error) {
	a := netip.AddrFrom16(gid).Unmap()
	if a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return netip.Addr{}, errGID
	}
	return a, nil
}

// fields parses fixed-width text fields in order. After the first error all later fields fail too.
type fields struct {
	b   []byte
	bad bool
}

// text returns the next n bytes, which must be followed by the byte end; nil if not.
func (f *fields) text(n int, end byte) []byte {
	if f.bad || len(f.b) <= n || f.b[n] != end {
		f.bad = true
		return nil
	}
	t := f.b[:n]
	f.b = f.b[n+1:]
	return t
}

// number returns the next n hexadecimal digits, which must be followed by the byte end.
func (f *fields) number(n int, end byte) uint64 {
	t := f.text(n, end)
	for _, c := range t {
		if c == '+' || c == '-' || c == '_' {
			f.bad = true
		}
	}
	v, err := strconv.ParseUint(string(t), 16, 64)
	if err != nil || f.bad {
		f.bad = true
		return 0
	}
	return v
}
