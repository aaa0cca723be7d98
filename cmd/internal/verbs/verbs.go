// Options that both ends must agree on, and their validation.

// Package verbs runs the tests of Linux's RDMA test programs over RoCE, against them or against
// itself: libibverbs' pingpongs, perftest's tests, rping, udaddy, ucmatose and mckey, each as
// client and as server. It measures the verbs alone, without RPC.
package verbs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// Options are one test's options. They must be the same at both ends, except Host, Local and the
// fields whose comments say so.
type Options struct {
	Host  string     // the server's host; "": run the server
	Port  int        // TCP port of the exchange; of rping, of the service
	Local netip.Addr // this host's address; the zero value: the address that leads to the peer

	Service    rnic.Service // ignored by rping
	Size       int          // bytes of a message; 0: the program's default
	Iterations int          // 0: the program's default; server of rping: until the client leaves
	MTU        int          // path MTU in bytes; 0: the program's default

	// Silence is the time without messages after which the test fails, because UC and UD lose
	// messages and do not report a dead peer. 0: a minute.
	Silence time.Duration

	// ConnectTimeout limits a client's connection attempt; 0: only the system does.
	ConnectTimeout time.Duration

	// CM makes perftest's ends meet and connect through the connection manager, as with its option
	// -R.
	CM bool

	// Device must come from package roce.
	Device *rnic.Device

	// Waiting, if not nil, is called with the address where a server waits for its client.
	Waiting func(net.Addr)
}

// defaultSilence is much longer than any step takes.
const defaultSilence = time.Minute

// The options' limits. A message may have 2^31 bytes in the verbs, but must fit this machine's
// memory.
const (
	maxSize       = 1 << 28
	maxIterations = 1 << 30
)

// serviceNames has the services' names in the programs' options.
var serviceNames = map[rnic.Service]string{rnic.RC: "rc", rnic.UC: "uc", rnic.UD: "ud"}

// ServiceNames lists the names that ParseService accepts.
var ServiceNames = []string{"rc", "uc", "ud"}

// ParseService parses a service name, ignoring case.
func ParseService(name string) (rnic.Service, error) {
	for s, n := range serviceNames {
		if strings.EqualFold(n, name) {
			return s, nil
		}
	}
	return 0, fmt.Errorf("--service %s: one of %s", name, strings.Join(ServiceNames, ", "))
}

// check validates the options before anything is connected.
func (o *Options) check() error {
	switch {
	case o.Port < 1 || o.Port > 65535:
		return fmt.Errorf("--port %d: 1 to 65535", o.Port)
	case o.Size < 1 || o.Size > maxSize:
		return fmt.Errorf("--size %d: 1 byte to %d", o.Size, maxSize)
	case o.Iterations < 0 || o.Iterations > maxIterations:
		return fmt.Errorf("--count %d: 1 to %d", o.Iterations, maxIterations)
	case o.MTU != 0 && !validMTU(o.MTU):
		return fmt.Errorf("--mtu %d: one of 256, 512, 1024, 2048, 4096", o.MTU)
	}
	return nil
}

func validMTU(n int) bool { return n == 256 || n == 512 || n == 1024 || n == 2048 || n == 4096 }

// server reports whether this end is the server.
func (o *Options) server() bool { return o.Host == "" }

func (o *Options) silence() time.Duration {
	if o.Silence <= 0 {
		return defaultSilence
	}
	return o.Silence
}

// address returns the server's address and port, to connect to or to listen on.
func (o *Options) address() string {
	host := o.Host
	if o.server() && o.Local.IsValid() {
		host = o.Local.String()
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(o.Port))
}

// role returns this end's role for a report.
func (o *Options) role() string {
	if o.server() {
		return "server"
	}
	return "client"
}

// qkey is the datagrams' Q_Key in the pingpongs and in perftest (IBU-254, IBU-255 of the
// catalogue).
const qkey = 0x11111111

var errSilent = errors.New("nothing has come for too long: the peer has ended, has other options than this end, or a message was lost")

// fitMTU checks a path MTU against the interface's.
func fitMTU(o *Options, has int) error {
	if o.MTU > has {
		return fmt.Errorf("--mtu %d: this host's interface has room for %d", o.MTU, has)
	}
	return nil
}

// fitDatagram checks a message's size against the path MTU.
func fitDatagram(o *Options, mtu int) error {
	if o.Service == rnic.UD && o.Size > mtu {
		return fmt.Errorf("--size %d: a datagram holds at most the path MTU, %d bytes", o.Size, mtu)
	}
	return nil
}
