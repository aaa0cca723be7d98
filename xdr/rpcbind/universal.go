// Universal addresses: rpcbind's text form for an address and port (RFC 5665 §5.2.3).

package rpcbind

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

var errUniversal = errors.New("rpcbind: no universal address")

// UniversalAddr formats an address: the host's address, then the port's two bytes in decimal, with
// dots ("192.0.2.1.8.1" is port 2049).
func UniversalAddr(a netip.AddrPort) string {
	b := a.Addr().Unmap().AppendTo(nil)
	b = strconv.AppendUint(append(b, '.'), uint64(a.Port()>>8), 10)
	b = strconv.AppendUint(append(b, '.'), uint64(a.Port()&0xff), 10)
	return string(b)
}

// ParseUniversalAddr parses UniversalAddr's format.
func ParseUniversalAddr(s string) (netip.AddrPort, error) {
	s, low, ok := cutLast(s)
	host, high, ok2 := cutLast(s)
	h, err := strconv.ParseUint(high, 10, 8)
	l, err2 := strconv.ParseUint(low, 10, 8)
	addr, err3 := netip.ParseAddr(host)
	if !ok || !ok2 || err != nil || err2 != nil || err3 != nil {
		return netip.AddrPort{}, errUniversal
	}
	return netip.AddrPortFrom(addr, uint16(h<<8|l)), nil
}

// cutLast splits s at its last dot.
func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
