// Options: the behavior of a mount, in the words of nfs(5).

package fusefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
)

// LookupCache selects the cached LOOKUP results (lookupcache= of nfs(5)).
type LookupCache uint8

// The values of lookupcache=.
const (
	LookupAll      LookupCache = iota // existing and absent names
	LookupPositive                    // existing names
	LookupNone                        // no names: each use asks the server
)

// Options configures a mount. The zero value behaves like nfs(5) without options.
type Options struct {
	// Source is the first column of /proc/mounts ("server:/export"); "": "nfsrdma".
	Source string

	ReadOnly   bool
	AllowOther bool // users other than the mounting one may use the mount

	// DefaultPermissions makes the kernel check permission bits in addition to the server.
	DefaultPermissions bool

	// The attribute cache: attributes are trusted for the Min at first. Each time they prove
	// unchanged the time doubles, up to the Max. 0: 3, 60, 30 and 60 s; less than 0: none.
	AcRegMin, AcRegMax, AcDirMin, AcDirMax time.Duration

	// NoACL disables reading and setting the server's ACLs. The server still enforces them. Mount
	// sets it if the server does not support NFSACL.
	NoACL bool

	// NoAC trusts no attributes and writes through, so that clients always agree.
	NoAC bool
	// NoCTO omits the check for changes at each open.
	NoCTO bool

	LookupCache LookupCache

	// LocalPosix and LocalFlock keep fcntl(2) and flock(2) locks local to this mount. Otherwise the
	// server's lock manager decides (local_lock= of nfs(5)).
	LocalPosix, LocalFlock bool
	// LockDir is a directory that only this user can access. It records the lock owners. If the
	// process is killed, the next mount of the same Source and root releases them. "": the server
	// keeps such locks.
	LockDir string
	// StableDir is a private directory on stable storage, and Boot names this boot of the machine.
	// If both are set, a mount after a machine crash makes the server free the machine's old locks.
	// Servers accept that from root's mounts.
	StableDir, Boot string
	// Announce registers this mount's lock manager (NLM 4) with the machine's port mapper (rpcbind)
	// until withdraw. The port serves TCP and UDP, and servers call it when a waited-for lock is
	// free. The first wait calls Announce. It fails if the machine has another lock manager, which
	// stays in place. nil: waits poll.
	Announce func(ctx context.Context, at netip.AddrPort) (withdraw func(), err error)
	// AnnounceMonitor registers this mount's status monitor (NSM 1) in the same way; servers notify
	// it after a restart. The first lock calls it. It fails if the machine has a status monitor.
	// nil: only a new connection reveals a restart.
	AnnounceMonitor func(ctx context.Context, at netip.AddrPort) (withdraw func(), err error)

	// Sync makes each write stable on the server before it returns.
	Sync bool
	// NoReaddirplus lists directories only by READDIR.
	NoReaddirplus bool
	// SoftErr returns ETIMEDOUT for calls without an answer within CallTimeout; else EIO.
	SoftErr bool

	// Memory bounds the mount's data in bytes: two thirds for written data until it is stable on
	// the server, the rest for read-ahead. 0: 384 MiB; the minimum is 16 MiB. Buffers of kernel
	// requests in flight are extra (Stats.RequestMemory).
	Memory int64

	// Bounds in bytes: written data of one file, and read-ahead for one reader. 0: the package's
	// default; ReadAhead less than 0: none.
	DirtyFile, ReadAhead int64

	// Cred are the credentials for all callers. nil: each caller's own user, group and
	// supplementary groups.
	Cred *transport.Cred

	// Kerberos returns the credentials of a local user's calls. Mounts with Kerberos
	// (nfsclient.Client.Kerberos) need it, and others do not use it. It must not block: the calls
	// fetch the tickets. If that fails, the call fails with the same error.
	Kerberos func(uid uint32) *transport.Auth

	// FuseOptions are further mount options: nosuid, nodev, noexec, noatime, …
	FuseOptions []string

	// Direct mounts by mount(2), which needs root. Otherwise fusermount3 mounts for any user.
	Direct bool

	// Log receives messages for the user of the machine, one line each; nil: they are dropped.
	Log func(line string)

	// Logger receives the lines of the lock manager's callback server, for operators: see
	// transport.ServerConfig.Logger. nil: slog.Default().
	Logger *slog.Logger
}

// timeouts bound how long attributes of one kind of object are trusted.
type timeouts struct{ min, max time.Duration }

// Default attribute timeouts, as in nfs(5).
const (
	acRegMin = 3 * time.Second
	acRegMax = 60 * time.Second
	acDirMin = 30 * time.Second
	acDirMax = 60 * time.Second
)

// The default memory of a mount, in bytes, and its minimum.
const (
	memoryDefault = 384 << 20
	memoryLeast   = 16 << 20
)

// errBounds is the error for a minimum above its maximum.
var errBounds = errors.New("the least time that attributes are cached is over the most")

// setDefaults completes the options and returns an error for contradictions.
func (o *Options) setDefaults() error {
	o.Source = cmp.Or(o.Source, "nfsrdma")
	if o.Memory == 0 {
		o.Memory = memoryDefault
	}
	o.Memory = max(o.Memory, memoryLeast)
	if o.LookupCache > LookupNone {
		return fmt.Errorf("no such lookup cache: %d", o.LookupCache)
	}
	if o.NoAC {
		o.AcRegMin, o.AcRegMax, o.AcDirMin, o.AcDirMax, o.Sync = -1, -1, -1, -1, true
	}
	if !setTimes(&o.AcRegMin, &o.AcRegMax, acRegMin, acRegMax) || !setTimes(&o.AcDirMin, &o.AcDirMax, acDirMin, acDirMax) {
		return errBounds
	}
	return nil
}

// errOneTicket refuses a mount that would make all users' calls with one Kerberos ticket.
var errOneTicket = errors.New("with Kerberos each user needs tickets: set Options.Kerberos, and no Cred")

// checkSecurity returns an error if users would act as others do, or with less protection.
func (o *Options) checkSecurity(c *nfsclient.Client) error {
	if c.Kerberos() && (o.Kerberos == nil || o.Cred != nil) {
		return errOneTicket
	}
	return nil
}

// setTimes completes the timeouts of one kind of object. If only one is set, the other moves with
// it, as in the kernel's client.
func setTimes(least, most *time.Duration, dmin, dmax time.Duration) bool {
	switch {
	case *least == 0 && *most == 0:
		*least, *most = dmin, dmax
	case *least == 0:
		*least = min(dmin, *most)
	case *most == 0:
		*most = max(dmax, *least)
	}
	*least, *most = max(*least, 0), max(*most, 0)
	return *least <= *most
}
