// The server: its exports and what is common to all of its procedures.

// Package nfsserver serves file trees by NFS version 3 and MOUNT version 3 (RFC 1813),
// over RDMA and TCP. Use it to export a directory (package osfs), memory (memfs) or a
// file tree of your own, an FS, from a program.
//
//	tree, err := osfs.New(dir, osfs.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	server, err := nfsserver.New(nfsserver.Options{
//		Squash:  nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())},
//		Exports: []nfsserver.Export{{Name: "/share", FS: tree, ReadOnly: true}},
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer server.Close() // and the tree
//	service, err := server.Start(nfsserver.Listen{TCP: "127.0.0.1:0", RDMA: "127.0.0.1:0"})
//
// test/examples/readonly of this module is a whole program that serves a tree of its
// own, an archive. An FS needs the methods of the interface FS only. ACLer, Locker,
// LaterReader and NonBlocker are for an FS that can do more.
//
// A Server holds exports, each a name and an FS, and has the programs to serve: the
// same tables over RDMA and over TCP. Options.Squash and the rules of the export
// determine the user as whom a call acts. The FS, or the kernel below it, decides about
// the permissions of that user.
//
// Durability: UNSTABLE data is on stable storage after COMMIT, DATA_SYNC and
// FILE_SYNC data before the reply, and so is every change of names and
// attributes unless Options.AsyncNames is set.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package nfsserver

// Internals: identity.go finds the user of a call. Attributes before and after a change
// are taken under a lock of the object (objectlocks.go), so that no change through this server
// comes between them.

import (
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/transport"
)

// MaxIO is the most bytes of one READ or WRITE (rtmax and wtmax of FSINFO).
const MaxIO = 1 << 20

// An Export is a file tree with the name that clients mount.
type Export struct {
	Name string // a clean absolute path
	// ByPath: Name is the path of FS on this machine. If it is a symbolic link, MNT also takes its
	// target (Info.Path), as mountd does.
	ByPath bool
	FS     FS // closed with the Server
	// Open, where FS is nil, opens it while the Server is served, and may take any time, as for
	// a file system that does not answer. Until it returns, calls are told to come again
	// later (NFS3ERR_JUKEBOX); if it fails, NFS3ERR_IO.
	Open     func() (FS, error)
	ReadOnly bool // whatever Rules say
	// Rules say which clients may use the export, and how (exports(5)). nil: all may, as Squash
	// says.
	Rules *exports.Export
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
	// NoACL leaves the NFSACL program out: clients see modes only, and set no ACLs.
	NoACL bool
	// Names tells the names of clients to Rules. nil: an exports.Names that asks as this machine
	// does.
	Names exports.Resolver
	// Auditor is told of changes of names and attributes. nil: nobody is.
	Auditor Auditor
	// Logger takes lines for an operator: mounts, refused clients, exports that cannot be opened;
	// and those of the transport, where Listen.RPC has no Logger of its own. Clients cause at most
	// one a second of each text, in the long run. nil: slog.Default(); slog.DiscardHandler silences
	// it.
	Logger *slog.Logger
}

// A Server is a set of exports. All methods may be called at once.
type Server struct {
	// Set once.
	key    sipKey
	squash Squash
	async  bool // Options.AsyncNames
	noACL  bool
	names  exports.Resolver
	audit  Auditor // nil: nobody is told of changes

	table atomic.Pointer[table] // of this moment

	mu      sync.Mutex  // guards all below; replace holds it throughout
	retired []*export   // those of earlier tables that are not closed yet
	lanes   int         // of the transport's, so far
	free    []int       // those of them that no export has
	decided tally.Table // decisions of the FSs of exports that are closed

	refused refusedClients

	mounts   mountTable
	squashed seenTable     // clients whose root was told of
	waits    chan struct{} // has an element for each MNT that waits for names
	groups   groupTable
	log      transport.RateLog
}

// New returns a Server of the exports. It starts nothing: serve its Programs.
func New(o Options) (*Server, error) {
	if o.Key == ([KeySize]byte{}) {
		rand.Read(o.Key[:])
	}
	s := &Server{decided: tally.Table{}, key: newSipKey(&o.Key), squash: o.Squash, async: o.AsyncNames, noACL: o.NoACL, names: o.Names, audit: o.Auditor, waits: make(chan struct{}, nameWaits)}
	s.groups.lookup, s.log.Logger = o.Groups, o.Logger
	if s.names == nil {
		s.names = exports.NewNames(nil)
	}
	t, opens, err := s.newTable(o.Exports, nil)
	if err != nil {
		return nil, err
	}
	s.table.Store(t)
	for x, open := range opens {
		go x.openLater(open, o.Logger)
	}
	return s, nil
}

// Programs returns the programs to serve: NFS and MOUNT, and NFSACL unless Options.NoACL is set.
func (s *Server) Programs() []*transport.Program {
	programs := []*transport.Program{s.nfsProgram(), s.mountProgram()}
	if !s.noACL {
		programs = append(programs, s.aclProgram())
	}
	for _, p := range programs {
		p.Authorize = s.authorize
	}
	return programs
}

// Names are the names of the exports.
func (s *Server) Names() (names []string) {
	for _, e := range s.table.Load().entries {
		names = append(names, e.x.name)
	}
	return names
}
