// What both ends of a test have to agree on, and the errors of what does not fit.

// Package verbs speaks to the test programs of Linux's RDMA stack, and to itself, over RoCE: the pingpongs of libibverbs,
// tests of perftest, rping, udaddy, ucmatose and mckey, each as client and as server. It measures the verbs alone, with no RPC above them.
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

// Options are those of one test. Those of both ends have to be the same, but for Host, Local and what is not said here to count.
type Options struct {
	Host  string     // of the server; "": be the server
	Port  int        // TCP port of the exchange; of rping, of the service
	Local netip.Addr // the address of this host that is used; the zero value: the one that leads to the peer

	Service    rnic.Service // not of rping
	Size       int          // bytes of a message; 0: the program's default
	Iterations int          // 0: the program's default; of a server of rping: until the client leaves
	MTU        int          // path MTU in bytes; 0: the program's default

	// Silence is how long nothing may come before the test ends with an error: UC and UD lose messages, and nobody tells of a
	// peer that has gone. 0: a minute.
	Silence time.Duration

	// ConnectTimeout bounds a client's wait for the server to be connected to; 0: nothing does but the system.
	ConnectTimeout time.Duration

	// CM has the ends of perftest meet, and the queue pairs be connected, through the connection manager: its option -R.
	CM bool

	// Device has the queue pairs; it is one of package roce.
	Device *rnic.Device

	// Waiting, if not nil, is told where a server waits for its client.
	Waiting func(net.Addr)
}

// defaultSilence is far more than any step takes on a machine that is up.
const defaultSilence = time.Minute

// Bounds of what is asked for: a message of the verbs has 2^31 bytes at most, but memory is the machine's.
const (
	maxSize       = 1 << 28
	maxIterations = 1 << 30
)

// serviceNames are the services as the programs' options name them.
var serviceNames = map[rnic.Service]string{rnic.RC: "rc", rnic.UC: "uc", rnic.UD: "ud"}

// ServiceNames are the words that ParseService takes.
var ServiceNames = []string{"rc", "uc", "ud"}

// ParseService reads the name of a service, in letters of either case.
func ParseService(name string) (rnic.Service, error) {
	for s, n := range serviceNames {
		if strings.EqualFold(n, name) {
			return s, nil
		}
	}
	return 0, fmt.Errorf("--service %s: one of %s", name, strings.Join(ServiceNames, ", "))
}

// check is what can be known of the options before anything is connected to.
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

// server reports whether this end waits for the other.
func (o *Options) server() bool { return o.Host == "" }

func (o *Options) silence() time.Duration {
	if o.Silence <= 0 {
		return defaultSilence
	}
	return o.Silence
}

// address is that of the server's port: where to connect to, or where to listen.
func (o *Options) address() string {
	host := o.Host
	if o.server() && o.Local.IsValid() {
		host = o.Local.String()
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(o.Port))
}

// role is this end's in a report.
func (o *Options) role() string {
	if o.server() {
		return "server"
	}
	return "client"
}

// qkey is that of the datagrams of the pingpongs and of perftest (IBU-254, IBU-255 of the catalogue).
const qkey = 0x11111111

var errSilent = errors.New("nothing has come for too long: the peer has ended, has other options than this end, or a message was lost")

// fitMTU checks a path MTU against the interface's.
func fitMTU(o *Options, has int) error {
	if o.MTU > has {
		return fmt.Errorf("--mtu %d: this host's interface has room for %d", o.MTU, has)
	}
	return nil
}

// fitDatagram checks the size of a message against the path MTU.
func fitDatagram(o *Options, mtu int) error {
	if o.Service == rnic.UD && o.Size > mtu {
		return fmt.Errorf("--size %d: a datagram holds at most the path MTU, %d bytes", o.Size, mtu)
	}
	return nil
}
