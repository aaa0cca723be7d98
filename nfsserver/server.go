// The server: its exports and what is common to all of its procedures.

// Package nfsserver serves file trees by NFS version 3 and MOUNT version 3 (RFC 1813).
//
// A Server holds exports, each a name and an FS, and gives the programs to be
// served: the same tables over RDMA and over TCP. As whom a call acts is found out
// here, from its AUTH_SYS caller (identity.go); what that user may do the FS decides,
// or the kernel below it. Attributes before and after a change are taken under a lock of the object, so
// that no change through this server comes between them (locks.go).
//
// Durability: UNSTABLE data is on stable storage after COMMIT, DATA_SYNC and
// FILE_SYNC data before the reply, and so is every change of names and
// attributes unless Options.AsyncNames is set.
package nfsserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// MaxIO is the most bytes of one READ or WRITE (rtmax and wtmax of FSINFO).
const MaxIO = 1 << 20

// An Export is a file tree with the name that clients mount.
type Export struct {
	Name string // a clean absolute path
	FS   FS     // closed with the Server
	// Open, where FS is nil, opens it while the Server is served, and may take any time, as for
	// a file system that does not answer. Until it returns, calls are told to come again
	// later (NFS3ERR_JUKEBOX); if it fails, NFS3ERR_IO.
	Open     func() (FS, error)
	ReadOnly bool
}

// Options makes a Server.
type Options struct {
	Exports []Export
	// Key authenticates file handles; handles live as long as it does. Zero: a random one.
	Key [KeySize]byte
	// Squash says who is believed, and as whom callers act.
	Squash Squash
	// Groups looks up the primary and all groups of a user of this machine; an error
	// stands for a user it does not know. It is called at most once a minute for each
	// user. nil: FileGroups.
	Groups func(uid uint32) (gid uint32, gids []uint32, err error)
	// AsyncNames lets changes of names and attributes be answered before they are
	// on stable storage, which RFC 1813 §4.8 does not allow: a crash of the machine
	// may then take back what a client was told is done. Data written is not affected.
	AsyncNames bool
}

// A Server is a set of exports. All methods may be called at once.
type Server struct {
	// Set once.
	key     sipKey
	exports []*export
	byID    map[uint32]*export
	squash  Squash
	sync    bool

	mounts mountTable
	groups groupTable
	log    transport.RateLog
}

// An export is an Export as the procedures use it. Whatever a call holds while its file
// system keeps it waiting belongs to one export.
type export struct {
	// Set once.
	id       uint32
	name     string
	readOnly bool
	lane     int // of the transport's, as an index of Names

	// Set once, before ready.
	fs    FS
	root  Ref
	info  Info
	verf  nfs3.Verf // of directory cookies
	inUse InUser    // nil: all objects are taken to be in use
	ready atomic.Bool

	opening opening
	stuck   atomic.Bool // calls were left behind in fs, which stays open
	written writeVerifier
	locks   lockTable
	syncs   syncTable
}

// New returns a Server of the exports. It starts nothing: serve its Programs.
func New(o Options) (*Server, error) {
	if len(o.Exports) == 0 {
		return nil, errors.New("nothing to export")
	}
	if o.Key == ([KeySize]byte{}) {
		rand.Read(o.Key[:])
	}
	s := &Server{key: newSipKey(&o.Key), byID: make(map[uint32]*export), squash: o.Squash, sync: !o.AsyncNames}
	s.groups.lookup = o.Groups
	for _, e := range o.Exports {
		if err := s.add(e); err != nil {
			return nil, err
		}
	}
	for i, e := range o.Exports {
		if e.FS == nil {
			go s.exports[i].openLater(e.Open)
		}
	}
	return s, nil
}

// add takes an export in.
func (s *Server) add(e Export) error {
	if !strings.HasPrefix(e.Name, "/") || path.Clean(e.Name) != e.Name {
		return fmt.Errorf("export name %q: want a clean absolute path such as /data", e.Name)
	}
	x := &export{id: exportID(e.Name), name: e.Name, readOnly: e.ReadOnly, lane: len(s.exports)}
	if other := s.byID[x.id]; other != nil {
		return fmt.Errorf("export name %q is too like %q: choose another", e.Name, other.name)
	}
	x.written.renew()
	if e.FS != nil {
		x.served(e.FS)
	}
	s.byID[x.id] = x
	s.exports = append(s.exports, x)
	return nil
}

// exportID is the number of an export in handles: the same in each run.
func exportID(name string) uint32 {
	return uint32(sipKey{}.sum([]byte(name)))
}

// Programs returns the programs to serve: NFS and MOUNT.
func (s *Server) Programs() []*transport.Program {
	programs := []*transport.Program{s.nfsProgram(), s.mountProgram()}
	for _, p := range programs {
		p.Authorize = s.authorize
	}
	return programs
}

// Names are the names of the exports.
func (s *Server) Names() (names []string) {
	for _, x := range s.exports {
		names = append(names, x.name)
	}
	return names
}
