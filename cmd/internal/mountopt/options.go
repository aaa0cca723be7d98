// The options of a mount as plain values.

// Package mountopt parses mount options, which have the names of nfs(5) and mount(8), and the mount
// source. It does no I/O.
package mountopt

import (
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// A Proto selects the transport to the server.
type Proto uint8

// The protos. Default depends on the source: RDMA, or TCP for nfs:// URLs.
const (
	Default Proto = iota
	RDMA
	TCP
	Auto // RDMA, else TCP
)

// A Lookup selects which lookup results are cached (nfs(5) lookupcache).
type Lookup uint8

// The cached results.
const (
	LookupAll Lookup = iota
	LookupPositive
	LookupNone
)

// A Recovery selects the result of an unanswered call.
type Recovery uint8

// The recoveries: Hard waits forever; after Timeo × Retrans, Soft returns EIO and SoftErr
// ETIMEDOUT.
const (
	Hard Recovery = iota
	Soft
	SoftErr
)

// An ID is an optional user or group.
type ID struct {
	Set   bool
	Value uint32
}

// Options are the options of a mount, with defaults as in nfs(5).
type Options struct {
	// the connection
	Proto     Proto
	Port      int    // 0: the port of the URL, or the transport's default
	MountPort int    // 0: the NFS port, then rpcbind's answer
	LockPort  int    // 0: the NFS port, then rpcbind's answer
	MountHost string // "": the server
	NConnect  int
	Provider  nfsclient.Provider
	CRC       rnic.CRCMode
	AnyPort   bool // noresvport: TCP connections use any port
	Recovery  Recovery
	Timeo     time.Duration // time without a reply before a retransmission; 0: the default
	Retrans   int
	Security  secure.Settings

	// the mount command
	Background bool
	Retry      time.Duration // how long to retry mounting; < 0: not set

	// transfers and caches
	ReadSize, WriteSize            int // bytes; 0: the maximum of client and server
	Memory                         int64
	AttrFileMin, AttrFileMax       time.Duration
	AttrDirMin, AttrDirMax         time.Duration
	NoAttrCache, NoCTO, Sync       bool
	NoReaddirPlus, NoACL           bool
	LocalPosix, LocalFlock         bool // locks that the server does not see
	Lookup                         Lookup
	UID, GID                       ID // identity for all callers
	AllowOther, DefaultPermissions bool
	OnlyMe                         bool // noallow_other

	// flags of the mount
	ReadOnly, NoSuid, NoDev, NoExec, NoAtime bool
	NoSymfollow                              bool
	Contexts                                 string // SELinux labels in the form of mount(2)

	Warning string // about an option given by an old name; "": none
}

// defaults returns the Options without any option set.
func defaults() *Options {
	return &Options{
		NConnect: 1, Provider: nfsclient.AutoProvider, Retrans: 2, Retry: -1,
		AttrFileMin: 3 * time.Second, AttrFileMax: 60 * time.Second,
		AttrDirMin: 30 * time.Second, AttrDirMax: 60 * time.Second,
	}
}

// timeoDefault is the default timeo in nfs(5) for reliable transports.
const timeoDefault = 60 * time.Second

// SoftTimeout returns the time limit of a call of a soft mount: timeo × retrans.
func (o *Options) SoftTimeout() time.Duration {
	timeo := o.Timeo
	if timeo == 0 {
		timeo = timeoDefault
	}
	return timeo * time.Duration(max(o.Retrans, 1))
}
