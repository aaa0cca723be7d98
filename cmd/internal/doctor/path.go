// The check of large packets: a path that drops large packets passes all small calls.

package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/sys/unix"
)

// largeCall is the size of a NULL's arguments that needs several packets at every usual MTU.
// pathTime limits the wait for the reply; TCP retransmits within a fraction of pathTime.
const (
	largeCall = 8 << 10
	pathTime  = checkTime / 2 // leaves the same time to find the size that passes
)

// segments lists the TCP segment sizes, without headers, to try if large packets are lost.
var segments = []int{1400, 1200, 1000, 800, 536}

// headers returns the size of a segment's IP and TCP headers, without options.
func (cu *checkup) headers() int {
	if cu.local.Is6() {
		return 60
	}
	return 40
}

// A filler encodes as arguments that NULL ignores.
type filler struct{}

func (filler) EncodeXDR(e *xdr.Encoder) { e.Fixed(make([]byte, largeCall)) }

// checkPath makes a large call on a separate connection, because that connection breaks if packets
// are lost.
func checkPath(ctx context.Context, cu *checkup) Finding {
	tcp := cu.rdma == nil || cu.TCP && cu.tcp != nil
	if tcp && cu.tcp == nil {
		return skip("", "not tried: no connection that answers")
	}
	err := cu.callLarge(ctx, tcp, cu.Dial)
	if err == nil {
		return ok("a call of %s passes", size(largeCall))
	}
	const mtu = "make the routers between report their MTU (ICMP \"fragmentation needed\"), or lower it here: "
	if !tcp && cu.roce {
		return fail(mtu+"ip link set "+cu.netdev()+" mtu 1000", "small calls are answered, and one of %s is not: %v", size(largeCall), err)
	}
	if most := cu.largestSegment(ctx, tcp); most > 0 {
		return fail(fmt.Sprintf("%sip link set %s mtu %d", mtu, cu.netdev(), most+cu.headers()),
			"packets of %d bytes pass, and larger ones are lost: a call of %s has no answer", most+cu.headers(), size(largeCall))
	}
	return warn("see the server's log, and try again: small calls are answered", "a call of %s has no answer, in packets of any size: %v", size(largeCall), err)
}

// callLarge makes the call over a new connection. A rejected call is no error, because the server
// has received the call.
func (cu *checkup) callLarge(ctx context.Context, tcp bool, dial portprobe.Dialer) error {
	ctx, cancel := context.WithTimeout(ctx, cu.timeLimit(pathTime))
	defer cancel()
	cfg := cu.configOf("nfs", cu.TCPPort)
	cfg.ReservedPort = false // NULL needs no reserved port
	cfg.Dial = dial
	var c *transport.Client
	var err error
	switch {
	case tcp:
		c, err = transport.DialTCP(ctx, cu.portAddr(cu.TCPPort), cfg)
	case cu.roce:
		c, err = transport.DialRDMA(ctx, roce.Open(rnic.DeviceConfig{}), cu.portAddr(cu.RDMAPort), cfg)
	default:
		c, err = transport.DialRDMA(ctx, iwarp.Open(rnic.DeviceConfig{CRC: cu.CRC, Dial: dial}), cu.portAddr(cu.RDMAPort), cfg)
	}
	if err != nil {
		return err
	}
	// on a path that drops the last packets, closing takes longer than this check
	closed := make(chan error, 1)
	cu.atEnd(func() error { return <-closed })
	defer func() { go func() { closed <- c.Close() }() }()
	err = c.Call(ctx, &transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Name: "NULL"}, filler{}, nil, nil, 0)
	var gone *transport.ConnectError
	if err == nil || ctx.Err() == nil && !errors.As(err, &gone) {
		return nil
	}
	return err
}

// largestSegment tries all segment sizes concurrently and returns the largest that passes; 0 if
// none does.
func (cu *checkup) largestSegment(ctx context.Context, tcp bool) (most int) {
	pass := make([]bool, len(segments))
	var wg sync.WaitGroup
	for i, n := range segments {
		wg.Go(func() { pass[i] = cu.callLarge(ctx, tcp, cu.Segmented(n)) == nil })
	}
	wg.Wait()
	for i, n := range segments {
		if pass[i] {
			most = max(most, n)
		}
	}
	return most
}

// segmented dials TCP with segments of at most n bytes in both directions.
func segmented(n int) portprobe.Dialer {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, n) }); e != nil {
			return e
		}
		return err
	}}
	return d.DialContext
}
