// The checkup: the options, the connections in use, and the results of the checks so far.

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
	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// Options select the server and the checks. Host must be set.
type Options struct {
	Host       string // name or address
	Export     string // path on the server; "": the first listed export
	TCP        bool   // the user wants TCP: the checks do not require RDMA
	RDMAPort   int    // 0: 20049
	TCPPort    int    // 0: 2049
	BindPort   int    // rpcbind's port; 0: 111
	MountPort  int    // port of MOUNT over TCP; 0: the NFS port, then rpcbind's answer
	CRC        rnic.CRCMode
	Provider   nfsclient.Provider
	Security   *secure.Security // nil: AUTH_SYS in clear
	Write      bool             // make a file, write, read back, remove
	Root       string           // the directory with this machine's files; "": /
	MountPoint string           // mount point in the command lines; "": /mnt

	// Functions for connections and names; nil: the system's.
	Dial   portprobe.Dialer
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	Now    func() time.Time
	// Segmented returns a Dialer with TCP segments of at most the given number of bytes.
	Segmented func(most int) portprobe.Dialer

	slow int // multiplies all time limits; 0: Slow
}

// Slow multiplies all time limits. Tests set a larger one for busy machines.
var Slow = 1

// timeLimit returns a time limit, multiplied.
func (o *Options) timeLimit(usual time.Duration) time.Duration {
	return time.Duration(max(o.slow, 1)) * usual
}

// A Report has the findings in order, and the command lines that should mount the export.
type Report struct {
	Server   string    `json:"server"`           // its host
	Export   string    `json:"export,omitempty"` // that was examined
	OK       bool      `json:"ok"`               // no check failed
	Findings []Finding `json:"checks"`           // in the order in which they ran
	Mount    []string  `json:"mount,omitempty"`  // commands that should work
}

// A checkup is one run. Each field from addr to readOnly is written by one check, before the checks
// that need the field start. Its comment begins with the check's name. mu guards closes.
type checkup struct {
	Options
	down map[string]bool // checks that no other check can build on after a warning; set once

	reserved func() bool // this process can use reserved ports; set once

	addr      string     // name: the examined address
	device    string     // route: the network interface
	local     netip.Addr // route: this host's address
	mtu       int
	tlsBroken bool // TLS: wanted, and no session can be made
	roce      bool // RDMA port: RDMA is RoCE, as requested or because iWARP does not answer
	rdmaPort  portprobe.Result
	tcpPort   portprobe.Result
	bindPort  portprobe.Result
	rdma      *transport.Client // RPC-over-RDMA
	tcp       *transport.Client // programs over TCP
	rdmaMount bool              // MOUNT is served on the RDMA port
	tcpMount  bool              // MOUNT is served on the TCP port
	locks     bool              // NLM is served
	bound     []rpcbind.Mapping // rpcbind
	mount     *transport.Client // MOUNT
	mountPort int               // MOUNT: its TCP port; 0: none
	exports   []mount3.Export   // exports
	export    string            // MNT
	flavors   []uint32          // MNT: of the export, as the server prefers them
	root      nfs3.FH           // MNT
	mounted   bool              // MNT: this host may mount the export
	nfs       *nfsclient.Client // FSINFO
	rtmax     int               // FSINFO
	wtmax     int
	demand    transport.XprtSec // FSINFO: the protection that the export needs; XprtNone: the connection has it
	refused   bool              // FSINFO: the server refuses the call
	trusted   bool              // FSINFO: this system trusts the server's certificate
	rootAttr  nfs3.Fattr        // identity
	readOnly  bool              // identity: the export is read-only for this host

	mu     sync.Mutex
	closes []func() error
	mounts []string // the command lines
}

// Examine runs all checks. It calls tell, if not nil, with each finding once all earlier findings
// are complete. All checks are limited in time, so Examine takes only some seconds.
func Examine(ctx context.Context, o Options, tell func(Finding)) Report {
	cu := newCheckup(o)
	defer cu.close()
	r := Report{Server: o.Host, OK: true}
	runChecks(ctx, cu, table(), func(f Finding) {
		r.OK = r.OK && f.Status != Fail
		r.Findings = append(r.Findings, f)
		if tell != nil {
			tell(f)
		}
	})
	r.Export, r.Mount = cu.export, cu.mounts
	return r
}

func newCheckup(o Options) *checkup {
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
	return &checkup{Options: o, reserved: rights.MayReserve, down: map[string]bool{portRDMA: true, portTCP: true, portBind: true, rpcRDMA: true}}
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// portAddr returns a port of the examined address.
func (cu *checkup) portAddr(port int) string { return net.JoinHostPort(cu.addr, strconv.Itoa(port)) }

// failIfWanted returns a failure for the transport that the user wants, and a warning for the
// other.
func (cu *checkup) failIfWanted(tcp bool, advice, format string, args ...any) Finding {
	if tcp == cu.TCP {
		return fail(advice, format, args...)
	}
	return warn(advice, format, args...)
}

// atEnd registers a function to call at the end.
func (cu *checkup) atEnd(end func() error) {
	cu.mu.Lock()
	defer cu.mu.Unlock()
	cu.closes = append(cu.closes, end)
}

func (cu *checkup) close() error {
	cu.mu.Lock()
	defer cu.mu.Unlock()
	var errs []error
	for _, end := range slices.Backward(cu.closes) { // UMNT uses a connection made earlier
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}
