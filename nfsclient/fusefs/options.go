// Options: how a mount behaves, in the words of nfs(5).

package fusefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
)

// LookupCache says which results of looking a name up are kept (lookupcache= of nfs(5)).
type LookupCache uint8

// The values of lookupcache=.
const (
	LookupAll      LookupCache = iota // names that exist, and names that do not
	LookupPositive                    // names that exist
	LookupNone                        // no names: each use asks the server
)

// Options is how a mount behaves. The zero value is that of nfs(5) with no options.
type Options struct {
	// Source is the first column of /proc/mounts ("server:/export"); "": "nfsrdma".
	Source string

	ReadOnly   bool
	AllowOther bool // other users than the one who mounts may use it

	// DefaultPermissions has the kernel check permission bits too, beside the server.
	DefaultPermissions bool

	// The attribute cache: attributes are trusted for the Min at first, and for twice as
	// long each time they prove unchanged, up to the Max. 0: 3, 60, 30 and 60 s; less than 0: none.
	AcRegMin, AcRegMax, AcDirMin, AcDirMax time.Duration

	// NoACL keeps the server's ACLs from being read and set. They count all the same. Mount sets it
	// where the server does not speak NFSACL.
	NoACL bool

	// NoAC trusts no attributes and writes through, so that clients agree at all times.
	NoAC bool
	// NoCTO does not ask the server at each open whether the file has changed.
	NoCTO bool

	LookupCache LookupCache

	// LocalPosix and LocalFlock keep locks of fcntl(2) and of flock(2) between the programs of this
	// mount; else the server's lock manager decides (local_lock= of nfs(5)).
	LocalPosix, LocalFlock bool
	// LockDir is a directory of this user alone in which it is kept who has locks, so that the next
	// mount of the same Source with the same root releases them if the process is killed; "": the
	// server then keeps them.
	LockDir string
	// StableDir is a directory of this user alone on stable storage, and Boot names this start of
	// the machine: where both are given a mount after a crash of the machine has the server free
	// the locks that it had. Servers let root's mounts do that.
	StableDir, Boot string
	// Announce has the port mapper of this machine (rpcbind) know the lock manager of this mount
	// (NLM 4) until withdraw, at a port of its TCP and UDP, so that servers call who waits for a
	// lock. It is called when somebody first does, and fails where the machine has another lock
	// manager, which is then left alone. nil: who waits asks again and again.
	Announce func(ctx context.Context, at netip.AddrPort) (withdraw func(), err error)
	// AnnounceMonitor does the same for the status monitor of this mount (NSM 1), which servers
	// tell that they have started again. It is called with the first lock, and fails where the
	// machine has a status monitor. nil: a restart is noticed by the connection alone.
	AnnounceMonitor func(ctx context.Context, at netip.AddrPort) (withdraw func(), err error)

	// Sync makes each write stable on the server before it returns.
	Sync bool
	// NoReaddirplus lists directories by READDIR alone.
	NoReaddirplus bool
	// SoftErr is ETIMEDOUT for calls that the server did not answer in their CallTimeout, else EIO.
	SoftErr bool

	// Memory bounds all data that the mount holds, in bytes: written data until it is stable on the
	// server, of which it has two thirds, and what is read ahead. 0: 384 MiB; the least is 16 MiB.
	// Buffers of the kernel's own requests under way come besides (Stats.RequestMemory).
	Memory int64

	// Bounds in bytes of written data of one file, and of what is read ahead of one reader.
	// 0: what the package finds right; ReadAhead less than 0: none.
	DirtyFile, ReadAhead int64

	// Cred is who acts on the server for all callers; nil: each caller as himself, with
	// his user, group and supplementary groups.
	Cred *transport.Cred

	// FuseOptions are further options of the mount: nosuid, nodev, noexec, noatime, …
	FuseOptions []string

	// Direct mounts by mount(2), which root may; else fusermount3 does it, for anybody.
	Direct bool

	// Log is told what the user of the machine should know, one line each; nil: nobody is.
	Log func(line string)

	// Logger takes the lines of the server for callbacks of the lock manager, which are for an
	// operator: see transport.ServerConfig.Logger. nil: slog.Default().
	Logger *slog.Logger
}

// timeouts are how long attributes of one kind of object are trusted.
type timeouts struct{ min, max time.Duration }

// The bounds of what is trusted without a word in the options, as of nfs(5).
const (
	acRegMin = 3 * time.Second
	acRegMax = 60 * time.Second
	acDirMin = 30 * time.Second
	acDirMax = 60 * time.Second
)

// The memory of a mount of which nothing else is said, and the least that it works with.
const (
	memoryDefault = 384 << 20
	memoryLeast   = 16 << 20
)

var errBounds = errors.New("the least time that attributes are cached is over the most")

// setDefaults completes the options, and refuses what contradicts itself.
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

// setTimes completes the bounds of one kind of object. One that is given alone moves the
// other with it, as in the kernel's client.
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
