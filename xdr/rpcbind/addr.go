// Universal addresses: an IP address and a port as text (RFC 5665 §5.2.3).

package rpcbind

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// ErrAddr says that a text is no universal address.
var ErrAddr = errors.New("rpcbind: not a universal address")

// FormatAddr is the universal address of a: "127.0.0.1.8.1" is port 2049 of 127.0.0.1.
func FormatAddr(a netip.AddrPort) string {
	p := a.Port()
	return a.Addr().Unmap().WithZone("").String() + "." + strconv.Itoa(int(p>>8)) + "." + strconv.Itoa(int(p&0xff))
}

// ParseAddr reads a universal address.
func ParseAddr(s string) (netip.AddrPort, error) {
	rest, lo, ok1 := cutLast(s)
	host, hi, ok2 := cutLast(rest)
	ip, err := netip.ParseAddr(host)
	if !ok1 || !ok2 || err != nil {
		return netip.AddrPort{}, ErrAddr
	}
	return netip.AddrPortFrom(ip, uint16(hi)<<8|uint16(lo)), nil
}

// cutLast takes the last ".N", N an octet, off s.
func cutLast(s string) (rest string, n uint8, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return "", 0, false
	}
	v, err := strconv.ParseUint(s[i+1:], 10, 8)
	return s[:i], uint8(v), err == nil
}
