// The exam: what is examined, by which means, and what the checks have learnt so far.

package doctor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/cmd/internal/rights"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// Options is what to examine, and how. Host must be set.
type Options struct {
	Host       string // name or address
	Export     string // path on the server; "": the first export that is listed
	TCP        bool   // the user wants TCP: RDMA is not needed then
	RDMAPort   int    // 0: 20049
	TCPPort    int    // 0: 2049
	BindPort   int    // of rpcbind; 0: 111
	MountPort  int    // of MOUNT over TCP; 0: the NFS port, then what rpcbind says
	CRC        rnic.CRCMode
	Provider   nfsclient.Provider
	Write      bool   // make a file, write, read back, remove
	Root       string // of this machine's files; "": /
	MountPoint string // in the command lines; "": /mnt

	// The means; nil: those of the system.
	Dial   portprobe.Dialer
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	Now    func() time.Time
	// Segmented dials with TCP segments of at most some bytes.
	Segmented func(most int) portprobe.Dialer

	slow int // by which all bounds of time are multiplied; 0: Slow
}

// Slow is by what all bounds of time are multiplied; tests on a busy machine have more.
var Slow = 1

// most is how long something may take.
func (o *Options) most(usual time.Duration) time.Duration {
	return time.Duration(max(o.slow, 1)) * usual
}

// A Report is the findings in order, and the command lines that should mount the export.
type Report struct {
	Server   string    `json:"server"`           // its host
	Export   string    `json:"export,omitempty"` // that was examined
	OK       bool      `json:"ok"`               // no check failed
	Findings []Finding `json:"checks"`           // in the order in which they ran
	Mount    []string  `json:"mount,omitempty"`  // commands that should work
}

// An exam is one run. The fields below Options are each written by one check, before
// the checks that need it begin; down and what is closed at the end have the lock.
type exam struct {
	Options
	down map[string]bool // names of checks whose warning leaves nothing to build on; set once

	reserved func() bool // this process can use reserved ports; set once

	addr      string     // name: the address that is examined
	device    string     // route: the network interface
	local     netip.Addr // and the address of this host
	mtu       int
	roce      bool // RDMA port: RDMA is RoCE, as asked for or because iWARP does not answer
	rdmaPort  portprobe.Result
	tcpPort   portprobe.Result
	bindPort  portprobe.Result
	rdma      *transport.Client // RPC-over-RDMA
	tcp       *transport.Client // programs over TCP
	rdmaMount bool              // MOUNT is served on the RDMA port
	tcpMount  bool              // and on the TCP port
	locks     bool              // NLM is served
	bound     []rpcbind.Mapping // rpcbind
	mount     *transport.Client // MOUNT
	mountPort int               // of MOUNT over TCP; 0: none
	exports   []mount3.Export   // exports
	export    string            // MNT
	root      nfs3.FH           // MNT
	mounted   bool              // MNT: this host may mount it
	nfs       *nfsclient.Client // FSINFO
	rtmax     int               // FSINFO
	wtmax     int
	rootAttr  nfs3.Fattr // identity
	readOnly  bool       // and the export is, for this host

	mu     sync.Mutex
	closes []func() error
	mounts []string // the command lines
}

// Examine runs all checks, and calls tell, if it is not nil, with each finding as soon
// as those before it are there. It takes some seconds whatever the server does.
func Examine(ctx context.Context, o Options, tell func(Finding)) Report {
	x := newExam(o)
	defer x.close()
	r := Report{Server: o.Host, OK: true}
	runChecks(ctx, x, table(), func(f Finding) {
		r.OK = r.OK && f.Status != Fail
		r.Findings = append(r.Findings, f)
		if tell != nil {
			tell(f)
		}
	})
	r.Export, r.Mount = x.export, x.mounts
	return r
}

func newExam(o Options) *exam {
	setDefault(&o.RDMAPort, nfsclient.PortRDMA)
	setDefault(&o.TCPPort, nfsclient.PortTCP)
	setDefault(&o.BindPort, 111)
	setDefault(&o.Root, "/")
	setDefault(&o.MountPoint, "/mnt")
	setDefault(&o.slow, Slow)
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.Lookup == nil {
		o.Lookup = net.DefaultResolver.LookupNetIP
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Segmented == nil {
		o.Segmented = segmented
	}
	return &exam{Options: o, reserved: rights.MayReserve, down: map[string]bool{portRDMA: true, portTCP: true, portBind: true, rpcRDMA: true}}
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// at is a port of the address that is examined.
func (x *exam) at(port int) string { return net.JoinHostPort(x.addr, strconv.Itoa(port)) }

// wanted is fail where the user wants this transport, and warn where it is the other one.
func (x *exam) wanted(tcp bool, advice, format string, args ...any) Finding {
	if tcp == x.TCP {
		return fail(advice, format, args...)
	}
	return warn(advice, format, args...)
}

// keep has something closed at the end.
func (x *exam) keep(end func() error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closes = append(x.closes, end)
}

func (x *exam) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var errs []error
	for _, end := range slices.Backward(x.closes) { // UMNT goes over a connection that was made before
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}
