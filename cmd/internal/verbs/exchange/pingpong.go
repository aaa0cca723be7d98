// The line by which the pingpongs of libibverbs tell each other what their queue pairs are.

// Package exchange has the formats that the test programs of Linux's RDMA stack use to make each other known: those of
// the pingpongs and of perftest go over TCP, those of rping over the queue pair itself. Bytes in, bytes out.
package exchange

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
)

// The pingpongs: the client sends a line, the server answers with its own, and the client sends Done when its queue pair is
// ready. The line is text of fixed length, as IBU-253 of the catalogue has it:
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

// A Pingpong is a queue pair as the pingpongs name it.
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

// ParsePingpong reads a line of PingpongLen bytes.
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

// validQPN reports whether a program's queue pair can have the number: 0 and 1 are for management, the last one for groups.
func validQPN(n uint32) bool { return n > 1 && n < 1<<24-1 }

// host is the address that a GID stands for: one of IPv4 is mapped there.
func host(gid [GIDLen]byte) (netip.Addr, error) {
	a := netip.AddrFrom16(gid).Unmap()
	if a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return netip.Addr{}, errGID
	}
	return a, nil
}

// fields are read one after the other from text of fixed widths. The first that is wrong makes all that follow wrong.
type fields struct {
	b   []byte
	bad bool
}

// text is the next n bytes, which a byte of value end follows; nil if that is not so.
func (f *fields) text(n int, end byte) []byte {
	if f.bad || len(f.b) <= n || f.b[n] != end {
		f.bad = true
		return nil
	}
	t := f.b[:n]
	f.b = f.b[n+1:]
	return t
}

// number is the next n digits as a hexadecimal number, which a byte of value end follows.
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
