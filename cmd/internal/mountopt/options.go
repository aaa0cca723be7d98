// What the options of a mount say, as plain values.

// Package mountopt reads the options of a mount, which have the names of nfs(5)
// and mount(8), and what is mounted. It has no input and output of its own.
package mountopt

import (
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// A Proto is how the server is reached.
type Proto uint8

// The protos. Default is what the source says: RDMA, or TCP for nfs:// URLs.
const (
	Default Proto = iota
	RDMA
	TCP
	Auto // RDMA, else TCP
)

// A Lookup is which results of name lookups are cached (nfs(5) lookupcache).
type Lookup uint8

// What is cached.
const (
	LookupAll Lookup = iota
	LookupPositive
	LookupNone
)

// A Recovery is what becomes of a call that the server does not answer.
type Recovery uint8

// The recoveries: Hard waits for ever, Soft is EIO and SoftErr ETIMEDOUT after Timeo × Retrans.
const (
	Hard Recovery = iota
	Soft
	SoftErr
)

// An ID is a user or group that may be left out.
type ID struct {
	Set   bool
	Value uint32
}

// Options is what a mount is told, with the defaults of nfs(5) where it is not.
type Options struct {
	// the connection
	Proto     Proto
	Port      int    // 0: the port of the URL, or the transport's default
	MountPort int    // 0: the NFS port, then rpcbind's answer
	LockPort  int    // likewise
	MountHost string // "": the server
	NConnect  int
	Provider  nfsclient.Provider
	CRC       rnic.CRCMode
	AnyPort   bool // noresvport: TCP connections come from any port
	Recovery  Recovery
	Timeo     time.Duration // how long a server may be silent before a call is sent again; 0: the default
	Retrans   int

	// the mount command
	Background bool
	Retry      time.Duration // how long mounting is tried again; < 0: not said

	// transfers and caches
	ReadSize, WriteSize            int // bytes; 0: the most that client and server can
	Memory                         int64
	AttrFileMin, AttrFileMax       time.Duration
	AttrDirMin, AttrDirMax         time.Duration
	NoAttrCache, NoCTO, Sync       bool
	NoReaddirPlus, NoACL           bool
	LocalPosix, LocalFlock         bool // locks that the server does not see
	Lookup                         Lookup
	UID, GID                       ID // act as, for all callers
	AllowOther, DefaultPermissions bool
	OnlyMe                         bool // noallow_other

	// flags of the mount itself
	ReadOnly, NoSuid, NoDev, NoExec, NoAtime bool
	NoSymfollow                              bool
	Contexts                                 string // SELinux labels, as mount(2) takes them

	Warning string // of an option under an old name; "": none
}

// defaults is an Options of which nothing has been said.
func defaults() *Options {
	return &Options{
		NConnect: 1, Provider: nfsclient.AutoProvider, Retrans: 2, Retry: -1,
		AttrFileMin: 3 * time.Second, AttrFileMax: 60 * time.Second,
		AttrDirMin: 30 * time.Second, AttrDirMax: 60 * time.Second,
	}
}

// timeoDefault is timeo of nfs(5) for transports that lose nothing.
const timeoDefault = 60 * time.Second

// SoftTimeout is how long a call of a soft mount lasts: timeo × retrans.
func (o *Options) SoftTimeout() time.Duration {
	timeo := o.Timeo
	if timeo == 0 {
		timeo = timeoDefault
	}
	return timeo * time.Duration(max(o.Retrans, 1))
}
